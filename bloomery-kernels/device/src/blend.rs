//! Parts of attention to one, turned back: a warp for each head of each row.

use super::abi::rope::BlendArgs;
use super::math::exp;
use super::rope::{PAIRS, turned, turns};
use super::simt::{
    await_predecessors, block, divide, fma, lane, ld_global_f32, ld_global_f32x4, ld_global_u32,
    release_successor, st_global_f32, st_global_f32x4, uniform_warp, warps,
};

/// Fours of values that a lane loads at once.
const BATCH: usize = 4;

/// One head of one row: the softmax over the parts and the sink, then the rotation the other way round.
///
/// # Safety
/// The contract of `Blend::launch`.
#[inline(always)]
pub(crate) unsafe fn blend(args: BlendArgs) {
    let turning = &args.turn;
    let item = block() * warps() + uniform_warp();
    if item >= args.rows * args.heads {
        await_predecessors();
        release_successor();
        return;
    }
    let (row, head) = divide(item, args.heads);
    // What no predecessor writes comes first.
    let (places, turns) = turns(turning, ld_global_u32(args.positions + 4 * u64::from(row)));
    let mut sink = f32::NEG_INFINITY;
    if args.sinks != 0 {
        sink = ld_global_f32(args.sinks + 4 * u64::from(head));
    }
    await_predecessors();
    release_successor();

    let mut shares = [1.0, 0.0];
    if args.sums[0] != 0 {
        let at = 4 * u64::from(item);
        let mut sums = [ld_global_f32(args.sums[0] + at), f32::NEG_INFINITY];
        if args.sums[1] != 0 {
            sums[1] = ld_global_f32(args.sums[1] + at);
        }
        let most = sums[0].max(sums[1]).max(sink);
        let weights = sums.map(|sum| exp(sum - most));
        let total = weights[0] + weights[1] + exp(sink - most);
        shares = weights.map(|weight| weight / total);
    }
    let head = 4 * u64::from(item) * u64::from(args.dim);
    let value = |at: u32| {
        let place = head + 4 * u64::from(at);
        let x = shares[0] * ld_global_f32(args.values[0] + place);
        if args.values[1] == 0 { x } else { fma(shares[1], ld_global_f32(args.values[1] + place), x) }
    };
    let mut j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half {
            let [c, s] = turns[j];
            let [a, b] = turned([value(places[j][0]), value(places[j][1])], [c, -s]);
            st_global_f32(args.out + head + 4 * u64::from(places[j][0]), a);
            st_global_f32(args.out + head + 4 * u64::from(places[j][1]), b);
        }
        j += 1;
    }
    let count = (args.dim - 2 * turning.half) / 4;
    let place = |four: u32| {
        let at = 4 * four;
        head + 4 * u64::from(if at < turning.first { at } else { at + 2 * turning.half })
    };
    let mut four = lane();
    while four < count {
        let (mut x, mut y, mut i) = ([[0.0; 4]; BATCH], [[0.0; 4]; BATCH], 0);
        while i < BATCH {
            // Again the last one in place of those that are not there: only what is there is written.
            let place = place((four + 32 * i as u32).min(count - 1));
            x[i] = ld_global_f32x4(args.values[0] + place);
            if args.values[1] != 0 {
                y[i] = ld_global_f32x4(args.values[1] + place);
            }
            i += 1;
        }
        i = 0;
        while i < BATCH {
            let mut d = 0;
            while d < 4 {
                x[i][d] = fma(shares[1], y[i][d], shares[0] * x[i][d]);
                d += 1;
            }
            if four + 32 * (i as u32) < count {
                st_global_f32x4(args.out + place(four + 32 * i as u32), x[i]);
            }
            i += 1;
        }
        four += 32 * BATCH as u32;
    }
}
