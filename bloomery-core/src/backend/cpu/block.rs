//! Ops of a block that guesses tokens.

use bloomery_kernels::cpu::KernelError;

use super::step::Step;
use crate::program::{Buffer, Gain};
use crate::weights::MatrixId;

impl Step<'_> {
    /// Rows of `x`, one later; states take and give those at the ends.
    pub(super) fn previous(&mut self, x: Buffer, out: Buffer) -> Result<(), KernelError> {
        self.carried(out)?;
        let cols = x.cols;
        let mut shifted = self.take(out);
        let (rows, last) = (&self.buffers[x.index], self.states.len() - 1);
        for run in &self.runs.runs {
            for row in run.rows.start + 1..run.rows.end {
                shifted[row * cols..][..cols].copy_from_slice(&rows[(row - 1) * cols..][..cols]);
            }
        }
        let states = self.states[last].values();
        for &(row, state) in &self.runs.saves {
            states[state * cols..][..cols].copy_from_slice(&rows[row * cols..][..cols]);
        }
        self.put(out, shifted);
        Ok(())
    }

    /// What every sequence's state has, in the first of its rows.
    pub(super) fn carried(&mut self, out: Buffer) -> Result<(), KernelError> {
        let (cols, last) = (out.cols, self.states.len() - 1);
        self.write(out, |step, rows| {
            let states = step.states[last].values();
            for run in &step.runs.runs {
                let row = &mut rows[run.rows.start * cols..][..cols];
                match run.from {
                    Some(state) => row.copy_from_slice(&states[state * cols..][..cols]),
                    None => row.fill(0.0),
                }
            }
            Ok(())
        })
    }

    /// Normed embeddings beside normed rows of every stream.
    pub(super) fn pair(
        &mut self,
        (table, embedding_norm): (MatrixId, Gain),
        (x, norm): (Buffer, Gain),
        streams: usize,
        out: Buffer,
    ) -> Result<(), KernelError> {
        let (cols, count) = (x.cols / streams, self.rows(&x));
        let (mut found, mut embeddings) = (vec![0.0; count * cols], vec![0.0; count * cols]);
        self.cpu.embed(self.model.matrix(table)?, self.batch.tokens, &mut found)?;
        self.cpu.rms_norm(&found, count, self.model.norm(embedding_norm), &mut embeddings)?;
        let mut normed = vec![0.0; count * x.cols];
        self.cpu.stream_norm(&self.buffers[x.index], streams, self.model.norm(norm), &mut normed)?;
        self.write(out, |_, rows| {
            let halves = normed.chunks_exact(cols).enumerate();
            for (pair, (index, row)) in rows.chunks_exact_mut(2 * cols).zip(halves) {
                pair[..cols].copy_from_slice(&embeddings[index / streams * cols..][..cols]);
                pair[cols..].copy_from_slice(row);
            }
            Ok(())
        })
    }
}
