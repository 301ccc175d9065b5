//! Last positions of groups, which stand for them: each has a place of its own, and its key is its value.
//!
//! Values come from the pages of keys, where all dimensions of a position lie together: an operand's positions are put together from
//! four loads. A lane's dimensions are four neighbours of 32.

use super::super::abi::attention::{HEADS, PAGE, Paged};
use super::super::simt::{
    await_predecessors, lane, ld_global_u16, ld_global_u32, ld_global_u32x4, permute, release_successor,
    shfl, st_global_f32, st_global_f32x4, thread, threads, warp_barrier,
};
use super::chosen::part;
use super::items::Item;
use super::kind::Kind;
use super::operands::{Keys, Values, mask};
use super::{AttendArgs, broad, head_bytes, page};

/// Chunks that are loaded in one piece: a key has up to four times as many.
const PIECE: usize = 4;

/// Whatever the list says, one of the cache's.
#[inline(always)]
fn within(cache: &Paged, place: u32) -> u32 {
    place.min(cache.pages * PAGE - 1)
}

/// The place of the last position of group `number` of a sequence.
#[inline(always)]
unsafe fn of_group(args: &AttendArgs, sequence: u32, number: u32) -> u32 {
    let position = (number + 1) * args.every - 1;
    page(&args.cache, sequence, position) as u32 * PAGE + position % PAGE
}

/// The place of position `position` of those that a row sees, `end` in all; of the last one beyond that.
///
/// # Safety
/// The launch is of ends of groups; `row` is one of it, and sees something.
#[inline(always)]
pub(super) unsafe fn place(args: &AttendArgs, (row, sequence): (u32, u32), position: u32, end: u32) -> u32 {
    let position = position.min(end - 1);
    if args.places == 0 {
        return of_group(args, sequence, position);
    }
    let at = u64::from(row) * u64::from(args.line) + u64::from(position);
    within(&args.cache, ld_global_u32(args.places + 4 * at))
}

/// The places of the four positions from `position` on, a multiple of 4; of the last ones beyond the end.
///
/// # Safety
/// As [`place`], of the item's row.
#[inline(always)]
pub(super) unsafe fn four(args: &AttendArgs, item: &Item, position: u32) -> [u32; 4] {
    let last = item.end.saturating_sub(1);
    if args.places != 0 {
        let at = u64::from(item.row) * u64::from(args.line) + u64::from(position.min(last / 4 * 4));
        return ld_global_u32x4(args.places + 4 * at).map(|place| within(&args.cache, place));
    }
    [0, 1, 2, 3].map(|i| of_group(args, item.sequence, (position + i).min(last)))
}

/// Of a row that sees nothing: zeros, and a sum of nothing.
///
/// # Safety
/// The contract of `Attend::launch`; every thread of the block gets here.
#[inline(always)]
pub(super) unsafe fn nothing(args: &AttendArgs, item: &Item) {
    await_predecessors();
    release_successor();
    let (cache, first) = (&args.cache, HEADS * item.tile);
    let heads = (args.group - first).min(HEADS);
    let index = (item.row * cache.kv_heads + item.kv_head) * args.group + first;
    let mut at = thread();
    while at < heads * cache.value_dim / 4 {
        let values = 4 * u64::from(index) * u64::from(cache.value_dim);
        st_global_f32x4(args.out + values + 16 * u64::from(at), [0.0; 4]);
        at += threads();
    }
    if thread() < heads {
        st_global_f32(args.sums + 4 * u64::from(index + thread()), f32::NEG_INFINITY);
    }
}

/// The places of four positions, from the lane that has them.
#[inline(always)]
unsafe fn places(fours: [u32; 4], lane: u32) -> [u32; 4] {
    [shfl(fours[0], lane), shfl(fours[1], lane), shfl(fours[2], lane), shfl(fours[3], lane)]
}

/// A key of the item's head, in a cache of keys of `dim` values.
#[inline(always)]
fn key<K: Kind>(args: &AttendArgs, item: &Item, place: u32, dim: u32) -> u64 {
    let base = args.cache.keys + part(args, item, place, head_bytes::<K>(dim));
    base + u64::from(K::BYTES * (place % PAGE * dim))
}

/// The keys of a lane's positions: every second of four.
#[inline(always)]
fn bases<K: Kind>(args: &AttendArgs, item: &Item, [a, b, c, d]: [u32; 4], dim: u32) -> [u64; 2] {
    let odd = lane() / 4 % 2;
    // Arithmetic: a choice would become an index into memory.
    let of = |even: u32, other: u32| key::<K>(args, item, even ^ ((even ^ other) & odd.wrapping_neg()), dim);
    [of(a, b), of(c, d)]
}

/// Where the scales of four keys are, those of their first 32 dimensions.
#[inline(always)]
fn scales_of<K: Kind>(args: &AttendArgs, item: &Item, places: [u32; 4], dim: u32) -> [u64; 4] {
    places.map(|place| {
        let base = args.cache.keys + part(args, item, place, head_bytes::<K>(dim));
        base + u64::from(PAGE * dim + 2 * (place % PAGE))
    })
}

/// Scales of the 32 dimensions `group` of four keys.
#[inline(always)]
unsafe fn scales(at: [u64; 4], group: u32) -> [u32; 2] {
    let offset = u64::from(2 * PAGE * group);
    let (a, b) = (ld_global_u16(at[0] + offset), ld_global_u16(at[1] + offset));
    let (c, d) = (ld_global_u16(at[2] + offset), ld_global_u16(at[3] + offset));
    [a | b << 16, c | d << 16]
}

/// Four neighbouring dimensions of four positions as two operands of two each: positions of the first dimension, and of the second.
#[inline(always)]
pub(super) fn halves<K: Kind>(fours: [K::Eight; 2]) -> [[u32; 4]; 2] {
    let [a, b] = fours.map(K::halves);
    let (low, high) = (0x5410, 0x7632);
    let of = |[a, b]: [[u32; 2]; 2]| {
        [
            permute(a[0], a[1], low),
            permute(b[0], b[1], low),
            permute(a[0], a[1], high),
            permute(b[0], b[1], high),
        ]
    };
    [of([[a[0], a[2]], [b[0], b[2]]]), of([[a[1], a[3]], [b[1], b[3]]])]
}

impl<K: Kind, const CHUNKS: usize, const BLOCKS: usize> Keys<K, CHUNKS, BLOCKS> {
    /// Of the chunk whose places the lanes have; what is not there is nonsense. A warp has one sixteen.
    #[inline(always)]
    pub(super) unsafe fn load_ends(args: &AttendArgs, item: &Item, warp: u32, fours: [u32; 4]) -> Self {
        debug_assert!(BLOCKS == 1);
        let (g, t, dim) = (lane() / 4, lane() % 4, args.cache.key_dim);
        let mut keys = Self { values: [[[K::ZERO; CHUNKS]; 2]; BLOCKS], scales: [[[0; 2]; CHUNKS]; BLOCKS] };
        // Places are somewhere in the cache even where nothing is: choices would cost registers.
        let bases = bases::<K>(args, item, places(fours, 4 * warp + g / 2), dim);
        // In pieces, each of which is small enough for the compiler to unroll.
        keys.load_some(bases, dim, 0);
        keys.load_some(bases, dim, PIECE);
        keys.load_some(bases, dim, 2 * PIECE);
        keys.load_some(bases, dim, 3 * PIECE);
        if K::SCALED {
            warp_barrier();
            let at = scales_of::<K>(args, item, places(fours, 4 * warp + t), dim);
            keys.scale(at, dim, 0);
            warp_barrier();
            keys.scale(at, dim, PIECE / 2);
            warp_barrier();
            keys.scale(at, dim, PIECE);
            warp_barrier();
            keys.scale(at, dim, PIECE / 2 * 3);
            warp_barrier();
            keys.scale(at, dim, 2 * PIECE);
            warp_barrier();
            keys.scale(at, dim, PIECE / 2 * 5);
            warp_barrier();
            keys.scale(at, dim, 3 * PIECE);
            warp_barrier();
            keys.scale(at, dim, PIECE / 2 * 7);
        }
        keys
    }

    /// Loads up to [`PIECE`] chunks of the keys from `from` on.
    #[inline(always)]
    unsafe fn load_some(&mut self, bases: [u64; 2], dim: u32, from: usize) {
        let mut c = from;
        while c < CHUNKS && c < from + PIECE {
            // Beyond the key any of its values will do: queries are zero there.
            let d = (32 * c as u32 + 8 * (lane() % 4)).min(dim - 8);
            self.values[0][0][c] = K::load(bases[0] + u64::from(K::BYTES * d));
            self.values[0][1][c] = K::load(bases[1] + u64::from(K::BYTES * d));
            c += 1;
        }
    }

    /// Loads the scales of up to half as many chunks from `from` on.
    #[inline(always)]
    unsafe fn scale(&mut self, at: [u64; 4], dim: u32, from: usize) {
        let mut c = from;
        while c < CHUNKS && c < from + PIECE / 2 {
            self.scales[0][c] = scales(at, (c as u32).min(dim / 32 - 1));
            c += 1;
        }
    }
}

impl<K: Kind, const EIGHTS: usize> Values<K, EIGHTS> {
    /// Of the chunk whose places the lanes have; what is not there is nonsense. A part has 32 dimensions.
    #[inline(always)]
    pub(super) unsafe fn load_ends(args: &AttendArgs, item: &Item, section: u32, fours: [u32; 4]) -> Self {
        debug_assert!(EIGHTS == 2);
        // One of the values' whatever their width.
        let first = (32 * section).min(args.cache.value_dim - 32);
        let mut values = Self::NONE;
        // In pieces, each of which is small enough for the compiler to unroll. Barriers keep it from having all addresses at once.
        values.load_some(args, item, first, fours, 0);
        warp_barrier();
        values.load_some(args, item, first, fours, 2);
        warp_barrier();
        values.load_some(args, item, first, fours, 4);
        warp_barrier();
        values.load_some(args, item, first, fours, 6);
        values
    }

    /// Of the sixteens `from` and `from + 1`, 32 dimensions from `first` on.
    #[inline(always)]
    unsafe fn load_some(&mut self, args: &AttendArgs, item: &Item, first: u32, fours: [u32; 4], from: usize) {
        let (g, t, dim) = (lane() / 4, lane() % 4, args.cache.value_dim);
        let mut s = from;
        while s < from + 2 {
            let places = places(fours, 4 * s as u32 + t);
            let at =
                places.map(|place| key::<K>(args, item, place, dim) + u64::from(K::BYTES * (first + 4 * g)));
            self.values[0][s] = K::load_fours([at[0], at[1]]);
            self.values[EIGHTS / 2][s] = K::load_fours([at[2], at[3]]);
            if K::SCALED {
                self.scales[s] = scales(scales_of::<K>(args, item, places, dim), first / 32);
            }
            s += 1;
        }
    }

    /// Without what lies beyond the piece's end.
    #[inline(always)]
    pub(super) unsafe fn halves_of_ends(&self, s: usize, left: i32) -> [[u32; 4]; 2] {
        let (first, second) = (mask(left), mask(left - 2));
        halves::<K>([self.values[0][s], self.values[EIGHTS / 2][s]])
            .map(|h| [h[0] & first, h[1] & second, h[2] & first, h[3] & second])
    }
}

impl<K: Kind> broad::Keys<K> {
    /// Of the chunk at `start`, whose places the lanes have; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load_ends(
        args: &AttendArgs,
        item: &Item,
        dim: u32,
        (start, fours): (u32, [u32; 4]),
        warp: u32,
        sixth: u32,
    ) -> Self {
        let (g, t) = (lane() / 4, lane() % 4);
        let mut keys = Self { values: [[K::ZERO; 2]; broad::TOGETHER], scales: [[0; 2]; broad::TOGETHER] };
        if start + 16 * warp < item.end {
            let bases = bases::<K>(args, item, places(fours, 4 * warp + g / 2), dim);
            let mut scaled = [0; 4];
            if K::SCALED {
                scaled = scales_of::<K>(args, item, places(fours, 4 * warp + t), dim);
            }
            let mut c = 0;
            while c < broad::TOGETHER {
                let chunk = broad::TOGETHER as u32 * sixth + c as u32;
                // Beyond the key any of its values will do: queries are zero there.
                let d = (32 * chunk + 8 * t).min(dim - 8);
                keys.values[c] = bases.map(|base| K::load(base + u64::from(K::BYTES * d)));
                if K::SCALED {
                    keys.scales[c] = scales(scaled, chunk.min(dim / 32 - 1));
                }
                c += 1;
            }
        }
        keys
    }
}

impl<K: Kind> broad::Values<K> {
    /// A pair of sixteens of the chunk at `start`, whose places the lanes have; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load_ends(
        args: &AttendArgs,
        item: &Item,
        dim: u32,
        (start, fours): (u32, [u32; 4]),
        warp: u32,
        pair: u32,
    ) -> Self {
        let (g, t) = (lane() / 4, lane() % 4);
        let mut values = Self {
            values: [[K::ZERO; broad::PAIR]; broad::EIGHTS],
            scales: [[[0; 2]; broad::PAIR]; broad::EIGHTS / 2],
        };
        let mut s = 0;
        while s < broad::PAIR {
            let sixteen = broad::PAIR as u32 * pair + s as u32;
            if start + 16 * sixteen < item.end {
                let places = places(fours, 4 * sixteen + t);
                let bases = places.map(|place| key::<K>(args, item, place, dim));
                let mut q = 0;
                while q < broad::EIGHTS / 2 {
                    // One of the values' whatever their width.
                    let first = (16 * broad::EIGHTS as u32 * warp + 32 * q as u32).min(dim - 32);
                    let at = bases.map(|base| base + u64::from(K::BYTES * (first + 4 * g)));
                    values.values[2 * q][s] = K::load_fours([at[0], at[1]]);
                    values.values[2 * q + 1][s] = K::load_fours([at[2], at[3]]);
                    if K::SCALED {
                        values.scales[q][s] = scales(scales_of::<K>(args, item, places, dim), first / 32);
                    }
                    q += 1;
                }
            }
            s += 1;
        }
        values
    }
}
