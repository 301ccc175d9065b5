//! Rows of the token table.

use bloomery_kernels::cuda::{CudaError, Embed, Launch};

use crate::backend::cuda::frame::Frame;
use crate::program::Buffer;
use crate::weights::MatrixId;

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    table: MatrixId,
    scale: f32,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let embed = Embed {
        table: frame.model.table(table).clone(),
        ids: frame.inputs.tokens(frame.rows)?,
        scale,
        out: frame.span(out)?,
    };
    Ok(vec![embed.launch(frame.info)?])
}
