//! Weights into tiles.

use bloomery_gguf::Format;

use super::launch::Grid;
use super::module::{Entry, PACK};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::tiles::{self as abi, PackArgs, TILE_COLS, kept, tile_bytes};

/// Rows of a tile: matrices whose rows are a multiple of this lie in tiles one after the other.
pub const TILE_ROWS: usize = abi::TILE_ROWS as usize;

const ENTRY: Entry<PackArgs> = Entry::new(&PACK, "pack");

/// Matrices from the order of the file into tiles, which is what products of rounded activations read.
#[derive(Debug, Clone)]
pub struct Pack {
    /// One that [has tiles](Self::has_tiles).
    pub format: Format,
    /// Matrices.
    pub count: usize,
    /// Rows of a matrix.
    pub rows: usize,
    /// Columns of a matrix.
    pub cols: usize,
    /// `[count][rows][cols]` as in the file.
    pub from: Span<u8>,
    /// Room for [`bytes`](Self::bytes).
    pub to: Span<u8>,
}

impl Pack {
    /// Whether matrices of this format are multiplied in tiles. Others stay as they are in the file.
    #[must_use]
    pub fn has_tiles(format: Format) -> bool {
        tile_bytes(format.id()) != 0
    }

    /// The format that a matrix has in tiles: its own, or Q8_0 for other blocks of 32 whole multiples of a scale, or Q5_1 for Q4_1.
    #[must_use]
    pub fn kept(format: Format) -> Format {
        Format::from_id(kept(format.id())).unwrap_or(format)
    }

    /// Bytes of `count` matrices in tiles: those of the format that they [keep](Self::kept) but for rows and columns that fill up
    /// the last tiles.
    #[must_use]
    pub fn bytes(format: Format, count: usize, rows: usize, cols: usize) -> usize {
        let tiles = rows.div_ceil(TILE_ROWS) * cols.div_ceil(TILE_COLS as usize);
        count * tiles * tile_bytes(format.id()) as usize
    }

    /// The kernel.
    ///
    /// # Errors
    /// [`CudaError::NoProduct`] for a format without tiles, [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launch(&self, info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { format, count, rows, cols, from, to } = self;
        let (format, count, rows, cols) = (*format, *count, *rows, *cols);
        if !Self::has_tiles(format) {
            return Err(CudaError::NoProduct { what: "a matrix", format });
        }
        let block = format.block_len();
        let rule = || format!("a multiple of {block} ({format})");
        CudaError::require(ENTRY.name, "columns", cols as u64, cols > 0 && cols.is_multiple_of(block), rule)?;
        let bytes = count * rows * (cols / block) * format.block_bytes();
        CudaError::equal(ENTRY.name, "bytes", from.len() as u64, bytes as u64)?;
        let packed = Self::bytes(format, count, rows, cols);
        CudaError::equal(ENTRY.name, "bytes of the tiles", to.len() as u64, packed as u64)?;
        let aligned = to.address().is_multiple_of(16);
        CudaError::require(ENTRY.name, "the address of the tiles", to.address(), aligned, || {
            "a multiple of 16".to_owned()
        })?;
        let tiles = packed / tile_bytes(format.id()) as usize;
        let fits = tiles > 0 && u32::try_from(tiles).is_ok() && u32::try_from(cols).is_ok();
        CudaError::require(ENTRY.name, "tiles", tiles as u64, fits, || "1 to 2^32 - 1".to_owned())?;
        let args = PackArgs {
            from: from.address(),
            to: to.address(),
            count: count as u32,
            rows: rows as u32,
            cols: cols as u32,
            format: format.id(),
        };
        let grid = Grid { blocks: (tiles as u32).min(16 * info.processors), threads: 256, shared_bytes: 0 };
        let uses = vec![from.memory().clone(), to.memory().clone()];
        Ok(Launch::new(ENTRY, grid, args, (bytes + packed) as u64, uses))
    }
}
