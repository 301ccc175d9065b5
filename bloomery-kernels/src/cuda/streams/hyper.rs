//! Hyper-connections.

use bloomery_gguf::Format;

use super::{aligned, some};
use crate::abi::streams::{
    HYPER, HYPER_COLUMNS, HYPER_PASS_BYTES, HYPER_READ_BYTES, HYPER_READ_THREADS, HYPER_SUMS, HYPER_THREADS,
    HYPER_WEIGHTS, HyperArgs,
};
use crate::cuda::launch::Grid;
use crate::cuda::module::{Entry, STREAMS as FAMILY};
use crate::cuda::{CudaError, DeviceInfo, Launch, Span, Weight};

const PASS: Entry<HyperArgs> = Entry::new(&FAMILY, "hyper_pass");
const READ: Entry<HyperArgs> = Entry::new(&FAMILY, "hyper_read");

/// Rows up to which every row has blocks of its own.
const FEW: usize = 8;
/// Rows of a block of the pass beyond that: it has the matrix's columns in registers.
const SHARE: usize = 8;
/// Values of all rows, at most.
const MOST: usize = 1 << 30;

/// Streams of a token that have hyper-connections.
const STREAMS: usize = HYPER as usize;

/// What a part returned, and the weights it is written with.
#[derive(Debug, Clone)]
pub struct HyperWrite {
    /// `[rows][width]`.
    pub y: Span<f32>,
    /// `[rows][24]`: those that [`HyperRead`] made.
    pub weights: Span<f32>,
}

/// Writes to streams, `x[t][j] = write[j] y[t] + sum over i of mix[i][j] x[t][i]`, begins the products of what they are then, or both.
#[derive(Debug, Clone)]
pub struct HyperPass {
    /// `[rows][4][width]`.
    pub x: Span<f32>,
    /// Values of a stream: a multiple of 4.
    pub width: usize,
    /// What is written.
    pub write: Option<HyperWrite>,
    /// `[24][4][width]` in F32, or `[4][4][width]` where streams are only read, and room for [`sums_len`](Self::sums_len) values.
    pub products: Option<(Weight, Span<f32>)>,
}

impl HyperPass {
    /// Streams of a row.
    pub const STREAMS: usize = STREAMS;

    /// Values of the sums of `rows` rows.
    #[must_use]
    pub const fn sums_len(rows: usize, width: usize) -> usize {
        rows * chunks(width) * HYPER_SUMS as usize
    }

    /// The kernel: a block of threads for 64 columns of one or a few rows.
    ///
    /// # Errors
    /// [`CudaError::NoProduct`] for a matrix that is not F32, [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, width, write, products } = self;
        let (name, width) = (PASS.name, *width);
        let rows = rows(name, x, width)?;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        let works = write.is_some() || products.is_some();
        CudaError::require(name, "ops", 0, works, || "a write or products".to_owned())?;
        let share = if rows <= FEW { 1 } else { SHARE };
        let chunks = chunks(width);
        let mut args = HyperArgs {
            x: x.address(),
            width: width as u32,
            rows: rows as u32,
            chunks: chunks as u32,
            share: share as u32,
            ..HyperArgs::default()
        };
        let mut uses = vec![x.memory().clone()];
        let mut bytes = 4 * x.len();
        aligned(name, &[x])?;
        if let Some(HyperWrite { y, weights }) = write {
            equal("values of the result", y.len(), rows * width)?;
            equal("weights", weights.len(), rows * HYPER_WEIGHTS as usize)?;
            aligned(name, &[y, weights])?;
            (args.y, args.weights) = (y.address(), weights.address());
            uses.extend([y, weights].map(|span| span.memory().clone()));
            bytes += 4 * (x.len() + y.len());
        }
        if let Some((matrix, sums)) = products {
            if matrix.format() != Format::F32 {
                let what = "a matrix of hyper-connections";
                return Err(CudaError::NoProduct { what, format: matrix.format() });
            }
            let outputs = matrix.rows();
            let holds = outputs == STREAMS || outputs == HYPER_WEIGHTS as usize;
            let rule = || format!("{STREAMS} or {HYPER_WEIGHTS}");
            CudaError::require(name, "rows of the matrix", outputs as u64, holds, rule)?;
            equal("columns of the matrix", matrix.cols(), STREAMS * width)?;
            equal("sums", sums.len(), Self::sums_len(rows, width))?;
            let values = matrix.data().cast();
            aligned(name, &[&values, sums])?;
            (args.matrix, args.sums, args.outputs) = (values.address(), sums.address(), outputs as u32);
            uses.extend([&values, sums].map(|span| span.memory().clone()));
            bytes += matrix.data().len();
        }
        let blocks = (rows.div_ceil(share) * chunks) as u32;
        let grid = Grid { blocks, threads: HYPER_THREADS, shared_bytes: HYPER_PASS_BYTES };
        Ok(Launch::new(PASS, grid, args, bytes as u64, uses))
    }
}

/// How weights are made of logits.
#[derive(Debug, Clone)]
pub struct HyperConnections {
    /// Three values: multiply logits for reading, for writing, for mixing. One where streams are only read.
    pub scale: Span<f32>,
    /// 24 values, added to them; 4 where streams are only read.
    pub base: Span<f32>,
    /// Added to the mean square of all streams.
    pub norm_eps: f32,
    /// Added to weights, and to the sums that they are divided by.
    pub eps: f32,
    /// Rounds of dividing by the sums of rows and columns.
    pub rounds: usize,
}

/// Weights that are made of what [`HyperPass`] summed up.
#[derive(Debug, Clone)]
pub struct HyperMade {
    /// What the pass left.
    pub sums: Span<f32>,
    /// How.
    pub connections: HyperConnections,
    /// `[rows][24]`; `[rows][4]` where streams are only read.
    pub weights: Span<f32>,
}

/// Reads streams, `out[t]` = the sum over i of `read[i] x[t][i]`, and makes weights, which are those that it reads with unless others are
/// there already.
#[derive(Debug, Clone)]
pub struct HyperRead {
    /// `[rows][4][width]`.
    pub x: Span<f32>,
    /// Values of a stream: a multiple of 4.
    pub width: usize,
    /// What is made. Nothing only if there is something to read with.
    pub made: Option<HyperMade>,
    /// `[rows][24]`: what it reads with, where that is not what it makes.
    pub from: Option<Span<f32>>,
    /// `[rows][width]`; not `x`.
    pub out: Span<f32>,
}

impl HyperRead {
    /// The kernel: a block for the weights of every row, if any are made, and some for its columns.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, width, made, from, out } = self;
        let (name, width) = (READ.name, *width);
        let rows = rows(name, x, width)?;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        equal("values that are read", out.len(), rows * width)?;
        let apart = out.address() != x.address();
        let rule = || "apart from x".to_owned();
        CudaError::require(name, "values that are read", out.len() as u64, apart, rule)?;
        aligned(name, &[x, out])?;
        let reads = made.is_some() || from.is_some();
        CudaError::require(name, "weights", 0, reads, || "made, or there already".to_owned())?;
        let all = width.div_ceil(4 * HYPER_READ_THREADS as usize);
        let parts = if rows <= FEW { all } else { 1 };
        let mut args = HyperArgs {
            x: x.address(),
            out: out.address(),
            width: width as u32,
            rows: rows as u32,
            chunks: chunks(width) as u32,
            parts: parts as u32,
            ..HyperArgs::default()
        };
        let mut uses = [x, out].map(|span| span.memory().clone()).to_vec();
        let mut bytes = x.len() + out.len();
        if let Some(HyperMade { sums, connections, weights }) = made {
            let HyperConnections { scale, base, norm_eps, eps, rounds } = connections;
            equal("sums", sums.len(), HyperPass::sums_len(rows, width))?;
            let outputs = if scale.len() == 1 { STREAMS } else { HYPER_WEIGHTS as usize };
            equal("scales", scale.len(), if outputs == STREAMS { 1 } else { 3 })?;
            equal("bases", base.len(), outputs)?;
            equal("weights", weights.len(), rows * outputs)?;
            let fits = *rounds <= 1 << 16;
            CudaError::require(name, "rounds", *rounds as u64, fits, || "at most 65536".to_owned())?;
            aligned(name, &[sums, weights])?;
            (args.weights, args.sums, args.outputs) = (weights.address(), sums.address(), outputs as u32);
            (args.scale, args.base) = (scale.address(), base.address());
            (args.norm_eps, args.eps, args.rounds) = (*norm_eps, *eps, *rounds as u32);
            uses.extend([sums, scale, base, weights].map(|span| span.memory().clone()));
            bytes += sums.len();
        }
        if let Some(from) = from {
            equal("weights that are there", from.len(), rows * HYPER_WEIGHTS as usize)?;
            let apart = made.as_ref().is_none_or(|made| made.weights.address() != from.address());
            let rule = || "apart from those that are made".to_owned();
            CudaError::require(name, "weights that are there", from.len() as u64, apart, rule)?;
            args.from = from.address();
            uses.push(from.memory().clone());
        }
        let blocks = (rows * (parts + usize::from(made.is_some()))) as u32;
        let grid = Grid { blocks, threads: HYPER_READ_THREADS, shared_bytes: HYPER_READ_BYTES };
        Ok(Launch::new(READ, grid, args, 4 * bytes as u64, uses))
    }
}

/// Pieces of a stream's columns.
const fn chunks(width: usize) -> usize {
    width.div_ceil(HYPER_COLUMNS as usize)
}

/// Rows of the streams.
fn rows(name: &'static str, x: &Span<f32>, width: usize) -> Result<usize, CudaError> {
    let whole = width > 0 && width.is_multiple_of(4) && width <= 1 << 24;
    let rule = || "a multiple of 4, at most 2^24".to_owned();
    CudaError::require(name, "columns", width as u64, whole, rule)?;
    some(name, "values", x.len(), MOST)?;
    let rows = x.len() / (STREAMS * width);
    CudaError::equal(name, "values of the streams", x.len() as u64, (rows * STREAMS * width) as u64)?;
    Ok(rows)
}
