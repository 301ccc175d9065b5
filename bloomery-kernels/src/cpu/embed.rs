//! Rows of the token table.

use super::dots::supports;
use super::matrix::read_row;
use super::{Cpu, KernelError, Matrix, split};

/// Values one task is worth.
const VALUES_PER_TASK: usize = 16 * 1024;

impl Cpu {
    /// `out[i] = table[ids[i]]` as f32, rows of `table.cols()` values; the table has any format of weights.
    ///
    /// # Errors
    /// [`KernelError::OutOfRange`] for an id beyond the table, [`KernelError::Length`] when `out` does not hold a row for
    /// each id, [`KernelError::NoProduct`] for a table of integers. Nothing is written then.
    pub fn embed(&self, table: Matrix<'_>, ids: &[u32], out: &mut [f32]) -> Result<(), KernelError> {
        self.embed_scaled(table, ids, 1.0, out)
    }

    /// `out[i] = scale * table[ids[i]]`, as [`Cpu::embed`].
    ///
    /// # Errors
    /// Those of [`Cpu::embed`].
    pub fn embed_scaled(
        &self,
        table: Matrix<'_>,
        ids: &[u32],
        scale: f32,
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        let cols = table.cols();
        KernelError::length("embedded rows", ids.len() * cols, out.len())?;
        if !supports(table.format()) {
            return Err(KernelError::NoProduct { format: table.format() });
        }
        for &id in ids {
            KernelError::below("token id", id as usize, table.rows())?;
        }
        let block = split::rows_per_task(ids.len(), cols, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, out, cols, block, &|first, rows| {
            for (row, &id) in rows.chunks_exact_mut(cols).zip(&ids[first..]) {
                read_row(table.format(), table.row(id as usize), row);
                if scale != 1.0 {
                    row.iter_mut().for_each(|value| *value *= scale);
                }
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bloomery_gguf::{Format, dequantize, quantize};

    use super::super::testing::{Rng, cpus};
    use super::*;

    #[test]
    fn rows_come_back_as_the_format_stores_them() {
        let (rows, cols) = (300, 512);
        let mut rng = Rng::new(1);
        let values = rng.normals(rows * cols);
        for format in [Format::Q8_0, Format::Q4_K, Format::Q6_K] {
            let data = quantize::quantize(format, &values).unwrap();
            let table = Matrix::new(format, rows, cols, &data).unwrap();
            let mut all = vec![0.0; rows * cols];
            dequantize(format, &data, &mut all).unwrap();
            for count in [0, 1, 2, 33, 200] {
                let ids: Vec<u32> = (0..count).map(|_| rng.below(rows) as u32).collect();
                for cpu in cpus() {
                    let mut out = vec![0.0; count * cols];
                    cpu.embed(table, &ids, &mut out).unwrap();
                    for (row, &id) in out.chunks(cols).zip(&ids) {
                        assert_eq!(row, &all[id as usize * cols..][..cols]);
                    }
                    let mut scaled = vec![0.0; count * cols];
                    cpu.embed_scaled(table, &ids, 6.5, &mut scaled).unwrap();
                    assert!(scaled.iter().zip(&out).all(|(scaled, x)| *scaled == x * 6.5));
                }
            }
        }
    }

    #[test]
    fn bad_calls_are_refused() {
        let data = vec![0; 4 * 32];
        let table = Matrix::new(Format::F32, 4, 8, &data).unwrap();
        let cpu = cpus().remove(0);
        let error = cpu.embed(table, &[0, 4], &mut [0.0; 16]).unwrap_err();
        assert_eq!(error.to_string(), "token id 4 is out of range: must be below 4");
        assert!(matches!(cpu.embed(table, &[0], &mut [0.0; 16]), Err(KernelError::Length { .. })));
        let integers = Matrix::new(Format::I32, 4, 8, &data).unwrap();
        assert!(matches!(cpu.embed(integers, &[0], &mut [0.0; 8]), Err(KernelError::NoProduct { .. })));
    }
}
