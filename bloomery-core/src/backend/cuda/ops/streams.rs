//! Residual streams behind gates, and means of streams.

use bloomery_gguf::Format;
use bloomery_kernels::cuda::{
    CudaError, GatedMean, Launch, StreamMean, StreamNorm, StreamProducts, StreamWrite,
};

use super::project;
use crate::backend::cuda::frame::Frame;
use crate::backend::cuda::walk::Stage;
use crate::program::{Buffer, Gain, Op, Projection};

/// Streams that there are kernels for.
const MOST: usize = 8;

/// A result that streams get.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::backend::cuda) struct Write {
    pub(in crate::backend::cuda) y: Buffer,
    pub(in crate::backend::cuda) weights: Buffer,
}

/// How a part of a layer reads streams: norm, two products with a sigmoid's half between them, a mean behind gates.
///
/// Whatever reads normed streams divides by their number. On a card they are divided when they are normed; of a power of two that
/// changes no bit of what comes out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::backend::cuda) struct Reading<'a> {
    x: Buffer,
    norm: Gain,
    streams: usize,
    normed: Buffer,
    /// Products of the normed streams.
    parts: &'a [Projection],
    low: Buffer,
    gates: &'a [Projection],
    out: Buffer,
}

impl<'a> Reading<'a> {
    /// Ops of a reading.
    pub(in crate::backend::cuda) const OPS: usize = 5;

    /// The reading that `ops` begin with.
    pub(in crate::backend::cuda) fn of(mut ops: impl Iterator<Item = &'a Op>) -> Option<Self> {
        let &Op::StreamNorm { x, norm, streams, out: normed } = ops.next()? else { return None };
        let Op::Project { x: of_parts, norm: None, parts } = ops.next()? else { return None };
        let &Op::ScaledSilu { x: low, scale } = ops.next()? else { return None };
        let Op::Project { x: of_gates, norm: None, parts: gates } = ops.next()? else { return None };
        let &Op::GatedMean { x: meant, gate, streams: count, out } = ops.next()? else { return None };
        let fits = *of_parts == normed && *of_gates == low && meant == normed && count == streams;
        let gated = gates.len() == 1 && gates[0].out == gate;
        (fits && gated && scale == 1.0 / streams as f32).then_some(Self {
            x,
            norm,
            streams,
            normed,
            parts,
            low,
            gates,
            out,
        })
    }

    /// Whether it is of these streams.
    pub(in crate::backend::cuda) fn reads(&self, x: Buffer) -> bool {
        self.x == x
    }

    /// Kernels of it, with a write before.
    pub(in crate::backend::cuda) fn stages(
        self,
        frame: &Frame<'_>,
        write: Option<Write>,
    ) -> Result<Vec<Stage>, CudaError> {
        let Self { x, norm, streams, normed, parts, low, gates, out } = self;
        let rows = frame.rows_of(x.rows);
        let beside = |part: &&Projection| {
            let plain = part.bias.is_none() && !part.accumulate && part.out.cols == streams;
            plain && frame.model.matrix(part.weight).format() == Format::F32
        };
        // As many products as streams are made where the streams are normed: a kernel for wider ones has nothing for most blocks to do.
        let (narrow, wide): (Vec<&Projection>, Vec<&Projection>) = parts.iter().partition(beside);
        let (narrow, more) = match narrow.split_first() {
            None => (None, &[][..]),
            Some((first, more)) => (Some(*first), more),
        };
        let wide: Vec<Projection> = wide.into_iter().chain(more.iter().copied()).copied().collect();
        let sums = frame.memory.streams.slice(0..StreamProducts::sums_len(rows, streams))?;
        let products = narrow.map(|part| StreamProducts {
            matrix: frame.model.matrix(part.weight).data().cast(),
            sums: sums.clone(),
        });
        let (gain, eps) = frame.model.norm(norm);
        let norm = StreamNorm {
            norm: Some((gain, eps, frame.span(normed)?)),
            factor: 1.0 / streams as f32,
            products,
            ..streams_of(frame, x, streams, write)?
        };
        let mut launches = vec![norm.launch(frame.info)?];
        launches.extend(project::launches(frame, normed, None, &wide)?);
        // A value times its sigmoid.
        launches.extend(project::gated(frame, low, low, gates)?);
        let gate = gates[0].out;
        let products = narrow.map(|part| Ok((sums, frame.span(part.out)?))).transpose()?;
        let mean = GatedMean {
            mean: StreamMean {
                x: frame.span(normed)?,
                streams,
                width: out.cols,
                out: frame.span(out)?,
                columns: out.cols,
                first: 0,
            },
            gate: frame.span(gate)?,
            products,
        };
        launches.push(mean.launch(frame.info)?);
        Ok(vec![Stage::new("streams", launches)])
    }

    /// Why there are no kernels for it, if there are none.
    pub(in crate::backend::cuda) fn unsupported(self) -> Option<String> {
        odd(self.streams, self.out.cols)
    }
}

/// Streams that are written to, if they are.
fn streams_of(
    frame: &Frame<'_>,
    x: Buffer,
    streams: usize,
    write: Option<Write>,
) -> Result<StreamNorm, CudaError> {
    let write = write
        .map(|Write { y, weights }| Ok(StreamWrite { y: frame.span(y)?, weights: frame.span(weights)? }));
    Ok(StreamNorm {
        x: frame.span(x)?,
        streams,
        width: x.cols / streams,
        write: write.transpose()?,
        norm: None,
        factor: 1.0,
        products: None,
    })
}

/// A write to streams that are not read at once.
pub(in crate::backend::cuda) fn write(
    frame: &Frame<'_>,
    x: Buffer,
    streams: usize,
    write: Write,
) -> Result<Vec<Launch>, CudaError> {
    Ok(vec![streams_of(frame, x, streams, Some(write))?.launch(frame.info)?])
}

/// Why there are no kernels for streams of `width` values, if there are none.
pub(in crate::backend::cuda) fn odd(streams: usize, width: usize) -> Option<String> {
    let fits = (1..=MOST).contains(&streams) && width.is_multiple_of(8) && width >= 4 * streams;
    (!fits).then(|| format!("{streams} residual streams of {width}"))
}

/// The mean of streams; of one, a copy.
pub(in crate::backend::cuda) fn mean(
    frame: &Frame<'_>,
    x: Buffer,
    streams: usize,
    (out, first): (Buffer, usize),
) -> Result<Vec<Launch>, CudaError> {
    let (width, columns) = (x.cols / streams, out.cols);
    let mean = StreamMean { x: frame.span(x)?, streams, width, out: frame.span(out)?, columns, first };
    Ok(vec![mean.launch(frame.info)?])
}

/// Values of memory for `rows` rows.
pub(in crate::backend::cuda) fn scratch_len(rows: usize, streams: usize) -> usize {
    StreamProducts::sums_len(rows, streams)
}
