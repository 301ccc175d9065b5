//! Streams that are written to and normalised each by itself.

use super::{aligned, some, threads_of_eights};
use crate::abi::streams::{NORM_BYTES, STREAMS, SUMS, StreamNormArgs};
use crate::cuda::launch::Grid;
use crate::cuda::module::{Entry, STREAMS as FAMILY};
use crate::cuda::{CudaError, DeviceInfo, Launch, Span};

const ENTRY: Entry<StreamNormArgs> = Entry::new(&FAMILY, "stream_norm");
/// Values of all rows, at most.
const MOST: usize = 1 << 30;

/// `x[t][s] += 2 sigmoid(weights[t][s]) y[t]`.
#[derive(Debug, Clone)]
pub struct StreamWrite {
    /// `[rows][width]`.
    pub y: Span<f32>,
    /// `[rows][streams]`.
    pub weights: Span<f32>,
}

/// Products of the normed streams with a few rows of floats, as many as there are streams.
#[derive(Debug, Clone)]
pub struct StreamProducts {
    /// `[streams][streams][width]`.
    pub matrix: Span<f32>,
    /// `[rows][streams][8]`: a product's sums over the columns of one stream, which [`GatedMean`](super::GatedMean) adds up.
    pub sums: Span<f32>,
}

impl StreamProducts {
    /// Values of the sums of `rows` rows.
    #[must_use]
    pub const fn sums_len(rows: usize, streams: usize) -> usize {
        rows * streams * SUMS as usize
    }
}

/// Writes to streams, normalises them each by itself, or both.
#[derive(Debug, Clone)]
pub struct StreamNorm {
    /// `[rows][streams][width]`.
    pub x: Span<f32>,
    /// Streams of a row, at most 8.
    pub streams: usize,
    /// Values of a stream: a multiple of 8.
    pub width: usize,
    /// What is added first.
    pub write: Option<StreamWrite>,
    /// `[streams][width]`, the epsilon, and `[rows][streams][width]`, not `x`: `factor norm(x)`.
    pub norm: Option<(Span<f32>, f32, Span<f32>)>,
    /// Multiplies what is normalised.
    pub factor: f32,
    /// Products of what is normalised.
    pub products: Option<StreamProducts>,
}

impl StreamNorm {
    /// The kernel: a block of threads for every stream of a row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, streams, width, write, norm, factor, products } = self;
        let (name, streams, width) = (ENTRY.name, *streams, *width);
        some(name, "streams", streams, STREAMS as usize)?;
        let whole = width > 0 && width.is_multiple_of(8) && width <= 1 << 24;
        let rule = || "a multiple of 8, at most 2^24".to_owned();
        CudaError::require(name, "columns", width as u64, whole, rule)?;
        let rows = x.len() / (streams * width);
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        some(name, "values", x.len(), MOST)?;
        equal("values of the streams", x.len(), rows * streams * width)?;
        let works = write.is_some() || norm.is_some();
        CudaError::require(name, "ops", 0, works, || "a write or a norm".to_owned())?;
        let mut args = StreamNormArgs {
            x: x.address(),
            factor: *factor,
            width: width as u32,
            streams: streams as u32,
            ..StreamNormArgs::default()
        };
        let (mut spans, mut bytes) = (vec![x], 4 * x.len());
        let mut weights = None;
        if let Some(write) = write {
            equal("values of the result", write.y.len(), rows * width)?;
            equal("weights of streams", write.weights.len(), rows * streams)?;
            (args.y, args.weights) = (write.y.address(), write.weights.address());
            spans.push(&write.y);
            weights = Some(write.weights.memory().clone());
            bytes += 4 * (x.len() + write.y.len());
        }
        if let Some((gain, eps, out)) = norm {
            equal("values of the gain", gain.len(), streams * width)?;
            equal("normed values", out.len(), x.len())?;
            let apart = out.address() != x.address();
            CudaError::require(name, "normed values", out.len() as u64, apart, || "apart from x".to_owned())?;
            (args.gain, args.eps, args.out) = (gain.address(), *eps, out.address());
            spans.extend([gain, out]);
            bytes += 4 * out.len();
        }
        if let Some(StreamProducts { matrix, sums }) = products {
            CudaError::require(name, "products", 1, norm.is_some(), || "of normed values".to_owned())?;
            equal("values of the matrix", matrix.len(), streams * streams * width)?;
            equal("sums", sums.len(), StreamProducts::sums_len(rows, streams))?;
            (args.matrix, args.sums) = (matrix.address(), sums.address());
            spans.extend([matrix, sums]);
            bytes += 4 * matrix.len();
        }
        aligned(name, &spans)?;
        let grid = Grid {
            blocks: (rows * streams) as u32,
            threads: threads_of_eights(width),
            shared_bytes: NORM_BYTES,
        };
        let uses = spans.iter().map(|span| span.memory().clone()).chain(weights).collect();
        Ok(Launch::new(ENTRY, grid, args, bytes as u64, uses))
    }
}
