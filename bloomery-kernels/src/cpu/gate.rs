//! Rows multiplied by the sigmoid of other rows, or of one number each.

use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::math::{exp_one, gated};
use super::{Cpu, KernelError, split};

/// Values one task is worth.
const VALUES_PER_TASK: usize = 8192;

impl Cpu {
    /// `x *= sigmoid(gate)`, value by value.
    ///
    /// # Errors
    /// [`KernelError::Length`] when the two are not of one length.
    pub fn gate(&self, x: &mut [f32], gate: &[f32]) -> Result<(), KernelError> {
        KernelError::length("gate", x.len(), gate.len())?;
        let vectors = x.len().div_ceil(LANES);
        let block = split::rows_per_task(vectors, LANES, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, x, LANES, block, &|first, x| {
            let gate = &gate[first * LANES..][..x.len()];
            dispatch(self.isa, Gate { x, gate });
        });
        Ok(())
    }

    /// The sigmoid of `weights . x` for every row of `x` (`[rows][weights.len()]`), in f32 whatever the numerics.
    pub(super) fn share(&self, x: &[f32], weights: &[f32], factors: &mut Vec<f32>) {
        let cols = weights.len();
        factors.clear();
        factors.resize(x.len() / cols.max(1), 0.0);
        let block = split::rows_per_task(factors.len(), cols, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, factors, 1, block, &|first, factors| {
            for (factor, row) in factors.iter_mut().zip(x[first * cols..].chunks_exact(cols)) {
                let sum = dispatch(self.isa, Dot { a: row, b: weights });
                *factor = 1.0 / (1.0 + exp_one(-sum));
            }
        });
    }
}

struct Gate<'a> {
    x: &'a mut [f32],
    gate: &'a [f32],
}

impl Kernel for Gate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let step = |x: &mut [f32; LANES], gate: &[f32; LANES]| {
            // SAFETY: arrays of 16 values; the caller promises the instruction set.
            unsafe { gated(V::load(x.as_ptr()), V::load(gate.as_ptr())).store(x.as_mut_ptr()) }
        };
        let (vectors, rest) = self.x.as_chunks_mut();
        let (gates, rest_gates) = self.gate.as_chunks();
        for (x, gate) in vectors.iter_mut().zip(gates) {
            step(x, gate);
        }
        if !rest.is_empty() {
            let (mut x, mut gate) = ([0.0; LANES], [0.0; LANES]);
            x[..rest.len()].copy_from_slice(rest);
            gate[..rest.len()].copy_from_slice(rest_gates);
            step(&mut x, &gate);
            rest.copy_from_slice(&x[..rest.len()]);
        }
    }
}

/// The product of two rows, summed in 16 lanes.
struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Kernel for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) -> f32 {
        let (a, a_rest) = self.a.as_chunks::<LANES>();
        let (b, b_rest) = self.b.as_chunks::<LANES>();
        let (mut a_tail, mut b_tail) = ([0.0; LANES], [0.0; LANES]);
        a_tail[..a_rest.len()].copy_from_slice(a_rest);
        b_tail[..b_rest.len()].copy_from_slice(b_rest);
        // SAFETY: arrays of 16 values; the caller promises the instruction set.
        unsafe {
            let mut sum = V::splat(0.0);
            for (a, b) in a.iter().zip(b).chain([(&a_tail, &b_tail)]) {
                sum = V::load(a.as_ptr()).fma(V::load(b.as_ptr()), sum);
            }
            sum.sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rng, bits, cpus};

    #[test]
    fn multiplies_by_the_sigmoid() {
        for len in [0, 1, 15, 16, 17, 100, 40_000] {
            let mut rng = Rng::new(len as u64);
            let (x, gate) = (rng.normals(len), rng.normals(len));
            let mut gate: Vec<f32> = gate.iter().map(|z| z * 8.0).collect();
            gate.iter_mut().step_by(7).for_each(|z| *z *= 20.0);
            let mut expected: Option<Vec<u32>> = None;
            for cpu in cpus() {
                let mut out = x.clone();
                cpu.gate(&mut out, &gate).unwrap();
                for ((&x, &z), &got) in x.iter().zip(&gate).zip(&out) {
                    let exact = f64::from(x) / (1.0 + (-f64::from(z)).exp());
                    // exp loses 2 units, the sum and the division half a one each.
                    assert!((f64::from(got) - exact).abs() <= 5e-7 * exact.abs() + 1e-37, "{x} {z} {got}");
                }
                assert_eq!(bits(&out), *expected.get_or_insert_with(|| bits(&out)), "{cpu:?}");
            }
        }
        assert!(cpus()[0].gate(&mut [0.0; 3], &[0.0; 4]).is_err());
    }
}
