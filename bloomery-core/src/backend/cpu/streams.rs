//! Ops of residual streams.

use bloomery_kernels::cpu::{Columns, HyperSpec, KernelError, Matrix, NgramConv, NgramInput, NgramWeights};

use super::mixer::Runs;
use super::step::Step;
use crate::program::{Buffer, Gain, Hyper, NgramId};

impl Step<'_> {
    pub(super) fn stream_norm(
        &mut self,
        x: Buffer,
        norm: Gain,
        streams: usize,
        out: Buffer,
    ) -> Result<(), KernelError> {
        self.write(out, |step, rows| {
            step.cpu.stream_norm(&step.buffers[x.index], streams, step.model.norm(norm), rows)
        })
    }

    pub(super) fn gated_mean(
        &mut self,
        x: Buffer,
        gate: Buffer,
        streams: usize,
        out: Buffer,
    ) -> Result<(), KernelError> {
        self.write(out, |step, rows| {
            let (x, gate) = (&step.buffers[x.index], &step.buffers[gate.index]);
            step.cpu.gated_mean(x, gate, streams, out.cols, rows)
        })
    }

    pub(super) fn inject(
        &mut self,
        y: Buffer,
        weights: Buffer,
        streams: usize,
        x: Buffer,
    ) -> Result<(), KernelError> {
        self.write(x, |step, rows| {
            step.cpu.inject(&step.buffers[y.index], &step.buffers[weights.index], streams, rows)
        })
    }

    pub(super) fn hyper_read(
        &mut self,
        x: Buffer,
        (weights, from): (Buffer, Option<Buffer>),
        hyper: Hyper,
        out: Buffer,
    ) -> Result<(), KernelError> {
        self.write(weights, |step, weights| {
            let spec = step.hyper(hyper);
            step.cpu.hyper_weights(&step.buffers[x.index], &spec, weights)
        })?;
        self.hyper_last(x, from.unwrap_or(weights), hyper.streams, out)
    }

    pub(super) fn hyper_last(
        &mut self,
        x: Buffer,
        weights: Buffer,
        streams: usize,
        out: Buffer,
    ) -> Result<(), KernelError> {
        self.write(out, |step, rows| {
            let (x, from) = (&step.buffers[x.index], &step.buffers[weights.index]);
            step.cpu.hyper_read(x, (from, weights.cols), streams, rows)
        })
    }

    pub(super) fn hyper_write(
        &mut self,
        y: Buffer,
        weights: Buffer,
        hyper: Hyper,
        x: Buffer,
    ) -> Result<(), KernelError> {
        self.write(x, |step, rows| {
            let (y, weights) = (&step.buffers[y.index], &step.buffers[weights.index]);
            step.cpu.hyper_write(y, weights, &step.hyper(hyper), rows)
        })
    }

    fn hyper(&self, hyper: Hyper) -> HyperSpec<'_> {
        HyperSpec {
            streams: hyper.streams,
            scale: self.model.vector(hyper.scale),
            base: self.model.vector(hyper.base),
            norm_eps: hyper.norm.eps,
            eps: hyper.eps,
            rounds: hyper.rounds,
        }
    }

    pub(super) fn stream_mean(
        &mut self,
        x: Buffer,
        streams: usize,
        (out, first): (Buffer, usize),
    ) -> Result<(), KernelError> {
        let width = x.cols / streams;
        self.write(out, |step, rows| {
            let columns = Columns { values: rows, cols: out.cols, first };
            step.cpu.stream_mean(&step.buffers[x.index], streams, width, columns)
        })
    }

    /// Rows of the table, side by side: those that were read.
    pub(super) fn ngrams(&mut self, id: NgramId, out: Buffer) -> Result<(), KernelError> {
        let width = self.model.program.ngrams[id.0].hash.width;
        let numbers: Vec<u32> = (0..self.found[id.0].len() as u32).collect();
        self.write(out, |step, rows| {
            let found = Matrix::new(step.lookup.format(id), numbers.len(), width, &step.found_rows)?;
            step.cpu.embed(found, &numbers, rows)
        })
    }

    pub(super) fn ngram_mix(
        &mut self,
        id: NgramId,
        key: Buffer,
        value: Buffer,
        x: Buffer,
    ) -> Result<(), KernelError> {
        let (model, part) = (self.model, self.model.deltas.len() + id.0);
        let layer = &model.program.ngrams[id.0];
        let weights = NgramWeights {
            streams: layer.streams,
            key_norm: model.norm(layer.key_norm),
            query_norm: model.norm(layer.query_norm),
            conv: layer.conv.map(|conv| NgramConv {
                norm: model.norm(conv.norm),
                taps: &model.ngram_taps[id.0],
                dilation: layer.dilation(),
            }),
        };
        self.write(x, |step, rows| {
            let (key, value) = (&step.buffers[key.index][..], &step.buffers[value.index][..]);
            let input = NgramInput { key, value };
            let runs = Runs::of(step.batch);
            let states = step.states[part].values();
            step.cpu.ngrams(&weights, &input, &runs.views(), states, rows, &mut step.scratch.ngrams)
        })
    }
}
