//! Products of a [tile](super::abi::tiles) of weights with 8 rows of activations on the tensor cores.
//!
//! A tile is loaded as it lies in memory, then unpacked to signed bytes: eight operands of 16 rows by 32 values. Products of
//! bytes are summed as integers within a block, so they are exact; the block's scales make one float of them. What a tile adds
//! to a sum is rounded once more: **sums run over the tiles of a row in their order, whatever the number of rows of activations
//! and however the tiles are shared out**, so a row's results do not depend on its company.

mod iq4;
mod k3;
mod k45;
mod k6;
mod q5;
mod q8;

use super::abi::formats;
use super::simt::{
    fma, half, lane, ld_shared_f32, ld_shared_u32x2, ld_shared_u32x4, mma_f16_exact, mma_s8_16, mma_s8_32,
    signed_byte, sub_halves,
};

/// A lane's part of a tile, as loaded.
pub(crate) type Raw = [u32; 40];
/// Nothing loaded.
pub(crate) const EMPTY: Raw = [0; 40];

/// How a tile's products are scaled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// Of 32 values.
    Each32,
    /// Of 32 values, and a minimum that is taken off.
    Minimum,
    /// Of 16 values, which are `BIAS` too large.
    Each16,
    /// A float for 32 values, on both sides.
    Floats,
    /// As that, and a minimum that is added.
    FloatMinimum,
}

/// A lane's part of a tile, ready to be multiplied. `[row g, row g + 8]` where there are two.
#[derive(Clone, Copy)]
pub(crate) struct Unpacked {
    /// Eight operands of 32 values.
    pub(crate) a: [[u32; 4]; 8],
    /// A signed byte for every 32 or 16 values; floats: 8 half-precision numbers.
    pub(crate) scales: [[u32; 4]; 2],
    /// What is multiplied with the sums of 16 activations: minimums, or scales of values with a bias.
    pub(crate) sums: [u32; 4],
    pub(crate) d: [f32; 2],
    pub(crate) dmin: [f32; 2],
    /// Minimums of 32 values: 8 half-precision numbers.
    pub(crate) mins: [[u32; 4]; 2],
}

/// A format.
pub(crate) trait Tile {
    const SCALING: Scaling;
    const BIAS: i32 = 0;

    /// Loads this lane's part of the tile at `at` of shared memory.
    ///
    /// # Safety
    /// A tile of the format is there, aligned to 16 bytes.
    unsafe fn load(at: u32) -> Raw;

    /// Makes operands of it.
    fn unpack(raw: &Raw) -> Unpacked;
}

pub(crate) use iq4::IQ4XS;
pub(crate) use k3::Q3K;
pub(crate) use k6::Q6K;
pub(crate) use k45::{Q4K, Q5K};
pub(crate) use q5::Q5_1;
pub(crate) use q8::Q8_0;

/// Chunks `0..N` of the tile at `at`.
#[inline(always)]
unsafe fn load_chunks<const N: usize>(at: u32, raw: &mut Raw) {
    let at = at + 16 * lane();
    let mut c = 0;
    while c < N {
        let words = ld_shared_u32x4(at + 512 * c as u32);
        (raw[4 * c], raw[4 * c + 1], raw[4 * c + 2], raw[4 * c + 3]) =
            (words[0], words[1], words[2], words[3]);
        c += 1;
    }
}

/// An operand from a chunk's words: rows g and g + 8 alternate.
#[inline(always)]
fn operand(words: [u32; 4]) -> [u32; 4] {
    [words[0], words[2], words[1], words[3]]
}

#[inline(always)]
fn chunk(raw: &Raw, c: usize) -> [u32; 4] {
    [raw[4 * c], raw[4 * c + 1], raw[4 * c + 2], raw[4 * c + 3]]
}

/// Bytes of each word through `f`.
#[inline(always)]
fn each(words: [u32; 4], f: impl Fn(u32) -> u32) -> [u32; 4] {
    [f(words[0]), f(words[1]), f(words[2]), f(words[3])]
}

#[inline(always)]
fn both(low: [u32; 4], high: [u32; 4]) -> [u32; 4] {
    [low[0] | high[0], low[1] | high[1], low[2] | high[2], low[3] | high[3]]
}

/// Two unsigned bytes, at bits 0 and 16, as half-precision numbers.
#[inline(always)]
fn halves(bytes: u32) -> u32 {
    // 1024 + n has n in its last bits.
    sub_halves(bytes | 0x6400_6400, 0x6400_6400)
}

/// Two signed bytes, at bits 0 and 8, as half-precision numbers.
#[inline(always)]
fn signed_halves(bytes: u32) -> u32 {
    let shifted = (bytes ^ 0x8080) & 0xffff;
    sub_halves((shifted | shifted << 8) & 0x00ff_00ff | 0x6400_6400, 0x6480_6480)
}

/// Scales 2 t, 2 t + 1 and 2 t + 8, 2 t + 9 of 16.
#[inline(always)]
fn pairs_of_sixteen(scales: [u32; 4]) -> [u32; 2] {
    let t = lane() % 4;
    let (low, high) = if t < 2 { (scales[0], scales[2]) } else { (scales[1], scales[3]) };
    let shift = 16 * (t % 2);
    [signed_halves(low >> shift), signed_halves(high >> shift)]
}

/// Where a lane finds its activations in shared memory: see [`rounded`](super::rounded).
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    /// Values of row g, from this lane's on.
    pub(crate) values: u32,
    /// Sums of row g, from this lane's on.
    pub(crate) sums: u32,
    /// Scales of rows 2 t and 2 t + 1.
    pub(crate) scales: [u32; 2],
    /// Bytes of a block's scales.
    pub(crate) scale_bytes: u32,
}

impl Columns {
    /// The same of another block of the rows.
    #[inline(always)]
    pub(crate) fn of_block(self, block: u32) -> Self {
        let scales = self.scale_bytes * block;
        Self {
            values: self.values + 256 * block,
            sums: self.sums + 32 * block,
            scales: [self.scales[0] + scales, self.scales[1] + scales],
            ..self
        }
    }
}

/// Half-precision number `s` of eight.
#[inline(always)]
fn half_of(words: [u32; 4], s: usize) -> f32 {
    half((words[s / 2] >> (16 * (s % 2))) as u16)
}

/// [`product`] of a tile with minimums of 32 values, in the kernels of few rows, which have fewer registers left: activations are loaded
/// one by one.
#[inline(always)]
unsafe fn product_of_few(tile: &Unpacked, x: Columns) -> [f32; 4] {
    let (mut out, mut s) = ([0.0; 4], 0);
    while s < 8 {
        let b = ld_shared_u32x2(x.values + 64 * (s as u32 / 2) + 8 * (s as u32 % 2));
        let (c, sums) = (mma_s8_32(tile.a[s], b), mma_s8_32([0x0101_0101; 4], b));
        let at = 4 * s as u32;
        let scales = [ld_shared_f32(x.scales[0] + at), ld_shared_f32(x.scales[1] + at)];
        let mut i = 0;
        while i < 4 {
            let (d, m) = (half_of(tile.scales[i / 2], s), half_of(tile.mins[i / 2], s));
            out[i] = fma(d * scales[i % 2], c[i] as f32, out[i]);
            out[i] = fma(m * scales[i % 2], sums[i % 2] as f32, out[i]);
            i += 1;
        }
        s += 1;
    }
    out
}

/// What the tile adds to rows g (columns 2 t, 2 t + 1) and g + 8 of the sums.
///
/// # Safety
/// Every lane of the warp gets here; the activations are there.
#[inline(always)]
pub(crate) unsafe fn product<F: Tile>(tile: &Unpacked, x: Columns) -> [f32; 4] {
    let mut b = [[0; 4]; 4];
    let mut p = 0;
    while p < 4 {
        b[p] = ld_shared_u32x4(x.values + 64 * p as u32);
        p += 1;
    }
    let mut out = [0.0; 4];
    if matches!(F::SCALING, Scaling::Floats | Scaling::FloatMinimum) {
        let mut s = 0;
        while s < 8 {
            let b = &b[s / 2];
            let b = if s % 2 == 0 { [b[0], b[1]] } else { [b[2], b[3]] };
            let c = mma_s8_32(tile.a[s], b);
            let mut sums = [0; 4];
            if matches!(F::SCALING, Scaling::FloatMinimum) {
                sums = mma_s8_32([0x0101_0101; 4], b);
            }
            let at = 4 * s as u32;
            let scales = [ld_shared_f32(x.scales[0] + at), ld_shared_f32(x.scales[1] + at)];
            let mut i = 0;
            while i < 4 {
                let d = half_of(tile.scales[i / 2], s);
                out[i] = fma(d * scales[i % 2], c[i] as f32, out[i]);
                if matches!(F::SCALING, Scaling::FloatMinimum) {
                    let m = half_of(tile.mins[i / 2], s);
                    out[i] = fma(m * scales[i % 2], sums[i] as f32, out[i]);
                }
                i += 1;
            }
            s += 1;
        }
        return out;
    }
    let mut total = [0; 4];
    let mut s = 0;
    while s < 8 {
        let (a, b) = (tile.a[s], &b[s / 2]);
        let b = if s % 2 == 0 { [b[0], b[1]] } else { [b[2], b[3]] };
        if matches!(F::SCALING, Scaling::Each16) {
            let mut h = 0;
            while h < 2 {
                let c = mma_s8_16([a[2 * h], a[2 * h + 1]], b[h]);
                let mut i = 0;
                while i < 4 {
                    total[i] += signed_byte(tile.scales[i / 2][s / 2], (2 * (s % 2) + h) as u32) * c[i];
                    i += 1;
                }
                h += 1;
            }
        } else {
            let c = mma_s8_32(a, b);
            let mut i = 0;
            while i < 4 {
                total[i] += signed_byte(tile.scales[i / 2][s / 4], (s % 4) as u32) * c[i];
                i += 1;
            }
        }
        s += 1;
    }
    let mut sums = [0.0; 4];
    if !matches!(F::SCALING, Scaling::Each32) {
        sums = mma_f16_exact(tile.sums, ld_shared_u32x2(x.sums));
    }
    let scales = [ld_shared_f32(x.scales[0]), ld_shared_f32(x.scales[1])];
    let mut i = 0;
    while i < 4 {
        let (row, scale) = (i / 2, scales[i % 2]);
        if matches!(F::SCALING, Scaling::Each16) {
            total[i] -= F::BIAS * (sums[i] as i32);
        }
        out[i] = tile.d[row] * scale * total[i] as f32;
        if matches!(F::SCALING, Scaling::Minimum) {
            out[i] = fma(-(tile.dmin[row] * scale), sums[i], out[i]);
        }
        i += 1;
    }
    out
}

/// The formats whose activations are rounded in blocks of 256, behind one call.
macro_rules! by_format {
    ($format:expr, $tile:ident => $body:expr) => {
        match $format {
            formats::Q5_K => {
                type $tile = Q5K;
                $body
            }
            formats::Q6_K => {
                type $tile = Q6K;
                $body
            }
            formats::Q3_K => {
                type $tile = Q3K;
                $body
            }
            formats::IQ4_XS => {
                type $tile = IQ4XS;
                $body
            }
            _ => {
                type $tile = Q4K;
                $body
            }
        }
    };
}

/// Loads this lane's part of the tile at `at` of shared memory. `MINIMUMS`: Q5_1 is among the formats, which gates do without: their
/// kernels have no registers left.
///
/// # Safety
/// A tile of the format is there, as [`Tile::load`] wants it.
#[inline(always)]
pub(crate) unsafe fn load<const MINIMUMS: bool>(format: u32, at: u32) -> Raw {
    if MINIMUMS && format == formats::Q5_1 {
        return Q5_1::load(at);
    }
    if format == formats::Q8_0 {
        return Q8_0::load(at);
    }
    by_format!(format, F => F::load(at))
}

/// What a tile adds to the sums.
///
/// # Safety
/// Every lane gets here; `raw` is of the format, which wants `scales` scales of a block, and the activations are there.
#[inline(always)]
pub(crate) unsafe fn multiply<const MINIMUMS: bool>(
    format: u32,
    scales: u32,
    raw: &Raw,
    x: Columns,
) -> [f32; 4] {
    if MINIMUMS && format == formats::Q5_1 {
        return product_of_few(&Q5_1::unpack(raw), x);
    }
    if scales == 8 {
        return product::<Q8_0>(&Q8_0::unpack(raw), x);
    }
    by_format!(format, F => product::<F>(&F::unpack(raw), x))
}
