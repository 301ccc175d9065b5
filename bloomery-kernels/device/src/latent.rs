//! Latents on their way to the cache, and the tails of queries that turn: a warp for each.

use super::abi::attention::{WIDEST_KEY, WIDEST_VALUE};
use super::abi::rope::{LatentArgs, WIDEST};
use super::math::inverse_rms;
use super::rope::{PAIRS, append, slot, spread, turned, turns};
use super::simt::{
    await_predecessors, block, divide, lane, ld_global_f32, ld_shared_f32, release_successor, shared_base,
    st_global_f32, st_shared_f32, uniform_warp, warp_barrier, warps,
};

/// Values of a lane.
const KEY: usize = WIDEST_KEY as usize / 32;
/// As above.
const VALUE: usize = WIDEST_VALUE as usize / 32;

/// One query head of one row, or its key, or its value.
///
/// # Safety
/// The contract of `LatentAppend::launch`.
#[inline(always)]
pub(crate) unsafe fn latent_append(args: LatentArgs) {
    append_latents(&args, block());
}

/// The work of one block.
///
/// # Safety
/// As [`latent_append`].
#[inline(always)]
pub(crate) unsafe fn append_latents(args: &LatentArgs, block: u32) {
    let (cache, turning, warp) = (&args.cache, &args.turn, uniform_warp());
    let (dim, latent) = (cache.key_dim, cache.value_dim);
    let item = block * warps() + warp;
    if item >= cache.rows * (args.heads + 2) {
        await_predecessors();
        release_successor();
        return;
    }
    let (row, index) = divide(item, args.heads + 2);
    // What no predecessor writes comes first: where the row is, its angles, the gain.
    let slot = slot(cache, row);
    let (places, turns) = turns(turning, slot.position);
    let of_latent = index >= args.heads;
    let gains = if of_latent {
        spread::<VALUE>(latent, |i| ld_global_f32(args.gain + 4 * u64::from(i)))
    } else {
        [0.0; VALUE]
    };
    await_predecessors();
    release_successor();

    let x = if of_latent {
        args.kv + 4 * u64::from(row) * u64::from(dim)
    } else {
        args.q + 4 * u64::from(row * args.heads + index) * u64::from(dim)
    };
    // Where what turns comes from.
    let mut source = x + 4 * u64::from(latent);
    if !of_latent {
        let line = u64::from(row * args.heads + index);
        source = args.from + 4 * (line * u64::from(args.from_width) + u64::from(args.from_first));
    }
    let stage = shared_base() + 4 * WIDEST * warp;
    let mut values = [0.0; KEY];
    if of_latent {
        let raw = spread::<VALUE>(latent, |i| ld_global_f32(x + 4 * u64::from(i)));
        let inverse = inverse_rms(latent, args.eps, |at| ld_global_f32(x + 4 * u64::from(at)));
        let mut j = 0;
        while j < VALUE {
            values[j] = raw[j] * inverse * gains[j];
            j += 1;
        }
        if index > args.heads {
            append(cache, slot, 0, false, values);
            return;
        }
        let mut at = lane();
        while at < dim - latent {
            st_shared_f32(stage + 4 * at, ld_global_f32(x + 4 * u64::from(latent + at)));
            at += 32;
        }
        warp_barrier();
    }
    let mut j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < turning.half {
            let [a, b] = places[j].map(|at| x + 4 * u64::from(at));
            let from = places[j].map(|at| ld_global_f32(source + 4 * u64::from(at - latent)));
            let pair = turned(from, turns[j]);
            if of_latent {
                st_shared_f32(stage + 4 * (places[j][0] - latent), pair[0]);
                st_shared_f32(stage + 4 * (places[j][1] - latent), pair[1]);
            } else {
                st_global_f32(a, pair[0]);
                st_global_f32(b, pair[1]);
            }
        }
        j += 1;
    }
    if of_latent {
        warp_barrier();
        j = 0;
        while j < KEY {
            let at = lane() + 32 * j as u32;
            if at >= latent && at < dim {
                values[j] = ld_shared_f32(stage + 4 * (at - latent));
            }
            j += 1;
        }
        append(cache, slot, 0, true, values);
    }
}
