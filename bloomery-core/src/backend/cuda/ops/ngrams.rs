//! Hashed n-grams.

use bloomery_kernels::cuda::{CudaError, Embed, Launch, NgramAdd, NgramMix};

use super::streams::odd;
use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, NgramId, NgramLayer};
use crate::weights::Weights;

/// Why there are no kernels for a layer, if there are none.
pub(in crate::backend::cuda) fn unsupported(layer: &NgramLayer) -> Option<String> {
    odd(layer.streams, layer.width).or_else(|| {
        let conv = layer.conv?;
        let (taps, dilation) = (conv.taps, layer.dilation());
        let fits = (2..=64).contains(&taps) && (1..=64).contains(&dilation);
        (!fits).then(|| format!("a convolution over {taps} n-grams, {dilation} apart"))
    })
}

/// Rows of the table that `rows` rows look up.
pub(in crate::backend::cuda) fn found_rows(layer: &NgramLayer, rows: usize) -> usize {
    rows * layer.hash.heads.len()
}

/// Bytes of a row of the table.
pub(in crate::backend::cuda) fn row_bytes(layer: &NgramLayer, weights: &Weights) -> usize {
    weights.matrix_bytes(layer.table).0 as usize / weights.matrix_rows(layer.table).max(1)
}

/// Values of memory for `rows` rows.
pub(in crate::backend::cuda) fn scratch_len(layer: &NgramLayer, rows: usize) -> usize {
    layer.conv.map_or(0, |_| NgramMix::scratch_len(rows, layer.streams, layer.width))
}

/// The step's rows of the table in floats.
pub(in crate::backend::cuda) fn found(
    frame: &Frame<'_>,
    id: NgramId,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let Some(lookup) = frame.lookup else { return Ok(Vec::new()) };
    let (table, ids) = lookup.found(id, frame.rows)?;
    let embed = Embed { table, ids, scale: 1.0, copies: 1, out: frame.span(out)? };
    Ok(vec![embed.launch(frame.info)?])
}

/// What keys and values add to the streams `x`.
pub(in crate::backend::cuda) fn mix(
    frame: &Frame<'_>,
    id: NgramId,
    [key, value, x]: [Buffer; 3],
) -> Result<Vec<Launch>, CudaError> {
    let (model, inputs) = (frame.model, frame.inputs);
    let layer = &model.program.ngrams[id.0];
    let (streams, width) = (layer.streams, layer.width);
    let (key, value, x) = (frame.span(key)?, frame.span(value)?, frame.span(x)?);
    let Some(conv) = layer.conv else {
        let norms = [layer.key_norm, layer.query_norm].map(|norm| model.norm(norm));
        return Ok(vec![NgramAdd { streams, width, key, value, x, norms }.launch(frame.info)?]);
    };
    let [from, starts, saves] = inputs.states(frame.rows)?;
    let mix = NgramMix {
        streams,
        width,
        taps: conv.taps,
        dilation: layer.dilation(),
        key,
        value,
        x,
        norms: [layer.key_norm, layer.query_norm, conv.norm].map(|norm| model.norm(norm)),
        conv: model.vector(conv.weights),
        scratch: frame.memory.streams.span(),
        states: frame.states.ngrams(id),
        sequence: inputs.sequences(frame.rows)?,
        from,
        starts,
        saves,
    };
    mix.launches(frame.info)
}
