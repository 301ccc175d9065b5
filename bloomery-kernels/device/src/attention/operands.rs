//! Keys and values of a decode step, from global memory to the tensor cores' operands.

use super::super::abi::attention::{CHUNK, PAGE};
use super::super::simt::{fma, half, half2, lane, ld_global_u32x2, ld_shared_u32x4, mma, shared_base};
use super::items::Item;
use super::kind::Kind;
use super::{AttendArgs, head_bytes, page};

/// Sixteens of positions of a chunk.
pub(super) const SIXTEENS: usize = CHUNK as usize / 16;

/// Offsets in shared memory.
pub(super) struct Layout {
    /// Operands of the queries: 16 bytes for each lane and 16 dimensions.
    pub(super) query: u32,
    /// The weights' operands: 16 bytes for each lane and 16 positions. Scaled kinds: the weights in f32.
    pub(super) weights: u32,
    /// `[warp][head]` f32.
    pub(super) most: u32,
    pub(super) sums: u32,
    pub(super) ticket: u32,
    /// The first position that the row sees.
    pub(super) low: u32,
    /// `[head][piece]` f32.
    pub(super) shares: u32,
}

impl Layout {
    #[inline(always)]
    pub(super) fn new(chunks: u32) -> Self {
        let query = shared_base();
        let weights = query + 1024 * chunks;
        let most = weights + 512 * SIXTEENS as u32;
        let (sums, ticket) = (most + 256, most + 512);
        Self { query, weights, most, sums, ticket, low: ticket + 4, shares: ticket + 16 }
    }
}

/// Two values as halves and what is left of them.
#[inline(always)]
pub(super) fn halves_of(a: f32, b: f32) -> [u32; 2] {
    let upper = half2(a, b);
    [upper, half2(a - half(upper as u16), b - half((upper >> 16) as u16))]
}

/// Bits of the halves of two positions that exist, `left` of them from the first one on.
#[inline(always)]
pub(super) fn mask(left: i32) -> u32 {
    if left >= 2 {
        u32::MAX
    } else if left == 1 {
        0xffff
    } else {
        0
    }
}

/// Scale `i` of four neighbouring positions.
#[inline(always)]
pub(super) fn scale(four: [u32; 2], i: usize) -> f32 {
    half((four[i / 2] >> (16 * (i % 2))) as u16)
}

/// Keys of a warp's positions: `[sixteen][eight of positions][32 dimensions]`.
pub(super) struct Keys<K: Kind, const CHUNKS: usize, const BLOCKS: usize> {
    pub(super) values: [[[K::Eight; CHUNKS]; 2]; BLOCKS],
    pub(super) scales: [[[u32; 2]; CHUNKS]; BLOCKS],
}

impl<K: Kind, const CHUNKS: usize, const BLOCKS: usize> Keys<K, CHUNKS, BLOCKS> {
    /// Of the chunk at `start`; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load(args: &AttendArgs, item: &Item, start: u32, warp: u32) -> Self {
        let cache = &args.cache;
        let (g, t, dim) = (lane() / 4, lane() % 4, cache.key_dim);
        let mut keys = Self { values: [[[K::ZERO; CHUNKS]; 2]; BLOCKS], scales: [[[0; 2]; CHUNKS]; BLOCKS] };
        let mut b = 0;
        while b < BLOCKS {
            let first = start + 16 * (warp * BLOCKS as u32 + b as u32);
            if first < item.end {
                let part =
                    page(cache, item.sequence, first) * u64::from(cache.kv_heads) + u64::from(item.kv_head);
                let base = cache.keys + part * u64::from(head_bytes::<K>(dim));
                let mut i = 0;
                while i < 2 {
                    // A lane's two columns of the scores are neighbours, and both products' columns are four neighbours.
                    let offset = first % PAGE + 4 * (g / 2) + 2 * i as u32 + g % 2;
                    let mut c = 0;
                    while c < CHUNKS {
                        // Beyond the key any of its values will do: queries are zero there.
                        let d = (32 * c as u32 + 8 * t).min(dim - 8);
                        keys.values[b][i][c] = K::load(base + u64::from(K::BYTES * (offset * dim + d)));
                        c += 1;
                    }
                    i += 1;
                }
                if K::SCALED {
                    let mut c = 0;
                    while c < CHUNKS {
                        let group = (c as u32).min(dim / 32 - 1);
                        let at = PAGE * dim + 2 * (group * PAGE + first % PAGE + 4 * t);
                        keys.scales[b][c] = ld_global_u32x2(base + u64::from(at));
                        c += 1;
                    }
                }
            }
            b += 1;
        }
        keys
    }

    /// Scores of a head and the four positions of a lane in every sixteen.
    #[inline(always)]
    pub(super) unsafe fn scores(&self, layout: &Layout) -> [[f32; 4]; BLOCKS] {
        let mut scores = [[0.0; 4]; BLOCKS];
        let mut c = 0;
        let mut sums = [[[0.0; 4]; 2]; BLOCKS];
        while c < CHUNKS {
            let at = layout.query + 1024 * c as u32 + 16 * lane();
            let query = [ld_shared_u32x4(at), ld_shared_u32x4(at + 512)];
            let mut b = 0;
            while b < BLOCKS {
                let mut i = 0;
                while i < 2 {
                    let h = K::halves(self.values[b][i][c]);
                    let before = if K::SCALED { [0.0; 4] } else { sums[b][i] };
                    let sum = mma(before, query, [[h[0], h[1]], [h[2], h[3]]]);
                    if K::SCALED {
                        let factors = self.scales[b][c];
                        scores[b][2 * i] = fma(sum[0] + sum[2], scale(factors, 2 * i), scores[b][2 * i]);
                        scores[b][2 * i + 1] =
                            fma(sum[1] + sum[3], scale(factors, 2 * i + 1), scores[b][2 * i + 1]);
                    } else {
                        sums[b][i] = sum;
                    }
                    i += 1;
                }
                b += 1;
            }
            c += 1;
        }
        if !K::SCALED {
            let mut b = 0;
            while b < BLOCKS {
                let [x, y] = sums[b];
                scores[b] = [x[0] + x[2], x[1] + x[3], y[0] + y[2], y[1] + y[3]];
                b += 1;
            }
        }
        scores
    }
}

/// Values of a chunk's positions and a part of a warp's dimensions: `[16 dimensions][sixteen]`.
#[derive(Clone, Copy)]
pub(super) struct Values<K: Kind, const EIGHTS: usize> {
    pub(super) values: [[K::Eight; SIXTEENS]; EIGHTS],
    pub(super) scales: [[u32; 2]; SIXTEENS],
}

impl<K: Kind, const EIGHTS: usize> Values<K, EIGHTS> {
    pub(super) const NONE: Self = Self { values: [[K::ZERO; SIXTEENS]; EIGHTS], scales: [[0; 2]; SIXTEENS] };

    /// First dimension of a sixteen of a part; one of the values' whatever their width.
    #[inline(always)]
    pub(super) fn dimension(part: u32, e: usize, dim: u32) -> u32 {
        (16 * (part * EIGHTS as u32 + e as u32)).min(dim - 16)
    }

    /// Of the chunk at `start`; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load(args: &AttendArgs, item: &Item, start: u32, section: u32) -> Self {
        let cache = &args.cache;
        let (g, t, dim) = (lane() / 4, lane() % 4, cache.value_dim);
        let mut values = Self::NONE;
        let base = |position: u32| {
            let part =
                page(cache, item.sequence, position) * u64::from(cache.kv_heads) + u64::from(item.kv_head);
            cache.values + part * u64::from(head_bytes::<K>(dim))
        };
        // Two pages, or twice the same.
        let bases = [base(start), base((start + PAGE).min(item.end - 1))];
        let mut s = 0;
        while s < SIXTEENS {
            let first = start + 16 * s as u32;
            if first < item.end {
                let base = bases[s / 4];
                let mut e = 0;
                while e < EIGHTS {
                    let d = Self::dimension(section, e, dim) + 2 * g;
                    let quad = first % PAGE / 4 + t;
                    values.values[e][s] = K::load(base + u64::from(K::BYTES * 4 * (quad * dim + d)));
                    e += 1;
                }
                if K::SCALED {
                    // All dimensions of a part are of one group.
                    let group = Self::dimension(section, 0, dim) / 32;
                    let at = PAGE * dim + 2 * (group * PAGE + first % PAGE + 4 * t);
                    values.scales[s] = ld_global_u32x2(base + u64::from(at));
                }
            }
            s += 1;
        }
        values
    }

    /// Without what lies beyond the piece's end: nobody wrote it, it may be infinite.
    #[inline(always)]
    pub(super) unsafe fn halves(&self, s: usize, e: usize, left: i32) -> [u32; 4] {
        let h = K::halves(self.values[e][s]);
        let (first, second) = (mask(left), mask(left - 2));
        [h[0] & first, h[1] & second, h[2] & first, h[3] & second]
    }
}
