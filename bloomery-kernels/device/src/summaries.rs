//! Rows that stand for groups of positions: a sum of the group's values, column by column, with a softmax of their gates as weights, and
//! a norm; and the append of such rows to a cache.

use super::abi::attention::{PAGE, WIDEST_VALUE};
use super::abi::rope::WIDEST;
use super::abi::summaries::{SummariseArgs, SummaryAppendArgs};
use super::fold::{block_sum, share_sums};
use super::math::exp;
use super::rope::{PAIRS, append, slot, spread, turned, turns};
use super::simt::{
    await_predecessors, block, divide, fma, lane, ld_global_f32, ld_global_f32x4, ld_global_u32,
    ld_shared_f32, release_successor, shared_base, sqrt, st_global_f32x4, st_shared_f32, thread, threads,
    uniform_warp, warp_barrier, warps,
};

/// Members whose values are on their way at once.
const BATCH: usize = 4;

/// Row `block()`. Members of its group that are rows of this step come from where the step has them, since other blocks are writing them;
/// older ones come from pages.
///
/// # Safety
/// The contract of `Summarise::launch`.
#[inline(always)]
pub(crate) unsafe fn summarise(args: SummariseArgs) {
    let (row, quad) = (block(), thread());
    let position = ld_global_u32(args.positions + 4 * u64::from(row));
    let own = 4 * u64::from(row) * u64::from(args.channels);
    let mut gain = [0.0; 4];
    if 4 * quad < args.width {
        gain = ld_global_f32x4(args.gain + 16 * u64::from(quad));
    }
    let at = if args.gates != 0 { place(&args, row, position) } else { 0 };
    await_predecessors();
    release_successor();
    if at != 0 {
        let mut channel = 4 * thread();
        while channel < args.channels {
            let offset = 4 * u64::from(channel);
            st_global_f32x4(at + offset, ld_global_f32x4(args.values + own + offset));
            let gates = at + 2 * u64::from(args.page_len);
            st_global_f32x4(gates + offset, ld_global_f32x4(args.gates + own + offset));
            channel += 4 * threads();
        }
    }
    let out = args.out + 4 * u64::from(row) * u64::from(args.width) + 16 * u64::from(quad);
    let exists = 4 * quad < args.width;
    if divide(position, args.group).1 + 1 != args.group {
        if exists {
            st_global_f32x4(out, [0.0; 4]);
        }
        return;
    }
    let mut sum = [0.0; 4];
    if exists && args.gates == 0 {
        sum = ld_global_f32x4(args.values + own + 16 * u64::from(quad));
    } else if exists {
        sum = members(&args, row, position, quad);
    }
    let square = fma(sum[3], sum[3], fma(sum[2], sum[2], fma(sum[1], sum[1], sum[0] * sum[0])));
    share_sums([square], shared_base());
    let size = 1.0 / sqrt(block_sum::<1>(shared_base(), 0) / args.width as f32 + args.eps);
    if exists {
        let mut i = 0;
        while i < 4 {
            sum[i] = sum[i] * size * gain[i];
            i += 1;
        }
        st_global_f32x4(out, sum);
    }
}

/// Where the values of a position of the sequence of row `row` are kept; 0 if they are not, or in a page that there is not.
#[inline(always)]
unsafe fn place(args: &SummariseArgs, row: u32, position: u32) -> u64 {
    let sequence = ld_global_u32(args.sequences + 4 * u64::from(row));
    let (number, offset) = (position / PAGE, position % PAGE);
    let (group, inside) = divide(offset, args.group);
    if sequence >= args.tables || number >= args.stride || inside >= args.kept {
        return 0;
    }
    let entry = u64::from(sequence) * u64::from(args.stride) + u64::from(number);
    let page = ld_global_u32(args.table + 4 * entry);
    if page >= args.pages {
        return 0;
    }
    let at = u64::from(group * args.kept + inside) * u64::from(args.channels);
    args.memory + 4 * (u64::from(page) * u64::from(args.page_len) + at)
}

/// Four columns of the sum over the group that ends at `position`: first those of the group before, where groups overlap.
#[inline(always)]
unsafe fn members(args: &SummariseArgs, row: u32, position: u32, quad: u32) -> [f32; 4] {
    let sequence = ld_global_u32(args.sequences + 4 * u64::from(row));
    let overlaps = args.channels > args.width;
    let first = position + 1 - args.group;
    let before = if overlaps && first >= args.group { args.group } else { 0 };
    let end = position + 1;
    let (mut most, mut total, mut sum) = ([f32::NEG_INFINITY; 4], [0.0; 4], [0.0; 4]);
    let mut member = first - before;
    while member < end {
        let (mut values, mut gates, mut i) = ([[0.0; 4]; BATCH], [[f32::NEG_INFINITY; 4]; BATCH], 0);
        while i < BATCH {
            let at = member + i as u32;
            if at < end {
                // The second half of a position's channels is for its own group.
                let column = if overlaps && at >= first { args.width } else { 0 };
                let offset = 4 * u64::from(column + 4 * quad);
                let [value, gate] = of(args, (row, position), sequence, at);
                if value != 0 {
                    values[i] = ld_global_f32x4(value + offset);
                    gates[i] = ld_global_f32x4(gate + offset);
                }
                if args.places != 0 {
                    let line = u64::from(divide(at, args.group).1) * u64::from(args.channels);
                    let places = ld_global_f32x4(args.places + 4 * line + offset);
                    let mut j = 0;
                    while j < 4 {
                        gates[i][j] += places[j];
                        j += 1;
                    }
                }
            }
            i += 1;
        }
        let mut j = 0;
        while j < 4 {
            let (mut larger, mut i) = (most[j], 0);
            while i < BATCH {
                larger = larger.max(gates[i][j]);
                i += 1;
            }
            // Gates of minus infinity alone have no weight.
            let base = if larger == f32::NEG_INFINITY { 0.0 } else { larger };
            let (kept, weight) = (exp(most[j] - base), exp(gates[0][j] - base));
            most[j] = larger;
            total[j] = fma(total[j], kept, weight);
            sum[j] = fma(sum[j], kept, weight * values[0][j]);
            i = 1;
            while i < BATCH {
                let weight = exp(gates[i][j] - base);
                total[j] += weight;
                sum[j] = fma(weight, values[i][j], sum[j]);
                i += 1;
            }
            j += 1;
        }
        member += BATCH as u32;
    }
    let mut j = 0;
    while j < 4 {
        sum[j] /= total[j];
        j += 1;
    }
    sum
}

/// Where values and gates of a position are: in a row before this one, or kept; 0 if nowhere.
#[inline(always)]
unsafe fn of(args: &SummariseArgs, (row, position): (u32, u32), sequence: u32, at: u32) -> [u64; 2] {
    let age = position - at;
    if age <= row {
        let other = row - age;
        if ld_global_u32(args.sequences + 4 * u64::from(other)) == sequence
            && ld_global_u32(args.positions + 4 * u64::from(other)) == at
        {
            let line = 4 * u64::from(other) * u64::from(args.channels);
            return [args.values + line, args.gates + line];
        }
    }
    let kept = place(args, row, at);
    [kept, if kept != 0 { kept + 2 * u64::from(args.page_len) } else { 0 }]
}

/// Values of a lane.
const VALUES: usize = WIDEST_VALUE as usize / 32;

/// The key or the value of a row, if a group ends with it.
///
/// # Safety
/// The contract of `SummaryAppend::launch`.
#[inline(always)]
pub(crate) unsafe fn summary_append(args: SummaryAppendArgs) {
    let (cache, turning, warp) = (&args.cache, &args.turn, uniform_warp());
    let item = block() * warps() + warp;
    let (row, is_key) = (item / 2, item.is_multiple_of(2));
    let mut ends = row < cache.rows;
    if ends {
        let position = ld_global_u32(cache.positions + 4 * u64::from(row));
        ends = divide(position, args.group).1 + 1 == args.group;
    }
    if !ends {
        await_predecessors();
        release_successor();
        return;
    }
    let slot = slot(cache, row);
    let (places, turns) = turns(turning, slot.position + 1 - args.group);
    await_predecessors();
    release_successor();
    let (dim, first) = (cache.key_dim, turning.first);
    let x = args.x + 4 * u64::from(row) * u64::from(dim);
    let mut values = spread::<VALUES>(dim, |at| ld_global_f32(x + 4 * u64::from(at)));
    let stage = shared_base() + 4 * WIDEST * warp;
    let mut j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half {
            let pair = turned(places[j].map(|at| ld_global_f32(x + 4 * u64::from(at))), turns[j]);
            st_shared_f32(stage + 4 * (places[j][0] - first), pair[0]);
            st_shared_f32(stage + 4 * (places[j][1] - first), pair[1]);
        }
        j += 1;
    }
    warp_barrier();
    j = 0;
    while j < VALUES {
        let at = lane() + 32 * j as u32;
        if at >= first && at < first + 2 * turning.half {
            values[j] = ld_shared_f32(stage + 4 * (at - first));
        }
        j += 1;
    }
    append(cache, slot, 0, is_key, values);
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::{SummariseArgs, SummaryAppendArgs};

    crate::simt::bounds!(summarise, 256, 3);
    crate::simt::bounds!(summary_append, 128, 4);

    /// See [`summarise`](super::summarise).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn summarise(args: SummariseArgs) {
        super::summarise(args);
    }

    /// See [`summary_append`](super::summary_append).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn summary_append(args: SummaryAppendArgs) {
        super::summary_append(args);
    }
}
