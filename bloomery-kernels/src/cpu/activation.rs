//! Activation functions of gated feed-forward blocks, with the same bits on every instruction set.

use super::Isa;
use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::math::{exp, silu};

/// What the gate goes through before it multiplies the other half.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Activation {
    /// `z / (1 + e^-z)`.
    #[default]
    Silu,
    /// `z / 2 (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3)))`, the usual approximation of GELU.
    GeluTanh,
    /// `z / 2 (1 + erf(z / sqrt 2))`, with an absolute error of erf below 2e-7.
    Gelu,
    /// `max(z, 0)`.
    Relu,
    /// [`Silu`](Self::Silu) of `min(z, limit)`, and the other half within the limit on both sides.
    ClampedSilu {
        /// The limit.
        limit: f32,
    },
}

impl Activation {
    /// `out = activation(gate) * up`; equal lengths.
    pub(super) fn gate(self, isa: Isa, gate: &[f32], up: &[f32], out: &mut [f32]) {
        match self {
            Self::Silu => dispatch(isa, Gate { f: Silu, gate, up, out }),
            Self::GeluTanh => dispatch(isa, Gate { f: GeluTanh, gate, up, out }),
            Self::Gelu => dispatch(isa, Gate { f: Gelu, gate, up, out }),
            Self::Relu => dispatch(isa, Gate { f: Relu, gate, up, out }),
            Self::ClampedSilu { limit } => dispatch(isa, Gate { f: ClampedSilu(limit), gate, up, out }),
        }
    }
}

/// A function of one variable, and what becomes of what it multiplies.
trait Function {
    fn of<V: Lanes>(&self, z: V, constant: impl Fn(f32) -> V) -> V;

    #[inline(always)]
    fn other<V: Lanes>(&self, up: V, _: impl Fn(f32) -> V) -> V {
        up
    }
}

struct Silu;
struct GeluTanh;
struct Gelu;
struct Relu;
struct ClampedSilu(f32);

impl Function for ClampedSilu {
    #[inline(always)]
    fn of<V: Lanes>(&self, z: V, constant: impl Fn(f32) -> V) -> V {
        let limit = constant(self.0);
        silu(z.if_less(limit, z, limit).nan_of(z))
    }

    #[inline(always)]
    fn other<V: Lanes>(&self, up: V, constant: impl Fn(f32) -> V) -> V {
        let limit = constant(self.0);
        up.if_less(limit, up, limit).max(constant(-self.0)).nan_of(up)
    }
}

impl Function for Silu {
    #[inline(always)]
    fn of<V: Lanes>(&self, z: V, _: impl Fn(f32) -> V) -> V {
        silu(z)
    }
}

impl Function for GeluTanh {
    /// `(1 + tanh u) / 2 = 1 / (1 + e^-2u)`.
    #[inline(always)]
    fn of<V: Lanes>(&self, z: V, constant: impl Fn(f32) -> V) -> V {
        let cubic = z.mul(z).fma(constant(0.044_715), constant(1.0)).mul(z);
        // 2 sqrt(2 / pi)
        let power = exp(cubic.mul(constant(-1.595_769)));
        z.div(constant(1.0).add(power))
    }
}

impl Function for Gelu {
    /// `1 - erf |x| = (a1 t + ... + a5 t^5) e^-x^2`, `t = 1 / (1 + p |x|)`: Abramowitz and Stegun 7.1.26.
    #[inline(always)]
    fn of<V: Lanes>(&self, z: V, constant: impl Fn(f32) -> V) -> V {
        let x = z.mul(constant(std::f32::consts::FRAC_1_SQRT_2));
        let magnitude = x.max(constant(0.0).sub(x));
        let t = constant(1.0).div(magnitude.fma(constant(0.327_591_1), constant(1.0)));
        let mut sum = constant(1.061_405_4);
        for a in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
            sum = sum.fma(t, constant(a));
        }
        let tail = sum.mul(t).mul(exp(constant(0.0).sub(x.mul(x)))).mul(constant(0.5));
        // Phi(z): the tail below zero, its complement above.
        z.mul(x.if_less(constant(0.0), tail, constant(1.0).sub(tail)))
    }
}

impl Function for Relu {
    #[inline(always)]
    fn of<V: Lanes>(&self, z: V, constant: impl Fn(f32) -> V) -> V {
        z.max(constant(0.0)).nan_of(z)
    }
}

struct Gate<'a, F> {
    f: F,
    gate: &'a [f32],
    up: &'a [f32],
    out: &'a mut [f32],
}

impl<F: Function> Kernel for Gate<'_, F> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let step = |gate: &[f32; LANES], up: &[f32; LANES], out: &mut [f32; LANES]| {
            // SAFETY: arrays of 16 values; the caller promises the instruction set.
            unsafe {
                let up = self.f.other(
                    V::load(up.as_ptr()),
                    #[inline(always)]
                    |c| V::splat(c),
                );
                let value = self.f.of(
                    V::load(gate.as_ptr()),
                    #[inline(always)]
                    |c| V::splat(c),
                );
                value.mul(up).store(out.as_mut_ptr());
            }
        };
        let (gates, gate_rest) = self.gate.as_chunks();
        let (ups, up_rest) = self.up.as_chunks();
        let (outs, out_rest) = self.out.as_chunks_mut();
        for ((gate, up), out) in gates.iter().zip(ups).zip(outs) {
            step(gate, up, out);
        }
        let n = out_rest.len().min(gate_rest.len()).min(up_rest.len());
        if n > 0 {
            let (mut gate, mut up, mut out) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
            gate[..n].copy_from_slice(&gate_rest[..n]);
            up[..n].copy_from_slice(&up_rest[..n]);
            step(&gate, &up, &mut out);
            out_rest[..n].copy_from_slice(&out[..n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(activation: Activation, z: f64) -> f64 {
        match activation {
            Activation::Silu => z / (1.0 + (-z).exp()),
            Activation::GeluTanh => {
                // (1 + tanh u) / 2, without its cancellation below zero.
                let u = (2.0 / std::f64::consts::PI).sqrt() * (z + 0.044715 * z.powi(3));
                z / (1.0 + (-2.0 * u).exp())
            }
            Activation::Gelu => {
                // erf by its Taylor series for small, by 1 for large arguments.
                let x = z / 2f64.sqrt();
                let erf = if x.abs() > 5.0 {
                    x.signum()
                } else {
                    let (mut sum, mut term) = (0.0, x);
                    for n in 0..120 {
                        sum += term / f64::from(2 * n + 1);
                        term *= -x * x / f64::from(n + 1);
                    }
                    sum * 2.0 / std::f64::consts::PI.sqrt()
                };
                0.5 * z * (1.0 + erf)
            }
            Activation::Relu => z.max(0.0),
            Activation::ClampedSilu { limit } => {
                let z = z.min(f64::from(limit));
                z / (1.0 + (-z).exp())
            }
        }
    }

    const ALL: [Activation; 5] = [
        Activation::Silu,
        Activation::GeluTanh,
        Activation::Gelu,
        Activation::Relu,
        Activation::ClampedSilu { limit: 2.0 },
    ];

    #[test]
    fn limits_hold_on_both_sides() {
        let up = [-3.0, -2.0, 0.5, 2.0, 7.0, f32::NAN];
        let mut out = [0.0; 6];
        Activation::ClampedSilu { limit: 2.0 }.gate(Isa::detect(), &[100.0; 6], &up, &mut out);
        let two = 2.0 / (1.0 + (-2.0_f32).exp());
        let expected = [-2.0, -2.0, 0.5, 2.0, 2.0].map(|up| up * two);
        assert!(out.iter().zip(expected).all(|(out, expected)| (out - expected).abs() < 1e-6), "{out:?}");
        assert!(out[5].is_nan());
    }

    #[test]
    fn near_the_real_functions() {
        for activation in ALL {
            for i in -1200..1200 {
                let z = i as f32 * 0.01;
                let mut out = [0.0];
                activation.gate(Isa::detect(), &[z], &[1.0], &mut out);
                let (found, expected) = (f64::from(out[0]), reference(activation, f64::from(z)));
                // exp: 2 ulp, then three roundings (1.2e-7 each, relative); erf: 2e-7 of |z| / 2, and its cancellation.
                let slack = if activation == Activation::Gelu {
                    4e-7 * f64::from(z.abs())
                } else {
                    6e-7 * expected.abs() + 1e-37
                };
                // The argument of exp in GeluTanh reaches 2u = 140 at z = 12, its relative error 3e-7 goes to the exponent.
                let slack =
                    if activation == Activation::GeluTanh { slack + expected.abs() * 5e-5 } else { slack };
                assert!((found - expected).abs() <= slack, "{activation:?}({z}) = {found}, not {expected}");
            }
        }
    }

    #[test]
    fn same_bits_everywhere_and_borders() {
        let gate: Vec<f32> =
            (0..77).map(|i| (i as f32 - 38.0) * 2.7).chain([f32::NAN, f32::INFINITY, -0.0]).collect();
        let up: Vec<f32> = (0..80).map(|i| 1.0 + i as f32 * 0.01).collect();
        for activation in ALL {
            let run = |isa| {
                let mut out = vec![0.0; 80];
                activation.gate(isa, &gate, &up, &mut out);
                out.into_iter()
                    .map(|v: f32| if v.is_nan() { u32::MAX } else { v.to_bits() })
                    .collect::<Vec<_>>()
            };
            let scalar = run(Isa::Scalar);
            assert_eq!(scalar[77], u32::MAX, "{activation:?}");
            for isa in Isa::available() {
                assert_eq!(run(isa), scalar, "{activation:?} {isa:?}");
            }
        }
    }
}
