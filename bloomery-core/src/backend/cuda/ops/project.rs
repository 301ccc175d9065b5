//! Products of the same rows.

use std::ops::Range;

use bloomery_kernels::cuda::{CudaError, Launch, Narrow, Product, Project, Tuning, is_float};

use crate::backend::cuda::frame::Frame;
use crate::program::{Buffer, Gain, Projection};
use crate::weights::Weights;

/// Most rows that products of few rows are good for.
const FEW_ROWS: usize = 32;
/// Most outputs of narrow products.
const NARROW: usize = 64;

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

/// Bytes of a workspace for `rows` rows of `cols` values and these products.
pub(in crate::backend::cuda) fn workspace_bytes(
    weights: &Weights,
    (rows, cols): (usize, usize),
    parts: &[Projection],
) -> usize {
    let floats = parts.iter().any(|part| is_float(weights.matrix_format(part.weight)));
    Project::workspace_bytes(rows, cols, floats)
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
    // What decides on whole sequences, such as the delta rule's gates, is narrow and wants all bits of floats; there, the tensor cores would
    // not be faster.
    let narrow = |part: &&Projection| {
        let plain = norm.is_some() && part.bias.is_none() && !part.accumulate;
        let weight = frame.model.matrix(part.weight);
        rows > FEW_ROWS && plain && weight.rows() <= NARROW && Narrow::takes(weight)
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
