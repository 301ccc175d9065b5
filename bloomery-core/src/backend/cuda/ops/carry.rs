//! What a block that guesses takes over from the row before.

use bloomery_kernels::cuda::{Carry, CudaError, Launch};

use crate::backend::cuda::frame::Frame;
use crate::program::Buffer;

/// Why there is no kernel for rows, if there is none.
pub(in crate::backend::cuda) fn unsupported(out: Buffer) -> Option<String> {
    (!out.cols.is_multiple_of(4)).then(|| format!("rows of {} that are carried on", out.cols))
}

/// The rows of `x` one later; without, what the states have.
pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    x: Option<Buffer>,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let [from, starts, saves] = frame.inputs.states(frame.rows)?;
    let carry = Carry {
        x: x.map(|x| frame.span(x)).transpose()?,
        cols: out.cols,
        out: frame.span(out)?,
        states: frame.states.carried(),
        sequence: frame.inputs.sequences(frame.rows)?,
        from,
        starts,
        saves,
    };
    Ok(vec![carry.launch(frame.info)?])
}
