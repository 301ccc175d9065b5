//! Rows of activations rounded to int8, in the order in which the tensor cores want them.
//!
//! A row is cut into blocks of 256 values, the last one filled up with zeros. Of each:
//!
//! ```text
//! values   256 i8: [4 runs of 64][4 lanes][4 sixteenths][4]; value 64 r + 16 k + 4 t + i is at 64 r + 16 t + 4 k + i
//! sums     16 f16, of the sixteen 16 neighbours each: sums 2 t, 2 t + 1, 2 t + 8, 2 t + 9 for t = 0..4
//! scales   1 f32; of blocks of 32: 8
//! ```

/// Values of a block.
pub const BLOCK: u32 = 256;
/// Bytes of a block's sums.
pub const SUMS: u32 = 32;

/// Rows in global memory.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Rounded {
    /// `[rows][blocks][256]` i8.
    pub values: u64,
    /// `[rows][blocks][16]` f16; not for blocks of 32.
    pub sums: u64,
    /// `[rows][blocks]` f32, or `[rows][blocks][8]`.
    pub scales: u64,
}

const _: () = assert!(size_of::<Rounded>() == 24);

/// How rows lie in shared memory, so that lanes which read at the same time use different banks.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Blocks of a row.
    pub blocks: u32,
    /// Scales of a block: 1 or 8.
    pub scales: u32,
    /// Rows.
    pub rows: u32,
}

impl Layout {
    /// From a row's values to the next row's: an odd multiple of 64.
    #[must_use]
    pub const fn values_stride(self) -> u32 {
        64 * (4 * self.blocks + 1)
    }

    /// From a row's sums to the next row's: an odd multiple of 32.
    #[must_use]
    pub const fn sums_stride(self) -> u32 {
        32 * (self.blocks | 1)
    }

    /// From a row's scales to the next row's.
    #[must_use]
    pub const fn scales_stride(self) -> u32 {
        4 * self.scales * self.blocks
    }

    /// Where sums start.
    #[must_use]
    pub const fn sums(self) -> u32 {
        self.rows * self.values_stride()
    }

    /// Where scales start.
    #[must_use]
    pub const fn scales_at(self) -> u32 {
        self.sums() + if self.scales == 1 { self.rows * self.sums_stride() } else { 0 }
    }

    /// Bytes in all.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        (self.scales_at() + self.rows * self.scales_stride()).next_multiple_of(16)
    }
}
