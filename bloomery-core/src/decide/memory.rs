//! What attention looks at: the rows of a prompt, the same transposed, and their moments.

use bloomery_kernels::cpu::Cpu;

use super::maths::{Moments, each};
use super::pieces::{PIECE, Pieces};

/// Rows that come one after the other. All that depends on a row alone is computed when it comes.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) rows: Pieces,
    /// A piece is the rows of [`PIECE`] positions.
    pub(super) columns: Pieces,
    pub(super) moments: Vec<Moments>,
    /// Rows that are there.
    filled: usize,
}

impl Memory {
    /// Room for rows.
    pub(super) fn new(rows: usize, width: usize) -> Self {
        let moments = vec![Moments::default(); rows];
        Self { rows: Pieces::zeros(rows, width), columns: Pieces::zeros(width, rows), moments, filled: 0 }
    }

    /// Of all its rows.
    pub(super) fn of(cpu: &Cpu, rows: &[f32], width: usize) -> Self {
        let mut memory = Self::new(rows.len() / width, width);
        memory.rows = Pieces::new(rows, width);
        memory.fill(cpu, rows.len() / width);
        memory
    }

    pub(super) fn len(&self) -> usize {
        self.rows.rows()
    }

    /// Takes in that `count` more rows have been written.
    pub(super) fn fill(&mut self, cpu: &Cpu, count: usize) {
        /// Rows of a task.
        const ROWS: usize = 8;
        let (start, end) = (self.filled, self.filled + count);
        self.filled = end;
        let rows = &self.rows;
        let tasks = self.moments[start..end].chunks_mut(ROWS).enumerate().collect();
        each(cpu, tasks, &|(task, moments): (usize, &mut [Moments])| {
            for (index, moments) in moments.iter_mut().enumerate() {
                let row = start + task * ROWS + index;
                *moments = Moments::of((0..rows.count()).map(|piece| rows.part(piece, row..row + 1)));
            }
        });
        // A piece is transposed when it is whole.
        let whole = if end == self.len() { self.columns.count() } else { end / PIECE };
        (start / PIECE..whole).for_each(|piece| self.transpose(cpu, piece));
    }

    fn transpose(&mut self, cpu: &Cpu, piece: usize) {
        /// Positions that are read together, so that whole cache lines are written.
        const BLOCK: usize = 16;
        /// Columns of a task.
        const COLUMNS: usize = 32;
        let (rows, first, width) = (&self.rows, piece * PIECE, self.columns.width(piece));
        let columns = self.columns.part_mut(piece, 0..rows.cols());
        let tasks = columns.chunks_mut(COLUMNS * width).enumerate().collect();
        each(cpu, tasks, &|(task, out): (usize, &mut [f32])| {
            // A piece of rows is a multiple of a task's columns, so these are in one.
            let (source, skip) = (task * COLUMNS / PIECE, task * COLUMNS % PIECE);
            let stride = rows.width(source);
            let values = rows.part(source, first..first + width);
            for at in (0..width).step_by(BLOCK) {
                let block = &values[at * stride..(at + BLOCK).min(width) * stride];
                for (col, out) in out.chunks_exact_mut(width).enumerate() {
                    let out = &mut out[at..(at + BLOCK).min(width)];
                    out.iter_mut()
                        .zip(block.iter().skip(skip + col).step_by(stride))
                        .for_each(|(out, &x)| *out = x);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use bloomery_kernels::cpu::{Isa, Numerics, Pool};

    use super::*;

    #[test]
    fn rows_in_any_parts_are_the_same_memory() {
        let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Exact);
        for (rows, width) in [(1, 3), (PIECE, 48), (PIECE + 17, PIECE + 40), (2 * PIECE + 1, 8)] {
            let values: Vec<f32> = (0..rows * width).map(|value| (value % 1013) as f32).collect();
            let whole = Memory::of(&cpu, &values, width);
            let mut parts = Memory::new(rows, width);
            for start in (0..rows).step_by(100) {
                let end = rows.min(start + 100);
                for piece in 0..parts.rows.count() {
                    parts
                        .rows
                        .part_mut(piece, start..end)
                        .copy_from_slice(whole.rows.part(piece, start..end));
                }
                parts.fill(&cpu, end - start);
            }
            assert_eq!(parts.moments, whole.moments);
            for memory in [whole, parts] {
                for row in 0..rows {
                    for col in 0..width {
                        let columns = memory.columns.part(row / PIECE, col..col + 1);
                        assert_eq!(
                            columns[row % PIECE],
                            values[row * width + col],
                            "{rows} {width} {row} {col}"
                        );
                    }
                    let row = &values[row * width..][..width];
                    let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / width as f64;
                    let variance =
                        row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / width as f64;
                    let found = Moments::of([row].into_iter());
                    assert!((found.mean - mean).abs() < 1e-9 && (found.variance - variance).abs() < 1e-6);
                }
            }
        }
    }
}
