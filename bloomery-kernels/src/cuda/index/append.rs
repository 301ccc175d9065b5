//! Keys of a step's rows on their way to an index.

use super::super::launch::Grid;
use super::super::module::{Entry, INDEX};
use super::super::{CudaError, DeviceInfo, Launch, Rope, Span};
use super::IndexRows;
use crate::abi::index::{IndexAppendArgs, WIDEST_INDEX};

const ENTRY: Entry<IndexAppendArgs> = Entry::new(&INDEX, "index_append");
const MADE: Entry<IndexAppendArgs> = Entry::new(&INDEX, "index_made");
/// Warps of a block.
const WARPS: u32 = 4;

/// From the keys of a block's positions to the block's.
#[derive(Debug, Clone)]
pub enum IndexPooling {
    /// Their mean, normed, then turned as at the block's first position.
    Mean {
        /// `[width]` and the epsilon.
        norm: (Span<f32>, f32),
        /// The rotation.
        rope: Rope,
    },
    /// The sum of keys, each position's after a layer norm, with weights that are a softmax over the block's gates, column by column.
    Softmax {
        /// `[rows][width]`.
        gates: Span<f32>,
        /// Gain and bias, `[width]` each, and the epsilon.
        norm: (Span<f32>, Span<f32>, f32),
        /// `[block][width]`: added to gates.
        bias: Span<f32>,
    },
    /// That of its last position, which was made of all of them, turned as at the block's first one.
    Made {
        /// `[width]` and the epsilon, before it is turned.
        norm: Option<(Span<f32>, f32)>,
        /// The rotation.
        rope: Rope,
    },
}

/// Puts keys, and gates where there are any, into the pages of their rows, and makes the keys of the blocks that end with one of the
/// rows.
#[derive(Debug, Clone)]
pub struct IndexAppend {
    /// `[rows][width]`.
    pub keys: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// How blocks get their keys.
    pub pooling: IndexPooling,
    /// Where the keys go.
    pub cache: IndexRows,
}

impl IndexAppend {
    /// The kernel: a warp for each row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, widths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { keys, rows, pooling, cache } = self;
        let (rows, shape) = (*rows, cache.shape);
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(ENTRY.name, what, found as u64, expected as u64)
        };
        let indexed = cache.arguments(ENTRY.name, rows)?;
        equal("values of keys", keys.len(), rows * shape.width)?;
        let mut args = IndexAppendArgs { cache: indexed, keys: keys.address(), ..Default::default() };
        let mut uses = cache.uses();
        uses.push(keys.memory().clone());
        let has_gates = matches!(pooling, IndexPooling::Softmax { .. });
        equal("gates of a position", usize::from(has_gates), usize::from(shape.gates))?;
        let is_made = matches!(pooling, IndexPooling::Made { .. });
        equal("keys of a position", usize::from(!is_made), usize::from(shape.raw))?;
        match pooling {
            IndexPooling::Mean { norm: (gain, eps), rope } => {
                equal("values of the gain", gain.len(), shape.width)?;
                (args.gain, args.eps) = (gain.address(), *eps);
                args.turn = rope.arguments(ENTRY.name, shape.width)?;
                uses.extend([gain, &rope.low, &rope.high].map(|span| span.memory().clone()));
            }
            IndexPooling::Softmax { gates, norm: (gain, shift, eps), bias } => {
                equal("values of gates", gates.len(), rows * shape.width)?;
                equal("values of the gain", gain.len(), shape.width)?;
                equal("values of the bias", shift.len(), shape.width)?;
                equal("values of the gates' bias", bias.len(), shape.block * shape.width)?;
                (args.gates, args.gain, args.eps) = (gates.address(), gain.address(), *eps);
                (args.bias, args.gate_bias) = (shift.address(), bias.address());
                uses.extend([gates, gain, shift, bias].map(|span| span.memory().clone()));
            }
            IndexPooling::Made { norm, rope } => {
                if let Some((gain, eps)) = norm {
                    equal("values of the gain", gain.len(), shape.width)?;
                    (args.gain, args.eps) = (gain.address(), *eps);
                    uses.push(gain.memory().clone());
                }
                args.turn = rope.arguments(ENTRY.name, shape.width)?;
                uses.extend([&rope.low, &rope.high].map(|span| span.memory().clone()));
            }
        }
        let bytes = 4 * keys.len() * if has_gates { 4 } else { 2 };
        let blocks = (rows as u32).div_ceil(WARPS);
        let grid = Grid { blocks, threads: 32 * WARPS, shared_bytes: 4 * WIDEST_INDEX * WARPS };
        let entry = if is_made { MADE } else { ENTRY };
        Ok(Launch::new(entry, grid, args, bytes as u64, uses))
    }
}
