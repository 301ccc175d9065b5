//! The largest logits of a row and their weights: a warp.

use super::super::abi::route::{RouteArgs, stride};
use super::super::math::exp;
use super::super::simt::{
    await_predecessors, ballot, block, lane, ld_global_u32, ld_relaxed_u32x4, release_successor, shfl,
    shfl_xor_f32, st_global_f32, st_global_u32, st_global_u32x4, warp, warp_barrier, warp_max, warps,
};
use super::keys::{LEAST, NAN, logit};
use super::scored::{self, wanted};

/// The experts of rows whose logits are there: a warp each.
///
/// # Safety
/// The contract of `Route`; a launch for the logits has run.
#[inline(always)]
pub(crate) unsafe fn route_choose(args: RouteArgs) {
    await_predecessors();
    release_successor();
    let row = block() * warps() + warp();
    if row < args.rows {
        choose(&args, row);
    }
}

/// Waits for the keys of row `row`, clears them, and writes its experts and weights.
///
/// # Safety
/// Every lane of the warp gets here, with the contract of `Route`; whoever writes the keys runs or has run.
#[inline(always)]
pub(super) unsafe fn choose(args: &RouteArgs, row: u32) {
    if args.count <= 128 {
        of_lanes::<4>(args, row);
    } else {
        of_lanes::<16>(args, row);
    }
}

/// With `PER` neighbouring experts a lane.
#[inline(always)]
unsafe fn of_lanes<const PER: usize>(args: &RouteArgs, row: u32) {
    let first = PER as u32 * lane();
    let held = args.count.saturating_sub(first).min(PER as u32) as usize;
    let at = args.keys + 4 * u64::from(row * stride(args.count) + first);
    let mut keys = [0; PER];
    let live = if args.live != 0 { ld_global_u32(args.live) } else { args.rows };
    loop {
        let mut i = 0;
        while i < PER {
            if i < held {
                let four = ld_relaxed_u32x4(at + 4 * i as u64);
                let mut j = 0;
                while j < 4 {
                    keys[i + j] = four[j];
                    j += 1;
                }
            }
            i += 4;
        }
        let (mut missing, mut i) = (false, 0);
        while i < PER {
            missing |= i < held && keys[i] == 0;
            i += 1;
        }
        if ballot(missing) == 0 {
            break;
        }
    }
    let scored = wanted(args);
    let (mut expert, mut weight) = (0, 0.0);
    if scored {
        (expert, weight) = scored::choose(args, row, held, keys);
        // They were looked up again.
        warp_barrier();
    }
    let mut i = 0;
    while i < PER {
        if i < held {
            st_global_u32x4(at + 4 * i as u64, [0; 4]);
        }
        i += 4;
    }
    if !scored {
        (expert, weight) = by_logits(args, first, held, keys);
    }
    if lane() < args.used {
        let at = 4 * u64::from(row * args.used + lane());
        st_global_u32(args.experts + at, if row < live { expert } else { u32::MAX });
        st_global_f32(args.weights + at, if row < live { weight } else { 0.0 });
    }
}

/// The expert and the weight of slot `lane()` by softmax.
#[inline(always)]
unsafe fn by_logits<const PER: usize>(
    args: &RouteArgs,
    first: u32,
    held: usize,
    mut keys: [u32; PER],
) -> (u32, f32) {
    let logits = keys;
    // A NaN is chosen as if it were minus infinity.
    let (mut nans, mut i) = (0, 0);
    while i < PER {
        if keys[i] == NAN {
            nans |= 1_u32 << i;
            keys[i] = LEAST;
        }
        i += 1;
    }
    let (mut expert, mut chosen, mut slot) = (0, 0.0, 0);
    while slot < args.used {
        let (mut top, mut i) = (0, 0);
        while i < PER {
            top = if keys[i] > top { keys[i] } else { top };
            i += 1;
        }
        let most = warp_max(top);
        // Of equal ones the lowest lane's first.
        let winner = ballot(top == most).trailing_zeros();
        let (mut place, mut i) = (0, PER);
        while i > 0 {
            i -= 1;
            place = if keys[i] == most { i as u32 } else { place };
        }
        let found = shfl((first + place) | ((nans >> place) << 31), winner);
        if lane() == winner {
            let mut i = 0;
            while i < PER {
                keys[i] = if i as u32 == place { 0 } else { keys[i] };
                i += 1;
            }
        }
        if lane() == slot {
            expert = found & 0x7fff_ffff;
            chosen = if found >> 31 != 0 { f32::NAN } else { logit(most) };
        }
        slot += 1;
    }
    let most = f32::from_bits(shfl(chosen.to_bits(), 0));
    let power = exp(chosen - most);
    let mut divisor = 0.0;
    if args.renormalize != 0 {
        let mut slot = 0;
        while slot < args.used {
            divisor += f32::from_bits(shfl(power.to_bits(), slot));
            slot += 1;
        }
    } else {
        let mut i = 0;
        while i < PER {
            if i < held {
                divisor += exp(logit(logits[i]) - most);
            }
            i += 1;
        }
        divisor += shfl_xor_f32(divisor, 16);
        divisor += shfl_xor_f32(divisor, 8);
        divisor += shfl_xor_f32(divisor, 4);
        divisor += shfl_xor_f32(divisor, 2);
        divisor += shfl_xor_f32(divisor, 1);
    }
    (expert, power / divisor * args.scale)
}
