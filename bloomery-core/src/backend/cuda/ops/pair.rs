//! Normed embeddings beside normed rows.

use bloomery_kernels::cuda::{CudaError, Embed, Launch, Pair};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Gain};
use crate::weights::MatrixId;

/// Why there is no kernel for rows, if there is none.
pub(in crate::backend::cuda) fn unsupported(x: Buffer, streams: usize) -> Option<String> {
    let fits = x.cols.is_multiple_of(8 * streams);
    (!fits).then(|| format!("pairs of norms of {streams} rows of {} together", x.cols))
}

/// Bytes of a workspace for `rows` rows.
pub(in crate::backend::cuda) fn workspace_bytes(rows: usize, x: Buffer) -> usize {
    rows * x.cols * size_of::<f32>()
}

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    (table, embedding_norm): (MatrixId, Gain),
    (x, norm, streams): (Buffer, Gain, usize),
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let cols = x.cols / streams;
    let workspace = frame.memory.workspace.slice(0..frame.rows * cols * size_of::<f32>())?;
    let embed = Embed {
        table: frame.model.table(table).clone(),
        ids: frame.inputs.tokens(frame.rows)?,
        scale: 1.0,
        copies: 1,
        out: workspace.cast(),
    };
    let pair = Pair {
        x: [embed.out.clone(), frame.span(x)?],
        norms: [embedding_norm, norm].map(|norm| frame.model.norm(norm)),
        cols,
        streams,
        out: frame.span(out)?,
    };
    Ok(vec![embed.launch(frame.info)?, pair.launch(frame.info)?])
}
