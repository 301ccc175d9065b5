//! Convolution, norms of q and k, gates.

use super::super::abi::delta::{CONVOLVE_ROWS, DeltaArgs};
use super::super::math::{sigmoid, silu};
use super::super::simt::{
    await_predecessors, block, divide, fma, lane, ld_global_f32, ld_global_f32x4, ld_global_u32, prefetch,
    shfl_xor_f32, sqrt, st_global_f32x4, warp, warps,
};
use super::gates::{channel_decay, decay};
use super::ring::{ROWS, quad, weight, window};
use super::sequences::{Sequence, sequence, sequence_of};

/// Added to the squares of q and of k.
const EPS: f32 = 1e-6;

/// Four neighbouring channels of a lane.
#[derive(Clone, Copy)]
pub(super) struct Channels {
    /// In fours, from the first channel on.
    pub(super) at: u32,
    /// Whether the head has them.
    pub(super) exist: bool,
    weights: [[f32; 4]; ROWS],
    /// The last rows, the newest at the end.
    pub(super) window: [[f32; 4]; ROWS],
}

impl Channels {
    /// Those of this lane in a head of `dim` channels that starts at channel `first`.
    ///
    /// # Safety
    /// The channels exist.
    #[inline(always)]
    pub(super) unsafe fn new<const CHANNELS: bool>(args: &DeltaArgs, first: u32, dim: u32) -> Self {
        let (at, exist) = (first / 4 + lane(), 4 * lane() < dim);
        let (mut weights, mut i) = ([[0.0; 4]; ROWS], 0);
        while i < ROWS {
            let back = (ROWS - 1 - i) as u32;
            if exist && back < args.taps {
                weights[i] = ld_global_f32x4(weight::<CHANNELS>(args, args.taps - 1 - back, at));
            }
            i += 1;
        }
        Self { at, exist, weights, window: [[0.0; 4]; ROWS] }
    }

    /// Has what a row that starts a sequence reads but for its own values on its way: weights and the ring.
    ///
    /// # Safety
    /// As [`new`](Self::new), with the numbers of lanes from 0 on; there is such a sequence.
    #[inline(always)]
    pub(super) unsafe fn prefetch<const CHANNELS: bool>(
        args: &DeltaArgs,
        of: Sequence,
        first: u32,
        dim: u32,
    ) {
        let (at, mut i) = (first + 4 * lane(), 0);
        while i < args.taps && 4 * lane() < dim {
            let place = 4 * u64::from(i * args.channels() + at);
            prefetch(if CHANNELS { weight::<true>(args, i, at / 4) } else { args.conv + place });
            if of.from != 0 && i + 1 < args.taps {
                prefetch(of.from + place);
            }
            i += 1;
        }
    }

    /// Comes to row `row` of a sequence from somewhere else.
    ///
    /// # Safety
    /// The sequence has the row.
    #[inline(always)]
    pub(super) unsafe fn enter<const CHANNELS: bool>(&mut self, args: &DeltaArgs, of: Sequence, row: u32) {
        if self.exist {
            self.window = window::<CHANNELS>(args, of, row, self.at);
        }
    }

    /// The newest values of a row.
    ///
    /// # Safety
    /// As [`enter`](Self::enter).
    #[inline(always)]
    unsafe fn newest<const CHANNELS: bool>(&self, args: &DeltaArgs, of: Sequence, row: u32) -> [f32; 4] {
        if self.exist { quad::<CHANNELS>(args, of, row, 0, self.at) } else { [0.0; 4] }
    }

    /// Goes on to the next row.
    #[inline(always)]
    fn push(&mut self, newest: [f32; 4]) {
        let mut i = 1;
        while i < ROWS {
            self.window[i - 1] = self.window[i];
            i += 1;
        }
        self.window[ROWS - 1] = newest;
    }

    /// The convolution of the window.
    #[inline(always)]
    pub(super) fn mixed(&self) -> [f32; 4] {
        let (mut out, mut i) = ([0.0; 4], 0);
        while i < 4 {
            let (mut sum, mut tap) = (0.0, 0);
            while tap < ROWS {
                sum = fma(self.window[tap][i], self.weights[tap][i], sum);
                tap += 1;
            }
            out[i] = silu(sum);
            i += 1;
        }
        out
    }
}

/// The warp's sum of products of four values a lane, in all lanes.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(super) unsafe fn warp_dot(a: [f32; 4], b: [f32; 4]) -> f32 {
    let (mut sum, mut i) = (0.0, 0);
    while i < 4 {
        sum = fma(a[i], b[i], sum);
        i += 1;
    }
    let mut mask = 16;
    while mask > 0 {
        sum += shfl_xor_f32(sum, mask);
        mask /= 2;
    }
    sum
}

/// A head over its length, times `scale`.
///
/// # Safety
/// Every lane of the warp gets here.
#[inline(always)]
pub(super) unsafe fn scaled(x: [f32; 4], scale: f32) -> [f32; 4] {
    let factor = scale / sqrt(warp_dot(x, x) + EPS);
    [x[0] * factor, x[1] * factor, x[2] * factor, x[3] * factor]
}

/// What belongs to a row of a head: decay, step, the slot that gets the state after it, room for the product of k and q. Of channels
/// that decay by themselves the decay is 1.
///
/// # Safety
/// Row and head exist.
#[inline(always)]
pub(super) unsafe fn gates<const CHANNELS: bool>(args: &DeltaArgs, row: u32, head: u32) -> [f32; 4] {
    let at = 4 * (u64::from(row) * u64::from(args.value_heads) + u64::from(head));
    let of_head = 4 * u64::from(head);
    let mut keeps = 1.0;
    if !CHANNELS {
        let (a, dt) = (ld_global_f32(args.a + of_head), ld_global_f32(args.dt + of_head));
        keeps = decay(a, ld_global_f32(args.alpha + at), dt);
    }
    let slot = ld_global_u32(args.saves + 4 * u64::from(row));
    [keeps, sigmoid(ld_global_f32(args.beta + at)), f32::from_bits(slot), 0.0]
}

/// What four neighbouring channels of the keys of a row's head keep, for each lane; 0 of channels that do not exist.
///
/// # Safety
/// Row and head exist.
#[inline(always)]
pub(super) unsafe fn kept(args: &DeltaArgs, row: u32, head: u32) -> [f32; 4] {
    let at = head * args.key_dim + 4 * lane();
    if 4 * lane() >= args.key_dim {
        return [0.0; 4];
    }
    let row = u64::from(row) * u64::from(args.value_heads * args.key_dim);
    let alpha = ld_global_f32x4(args.alpha + 4 * (row + u64::from(at)));
    let dt = ld_global_f32x4(args.dt + 4 * u64::from(at));
    let a = ld_global_f32(args.a + 4 * u64::from(head));
    let (mut out, mut i) = ([0.0; 4], 0);
    while i < 4 {
        out[i] = channel_decay(args.bound, a, alpha[i], dt[i]);
        i += 1;
    }
    out
}

/// Writes what channels of a head of some rows keep.
#[inline(always)]
unsafe fn keep(args: &DeltaArgs, first: u32, end: u32, head: u32) {
    let stride = 4 * u64::from(args.value_heads * args.key_dim);
    let mut row = first;
    while row < end && 4 * lane() < args.key_dim {
        let at = u64::from(row) * stride + 4 * u64::from(head * args.key_dim + 4 * lane());
        st_global_f32x4(args.kept + at, kept(args, row, head));
        row += 1;
    }
}

/// Rows in eights: a warp for q and k of each key head, one for v of each value head, and one for what the channels of its keys keep.
///
/// # Safety
/// The contract of `Delta`; warps for all of them.
#[inline(always)]
pub(crate) unsafe fn convolve<const CHANNELS: bool>(args: DeltaArgs) {
    // Nothing is released before the end: blocks of the scan that came while these are running would share the multiprocessors that
    // happen to have room, and each has to have one for itself (0.62 in place of 0.24 us a row on an H200).
    await_predecessors();
    let units = args.key_heads + args.value_heads * if CHANNELS { 2 } else { 1 };
    let (part, unit) = divide(block() * warps() + warp(), units);
    let first = part * CONVOLVE_ROWS;
    if first >= args.rows {
        return;
    }
    let last = (first + CONVOLVE_ROWS).min(args.rows);
    if CHANNELS && unit >= args.key_heads + args.value_heads {
        keep(&args, first, last, unit - args.key_heads - args.value_heads);
        return;
    }
    let values = unit >= args.key_heads;
    let (start, dim) = if values {
        let head = unit - args.key_heads;
        (2 * args.key_heads * args.key_dim + head * args.value_dim, args.value_dim)
    } else {
        (unit * args.key_dim, args.key_dim)
    };
    // Of v, or of q and k.
    let mut a = Channels::new::<CHANNELS>(&args, start, dim);
    let mut b = a;
    if !values {
        b = Channels::new::<CHANNELS>(&args, args.key_heads * args.key_dim + start, dim);
    }
    let mut index = sequence_of(&args, first);
    let mut of = sequence(&args, index);
    a.enter::<CHANNELS>(&args, of, first);
    b.enter::<CHANNELS>(&args, of, first);
    let mut row = first;
    loop {
        let next = row + 1;
        let (mut new_a, mut new_b) = ([0.0; 4], [0.0; 4]);
        let goes_on = next < of.end;
        if next < last && goes_on {
            // On its way while this row is computed.
            new_a = a.newest::<CHANNELS>(&args, of, next);
            new_b = if values { new_a } else { b.newest::<CHANNELS>(&args, of, next) };
        }
        let out = args.mixed + 4 * u64::from(row) * u64::from(args.channels());
        if values {
            if a.exist {
                st_global_f32x4(out + 16 * u64::from(a.at), a.mixed());
            }
        } else {
            let q = scaled(a.mixed(), 1.0 / sqrt(args.key_dim as f32));
            let k = scaled(b.mixed(), 1.0);
            let kq = warp_dot(k, q);
            if a.exist {
                st_global_f32x4(out + 16 * u64::from(a.at), q);
                st_global_f32x4(out + 16 * u64::from(b.at), k);
            }
            let mut head = unit + args.key_heads * lane();
            while head < args.value_heads {
                let at = 16 * (u64::from(row) * u64::from(args.value_heads) + u64::from(head));
                let [decay, beta, slot, _] = gates::<CHANNELS>(&args, row, head);
                st_global_f32x4(args.gates + at, [decay, beta, slot, kq]);
                head += 32 * args.key_heads;
            }
        }
        row = next;
        if row >= last {
            break;
        }
        if goes_on {
            a.push(new_a);
            b.push(new_b);
        } else {
            while row >= of.end && index + 1 < args.sequences {
                index += 1;
                of = sequence(&args, index);
            }
            a.enter::<CHANNELS>(&args, of, row);
            b.enter::<CHANNELS>(&args, of, row);
        }
    }
}
