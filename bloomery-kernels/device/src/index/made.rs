//! Keys of blocks that come as such, into pages: a warp for each row, of which those have work that end a block.

use super::super::abi::attention::PAGE;
use super::super::abi::index::IndexAppendArgs;
use super::super::math::inverse_rms;
use super::super::rope::{PAIRS, turned, turns};
use super::super::simt::{
    await_predecessors, block, lane, ld_global_f32, ld_global_u32, release_successor, st_global_f32,
    uniform_warp, warps,
};

/// One row: its key, normed if there is a gain, turned as at the block's first position.
///
/// # Safety
/// The contract of `IndexAppend::launch`.
#[inline(always)]
pub(crate) unsafe fn index_made(args: IndexAppendArgs) {
    let (cache, turning) = (&args.cache, &args.turn);
    let row = block() * warps() + uniform_warp();
    let (mut page, mut position) = (u32::MAX, 0);
    if row < cache.rows {
        position = ld_global_u32(cache.positions + 4 * u64::from(row));
        let sequence = ld_global_u32(cache.sequences + 4 * u64::from(row));
        if sequence < cache.tables && position / PAGE < cache.stride {
            let entry = u64::from(sequence) * u64::from(cache.stride) + u64::from(position / PAGE);
            page = ld_global_u32(cache.table + 4 * entry);
        }
    }
    let (width, offset, size) = (cache.width, position % PAGE, 1 << cache.shift);
    let (places, turns) = turns(turning, (position + 1).saturating_sub(size));
    await_predecessors();
    release_successor();
    if page >= cache.pages || (offset + 1) & (size - 1) != 0 {
        return;
    }
    let x = args.keys + 4 * u64::from(row) * u64::from(width);
    let base = cache.values + 4 * u64::from(page) * u64::from(cache.page_len);
    let to = base + 4 * u64::from(cache.raw_len + (offset >> cache.shift) * width);
    let mut inverse = 1.0;
    if args.gain != 0 {
        inverse = inverse_rms(width, args.eps, |at| ld_global_f32(x + 4 * u64::from(at)));
    }
    let load = |at: u32| {
        let value = ld_global_f32(x + 4 * u64::from(at));
        if args.gain == 0 {
            return value;
        }
        value * inverse * ld_global_f32(args.gain + 4 * u64::from(at))
    };
    let mut j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half {
            let [a, b] = turned([load(places[j][0]), load(places[j][1])], turns[j]);
            st_global_f32(to + 4 * u64::from(places[j][0]), a);
            st_global_f32(to + 4 * u64::from(places[j][1]), b);
        }
        j += 1;
    }
    let mut rest = lane();
    while rest < width - 2 * turning.half {
        let at = if rest < turning.first { rest } else { rest + 2 * turning.half };
        st_global_f32(to + 4 * u64::from(at), load(at));
        rest += 32;
    }
}
