//! Feed-forward blocks, routed and dense.

use bloomery_kernels::cpu::Activation;
use bloomery_kernels::cuda::{Beside, CudaError, FeedForward, Launch, Routed, Tuning, WeightStack};

use crate::backend::cuda::frame::Frame;
use crate::def::Act;
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
    (beside, out): (Option<&Gated>, Buffer),
) -> Result<Vec<Launch>, CudaError> {
    let stacks = [experts.gate, experts.up, experts.down].map(|id| frame.model.stack(id).clone());
    let rows = frame.rows_of(x.rows);
    let routed = Routed {
        experts: frame.memory.experts.slice(0..rows * used)?,
        weights: frame.memory.expert_weights.slice(0..rows * used)?,
        used,
        seats: None,
    };
    let block = block(frame, x, Some(routed), (stacks, experts.act), out)?;
    with(frame, x, (block, beside), out)
}

/// Experts, and the network beside them if there is one.
pub(in crate::backend::cuda) fn with(
    frame: &Frame<'_>,
    x: Buffer,
    (experts, beside): (FeedForward, Option<&Gated>),
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    match beside {
        None => experts.launches(frame.info),
        Some(gated) => {
            let network = network(frame, x, None, gated, out)?;
            Beside { experts, network }.launches(frame.info)
        }
    }
}

/// One network for all rows. Its share of each row, if it has one, is what the route before it left.
pub(in crate::backend::cuda) fn dense(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    gated: &Gated,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    network(frame, x, norm, gated, out)?.launches(frame.info)
}

fn network(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    gated: &Gated,
    out: Buffer,
) -> Result<FeedForward, CudaError> {
    let stack = |id: MatrixId| WeightStack::dense(frame.model.matrix(id));
    let stacks = [gated.gate, gated.up, gated.down].map(stack);
    let routed = match gated.share {
        None => None,
        Some(_) => Some(shared(frame, x)?),
    };
    let norm = norm.map(|norm| frame.model.norm(norm));
    let block = block(frame, x, routed, (stacks, gated.act), out)?;
    // Of its own: experts may be under way at the same time.
    let hidden = frame.memory.dense.span();
    Ok(FeedForward { norm, hidden, accumulate: gated.accumulate, ..block })
}

/// Every row's only expert is the network, and its weight the share.
fn shared(frame: &Frame<'_>, x: Buffer) -> Result<Routed, CudaError> {
    let rows = frame.rows_of(x.rows);
    let (experts, weights) = (frame.memory.firsts.slice(0..rows)?, frame.memory.shares.slice(0..rows)?);
    Ok(Routed { experts, weights, used: 1, seats: None })
}

/// What a step's launches of a block are made of, without a norm.
pub(in crate::backend::cuda) fn block(
    frame: &Frame<'_>,
    x: Buffer,
    routed: Option<Routed>,
    ([gate, up, down], act): ([WeightStack; 3], Act),
    out: Buffer,
) -> Result<FeedForward, CudaError> {
    Ok(FeedForward {
        x: frame.span(x)?,
        rows: frame.rows_of(x.rows),
        norm: None,
        routed,
        gate,
        up,
        down,
        hidden: frame.memory.ffn.span(),
        activation: match act {
            Act::Silu => Activation::Silu,
            Act::GeluTanh => Activation::GeluTanh,
        },
        out: frame.span(out)?,
        accumulate: true,
        workspace: Some(frame.memory.workspace.span()),
        tuning: Tuning::default(),
    })
}
