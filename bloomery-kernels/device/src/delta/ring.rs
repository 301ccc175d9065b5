//! The convolution's memory: the rows before a row, of the step or of the state.

use super::super::abi::delta::{DeltaArgs, TAPS};
use super::super::simt::{ld_global_f32x4, st_global_f32x4};
use super::sequences::Sequence;

/// Rows of a window.
pub(super) const ROWS: usize = TAPS as usize;

/// Of q, k and v in memory of their own, the one that channels `4 quad ..` are of: where it is, its first four channels, and how many
/// fours it has.
#[inline(always)]
fn part(args: &DeltaArgs, quad: u32, [q, k, v]: [u64; 3]) -> (u64, u32, u32) {
    let keys = args.key_heads * args.key_dim / 4;
    if quad < keys {
        (q, 0, keys)
    } else if quad < 2 * keys {
        (k, keys, keys)
    } else {
        (v, 2 * keys, args.value_heads * args.value_dim / 4)
    }
}

/// Where weight `tap` of channels `4 quad ..` is.
#[inline(always)]
pub(super) fn weight<const CHANNELS: bool>(args: &DeltaArgs, tap: u32, quad: u32) -> u64 {
    if CHANNELS {
        let (conv, first, count) = part(args, quad, [args.conv, args.conv_k, args.conv_v]);
        conv + 16 * u64::from(tap * count + quad - first)
    } else {
        args.conv + 4 * u64::from(tap * args.channels() + 4 * quad)
    }
}

/// Where channels `4 quad ..` of row `row` of the step are.
#[inline(always)]
fn place<const CHANNELS: bool>(args: &DeltaArgs, row: u32, quad: u32) -> u64 {
    if CHANNELS {
        let (from, first, count) = part(args, quad, [args.qkv, args.k, args.v]);
        from + 16 * (u64::from(row) * u64::from(count) + u64::from(quad - first))
    } else {
        args.qkv + 4 * (u64::from(row) * u64::from(args.channels()) + 4 * u64::from(quad))
    }
}

/// Channels `4 quad ..` of the row that is `back` before row `row` of a sequence.
///
/// # Safety
/// Row and channels exist, `back < taps`.
#[inline(always)]
pub(super) unsafe fn quad<const CHANNELS: bool>(
    args: &DeltaArgs,
    of: Sequence,
    row: u32,
    back: u32,
    quad: u32,
) -> [f32; 4] {
    let width = u64::from(args.channels());
    let inside = row - of.first;
    if back <= inside {
        ld_global_f32x4(place::<CHANNELS>(args, row - back, quad))
    } else if of.from != 0 {
        let place = args.taps - 1 + inside - back;
        ld_global_f32x4(of.from + 4 * (u64::from(place) * width + 4 * u64::from(quad)))
    } else {
        [0.0; 4]
    }
}

/// The `taps` rows that end with row `row`, oldest first, in the last places of four.
///
/// # Safety
/// As [`quad`].
#[inline(always)]
pub(super) unsafe fn window<const CHANNELS: bool>(
    args: &DeltaArgs,
    of: Sequence,
    row: u32,
    at: u32,
) -> [[f32; 4]; ROWS] {
    let (mut out, mut i) = ([[0.0; 4]; ROWS], 0);
    while i < ROWS {
        let back = (ROWS - 1 - i) as u32;
        if back < args.taps {
            out[i] = quad::<CHANNELS>(args, of, row, back, at);
        }
        i += 1;
    }
    out
}

/// Writes what the ring is after row `row` to the state at `to`.
///
/// # Safety
/// As [`quad`]; one thread has these channels, and nobody else reads them from `to`.
#[inline(always)]
pub(super) unsafe fn save<const CHANNELS: bool>(args: &DeltaArgs, of: Sequence, row: u32, at: u32, to: u64) {
    let rows = window::<CHANNELS>(args, of, row, at);
    let width = u64::from(args.channels());
    let (mut i, mut place) = (1, 0);
    while i < ROWS {
        if (ROWS - 1 - i) as u32 + 1 < args.taps {
            st_global_f32x4(to + 4 * (place * width + 4 * u64::from(at)), rows[i]);
            place += 1;
        }
        i += 1;
    }
}
