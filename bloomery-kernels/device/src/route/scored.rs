//! Experts chosen by scores that are not logits: sigmoids, roots, with a bias, or from some groups of experts only; and experts that a
//! table has for tokens.

use super::super::abi::route::{RouteArgs, SIGMOID, SOFTMAX, SQRT_SOFTPLUS, stride};
use super::super::math::{exp, softplus};
use super::super::simt::{
    ballot, divide, lane, ld_global_f32, ld_global_u32, ld_relaxed_u32, shfl, shfl_xor_f32, sqrt, warp_max,
};
use super::keys::{LEAST, NAN, key, logit};

/// Added to sums of roots, which may all be zero.
const TINY: f32 = 1e-20;

/// Whether a router needs this.
#[inline(always)]
pub(super) fn wanted(args: &RouteArgs) -> bool {
    args.score != SOFTMAX || args.bias != 0 || args.groups != 0 || args.table != 0
}

/// A key for choosing: a NaN counts as minus infinity.
#[inline(always)]
fn rank(score: f32) -> u32 {
    let key = key(score);
    if key == NAN { LEAST } else { key }
}

/// The expert and the weight of slot `lane()` of row `row`; `logits` are the keys of the lane's first `held` experts.
///
/// # Safety
/// Every lane of the warp gets here, with the contract of `Route`; the row's keys are in memory.
#[inline(always)]
pub(super) unsafe fn choose<const PER: usize>(
    args: &RouteArgs,
    row: u32,
    held: usize,
    logits: [u32; PER],
) -> (u32, f32) {
    let first = PER as u32 * lane();
    let (mut most, mut total) = (0.0, 1.0);
    if args.score == SOFTMAX {
        let (mut top, mut i) = (0, 0);
        while i < PER {
            let key = if i < held { if logits[i] == NAN { LEAST } else { logits[i] } } else { 0 };
            top = if key > top { key } else { top };
            i += 1;
        }
        most = logit(warp_max(top));
    }
    // Of a sigmoid's power e^-x, of a softmax's e^(x - most); of a root all of it.
    let power = |key: u32| exp(if args.score == SIGMOID { 0.0 - logit(key) } else { logit(key) - most });
    let score = |power: f32| if args.score == SIGMOID { 1.0 / (1.0 + power) } else { power };
    let (mut powers, mut i) = ([0.0; PER], 0);
    if args.score == SQRT_SOFTPLUS {
        powers = roots(logits);
    } else {
        while i < PER {
            powers[i] = power(logits[i]);
            i += 1;
        }
    }
    if args.score == SOFTMAX {
        (total, i) = (0.0, 0);
        while i < PER {
            total += if i < held { powers[i] } else { 0.0 };
            i += 1;
        }
        let mut mask = 16;
        while mask > 0 {
            total += shfl_xor_f32(total, mask);
            mask /= 2;
        }
    }
    let expert = if args.table != 0 {
        of_token(args, row)
    } else {
        let (mut ranks, mut i) = ([0; PER], 0);
        while i < PER {
            if i < held {
                let place = args.bias + 4 * u64::from(first + i as u32);
                let bias = if args.bias != 0 { ld_global_f32(place) } else { 0.0 };
                ranks[i] = rank(score(powers[i]) / total + bias);
            }
            i += 1;
        }
        best(args, ranks)
    };
    let mut weight = 0.0;
    if lane() < args.used && expert < args.count {
        let key = ld_relaxed_u32(args.keys + 4 * u64::from(row * stride(args.count) + expert));
        weight = if args.score == SQRT_SOFTPLUS { root(key) } else { score(power(key)) };
    }
    let mut divisor = total;
    if args.renormalize != 0 {
        let mut slot = 0;
        divisor = 0.0;
        while slot < args.used {
            divisor += f32::from_bits(shfl(weight.to_bits(), slot));
            slot += 1;
        }
        divisor += if args.score == SQRT_SOFTPLUS { TINY } else { 0.0 };
    }
    (expert, weight / divisor * args.scale)
}

/// `sqrt(ln(1 + e^logit))`.
#[inline(always)]
unsafe fn root(key: u32) -> f32 {
    sqrt(softplus(logit(key)))
}

/// The same of all, four at a time: of a loop that is too long to be unrolled arrays would be in local memory, so they move instead.
#[inline(always)]
unsafe fn roots<const PER: usize>(mut keys: [u32; PER]) -> [f32; PER] {
    let (mut out, mut turn) = ([0.0; PER], 0);
    while turn < PER / 4 {
        let four = [root(keys[0]), root(keys[1]), root(keys[2]), root(keys[3])];
        let mut i = 0;
        while i + 4 < PER {
            (keys[i], out[i]) = (keys[i + 4], out[i + 4]);
            i += 1;
        }
        i = 0;
        while i < 4 {
            out[PER - 4 + i] = four[i];
            i += 1;
        }
        turn += 1;
    }
    out
}

/// What the table has for slot `lane()` of row `row`; a number that is no expert, where it has nothing.
#[inline(always)]
unsafe fn of_token(args: &RouteArgs, row: u32) -> u32 {
    let mut at = row;
    if args.picked != 0 {
        at = ld_global_u32(args.picked + 4 * u64::from(row));
    }
    let mut expert = u32::MAX;
    if at < args.token_count {
        let token = ld_global_u32(args.tokens + 4 * u64::from(at));
        if token < args.vocab && lane() < args.used {
            let entry = u64::from(token) * u64::from(args.used) + u64::from(lane());
            expert = ld_global_u32(args.table + 4 * entry);
        }
    }
    if expert < args.count { expert } else { u32::MAX }
}

/// The expert of slot `lane()`.
#[inline(always)]
unsafe fn best<const PER: usize>(args: &RouteArgs, mut ranks: [u32; PER]) -> u32 {
    let first = PER as u32 * lane();
    if args.groups != 0 {
        close(args, &mut ranks);
    }
    let (mut expert, mut slot) = (0, 0);
    while slot < args.used {
        let (mut top, mut i) = (0, 0);
        while i < PER {
            top = if ranks[i] > top { ranks[i] } else { top };
            i += 1;
        }
        let best = warp_max(top);
        // Of equal ones the lowest lane's first.
        let winner = ballot(top == best).trailing_zeros();
        let (mut place, mut i) = (0, PER);
        while i > 0 {
            i -= 1;
            place = if ranks[i] == best { i as u32 } else { place };
        }
        let found = shfl(first + place, winner);
        i = 0;
        while i < PER {
            ranks[i] = if lane() == winner && i as u32 == place { 0 } else { ranks[i] };
            i += 1;
        }
        expert = if lane() == slot { found } else { expert };
        slot += 1;
    }
    expert
}

/// Leaves only the experts of the best groups: a group is worth its largest rank, of a softmax, and else its two largest together.
#[inline(always)]
unsafe fn close<const PER: usize>(args: &RouteArgs, ranks: &mut [u32; PER]) {
    let first = PER as u32 * lane();
    let (each, _) = divide(args.count, args.groups);
    let (mut own, mut group) = (0, 0);
    while group < args.groups {
        let (mut top, mut next, mut i) = (0, 0, 0);
        while i < PER {
            let inside = (first + i as u32).wrapping_sub(group * each) < each;
            let key = if inside { ranks[i] } else { 0 };
            let larger = key > top;
            next = if larger {
                top
            } else if key > next {
                key
            } else {
                next
            };
            top = if larger { key } else { top };
            i += 1;
        }
        let best = warp_max(top);
        let winner = ballot(top == best).trailing_zeros();
        let second = warp_max(if lane() == winner { next } else { top });
        let value = if args.score == SOFTMAX { logit(best) } else { logit(best) + logit(second) };
        own = if lane() == group { rank(value) } else { own };
        group += 1;
    }
    let (mut open, mut i) = (0_u32, 0);
    while i < args.open {
        let best = warp_max(own);
        let winner = ballot(own == best).trailing_zeros();
        open |= 1 << winner;
        own = if lane() == winner { 0 } else { own };
        i += 1;
    }
    group = 0;
    while group < args.groups {
        let mut i = 0;
        while i < PER {
            let inside = open >> group & 1 == 0 && (first + i as u32).wrapping_sub(group * each) < each;
            ranks[i] = if inside { 0 } else { ranks[i] };
            i += 1;
        }
        group += 1;
    }
}
