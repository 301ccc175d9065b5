//! The CPU's elementary functions, bit for bit: the same constants, operations and order.

use super::abi::activation::GELU;
use super::simt::{fma, shfl_xor_f32, sqrt, thread};

/// Below this e^x counts as zero.
const EXP_MIN: f32 = -87.33;
/// Above this e^x counts as infinite.
const EXP_MAX: f32 = 88.72;
/// 1.5 * 2^23: adding it rounds to an integer.
const ROUND: f32 = 12_582_912.0;
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_717, 0.001_381_459_9];

/// 1/3, 1/5, ... 1/15.
const SERIES: [f32; 7] =
    [0.333_333_34, 0.2, 0.142_857_15, 0.111_111_11, 0.090_909_09, 0.076_923_08, 0.066_666_67];

/// e^x.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let shifted = fma(x, core::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x));
    let mut q = EXP[4];
    q = fma(q, r, EXP[3]);
    q = fma(q, r, EXP[2]);
    q = fma(q, r, EXP[1]);
    q = fma(q, r, EXP[0]);
    let power = fma(q * r, r, r) + 1.0;
    let power = f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23));
    if x.is_nan() {
        f32::NAN
    } else if x < EXP_MIN {
        0.0
    } else if x > EXP_MAX {
        f32::INFINITY
    } else {
        power
    }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(0.0 - x))
}

/// `ln(1 + e^x)`; `x` above 20.
///
/// The decays of all rows multiply: they need every bit, so the logarithm is `2 atanh(y / (2 + y))`, whose series ends below 1e-8 for
/// `y = e^-|x|` up to 1.
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    if x > 20.0 {
        return x;
    }
    let (y, above) = if x > 0.0 { (exp(0.0 - x), x) } else { (exp(x), 0.0) };
    let s = y / (2.0 + y);
    let square = s * s;
    let (mut sum, mut i) = (SERIES[6], 6);
    while i > 0 {
        i -= 1;
        sum = fma(sum, square, SERIES[i]);
    }
    let half = fma(s * square, sum, s);
    fma(2.0, half, above)
}

/// `z / (1 + e^-z)`.
#[inline(always)]
pub(crate) fn silu(z: f32) -> f32 {
    z / (1.0 + exp(0.0 - z))
}

/// What a gate goes through: `silu(z)`, or with [`GELU`] `z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)))`, which is `z` times a sigmoid too.
#[inline(always)]
pub(crate) fn activated(act: u32, z: f32) -> f32 {
    let inner = if act == GELU { 1.595_769 * fma(0.044_715 * z * z, z, z) } else { z };
    z / (1.0 + exp(0.0 - inner))
}

/// A gate through its activation, times `up`: a gate of at most `limit`, an `up` within it on both sides, numbers or not.
#[inline(always)]
pub(crate) fn gated(act: u32, limit: f32, gate: f32, up: f32) -> f32 {
    let gate = if gate > limit { limit } else { gate };
    let up = if up > limit { limit } else { up };
    let up = if up < -limit { -limit } else { up };
    activated(act, gate) * up
}

/// Values that are loaded while as many are summed: the sums depend on each other, the loads do not.
const BATCH: u32 = 8;

/// `1 / sqrt(mean(x^2) + eps)` of a row, in every one of 16 neighbouring lanes: lane i sums the squares of the values i,
/// i + 16, ..., then a tree adds the lanes. `load` gives a value.
///
/// # Safety
/// All lanes of the warp get here with the same `cols`; `load` may be called for every column.
#[inline(always)]
pub(crate) unsafe fn inverse_rms(cols: u32, eps: f32, load: impl Fn(u32) -> f32) -> f32 {
    const B: usize = BATCH as usize;
    let batch = |at: u32| {
        let (mut values, mut i) = ([0.0; B], 0);
        while i < BATCH {
            values[i as usize] = load(at + 16 * i);
            i += 1;
        }
        values
    };
    let add = |mut sum: f32, values: [f32; B]| {
        let mut i = 0;
        while i < B {
            sum = fma(values[i], values[i], sum);
            i += 1;
        }
        sum
    };
    let lane = thread() % 16;
    let (mut sum, mut at) = (0.0, lane);
    let whole = |at: u32| at + 16 * (BATCH - 1) < cols;
    if whole(at) {
        let mut now = batch(at);
        at += 16 * BATCH;
        while whole(at) {
            let next = batch(at);
            sum = add(sum, now);
            now = next;
            at += 16 * BATCH;
        }
        sum = add(sum, now);
    }
    while at < cols {
        let value = load(at);
        sum = fma(value, value, sum);
        at += 16;
    }
    sum += shfl_xor_f32(sum, 8);
    sum += shfl_xor_f32(sum, 4);
    sum += shfl_xor_f32(sum, 2);
    sum += shfl_xor_f32(sum, 1);
    1.0 / sqrt(sum / cols as f32 + eps)
}
