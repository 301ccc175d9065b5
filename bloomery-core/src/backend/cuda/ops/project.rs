//! Products of the same rows.

use bloomery_kernels::cuda::{CudaError, Launch, Product, Project, Tuning};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Gain, Projection};

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    parts: &[Projection],
) -> Result<Vec<Launch>, CudaError> {
    some(frame, x, norm, parts, 0, frame.rows_of(x.rows))
}

/// Bytes of a workspace for `rows` rows of `cols` values.
pub(in crate::backend::cuda) fn workspace_bytes(rows: usize, cols: usize) -> usize {
    Project::workspace_bytes(rows, cols)
}

/// Products of `rows` rows of `x` from `first` on, to the start of the outputs.
pub(in crate::backend::cuda) fn some(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    parts: &[Projection],
    first: usize,
    rows: usize,
) -> Result<Vec<Launch>, CudaError> {
    let product = |part: &Projection| {
        Ok(Product {
            weight: frame.model.matrix(part.weight).clone(),
            bias: part.bias.map(|id| frame.model.vector(id)),
            out: frame.part(part.out, 0, rows)?,
            accumulate: part.accumulate,
        })
    };
    let project = Project {
        x: frame.part(x, first, rows)?,
        rows,
        norm: norm.map(|norm| frame.model.norm(norm)),
        parts: parts.iter().map(product).collect::<Result<_, CudaError>>()?,
        workspace: Some(frame.memory.workspace.span()),
        tuning: Tuning::default(),
    };
    project.launches(frame.info)
}
