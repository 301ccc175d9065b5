//! Keys of positions into indexes, and the choice of the blocks that rows attend to.

use bloomery_kernels::cuda::{
    Chosen, CudaError, IndexAppend, IndexCache, IndexPooling, IndexRows, Launch, Select,
};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Index, IndexId, Pooling};

/// The pages of an index.
pub(in crate::backend::cuda) fn shape(index: &Index) -> Result<IndexCache, CudaError> {
    IndexCache::new(index.width, matches!(index.pooling, Pooling::Softmax { .. }), index.block)
}

/// Why there is no kernel for an index, if there is none.
pub(in crate::backend::cuda) fn unsupported(index: &Index) -> Option<String> {
    if matches!(index.pooling, Pooling::Made { .. }) {
        return Some("an index of rows that stand for groups".to_owned());
    }
    let heads = || Select::check_heads(index.heads).err();
    shape(index).err().or_else(heads).map(|error| error.to_string())
}

/// Words that the choice of `rows` rows has.
pub(in crate::backend::cuda) fn places_len(index: &Index, rows: usize) -> usize {
    rows * (index.keep + 1)
}

/// Floats that the choice of `rows` rows of up to `pages` pages works with.
pub(in crate::backend::cuda) fn scratch_len(index: &Index, rows: usize, pages: usize) -> usize {
    shape(index).map_or(0, |shape| Select::scratch_len(&shape, rows, pages))
}

/// The choice of the step's rows.
pub(super) fn chosen(frame: &Frame<'_>, id: IndexId) -> Result<Chosen, CudaError> {
    let index = frame.model.index(id);
    let places = frame.memory.places.slice(0..places_len(index, frame.rows))?;
    Ok(Chosen { places, keep: index.keep, block: index.block })
}

/// The index, and where the rows of the step are in it.
fn rows(frame: &Frame<'_>, id: IndexId) -> Result<IndexRows, CudaError> {
    let (layer, inputs) = (&frame.caches.indexes[id.0], frame.inputs);
    Ok(IndexRows {
        shape: layer.shape,
        pages: layer.memory(),
        table: inputs.pages()?,
        stride: inputs.stride(),
        positions: inputs.positions(frame.rows)?,
        sequences: inputs.sequences(frame.rows)?,
    })
}

pub(in crate::backend::cuda) fn append(
    frame: &Frame<'_>,
    keys: Buffer,
    gates: Option<Buffer>,
    id: IndexId,
) -> Result<Vec<Launch>, CudaError> {
    let model = frame.model;
    let pooling = match (&model.index(id).pooling, gates) {
        (Pooling::Softmax { norm: (gain, bias, eps), bias: of_gates }, Some(gates)) => {
            let norm = (model.vector(*gain), model.vector(*bias), *eps);
            IndexPooling::Softmax { gates: frame.span(gates)?, norm, bias: model.vector(*of_gates) }
        }
        (Pooling::Mean { k_norm: norm, .. }, None) => {
            IndexPooling::Mean { norm: model.norm(*norm), rope: model.index_rope(id).clone() }
        }
        (_, gates) => {
            let found = u64::from(gates.is_some());
            return Err(CudaError::Contract {
                kernel: "index_append",
                what: "gates",
                found,
                rule: format!("{}", 1 - found),
            });
        }
    };
    let append = IndexAppend { keys: frame.span(keys)?, rows: frame.rows, pooling, cache: rows(frame, id)? };
    Ok(vec![append.launch(frame.info)?])
}

pub(in crate::backend::cuda) fn select(
    frame: &Frame<'_>,
    q: Buffer,
    weights: Option<Buffer>,
    id: IndexId,
) -> Result<Vec<Launch>, CudaError> {
    let model = frame.model;
    let index = model.index(id);
    let turned = match &index.pooling {
        Pooling::Mean { q_norm, .. } => {
            let (gain, eps) = model.norm(*q_norm);
            Some((gain, eps, model.index_rope(id).clone()))
        }
        Pooling::Softmax { .. } | Pooling::Made { .. } => None,
    };
    let scale = 1.0 / ((index.heads * index.width) as f32).sqrt();
    let select = Select {
        q: frame.span(q)?,
        rows: frame.rows,
        heads: index.heads,
        turned,
        weights: weights.map(|weights| Ok::<_, CudaError>((frame.span(weights)?, scale))).transpose()?,
        cache: rows(frame, id)?,
        scratch: frame.memory.scores.span(),
        chosen: chosen(frame, id)?,
    };
    select.launches(frame.info)
}
