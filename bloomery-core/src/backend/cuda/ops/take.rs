//! Rows of the outputs.

use bloomery_kernels::cuda::{CudaError, Launch, Take};

use crate::backend::cuda::frame::Frame;
use crate::program::Buffer;

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    from: Buffer,
    to: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let rows = frame.inputs.outputs(frame.outputs)?;
    let take = Take { from: frame.span(from)?, cols: from.cols, rows, to: frame.span(to)? };
    Ok(vec![take.launch(frame.info)?])
}
