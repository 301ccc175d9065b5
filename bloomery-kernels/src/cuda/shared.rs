//! Keys that are values too, on their way to the cache.

use super::launch::Grid;
use super::module::{Entry, WINDOWED};
use super::{CudaError, DeviceInfo, KvRows, Launch, Rope, Span};
use crate::abi::attention::WIDEST_VALUE;
use crate::abi::rope::RopeArgs;

const ENTRY: Entry<RopeArgs> = Entry::new(&WINDOWED, "shared_append");
/// Warps of a block.
const WARPS: u32 = 4;

/// Norms and rotation of queries in place, and of a key on its way to the cache, where it is the value as well.
#[derive(Debug, Clone)]
pub struct SharedAppend {
    /// `[rows][heads][key_dim]`, changed in place.
    pub q: Span<f32>,
    /// `[rows][key_dim]`; stays as it is.
    pub k: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Query heads.
    pub heads: usize,
    /// `[key_dim]` and the epsilon, before the rotation.
    pub q_norm: Option<(Span<f32>, f32)>,
    /// `[key_dim]` and the epsilon, before the rotation.
    pub k_norm: Option<(Span<f32>, f32)>,
    /// The rotation.
    pub rope: Rope,
    /// Where keys go: of one head, values as wide as keys.
    pub cache: KvRows,
}

impl SharedAppend {
    /// Whether there are kernels for keys and values of these widths.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are none.
    pub fn check(key_dim: usize, value_dim: usize) -> Result<(), CudaError> {
        CudaError::equal(ENTRY.name, "the width of a value", value_dim as u64, key_dim as u64)?;
        let rule = || format!("at most {WIDEST_VALUE}");
        let fits = key_dim <= WIDEST_VALUE as usize;
        CudaError::require(ENTRY.name, "the width of a key", key_dim as u64, fits, rule)
    }

    /// The kernel: a warp for each query head and the key of each row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, widths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { q, k, rows, heads, q_norm, k_norm, rope, cache } = self;
        let (rows, heads, shape) = (*rows, *heads, cache.shape);
        let dim = shape.key_dim();
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(ENTRY.name, what, found as u64, expected as u64)
        };
        let paged = cache.arguments(ENTRY.name, rows)?;
        equal("KV heads", shape.kv_heads(), 1)?;
        Self::check(dim, shape.value_dim())?;
        let holds = heads <= 1 << 16 && rows * (heads + 1) < 1 << 30;
        let rule = || "at most 2^16, and below 2^30 heads of all rows".to_owned();
        CudaError::require(ENTRY.name, "query heads", heads as u64, holds, rule)?;
        equal("values of queries", q.len(), rows * heads * dim)?;
        equal("values of keys", k.len(), rows * dim)?;
        let mut args = RopeArgs {
            cache: paged,
            q: q.address(),
            k: k.address(),
            heads: heads as u32,
            turn: rope.arguments(ENTRY.name, dim)?,
            ..RopeArgs::default()
        };
        let mut uses = cache.uses();
        uses.extend([q, k, &rope.low, &rope.high].map(|span| span.memory().clone()));
        for (norm, gain, eps) in
            [(q_norm, &mut args.q_gain, &mut args.q_eps), (k_norm, &mut args.k_gain, &mut args.k_eps)]
        {
            if let Some((values, epsilon)) = norm {
                equal("values of a gain", values.len(), dim)?;
                (*gain, *eps) = (values.address(), *epsilon);
                uses.push(values.memory().clone());
            }
        }
        let of_queries = if q_norm.is_some() { q.len() } else { rows * heads * 2 * args.turn.half as usize };
        let cached = rows * shape.page_bytes() / crate::abi::attention::PAGE as usize;
        let bytes = 8 * of_queries + 4 * k.len() + cached;
        let blocks = (rows * (heads + 1)).div_ceil(WARPS as usize) as u32;
        let grid = Grid { blocks, threads: 32 * WARPS, shared_bytes: 4 * WIDEST_VALUE * WARPS };
        Ok(Launch::new(ENTRY, grid, args, bytes as u64, uses))
    }
}
