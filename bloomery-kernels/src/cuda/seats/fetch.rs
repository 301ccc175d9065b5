//! Experts that were brought for a step.

use std::time::Duration;

use super::super::launch::Grid;
use super::super::module::{Entry, SEATS};
use super::super::{CudaError, DeviceInfo, Launch, Span};
use super::Desk;
use crate::abi::seats::{ArriveArgs, FetchArgs};

const ENTRY: Entry<FetchArgs> = Entry::new(&SEATS, "seats_fetch");
const THREADS: u32 = 256;
const ARRIVE: Entry<ArriveArgs> = Entry::new(&SEATS, "seats_arrive");

/// The kernel that says that what was queued before it has arrived.
pub(super) fn arrival(arrived: &Span<u64>, number: u32) -> Launch {
    let args = ArriveArgs { arrived: arrived.address(), number, reserved: 0 };
    let grid = Grid { blocks: 1, threads: 32, shared_bytes: 0 };
    Launch::new(ARRIVE, grid, args, 4, vec![arrived.memory().clone()])
}

/// Waits for the experts without seats that the host has brought ([`Desk::fetch`]), and says where they are: `out[pair]` is the pair's
/// seat, or, with `homes`, its expert's own number; [`NOWHERE`](super::NOWHERE) for all other pairs. In the same step the layer's
/// [`Seat`](super::Seat) has asked for them.
#[derive(Debug, Clone)]
pub struct Fetch {
    /// `[rows][used]`, as the [`Seat`](super::Seat) had them.
    pub experts: Span<u32>,
    /// Rows: as many as were offered.
    pub rows: usize,
    /// `[rows][used]`.
    pub out: Span<u32>,
    /// `[count]`: gets the seat of each expert that was brought. What others have is left.
    pub homes: Option<Span<u32>>,
    /// How long to wait for the host.
    pub limit: Duration,
}

impl Fetch {
    /// The kernel for `layer` of `desk`.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths do not fit.
    pub fn launch(&self, _info: &DeviceInfo, desk: &Desk, layer: usize) -> Result<Launch, CudaError> {
        let Self { experts, rows, out, homes, limit } = self;
        let (name, shape, rows) = (ENTRY.name, desk.shape(), *rows);
        let fits = rows > 0 && rows <= shape.rows;
        CudaError::require(name, "rows", rows as u64, fits, || format!("1 to {}", shape.rows))?;
        let pairs = experts.len();
        let fits = pairs.is_multiple_of(rows) && (1..=shape.used).contains(&(pairs / rows));
        CudaError::require(name, "pairs", pairs as u64, fits, || {
            format!("a multiple of {rows}, with at most {} of a row", shape.used)
        })?;
        CudaError::equal(name, "numbers", out.len() as u64, pairs as u64)?;
        let places = desk.places_of(layer)?;
        let args = FetchArgs {
            experts: experts.address(),
            out: out.address(),
            homes: homes.as_ref().map_or(0, Span::address),
            seats: places.fetched,
            told: places.told,
            arrived: places.arrived,
            states: places.states,
            step: places.step,
            failed: places.failed,
            limit: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            rows: rows as u32,
            pairs: pairs as u32,
            count: homes.as_ref().map_or(0, Span::len) as u32,
            layer: layer as u32,
        };
        let grid = Grid { blocks: 1, threads: THREADS, shared_bytes: 16 };
        let mut uses = vec![experts.memory().clone(), out.memory().clone()];
        uses.extend(homes.as_ref().map(|homes| homes.memory().clone()));
        uses.extend(desk.uses());
        Ok(Launch::new(ENTRY, grid, args, 16 * pairs as u64, uses))
    }
}
