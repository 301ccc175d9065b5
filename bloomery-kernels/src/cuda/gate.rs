//! Values times the sigmoids of others.

use super::launch::Grid;
use super::module::{Entry, ROPE};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::rope::GateArgs;

const ENTRY: Entry<GateArgs> = Entry::new(&ROPE, "gate");
const THREADS: u32 = 256;

/// `x *= sigmoid(gate)`, value by value.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Changed in place.
    pub x: Span<f32>,
    /// As many.
    pub gate: Span<f32>,
}

impl Gate {
    /// The kernel.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, gate } = self;
        let len = x.len();
        let holds = len > 0 && len.is_multiple_of(4) && len < 1 << 32;
        let rule = || "a multiple of 4 below 2^32".to_owned();
        CudaError::require(ENTRY.name, "values", len as u64, holds, rule)?;
        CudaError::equal(ENTRY.name, "values of the gate", gate.len() as u64, len as u64)?;
        let addresses = x.address() | gate.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(ENTRY.name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let fours = (len / 4) as u32;
        let args = GateArgs { x: x.address(), gate: gate.address(), fours, padding: 0 };
        let grid = Grid { blocks: fours.div_ceil(THREADS), threads: THREADS, shared_bytes: 0 };
        let uses = [x, gate].map(|span| span.memory().clone()).to_vec();
        Ok(Launch::new(ENTRY, grid, args, 12 * len as u64, uses))
    }
}
