//! Elementary functions with the same bits on every instruction set.

use super::lanes::Lanes;

/// Below this e^x counts as zero (the smallest normal number is e^-87.34).
const EXP_MIN: f32 = -87.33;
/// Above this e^x counts as infinite.
const EXP_MAX: f32 = 88.72;
/// 1.5 * 2^23: adding it rounds to an integer, which then sits in the low bits of the mantissa.
const ROUND: f32 = 12_582_912.0;
/// The leading 15 bits of ln 2, so that `n * LN2_HIGH` is exact, and the rest.
const LN2_HIGH: f32 = 0.693_145_75;
const LN2_LOW: f32 = 1.428_606_8e-6;
/// `(e^r - 1 - r) / r^2` on |r| <= ln 2 / 2, ascending; minimax fit (Lawson), relative error of e^r below 2^-28.
const EXP: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_717, 0.001_381_459_9];

/// e^x in each lane, at most 2 units in the last place off; 0 below -87.33, infinite above 88.72.
#[inline(always)]
pub(super) fn exp<V: Lanes>(x: V) -> V {
    // SAFETY: `x` proves that the machine has V's instruction set.
    let constant = |value| unsafe { V::splat(value) };
    let shifted = x.fma(constant(std::f32::consts::LOG2_E), constant(ROUND));
    let n = shifted.sub(constant(ROUND));
    let r = n.fma(constant(-LN2_LOW), n.fma(constant(-LN2_HIGH), x));
    let mut q = constant(EXP[4]);
    for c in [EXP[3], EXP[2], EXP[1], EXP[0]] {
        q = q.fma(r, constant(c));
    }
    let power = q.mul(r).fma(r, r).add(constant(1.0)).add_exponent(shifted);
    let power = x.if_less(constant(EXP_MIN), constant(0.0), power);
    constant(EXP_MAX).if_less(x, constant(f32::INFINITY), power).nan_of(x)
}

/// `y / (1 + e^-x)` in each lane: `y` times the sigmoid of `x`.
#[inline(always)]
pub(super) fn gated<V: Lanes>(y: V, x: V) -> V {
    // SAFETY: `x` proves that the machine has V's instruction set.
    let constant = |value| unsafe { V::splat(value) };
    y.div(constant(1.0).add(exp(constant(0.0).sub(x))))
}

/// `x / (1 + e^-x)` in each lane.
#[inline(always)]
pub(super) fn silu<V: Lanes>(x: V) -> V {
    gated(x, x)
}

/// `1 / (1 + e^-x)` in each lane.
#[inline(always)]
pub(super) fn sigmoid<V: Lanes>(x: V) -> V {
    // SAFETY: `x` proves that the machine has V's instruction set.
    gated(unsafe { V::splat(1.0) }, x)
}

/// [`sigmoid`] of one value.
#[inline(always)]
pub(super) fn sigmoid_one(x: f32) -> f32 {
    1.0 / (1.0 + exp_one(-x))
}

/// [`exp`] of one value.
#[inline(always)]
pub(super) fn exp_one(x: f32) -> f32 {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut q = EXP[4];
    for c in [EXP[3], EXP[2], EXP[1], EXP[0]] {
        q = q.mul_add(r, c);
    }
    let power = (q * r).mul_add(r, r) + 1.0;
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

/// tanh x in each lane, absolute error below 2e-7; from e^2x, so small |x| lose relative precision.
#[inline(always)]
pub(super) fn tanh<V: Lanes>(x: V) -> V {
    // SAFETY: `x` proves that the machine has V's instruction set.
    let constant = |value| unsafe { V::splat(value) };
    let power = exp(x.add(x));
    constant(1.0).sub(constant(2.0).div(power.add(constant(1.0))))
}

#[cfg(test)]
mod tests {
    use super::super::Isa;
    use super::super::lanes::{Kernel, LANES, dispatch};
    use super::*;

    struct ExpTanh<'a>(&'a [f32; LANES]);

    impl Kernel for ExpTanh<'_> {
        type Output = [[f32; LANES]; 2];
        #[inline(always)]
        unsafe fn run<V: Lanes>(self) -> Self::Output {
            let mut out = [[0.0; LANES]; 2];
            // SAFETY: arrays of 16 values; the instruction set is the caller's promise.
            unsafe {
                let x = V::load(self.0.as_ptr());
                exp(x).store(out[0].as_mut_ptr());
                tanh(x).store(out[1].as_mut_ptr());
            }
            out
        }
    }

    /// Every 97th f32 with a finite normal power, and the borders.
    fn arguments() -> impl Iterator<Item = [f32; LANES]> {
        let mut positive = (0..=88.72_f32.to_bits()).step_by(97).map(f32::from_bits);
        std::iter::from_fn(move || {
            let x = positive.next()?;
            let mut lanes = [x; LANES];
            for (i, lane) in lanes.iter_mut().enumerate() {
                *lane = if i % 2 == 1 {
                    -x.min(87.33)
                } else {
                    f32::from_bits(x.to_bits() + 4 * i as u32).min(88.72)
                };
            }
            Some(lanes)
        })
    }

    #[test]
    fn exp_and_tanh_are_accurate() {
        let (mut worst, mut worst_tanh) = (0.0_f64, 0.0_f64);
        let isa = Isa::detect();
        for x in arguments().step_by(7) {
            let [power, tangent] = dispatch(isa, ExpTanh(&x));
            for i in [0, 1] {
                let exact = f64::from(x[i]).exp();
                let ulp = f64::from(f32::EPSILON) * exact.log2().floor().exp2();
                worst = worst.max((f64::from(power[i]) - exact).abs() / ulp);
                worst_tanh = worst_tanh.max((f64::from(tangent[i]) - f64::from(x[i]).tanh()).abs());
            }
        }
        println!("exp: {worst} ulp, tanh: {worst_tanh}");
        assert!(worst <= 2.0, "{worst} ulp");
        assert!(worst_tanh <= 2e-7, "{worst_tanh}");
    }

    #[test]
    fn exp_knows_its_borders() {
        assert_eq!(exp_one(0.0), 1.0);
        assert_eq!(exp_one(-0.0), 1.0);
        assert_eq!(exp_one(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_one(-88.0), 0.0);
        assert_eq!(exp_one(f32::INFINITY), f32::INFINITY);
        assert!(exp_one(88.72).is_finite() && exp_one(-87.33) > 0.0);
        assert!(exp_one(f32::NAN).is_nan());
        assert!(exp_one(f32::from_bits(0x7fc0_0001)).is_nan());
    }

    #[test]
    fn all_instruction_sets_and_the_scalar_form_agree() {
        let special = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, 89.0, -89.0];
        let mut lanes = [f32::from_bits(0x7fc0_0007); LANES];
        lanes[..8].copy_from_slice(&special);
        let bits = |x: f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
        for x in arguments().step_by(501).chain([lanes]) {
            let expected = dispatch(Isa::Scalar, ExpTanh(&x)).map(|row| row.map(bits));
            assert_eq!(x.map(|x| bits(exp_one(x))), expected[0]);
            for isa in Isa::available() {
                assert_eq!(dispatch(isa, ExpTanh(&x)).map(|row| row.map(bits)), expected, "{isa:?} {x:?}");
            }
        }
    }
}
