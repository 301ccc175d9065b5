//! Rows that are wanted.

use super::launch::Grid;
use super::module::{Entry, SAMPLE};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::take::TakeArgs;

const ENTRY: Entry<TakeArgs> = Entry::new(&SAMPLE, "take");
const THREADS: usize = 256;

/// `to[i] = from[rows[i]]`.
#[derive(Debug, Clone)]
pub struct Take {
    /// `[have][cols]`.
    pub from: Span<f32>,
    /// Values of a row: a multiple of 4.
    pub cols: usize,
    /// Row numbers. A row that `from` does not have reads as zeros.
    pub rows: Span<u32>,
    /// `[rows][cols]`.
    pub to: Span<f32>,
}

impl Take {
    /// The kernel.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launch(&self, info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { from, cols, rows, to } = self;
        let (name, count) = (ENTRY.name, rows.len());
        let whole = *cols > 0 && cols.is_multiple_of(4);
        CudaError::require(name, "columns", *cols as u64, whole, || "a multiple of 4".to_owned())?;
        let have = from.len() / cols;
        CudaError::equal(name, "values of the source", from.len() as u64, (have * cols) as u64)?;
        CudaError::equal(name, "values of the output", to.len() as u64, (count * cols) as u64)?;
        let most = 1 << 30;
        let fits = count > 0 && to.len() <= most && have <= most;
        CudaError::require(name, "values", to.len() as u64, fits, || format!("1 to {most}"))?;
        let addresses = from.address() | to.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let args = TakeArgs {
            from: from.address(),
            rows: rows.address(),
            to: to.address(),
            count: count as u32,
            have: have as u32,
            cols: *cols as u32,
            reserved: 0,
        };
        let blocks = (to.len() / 4).div_ceil(THREADS).min(8 * info.processors as usize) as u32;
        let grid = Grid { blocks, threads: THREADS as u32, shared_bytes: 0 };
        let uses = vec![from.memory().clone(), rows.memory().clone(), to.memory().clone()];
        Ok(Launch::new(ENTRY, grid, args, 8 * to.len() as u64, uses))
    }
}
