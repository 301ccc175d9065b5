//! Root-mean-square normalisation: `y = x / sqrt(mean(x^2) + eps) * gain`.
//!
//! The sum of squares runs in 16 f32 lanes (lane = index mod 16) that one fixed tree folds; the rest is one rounding
//! an operation: `(x * (1 / sqrt(sum / n + eps))) * gain`.

use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::{Cpu, KernelError, split};

/// The gain and the epsilon of a root-mean-square norm.
#[derive(Debug, Clone, Copy)]
pub struct Norm<'a> {
    /// One factor a column, as stored in the file.
    pub gain: &'a [f32],
    /// Added to the mean square.
    pub eps: f32,
}

/// Rows are worth another thread from this many values on: below, a region costs more than it saves.
const VALUES_PER_TASK: usize = 8192;

impl Cpu {
    /// Normalises each of the `rows` rows of `x` (`[rows][norm.gain.len()]`) into `out`.
    ///
    /// # Errors
    /// [`KernelError::Length`] when `x` or `out` does not hold `rows` rows.
    pub fn rms_norm(
        &self,
        x: &[f32],
        rows: usize,
        norm: Norm<'_>,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        let what = ["input of rms_norm", "output of rms_norm"];
        self.rows_by(what, (x, rows, norm.gain.len()), out, &|x, out| {
            dispatch(self.isa, RowsInto { x, norm, out });
        })
    }

    /// `out += ` each of the `rows` rows of `x`, normalised.
    ///
    /// # Errors
    /// [`KernelError::Length`] when `x` or `out` does not hold `rows` rows.
    pub fn add_norm(
        &self,
        x: &[f32],
        rows: usize,
        norm: Norm<'_>,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        let what = ["input of add_norm", "output of add_norm"];
        self.rows_by(what, (x, rows, norm.gain.len()), out, &|x, out| {
            dispatch(self.isa, RowsOnto { x, norm, out });
        })
    }

    /// Has every thread do blocks of the `rows` rows of `x` and `out`.
    fn rows_by(
        &self,
        what: [&'static str; 2],
        (x, rows, cols): (&[f32], usize, usize),
        out: &mut [f32],
        work: &(dyn Fn(&[f32], &mut [f32]) + Sync),
    ) -> Result<(), KernelError> {
        KernelError::length(what[0], rows * cols, x.len())?;
        KernelError::length(what[1], rows * cols, out.len())?;
        if cols == 0 {
            return Ok(());
        }
        let block = split::rows_per_task(rows, cols, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, out, cols, block, &|first, out| {
            work(&x[first * cols..first * cols + out.len()], out);
        });
        Ok(())
    }
}

/// Adds rows of `norm.gain.len()` values after normalising them.
struct RowsOnto<'a> {
    x: &'a [f32],
    norm: Norm<'a>,
    out: &'a mut [f32],
}

impl Kernel for RowsOnto<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let cols = self.norm.gain.len();
        for (x, out) in self.x.chunks_exact(cols).zip(self.out.chunks_exact_mut(cols)) {
            // SAFETY: the instruction set is the caller's promise.
            let inverse = unsafe { inverse_rms::<V>(x, self.norm.eps) };
            // Plain loops: one rounding an operation, so the compiler may vectorise freely.
            for ((out, x), gain) in out.iter_mut().zip(x).zip(self.norm.gain) {
                *out += x * inverse * gain;
            }
        }
    }
}

/// Normalises rows of `norm.gain.len()` values.
struct RowsInto<'a> {
    x: &'a [f32],
    norm: Norm<'a>,
    out: &'a mut [f32],
}

impl Kernel for RowsInto<'_> {
    type Output = ();
    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let cols = self.norm.gain.len();
        for (x, out) in self.x.chunks_exact(cols).zip(self.out.chunks_exact_mut(cols)) {
            out.copy_from_slice(x);
            // SAFETY: the instruction set is the caller's promise.
            unsafe { in_place::<V>(out, self.norm) }
        }
    }
}

/// Normalises one row where it lies.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn in_place<V: Lanes>(row: &mut [f32], norm: Norm<'_>) {
    // SAFETY: the instruction set is this function's own contract.
    let inverse = unsafe { inverse_rms::<V>(row, norm.eps) };
    let (vectors, rest) = row.as_chunks_mut::<LANES>();
    let (gains, rest_gain) = norm.gain.as_chunks::<LANES>();
    for (vector, gain) in vectors.iter_mut().zip(gains) {
        // SAFETY: both chunks hold 16 values; the instruction set is this function's own contract.
        unsafe {
            let scaled = V::load(vector.as_ptr()).mul(V::splat(inverse)).mul(V::load(gain.as_ptr()));
            scaled.store(vector.as_mut_ptr());
        }
    }
    for (value, gain) in rest.iter_mut().zip(rest_gain) {
        *value = *value * inverse * gain;
    }
}

/// `1 / sqrt(mean(row^2) + eps)`.
///
/// # Safety
/// The machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn inverse_rms<V: Lanes>(row: &[f32], eps: f32) -> f32 {
    let (vectors, rest) = row.as_chunks::<LANES>();
    let mut tail = [0.0; LANES];
    tail[..rest.len()].copy_from_slice(rest);
    // SAFETY: every chunk holds 16 values; the instruction set is this function's own contract.
    let sum = unsafe {
        let mut squares = V::splat(0.0);
        for vector in vectors {
            let x = V::load(vector.as_ptr());
            squares = x.fma(x, squares);
        }
        let x = V::load(tail.as_ptr());
        x.fma(x, squares).sum()
    };
    1.0 / (sum / row.len() as f32 + eps).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Rng, cpus};
    use super::*;

    #[test]
    fn agrees_with_double_precision_and_with_every_instruction_set() {
        for cols in [1, 2, 15, 16, 17, 31, 80, 128, 2048, 2049] {
            for rows in [1, 2, 3, 7, 33] {
                let mut rng = Rng::new((cols * rows) as u64);
                let (x, gain) = (rng.normals(rows * cols), rng.normals(cols));
                let norm = Norm { gain: &gain, eps: 1e-6 };
                let mut expected: Option<Vec<f32>> = None;
                for cpu in cpus() {
                    let mut out = vec![0.0; rows * cols];
                    cpu.rms_norm(&x, rows, norm, &mut out).unwrap();
                    for (row, got) in x.chunks(cols).zip(out.chunks(cols)) {
                        let mean = row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / cols as f64;
                        for ((&v, &g), &y) in row.iter().zip(&gain).zip(got) {
                            let exact = f64::from(v) / (mean + f64::from(1e-6_f32)).sqrt() * f64::from(g);
                            // Each lane adds cols / 16 squares, then 4 tree steps, a division, a sum, a root, an
                            // inverse and two products; half of the relative error of the sum reaches the result.
                            let steps = (cols.div_ceil(LANES) + 6) as f64 / 2.0 + 4.0;
                            let bound = exact.abs() * steps * f64::from(f32::EPSILON) + 1e-37;
                            assert!((f64::from(y) - exact).abs() <= bound, "{cols} {y} {exact}");
                        }
                    }
                    let expected = expected.get_or_insert_with(|| out.clone());
                    assert_eq!(&out, expected, "{cols} columns, {rows} rows, {cpu:?}");
                }
            }
        }
    }

    #[test]
    fn adds_what_it_would_write() {
        for (rows, cols) in [(1, 1), (3, 17), (33, 96), (5, 2048)] {
            let mut rng = Rng::new(cols as u64);
            let (x, gain, before) = (rng.normals(rows * cols), rng.normals(cols), rng.normals(rows * cols));
            let norm = Norm { gain: &gain, eps: 1e-6 };
            for cpu in cpus() {
                let (mut normed, mut out) = (vec![0.0; rows * cols], before.clone());
                cpu.rms_norm(&x, rows, norm, &mut normed).unwrap();
                cpu.add_norm(&x, rows, norm, &mut out).unwrap();
                let sum = before.iter().zip(&normed).map(|(a, b)| a + b);
                assert!(out.iter().zip(sum).all(|(got, sum)| got.to_bits() == sum.to_bits()));
            }
        }
        let (cpu, norm) = (cpus().remove(0), Norm { gain: &[1.0; 4], eps: 1e-6 });
        assert!(cpu.add_norm(&[0.0; 7], 2, norm, &mut [0.0; 8]).is_err());
        assert!(cpu.add_norm(&[0.0; 8], 2, norm, &mut [0.0; 7]).is_err());
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let cpu = cpus().remove(0);
        let norm = Norm { gain: &[1.0; 4], eps: 1e-6 };
        assert!(cpu.rms_norm(&[0.0; 7], 2, norm, &mut [0.0; 8]).is_err());
        assert!(cpu.rms_norm(&[0.0; 8], 2, norm, &mut [0.0; 7]).is_err());
    }
}
