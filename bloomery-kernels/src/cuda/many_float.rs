//! Launches of the kernels for many rows and weights of floats.

use bloomery_gguf::Format;

use super::launch::Grid;
use super::many::{Workspace, piece_bytes};
use super::module::{Entry, MANY_FLOAT};
use super::{CudaError, DeviceInfo, HeadWeights, Launch, Product, Project, Span};
use crate::abi::formats::{BF16, F16, F32};
use crate::abi::many_float::{PARTS, Part, ProductArgs, SplitArgs, stage_bytes};

const SPLIT: Entry<SplitArgs> = Entry::new(&MANY_FLOAT, "many_float_split");

/// A kernel for products.
struct Kernel {
    name: &'static str,
    /// Rows of a block, of weights and of activations.
    side: u32,
    /// Pieces of a stage.
    pieces: u32,
    threads: u32,
    /// Blocks for which a multiprocessor has registers.
    most: u32,
}

impl Kernel {
    const fn small(name: &'static str) -> Self {
        Self { name, side: 64, pieces: 1, threads: 128, most: 4 }
    }

    const fn large(name: &'static str) -> Self {
        Self { name, side: 128, pieces: 2, threads: 256, most: 1 }
    }
}

/// How weights are multiplied.
struct Kind {
    /// Of the weights.
    format: u32,
    /// Bytes of a value, and rows of activations that a row becomes.
    bytes: usize,
    planes: u32,
    /// Whether weights are in the order of operands.
    operands: bool,
    small: Kernel,
    large: Option<Kernel>,
}

const SINGLE: Kind = Kind {
    format: F32,
    bytes: 4,
    planes: 1,
    operands: false,
    small: Kernel::small("many_single_64"),
    large: None,
};
const HALF: Kind = Kind {
    format: F16,
    bytes: 2,
    planes: 2,
    operands: false,
    small: Kernel::small("many_half_64"),
    large: Some(Kernel::large("many_half_128")),
};
const BFLOAT: Kind = Kind {
    format: BF16,
    small: Kernel::small("many_bfloat_64"),
    large: Some(Kernel::large("many_bfloat_128")),
    ..HALF
};
const HEADS: Kind = Kind {
    operands: true,
    small: Kernel::small("many_heads_64"),
    large: Some(Kernel::large("many_heads_128")),
    ..HALF
};

/// Bytes of a workspace for `rows` rows: as two numbers of 16 bits for each value, or one of 32, and a factor.
pub(super) fn workspace_bytes(rows: usize, cols: usize) -> usize {
    2 * piece_bytes(2 * rows * cols) + piece_bytes(4 * rows)
}

/// Rows of activations as products want them.
struct Rows {
    high: Span<u8>,
    low: Option<Span<u8>>,
    factors: Option<Span<f32>>,
}

impl Kind {
    /// Room for `rows` rows of `cols` values, and the kernel that fills it.
    fn split(
        &self,
        x: &Span<f32>,
        norm: Option<&(Span<f32>, f32)>,
        (rows, cols): (usize, usize),
        workspace: &Span<u8>,
    ) -> Result<(Rows, Launch), CudaError> {
        let mut workspace = Workspace::new(workspace);
        let high = workspace.take(self.bytes * rows * cols)?;
        let low = if self.planes == 2 { Some(workspace.take(self.bytes * rows * cols)?) } else { None };
        let factors = if self.format == F16 { Some(workspace.take(rows)?) } else { None };
        let args = SplitArgs {
            x: x.address(),
            gain: norm.map_or(0, |(gain, _)| gain.address()),
            high: high.address(),
            low: low.as_ref().map_or(0, Span::address),
            factors: factors.as_ref().map_or(0, Span::address),
            eps: norm.map_or(0.0, |norm| norm.1),
            cols: cols as u32,
            format: self.format,
            operands: self.operands.into(),
        };
        let mut uses = vec![x.memory().clone(), high.memory().clone()];
        uses.extend(norm.map(|(gain, _)| gain.memory().clone()));
        let groups = cols.div_ceil(256) as u32;
        let grid = Grid { blocks: rows as u32, threads: 32 * groups.clamp(1, 8), shared_bytes: 8 * groups };
        let launch = Launch::new(SPLIT, grid, args, (8 * rows * cols) as u64, uses);
        Ok((Rows { high, low, factors }, launch))
    }

    /// The kernel for `blocks_of` (side of a block) blocks: the large one unless it would leave a fourth of the card without work.
    fn kernel(&self, info: &DeviceInfo, blocks_of: impl Fn(u32) -> u64) -> &Kernel {
        let full = |kernel: &&Kernel| {
            let (blocks, processors) = (blocks_of(kernel.side), u64::from(info.processors));
            4 * blocks >= 3 * processors * blocks.div_ceil(processors)
        };
        self.large.as_ref().filter(full).unwrap_or(&self.small)
    }

    /// The products of `rows` rows for every one of `heads` heads; `parts` have addresses and rows, `bytes` is what they move.
    fn products(
        &self,
        info: &DeviceInfo,
        x: &Rows,
        (rows, heads, cols): (usize, usize, usize),
        mut args: ProductArgs,
        (bytes, mut uses): (usize, Vec<std::sync::Arc<super::memory::Allocation>>),
    ) -> Result<Launch, CudaError> {
        let down = |side: u32| args.parts.iter().map(|part| part.rows.div_ceil(side)).sum::<u32>();
        let across = |side: u32| rows.div_ceil(side as usize) as u64;
        let blocks_of = |side: u32| heads as u64 * across(side) * u64::from(down(side));
        let kernel = self.kernel(info, blocks_of);
        let (side, blocks, most) = (kernel.side, blocks_of(kernel.side), u64::from(u32::MAX >> 1));
        CudaError::require(kernel.name, "blocks", blocks, blocks > 0 && blocks <= most, || {
            format!("1 to {most}")
        })?;
        (args.down, args.across) = (down(side), across(side) as u32);
        let mut before = 0;
        for part in &mut args.parts {
            part.before = before;
            before += part.rows.div_ceil(side);
        }
        args.high = x.high.address();
        args.low = x.low.as_ref().map_or(0, Span::address);
        args.factors = x.factors.as_ref().map_or(0, Span::address);
        (args.rows, args.heads) = (rows as u32, heads as u32);
        args.row_bytes = (self.bytes * cols) as u32;
        // As many blocks as there are for a multiprocessor share its memory.
        let each = blocks.div_ceil(u64::from(info.processors)).min(kernel.most.into()) as u32;
        let room = (info.shared_per_processor / each).saturating_sub(1024).min(info.shared_per_block);
        let stage = stage_bytes(side, side, self.planes, kernel.pieces);
        args.stages = (room / stage).clamp(2, 8);
        let shared_bytes = args.stages * stage;
        let rule = || format!("at most {}", info.shared_per_block);
        let fits = shared_bytes <= info.shared_per_block;
        CudaError::require(kernel.name, "shared memory", shared_bytes.into(), fits, rule)?;
        uses.push(x.high.memory().clone());
        let grid = Grid { blocks: blocks as u32, threads: kernel.threads, shared_bytes };
        let bytes = bytes + 4 * rows * heads * cols;
        Ok(Launch::new(Entry::new(&MANY_FLOAT, kernel.name), grid, args, bytes as u64, uses))
    }
}

/// The launches for `parts` of `op`, which are all the products with weights of floats: rows cut in two once for each format, then
/// multiplied. The caller has checked lengths and alignments.
pub(super) fn project(
    op: &Project,
    info: &DeviceInfo,
    parts: &[&Product],
    workspace: &Span<u8>,
) -> Result<Vec<Launch>, CudaError> {
    let mut launches = Vec::new();
    for (kind, format) in [(&SINGLE, Format::F32), (&HALF, Format::F16), (&BFLOAT, Format::BF16)] {
        let parts: Vec<&&Product> = parts.iter().filter(|part| part.weight.format() == format).collect();
        let Some(cols) = parts.first().map(|part| part.weight.cols()) else { continue };
        let x = if kind.planes == 1 && op.norm.is_none() {
            Rows { high: op.x.cast(), low: None, factors: None }
        } else {
            let (x, launch) = kind.split(&op.x, op.norm.as_ref(), (op.rows, cols), workspace)?;
            launches.push(launch);
            x
        };
        for parts in parts.chunks(PARTS) {
            let (mut args, mut uses, mut bytes) = (ProductArgs::default(), Vec::new(), 0);
            for (part, argument) in parts.iter().zip(&mut args.parts) {
                let Product { weight, bias, out, accumulate } = part;
                *argument = Part {
                    weight: weight.data().address(),
                    bias: bias.as_ref().map_or(0, Span::address),
                    out: out.address(),
                    rows: weight.rows() as u32,
                    accumulate: (*accumulate).into(),
                    ..Part::default()
                };
                uses.extend([weight.data().memory().clone(), out.memory().clone()]);
                uses.extend(bias.as_ref().map(|bias| bias.memory().clone()));
                bytes += weight.data().len() + 4 * op.rows * weight.rows();
            }
            launches.push(kind.products(info, &x, (op.rows, 1, cols), args, (bytes, uses))?);
        }
    }
    Ok(launches)
}

/// Whether there are products of many rows with matrices of heads of `cols` columns.
pub(super) fn multiplies_heads(cols: usize) -> bool {
    cols.is_multiple_of(32)
}

/// The launches for `[rows][heads][cols]` values and every head's matrix. The caller has checked lengths and alignments.
pub(super) fn heads(
    info: &DeviceInfo,
    (x, rows): (&Span<f32>, usize),
    weights: &HeadWeights,
    out: &Span<f32>,
    workspace: &Span<u8>,
) -> Result<Vec<Launch>, CudaError> {
    let (heads, outs, cols) = (weights.heads(), weights.rows(), weights.cols());
    let (x, split) = HEADS.split(x, None, (rows * heads, cols), workspace)?;
    let mut args =
        ProductArgs { stride: 2 * HeadWeights::packed_len(1, outs, cols) as u64, ..ProductArgs::default() };
    args.parts[0] =
        Part { weight: weights.data().address(), out: out.address(), rows: outs as u32, ..Part::default() };
    let uses = vec![weights.data().memory().clone(), out.memory().clone()];
    let bytes = 2 * weights.data().len() + 4 * out.len();
    Ok(vec![split, HEADS.products(info, &x, (rows, heads, cols), args, (bytes, uses))?])
}
