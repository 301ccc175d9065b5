//! Means of streams.

use super::{StreamProducts, aligned, some};
use crate::abi::streams::{STREAMS, StreamMeanArgs};
use crate::cuda::launch::Grid;
use crate::cuda::module::{Entry, STREAMS as FAMILY};
use crate::cuda::{CudaError, DeviceInfo, Launch, Span};

const GATED: Entry<StreamMeanArgs> = Entry::new(&FAMILY, "gated_mean");
const PLAIN: Entry<StreamMeanArgs> = Entry::new(&FAMILY, "stream_mean");

/// Few, so that those of one row are on many multiprocessors.
const THREADS: usize = 64;
/// Values of all rows, at most.
const MOST: usize = 1 << 30;

/// `out[t]` = the mean of the streams of `x[t]`, or a part of that row: of one stream, a copy.
#[derive(Debug, Clone)]
pub struct StreamMean {
    /// `[rows][streams][width]`.
    pub x: Span<f32>,
    /// Streams of a row, at most 8.
    pub streams: usize,
    /// Values of a stream: a multiple of 4.
    pub width: usize,
    /// `[rows][columns]`; not `x`.
    pub out: Span<f32>,
    /// Values of a row of the output: a multiple of 4.
    pub columns: usize,
    /// Where in the row the mean begins: a multiple of 4.
    pub first: usize,
}

impl StreamMean {
    /// The kernel: four values of each thread.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let args = self.arguments(PLAIN.name)?;
        aligned(PLAIN.name, &[&self.x, &self.out])?;
        let uses = [&self.x, &self.out].map(|span| span.memory().clone()).to_vec();
        let bytes = 4 * (self.x.len() + self.x.len() / self.streams) as u64;
        Ok(Launch::new(PLAIN, self.grid(), args, bytes, uses))
    }

    fn arguments(&self, name: &'static str) -> Result<StreamMeanArgs, CudaError> {
        let Self { x, streams, width, out, columns, first } = self;
        some(name, "streams", *streams, STREAMS as usize)?;
        // There is a thread for every stream.
        let whole = width.is_multiple_of(4) && *width >= 4 * streams && *width <= 1 << 24;
        let rule = || format!("a multiple of 4, from {} to 2^24", 4 * streams);
        CudaError::require(name, "columns", *width as u64, whole, rule)?;
        let fits =
            columns.is_multiple_of(4) && first.saturating_add(*width) <= *columns && *columns <= 1 << 24;
        let rule = || format!("a multiple of 4, from {} to 2^24", first.saturating_add(*width));
        CudaError::require(name, "columns of the output", *columns as u64, fits, rule)?;
        let rule = || "a multiple of 4".to_owned();
        CudaError::require(name, "first column", *first as u64, first.is_multiple_of(4), rule)?;
        some(name, "values", x.len(), MOST)?;
        let rows = out.len() / columns;
        CudaError::equal(name, "values of the output", out.len() as u64, (rows * columns) as u64)?;
        CudaError::equal(name, "values of the streams", x.len() as u64, (rows * streams * width) as u64)?;
        let apart = out.address() != x.address();
        let rule = || "apart from x".to_owned();
        CudaError::require(name, "values of the output", out.len() as u64, apart, rule)?;
        Ok(StreamMeanArgs {
            x: x.address(),
            out: out.address() + 4 * *first as u64,
            quads: (width / 4) as u32,
            streams: *streams as u32,
            rows: rows as u32,
            out_quads: (columns / 4) as u32,
            ..StreamMeanArgs::default()
        })
    }

    fn grid(&self) -> Grid {
        let blocks = (self.x.len() / self.streams / 4).div_ceil(THREADS) as u32;
        Grid { blocks, threads: THREADS as u32, shared_bytes: 0 }
    }
}

/// `out[t]` = the sum over streams of `sigmoid(gate) x`: a mean where the streams were divided by their number before.
#[derive(Debug, Clone)]
pub struct GatedMean {
    /// The streams, and where what is read of them goes.
    pub mean: StreamMean,
    /// As many values as there are in the streams.
    pub gate: Span<f32>,
    /// `[rows][streams][8]` and `[rows][streams]`: sums of products over the columns of a stream each, and what they are together.
    pub products: Option<(Span<f32>, Span<f32>)>,
}

impl GatedMean {
    /// The kernel: four values of each thread.
    ///
    /// # Errors
    /// As [`StreamMean::launch`].
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { mean, gate, products } = self;
        let name = GATED.name;
        let mut args = mean.arguments(name)?;
        CudaError::equal(name, "gates", gate.len() as u64, mean.x.len() as u64)?;
        args.gate = gate.address();
        aligned(name, &[&mean.x, gate, &mean.out])?;
        let mut uses = [&mean.x, gate, &mean.out].map(|span| span.memory().clone()).to_vec();
        if let Some((sums, to)) = products {
            let (rows, streams) = (args.rows as usize, mean.streams);
            let len = StreamProducts::sums_len(rows, streams);
            CudaError::equal(name, "sums", sums.len() as u64, len as u64)?;
            CudaError::equal(name, "products", to.len() as u64, (rows * streams) as u64)?;
            (args.sums, args.weights) = (sums.address(), to.address());
            uses.extend([sums, to].map(|span| span.memory().clone()));
        }
        let bytes = 4 * (2 * mean.x.len() + mean.out.len()) as u64;
        Ok(Launch::new(GATED, mean.grid(), args, bytes, uses))
    }
}
