//! Latents, which stand for keys and values of all heads, on their way to the cache.

use super::launch::{Grid, Share};
use super::module::{Entry, ROPE};
use super::{CudaError, DeviceInfo, KvRows, Launch, Rope, Span};
use crate::abi::rope::{LatentArgs, WIDEST};

const ENTRY: Entry<LatentArgs> = Entry::new(&ROPE, "latent_append");
/// Warps of a block.
const WARPS: u32 = 4;
/// Shared memory of one.
pub(super) const SHARED_BYTES: u32 = 4 * WIDEST * WARPS;

/// `latent = rms(kv[..latent]) * gain` becomes the value, `[latent; rope(kv[latent..])]` the key of the one KV head; the same values of
/// every query head turn in place.
#[derive(Debug, Clone)]
pub struct LatentAppend {
    /// `[rows][heads][key_dim]`, changed in place.
    pub q: Span<f32>,
    /// `[rows][key_dim]`; stays as it is.
    pub kv: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Query heads.
    pub heads: usize,
    /// `[value_dim]` and the epsilon.
    pub norm: (Span<f32>, f32),
    /// Of the values behind the latent; without, positions are left out.
    pub rope: Option<Rope>,
    /// Where keys and values go: of one head, values as wide as the latent.
    pub cache: KvRows,
}

impl LatentAppend {
    /// The kernel: a warp for each query head, the key and the value of each row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, widths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Share { args, blocks, bytes, uses } = self.arguments()?;
        let grid = Grid { blocks, threads: 32 * WARPS, shared_bytes: SHARED_BYTES };
        Ok(Launch::new(ENTRY, grid, args, bytes, uses))
    }

    /// Arguments, blocks, bytes that move, and memory.
    pub(super) fn arguments(&self) -> Result<Share<LatentArgs>, CudaError> {
        let Self { q, kv, rows, heads, norm: (gain, eps), rope, cache } = self;
        let (rows, heads, shape) = (*rows, *heads, cache.shape);
        let (key, latent) = (shape.key_dim(), shape.value_dim());
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(ENTRY.name, what, found as u64, expected as u64)
        };
        let paged = cache.arguments(ENTRY.name, rows)?;
        equal("KV heads", shape.kv_heads(), 1)?;
        let fits = latent <= key && key - latent <= WIDEST as usize;
        let rule = || format!("{latent} to {}", latent + WIDEST as usize);
        CudaError::require(ENTRY.name, "the width of a key", key as u64, fits, rule)?;
        let holds = heads <= 1 << 16 && rows * (heads + 2) < 1 << 30;
        let rule = || "at most 2^16, and below 2^30 heads of all rows".to_owned();
        CudaError::require(ENTRY.name, "query heads", heads as u64, holds, rule)?;
        equal("values of queries", q.len(), rows * heads * key)?;
        equal("values of latents and keys", kv.len(), rows * key)?;
        equal("values of the gain", gain.len(), latent)?;
        let mut uses = cache.uses();
        uses.extend([q, kv, gain].map(|span| span.memory().clone()));
        let mut args = LatentArgs {
            cache: paged,
            q: q.address(),
            kv: kv.address(),
            from: q.address(),
            from_width: key as u32,
            from_first: latent as u32,
            gain: gain.address(),
            eps: *eps,
            heads: heads as u32,
            ..LatentArgs::default()
        };
        if let Some(rope) = rope {
            args.turn = rope.arguments(ENTRY.name, key)?;
            let first = rope.first;
            let rule = || format!("at least {latent}");
            let holds = rope.half == 0 || first >= latent;
            CudaError::require(ENTRY.name, "the first value that turns", first as u64, holds, rule)?;
            uses.extend([&rope.low, &rope.high].map(|span| span.memory().clone()));
        }
        let turned = 8 * rows * heads * 2 * args.turn.half as usize;
        let cached = rows * shape.page_bytes() / crate::abi::attention::PAGE as usize;
        let bytes = turned + 4 * kv.len() + cached;
        let blocks = (rows * (heads + 2)).div_ceil(WARPS as usize) as u32;
        Ok(Share { args, blocks, bytes: bytes as u64, uses })
    }
}
