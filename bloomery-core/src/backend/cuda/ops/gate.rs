//! Values times the sigmoids of others.

use bloomery_kernels::cuda::{CudaError, Gate, Launch};

use crate::backend::cuda::frame::Frame;
use crate::program::Buffer;

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    x: Buffer,
    gate: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    Ok(vec![Gate { x: frame.span(x)?, gate: frame.span(gate)? }.launch(frame.info)?])
}
