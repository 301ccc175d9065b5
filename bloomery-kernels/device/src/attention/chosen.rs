//! Where chosen positions are, and their keys and values: blocks are whole fours of positions, and a four is what lanes look up.
//!
//! The loads are those of [`operands`](super::operands) with a page for every four, apart so that the registers of the kernels for all
//! positions stay as they are.

use super::super::abi::attention::PAGE;
use super::super::simt::{lane, ld_global_u32, ld_global_u32x2, shfl};
use super::items::Item;
use super::kind::Kind;
use super::operands::{Keys, SIXTEENS, Values};
use super::{AttendArgs, BLOCKS, ENDS, ends, head_bytes};

/// The place of the four at position `position` of those that a row sees, `end` in all; of the last one beyond that.
///
/// # Safety
/// The launch is of chosen positions; `row` is one of it.
#[inline(always)]
pub(super) unsafe fn four(args: &AttendArgs, row: u32, position: u32, end: u32) -> u32 {
    let position = position.min(end - 1);
    let line = u64::from(row) * u64::from(args.line);
    let first = ld_global_u32(args.places + 4 * (line + u64::from(position >> args.shift)));
    let place = first + (position & ((1 << args.shift) - 1));
    // One of the cache's whatever the list says.
    (place & !3).min(args.cache.pages * PAGE - 4)
}

/// The places of a chunk of 128 positions, four in each lane: of blocks the first one, which the others follow.
///
/// # Safety
/// As [`four`].
#[inline(always)]
pub(super) unsafe fn fours<const SIGHT: u32>(args: &AttendArgs, item: &Item, start: u32) -> [u32; 4] {
    match SIGHT {
        BLOCKS => [four(args, item.row, start + 4 * lane(), item.end), 0, 0, 0],
        ENDS => ends::four(args, item, start + 4 * lane()),
        _ => [0; 4],
    }
}

/// A head's part of the page of a place, where a page has `bytes` bytes for each head.
#[inline(always)]
pub(super) fn part(args: &AttendArgs, item: &Item, place: u32, bytes: u32) -> u64 {
    (u64::from(place / PAGE) * u64::from(args.cache.kv_heads) + u64::from(item.kv_head)) * u64::from(bytes)
}

impl<K: Kind, const CHUNKS: usize, const BLOCKS: usize> Keys<K, CHUNKS, BLOCKS> {
    /// Of the chunk at `start`, whose fours the lanes have; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load_chosen(
        args: &AttendArgs,
        item: &Item,
        start: u32,
        warp: u32,
        fours: u32,
    ) -> Self {
        let (g, t, dim) = (lane() / 4, lane() % 4, args.cache.key_dim);
        let mut keys = Self { values: [[[K::ZERO; CHUNKS]; 2]; BLOCKS], scales: [[[0; 2]; CHUNKS]; BLOCKS] };
        let bytes = head_bytes::<K>(dim);
        let mut b = 0;
        while b < BLOCKS {
            let number = 4 * (warp * BLOCKS as u32 + b as u32);
            if start + 4 * number < item.end {
                let place = shfl(fours, number + g / 2);
                let base = args.cache.keys + part(args, item, place, bytes);
                let mut i = 0;
                while i < 2 {
                    let offset = place % PAGE + 2 * i as u32 + g % 2;
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
                    let place = shfl(fours, number + t);
                    let base = args.cache.keys + part(args, item, place, bytes);
                    let mut c = 0;
                    while c < CHUNKS {
                        let group = (c as u32).min(dim / 32 - 1);
                        let at = PAGE * dim + 2 * (group * PAGE + place % PAGE);
                        keys.scales[b][c] = ld_global_u32x2(base + u64::from(at));
                        c += 1;
                    }
                }
            }
            b += 1;
        }
        keys
    }
}

impl<K: Kind, const EIGHTS: usize> Values<K, EIGHTS> {
    /// Of the chunk at `start`, whose fours the lanes have; what is not there is zero or nonsense.
    #[inline(always)]
    pub(super) unsafe fn load_chosen(
        args: &AttendArgs,
        item: &Item,
        start: u32,
        section: u32,
        fours: u32,
    ) -> Self {
        let (g, t, dim) = (lane() / 4, lane() % 4, args.cache.value_dim);
        let mut values = Self::NONE;
        let mut s = 0;
        while s < SIXTEENS {
            if start + 16 * (s as u32) < item.end {
                let place = shfl(fours, 4 * s as u32 + t);
                let base = args.cache.values + part(args, item, place, head_bytes::<K>(dim));
                let mut e = 0;
                while e < EIGHTS {
                    let d = Self::dimension(section, e, dim) + 2 * g;
                    let at = K::BYTES * 4 * (place % PAGE / 4 * dim + d);
                    values.values[e][s] = K::load(base + u64::from(at));
                    e += 1;
                }
                if K::SCALED {
                    // All dimensions of a part are of one group.
                    let group = Self::dimension(section, 0, dim) / 32;
                    let at = PAGE * dim + 2 * (group * PAGE + place % PAGE);
                    values.scales[s] = ld_global_u32x2(base + u64::from(at));
                }
            }
            s += 1;
        }
        values
    }
}
