//! The gated delta net between its projections.

mod shape;

pub use shape::DeltaShape;

use super::launch::Grid;
use super::module::{DELTA, DELTA_CHANNELS, Entry};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::delta::{
    CHANNELS_THREADS, CONVOLVE_ROWS, DeltaArgs, FEW_THREADS, SCAN_THREADS, SLICE, THREADS, few_bytes,
    scan_bytes,
};

/// With decays of heads, and of channels.
const CONVOLVE: [Entry<DeltaArgs>; 2] =
    [Entry::new(&DELTA, "delta_convolve"), Entry::new(&DELTA_CHANNELS, "delta_channels_convolve")];
const SCAN: [Entry<DeltaArgs>; 2] =
    [Entry::new(&DELTA, "delta_scan"), Entry::new(&DELTA_CHANNELS, "delta_channels_scan")];
const FINISH: [Entry<DeltaArgs>; 2] =
    [Entry::new(&DELTA, "delta_finish"), Entry::new(&DELTA_CHANNELS, "delta_channels_finish")];
const FEW: [Entry<DeltaArgs>; 2] =
    [Entry::new(&DELTA, "delta_few"), Entry::new(&DELTA_CHANNELS, "delta_channels_few")];

const NAME: &str = "delta";

/// Rows of a step that one kernel does.
const FEW_ROWS: usize = 32;

/// Queries, keys and values before their convolution, its weights, and how states fade.
#[derive(Debug, Clone)]
pub enum DeltaForm {
    /// A decay for each head of v, `e^(a softplus(alpha + dt))`.
    Heads {
        /// `[rows][channels]`: q of all key heads, k of all key heads, v of all value heads.
        qkv: Span<f32>,
        /// `[taps][channels]`; the last of them belong to the current row.
        conv: Span<f32>,
        /// Results are multiplied by `sigmoid(z)`, else by `silu(z)`.
        sigmoid: bool,
    },
    /// A decay for each channel of the keys of every head of v, `e^(bound sigmoid(-a (alpha + dt)))`; results are multiplied by
    /// `sigmoid(z)`.
    Channels {
        /// Of q, k and v `[rows][its heads][its values]`.
        qkv: [Span<f32>; 3],
        /// Of q, k and v `[taps][its heads][its values]`.
        conv: [Span<f32>; 3],
        /// Below 0.
        bound: f32,
    },
}

impl DeltaForm {
    /// Spans of rows, and of weights, the first of which every form has.
    fn spans(&self) -> (&[Span<f32>], &[Span<f32>]) {
        match self {
            Self::Heads { qkv, conv, .. } => (std::slice::from_ref(qkv), std::slice::from_ref(conv)),
            Self::Channels { qkv, conv, .. } => (qkv, conv),
        }
    }

    /// Whether channels decay by themselves, and the bound.
    fn channels(&self) -> (bool, f32) {
        match self {
            Self::Heads { .. } => (false, 0.0),
            Self::Channels { bound, .. } => (true, *bound),
        }
    }
}

/// Convolution, delta rule, norm and gate for rows of several sequences, whose states they read and write.
///
/// A row's bits depend neither on other sequences nor on how its sequence is cut into launches.
#[derive(Debug, Clone)]
pub struct Delta {
    /// Heads.
    pub shape: DeltaShape,
    /// What is mixed, and how it fades.
    pub form: DeltaForm,
    /// `[rows][value_heads][value_dim]`.
    pub z: Span<f32>,
    /// `[rows][value_heads]`, before the sigmoid.
    pub beta: Span<f32>,
    /// `[rows][value_heads]`, or with decays of channels `[rows][value_heads][key_dim]`.
    pub alpha: Span<f32>,
    /// `[value_heads]`.
    pub a: Span<f32>,
    /// As a row of `alpha`.
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
    /// Values of scratch memory for steps of `rows` rows; `channels`: they decay by themselves.
    #[must_use]
    pub const fn scratch_len(shape: &DeltaShape, rows: usize, channels: bool) -> usize {
        let kept = if channels { shape.value_heads * shape.key_dim } else { 0 };
        if rows <= FEW_ROWS { 0 } else { rows * (shape.channels() + 4 * shape.value_heads + kept) }
    }

    /// The kernels, in order: one for up to 32 rows, else three. The launch before them must not write `states`, `from`, `starts` or
    /// `saves`: they are read before that has ended.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when numbers, lengths or alignments do not fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let args = self.arguments()?;
        let (rows_of, weights) = self.form.spans();
        let uses: Vec<_> = [&self.z, &self.beta, &self.alpha, &self.a, &self.dt]
            .into_iter()
            .chain(rows_of)
            .chain(weights)
            .chain([&self.norm.0, &self.out, &self.states, &self.scratch])
            .map(|span| span.memory().clone())
            .chain([&self.from, &self.starts, &self.saves, &self.readers].map(|span| span.memory().clone()))
            .collect();
        let rows = args.rows as usize;
        let (width, outputs) = (self.shape.channels(), self.shape.outputs());
        // A state read and one written for every sequence that there can be.
        let states = 8 * self.shape.state_len() * self.from.len();
        let (channels, _) = self.form.channels();
        let entry = usize::from(channels);
        let _ = info;
        if rows <= FEW_ROWS {
            let grid = Grid {
                blocks: args.sequences * args.value_heads,
                threads: FEW_THREADS,
                shared_bytes: few_bytes(channels),
            };
            let bytes = states + 4 * rows * (width + 2 * outputs);
            return Ok(vec![Launch::new(FEW[entry], grid, args, bytes as u64, uses)]);
        }
        let units = args.key_heads + args.value_heads * if channels { 2 } else { 1 };
        let warps = args.rows.div_ceil(CONVOLVE_ROWS) * units;
        let of_warps = |warps: u32, threads: u32| {
            let blocks = warps.div_ceil(threads / 32);
            Grid { blocks, threads, shared_bytes: 0 }
        };
        let grid = of_warps(warps, if channels { CHANNELS_THREADS } else { THREADS });
        let convolve = Launch::new(CONVOLVE[entry], grid, args, (8 * rows * width) as u64, uses.clone());
        let blocks = args.sequences * args.value_heads * args.value_dim.div_ceil(SLICE);
        let grid = Grid { blocks, threads: SCAN_THREADS, shared_bytes: scan_bytes(channels) };
        let bytes = states + 4 * rows * (width + outputs);
        let scan = Launch::new(SCAN[entry], grid, args, bytes as u64, uses.clone());
        let grid = of_warps(args.rows * args.value_heads, THREADS);
        let finish = Launch::new(FINISH[entry], grid, args, (12 * rows * outputs) as u64, uses);
        Ok(vec![convolve, scan, finish])
    }

    fn arguments(&self) -> Result<DeltaArgs, CudaError> {
        let Self { shape, form, z, beta, alpha, a, dt, norm: (gain, eps), out, .. } = self;
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
        let (of_channels, bound) = form.channels();
        let (qkv, conv) = form.spans();
        match (qkv, conv) {
            ([q, k, v], [conv_q, conv_k, conv_v]) => {
                let (keys, values) = (shape.key_heads * shape.key_dim, shape.outputs());
                equal("values of q", q.len(), rows * keys)?;
                equal("values of k", k.len(), rows * keys)?;
                equal("values of v", v.len(), rows * values)?;
                equal("weights of q's convolution", conv_q.len(), keys * shape.taps)?;
                equal("weights of k's convolution", conv_k.len(), keys * shape.taps)?;
                equal("weights of v's convolution", conv_v.len(), values * shape.taps)?;
                require("bounds that are not below 0", 1, bound < 0.0, &|| "0".to_owned())?;
            }
            _ => {
                let len = |spans: &[Span<f32>]| spans.iter().map(Span::len).sum::<usize>();
                equal("values of q, k and v", len(qkv), rows * channels)?;
                equal("weights of the convolution", len(conv), channels * shape.taps)?;
            }
        }
        let decays = shape.value_heads * if of_channels { shape.key_dim } else { 1 };
        equal("values of z", z.len(), rows * shape.outputs())?;
        equal("values of beta", beta.len(), rows * shape.value_heads)?;
        equal("values of alpha", alpha.len(), rows * decays)?;
        equal("values of a", a.len(), shape.value_heads)?;
        equal("values of dt", dt.len(), decays)?;
        equal("values of the gain", gain.len(), shape.value_dim)?;
        equal("values of the output", out.len(), rows * shape.outputs())?;
        require("values of the output", out.len(), out.address() != z.address(), &|| {
            "apart from z".to_owned()
        })?;
        let slots = states.len() / shape.state_len();
        equal("values of the states", states.len(), slots * shape.state_len())?;
        require("slots", slots, slots > 0 && slots < u32::MAX as usize, &|| "1 to 2^32 - 2".to_owned())?;
        let room = Self::scratch_len(shape, rows, of_channels);
        require("scratch values", scratch.len(), scratch.len() >= room, &|| format!("at least {room}"))?;
        let room = sequences * shape.key_heads;
        require("words for readers", readers.len(), readers.len() >= room, &|| format!("at least {room}"))?;
        let spans = qkv.iter().chain(conv).chain([z, gain, out, states, scratch]);
        let fours = of_channels.then_some([alpha, dt]).into_iter().flatten();
        let addresses = spans.chain(fours).fold(0, |all, span| all | span.address());
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let few = rows <= FEW_ROWS;
        let address = |spans: &[Span<f32>], i: usize| spans.get(i).map_or(0, Span::address);
        Ok(DeltaArgs {
            qkv: address(qkv, 0),
            k: address(qkv, 1),
            v: address(qkv, 2),
            z: z.address(),
            beta: beta.address(),
            alpha: alpha.address(),
            conv: address(conv, 0),
            conv_k: address(conv, 1),
            conv_v: address(conv, 2),
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
            kept: if few {
                0
            } else {
                scratch.address() + 4 * (rows * (channels + 4 * shape.value_heads)) as u64
            },
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
            bound,
            sigmoid: (!matches!(form, DeltaForm::Heads { sigmoid: false, .. })).into(),
            padding: 0,
        })
    }
}
