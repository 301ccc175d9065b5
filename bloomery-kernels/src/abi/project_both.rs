//! Products with weights in tiles and of floats in one launch.

use super::{few, project};

/// Both kinds.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct ProjectBothArgs {
    /// Weights in tiles.
    pub tiles: few::ProjectArgs,
    /// Weights of floats, for the first blocks.
    pub floats: project::ProjectArgs,
    /// Blocks of floats; those behind them are of tiles.
    pub first: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

const _: () = assert!(
    size_of::<ProjectBothArgs>() == size_of::<few::ProjectArgs>() + size_of::<project::ProjectArgs>() + 8
);
