//! Keys of positions into indexes, and the choice of the blocks that rows attend to.

use bloomery_kernels::cuda::{
    Chosen, CudaError, IndexAppend, IndexCache, IndexPooling, IndexRows, Launch, Limits, Select, Spans,
};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Candidates, Index, IndexId, Op, Pooling, Program};

/// The pages of an index.
pub(in crate::backend::cuda) fn shape(index: &Index) -> Result<IndexCache, CudaError> {
    match index.pooling {
        Pooling::Made { .. } => IndexCache::of_blocks(index.width, index.block),
        Pooling::Mean { .. } => IndexCache::new(index.width, false, index.block),
        Pooling::Softmax { .. } => IndexCache::new(index.width, true, index.block),
    }
}

/// Why there is no kernel for an index, if there is none.
pub(in crate::backend::cuda) fn unsupported(index: &Index) -> Option<String> {
    let heads = || Select::check_heads(index.heads).err();
    shape(index).err().or_else(heads).map(|error| error.to_string())
}

/// Words that the choice of `rows` rows has.
pub(in crate::backend::cuda) fn places_len(index: &Index, rows: usize) -> usize {
    rows * Chosen::line(index.keep, is_made(index))
}

/// Whether blocks have rows that stand for them, at their last positions.
fn is_made(index: &Index) -> bool {
    matches!(index.pooling, Pooling::Made { .. })
}

/// Words of candidates of `rows` rows of up to `pages` pages.
pub(in crate::backend::cuda) fn spans_len(program: &Program, rows: usize, pages: usize) -> usize {
    let of = |op: &Op| match *op {
        Op::Select { index: id, candidates: Candidates::Make { size, .. }, .. } => {
            let index = &program.indexes[id.0];
            shape(index).map_or(0, |shape| rows * Spans::line(&shape, pages, size))
        }
        _ => 0,
    };
    program.all_ops().map(of).max().unwrap_or(0)
}

/// Floats that the choice of `rows` rows of up to `pages` pages works with.
pub(in crate::backend::cuda) fn scratch_len(index: &Index, rows: usize, pages: usize) -> usize {
    shape(index).map_or(0, |shape| Select::scratch_len(&shape, rows, pages))
}

/// The choice of the step's rows.
pub(super) fn chosen(frame: &Frame<'_>, id: IndexId) -> Result<Chosen, CudaError> {
    let index = frame.model.index(id);
    let places = frame.memory.places.slice(0..places_len(index, frame.rows))?;
    Ok(Chosen { places, keep: index.keep, block: index.block, ends: is_made(index) })
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
        (Pooling::Made { norm, .. }, None) => {
            let norm = norm.map(|norm| model.norm(norm));
            IndexPooling::Made { norm, rope: model.index_rope(id).clone() }
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
    candidates: Candidates,
) -> Result<Vec<Launch>, CudaError> {
    let model = frame.model;
    let index = model.index(id);
    let (norm, turns) = match &index.pooling {
        Pooling::Mean { q_norm, .. } => (Some(model.norm(*q_norm)), true),
        Pooling::Made { .. } => (None, true),
        Pooling::Softmax { .. } => (None, false),
    };
    let cache = rows(frame, id)?;
    let spans = |size: usize| {
        let len = frame.rows * Spans::line(&cache.shape, cache.stride, size);
        Ok::<_, CudaError>(Spans { words: frame.memory.spans.slice(0..len)?, size })
    };
    let limits = match candidates {
        Candidates::None => Limits::None,
        Candidates::Make { size, keep } => Limits::Make(spans(size)?, keep),
        Candidates::Use { size } => Limits::Use(spans(size)?),
    };
    let scale = 1.0 / ((index.heads * index.width) as f32).sqrt();
    let select = Select {
        q: frame.span(q)?,
        rows: frame.rows,
        heads: index.heads,
        norm,
        rope: turns.then(|| model.index_rope(id).clone()),
        weights: weights.map(|weights| Ok::<_, CudaError>((frame.span(weights)?, scale))).transpose()?,
        cache,
        scratch: frame.memory.scores.span(),
        chosen: chosen(frame, id)?,
        limits,
    };
    select.launches(frame.info)
}
