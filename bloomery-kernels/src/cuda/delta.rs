//! The gated delta net between its projections.

use super::launch::Grid;
use super::module::{DELTA, Entry};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::delta::{
    CONVOLVE_ROWS, DIM, DeltaArgs, FEW_BYTES, FEW_THREADS, SCAN_BYTES, SCAN_THREADS, SLICE, TAPS, THREADS,
};

const CONVOLVE: Entry<DeltaArgs> = Entry::new(&DELTA, "delta_convolve");
const SCAN: Entry<DeltaArgs> = Entry::new(&DELTA, "delta_scan");
const FINISH: Entry<DeltaArgs> = Entry::new(&DELTA, "delta_finish");
const FEW: Entry<DeltaArgs> = Entry::new(&DELTA, "delta_few");

const NAME: &str = "delta";

/// Rows of a step that one kernel does.
const FEW_ROWS: usize = 32;

/// Heads of a gated delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaShape {
    /// Heads of q and of k.
    pub key_heads: usize,
    /// Heads of v: a multiple of `key_heads`; head j reads key head `j % key_heads`.
    pub value_heads: usize,
    /// Values of a head of q and k: a multiple of 4, at most 128.
    pub key_dim: usize,
    /// Values of a head of v: a multiple of 4, at most 128.
    pub value_dim: usize,
    /// Weights of a channel of the convolution, 2 to 4: the current row's and those of the rows before it.
    pub taps: usize,
}

impl DeltaShape {
    /// Values of a row of q, k and v.
    #[must_use]
    pub const fn channels(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Values of a row of the result.
    #[must_use]
    pub const fn outputs(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Values of a state: `[taps - 1][channels]`, the last rows of `qkv`, oldest first, then S,
    /// `[value_heads][value_dim][key_dim]`.
    #[must_use]
    pub const fn state_len(&self) -> usize {
        (self.taps - 1) * self.channels() + self.value_heads * self.value_dim * self.key_dim
    }

    /// Why there are no kernels for such heads, if there are none.
    ///
    /// # Errors
    /// [`CudaError::Contract`] with the number that is wrong.
    pub fn check(&self) -> Result<(), CudaError> {
        let Self { key_heads, value_heads, key_dim, value_dim, taps } = *self;
        let require = |what, found: usize, holds, rule: String| {
            CudaError::require(NAME, what, found as u64, holds, || rule)
        };
        require("heads of k", key_heads, key_heads > 0 && key_heads <= 1024, "1 to 1024".to_owned())?;
        let whole = value_heads > 0 && value_heads.is_multiple_of(key_heads) && value_heads <= 1024;
        require("heads of v", value_heads, whole, format!("a multiple of {key_heads}, at most 1024"))?;
        for (what, dim) in [("values of a head of k", key_dim), ("values of a head of v", value_dim)] {
            let fits = dim > 0 && dim.is_multiple_of(4) && dim <= DIM as usize;
            require(what, dim, fits, format!("a multiple of 4, at most {DIM}"))?;
        }
        require("taps", taps, (2..=TAPS as usize).contains(&taps), format!("2 to {TAPS}"))
    }
}

/// Convolution, delta rule, norm and gate for rows of several sequences, whose states they read and write.
///
/// A row's bits depend neither on other sequences nor on how its sequence is cut into launches.
#[derive(Debug, Clone)]
pub struct Delta {
    /// Heads.
    pub shape: DeltaShape,
    /// `[rows][channels]`: q of all key heads, k of all key heads, v of all value heads.
    pub qkv: Span<f32>,
    /// `[rows][value_heads][value_dim]`.
    pub z: Span<f32>,
    /// `[rows][value_heads]`, before the sigmoid.
    pub beta: Span<f32>,
    /// `[rows][value_heads]`.
    pub alpha: Span<f32>,
    /// `[taps][channels]`; the last of them belong to the current row.
    pub conv: Span<f32>,
    /// `[value_heads]`: the decay of a row is `e^(a softplus(alpha + dt))`.
    pub a: Span<f32>,
    /// `[value_heads]`.
    pub dt: Span<f32>,
    /// `[value_dim]` and the epsilon.
    pub norm: (Span<f32>, f32),
    /// `[rows][value_heads][value_dim]`; not `z`.
    pub out: Span<f32>,
    /// `[slots][state_len]`.
    pub states: Span<f32>,
    /// `[sequences]`: the slot whose state a sequence starts from. A number that is no slot: zeros.
    pub from: Span<u32>,
    /// `[sequences + 1]`, ascending: the first row of every sequence, then the number of rows. A sequence may have none.
    pub starts: Span<u32>,
    /// `[rows]`: the slot that gets the state after a row. A number that is no slot: none does. Of the slots that are saved, only that of
    /// a sequence's last row may be one that a sequence starts from, and only its own.
    pub saves: Span<u32>,
    /// Room for [`scratch_len`](Self::scratch_len) values.
    pub scratch: Span<f32>,
    /// Room for `[sequences][key_heads]`: 0 before the first launch, and 0 again after each one, so that launches in order share it.
    pub readers: Span<u32>,
}

impl Delta {
    /// Values of scratch memory for steps of `rows` rows.
    #[must_use]
    pub const fn scratch_len(shape: &DeltaShape, rows: usize) -> usize {
        if rows <= FEW_ROWS { 0 } else { rows * (shape.channels() + 4 * shape.value_heads) }
    }

    /// The kernels, in order: one for up to 32 rows, else three. The launch before them must not write `states`, `from`, `starts` or
    /// `saves`: they are read before that has ended.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let args = self.arguments()?;
        let uses: Vec<_> = [&self.qkv, &self.z, &self.beta, &self.alpha, &self.conv, &self.a, &self.dt]
            .into_iter()
            .chain([&self.norm.0, &self.out, &self.states, &self.scratch])
            .map(|span| span.memory().clone())
            .chain([&self.from, &self.starts, &self.saves, &self.readers].map(|span| span.memory().clone()))
            .collect();
        let rows = args.rows as usize;
        let (width, outputs) = (self.shape.channels(), self.shape.outputs());
        // A state read and one written for every sequence that there can be.
        let states = 8 * self.shape.state_len() * self.from.len();
        let _ = info;
        if rows <= FEW_ROWS {
            let grid = Grid {
                blocks: args.sequences * args.value_heads,
                threads: FEW_THREADS,
                shared_bytes: FEW_BYTES,
            };
            let bytes = states + 4 * rows * (width + 2 * outputs);
            return Ok(vec![Launch::new(FEW, grid, args, bytes as u64, uses)]);
        }
        let of_warps = |warps: u32| warps.div_ceil(THREADS / 32);
        let warps = args.rows.div_ceil(CONVOLVE_ROWS) * (args.key_heads + args.value_heads);
        let grid = Grid { blocks: of_warps(warps), threads: THREADS, shared_bytes: 0 };
        let convolve = Launch::new(CONVOLVE, grid, args, (8 * rows * width) as u64, uses.clone());
        let blocks = args.sequences * args.value_heads * args.value_dim.div_ceil(SLICE);
        let grid = Grid { blocks, threads: SCAN_THREADS, shared_bytes: SCAN_BYTES };
        let bytes = states + 4 * rows * (width + outputs);
        let scan = Launch::new(SCAN, grid, args, bytes as u64, uses.clone());
        let grid = Grid { blocks: of_warps(args.rows * args.value_heads), threads: THREADS, shared_bytes: 0 };
        let finish = Launch::new(FINISH, grid, args, (12 * rows * outputs) as u64, uses);
        Ok(vec![convolve, scan, finish])
    }

    fn arguments(&self) -> Result<DeltaArgs, CudaError> {
        let Self { shape, qkv, z, beta, alpha, conv, a, dt, norm: (gain, eps), out, .. } = self;
        let Self { states, from, starts, saves, scratch, readers, .. } = self;
        shape.check()?;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let require = |what, found: usize, holds, rule: &dyn Fn() -> String| {
            CudaError::require(NAME, what, found as u64, holds, rule)
        };
        let (rows, sequences, channels) = (saves.len(), from.len(), shape.channels());
        let most = 1 << 16;
        require("rows", rows, rows > 0 && rows <= most, &|| format!("1 to {most}"))?;
        require("sequences", sequences, sequences > 0 && sequences <= rows, &|| format!("1 to {rows}"))?;
        equal("starts of sequences", starts.len(), sequences + 1)?;
        equal("values of q, k and v", qkv.len(), rows * channels)?;
        equal("values of z", z.len(), rows * shape.outputs())?;
        equal("values of beta", beta.len(), rows * shape.value_heads)?;
        equal("values of alpha", alpha.len(), rows * shape.value_heads)?;
        equal("weights of the convolution", conv.len(), channels * shape.taps)?;
        equal("values of a", a.len(), shape.value_heads)?;
        equal("values of dt", dt.len(), shape.value_heads)?;
        equal("values of the gain", gain.len(), shape.value_dim)?;
        equal("values of the output", out.len(), rows * shape.outputs())?;
        require("values of the output", out.len(), out.address() != z.address(), &|| {
            "apart from z".to_owned()
        })?;
        let slots = states.len() / shape.state_len();
        equal("values of the states", states.len(), slots * shape.state_len())?;
        require("slots", slots, slots > 0 && slots < u32::MAX as usize, &|| "1 to 2^32 - 2".to_owned())?;
        let room = Self::scratch_len(shape, rows);
        require("scratch values", scratch.len(), scratch.len() >= room, &|| format!("at least {room}"))?;
        let room = sequences * shape.key_heads;
        require("words for readers", readers.len(), readers.len() >= room, &|| format!("at least {room}"))?;
        let addresses = qkv.address() | z.address() | conv.address() | gain.address() | out.address();
        let addresses = addresses | states.address() | scratch.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let few = rows <= FEW_ROWS;
        Ok(DeltaArgs {
            qkv: qkv.address(),
            z: z.address(),
            beta: beta.address(),
            alpha: alpha.address(),
            conv: conv.address(),
            a: a.address(),
            dt: dt.address(),
            gain: gain.address(),
            out: out.address(),
            states: states.address(),
            from: from.address(),
            starts: starts.address(),
            saves: saves.address(),
            mixed: if few { 0 } else { scratch.address() },
            gates: if few { 0 } else { scratch.address() + 4 * (rows * channels) as u64 },
            readers: readers.address(),
            state_len: shape.state_len() as u64,
            rows: rows as u32,
            sequences: sequences as u32,
            slots: slots as u32,
            key_heads: shape.key_heads as u32,
            value_heads: shape.value_heads as u32,
            key_dim: shape.key_dim as u32,
            value_dim: shape.value_dim as u32,
            taps: shape.taps as u32,
            eps: *eps,
            reserved: 0,
        })
    }
}
