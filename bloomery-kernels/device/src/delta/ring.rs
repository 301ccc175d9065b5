//! The convolution's memory: the rows before a row, of the step or of the state.

use super::super::abi::delta::{DeltaArgs, TAPS};
use super::super::simt::{ld_global_f32x4, st_global_f32x4};
use super::sequences::Sequence;

/// Rows of a window.
pub(super) const ROWS: usize = TAPS as usize;

/// Channels `4 quad ..` of the row that is `back` before row `row` of a sequence.
///
/// # Safety
/// Row and channels exist, `back < taps`.
#[inline(always)]
pub(super) unsafe fn quad(args: &DeltaArgs, of: Sequence, row: u32, back: u32, quad: u32) -> [f32; 4] {
    let width = u64::from(args.channels());
    let inside = row - of.first;
    if back <= inside {
        ld_global_f32x4(args.qkv + 4 * (u64::from(row - back) * width + 4 * u64::from(quad)))
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
pub(super) unsafe fn window(args: &DeltaArgs, of: Sequence, row: u32, at: u32) -> [[f32; 4]; ROWS] {
    let (mut out, mut i) = ([[0.0; 4]; ROWS], 0);
    while i < ROWS {
        let back = (ROWS - 1 - i) as u32;
        if back < args.taps {
            out[i] = quad(args, of, row, back, at);
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
pub(super) unsafe fn save(args: &DeltaArgs, of: Sequence, row: u32, at: u32, to: u64) {
    let rows = window(args, of, row, at);
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
