//! Of a block that guesses tokens: rows that come one later, and pairs of normalised rows.

use super::abi::draft::{CarryArgs, PairArgs};
use super::math::inverse_rms;
use super::rounding::{load8, scaled};
use super::simt::{
    await_predecessors, barrier, block, divide, lane, ld_global_f32, ld_global_f32x4, ld_global_u32,
    ld_shared_f32, release_successor, shared_base, st_global_f32x4, st_shared_f32, thread, threads, warp,
};

/// Row `block()`, and the slot that gets it.
///
/// # Safety
/// The contract of `Carry::launch`: buffers of the lengths in [`CarryArgs`], aligned to 16 bytes.
#[inline(always)]
pub(crate) unsafe fn carry(args: CarryArgs) {
    await_predecessors();
    release_successor();
    let (row, shifts) = (block(), args.x != 0);
    let sequence = ld_global_u32(args.sequence + 4 * u64::from(row)).min(args.sequences - 1);
    let starts = args.starts + 4 * u64::from(sequence);
    let (first, last) = (ld_global_u32(starts), ld_global_u32(starts + 4).min(args.rows) - 1);
    let from = slot(&args, ld_global_u32(args.from + 4 * u64::from(sequence)));
    let opens = row == first || !shifts;
    let mut kept = if shifts { saved(&args, row) } else { 0 };
    let mut late = 0;
    // The slot that a sequence starts from may be that of its last row: who reads it writes it, and nobody else.
    if opens && shifts && last != row && saved(&args, last) == from {
        late = from;
    } else if !opens && kept == from {
        kept = 0;
    }
    let stride = 4 * u64::from(args.cols);
    let before = if opens { from } else { args.x + u64::from(row - 1) * stride };
    let mut quad = thread();
    while 4 * quad < args.cols {
        let at = 16 * u64::from(quad);
        let values = if before != 0 { ld_global_f32x4(before + at) } else { [0.0; 4] };
        st_global_f32x4(args.out + u64::from(row) * stride + at, values);
        if kept != 0 {
            st_global_f32x4(kept + at, ld_global_f32x4(args.x + u64::from(row) * stride + at));
        }
        if late != 0 {
            st_global_f32x4(late + at, ld_global_f32x4(args.x + u64::from(last) * stride + at));
        }
        quad += threads();
    }
}

/// Where slot `slot` is, or 0 if there is no such slot.
#[inline(always)]
fn slot(args: &CarryArgs, slot: u32) -> u64 {
    if slot < args.slots { args.states + 4 * u64::from(slot) * u64::from(args.cols) } else { 0 }
}

/// The slot that gets a row, or 0.
#[inline(always)]
unsafe fn saved(args: &CarryArgs, row: u32) -> u64 {
    slot(args, ld_global_u32(args.saves + 4 * u64::from(row)))
}

/// Half `block() % 2` of stream `block() / 2` of all rows, with the bits of `norm_quantize`.
///
/// # Safety
/// The contract of `Pair::launch`: buffers of the lengths in [`PairArgs`], aligned to 16 bytes; there are 16 bytes of shared memory.
#[inline(always)]
pub(crate) unsafe fn pair(args: PairArgs) {
    await_predecessors();
    release_successor();
    let (row, stream) = divide(block() / 2, args.streams);
    let stride = 4 * u64::from(args.cols);
    let (x, gain, eps) = match block() % 2 == 1 {
        false => (args.x[0] + u64::from(row) * stride, args.gain[0], args.eps[0]),
        true => {
            let x = args.x[1] + u64::from(block() / 2) * stride;
            (x, args.gain[1] + u64::from(stream) * stride, args.eps[1])
        }
    };
    let scratch = shared_base();
    if warp() == 0 {
        let inverse = inverse_rms(args.cols, eps, |at| ld_global_f32(x + 4 * u64::from(at)));
        if lane() == 0 {
            st_shared_f32(scratch, inverse);
        }
    }
    barrier();
    let inverse = ld_shared_f32(scratch);
    let out = args.out + u64::from(block()) * stride;
    let mut at = 8 * thread();
    while at < args.cols {
        let place = 4 * u64::from(at);
        let [a, b, c, d, e, f, g, h] = scaled(load8(x + place), inverse, load8(gain + place));
        st_global_f32x4(out + place, [a, b, c, d]);
        st_global_f32x4(out + place + 16, [e, f, g, h]);
        at += 8 * threads();
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::{CarryArgs, PairArgs};

    crate::simt::bounds!(carry, 512, 2);
    crate::simt::bounds!(pair, 512, 2);

    /// See [`carry`](super::carry).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn carry(args: CarryArgs) {
        super::carry(args);
    }

    /// See [`pair`](super::pair).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn pair(args: PairArgs) {
        super::pair(args);
    }
}
