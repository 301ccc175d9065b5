//! What latent attention does before it, in one kernel.

use super::launch::Grid;
use super::module::{Entry, HEADS};
use super::{CudaError, DeviceInfo, LatentAppend, Launch, PerHead, heads, latent};
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
        let (products_args, products_blocks, bytes, mut uses) = products.arguments(info)?;
        let (mut append_args, blocks, more, others) = append.arguments()?;
        equal("the address of queries", append.q.address(), products.out.address())?;
        equal("rows", append.rows as u64, products.rows as u64)?;
        equal("query heads", append.heads as u64, products_args.heads.into())?;
        equal("rows of a matrix", products_args.outs.into(), append_args.cache.value_dim.into())?;
        equal("values that go along", products_args.tail.into(), u64::from(2 * append_args.turn.half))?;
        append_args.from = products_args.x;
        append_args.from_width = products_args.cols + products_args.tail;
        append_args.from_first = products_args.cols;
        uses.extend(others);
        let args =
            AbsorbArgs { heads: products_args, latent: append_args, products: products_blocks, padding: 0 };
        let shared_bytes = heads::SHARED_BYTES.max(latent::SHARED_BYTES);
        let grid = Grid { blocks: products_blocks + blocks, threads: 32 * WARPS, shared_bytes };
        Ok(Launch::new(ENTRY, grid, args, bytes + more, uses))
    }
}
