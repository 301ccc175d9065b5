//! Rows of activations, normalised or not, as two numbers of 16 bits for each value.

use super::super::abi::formats::{F16, F32};
use super::super::abi::many_float::SplitArgs;
use super::super::rounded::{Source, inverse_rms, square_sum};
use super::super::rounding::scaled;
use super::super::simt::{
    await_predecessors, barrier, bfloat2, block, half, half2, lane, ld_shared_u32, release_successor,
    shared_base, st_global_f32, st_global_f32x4, st_global_u32x2, st_global_u32x4, st_shared_f32,
    st_shared_u32, warp, warp_max, warps,
};

/// The largest magnitude of the warp's values, as bits: those order as magnitudes do.
#[inline(always)]
unsafe fn magnitude(values: [f32; 8]) -> u32 {
    let (mut top, mut i) = (0, 0);
    while i < 8 {
        let bits = values[i].to_bits() & 0x7fff_ffff;
        top = if bits > top { bits } else { top };
        i += 1;
    }
    warp_max(top)
}

/// The power of two that brings a magnitude to between 2^14 and 2^15, and its inverse: both are normal numbers.
#[inline(always)]
fn factors(magnitude: f32) -> (f32, f32) {
    let exponent = 268 - (magnitude.to_bits() >> 23 & 0xff);
    let exponent = if exponent > 253 { 253 } else { exponent };
    (f32::from_bits(exponent << 23), f32::from_bits((254 - exponent) << 23))
}

/// Two values as halves, and what these leave.
#[inline(always)]
fn halves(a: f32, b: f32) -> (u32, u32) {
    let high = half2(a, b);
    (high, half2(a - half(high as u16), b - half((high >> 16) as u16)))
}

/// Two values as bfloat16, and what these leave.
#[inline(always)]
fn bfloats(a: f32, b: f32) -> (u32, u32) {
    let high = bfloat2(a, b);
    (high, bfloat2(a - f32::from_bits(high << 16), b - f32::from_bits(high & 0xffff_0000)))
}

/// Writes eight values of a row, from column `at` on, as the format has them.
#[inline(always)]
unsafe fn store(args: &SplitArgs, row: u32, at: u32, values: [f32; 8]) {
    let first = u64::from(row) * u64::from(args.cols);
    if args.format == F32 {
        let to = args.high + 4 * (first + u64::from(at));
        st_global_f32x4(to, [values[0], values[1], values[2], values[3]]);
        st_global_f32x4(to + 16, [values[4], values[5], values[6], values[7]]);
        return;
    }
    let (mut high, mut low, mut i) = ([0; 4], [0; 4], 0);
    while i < 4 {
        let (a, b) = (values[2 * i], values[2 * i + 1]);
        (high[i], low[i]) = if args.format == F16 { halves(a, b) } else { bfloats(a, b) };
        i += 1;
    }
    if args.operands == 0 {
        let to = 2 * (first + u64::from(at));
        st_global_u32x4(args.high + to, high);
        st_global_u32x4(args.low + to, low);
        return;
    }
    // Column 16 s + 4 t + i of 32 goes to 8 t + 4 s + i: a lane has four columns of two products side by side.
    let (group, s, t) = (at / 32, at / 16 % 2, at / 4 % 4);
    let to = 2 * (first + u64::from(32 * group + 8 * t + 4 * s));
    st_global_u32x2(args.high + to, [high[0], high[1]]);
    st_global_u32x2(args.high + to + 16, [high[2], high[3]]);
    st_global_u32x2(args.low + to, [low[0], low[1]]);
    st_global_u32x2(args.low + to + 16, [low[2], low[3]]);
}

/// The kernel: row `block()`.
///
/// # Safety
/// Buffers of the lengths in [`SplitArgs`] for as many rows as the grid has blocks, aligned to 16 bytes; `cols` is a multiple of 8, or of
/// 32 in the order of operands; two words of shared memory for every 256 columns.
#[inline(always)]
pub(crate) unsafe fn split(args: SplitArgs) {
    let SplitArgs { x, gain, eps, cols, .. } = args;
    let source = Source { x, gain, up: 0, act: 0, limit: 0.0, eps, cols };
    let (row, groups) = (block(), cols.div_ceil(256));
    let (squares, tops) = (shared_base(), shared_base() + 4 * groups);
    await_predecessors();
    release_successor();
    if gain != 0 || args.factors != 0 {
        let mut group = warp();
        while group < groups {
            let mut values = source.values(row, group);
            let sum = square_sum(values);
            if gain != 0 {
                values = scaled(values, 1.0, source.gains(group));
            }
            let top = magnitude(values);
            if lane() == 0 {
                st_shared_f32(squares + 4 * group, sum);
                st_shared_u32(tops + 4 * group, top);
            }
            group += warps();
        }
        barrier();
    }
    let inverse = if gain == 0 { 1.0 } else { inverse_rms(squares, groups, cols, eps) };
    let mut factor = 1.0;
    if args.factors != 0 {
        let (mut top, mut group) = (0, lane());
        while group < groups {
            let other = ld_shared_u32(tops + 4 * group);
            top = if other > top { other } else { top };
            group += 32;
        }
        let back;
        (factor, back) = factors(f32::from_bits(warp_max(top)) * inverse);
        if warp() == 0 && lane() == 0 {
            st_global_f32(args.factors + 4 * u64::from(row), back);
        }
    }
    let mut group = warp();
    while group < groups {
        let mut values = source.values(row, group);
        if gain != 0 {
            values = scaled(values, inverse, source.gains(group));
        }
        if 256 * group + 8 * lane() < cols {
            let mut i = 0;
            while i < 8 {
                values[i] *= factor;
                i += 1;
            }
            store(&args, row, 256 * group + 8 * lane(), values);
        }
        group += warps();
    }
}
