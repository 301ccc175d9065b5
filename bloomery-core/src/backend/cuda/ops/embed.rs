//! Rows of the token table.

use bloomery_kernels::cuda::{CudaError, Embed, Launch};

use crate::backend::cuda::frame::Frame;
use crate::program::Buffer;
use crate::weights::MatrixId;

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    table: MatrixId,
    (scale, copies): (f32, usize),
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let embed = Embed {
        table: frame.model.table(table).clone(),
        ids: frame.inputs.tokens(frame.rows)?,
        scale,
        copies,
        out: frame.span(out)?,
    };
    Ok(vec![embed.launch(frame.info)?])
}
