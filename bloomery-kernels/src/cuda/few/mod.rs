//! Launches of the kernels for up to 8 rows and weights in tiles.

mod feed_forward;
mod project;

pub(super) use feed_forward::{Network, Networks, down, feed_forward, gate_up};
pub(super) use project::{one_row, project};

pub(super) use crate::abi::few::PARTS;

use std::ops::Range;

use super::ring::MOST_WARPS;
use super::{CudaError, DeviceInfo};
use crate::abi::few::RESULT;
use crate::abi::rounded::Layout;
use crate::abi::routes::TOKENS;
use crate::abi::shape::Class;
use crate::abi::shape::rings_bytes;

/// Bytes of the largest tile: Q8_0's.
const LARGEST_TILE: u32 = 16 * 272;

/// Pieces of work between two barriers: at least `least`, and up to 4 of a block's `share` while their results for `rows` rows of
/// `cols` values stay small.
fn rounds(least: u32, share: u32, cols: usize, rows: usize) -> u32 {
    const ROOM: usize = 16 << 10;
    let each = cols.div_ceil(256) * rows.min(TOKENS as usize) * RESULT as usize;
    let fits = u32::try_from(ROOM / each.max(1)).unwrap_or(4);
    share.min(4).min(fits).max(least).max(1)
}

/// Scales of a block of activations.
pub(super) fn scales(class: Class) -> u32 {
    if class == Class::Narrow { 8 } else { 1 }
}

/// How `rows` rows of `cols` values lie in shared memory.
fn layout(class: Class, cols: usize, rows: usize) -> Layout {
    Layout { blocks: cols.div_ceil(256) as u32, scales: scales(class), rows: rows as u32 }
}

/// `rows` rows in launches of as many as `bytes` says that there is shared memory for.
fn steps(
    kernel: &'static str,
    info: &DeviceInfo,
    rows: usize,
    bytes: impl Fn(usize) -> u32,
) -> Result<Vec<Range<usize>>, CudaError> {
    let room = info.shared_per_block.saturating_sub(rings_bytes(MOST_WARPS, 1, LARGEST_TILE));
    let step = (1..=TOKENS as usize).rev().find(|rows| bytes(*rows) <= room);
    let rule = || format!("at most {room}");
    CudaError::require(kernel, "shared memory of a row", bytes(1).into(), step.is_some(), rule)?;
    let step = step.unwrap_or(1);
    Ok((0..rows).step_by(step).map(|first| first..rows.min(first + step)).collect())
}
