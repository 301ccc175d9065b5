//! Hyper-connections.

use bloomery_kernels::cuda::{
    CudaError, HyperConnections, HyperMade, HyperPass, HyperRead, HyperWrite, Launch,
};

use super::streams::Write;
use crate::backend::cuda::frame::Frame;
use crate::backend::cuda::walk::Stage;
use crate::program::{Buffer, Hyper, Op, Projection};

/// How a part of a layer reads streams: products with all of them, and what is made of those, with which it reads unless it reads with
/// weights of the part before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::backend::cuda) struct Reading<'a> {
    x: Buffer,
    /// Its result is the buffer of the weights.
    logits: &'a Projection,
    from: Option<Buffer>,
    hyper: Hyper,
    out: Buffer,
}

impl<'a> Reading<'a> {
    /// Ops of a reading.
    pub(in crate::backend::cuda) const OPS: usize = 2;

    /// The reading that `ops` begin with.
    pub(in crate::backend::cuda) fn of(mut ops: impl Iterator<Item = &'a Op>) -> Option<Self> {
        let Op::Project { x, norm: None, parts } = ops.next()? else { return None };
        let &Op::HyperRead { x: read, weights, from, hyper, out } = ops.next()? else { return None };
        let [logits] = &parts[..] else { return None };
        let plain = logits.bias.is_none() && !logits.accumulate && logits.out == weights;
        (*x == read && plain).then_some(Self { x: read, logits, from, hyper, out })
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
        let Self { x, logits, from, hyper, out } = self;
        let (model, width) = (frame.model, out.cols);
        let sums = frame.memory.streams.slice(0..scratch_len(frame.rows_of(x.rows), width))?;
        let products = Some((model.matrix(logits.weight).clone(), sums.clone()));
        let pass = HyperPass { products, ..pass(frame, x, width, write)? };
        let connections = HyperConnections {
            scale: model.vector(hyper.scale),
            base: model.vector(hyper.base),
            norm_eps: hyper.norm.eps,
            eps: hyper.eps,
            rounds: hyper.rounds,
        };
        let weights = frame.span(logits.out)?;
        let made = Some(HyperMade { sums, connections, weights });
        let from = from.map(|from| frame.span(from)).transpose()?;
        let read = HyperRead { x: frame.span(x)?, width, made, from, out: frame.span(out)? };
        Ok(vec![Stage::new("streams", vec![pass.launch(frame.info)?, read.launch(frame.info)?])])
    }

    /// Why there are no kernels for it, if there are none.
    pub(in crate::backend::cuda) fn unsupported(self) -> Option<String> {
        odd(self.x, self.out)
    }
}

/// Why there are no kernels for streams of such rows, if there are none.
pub(in crate::backend::cuda) fn odd(x: Buffer, row: Buffer) -> Option<String> {
    let fits = x.cols == HyperPass::STREAMS * row.cols && row.cols.is_multiple_of(4);
    (!fits).then(|| format!("hyper-connections of {} streams of {}", x.cols / row.cols.max(1), row.cols))
}

fn pass(frame: &Frame<'_>, x: Buffer, width: usize, write: Option<Write>) -> Result<HyperPass, CudaError> {
    let write =
        write.map(|Write { y, weights }| Ok(HyperWrite { y: frame.span(y)?, weights: frame.span(weights)? }));
    Ok(HyperPass { x: frame.span(x)?, width, write: write.transpose()?, products: None })
}

/// A write to streams that are not read at once.
pub(in crate::backend::cuda) fn write(
    frame: &Frame<'_>,
    x: Buffer,
    write: Write,
) -> Result<Vec<Launch>, CudaError> {
    Ok(vec![pass(frame, x, write.y.cols, Some(write))?.launch(frame.info)?])
}

/// What weights that are there already read.
pub(in crate::backend::cuda) fn last(
    frame: &Frame<'_>,
    x: Buffer,
    weights: Buffer,
    out: Buffer,
) -> Result<Vec<Launch>, CudaError> {
    let from = Some(frame.span(weights)?);
    let read = HyperRead { x: frame.span(x)?, width: out.cols, made: None, from, out: frame.span(out)? };
    Ok(vec![read.launch(frame.info)?])
}

/// Values of memory for `rows` rows of streams of `width` values.
pub(in crate::backend::cuda) fn scratch_len(rows: usize, width: usize) -> usize {
    HyperPass::sums_len(rows, width)
}
