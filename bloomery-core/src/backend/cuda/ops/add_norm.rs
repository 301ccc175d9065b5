//! A norm whose result is added.

use bloomery_kernels::cuda::{AddNorm, CudaError, Launch};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Gain};

/// Why there is no kernel for rows, if there is none.
pub(in crate::backend::cuda) fn unsupported(x: Buffer) -> Option<String> {
    (!x.cols.is_multiple_of(8)).then(|| format!("a norm of rows of {} that is added", x.cols))
}

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Gain,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let add =
        AddNorm { x: frame.span(x)?, cols: x.cols, norm: frame.model.norm(norm), out: frame.span(out)? };
    Ok(vec![add.launch(frame.info)?])
}
