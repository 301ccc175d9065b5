//! A norm by itself.

use bloomery_kernels::cuda::{CudaError, Launch, NormQuantize};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Gain};

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Gain,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let norm = NormQuantize {
        x: frame.span(x)?,
        rows: frame.rows_of(x.rows),
        cols: x.cols,
        norm: Some(frame.model.norm(norm)),
        normed: Some(frame.span(out)?),
        rounded: None,
    };
    Ok(vec![norm.launch(frame.info)?])
}
