//! Ops of residual streams.

use bloomery_kernels::cpu::{HyperSpec, KernelError, NgramInput, NgramWeights};

use super::step::Step;
use crate::program::{Buffer, Gain, Hyper};

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
        weights: Buffer,
        hyper: Hyper,
        out: Buffer,
    ) -> Result<(), KernelError> {
        self.write(weights, |step, weights| {
            let spec = step.hyper(hyper);
            step.cpu.hyper_weights(&step.buffers[x.index], &spec, weights)
        })?;
        self.write(out, |step, rows| {
            let (x, weights) = (&step.buffers[x.index], &step.buffers[weights.index]);
            step.cpu.hyper_read(x, weights, &step.hyper(hyper), rows)
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
        let scale = self.model.vector(hyper.scale);
        HyperSpec {
            streams: hyper.streams,
            scale: [scale[0], scale[1], scale[2]],
            base: self.model.vector(hyper.base),
            norm_eps: hyper.norm.eps,
            eps: hyper.eps,
            rounds: hyper.rounds,
        }
    }

    pub(super) fn stream_mean(&mut self, x: Buffer, streams: usize, out: Buffer) -> Result<(), KernelError> {
        self.write(out, |step, rows| step.cpu.stream_mean(&step.buffers[x.index], streams, out.cols, rows))
    }

    /// Rows of the table, side by side.
    pub(super) fn ngrams(&mut self, out: Buffer) -> Result<(), KernelError> {
        let Some(layer) = &self.model.program.ngrams else { return Ok(()) };
        let ids = layer.hash.rows(self.batch);
        let table = self.model.matrix(layer.table)?;
        self.write(out, |step, rows| step.cpu.embed(table, &ids, rows))
    }

    pub(super) fn ngram_mix(&mut self, key: Buffer, value: Buffer, x: Buffer) -> Result<(), KernelError> {
        let (model, part) = (self.model, self.model.deltas.len());
        let Some(layer) = &model.program.ngrams else { return Ok(()) };
        let weights = NgramWeights {
            streams: layer.streams,
            key_norm: model.norm(layer.key_norm),
            query_norm: model.norm(layer.query_norm),
            conv_norm: model.norm(layer.conv_norm),
            conv: &model.ngram_taps,
            dilation: layer.dilation(),
        };
        self.write(x, |step, rows| {
            let (key, value) = (&step.buffers[key.index][..], &step.buffers[value.index][..]);
            let (input, runs) = (NgramInput { key, value }, step.runs.views());
            let states = step.states[part].values();
            step.cpu.ngrams(&weights, &input, &runs, states, rows, &mut step.scratch.ngrams)
        })
    }
}
