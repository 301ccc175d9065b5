//! Weights in tiles of 16 rows and 256 columns, in the order in which the lanes of a warp want them.
//!
//! A matrix is `[rows / 16][cols / 256]` tiles, both rounded up: what it does not have is zeros. A tile starts with
//! *chunks* of 512 bytes, 16 for each lane; lane `4 g + t` has four words: two of row g, then two of row g + 8, each
//! word pair being the 4 bytes at `4 t` and those at `16 + 4 t` of 32 bytes of the block. What belongs to a whole row
//! follows. Blocks of 32 values lie in tiles of 8 of them.
//!
//! ```text
//!          chunks                                          then
//! Q4_K     4: 32 bytes of nibbles each                     the 16-byte heads of the rows
//! Q5_K     4 as Q4_K, 1: fifth bits                        heads, as Q4_K
//! Q6_K     4: 32 bytes of low nibbles, 2: of bit pairs     scales, 16 bytes a row; d, 2 bytes a row
//! Q3_K     2: 32 bytes of bit pairs, 1: high bits          scales, 12 bytes a row; d, 2 bytes a row
//! IQ4_XS   4: 2 x 16 bytes of nibbles; a word has those    heads, 8 bytes a row
//!          of 4 values in its low half, of the values
//!          16 places on in its high half
//! Q8_0     8: the 32 values of a block                     d, 2 bytes for each of 8 blocks of a row
//! Q5_1     4 as Q4_K, of two blocks each, 1: fifth bits    d, as Q8_0; then m
//! ```
//!
//! Blocks of 32 values whose values are whole multiples of one scale lie there as [`Q8_0`], which has every such value exactly, and
//! Q4_1 as [`Q5_1`]. Scales of MXFP4 are powers of two from 2^-127 on, of which Q8_0 has those from 2^-24 to 2^15: smaller ones are zero
//! there, larger ones the largest.

use super::formats::{IQ4_NL, IQ4_XS, MXFP4, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};

/// Rows of a tile.
pub const TILE_ROWS: u32 = 16;
/// Columns of a tile.
pub const TILE_COLS: u32 = 256;
/// Bytes of a chunk.
pub const CHUNK: u32 = 512;

/// The format that a matrix of `format` has in tiles.
#[must_use]
pub const fn kept(format: u32) -> u32 {
    match format {
        Q4_0 | Q5_0 | IQ4_NL | MXFP4 => Q8_0,
        Q4_1 => Q5_1,
        format => format,
    }
}

/// Bytes of a row's part of a tile as the file has them.
#[must_use]
pub const fn part_bytes(format: u32) -> u32 {
    match format {
        MXFP4 => 8 * 17,
        Q4_0 | IQ4_NL => 8 * 18,
        Q4_1 => 8 * 20,
        Q5_0 => 8 * 22,
        format => tile_bytes(format) / TILE_ROWS,
    }
}

/// Bytes of a tile: as many as its blocks have in the file, where it keeps their format. 0: the format has no tiles.
#[must_use]
pub const fn tile_bytes(format: u32) -> u32 {
    16 * match kept(format) {
        Q3_K => 110,
        Q4_K => 144,
        Q5_K => 176,
        Q6_K => 210,
        IQ4_XS => 136,
        Q8_0 => 8 * 34,
        Q5_1 => 8 * 24,
        _ => 0,
    }
}

/// Chunks of a tile.
#[must_use]
pub const fn chunks(format: u32) -> u32 {
    match kept(format) {
        Q3_K => 3,
        Q4_K | IQ4_XS => 4,
        Q5_K | Q5_1 => 5,
        Q6_K => 6,
        Q8_0 => 8,
        _ => 0,
    }
}

/// Matrices on their way into tiles.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct PackArgs {
    /// `[count][rows][cols]` as in the file.
    pub from: u64,
    /// `[count][rows / 16][cols / 256]` tiles.
    pub to: u64,
    /// Matrices.
    pub count: u32,
    /// Rows of a matrix.
    pub rows: u32,
    /// Columns of a matrix.
    pub cols: u32,
    /// The format's id in the file.
    pub format: u32,
}

const _: () = assert!(size_of::<PackArgs>() == 32 && align_of::<PackArgs>() == 8);
