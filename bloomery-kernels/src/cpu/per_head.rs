//! Products of every head of a row with a matrix of its own.

use super::dots::Pick;
use super::gemm::LANES;
use super::product::Operand;
use super::project::check_weight;
use super::scratch::Want;
use super::shared::Shared;
use super::{Cpu, KernelError, Scratch, Stack};

impl Cpu {
    /// For every row and head: the head of `x` (`[rows][heads][cols + tail]`) becomes that of `out`
    /// (`[rows][heads][matrix rows + tail]`): its first `cols` values times the head's matrix of `weights`, then the other
    /// `tail` values as they are.
    ///
    /// # Errors
    /// When a length does not fit the shapes, or the weight format has no product.
    pub fn per_head(
        &self,
        x: &[f32],
        rows: usize,
        weights: &Stack<'_>,
        tail: usize,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) -> Result<(), KernelError> {
        let (heads, cols, height) = (weights.count(), weights.cols(), weights.rows());
        let (from, to) = (cols + tail, height + tail);
        KernelError::length("heads of activations", rows * heads * from, x.len())?;
        KernelError::length("heads of results", rows * heads * to, out.len())?;
        if rows * heads == 0 {
            return Ok(());
        }
        let shape = weights.matrix(0);
        check_weight("columns of a head", &shape, cols)?;
        let Scratch { normed, input, .. } = scratch;
        let floats = match tail {
            0 => x,
            _ => {
                normed.resize(rows * heads * cols, 0.0);
                let both = normed.chunks_exact_mut(cols).zip(x.chunks_exact(from));
                both.for_each(|(to, from)| to.copy_from_slice(&from[..cols]));
                out.chunks_exact_mut(to).zip(x.chunks_exact(from)).for_each(|(out, x)| {
                    out[height..].copy_from_slice(&x[cols..]);
                });
                &normed[..]
            }
        };
        let mut want = Want::default();
        want.add(self, &shape);
        if want != Want::default() {
            input.fill(self, rows * heads, cols, want, &|i| &floats[i * cols..(i + 1) * cols]);
        }
        // Lanes of tiles: all rows of a head, from the first lane of a tile on.
        let lanes = rows.next_multiple_of(LANES);
        input.tile(self, heads * lanes, Want::tiles(self, &[shape], rows), &|lane| {
            let (head, row) = (lane / lanes, lane % lanes);
            (row < rows).then_some(row * heads + head)
        });
        let places: Vec<u32> = (0..heads * rows).map(|i| (i % rows * heads + i / rows) as u32).collect();
        let operands: Vec<Operand<'_>> = (0..heads)
            .map(|head| match self.gemm(&shape, rows) {
                Some(gemm) => {
                    let first = head * lanes;
                    Operand::Tiles(gemm, input.tiles(&shape), first..first + rows)
                }
                None => {
                    let pick = Pick::List(&places[head * rows..(head + 1) * rows]);
                    Operand::Rows(input.input(self, &shape, floats), pick)
                }
            })
            .collect();
        let chunk = operands[0].chunk(self, heads * height);
        let chunks = height.div_ceil(chunk);
        let out = Shared::new(out);
        self.pool.run(heads * chunks, &|task| {
            let (head, first) = (task / chunks, task % chunks * chunk);
            let weight_rows = first..(first + chunk).min(height);
            let (weight, operand) = (weights.matrix(head), &operands[head]);
            for at in (0..rows).step_by(operand.batch()) {
                let part = operand.range(at..rows.min(at + operand.batch()));
                part.multiply(self.isa, &weight, weight_rows.clone(), &mut |i, values| {
                    let start = ((at + i) * heads + head) * to;
                    // SAFETY: tasks differ in their head or their weight rows, and each (row, head, weight row) is one value.
                    let out = unsafe { out.part(start + weight_rows.start..start + weight_rows.end) };
                    out.copy_from_slice(values);
                });
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bloomery_gguf::{Format, dequantize};

    use super::super::testing::{Rng, bits, cpus, weights};
    use super::super::{Isa, Numerics, Part, Pool};
    use super::*;

    const FORMATS: [Format; 8] = [
        Format::F32,
        Format::F16,
        Format::BF16,
        Format::Q8_0,
        Format::Q5_0,
        Format::Q3_K,
        Format::Q4_K,
        Format::IQ4_XS,
    ];

    /// Each head's product as a projection.
    fn composed(cpu: &Cpu, x: &[f32], rows: usize, stack: &Stack<'_>, tail: usize) -> Vec<f32> {
        let (heads, from, to) = (stack.count(), stack.cols() + tail, stack.rows() + tail);
        let mut out = vec![0.0; rows * heads * to];
        for head in 0..heads {
            let at = |row: usize| &x[(row * heads + head) * from..][..from];
            let input: Vec<f32> = (0..rows).flat_map(|row| at(row)[..stack.cols()].to_vec()).collect();
            let mut values = vec![0.0; rows * stack.rows()];
            let part = Part { weight: stack.matrix(head), bias: None, out: &mut values, accumulate: false };
            cpu.project(&input, rows, None, &mut [part], &mut Scratch::default()).unwrap();
            for row in 0..rows {
                let out = &mut out[(row * heads + head) * to..][..to];
                out[..stack.rows()].copy_from_slice(&values[row * stack.rows()..][..stack.rows()]);
                out[stack.rows()..].copy_from_slice(&at(row)[stack.cols()..]);
            }
        }
        out
    }

    #[test]
    fn is_a_projection_of_every_head() {
        for format in FORMATS {
            for (rows, heads, height, cols, tail) in [
                (1, 3, 40, 256, 8),
                (2, 2, 64, 256, 0),
                (3, 1, 33, 512, 16),
                (9, 4, 48, 256, 0),
                (33, 3, 70, 256, 4),
            ] {
                let data = weights(format, heads * height * cols, rows as u64);
                let stack = Stack::new(format, heads, height, cols, &data).unwrap();
                let x = Rng::new(rows as u64).normals(rows * heads * (cols + tail));
                let mut expected: Option<Vec<u32>> = None;
                for cpu in cpus() {
                    let mut out = vec![f32::NAN; rows * heads * (height + tail)];
                    cpu.per_head(&x, rows, &stack, tail, &mut out, &mut Scratch::default()).unwrap();
                    assert_eq!(bits(&out), bits(&composed(&cpu, &x, rows, &stack, tail)), "{format} {rows}");
                    assert_eq!(bits(&out), *expected.get_or_insert_with(|| bits(&out)), "{format} {rows}");
                }
            }
        }
    }

    #[test]
    fn near_double_precision_without_rounding() {
        let (rows, heads, height, cols, tail) = (5, 3, 32, 64, 8);
        let cpu = Cpu::new(Pool::new(std::num::NonZeroUsize::MIN), Isa::detect(), Numerics::Exact);
        for format in [Format::BF16, Format::Q8_0] {
            let data = weights(format, heads * height * cols, 1);
            let stack = Stack::new(format, heads, height, cols, &data).unwrap();
            let mut floats = vec![0.0; heads * height * cols];
            dequantize(format, &data, &mut floats).unwrap();
            let x = Rng::new(2).normals(rows * heads * (cols + tail));
            let mut out = vec![0.0; rows * heads * (height + tail)];
            cpu.per_head(&x, rows, &stack, tail, &mut out, &mut Scratch::default()).unwrap();
            for (i, (x, out)) in x.chunks(cols + tail).zip(out.chunks(height + tail)).enumerate() {
                assert_eq!(x[cols..], out[height..]);
                for (r, got) in out[..height].iter().enumerate() {
                    let w = &floats[((i % heads) * height + r) * cols..][..cols];
                    let terms = || x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
                    let (exact, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                    assert!((f64::from(*got) - exact).abs() <= size * 10.0 * f64::from(f32::EPSILON));
                }
            }
        }
    }

    #[test]
    fn bad_calls_are_refused() {
        let cpu = cpus().remove(0);
        let data = vec![0; 4 * 2 * 8 * 16];
        let stack = Stack::new(Format::F32, 2, 8, 16, &data).unwrap();
        let mut scratch = Scratch::default();
        assert!(cpu.per_head(&[0.0; 96], 3, &stack, 0, &mut [0.0; 48], &mut scratch).is_ok());
        for (x, out, tail) in [(95, 48, 0), (96, 47, 0), (96, 48, 1)] {
            let result = cpu.per_head(&vec![0.0; x], 3, &stack, tail, &mut vec![0.0; out], &mut scratch);
            assert!(matches!(result, Err(KernelError::Length { .. })));
        }
        let integers = Stack::new(Format::I32, 2, 8, 16, &data).unwrap();
        let result = cpu.per_head(&[0.0; 96], 3, &integers, 0, &mut [0.0; 48], &mut scratch);
        assert!(matches!(result, Err(KernelError::NoProduct { .. })));
    }
}
