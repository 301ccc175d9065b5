//! What the host computed.

use std::time::Duration;

use super::super::launch::Grid;
use super::super::module::{Entry, SEATS};
use super::super::{CudaError, DeviceInfo, Launch, Span};
use super::{Desk, MOST_THREADS};
use crate::abi::seats::CollectArgs;

const ENTRY: Entry<CollectArgs> = Entry::new(&SEATS, "seats_collect");

/// `out[row] += sums[row]` for the rows that the host was asked for by the layer's [`Seat`](super::Seat) in this step, when it has
/// answered. Nothing is added, and no later layer of the step waits, once the host has broken the step off or a layer has
/// waited for too long.
#[derive(Debug, Clone)]
pub struct Collect {
    /// `[rows][cols]`; columns are a multiple of 4.
    pub out: Span<f32>,
    /// Rows: as many as were offered.
    pub rows: usize,
    /// How long to wait for the host.
    pub limit: Duration,
}

impl Collect {
    /// The kernel for `layer` of `desk`.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo, desk: &Desk, layer: usize) -> Result<Launch, CudaError> {
        let Self { out, rows, limit } = self;
        let (name, shape, rows) = (ENTRY.name, desk.shape(), *rows);
        let fits = rows > 0 && rows <= shape.rows;
        CudaError::require(name, "rows", rows as u64, fits, || format!("1 to {}", shape.rows))?;
        let cols = out.len() / rows;
        CudaError::equal(name, "values of the output", out.len() as u64, (rows * cols) as u64)?;
        let fits = cols > 0 && cols.is_multiple_of(4) && cols <= shape.outputs;
        CudaError::require(name, "columns", cols as u64, fits, || {
            format!("a multiple of 4, at most {}", shape.outputs)
        })?;
        let (address, rule) = (out.address(), || "a multiple of 16".to_owned());
        CudaError::require(name, "the address of the output", address, address.is_multiple_of(16), rule)?;
        let places = desk.places_of(layer)?;
        let args = CollectArgs {
            out: address,
            sums: places.sums,
            states: places.states,
            step: places.step,
            done: places.done,
            failed: places.failed,
            limit: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            cols: cols as u32,
            layer: layer as u32,
        };
        // Two pieces of 16 bytes a thread, so that they come over the bus together.
        let threads = (cols / 8).next_multiple_of(32).clamp(32, MOST_THREADS);
        let grid = Grid { blocks: rows as u32, threads: threads as u32, shared_bytes: 16 };
        let mut uses = vec![out.memory().clone()];
        uses.extend(desk.uses());
        Ok(Launch::new(ENTRY, grid, args, 12 * out.len() as u64, uses))
    }
}
