//! Of a block that guesses tokens: rows that come one later, and pairs of normalised rows.

use super::launch::Grid;
use super::module::{DRAFT, Entry};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::draft::{CarryArgs, PairArgs};

const CARRY: Entry<CarryArgs> = Entry::new(&DRAFT, "carry");
const PAIR: Entry<PairArgs> = Entry::new(&DRAFT, "pair");

/// `out[t] = x[t - 1]` within every sequence, whose first row has what its slot has; slots that are kept get their row of `x`.
#[derive(Debug, Clone)]
pub struct Carry {
    /// `[rows][cols]`; without, every row has what its sequence's slot has, and nothing is kept.
    pub x: Option<Span<f32>>,
    /// Values of a row: a multiple of 4.
    pub cols: usize,
    /// `[rows][cols]`; not `x`.
    pub out: Span<f32>,
    /// `[slots][cols]`.
    pub states: Span<f32>,
    /// `[rows]`: the sequence of every row.
    pub sequence: Span<u32>,
    /// `[sequences]`: the slot that a sequence starts from. A number that is no slot: zeros.
    pub from: Span<u32>,
    /// `[sequences + 1]`, ascending: the first row of every sequence, then the number of rows. A sequence may have none.
    pub starts: Span<u32>,
    /// `[rows]`: the slot that gets a row. A number that is no slot: none does. Of the slots that are saved, only that of a sequence's
    /// last row may be one that a sequence starts from, and only its own.
    pub saves: Span<u32>,
}

impl Carry {
    /// The kernel: a block of threads for every row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, multiples or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, cols, out, states, sequence, from, starts, saves } = self;
        let (name, cols, rows) = (CARRY.name, *cols, saves.len());
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(CARRY.name, what, found as u64, expected as u64)
        };
        let whole = cols > 0 && cols.is_multiple_of(4) && cols <= i32::MAX as usize;
        CudaError::require(name, "columns", cols as u64, whole, || "a multiple of 4".to_owned())?;
        let fits = rows > 0 && rows <= i32::MAX as usize;
        CudaError::require(name, "rows", rows as u64, fits, || "1 to 2^31 - 1".to_owned())?;
        let sequences = from.len();
        let fits = sequences > 0 && sequences <= rows;
        CudaError::require(name, "sequences", sequences as u64, fits, || format!("1 to {rows}"))?;
        equal("starts of sequences", starts.len(), sequences + 1)?;
        equal("sequences of rows", sequence.len(), rows)?;
        equal("values of the output", out.len(), rows * cols)?;
        let slots = states.len() / cols;
        equal("values of the states", states.len(), slots * cols)?;
        let fits = slots > 0 && slots < u32::MAX as usize;
        CudaError::require(name, "slots", slots as u64, fits, || "1 to 2^32 - 2".to_owned())?;
        if let Some(x) = x {
            equal("values of x", x.len(), rows * cols)?;
            let apart = x.address() != out.address();
            CudaError::require(name, "values of the output", out.len() as u64, apart, || {
                "apart from x".to_owned()
            })?;
        }
        let address = x.as_ref().map_or(0, Span::address);
        let addresses = address | out.address() | states.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let args = CarryArgs {
            x: address,
            out: out.address(),
            states: states.address(),
            sequence: sequence.address(),
            from: from.address(),
            starts: starts.address(),
            saves: saves.address(),
            rows: rows as u32,
            sequences: sequences as u32,
            slots: slots as u32,
            cols: cols as u32,
        };
        let grid = Grid { blocks: rows as u32, threads: threads(cols.div_ceil(4)), shared_bytes: 0 };
        let floats = [Some(out), Some(states), x.as_ref()].into_iter().flatten();
        let words = [sequence, from, starts, saves].map(|span| span.memory().clone());
        let uses = floats.map(|span| span.memory().clone()).chain(words).collect();
        Ok(Launch::new(CARRY, grid, args, 8 * (rows * cols) as u64, uses))
    }
}

/// `out[t][s] = [norm_0(x_0[t]) ; norm_1(x_1[t][s])]`: each half has the bits of a norm for itself.
#[derive(Debug, Clone)]
pub struct Pair {
    /// `[rows][cols]` and `[rows][streams][cols]`.
    pub x: [Span<f32>; 2],
    /// `[cols]`, `[streams][cols]`, and the epsilon of each.
    pub norms: [(Span<f32>, f32); 2],
    /// Values of a half: a multiple of 8.
    pub cols: usize,
    /// Of the second half.
    pub streams: usize,
    /// `[rows][streams][2][cols]`; neither of the halves.
    pub out: Span<f32>,
}

impl Pair {
    /// The kernel: two blocks of threads for every stream of a row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, multiples or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, norms, cols, streams, out } = self;
        let (name, cols) = (PAIR.name, *cols);
        let whole = cols > 0 && cols.is_multiple_of(8) && cols <= i32::MAX as usize;
        CudaError::require(name, "columns", cols as u64, whole, || "a multiple of 8".to_owned())?;
        let some = (1..=1024).contains(streams);
        CudaError::require(name, "streams", *streams as u64, some, || "1 to 1024".to_owned())?;
        let rows = out.len() / (2 * streams * cols);
        let all = rows * streams;
        let fits = rows > 0 && all <= i32::MAX as usize / 2;
        CudaError::require(name, "rows", all as u64, fits, || "1 to 2^30 - 1".to_owned())?;
        CudaError::equal(name, "values of the output", out.len() as u64, (2 * all * cols) as u64)?;
        let (mut addresses, mut uses) = (out.address(), vec![out.memory().clone()]);
        for ((x, (gain, _)), each) in x.iter().zip(norms).zip([1, *streams]) {
            CudaError::equal(name, "values of a half", x.len() as u64, (rows * each * cols) as u64)?;
            CudaError::equal(name, "values of the gain", gain.len() as u64, (each * cols) as u64)?;
            let apart = out.address() != x.address();
            CudaError::require(name, "values of the output", out.len() as u64, apart, || {
                "apart from the halves".to_owned()
            })?;
            addresses |= x.address() | gain.address();
            uses.extend([x.memory().clone(), gain.memory().clone()]);
        }
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let [first, second] = norms;
        let args = PairArgs {
            x: [x[0].address(), x[1].address()],
            gain: [first.0.address(), second.0.address()],
            out: out.address(),
            eps: [first.1, second.1],
            cols: cols as u32,
            streams: *streams as u32,
        };
        let grid = Grid { blocks: 2 * all as u32, threads: threads(cols.div_ceil(8)), shared_bytes: 16 };
        Ok(Launch::new(PAIR, grid, args, 8 * out.len() as u64, uses))
    }
}

/// Threads of a block where there is work for so many.
fn threads(pieces: usize) -> u32 {
    (pieces.min(512) as u32).next_multiple_of(32).clamp(64, 512)
}
