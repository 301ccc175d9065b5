//! Feed-forward blocks, routed and dense.

use bloomery_kernels::cuda::{CudaError, FeedForward, Launch, Routed, Tuning, WeightStack};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, ExpertStacks, Gain, Gated};
use crate::weights::MatrixId;

/// Values between the halves of a block.
pub(in crate::backend::cuda) fn hidden_len(rows: usize, used: usize, width: usize) -> usize {
    FeedForward::hidden_len(rows, used, width)
}

/// Bytes of a workspace for `rows` rows with `used` experts of `count` each: columns, hidden values and outputs of one are given.
pub(in crate::backend::cuda) fn workspace_bytes(
    rows: usize,
    experts: (usize, usize),
    widths: (usize, usize, usize),
) -> usize {
    FeedForward::workspace_bytes(rows, experts, widths)
}

/// The experts that the layer's route chose, `used` for each row.
pub(in crate::backend::cuda) fn routed(
    frame: &Frame<'_>,
    used: usize,
    x: Buffer,
    experts: &ExpertStacks,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let stacks = [experts.gate, experts.up, experts.down].map(|id| frame.model.stack(id).clone());
    let rows = frame.rows_of(x.rows);
    let routed = Routed {
        experts: frame.memory.experts.slice(0..rows * used)?,
        weights: frame.memory.expert_weights.slice(0..rows * used)?,
        used,
        seats: None,
    };
    block(frame, x, None, Some(routed), stacks, out)?.launches(frame.info)
}

/// One network for all rows.
pub(in crate::backend::cuda) fn dense(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    gated: &Gated,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let stack = |id: MatrixId| WeightStack::dense(frame.model.matrix(id));
    block(frame, x, norm, None, [gated.gate, gated.up, gated.down].map(stack), out)?.launches(frame.info)
}

/// What a step's launches of a block are made of.
pub(in crate::backend::cuda) fn block(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    routed: Option<Routed>,
    [gate, up, down]: [WeightStack; 3],
    out: Buffer,
) -> Result<FeedForward, CudaError> {
    Ok(FeedForward {
        x: frame.span(x)?,
        rows: frame.rows_of(x.rows),
        norm: norm.map(|norm| frame.model.norm(norm)),
        routed,
        gate,
        up,
        down,
        hidden: frame.memory.ffn.span(),
        out: frame.span(out)?,
        workspace: Some(frame.memory.workspace.span()),
        tuning: Tuning::default(),
    })
}
