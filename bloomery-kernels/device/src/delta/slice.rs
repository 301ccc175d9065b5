//! Rows of S in the registers of a warp.

use super::super::abi::delta::{DIM, DeltaArgs, WARP_ROWS};
use super::super::simt::{
    fma, lane, ld_global_f32x4, ld_shared_f32, ld_shared_u32x4, shfl_xor_f32, st_global_f32x4,
};

/// Fours of keys of a lane.
pub(super) const QUADS: usize = DIM as usize / 32;
/// Rows of a lane.
const ROWS: usize = WARP_ROWS as usize / 4;

/// What a lane has of a row of keys or queries: `4 (lane / 4 + 8 m) ..` for every m.
pub(super) type Keys = [[f32; 4]; QUADS];

/// Of the row at `at` in shared memory.
///
/// # Safety
/// It is there.
#[inline(always)]
pub(super) unsafe fn keys(at: u32) -> Keys {
    let (mut out, mut m) = ([[0.0; 4]; QUADS], 0);
    while m < QUADS {
        out[m] = ld_shared_u32x4(at + 16 * (lane() / 4) + 128 * m as u32).map(f32::from_bits);
        m += 1;
    }
    out
}

/// Where a row of activations is in shared memory: q, and v of the warp's rows of S.
#[derive(Clone, Copy)]
pub(super) struct Inputs {
    pub(super) q: u32,
    pub(super) v: u32,
}

/// What belongs to a row of a head.
#[derive(Clone, Copy)]
pub(super) struct Gates {
    pub(super) decay: f32,
    pub(super) beta: f32,
    /// The product of k and q.
    pub(super) kq: f32,
}

/// Eight rows of S: this lane has rows `lane % 4` and `4 + lane % 4`, and of them its [`Keys`].
#[derive(Clone, Copy)]
pub(super) struct Slice {
    s: [[[f32; 4]; QUADS]; ROWS],
}

impl Slice {
    /// Rows `first ..` of a head's S, of the state at `from`, or zeros without one.
    ///
    /// # Safety
    /// There is such a state.
    #[inline(always)]
    pub(super) unsafe fn load(args: &DeltaArgs, from: u64, head: u32, first: u32) -> Self {
        let mut out = Self { s: [[[0.0; 4]; QUADS]; ROWS] };
        if from == 0 {
            return out;
        }
        let (mut row, mut r) = (place(args, from, head, first), 0);
        while r < ROWS {
            let mut m = 0;
            while m < QUADS {
                if exists(args, first, r, m) {
                    out.s[r][m] = ld_global_f32x4(row + 128 * m as u64);
                }
                m += 1;
            }
            row += 16 * u64::from(args.key_dim);
            r += 1;
        }
        out
    }

    /// Writes them to the state at `to`.
    ///
    /// # Safety
    /// There is such a state.
    #[inline(always)]
    pub(super) unsafe fn store(&self, args: &DeltaArgs, to: u64, head: u32, first: u32) {
        let (mut row, mut r) = (place(args, to, head, first), 0);
        while r < ROWS {
            let mut m = 0;
            while m < QUADS {
                if exists(args, first, r, m) {
                    st_global_f32x4(row + 128 * m as u64, self.s[r][m]);
                }
                m += 1;
            }
            row += 16 * u64::from(args.key_dim);
            r += 1;
        }
    }

    /// One row of activations with keys `k`: the result for row `lane()` of the warp's, in the first eight lanes. `ahead` is
    /// called when nothing but S is left to do: what it gives is on its way meanwhile. With `CHANNELS` S keeps `kept` of each key, and
    /// no decay is asked for.
    ///
    /// # Safety
    /// Every lane of the warp gets here; the inputs are there, zeros in place of keys and rows that do not exist.
    #[inline(always)]
    pub(super) unsafe fn step<const CHANNELS: bool, T>(
        &mut self,
        (k, kept): (&Keys, &Keys),
        inputs: Inputs,
        Gates { decay, beta, kq }: Gates,
        ahead: impl FnOnce() -> T,
    ) -> (f32, T) {
        let decay = if CHANNELS { 1.0 } else { decay };
        if CHANNELS {
            self.fade(kept);
        }
        let row = 4 * (lane() % 4);
        let v = [ld_shared_f32(inputs.v + row), ld_shared_f32(inputs.v + row + 16)];
        let mut p = [self.dot(0, k), self.dot(1, k)];
        let q = keys(inputs.q);
        let o = [self.dot(0, &q), self.dot(1, &q)];
        let mut mask = 4;
        while mask < 32 {
            p = [p[0] + shfl_xor_f32(p[0], mask), p[1] + shfl_xor_f32(p[1], mask)];
            mask *= 2;
        }
        let ahead = ahead();
        let d = [beta * fma(-decay, p[0], v[0]), beta * fma(-decay, p[1], v[1])];
        let mut r = 0;
        while r < ROWS {
            let mut m = 0;
            while m < QUADS {
                let mut i = 0;
                while i < 4 {
                    self.s[r][m][i] = fma(k[m][i], d[r], decay * self.s[r][m][i]);
                    i += 1;
                }
                m += 1;
            }
            r += 1;
        }
        // Nobody waits for these: the lanes share the two sums.
        let second = lane() & 4 != 0;
        let (keep, send) = if second { (o[1], o[0]) } else { (o[0], o[1]) };
        let mut sum = keep + shfl_xor_f32(send, 4);
        sum += shfl_xor_f32(sum, 8);
        sum += shfl_xor_f32(sum, 16);
        (fma(kq, if second { d[1] } else { d[0] }, decay * sum), ahead)
    }

    /// Leaves `kept` of each key.
    #[inline(always)]
    fn fade(&mut self, kept: &Keys) {
        let mut r = 0;
        while r < ROWS {
            let mut m = 0;
            while m < QUADS {
                let mut i = 0;
                while i < 4 {
                    self.s[r][m][i] *= kept[m][i];
                    i += 1;
                }
                m += 1;
            }
            r += 1;
        }
    }

    /// This lane's part of a row's product: two chains.
    #[inline(always)]
    fn dot(&self, r: usize, x: &Keys) -> f32 {
        let (mut sums, mut m) = ([0.0; 2], 0);
        while m < QUADS {
            let mut i = 0;
            while i < 4 {
                sums[m % 2] = fma(self.s[r][m][i], x[m][i], sums[m % 2]);
                i += 1;
            }
            m += 1;
        }
        sums[0] + sums[1]
    }
}

/// The lane's first four keys in the state at `state`.
#[inline(always)]
fn place(args: &DeltaArgs, state: u64, head: u32, first: u32) -> u64 {
    let ring = (args.taps - 1) * args.channels();
    let row = head * args.value_dim + first + lane() % 4;
    state + 4 * u64::from(ring + row * args.key_dim + 4 * (lane() / 4))
}

/// Whether there are keys `m` of row `r` of the lane.
#[inline(always)]
fn exists(args: &DeltaArgs, first: u32, r: usize, m: usize) -> bool {
    first + lane() % 4 + 4 * (r as u32) < args.value_dim && 4 * (lane() / 4 + 8 * m as u32) < args.key_dim
}
