//! Which rows are whose.

use super::super::abi::delta::DeltaArgs;
use super::super::simt::{WARP, ballot, lane, ld_global_u32};

/// A sequence's rows and the state that it starts from.
#[derive(Clone, Copy)]
pub(super) struct Sequence {
    pub(super) first: u32,
    pub(super) end: u32,
    /// Of the state, or 0: zeros.
    pub(super) from: u64,
}

/// Sequence `index`.
///
/// # Safety
/// There is such a sequence.
#[inline(always)]
pub(super) unsafe fn sequence(args: &DeltaArgs, index: u32) -> Sequence {
    let at = args.starts + 4 * u64::from(index);
    let (first, end) = (ld_global_u32(at), ld_global_u32(at + 4));
    let slot = ld_global_u32(args.from + 4 * u64::from(index));
    Sequence { first, end: end.min(args.rows), from: state(args, slot) }
}

/// Where slot `slot` is, or 0 if there is no such slot.
#[inline(always)]
pub(super) fn state(args: &DeltaArgs, slot: u32) -> u64 {
    if slot < args.slots { args.states + 4 * u64::from(slot) * args.state_len } else { 0 }
}

/// The slot that gets the state after a row, or 0.
///
/// # Safety
/// There is such a row.
#[inline(always)]
pub(super) unsafe fn saved(args: &DeltaArgs, row: u32) -> u64 {
    state(args, ld_global_u32(args.saves + 4 * u64::from(row)))
}

/// The sequence that a row belongs to.
///
/// # Safety
/// Every lane of the warp gets here with the same row.
#[inline(always)]
pub(super) unsafe fn sequence_of(args: &DeltaArgs, row: u32) -> u32 {
    let (mut before, mut first) = (0, 0);
    while first < args.sequences {
        let index = first + lane();
        let over = index < args.sequences && ld_global_u32(args.starts + 4 * u64::from(index + 1)) <= row;
        before += ballot(over).count_ones();
        first += WARP;
    }
    before.min(args.sequences - 1)
}
