//! Launches of the kernels for many rows and weights in tiles.

mod feed_forward;
mod products;
mod round;

pub(super) use feed_forward::{feed_forward, feed_forward_bytes};
pub(super) use products::project;
pub(super) use round::{Rows, round, rounded_bytes};

use super::{CudaError, Span};

/// Memory that a launcher cuts into pieces.
pub(super) struct Workspace {
    left: Span<u8>,
}

/// What pieces are aligned to.
const ALIGNMENT: usize = 256;

/// Bytes of a piece of `len` bytes in a workspace.
pub(super) fn piece_bytes(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

impl Workspace {
    pub(super) fn new(all: &Span<u8>) -> Self {
        Self { left: all.clone() }
    }

    /// The next `len` values.
    pub(super) fn take<T: bytemuck::Pod>(&mut self, len: usize) -> Result<Span<T>, CudaError> {
        let (bytes, has) = (len * size_of::<T>(), self.left.len());
        let room = piece_bytes(bytes);
        CudaError::require(
            "a launch for many rows",
            "bytes of the workspace",
            has as u64,
            room <= has,
            || format!("{room} more"),
        )?;
        let piece = self.left.slice(0..bytes)?.cast();
        self.left = self.left.slice(room..has)?;
        Ok(piece)
    }
}
