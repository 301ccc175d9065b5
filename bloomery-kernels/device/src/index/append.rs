//! Keys of rows into pages: a warp for each row, which also makes the key of the block that ends with it.

use super::super::abi::attention::PAGE;
use super::super::abi::index::{IndexAppendArgs, WIDEST_INDEX};
use super::super::math::exp;
use super::super::rope::{PAIRS, spread, turned, turns};
use super::super::simt::{
    await_predecessors, ballot, block, fma, lane, ld_global_f32, ld_global_u32, ld_shared_f32,
    release_successor, shared_base, shfl_xor_f32, sqrt, st_global_f32, st_shared_f32, uniform_warp,
    warp_barrier, warps,
};

/// Values of a lane: every 32nd of a key.
const VALUES: usize = WIDEST_INDEX as usize / 32;

/// One row. Positions of its block that are this step's come from where the step has them, since other warps are writing
/// them; older ones come from the page.
///
/// # Safety
/// The contract of `IndexAppend::launch`.
#[inline(always)]
pub(crate) unsafe fn index_append(args: IndexAppendArgs) {
    let (cache, warp) = (&args.cache, uniform_warp());
    let row = block() * warps() + warp;
    if row >= cache.rows {
        await_predecessors();
        release_successor();
        return;
    }
    let position = ld_global_u32(cache.positions + 4 * u64::from(row));
    let sequence = ld_global_u32(cache.sequences + 4 * u64::from(row));
    let mut page = u32::MAX;
    if sequence < cache.tables && position / PAGE < cache.stride {
        let entry = u64::from(sequence) * u64::from(cache.stride) + u64::from(position / PAGE);
        page = ld_global_u32(cache.table + 4 * entry);
    }
    let (width, offset) = (cache.width, position % PAGE);
    let at = |from: u64| from + 4 * u64::from(row) * u64::from(width);
    let (gain, bias) = (vector(&args, args.gain), vector(&args, args.bias));
    await_predecessors();
    release_successor();
    if page >= cache.pages {
        return;
    }
    let base = cache.values + 4 * u64::from(page) * u64::from(cache.page_len);
    let place = base + 4 * u64::from(offset * width);
    let gates_first = 4 * u64::from(PAGE * width);
    put(width, place, key(&args, at(args.keys), [gain, bias]));
    if args.gates != 0 {
        put(width, place + gates_first, vector(&args, at(args.gates)));
    }
    let size = 1 << cache.shift;
    if (offset + 1) & (size - 1) != 0 {
        return;
    }

    // Which of the rows before this one are of its sequence, one position after the other.
    let here = |age: u32| {
        let before = row.wrapping_sub(age);
        age <= row
            && age < size
            && ld_global_u32(cache.sequences + 4 * u64::from(before)) == sequence
            && ld_global_u32(cache.positions + 4 * u64::from(before)) == position.wrapping_sub(age)
    };
    let step = [ballot(here(lane())), ballot(here(lane() + 32))];
    let (mut sum, mut most, mut total) = ([0.0; VALUES], [f32::NEG_INFINITY; VALUES], [0.0; VALUES]);
    let mut member = 0;
    while member < size {
        let age = size - 1 - member;
        let back = 4 * u64::from(age) * u64::from(width);
        let fresh = if age < 32 { step[0] } else { step[1] } >> (age % 32) & 1 != 0;
        if args.gates == 0 {
            let x = vector(&args, if fresh { at(args.keys) - back } else { place - back });
            let mut j = 0;
            while j < VALUES {
                sum[j] += x[j];
                j += 1;
            }
        } else {
            let (x, gates) = if fresh {
                (key(&args, at(args.keys) - back, [gain, bias]), vector(&args, at(args.gates) - back))
            } else {
                (vector(&args, place - back), vector(&args, place + gates_first - back))
            };
            let shift = vector(&args, args.gate_bias + 4 * u64::from(member * width));
            let mut j = 0;
            while j < VALUES {
                let gate = gates[j] + shift[j];
                let larger = most[j].max(gate);
                let (kept, weight) = (exp(most[j] - larger), exp(gate - larger));
                most[j] = larger;
                total[j] = fma(total[j], kept, weight);
                sum[j] = fma(sum[j], kept, weight * x[j]);
                j += 1;
            }
        }
        member += 1;
    }
    let place = base + 4 * u64::from(cache.raw_len + (offset >> cache.shift) * width);
    if args.gates != 0 {
        let mut j = 0;
        while j < VALUES {
            sum[j] /= total[j];
            j += 1;
        }
        put(width, place, sum);
        return;
    }
    let mut square = 0.0;
    let mut j = 0;
    while j < VALUES {
        sum[j] /= size as f32;
        square = fma(sum[j], sum[j], square);
        j += 1;
    }
    let inverse = 1.0 / sqrt(all(square) / width as f32 + args.eps);
    let stage = shared_base() + 4 * WIDEST_INDEX * warp;
    j = 0;
    while j < VALUES {
        let at = lane() + 32 * j as u32;
        sum[j] = sum[j] * inverse * gain[j];
        if at < width {
            st_shared_f32(stage + 4 * at, sum[j]);
        }
        j += 1;
    }
    warp_barrier();
    let (places, turns) = turns(&args.turn, (position + 1).saturating_sub(size));
    j = 0;
    while j < PAIRS {
        if lane() + 32 * (j as u32) < args.turn.half {
            let pair = turned(places[j].map(|at| ld_shared_f32(stage + 4 * at)), turns[j]);
            st_shared_f32(stage + 4 * places[j][0], pair[0]);
            st_shared_f32(stage + 4 * places[j][1], pair[1]);
        }
        j += 1;
    }
    warp_barrier();
    put(width, place, spread(width, |at| ld_shared_f32(stage + 4 * at)));
}

/// A vector of the key's width, spread over the lanes; zeros where there is none.
#[inline(always)]
unsafe fn vector(args: &IndexAppendArgs, from: u64) -> [f32; VALUES] {
    spread(if from == 0 { 0 } else { args.cache.width }, |at| ld_global_f32(from + 4 * u64::from(at)))
}

/// A row's key as the page has it: with gates, after its layer norm.
#[inline(always)]
unsafe fn key(args: &IndexAppendArgs, from: u64, [gain, bias]: [[f32; VALUES]; 2]) -> [f32; VALUES] {
    let width = args.cache.width;
    let mut x = vector(args, from);
    if args.gates == 0 {
        return x;
    }
    let mut sum = 0.0;
    let mut j = 0;
    while j < VALUES {
        sum += x[j];
        j += 1;
    }
    let mean = all(sum) / width as f32;
    let mut square = 0.0;
    j = 0;
    while j < VALUES {
        x[j] -= mean;
        if lane() + 32 * (j as u32) < width {
            square = fma(x[j], x[j], square);
        }
        j += 1;
    }
    let inverse = 1.0 / sqrt(all(square) / width as f32 + args.eps);
    j = 0;
    while j < VALUES {
        x[j] = fma(x[j] * inverse, gain[j], bias[j]);
        j += 1;
    }
    x
}

/// Writes a vector that the lanes hold.
#[inline(always)]
unsafe fn put(width: u32, to: u64, values: [f32; VALUES]) {
    let mut j = 0;
    while j < VALUES {
        let at = lane() + 32 * j as u32;
        if at < width {
            st_global_f32(to + 4 * u64::from(at), values[j]);
        }
        j += 1;
    }
}

/// The sum over the lanes, in every one.
#[inline(always)]
unsafe fn all(mut x: f32) -> f32 {
    x += shfl_xor_f32(x, 16);
    x += shfl_xor_f32(x, 8);
    x += shfl_xor_f32(x, 4);
    x += shfl_xor_f32(x, 2);
    x + shfl_xor_f32(x, 1)
}
