//! Keys that are values too, and queries, on their way to attention: a warp for each query head of each row, and one for its key.

use super::abi::attention::WIDEST_VALUE;
use super::abi::rope::RopeArgs;
use super::math::inverse_rms;
use super::rope::{PAIRS, append, slot, spread, turned, turns};
use super::simt::{
    await_predecessors, block, divide, lane, ld_global_f32, ld_shared_f32, release_successor, shared_base,
    st_global_f32, st_shared_f32, uniform_warp, warp_barrier, warps,
};

/// Values of a lane.
const VALUES: usize = WIDEST_VALUE as usize / 32;

/// One query head of one row in place, or its key into the cache, where it is the value as well.
///
/// # Safety
/// The contract of `SharedAppend::launch`.
#[inline(always)]
pub(crate) unsafe fn shared_append(args: RopeArgs) {
    let (cache, turning, warp) = (&args.cache, &args.turn, uniform_warp());
    let (dim, per_row) = (cache.key_dim, args.heads + 1);
    let item = block() * warps() + warp;
    if item >= cache.rows * per_row {
        await_predecessors();
        release_successor();
        return;
    }
    let (row, index) = divide(item, per_row);
    // What no predecessor writes comes first: where the row is, its angles.
    let slot = slot(cache, row);
    let (places, turns) = turns(turning, slot.position);
    let is_query = index < args.heads;
    let (gain, eps) = if is_query { (args.q_gain, args.q_eps) } else { (args.k_gain, args.k_eps) };
    await_predecessors();
    release_successor();

    let x = if is_query {
        args.q + 4 * u64::from(row * args.heads + index) * u64::from(dim)
    } else {
        args.k + 4 * u64::from(row) * u64::from(dim)
    };
    let mut inverse = 1.0;
    if gain != 0 {
        inverse = inverse_rms(dim, eps, |at| ld_global_f32(x + 4 * u64::from(at)));
    }
    let load = |at: u32| {
        let value = ld_global_f32(x + 4 * u64::from(at));
        if gain == 0 { value } else { value * inverse * ld_global_f32(gain + 4 * u64::from(at)) }
    };
    let stage = shared_base() + 4 * WIDEST_VALUE * warp;
    let put = |at: u32, value: f32| {
        if is_query {
            st_global_f32(x + 4 * u64::from(at), value);
        } else {
            st_shared_f32(stage + 4 * at, value);
        }
    };
    // The norm's shuffles have seen all values, and a lane writes only what it has read itself.
    let mut j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half {
            let [a, b] = turned([load(places[j][0]), load(places[j][1])], turns[j]);
            put(places[j][0], a);
            put(places[j][1], b);
        }
        j += 1;
    }
    if is_query && gain == 0 {
        return;
    }
    let mut rest = lane();
    while rest < dim - 2 * turning.half {
        let at = if rest < turning.first { rest } else { rest + 2 * turning.half };
        put(at, load(at));
        rest += 32;
    }
    if !is_query {
        warp_barrier();
        let values = spread::<VALUES>(dim, |i| ld_shared_f32(stage + 4 * i));
        append(cache, slot, 0, true, values);
        append(cache, slot, 0, false, values);
    }
}
