//! Head norms, rotation, and the append to the cache.

use super::launch::Grid;
use super::module::{Entry, ROPE};
use super::{CudaError, DeviceInfo, KvRows, Launch, Span};
use crate::abi::rope::{LOW, RopeArgs, Turn, WIDEST};
use crate::cpu::{KernelError, Pairs, RopeSpec, RopeTable};

const ENTRY: Entry<RopeArgs> = Entry::new(&ROPE, "rope_append");
/// Warps of a block.
const WARPS: u32 = 4;

/// The angles of a model for a card, which adds two: a multiple of 256 positions, and the positions below it.
///
/// A cosine or sine is off by less than 3e-7 times the magnitude at any position: the tables are rounded once from
/// double precision, and the theorem of addition has three more roundings.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeAngles {
    /// Which values form a pair.
    pub pairs: Pairs,
    /// Pairs of a head.
    pub half: usize,
    /// `[256][half]` pairs of a cosine and a sine, times the model's magnitude.
    pub low: Vec<f32>,
    /// `[context / 256][half]` pairs of a cosine and a sine.
    pub high: Vec<f32>,
}

impl RopeAngles {
    /// For positions below `context`.
    ///
    /// # Errors
    /// As [`RopeTable::new`].
    pub fn new(spec: &RopeSpec, context: u32) -> Result<Self, KernelError> {
        let table = |spec: &RopeSpec, positions: Vec<u32>| -> Result<Vec<f32>, KernelError> {
            let table = RopeTable::new(spec, &positions)?;
            let pair = |(c, s): (&f32, &f32)| [*c, *s];
            Ok((0..positions.len())
                .flat_map(|row| {
                    let (cosines, sines) = table.turns(row);
                    cosines.iter().zip(sines).flat_map(pair)
                })
                .collect())
        };
        let plain = RopeSpec { attn_factor: 1.0, ..spec.clone() };
        Ok(Self {
            pairs: spec.pairs,
            half: spec.rotary / 2,
            low: table(spec, (0..LOW).collect())?,
            high: table(&plain, (0..context.div_ceil(LOW).max(1)).map(|i| LOW * i).collect())?,
        })
    }
}

/// [`RopeAngles`] on a card.
#[derive(Debug, Clone)]
pub struct Rope {
    /// Which values form a pair.
    pub pairs: Pairs,
    /// Pairs of a head.
    pub half: usize,
    /// The first of a head's values that turn.
    pub first: usize,
    /// [`RopeAngles::low`].
    pub low: Span<f32>,
    /// [`RopeAngles::high`]. Positions beyond it turn wrongly.
    pub high: Span<f32>,
}

impl Rope {
    /// Checks the tables' lengths, and that heads of `dim` values have all that turns.
    pub(super) fn arguments(&self, name: &'static str, dim: usize) -> Result<Turn, CudaError> {
        let Self { pairs, half, first, low, high } = self;
        if *half == 0 {
            return Ok(Turn::default());
        }
        let rule = || format!("at most {}", dim.min(WIDEST as usize) / 2);
        CudaError::require(name, "pairs", *half as u64, 2 * half <= dim.min(WIDEST as usize), rule)?;
        let rule = || format!("at most {}", dim - 2 * half);
        CudaError::require(
            name,
            "the first value that turns",
            *first as u64,
            *first <= dim - 2 * half,
            rule,
        )?;
        CudaError::equal(
            name,
            "values of the low table",
            low.len() as u64,
            (2 * half * LOW as usize) as u64,
        )?;
        let high_rows = high.len() / (2 * half);
        let holds = high_rows > 0 && high_rows < 1 << 24 && high.len() == 2 * half * high_rows;
        let rule = || format!("a multiple of {}", 2 * half);
        CudaError::require(name, "values of the high table", high.len() as u64, holds, rule)?;
        let addresses = low.address() | high.address();
        let rule = || "a multiple of 8".to_owned();
        CudaError::require(name, "a table's address", addresses, addresses.is_multiple_of(8), rule)?;
        Ok(Turn {
            low: low.address(),
            high: high.address(),
            half: *half as u32,
            high_rows: high_rows as u32,
            neighbours: u32::from(*pairs == Pairs::Norm),
            first: *first as u32,
        })
    }
}

/// Head norms and rotation of queries in place, and of keys on their way to the cache, where values go too.
#[derive(Debug, Clone)]
pub struct RopeAppend {
    /// `[rows][heads][key_dim]`, changed in place.
    pub q: Span<f32>,
    /// `[rows][kv_heads][key_dim]`; stays as it is.
    pub k: Span<f32>,
    /// `[rows][kv_heads][value_dim]`.
    pub v: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Query heads.
    pub heads: usize,
    /// `[key_dim]` and the epsilon, before the rotation.
    pub q_norm: Option<(Span<f32>, f32)>,
    /// `[key_dim]` and the epsilon, before the rotation.
    pub k_norm: Option<(Span<f32>, f32)>,
    /// Without, positions are left out.
    pub rope: Option<Rope>,
    /// Where keys and values go.
    pub cache: KvRows,
}

impl RopeAppend {
    /// The kernel: a warp for each head of each row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, widths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { q, k, v, rows, heads, q_norm, k_norm, rope, cache } = self;
        let (rows, heads, shape) = (*rows, *heads, cache.shape);
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(ENTRY.name, what, found as u64, expected as u64)
        };
        let paged = cache.arguments(ENTRY.name, rows)?;
        let widest = shape.key_dim().max(shape.value_dim());
        let rule = || format!("at most {WIDEST}");
        CudaError::require(
            ENTRY.name,
            "the width of a head",
            widest as u64,
            widest <= WIDEST as usize,
            rule,
        )?;
        let per_row = heads + 2 * shape.kv_heads();
        let holds = heads <= 1 << 16 && rows * per_row < 1 << 30;
        let rule = || "at most 2^16, and below 2^30 heads of all rows".to_owned();
        CudaError::require(ENTRY.name, "query heads", heads as u64, holds, rule)?;
        equal("values of queries", q.len(), rows * heads * shape.key_dim())?;
        equal("values of keys", k.len(), rows * shape.kv_heads() * shape.key_dim())?;
        equal("values of values", v.len(), rows * shape.kv_heads() * shape.value_dim())?;
        let mut args = RopeArgs {
            cache: paged,
            q: q.address(),
            k: k.address(),
            v: v.address(),
            heads: heads as u32,
            ..RopeArgs::default()
        };
        let mut uses = cache.uses();
        uses.extend([q, k, v].map(|span| span.memory().clone()));
        for (norm, gain, eps) in
            [(q_norm, &mut args.q_gain, &mut args.q_eps), (k_norm, &mut args.k_gain, &mut args.k_eps)]
        {
            if let Some((values, epsilon)) = norm {
                equal("values of a gain", values.len(), shape.key_dim())?;
                (*gain, *eps) = (values.address(), *epsilon);
                uses.push(values.memory().clone());
            }
        }
        if let Some(rope) = rope {
            args.turn = rope.arguments(ENTRY.name, shape.key_dim())?;
            uses.extend([&rope.low, &rope.high].map(|span| span.memory().clone()));
        }
        let bytes = 4 * (2 * q.len() + k.len() + v.len())
            + rows * shape.page_bytes() / crate::abi::attention::PAGE as usize;
        let blocks = (rows * per_row).div_ceil(WARPS as usize) as u32;
        let grid = Grid { blocks, threads: 32 * WARPS, shared_bytes: 4 * WIDEST * WARPS };
        Ok(Launch::new(ENTRY, grid, args, bytes as u64, uses))
    }
}
