//! Buffers that outlive one call, and the forms of activations that products read.

use super::Cpu;
use super::dots::{Input, form};
use super::experts::Plan;
use super::gemm::{Gemm, LANES, NarrowBlock, TileBlock, Tiles};
use super::quantized::{Form, Quantized};
use super::shared::Shared;
use super::{Matrix, Numerics};

/// Buffers of the fused operations, kept between calls. One belongs to one caller at a time.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Normalised rows.
    pub(super) normed: Vec<f32>,
    /// The rows that a call multiplies.
    pub(super) input: Forms,
    /// What a feed-forward block has between its two products.
    pub(super) hidden_rows: Vec<f32>,
    pub(super) hidden: Forms,
    /// Products of one expert each, before they are weighted; one part per thread.
    pub(super) slots: Vec<f32>,
    /// The order of an expert layer's work.
    pub(super) plan: Plan,
    /// Router logits, and what experts are chosen by where that is something else.
    pub(super) logits: Vec<f32>,
    pub(super) scores: Vec<f32>,
    /// What multiplies the rows of a shared expert.
    pub(super) factors: Vec<f32>,
}

/// Activation rows as the weights of a call want them.
#[derive(Debug, Default)]
pub(super) struct Forms {
    narrow: Quantized,
    wide: Quantized,
    wide_tiles: Vec<TileBlock>,
    narrow_tiles: Vec<NarrowBlock>,
    tiles: usize,
}

/// Which forms a call needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) narrow: bool,
    pub(super) wide: bool,
}

impl Want {
    /// What the many-row kernels of `weights` need, where they have one that is worth while for `rows` rows.
    pub(super) fn tiles(cpu: &Cpu, weights: &[Matrix<'_>], rows: usize) -> Self {
        let mut want = Self::default();
        let tiled = weights.iter().filter(|weight| cpu.gemm(weight, rows).is_some());
        tiled.for_each(|weight| want.add(cpu, weight));
        want
    }

    /// Adds what `weight` needs.
    pub(super) fn add(&mut self, cpu: &Cpu, weight: &Matrix<'_>) {
        match cpu.form(weight) {
            Some(Form::Q8x32) => self.narrow = true,
            Some(Form::Q8x256) => self.wide = true,
            None => {}
        }
    }
}

/// Below this many values a region costs more than it saves: rounding takes about 0.2 ns a value.
pub(super) const SERIAL_VALUES: usize = 16 << 10;

impl Forms {
    /// Rounds `rows` rows of `cols` values, `row(i)` giving each. Rows of one or two thousand values are so short
    /// that few of them are rounded by the caller.
    pub(super) fn fill<'x>(
        &mut self,
        cpu: &Cpu,
        rows: usize,
        cols: usize,
        want: Want,
        row: &(dyn Fn(usize) -> &'x [f32] + Sync),
    ) {
        let narrow = want.narrow.then(|| self.narrow.start(rows, cols, Form::Q8x32));
        let wide = want.wide.then(|| self.wide.start(rows, cols, Form::Q8x256));
        cpu.each_row(rows, cols, &|i| {
            let x = row(i);
            if let Some(fill) = &narrow {
                fill.row(cpu.isa, i, x);
            }
            if let Some(fill) = &wide {
                fill.row(cpu.isa, i, x);
            }
        });
    }

    /// Interleaves rounded rows into tiles, in the forms `want`: lane `l` takes row `row(l)`.
    pub(super) fn tile(
        &mut self,
        cpu: &Cpu,
        lanes: usize,
        want: Want,
        row: &(dyn Fn(usize) -> Option<usize> + Sync),
    ) {
        self.tiles = lanes.div_ceil(LANES);
        let tiles = self.tiles;
        if want.wide {
            let (from, blocks) = (&self.wide, self.wide.cols() / 256);
            grow(&mut self.wide_tiles, tiles * blocks, TileBlock::ZERO);
            let out = Shared::new(&mut self.wide_tiles);
            cpu.pool.run(tiles, &|tile| {
                for block in 0..blocks {
                    let at = block * tiles + tile;
                    // SAFETY: this task is the only one of its tile, and `at` differs for different tiles and blocks.
                    let to = &mut unsafe { out.part(at..at + 1) }[0];
                    for lane in 0..LANES {
                        if let Some(row) = row(LANES * tile + lane) {
                            let values = from.values(row).as_chunks().0;
                            let sums = from.sums16(row).as_chunks().0;
                            to.set(lane, from.scales(row)[block], &values[block], &sums[block]);
                        } else {
                            to.set(lane, 0.0, &[0; 256], &[0; 16]);
                        }
                    }
                }
            });
        }
        if want.narrow {
            let (from, blocks) = (&self.narrow, self.narrow.cols() / 32);
            grow(&mut self.narrow_tiles, tiles * blocks, NarrowBlock::ZERO);
            let out = Shared::new(&mut self.narrow_tiles);
            cpu.pool.run(tiles, &|tile| {
                // SAFETY: this task is the only one of its tile.
                let to = unsafe { out.part(tile * blocks..(tile + 1) * blocks) };
                for lane in 0..LANES {
                    if let Some(row) = row(LANES * tile + lane) {
                        let values = from.values(row).as_chunks().0;
                        let (scales, sums) = (from.scales(row), from.sums32(row));
                        for (((to, values), d), sum) in to.iter_mut().zip(values).zip(scales).zip(sums) {
                            to.set(lane, *d, values, *sum);
                        }
                    } else {
                        to.iter_mut().for_each(|to| to.set(lane, 0.0, &[0; 32], 0));
                    }
                }
            });
        }
    }

    /// The tiles, as `weight`'s kernel for them wants them.
    pub(super) fn tiles(&self, weight: &Matrix<'_>) -> Tiles<'_> {
        let (wide, narrow) = (&self.wide_tiles, &self.narrow_tiles);
        Tiles { tiles: self.tiles, cols: weight.cols(), wide, narrow }
    }

    /// The rows as `weight` wants them; `floats` are the rows before rounding.
    pub(super) fn input<'a>(&'a self, cpu: &Cpu, weight: &Matrix<'_>, floats: &'a [f32]) -> Input<'a> {
        match cpu.form(weight) {
            Some(Form::Q8x32) => Input::Quantized(&self.narrow),
            Some(Form::Q8x256) => Input::Quantized(&self.wide),
            None => Input::Floats(floats),
        }
    }
}

/// Makes room for `len` values; what lies there is overwritten.
fn grow<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) {
    if buffer.len() < len {
        buffer.resize(len, value);
    }
}

impl Cpu {
    /// The rounding of activations that `weight` wants.
    pub(super) fn form(&self, weight: &Matrix<'_>) -> Option<Form> {
        match self.numerics {
            Numerics::Fast => form(weight.format()),
            Numerics::Exact => None,
        }
    }

    /// The kernel for many rows, if there is one that is worth while for `rows`.
    pub(super) fn gemm(&self, weight: &Matrix<'_>, rows: usize) -> Option<Gemm> {
        let gemm = self.form(weight).and_then(|_| Gemm::new(self.isa, weight.format()))?;
        (rows >= gemm.least()).then_some(gemm)
    }

    /// Calls `task` for every row: alone if that is quicker.
    pub(super) fn each_row(&self, rows: usize, cols: usize, task: &(dyn Fn(usize) + Sync)) {
        if rows * cols <= SERIAL_VALUES {
            (0..rows).for_each(task);
        } else {
            self.pool.run(rows, task);
        }
    }
}
