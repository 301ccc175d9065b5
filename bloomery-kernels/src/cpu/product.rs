//! A few rows of weights times activations, through whichever kernel suits the number of rows.

use std::ops::Range;

use super::dots::{Input, MAX_ROWS, Pick, dots};
use super::gemm::{Gemm, PANEL, TILE_LANES, Tiles};
use super::{Cpu, Isa, Matrix};

/// Weight rows that [`Operand::multiply`] takes at once, at most.
pub(super) const CHUNK: usize = 64;

/// Activation rows as a matrix wants them.
#[derive(Clone)]
pub(super) enum Operand<'a> {
    /// Few rows.
    Rows(Input<'a>, Pick<'a>),
    /// Many rows: these lanes of the tiles. The first lane is the first of a tile.
    Tiles(Gemm, Tiles<'a>, Range<usize>),
}

impl<'a> Operand<'a> {
    /// Activation rows.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Rows(_, Pick::Range(range)) => range.len(),
            Self::Rows(_, Pick::List(list)) => list.len(),
            Self::Tiles(_, _, lanes) => lanes.len(),
        }
    }

    /// Activation rows that one pass over weights serves.
    pub(super) fn batch(&self) -> usize {
        match self {
            Self::Rows(..) => MAX_ROWS,
            Self::Tiles(..) => TILE_LANES,
        }
    }

    /// Weight rows of a task.
    pub(super) fn chunk(&self, cpu: &Cpu, rows: usize) -> usize {
        match self {
            // Whole cache lines of output, and about four tasks for each thread.
            Self::Rows(..) => (rows / (4 * cpu.pool.threads())).next_multiple_of(16).clamp(16, CHUNK),
            Self::Tiles(..) => PANEL,
        }
    }

    /// Some of the activation rows. (Of tiles: the start must be the first lane of one.)
    pub(super) fn range(&self, range: Range<usize>) -> Self {
        let shift = |base: usize| base + range.start..base + range.end;
        match self {
            Self::Rows(input, Pick::Range(all)) => Self::Rows(*input, Pick::Range(shift(all.start))),
            Self::Rows(input, Pick::List(list)) => Self::Rows(*input, Pick::List(&list[range])),
            Self::Tiles(gemm, tiles, lanes) => Self::Tiles(*gemm, *tiles, shift(lanes.start)),
        }
    }

    /// Calls `sink(i, values)` with the products of weight rows `rows` (at most [`Operand::chunk`]) and activation row `i`,
    /// for every `i < self.len()`.
    pub(super) fn multiply(
        &self,
        isa: Isa,
        weight: &Matrix<'_>,
        rows: Range<usize>,
        sink: &mut dyn FnMut(usize, &[f32]),
    ) {
        match self {
            Self::Tiles(gemm, tiles, lanes) => {
                gemm.run(weight, rows, *tiles, lanes.clone(), &mut |lane, values| {
                    sink(lane - lanes.start, values);
                });
            }
            Self::Rows(..) => {
                let mut buffer = [0.0; MAX_ROWS * CHUNK];
                for first in (0..self.len()).step_by(MAX_ROWS) {
                    let (width, count) = (rows.len(), MAX_ROWS.min(self.len() - first));
                    let Self::Rows(input, pick) = self.range(first..first + count) else { return };
                    dots(isa, weight, rows.clone(), input, pick, &mut buffer, width);
                    for (i, values) in buffer.chunks_exact(width).take(count).enumerate() {
                        sink(first + i, values);
                    }
                }
            }
        }
    }
}
