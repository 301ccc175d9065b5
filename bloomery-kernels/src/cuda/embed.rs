//! Rows of the token table.

use bloomery_gguf::Format;

use super::launch::Grid;
use super::module::{EMBED, Entry};
use super::{CudaError, DeviceInfo, Launch, Span, Weight};
use crate::abi::embed::EmbedArgs;

const ENTRY: Entry<EmbedArgs> = Entry::new(&EMBED, "embed");
const THREADS: usize = 128;

/// `out[i][c] = scale * table[ids[i]]` for every copy `c`, in floats; the CPU's bits.
#[derive(Debug, Clone)]
pub struct Embed {
    /// In any format of weights.
    pub table: Weight,
    /// Row numbers. A row that the table does not have reads as zeros.
    pub ids: Span<u32>,
    /// Multiplies the values.
    pub scale: f32,
    /// Of every row, one after the other.
    pub copies: usize,
    /// `[ids][copies][cols]`.
    pub out: Span<f32>,
}

impl Embed {
    /// The kernel.
    ///
    /// # Errors
    /// [`CudaError::NoProduct`] for a table of integers; [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launch(&self, info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { table, ids, scale, copies, out } = self;
        let (format, cols, count) = (table.format(), table.cols(), ids.len() * copies);
        if matches!(format, Format::I8 | Format::I16 | Format::I32 | Format::I64) {
            return Err(CudaError::NoProduct { what: "a token table", format });
        }
        let some = *copies > 0 && *copies <= 1 << 16;
        CudaError::require(ENTRY.name, "copies", *copies as u64, some, || "1 to 65536".to_owned())?;
        CudaError::equal(ENTRY.name, "values of the output", out.len() as u64, (count * cols) as u64)?;
        let groups = count * cols.div_ceil(32);
        let most = 1 << 30;
        let rule = || format!("1 to {most}, in groups of 32");
        CudaError::require(ENTRY.name, "values", groups as u64, groups > 0 && groups <= most, rule)?;
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(
            ENTRY.name,
            "the output's address",
            out.address(),
            out.address().is_multiple_of(16),
            rule,
        )?;
        let size = if format.block_len() == 1 { format.block_bytes() as u64 } else { 1 };
        let address = table.data().address();
        let rule = || format!("a multiple of {size}");
        CudaError::require(ENTRY.name, "the table's address", address, address.is_multiple_of(size), rule)?;
        let args = EmbedArgs {
            table: address,
            ids: ids.address(),
            out: out.address(),
            count: count as u32,
            rows: table.rows() as u32,
            cols: cols as u32,
            format: format.id(),
            scale: *scale,
            copies: *copies as u32,
        };
        let blocks = groups.div_ceil(THREADS).min(8 * info.processors as usize) as u32;
        let grid = Grid { blocks, threads: THREADS as u32, shared_bytes: 0 };
        let bytes = count * (cols / format.block_len() * format.block_bytes() + 4 * cols);
        let uses = vec![table.data().memory().clone(), ids.memory().clone(), out.memory().clone()];
        Ok(Launch::new(ENTRY, grid, args, bytes as u64, uses))
    }
}
