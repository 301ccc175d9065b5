//! How a row of weights is cut into units for the lanes of a warp and into chunks for shared memory.
//!
//! A *unit* is what one lane takes at a time, and the columns it multiplies with:
//!
//! * K-quants, IQ4_XS: 64 values, a quarter of a block;
//! * blocks of 32 values: a block;
//! * floats: 8 values.
//!
//! The lanes of a row take units in turn, so the order of a row's float sums depends on its length only.

use super::formats::{BF16, F16, F32, IQ4_XS, Q3_K, Q4_K, Q5_1, Q5_K, Q6_K, Q8_0};
use super::tiles::kept;

/// What products of a format multiply with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// int8 blocks of 256 with a sum for every 16 values.
    Wide,
    /// int8 blocks of 32.
    Narrow,
    /// Floats.
    Float,
}

impl Class {
    /// Values of a unit.
    #[must_use]
    pub const fn unit(self) -> u32 {
        match self {
            Self::Wide => 64,
            Self::Narrow => 32,
            Self::Float => 8,
        }
    }

    /// Values that a row is a multiple of.
    #[must_use]
    pub const fn block(self) -> u32 {
        match self {
            Self::Wide => 256,
            Self::Narrow => 32,
            Self::Float => 8,
        }
    }

    /// Bytes of one row of activations in shared memory.
    #[must_use]
    pub const fn activation_bytes(self, cols: u32) -> u32 {
        let units = cols / self.unit();
        let bytes = match self {
            // Values, four sums a unit, a scale for four units.
            Self::Wide => cols + 8 * units + units,
            Self::Narrow => cols + 4 * units,
            Self::Float => 4 * cols,
        };
        bytes.next_multiple_of(16)
    }
}

/// The class of a format that products exist for.
#[must_use]
pub const fn class(format: u32) -> Option<Class> {
    match kept(format) {
        Q3_K | Q4_K | Q5_K | Q6_K | IQ4_XS => Some(Class::Wide),
        Q8_0 | Q5_1 => Some(Class::Narrow),
        F32 | F16 | BF16 => Some(Class::Float),
        _ => None,
    }
}

/// Bytes of [`Class::block`] values, as the kernels read them.
const fn block_bytes(format: u32) -> u32 {
    match kept(format) {
        Q3_K => 110,
        Q4_K => 144,
        Q5_K => 176,
        Q6_K => 210,
        IQ4_XS => 136,
        Q8_0 => 34,
        Q5_1 => 24,
        F32 => 32,
        _ => 16,
    }
}

/// Alignment that the matrix and its rows keep: shared memory is filled 16 bytes at a time, whatever the row's start.
#[must_use]
pub const fn alignment(format: u32) -> u32 {
    match format {
        Q3_K | Q6_K | Q8_0 => 2,
        IQ4_XS | Q5_1 => 8,
        _ => 16,
    }
}

/// How the rows of a matrix are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Shape {
    /// Units of a row.
    pub units: u32,
    /// 8, 16 or 32 lanes share a row: the logarithm of that.
    pub lanes_log: u32,
    /// Bytes of a row.
    pub row_bytes: u32,
    /// Units of a chunk. The last chunk may have fewer.
    pub chunk_units: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Chunks of a row.
    pub chunks: u32,
    /// Shared memory of a chunk: with room for the 16-byte pieces that its ends lie in.
    pub slot_bytes: u32,
}

impl Shape {
    /// `cols` is a multiple of the class's block.
    #[must_use]
    pub const fn new(format: u32, cols: u32) -> Self {
        // Units of a row and of a block (as logarithms, so that the kernels divide by constants), and of a chunk of about 2 KB:
        // a warp that keeps two or three in flight fills its share of the card's bandwidth.
        let (units, block_log, most_log) = match class(format) {
            Some(Class::Wide) => (cols / 64, 2, 5),
            Some(Class::Narrow) => (cols / 32, 0, 6),
            _ => (cols / 8, 0, if format == F32 { 6 } else { 7 }),
        };
        let lanes_log = if units > 16 {
            5
        } else if units > 8 {
            4
        } else {
            3
        };
        let (chunk_units, chunks) = if units >> most_log == 0 {
            (units, 1)
        } else {
            (1 << most_log, (units + (1 << most_log) - 1) >> most_log)
        };
        let chunk_bytes = (chunk_units >> block_log) * block_bytes(format);
        Self {
            units,
            lanes_log,
            row_bytes: (units >> block_log) * block_bytes(format),
            chunk_units,
            chunk_bytes,
            chunks,
            slot_bytes: chunk_bytes.next_multiple_of(16) + if alignment(format) == 16 { 0 } else { 16 },
        }
    }

    /// Lanes that share a row.
    #[must_use]
    pub const fn lanes(&self) -> u32 {
        1 << self.lanes_log
    }

    /// Shared memory of `spans` pieces of weights of `rows` neighbouring rows each, or of a chunk of one.
    #[must_use]
    pub const fn stage_bytes(&self, spans: u32, rows: u32) -> u32 {
        spans * self.span_bytes(rows)
    }

    /// Shared memory of one such piece.
    #[must_use]
    pub const fn span_bytes(&self, rows: u32) -> u32 {
        if self.chunks > 1 { self.slot_bytes } else { (rows * self.row_bytes).next_multiple_of(16) + 16 }
    }

    /// Rows that a warp takes side by side.
    #[must_use]
    pub const fn side(&self) -> u32 {
        32 >> self.lanes_log
    }
}

const _: () = assert!(size_of::<Shape>() == 28);

/// Shared memory of the rings of a block: a barrier of 8 bytes for every stage, then the stages.
#[must_use]
pub const fn rings_bytes(warps: u32, stages: u32, stage_bytes: u32) -> u32 {
    (8 * warps * stages).next_multiple_of(16) + warps * stages * stage_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_completely() {
        for format in [F32, F16, BF16, Q8_0, Q5_1, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS] {
            let class = class(format).unwrap();
            for blocks in 1..300 {
                let cols = blocks * class.block();
                let shape = Shape::new(format, cols);
                assert_eq!(shape.row_bytes, blocks * block_bytes(format));
                assert!(shape.chunks * shape.chunk_bytes >= shape.row_bytes);
                assert!((shape.chunks - 1) * shape.chunk_bytes < shape.row_bytes);
                assert!(shape.chunks == 1 || shape.lanes() == 32);
                assert_eq!(shape.chunk_bytes * shape.chunks % alignment(format), 0);
                assert!(shape.chunks == 1 || shape.chunk_bytes.is_multiple_of(alignment(format)));
                assert!(shape.slot_bytes <= 2208, "{format} {cols}: {}", shape.slot_bytes);
            }
        }
    }

    #[test]
    fn block_sizes_are_those_of_the_file() {
        for format in bloomery_gguf::Format::all() {
            // Others are multiplied as the format that they have in tiles.
            if let Some(class) = class(format.id()).filter(|_| kept(format.id()) == format.id()) {
                let per_block = (class.block() as usize).div_ceil(format.block_len());
                assert_eq!(block_bytes(format.id()) as usize, per_block * format.block_bytes(), "{format}");
            }
        }
    }
}
