//! Rows that stand for groups of positions.
//!
//! ```text
//! page   f32 [positions kept][channels]: values, then as many gates
//! ```
//!
//! Where groups overlap there are twice as many channels as a row has values: the first half of a position is for the group after its
//! own. Of plain groups of up to a page the last position is not kept.

use super::attention::Paged;
use super::rope::Turn;

/// The widest row: a thread has four values.
pub const WIDEST_ROW: u32 = 1024;
/// Bytes of shared memory of `summarise`: a square of every warp.
pub const SUMMARY_BYTES: u32 = 4 * 32;

/// A row of every group that ends with a row of the step, zeros for the other rows; values and gates into pages: a block for each row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct SummariseArgs {
    /// `[rows][channels]` f32.
    pub values: u64,
    /// The same of gates, or 0: a group is one position.
    pub gates: u64,
    /// `[pages][page_len]` f32. Not used without gates.
    pub memory: u64,
    /// `[tables][stride]` u32: a sequence's pages in order of position. As above.
    pub table: u64,
    /// `[rows]` u32.
    pub positions: u64,
    /// `[rows]` u32, lines of `table`.
    pub sequences: u64,
    /// `[group][channels]` f32: added to gates, or 0.
    pub places: u64,
    /// `[width]` f32.
    pub gain: u64,
    /// `[rows][width]` f32.
    pub out: u64,
    /// Added to the mean square.
    pub eps: f32,
    /// Lines of `table`.
    pub tables: u32,
    /// Entries of a line.
    pub stride: u32,
    /// Pages.
    pub pages: u32,
    /// Rows of the launch.
    pub rows: u32,
    /// Values of a row: a multiple of 4.
    pub width: u32,
    /// Values of a position: the width, or twice that.
    pub channels: u32,
    /// Positions of a group.
    pub group: u32,
    /// Positions of a group that are kept: all, or all but the last.
    pub kept: u32,
    /// Values of a page.
    pub page_len: u32,
}

/// Rows of groups into a cache whose keys are values too, turned as at a group's first position, at its last: a warp for the key and one
/// for the value of each row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct SummaryAppendArgs {
    /// The cache.
    pub cache: Paged,
    /// `[rows][key_dim]` f32.
    pub x: u64,
    /// What turns.
    pub turn: Turn,
    /// Positions of a group.
    pub group: u32,
    /// Not used.
    pub reserved: u32,
}

const _: () = assert!(size_of::<SummariseArgs>() == 112 && align_of::<SummariseArgs>() == 8);
const _: () = assert!(size_of::<SummaryAppendArgs>() == 120 && align_of::<SummaryAppendArgs>() == 8);
