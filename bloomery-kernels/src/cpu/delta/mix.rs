//! The convolution, the norms of queries and keys, and the gates.

use super::{Call, Delta, DeltaScratch, VALUES_PER_TASK};
use crate::cpu::lanes::{Kernel, LANES, Lanes, dispatch};
use crate::cpu::math::silu;
use crate::cpu::shared::Shared;
use crate::cpu::{Cpu, split};

/// Under the root of the norms of queries and keys.
const EPS: f32 = 1e-6;
/// From here on `softplus(x)` is `x`, to the last bit of an f32.
const LINEAR: f64 = 20.0;

impl Cpu {
    /// Fills `mixed` and `gates` of the scratch.
    pub(super) fn mix(&self, call: &Call<'_>, scratch: &mut DeltaScratch) {
        let shape = call.delta.shape;
        let (heads, dim) = (shape.heads(), shape.head_dim);
        let DeltaScratch { mixed, gates, kept, runs, .. } = scratch;
        let units = mixed.len() / dim;
        let block = split::rows_per_task(units, dim, VALUES_PER_TASK, self.pool.threads());
        let (gates, kept) = (Shared::new(gates), Shared::new(kept));
        split::for_row_blocks(&self.pool, mixed, dim, block, &|first, values| {
            for (unit, out) in (first..).zip(values.chunks_exact_mut(dim)) {
                let (row, head) = (unit / heads, unit % heads);
                dispatch(self.isa, Head { call, row, run: runs[row], head, out });
                if let Some(head) = head.checked_sub(2 * shape.key_heads) {
                    let at = row * shape.value_heads + head;
                    // SAFETY: each (row, value head) is a unit of one task.
                    let gate = unsafe { gates.part(at..at + 1) };
                    gate[0][0] = (1.0 / (1.0 + (-f64::from(call.input.beta[at])).exp())) as f32;
                    let Some(bound) = call.delta.bound else {
                        gate[0][1] = call.delta.keeps(call.input.alpha[at], head);
                        continue;
                    };
                    // SAFETY: as above, with the channels of a head.
                    let kept = unsafe { kept.part(at * dim..(at + 1) * dim) };
                    for (channel, (kept, &alpha)) in
                        kept.iter_mut().zip(&call.input.alpha[at * dim..]).enumerate()
                    {
                        *kept = call.delta.channel_keeps(alpha, (head, head * dim + channel), bound);
                    }
                }
            }
        });
    }
}

impl Delta {
    /// How much of a head's state is kept.
    fn keeps(&self, alpha: f32, head: usize) -> f32 {
        let x = f64::from(alpha) + f64::from(self.dt_bias[head]);
        let softplus = if x > LINEAR { x } else { x.exp().ln_1p() };
        (f64::from(self.decay[head]) * softplus).exp() as f32
    }

    /// How much of a channel of a head's state is kept.
    fn channel_keeps(&self, alpha: f32, (head, channel): (usize, usize), bound: f32) -> f32 {
        let x = f64::from(alpha) + f64::from(self.dt_bias[channel]);
        let share = 1.0 / (1.0 + (f64::from(self.decay[head]) * x).exp());
        (f64::from(bound) * share).exp() as f32
    }
}

/// One head of one row.
struct Head<'a> {
    call: &'a Call<'a>,
    row: usize,
    run: usize,
    head: usize,
    out: &'a mut [f32],
}

impl Kernel for Head<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Lanes>(self) {
        let Self { call, row, run, head, out } = self;
        let (shape, run) = (call.delta.shape, &call.runs[run]);
        let (channels, taps, first) = (shape.channels(), shape.taps, head * shape.head_dim);
        let columns = out.len() / LANES;
        // SAFETY: the instruction set is the caller's promise.
        let zero = unsafe { V::splat(0.0) };
        out.fill(0.0);
        for tap in 0..taps {
            // The row of this tap: one of the call, or of the state; before both there are zeros, which add nothing.
            let index = row - run.first + tap;
            let from = if index + 1 >= taps {
                let row = run.first + index + 1 - taps;
                call.input.qkv.part(shape, row, first..first + out.len()).as_ptr()
            } else if let Some(slot) = run.from {
                let start = slot * shape.state_len() + index * channels + first;
                call.states.at(start..start + out.len()).cast_const()
            } else {
                continue;
            };
            let weights = &call.delta.conv[tap * channels + first..][..out.len()];
            for column in 0..columns {
                let at = LANES * column;
                // SAFETY: all three have `out.len()` values; nobody writes states during this region; the
                // instruction set is the caller's promise.
                unsafe {
                    let sum = V::load(out.as_ptr().add(at));
                    let sum = V::load(weights.as_ptr().add(at)).fma(V::load(from.add(at)), sum);
                    sum.store(out.as_mut_ptr().add(at));
                }
            }
        }
        let mut squares = zero;
        for vector in out.as_chunks_mut::<LANES>().0 {
            // SAFETY: an array of 16 values; the instruction set is the caller's promise.
            unsafe {
                let value = silu(V::load(vector.as_ptr()));
                squares = value.fma(value, squares);
                value.store(vector.as_mut_ptr());
            }
        }
        if head >= 2 * shape.key_heads {
            return;
        }
        let inverse = 1.0 / (squares.sum() + EPS).sqrt();
        let factor = if head < shape.key_heads { inverse / (shape.head_dim as f32).sqrt() } else { inverse };
        for vector in out.as_chunks_mut::<LANES>().0 {
            // SAFETY: as above.
            unsafe { V::load(vector.as_ptr()).mul(V::splat(factor)).store(vector.as_mut_ptr()) }
        }
    }
}
