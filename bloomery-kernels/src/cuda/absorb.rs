//! What latent attention does before it, in one kernel.

use super::launch::Grid;
use super::module::{Entry, HEADS};
use super::{CudaError, DeviceInfo, LatentAppend, Launch, PerHead};
use crate::abi::heads::{AbsorbArgs, WARPS};

const ENTRY: Entry<AbsorbArgs> = Entry::new(&HEADS, "absorb_append");

/// [`PerHead`] of queries, and the [`LatentAppend`] that follows it, at the same time.
#[derive(Debug, Clone)]
pub struct AbsorbAppend {
    /// Its values that go along are those that turn.
    pub products: PerHead,
    /// Of what the products make.
    pub append: LatentAppend,
}

impl AbsorbAppend {
    /// The kernel: blocks of products, then those of the append.
    ///
    /// # Errors
    /// [`CudaError::Contract`] as for both, and when they are not about the same queries.
    pub fn launch(&self, info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { products, append } = self;
        let equal = |what, found: u64, expected: u64| CudaError::equal(ENTRY.name, what, found, expected);
        let first = products.arguments(info)?;
        let mut second = append.arguments()?;
        let (heads, latent) = (first.args, &mut second.args);
        equal("the address of queries", append.q.address(), products.out.address())?;
        equal("rows", append.rows as u64, products.rows as u64)?;
        equal("query heads", append.heads as u64, heads.heads.into())?;
        equal("rows of a matrix", heads.outs.into(), latent.cache.value_dim.into())?;
        equal("values that go along", heads.tail.into(), (2 * latent.turn.half).into())?;
        (latent.from, latent.from_width, latent.from_first) = (heads.x, heads.cols + heads.tail, heads.cols);
        let args = AbsorbArgs { heads, latent: *latent, products: first.blocks, padding: 0 };
        let uses = [first.uses, second.uses].concat();
        let shared_bytes = super::heads::SHARED_BYTES.max(super::latent::SHARED_BYTES);
        let grid = Grid { blocks: first.blocks + second.blocks, threads: 32 * WARPS, shared_bytes };
        Ok(Launch::new(ENTRY, grid, args, first.bytes + second.bytes, uses))
    }
}
