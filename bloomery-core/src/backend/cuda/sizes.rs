//! Memory that steps need, allocated once.

use bloomery_kernels::cpu::KvType;

use super::ops::{
    attend, candidates, delta, feed_forward, hyper, index, ngrams, pair, per_head, project, route, streams,
};
use crate::program::{Op, Program, Rows};
use crate::sampling::MOST_CANDIDATES;
use crate::units::Bytes;
use crate::weights::Weights;

/// Rows whose logits are kept at a time, at least: of more, the head is computed in turns.
const LOGIT_ROWS: usize = 32;

/// Words for each row that recurrent states take of the inputs.
pub(super) const STATE_PARTS: usize = 3;

/// What the sizes of buffers depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Most rows of a step.
    pub(crate) rows: usize,
    /// Most rows of logits at a time.
    pub(crate) logit_rows: usize,
    /// Most sequences of a step.
    pub(crate) sequences: usize,
    /// Most experts of a row; 1 without any.
    pub(crate) used: usize,
    /// Values between the two halves of experts, for all rows of a step; the same of dense networks.
    pub(crate) ffn: usize,
    pub(crate) dense: usize,
    /// Bytes that products work with.
    pub(crate) workspace: usize,
    /// Words that routers work with.
    pub(crate) route: usize,
    /// Floats of attention of few rows.
    pub(crate) partials: usize,
    /// Words of the same.
    pub(crate) tickets: usize,
    /// Words of the choice of blocks that rows attend to.
    pub(crate) places: usize,
    /// Floats of sums of attention with sinks.
    pub(crate) sums: usize,
    /// Floats and words of delta layers.
    pub(crate) delta: usize,
    pub(crate) readers: usize,
    /// Floats of residual streams.
    pub(crate) streams: usize,
    /// Rows that a step looks up in a table, at most, and bytes of those of all tables.
    pub(crate) found_rows: usize,
    pub(crate) found_bytes: usize,
    /// Rows that have shares of a network beside experts.
    pub(crate) shares: usize,
    /// Whether sequences have recurrent states.
    pub(crate) recurrent: bool,
    /// Whether there is attention to rows that come later.
    pub(crate) whole: bool,
    /// Words that the choice of candidates works with.
    pub(crate) select: usize,
}

impl Sizes {
    /// For steps of `rows` rows over `sessions` sessions, and caches of type `kv`.
    pub(crate) fn of(
        program: &Program,
        weights: &Weights,
        kv: KvType,
        (rows, sessions): (usize, usize),
    ) -> Self {
        let sequences = sessions.min(rows).max(1);
        let logit_rows = sequences.max(LOGIT_ROWS).min(rows);
        let select = candidates::scratch_len(logit_rows, program.logits.cols);
        let mut sizes = Self {
            rows,
            logit_rows,
            sequences,
            used: 1,
            ffn: 0,
            dense: 0,
            workspace: 0,
            route: 0,
            partials: 0,
            tickets: 0,
            places: 0,
            sums: 0,
            delta: 0,
            readers: 0,
            streams: 0,
            found_rows: 0,
            found_bytes: 0,
            shares: 0,
            recurrent: program.state_len() > 0,
            whole: program.attentions.iter().any(|attention| attention.whole),
            select,
        };
        for attention in &program.attentions {
            let (partials, tickets) = attend::scratch_len(attention, kv, rows);
            sizes.partials = sizes.partials.max(partials);
            sizes.tickets = sizes.tickets.max(tickets);
            if attention.sinks.is_some() {
                sizes.sums = sizes.sums.max(rows * attention.heads);
            }
        }
        let places = program.indexes.iter().map(|index| index::places_len(index, rows));
        sizes.places = places.max().unwrap_or(0);
        for layer in &program.deltas {
            let (floats, words) = delta::scratch_len(&layer.net, rows, sequences);
            sizes.delta = sizes.delta.max(floats);
            sizes.readers = sizes.readers.max(words);
        }
        for layer in &program.ngrams {
            sizes.streams = sizes.streams.max(ngrams::scratch_len(layer, rows));
            sizes.found_rows = sizes.found_rows.max(ngrams::found_rows(layer, rows));
            sizes.found_bytes += ngrams::found_rows(layer, rows) * ngrams::row_bytes(layer, weights);
        }
        // Bytes of the last experts, or of a network that comes before some: what is beside them has bytes of its own.
        let mut beside = 0;
        for op in program.all_ops() {
            match op {
                Op::Project { x, parts, .. } => {
                    let bytes = project::workspace_bytes(weights, (rows, x.cols), parts);
                    sizes.workspace = sizes.workspace.max(bytes);
                }
                Op::Pair { x, .. } => {
                    sizes.workspace = sizes.workspace.max(pair::workspace_bytes(rows, *x));
                }
                Op::Absorb { keys: heads, .. } | Op::PerHead { weights: heads, .. } => {
                    let bytes = per_head::workspace_bytes(weights, rows, *heads);
                    sizes.workspace = sizes.workspace.max(bytes);
                }
                Op::ProjectStreams { x, part, streams } => {
                    let (rows, cols) = (rows * streams, x.cols / streams);
                    let bytes = project::workspace_bytes(weights, (rows, cols), std::slice::from_ref(part));
                    sizes.workspace = sizes.workspace.max(bytes);
                }
                Op::StreamNorm { streams, .. } => {
                    sizes.streams = sizes.streams.max(streams::scratch_len(rows, *streams));
                }
                Op::HyperRead { out, .. } => {
                    sizes.streams = sizes.streams.max(hyper::scratch_len(rows, out.cols));
                }
                Op::Route { used, router, .. } => {
                    sizes.used = sizes.used.max(*used);
                    sizes.route =
                        sizes.route.max(route::scratch_len(rows, weights.matrix_rows(router.weight)));
                    beside = 0;
                }
                Op::Experts { experts, .. } => {
                    let stack = |id| (weights.stack_rows(id), weights.stack_cols(id));
                    let count = weights.stack_count(experts.gate);
                    let (gate, down) = (stack(experts.gate), stack(experts.down));
                    let widths = (gate.1, gate.0, down.0);
                    sizes.ffn = sizes.ffn.max(feed_forward::hidden_len(rows, sizes.used, gate.0));
                    let bytes = feed_forward::workspace_bytes(rows, (sizes.used, count), widths);
                    sizes.workspace = sizes.workspace.max(beside + bytes);
                    beside = bytes;
                }
                Op::Gated { gated, .. } => {
                    sizes.shares = sizes.shares.max(if gated.share.is_some() { rows } else { 0 });
                    let matrix = |id| (weights.matrix_rows(id), weights.matrix_cols(id));
                    let (gate, down) = (matrix(gated.gate), matrix(gated.down));
                    let widths = (gate.1, gate.0, down.0);
                    sizes.dense = sizes.dense.max(feed_forward::hidden_len(rows, 1, gate.0));
                    let bytes = feed_forward::workspace_bytes(rows, (1, 1), widths);
                    sizes.workspace = sizes.workspace.max(beside + bytes);
                    beside = if gated.accumulate { 0 } else { bytes };
                }
                Op::AddNorm { .. } => beside = 0,
                _ => {}
            }
        }
        sizes
    }

    /// Rows that a program's buffer holds.
    pub(super) fn rows_of(&self, program: &Program, index: usize) -> usize {
        if index == program.logits.index { self.logit_rows } else { self.rows }
    }

    /// Words of the inputs, where a sequence has up to `pages` pages and rows are cut in `tilings` ways.
    pub(super) fn input_words(&self, pages: usize, tilings: usize) -> usize {
        let part = self.rows.next_multiple_of(4);
        let states = if self.recurrent { STATE_PARTS * part + 4 } else { 0 };
        let ends = usize::from(self.whole);
        (4 + ends + 2 * tilings) * part + states + (self.sequences * pages).next_multiple_of(4)
    }

    /// Floats of the choice of blocks, where a sequence has up to `pages` pages.
    pub(super) fn scores(&self, program: &Program, pages: usize) -> usize {
        let lens = program.indexes.iter().map(|index| index::scratch_len(index, self.rows, pages));
        lens.max().unwrap_or(0)
    }

    /// Words of candidates of blocks, where a sequence has up to `pages` pages.
    pub(super) fn spans(&self, program: &Program, pages: usize) -> usize {
        index::spans_len(program, self.rows, pages)
    }

    /// Words of selected candidates: ids, logits, and one more for each row.
    pub(super) fn candidate_words(&self) -> usize {
        self.logit_rows * (2 * MOST_CANDIDATES + 4)
    }

    /// All of it.
    pub(crate) fn bytes(&self, program: &Program, pages: usize) -> Bytes {
        let buffers: usize =
            program.buffers.iter().map(|buffer| buffer.cols * self.rows_of(program, buffer.index)).sum();
        let routes = 2 * self.rows * self.used;
        let work = self.ffn + self.dense + self.route + self.partials + self.tickets + self.select;
        let work = work + self.delta + self.readers + self.streams + self.found_rows + 2 * self.shares;
        let work = work + self.places + self.scores(program, pages);
        let work = work + self.sums + self.spans(program, pages);
        Bytes::of(buffers + routes + work + self.input_words(pages, 1) + self.candidate_words(), 4)
            + Bytes((self.workspace + self.found_bytes) as u64)
    }
}

/// Rows of a buffer in a step.
pub(super) fn count(rows: Rows, all: usize, outputs: usize) -> usize {
    match rows {
        Rows::All => all,
        Rows::Outputs => outputs,
    }
}
