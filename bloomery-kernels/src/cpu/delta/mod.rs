//! The gated delta net (Yang et al., 2024) between its projections: convolution, delta rule, gated norm.
//!
//! # The definition
//!
//! For every row of a sequence, all in f32 unless said otherwise, sums over a head's keys in 16 lanes and one fixed tree:
//!
//! ```text
//! c[ch]  = silu(sum over taps ascending, fused, of conv[ch][tap] x[row - taps + 1 + tap][ch])
//! k      = c_k / sqrt(c_k . c_k + 1e-6)         q = c_q / sqrt(c_q . c_q + 1e-6) / sqrt(head_dim)
//! beta   = sigmoid(beta)                        e = exp(decay softplus(alpha + dt))      both in double precision
//! d[j]   = beta (v[j] - e (S[j] . k))
//! o[j]   = fused d[j] (k . q) + e (S[j] . q)    S before the row: both of its products come from one pass
//! S[j]   = fused k d[j] + e S[j]
//! out    = rms(o) gain silu(z)                  or sigmoid(z)
//! ```
//!
//! Where every channel of a key has a decay of its own (Kimi delta attention, 2025), `e` is a vector,
//! `exp(bound sigmoid(-decay (alpha + dt)))`, and the rule is
//!
//! ```text
//! P[j]   = e S[j]                               channel by channel
//! d[j]   = beta (v[j] - P[j] . k)
//! o[j]   = fused d[j] (k . q) + P[j] . q
//! S[j]   = fused k d[j] + P[j]
//! ```
//!
//! Rows go one by one: in f32 the chunked form needs more operations than this, and its bits would depend on where a
//! prompt is cut. Here a result depends on nothing but the sequence itself: not on the cuts, the rows beside it,
//! the number of threads or the instruction set.
//!
//! # How it is run
//!
//! Three regions: the convolution, (row, head) by (row, head); the delta rule, a task for each sequence, value head and
//! slice of its value rows, which goes through all rows of the sequence with its part of S in the first-level cache; the norm.

mod mix;
mod plan;
mod scan;

use super::lanes::{Kernel, LANES, Lanes, dispatch};
use super::math::{sigmoid, silu};
use super::norm::in_place;
use super::shared::Shared;
use super::{Aligned, Cpu, KernelError, Norm, split};

pub use plan::DeltaRun;

/// Values of a head that one task of the convolution or the norm is worth.
const VALUES_PER_TASK: usize = 4096;

/// Widths of a gated delta net.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeltaShape {
    key_heads: usize,
    value_heads: usize,
    head_dim: usize,
    taps: usize,
}

impl DeltaShape {
    /// `key_heads` heads of queries and as many of keys, `value_heads` of values, all `head_dim` wide, and a convolution over
    /// `taps` rows. Value head `j` reads key head `j % key_heads`.
    ///
    /// # Errors
    /// [`KernelError::Shape`] unless there are key heads, the value heads are a positive multiple of them, the width is a
    /// positive multiple of 16 and there is a tap.
    pub fn new(
        key_heads: usize,
        value_heads: usize,
        head_dim: usize,
        taps: usize,
    ) -> Result<Self, KernelError> {
        let fits = |what, value, fits: bool, rule| {
            if fits { Ok(()) } else { Err(KernelError::Shape { what, value, rule }) }
        };
        fits("key heads of a delta net", key_heads, key_heads > 0, "at least 1")?;
        let multiple = value_heads > 0 && value_heads.is_multiple_of(key_heads);
        fits("value heads of a delta net", value_heads, multiple, "a positive multiple of the key heads")?;
        let whole = head_dim > 0 && head_dim.is_multiple_of(LANES);
        fits("head width of a delta net", head_dim, whole, "a positive multiple of 16")?;
        fits("taps of a delta net", taps, taps > 0, "at least 1")?;
        Ok(Self { key_heads, value_heads, head_dim, taps })
    }

    /// Values of a row before the convolution: query heads, key heads, value heads.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.heads() * self.head_dim
    }

    /// Values of a row of results.
    #[must_use]
    pub fn width(&self) -> usize {
        self.value_heads * self.head_dim
    }

    /// Heads of values.
    #[must_use]
    pub fn value_heads(&self) -> usize {
        self.value_heads
    }

    /// Values of a state: the last `taps - 1` rows before the convolution, oldest first, then `[value head][value][key]`.
    #[must_use]
    pub fn state_len(&self) -> usize {
        self.ring_len() + self.width() * self.head_dim
    }

    fn ring_len(&self) -> usize {
        (self.taps - 1) * self.channels()
    }

    /// Whether a channel is of a query, a key or a value, the first channel of that kind, and how many there are.
    fn kind(&self, channel: usize) -> (usize, usize, usize) {
        let keys = self.key_heads * self.head_dim;
        match channel / keys {
            0 => (0, 0, keys),
            1 => (1, keys, keys),
            _ => (2, 2 * keys, self.width()),
        }
    }

    /// Heads of all three kinds.
    fn heads(&self) -> usize {
        2 * self.key_heads + self.value_heads
    }
}

/// The weights that a gated delta net has besides its projections, as the file has them.
#[derive(Debug, Clone, Copy)]
pub struct DeltaWeights<'a> {
    /// `[channels][taps]`, the last tap for the row itself.
    pub conv: &'a [f32],
    /// Of every value head, the (negative) factor of the logarithm of what a state keeps (`ssm_a`).
    pub decay: &'a [f32],
    /// Added to alpha, of every value head, or of every channel of its keys.
    pub dt_bias: &'a [f32],
    /// Norm of a head's results.
    pub norm: Norm<'a>,
    /// The (negative) logarithm that what a channel keeps stays above, where every channel has a decay of its own.
    pub bound: Option<f32>,
    /// What multiplies the results.
    pub gate: DeltaGate,
}

/// What `z` goes through before it multiplies the normed results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeltaGate {
    /// `z / (1 + e^-z)`.
    #[default]
    Silu,
    /// `1 / (1 + e^-z)`.
    Sigmoid,
}

/// A gated delta net, ready to run.
#[derive(Debug, Clone)]
pub struct Delta {
    shape: DeltaShape,
    /// `[taps][channels]`
    conv: Vec<f32>,
    decay: Vec<f32>,
    dt_bias: Vec<f32>,
    gain: Vec<f32>,
    eps: f32,
    bound: Option<f32>,
    gate: DeltaGate,
}

impl Delta {
    /// Copies the weights into the order in which they are used.
    ///
    /// # Errors
    /// [`KernelError::Length`] for weights that do not fit the shape.
    pub fn new(shape: DeltaShape, weights: &DeltaWeights<'_>) -> Result<Self, KernelError> {
        let (channels, taps) = (shape.channels(), shape.taps);
        KernelError::length("convolution of a delta net", channels * taps, weights.conv.len())?;
        KernelError::length("decay of a delta net", shape.value_heads, weights.decay.len())?;
        let decays = if weights.bound.is_some() { shape.width() } else { shape.value_heads };
        KernelError::length("dt bias of a delta net", decays, weights.dt_bias.len())?;
        KernelError::length("gain of a delta net", shape.head_dim, weights.norm.gain.len())?;
        let conv = (0..taps).flat_map(|tap| weights.conv.iter().skip(tap).step_by(taps).copied()).collect();
        Ok(Self {
            shape,
            conv,
            decay: weights.decay.to_vec(),
            dt_bias: weights.dt_bias.to_vec(),
            gain: weights.norm.gain.to_vec(),
            eps: weights.norm.eps,
            bound: weights.bound,
            gate: weights.gate,
        })
    }

    /// Widths.
    #[must_use]
    pub fn shape(&self) -> DeltaShape {
        self.shape
    }
}

/// What the projections made of the rows.
#[derive(Debug, Clone, Copy)]
pub struct DeltaInput<'a> {
    /// Queries, keys, values before the convolution.
    pub qkv: DeltaRows<'a>,
    /// `[rows][value heads][head width]`: what gates the results.
    pub z: &'a [f32],
    /// `[rows][value heads]`: how much of a value is written, before its sigmoid.
    pub beta: &'a [f32],
    /// `[rows][value heads]`, or `[rows][value heads][head width]` where channels have decays of their own: how much of a state
    /// is kept, before bias and the function after it.
    pub alpha: &'a [f32],
}

/// Rows of queries, keys and values.
#[derive(Debug, Clone, Copy)]
pub enum DeltaRows<'a> {
    /// `[rows][channels]`.
    Joined(&'a [f32]),
    /// Of each of the three `[rows][its heads][head width]`.
    Apart([&'a [f32]; 3]),
}

impl DeltaRows<'_> {
    /// Channels `columns` of a row, which are all of one kind.
    fn part(&self, shape: DeltaShape, row: usize, columns: std::ops::Range<usize>) -> &[f32] {
        match self {
            Self::Joined(all) => &all[row * shape.channels()..][columns],
            Self::Apart(kinds) => {
                let (kind, first, width) = shape.kind(columns.start);
                &kinds[kind][row * width..][columns.start - first..columns.end - first]
            }
        }
    }
}

/// Memory that a delta net reuses from call to call.
#[derive(Debug, Default)]
pub struct DeltaScratch {
    /// `[rows][channels]` after convolution and norms.
    mixed: Vec<f32>,
    /// `[rows][value heads]`: beta, and what a state keeps.
    gates: Vec<[f32; 2]>,
    /// `[rows][value heads][head width]`: what each channel keeps, where that differs.
    kept: Vec<f32>,
    /// Run of every row.
    runs: Vec<usize>,
    /// Runs, the longest first.
    order: Vec<usize>,
    /// `(slot, run)` of all saves, ascending.
    saves: Vec<(usize, usize)>,
    /// A slice of a state for each thread.
    work: Aligned,
}

impl Cpu {
    /// Runs the delta net over the rows of `runs` and writes `out` (`[rows][value heads][head width]`). `states` is memory of
    /// slots of [`DeltaShape::state_len`] values; each run says which one it begins with and where to put copies.
    ///
    /// # Errors
    /// [`KernelError::Length`] for buffers that do not fit, [`KernelError::Shape`] when the runs do not follow each other over
    /// all rows, saves of a run are not in order, a slot is written twice or is one that another run begins with;
    /// [`KernelError::OutOfRange`] for a slot that is not there. Nothing is changed then.
    pub fn delta(
        &self,
        delta: &Delta,
        input: &DeltaInput<'_>,
        runs: &[DeltaRun<'_>],
        states: &mut [f32],
        out: &mut [f32],
        scratch: &mut DeltaScratch,
    ) -> Result<(), KernelError> {
        let shape = delta.shape;
        let rows = plan::check(delta, input, runs, states, out, scratch)?;
        scratch.mixed.resize(rows * shape.channels(), 0.0);
        scratch.gates.resize(rows * shape.value_heads, [0.0; 2]);
        scratch.kept.resize(if delta.bound.is_some() { rows * shape.width() } else { 0 }, 0.0);
        let call = Call { delta, input, runs, states: Shared::new(states) };
        self.mix(&call, scratch);
        self.scan(&call, scratch, out);
        let norm = Norm { gain: &delta.gain, eps: delta.eps };
        let heads = rows * shape.value_heads;
        let block = split::rows_per_task(heads, shape.head_dim, VALUES_PER_TASK, self.pool.threads());
        split::for_row_blocks(&self.pool, out, shape.head_dim, block, &|first, out| {
            let z = &input.z[first * shape.head_dim..][..out.len()];
            dispatch(self.isa, Finish { z, norm, gate: delta.gate, out });
        });
        Ok(())
    }
}

/// One call, as its tasks see it.
struct Call<'a> {
    delta: &'a Delta,
    input: &'a DeltaInput<'a>,
    runs: &'a [DeltaRun<'a>],
    states: Shared<'a, f32>,
}

/// Norm and gate of some heads.
struct Finish<'a> {
    z: &'a [f32],
    norm: Norm<'a>,
    gate: DeltaGate,
    out: &'a mut [f32],
}

impl Kernel for Finish<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let dim = self.norm.gain.len();
        for (out, z) in self.out.chunks_exact_mut(dim).zip(self.z.chunks_exact(dim)) {
            // SAFETY: the instruction set is the caller's promise.
            unsafe { in_place::<V>(out, self.norm) }
            for (out, z) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(z.as_chunks::<LANES>().0) {
                // SAFETY: arrays of 16 values; the instruction set is the caller's promise.
                unsafe {
                    let z = V::load(z.as_ptr());
                    let gate = match self.gate {
                        DeltaGate::Silu => silu(z),
                        DeltaGate::Sigmoid => sigmoid(z),
                    };
                    V::load(out.as_ptr()).mul(gate).store(out.as_mut_ptr());
                }
            }
        }
    }
}

#[cfg(test)]
mod channel_tests;
#[cfg(test)]
mod tests;
