//! Experts that have seats on the card, and those that the host computes.

mod collect;
mod desk;
mod fetch;
mod shape;

pub use collect::Collect;
pub use desk::Desk;
pub use fetch::Fetch;
pub use shape::DeskShape;

use super::launch::Grid;
use super::module::{Entry, SEATS};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::seats::{self as abi, OfferArgs, USED};

/// The seat of an expert that has none.
pub const NOWHERE: u32 = abi::NOWHERE;

const ENTRY: Entry<OfferArgs> = Entry::new(&SEATS, "seats_offer");
/// Threads of a block, at most.
const MOST_THREADS: usize = 512;

/// What is left of experts that have seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// The number of the seat: for products with the stack of all seats.
    Seats,
    /// The expert's own number: for products that look its seat up.
    Experts,
}

/// Which of the chosen experts have seats; and, at a desk, the host is asked for the others.
///
/// `out[pair]` is the seat of the pair's expert, or its own number, as `numbers` says; [`NOWHERE`] where it has no seat or the pair has
/// no expert.
#[derive(Debug, Clone)]
pub struct Seat {
    /// `[rows][used]`, as a router left them. A number that is no expert leaves the pair out.
    pub experts: Span<u32>,
    /// `[rows][used]`.
    pub weights: Span<f32>,
    /// Experts of a row: 32 or fewer.
    pub used: usize,
    /// `[count]`: the seat of each of the layer's experts, or [`NOWHERE`].
    pub seats: Span<u32>,
    /// `[rows][used]`, apart from `experts`.
    pub out: Span<u32>,
    /// What `out` gets.
    pub numbers: Numbers,
    /// `[count]`, where every pair adds 1 to its expert.
    pub counts: Option<Span<u32>>,
    /// `[rows][cols]`, the rows that experts read: needed at a desk.
    pub normed: Option<Span<f32>>,
}

impl Seat {
    /// The kernel; `at` is the desk where the host is asked, and the layer's number there.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, ranges or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo, at: Option<(&Desk, usize)>) -> Result<Launch, CudaError> {
        let Self { experts, weights, used, seats, out, numbers, counts, normed } = self;
        let name = ENTRY.name;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        let fits = *used > 0 && *used <= USED as usize;
        CudaError::require(name, "experts of a row", *used as u64, fits, || format!("1 to {USED}"))?;
        let (pairs, count, most) = (experts.len(), seats.len(), 1 << 28);
        let rows = pairs / used;
        CudaError::require(name, "pairs", pairs as u64, rows > 0 && pairs <= most, || {
            format!("1 row to {most}")
        })?;
        equal("pairs", pairs, rows * used)?;
        equal("weights", weights.len(), pairs)?;
        equal("numbers", out.len(), pairs)?;
        let fits = count > 0 && count <= most;
        CudaError::require(name, "experts", count as u64, fits, || format!("1 to {most}"))?;
        if let Some(counts) = counts {
            equal("counts", counts.len(), count)?;
        }
        // Every warp of a block reads a row's experts while one writes what comes of them.
        let apart = experts.address() + 4 * pairs as u64 <= out.address()
            || out.address() + 4 * pairs as u64 <= experts.address();
        CudaError::require(name, "the address of the numbers", out.address(), apart, || {
            format!("{} bytes away from the experts'", 4 * pairs)
        })?;
        let mut args = OfferArgs {
            experts: experts.address(),
            weights: weights.address(),
            seats: seats.address(),
            out: out.address(),
            counts: counts.as_ref().map_or(0, Span::address),
            rows: rows as u32,
            used: *used as u32,
            count: count as u32,
            keep: (*numbers == Numbers::Experts).into(),
            ..OfferArgs::default()
        };
        let mut uses: Vec<_> = [experts, seats, out].map(|span| span.memory().clone()).into();
        uses.push(weights.memory().clone());
        uses.extend(counts.as_ref().map(|counts| counts.memory().clone()));
        let (mut threads, mut bytes) = (32, 16 * pairs);
        if let Some((desk, layer)) = at {
            let cols = self.at_desk(desk, rows)?;
            let places = desk.places_of(layer)?;
            let normed = normed.as_ref().map_or(0, Span::address);
            args = OfferArgs {
                normed,
                pairs: places.pairs,
                to: places.rows,
                asked: places.asked,
                states: places.states,
                ticket: places.ticket,
                step: places.step,
                cols: cols as u32,
                ..args
            };
            threads = (cols / 4).next_multiple_of(32).min(MOST_THREADS);
            bytes += 8 * rows * cols;
            uses.extend(desk.uses());
        }
        uses.extend(normed.as_ref().map(|normed| normed.memory().clone()));
        let grid = Grid { blocks: rows as u32, threads: threads as u32, shared_bytes: 0 };
        Ok(Launch::new(ENTRY, grid, args, bytes as u64, uses))
    }

    /// Columns of the rows that are offered at `desk`.
    fn at_desk(&self, desk: &Desk, rows: usize) -> Result<usize, CudaError> {
        let (name, shape) = (ENTRY.name, desk.shape());
        let most = |what, found: usize, most: usize| {
            CudaError::require(name, what, found as u64, found <= most, || format!("at most {most}"))
        };
        most("rows at the desk", rows, shape.rows)?;
        most("experts of a row at the desk", self.used, shape.used)?;
        let values = self.normed.as_ref().map_or(0, Span::len);
        let cols = values / rows;
        let whole = cols > 0 && cols.is_multiple_of(4) && values == rows * cols;
        CudaError::require(name, "values of the normalised rows", values as u64, whole, || {
            format!("a multiple of 4 for each of {rows} rows")
        })?;
        most("columns at the desk", cols, shape.cols)?;
        let address = self.normed.as_ref().map_or(0, Span::address);
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(name, "the address of the rows", address, address.is_multiple_of(16), rule)?;
        Ok(cols)
    }
}
