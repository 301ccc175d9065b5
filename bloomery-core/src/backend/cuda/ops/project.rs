//! Products of the same rows.

use std::ops::Range;

use bloomery_kernels::cuda::{CudaError, Launch, Narrow, Product, Project, Tuning};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Gain, Projection};

/// Most rows that products of few rows are good for.
const FEW_ROWS: usize = 32;

pub(in crate::backend::cuda) fn launches(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    parts: &[Projection],
) -> Result<Vec<Launch>, CudaError> {
    products(frame, (x, None), norm, parts, 0..frame.rows_of(x.rows))
}

/// Products of `x`, value by value times the sigmoids of `gate`.
pub(in crate::backend::cuda) fn gated(
    frame: &Frame<'_>,
    x: Buffer,
    gate: Buffer,
    parts: &[Projection],
) -> Result<Vec<Launch>, CudaError> {
    products(frame, (x, Some(gate)), None, parts, 0..frame.rows_of(x.rows))
}

/// The product of every stream of `x` with the same weight.
pub(in crate::backend::cuda) fn of_streams(
    frame: &Frame<'_>,
    x: Buffer,
    part: &Projection,
    streams: usize,
) -> Result<Vec<Launch>, CudaError> {
    let product = Product {
        weight: frame.model.matrix(part.weight).clone(),
        bias: part.bias.map(|id| frame.model.vector(id)),
        out: frame.span(part.out)?,
        accumulate: part.accumulate,
    };
    let project = Project {
        x: frame.span(x)?,
        rows: frame.rows_of(x.rows) * streams,
        norm: None,
        gate: None,
        parts: vec![product],
        workspace: Some(frame.memory.workspace.span()),
        tuning: Tuning::default(),
    };
    project.launches(frame.info)
}

/// Bytes of a workspace for `rows` rows of `cols` values.
pub(in crate::backend::cuda) fn workspace_bytes(rows: usize, cols: usize) -> usize {
    Project::workspace_bytes(rows, cols)
}

/// Products of `rows` rows of `x` from `first` on, to the start of the outputs.
pub(in crate::backend::cuda) fn some(
    frame: &Frame<'_>,
    x: Buffer,
    norm: Option<Gain>,
    parts: &[Projection],
    first: usize,
    rows: usize,
) -> Result<Vec<Launch>, CudaError> {
    products(frame, (x, None), norm, parts, first..first + rows)
}

fn products(
    frame: &Frame<'_>,
    (x, gate): (Buffer, Option<Buffer>),
    norm: Option<Gain>,
    parts: &[Projection],
    of: Range<usize>,
) -> Result<Vec<Launch>, CudaError> {
    let (first, rows) = (of.start, of.len());
    // Weights in floats have products of few rows only; those of the delta rule's gates are narrow.
    let narrow = |part: &&Projection| {
        let plain = norm.is_some() && part.bias.is_none() && !part.accumulate;
        rows > FEW_ROWS && plain && Narrow::takes(frame.model.matrix(part.weight))
    };
    let (narrow, parts): (Vec<&Projection>, Vec<&Projection>) = parts.iter().partition(narrow);
    let product = |part: &Projection| {
        Ok(Product {
            weight: frame.model.matrix(part.weight).clone(),
            bias: part.bias.map(|id| frame.model.vector(id)),
            out: frame.part(part.out, 0, rows)?,
            accumulate: part.accumulate,
        })
    };
    let project = Project {
        x: frame.part(x, first, rows)?,
        rows,
        norm: norm.map(|norm| frame.model.norm(norm)),
        gate: gate.map(|gate| frame.part(gate, first, rows)).transpose()?,
        parts: parts.iter().map(|part| product(part)).collect::<Result<_, CudaError>>()?,
        workspace: Some(frame.memory.workspace.span()),
        tuning: Tuning::default(),
    };
    let mut launches = if parts.is_empty() { Vec::new() } else { project.launches(frame.info)? };
    if let (Some(norm), false) = (norm, narrow.is_empty()) {
        let part =
            |part: &Projection| Ok((frame.model.matrix(part.weight).clone(), frame.part(part.out, 0, rows)?));
        let narrow = Narrow {
            x: frame.part(x, first, rows)?,
            norm: frame.model.norm(norm),
            parts: narrow.into_iter().map(part).collect::<Result<_, CudaError>>()?,
            scratch: frame.memory.expert_weights.slice(0..rows)?,
        };
        launches.extend(narrow.launches(frame.info)?);
    }
    Ok(launches)
}
