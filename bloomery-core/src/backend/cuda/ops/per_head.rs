//! Products of every head's values with a matrix of its own; what is behind them goes along.

use bloomery_kernels::cuda::{CudaError, HeadWeights, Launch, PerHead};

use crate::backend::cuda::frame::Frame;
use crate::program::Buffer;
use crate::weights::{HeadsId, Weights};

/// Why there is no kernel for the matrices of a layer's heads, if there is none.
pub(in crate::backend::cuda) fn unsupported(weights: &Weights, id: HeadsId) -> Option<String> {
    let (heads, rows, cols) = weights.heads_shape(id);
    HeadWeights::check(heads, rows, cols).err().map(|error| error.to_string())
}

/// Bytes of a workspace for `rows` rows.
pub(in crate::backend::cuda) fn workspace_bytes(weights: &Weights, rows: usize, id: HeadsId) -> usize {
    let (heads, _, cols) = weights.heads_shape(id);
    PerHead::workspace_bytes(rows, heads, cols)
}

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    x: Buffer,
    weights: HeadsId,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    products(frame, x, weights, out)?.launches(frame.info, &frame.memory.workspace.span())
}

pub(super) fn products(
    frame: &Frame<'_>,
    x: Buffer,
    weights: HeadsId,
    out: Buffer,
) -> Result<PerHead, CudaError> {
    let weights = frame.model.heads(weights).clone();
    let tail = (x.cols / weights.heads()).saturating_sub(weights.cols());
    let (rows, x, out) = (frame.rows_of(x.rows), frame.span(x)?, frame.span(out)?);
    Ok(PerHead { x, weights, out, rows, tail })
}
