//! Parts of attention to one.

use super::launch::Grid;
use super::module::{Entry, WINDOWED};
use super::{CudaError, DeviceInfo, Launch, Rope, Span};
use crate::abi::rope::BlendArgs;

const ENTRY: Entry<BlendArgs> = Entry::new(&WINDOWED, "blend");
/// Warps of a block.
const WARPS: u32 = 4;

/// What attention over some positions returned.
#[derive(Debug, Clone)]
pub struct BlendPart {
    /// `[rows][heads][dim]`.
    pub values: Span<f32>,
    /// `[rows][heads]`: logarithms of the sums of `e^score`.
    pub sums: Span<f32>,
}

/// `out = sum over parts of e^sum values / (sum over parts of e^sum + e^sink)`, head by head, turned back. Without parts, `out` is turned
/// in place.
#[derive(Debug, Clone)]
pub struct Blend {
    /// Up to two.
    pub parts: Vec<BlendPart>,
    /// `[heads]`; parts need them.
    pub sinks: Option<Span<f32>>,
    /// By which values had been turned, if that is undone.
    pub rope: Option<Rope>,
    /// `[rows]`.
    pub positions: Span<u32>,
    /// Heads.
    pub heads: usize,
    /// `[rows][heads][dim]`: may be the values of a part.
    pub out: Span<f32>,
}

impl Blend {
    /// Whether there are kernels for heads of so many values, `half` pairs of which turn from `first` on.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are none.
    pub fn check(dim: usize, half: usize, first: usize) -> Result<(), CudaError> {
        let four = |what, value: usize| {
            let rule = || "a multiple of 4".to_owned();
            CudaError::require(ENTRY.name, what, value as u64, value.is_multiple_of(4), rule)
        };
        four("values of a head", dim)?;
        four("values that turn", 2 * half)?;
        four("the first value that turns", first)
    }

    /// The kernel: a warp for each head of each row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, widths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { parts, sinks, rope, positions, heads, out } = self;
        let (rows, heads) = (positions.len(), *heads);
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(ENTRY.name, what, found as u64, expected as u64)
        };
        let holds = heads > 0 && heads <= 1 << 16 && rows > 0 && rows * heads < 1 << 30;
        let rule = || "1 to 2^16, and below 2^30 heads of all rows".to_owned();
        CudaError::require(ENTRY.name, "heads", heads as u64, holds, rule)?;
        let dim = out.len() / (rows * heads);
        let holds = dim > 0 && dim <= 1 << 16;
        let rule = || "1 to 2^16".to_owned();
        CudaError::require(ENTRY.name, "values of a head", dim as u64, holds, rule)?;
        equal("values of the output", out.len(), rows * heads * dim)?;
        let rule = || "at most 2".to_owned();
        CudaError::require(ENTRY.name, "parts", parts.len() as u64, parts.len() <= 2, rule)?;
        equal("sinks of parts", usize::from(sinks.is_some()), usize::from(!parts.is_empty()))?;
        let mut args = BlendArgs {
            values: [out.address(), 0],
            out: out.address(),
            positions: positions.address(),
            rows: rows as u32,
            heads: heads as u32,
            dim: dim as u32,
            ..BlendArgs::default()
        };
        let mut uses = vec![out.memory().clone(), positions.memory().clone()];
        let mut addresses = out.address();
        for (i, part) in parts.iter().enumerate() {
            equal("values of a part", part.values.len(), out.len())?;
            equal("sums of a part", part.sums.len(), rows * heads)?;
            (args.values[i], args.sums[i]) = (part.values.address(), part.sums.address());
            addresses |= part.values.address();
            uses.extend([part.values.memory().clone(), part.sums.memory().clone()]);
        }
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(ENTRY.name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        if let Some(sinks) = sinks {
            equal("sinks", sinks.len(), heads)?;
            args.sinks = sinks.address();
            uses.push(sinks.memory().clone());
        }
        if let Some(rope) = rope {
            args.turn = rope.arguments(ENTRY.name, dim)?;
            uses.extend([&rope.low, &rope.high].map(|span| span.memory().clone()));
        }
        Self::check(dim, args.turn.half as usize, args.turn.first as usize)?;
        let bytes = 4 * out.len() * (1 + parts.len().max(1));
        let blocks = (rows * heads).div_ceil(WARPS as usize) as u32;
        let grid = Grid { blocks, threads: 32 * WARPS, shared_bytes: 0 };
        Ok(Launch::new(ENTRY, grid, args, bytes as u64, uses))
    }
}
