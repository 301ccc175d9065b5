//! Choosing experts: router logits, the k largest, their weights.
//!
//! Activations stay f32 here whatever the numerics: near-ties decide experts, and one other expert changes a layer
//! far more than any rounding.

use super::dots::{Input, Pick};
use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::math::exp;
use super::product::Operand;
use super::project::{Job, check_weight};
use super::shared::Shared;
use super::{Cpu, KernelError, Matrix, Routes, Scratch, split};

/// How logits become scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RouterScore {
    /// `e^logit / sum of e^logit` over all experts.
    #[default]
    Softmax,
}

/// How a router chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RouterSpec {
    /// Experts of a row: those with the largest scores, of equal ones the lower number.
    pub used: usize,
    /// What a logit means.
    pub score: RouterScore,
    /// Divide the weights of a row by their sum.
    pub renormalize: bool,
    /// Multiplies the weights.
    pub scale: f32,
}

impl RouterSpec {
    /// Softmax over all experts, the largest `used` renormalised to sum 1.
    #[must_use]
    pub fn softmax(used: usize) -> Self {
        Self { used, score: RouterScore::Softmax, renormalize: true, scale: 1.0 }
    }
}

/// Logits one task selects from.
const LOGITS_PER_TASK: usize = 4096;

impl Cpu {
    /// Routes the `rows` rows of `n` (`[rows][router.cols()]`, normalised) with `router` (`[experts][cols]`): fills
    /// `routes`, the slots of a row by descending weight. A NaN logit counts as the smallest.
    ///
    /// # Errors
    /// [`KernelError::Length`] when `n` does not hold `rows` rows, [`KernelError::Shape`] when `spec.used` is zero or more
    /// than there are experts, [`KernelError::NoProduct`] for a router of integers.
    pub fn route(
        &self,
        n: &[f32],
        rows: usize,
        router: Matrix<'_>,
        spec: &RouterSpec,
        routes: &mut Routes,
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let experts = router.rows();
        check_weight("columns of the router", &router, router.cols())?;
        KernelError::length("router input", rows * router.cols(), n.len())?;
        if spec.used == 0 || spec.used > experts {
            let rule = "at least 1 and at most the number of experts";
            return Err(KernelError::Shape { what: "experts of a row", value: spec.used, rule });
        }
        let logits = &mut scratch.logits;
        logits.resize(rows * experts, 0.0);
        self.products(&[Job {
            weight: router,
            bias: None,
            accumulate: false,
            operand: Operand::Rows(Input::Floats(n), Pick::Range(0..rows)),
            out: Shared::new(logits),
        }]);
        (routes.rows, routes.used) = (rows, spec.used);
        routes.experts.resize(rows * spec.used, 0);
        routes.weights.resize(rows * spec.used, 0.0);
        let block = split::rows_per_task(rows, experts, LOGITS_PER_TASK, self.pool.threads());
        let (chosen, logits) = (Shared::new(&mut routes.experts), Shared::new(logits));
        split::for_row_blocks(&self.pool, &mut routes.weights, spec.used, block, &|first, weights| {
            let count = weights.len() / spec.used;
            // SAFETY: blocks of different tasks have different rows.
            let (chosen, logits) = unsafe {
                (
                    chosen.part(first * spec.used..(first + count) * spec.used),
                    logits.part(first * experts..(first + count) * experts),
                )
            };
            let rows = chosen.chunks_exact_mut(spec.used).zip(weights.chunks_exact_mut(spec.used));
            for ((chosen, weights), logits) in rows.zip(logits.chunks_exact_mut(experts)) {
                select(logits, chosen);
                dispatch(self.isa, Weigh { spec, logits, chosen, weights });
            }
        });
        Ok(())
    }
}

/// The largest logits, descending; of equal ones the lower index first.
fn select(logits: &[f32], chosen: &mut [u32]) {
    let key = |expert: usize| if logits[expert].is_nan() { f32::NEG_INFINITY } else { logits[expert] };
    // An insertion sort of the best so far: few experts beat the last of them.
    let mut held = 0;
    for expert in 0..logits.len() {
        let mut place = held;
        while place > 0 && key(expert) > key(chosen[place - 1] as usize) {
            place -= 1;
        }
        if place < chosen.len() {
            held = (held + 1).min(chosen.len());
            chosen[place..held].rotate_right(1);
            chosen[place] = expert as u32;
        }
    }
}

/// Weights of the chosen experts of one row.
struct Weigh<'a> {
    spec: &'a RouterSpec,
    /// Overwritten.
    logits: &'a mut [f32],
    chosen: &'a [u32],
    weights: &'a mut [f32],
}

impl Kernel for Weigh<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let RouterScore::Softmax = self.spec.score;
        let most = self.logits[self.chosen[0] as usize];
        // SAFETY: chunks and arrays of 16 values; the instruction set is the caller's promise.
        let total = unsafe {
            let (shift, mut total) = (V::splat(most), V::splat(0.0));
            let (vectors, rest) = self.logits.as_chunks_mut::<LANES>();
            for vector in vectors {
                let power = exp(V::load(vector.as_ptr()).sub(shift));
                power.store(vector.as_mut_ptr());
                total = total.add(power);
            }
            let mut tail = [f32::NEG_INFINITY; LANES];
            tail[..rest.len()].copy_from_slice(rest);
            let power = exp(V::load(tail.as_ptr()).sub(shift));
            power.store(tail.as_mut_ptr());
            rest.copy_from_slice(&tail[..rest.len()]);
            total.add(power).sum()
        };
        let mut among = 0.0;
        for (weight, &expert) in self.weights.iter_mut().zip(self.chosen) {
            *weight = self.logits[expert as usize];
            among += *weight;
        }
        let divisor = if self.spec.renormalize { among } else { total };
        for weight in self.weights {
            *weight = *weight / divisor * self.spec.scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use bloomery_gguf::Format;

    use super::super::testing::{Rng, cpus};
    use super::*;

    fn bytes(values: &[f32], format: Format) -> Vec<u8> {
        match format {
            Format::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Format::F16 => values.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
            Format::BF16 => values.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
            _ => bloomery_gguf::quantize::quantize(format, values).unwrap(),
        }
    }

    #[test]
    fn chooses_as_double_precision_does() {
        for (experts, used, cols) in [(1, 1, 32), (8, 3, 64), (60, 4, 96), (128, 8, 2048), (130, 130, 32)] {
            for format in [Format::F32, Format::F16, Format::BF16, Format::Q8_0] {
                for (rows, renormalize) in [(1, true), (2, false), (7, true), (33, false)] {
                    let mut rng = Rng::new((experts * cols + rows) as u64);
                    let x = rng.normals(rows * cols);
                    let data = bytes(&rng.normals(experts * cols), format);
                    let router = Matrix::new(format, experts, cols, &data).unwrap();
                    let mut weights = vec![0.0; experts * cols];
                    bloomery_gguf::dequantize(format, &data, &mut weights).unwrap();
                    let spec = RouterSpec { renormalize, scale: 1.5, ..RouterSpec::softmax(used) };
                    let mut expected = None;
                    for cpu in cpus() {
                        let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
                        cpu.route(&x, rows, router, &spec, &mut routes, &mut scratch).unwrap();
                        // The others have the bits of the first.
                        let expected = expected.get_or_insert_with(|| {
                            for row in 0..rows {
                                verify(&x[row * cols..][..cols], &weights, &spec, &routes, row);
                            }
                            routes.clone()
                        });
                        assert_eq!(*expected, routes, "{cpu:?}");
                    }
                    // A row alone is routed as among others.
                    let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
                    let last = &x[(rows - 1) * cols..];
                    cpus().remove(0).route(last, 1, router, &spec, &mut routes, &mut scratch).unwrap();
                    let expected = expected.unwrap();
                    assert_eq!(routes.experts, expected.experts[(rows - 1) * used..]);
                    assert_eq!(routes.weights, expected.weights[(rows - 1) * used..]);
                }
            }
        }
    }

    fn verify(x: &[f32], weights: &[f32], spec: &RouterSpec, routes: &Routes, row: usize) {
        let logit = |w: &[f32]| x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>();
        let logits: Vec<f64> = weights.chunks(x.len()).map(logit).collect();
        let range = row * spec.used..(row + 1) * spec.used;
        let (chosen, got) = (&routes.experts[range.clone()], &routes.weights[range]);
        // 16 lanes of cols / 16 fused terms and a tree of 4, the terms below 25 in magnitude.
        let off = (x.len() / 16 + 4) as f64 * x.len() as f64 / 16.0 * f64::from(f32::EPSILON);
        let least = chosen.iter().map(|&e| logits[e as usize]).fold(f64::INFINITY, f64::min);
        for (expert, logit) in logits.iter().enumerate() {
            assert!(chosen.contains(&(expert as u32)) || *logit <= least + 2.0 * off);
        }
        assert!(
            chosen.windows(2).all(|pair| logits[pair[0] as usize] >= logits[pair[1] as usize] - 2.0 * off)
        );
        assert!(got.windows(2).all(|pair| pair[0] >= pair[1]));
        let most = logits.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let power = |e: usize| (logits[e] - most).exp();
        let divisor: f64 = if spec.renormalize {
            chosen.iter().map(|&e| power(e as usize)).sum()
        } else {
            (0..logits.len()).map(power).sum()
        };
        for (&expert, &weight) in chosen.iter().zip(got) {
            let exact = power(expert as usize) / divisor * f64::from(spec.scale);
            assert!(
                (f64::from(weight) - exact).abs() <= exact * (4.0 * off + 2e-6) + 1e-30,
                "{weight} {exact}"
            );
        }
    }

    #[test]
    fn ties_go_to_the_lower_expert_and_nan_to_the_end() {
        let mut chosen = [0; 4];
        select(&[1.0, 3.0, 1.0, 3.0, f32::NAN, 1.0], &mut chosen);
        assert_eq!(chosen, [1, 3, 0, 2]);
        select(&[f32::NAN; 6], &mut chosen);
        assert_eq!(chosen, [0, 1, 2, 3]);
        let mut all = [0; 3];
        select(&[f32::NAN, -1.0, f32::INFINITY], &mut all);
        assert_eq!(all, [2, 1, 0]);
        // Equal rows of the router give equal logits.
        let data = bytes(&[1.0; 6 * 32], Format::F32);
        let router = Matrix::new(Format::F32, 6, 32, &data).unwrap();
        for cpu in cpus() {
            let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
            cpu.route(&[0.5; 64], 2, router, &RouterSpec::softmax(4), &mut routes, &mut scratch).unwrap();
            assert_eq!(routes.experts, [0, 1, 2, 3, 0, 1, 2, 3]);
            assert_eq!(routes.weights, [0.25; 8]);
        }
    }

    #[test]
    fn bad_calls_are_refused() {
        let data = bytes(&[1.0; 6 * 32], Format::F32);
        let router = Matrix::new(Format::F32, 6, 32, &data).unwrap();
        let cpu = cpus().remove(0);
        let (mut routes, mut scratch) = (Routes::default(), Scratch::default());
        for (used, values) in [(0, 64), (7, 64), (2, 63)] {
            let spec = RouterSpec::softmax(used);
            assert!(cpu.route(&vec![0.5; values], 2, router, &spec, &mut routes, &mut scratch).is_err());
        }
        let integers = Matrix::new(Format::I8, 6, 128, &data).unwrap();
        let spec = RouterSpec::softmax(2);
        let error = cpu.route(&[0.5; 128], 1, integers, &spec, &mut routes, &mut scratch);
        assert!(matches!(error, Err(KernelError::NoProduct { .. })));
    }
}
