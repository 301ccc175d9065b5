//! An index over blocks of positions: which blocks each row attends to.
//!
//! ```text
//! page   f32 [64 positions][width]: keys as they came, then gates where there are any
//!        f32 [64 / block][width]: keys of whole blocks
//! places u32 [rows][keep + 1]: of every chosen block, in order, `64 page + offset` of its first position in the cache,
//!        then that of the positions behind the last whole block, if there are any
//!        u32 [rows][keep, a multiple of 4]: of blocks for which their last positions stand, the places of these
//! spans  u32 [rows][line]: 1 if the row's candidates are limited, then a bit for each span of neighbouring blocks
//! ```
//!
//! An index of blocks alone has no keys of positions: those of blocks come as they are.

use super::rope::Turn;

/// The widest key.
pub const WIDEST_INDEX: u32 = 256;
/// Query heads, at most.
pub const INDEX_HEADS: u32 = 32;
/// Lanes that share a key.
pub const SPREAD: u32 = 4;
/// Threads of a block that scores, and of one that chooses.
pub const SCORE_THREADS: u32 = 256;
/// As above.
pub const CHOOSE_THREADS: u32 = 1024;
/// Counters of a pass of the choice.
pub const BINS: u32 = 2048;
/// Shared memory of the choice: counters, two words of every warp, and four of the result.
pub const CHOOSE_BYTES: u32 = 4 * BINS + 8 * 32 + 16;

/// A layer's index and who is where in it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Indexed {
    /// `[pages][page_len]` f32.
    pub values: u64,
    /// `[tables][stride]` u32: a sequence's pages in order of position.
    pub table: u64,
    /// `[rows]` u32.
    pub positions: u64,
    /// `[rows]` u32, lines of `table`.
    pub sequences: u64,
    /// Lines of `table`.
    pub tables: u32,
    /// Entries of a line.
    pub stride: u32,
    /// Pages of the index.
    pub pages: u32,
    /// Rows of the launch.
    pub rows: u32,
    /// Values of a key.
    pub width: u32,
    /// Positions of a block are 2 to the power of this.
    pub shift: u32,
    /// Values of a page before the keys of blocks.
    pub raw_len: u32,
    /// Values of a page.
    pub page_len: u32,
}

/// Keys of rows into the index, and keys of the blocks that they complete: a warp for each row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct IndexAppendArgs {
    /// The index.
    pub cache: Indexed,
    /// `[rows][width]` f32.
    pub keys: u64,
    /// The same of gates, or 0: a block's key is the mean of its keys, normed and turned.
    pub gates: u64,
    /// `[width]` f32, of the mean or of every key.
    pub gain: u64,
    /// `[width]` f32: added to normed keys. Only with gates.
    pub bias: u64,
    /// `[block][width]` f32: added to gates. Only with gates.
    pub gate_bias: u64,
    /// Of a block's key.
    pub turn: Turn,
    /// Added to the mean square or the variance.
    pub eps: f32,
    /// Not used.
    pub padding: u32,
}

/// How well every block's key fits every row: `scores[row][block] = sum over heads of weight max(q . key, 0)`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct IndexScoreArgs {
    /// The index.
    pub cache: Indexed,
    /// `[rows][all][width]` f32, of which `heads` count.
    pub q: u64,
    /// `[rows][all]` f32, or 0: all are 1.
    pub weights: u64,
    /// `[width]` f32, or 0: queries are taken as they are.
    pub gain: u64,
    /// `[rows][most]` f32. Rows that see all blocks have none.
    pub scores: u64,
    /// Of queries.
    pub turn: Turn,
    /// Added to the mean square of queries.
    pub eps: f32,
    /// Multiplies weights.
    pub scale: f32,
    /// Query heads.
    pub heads: u32,
    /// Blocks that a row sees.
    pub keep: u32,
    /// Rows of a block of threads.
    pub group: u32,
    /// Blocks of threads for the same rows, which share the keys.
    pub slices: u32,
    /// Scores of a row.
    pub most: u32,
    /// Query heads of a row, those of other launches included.
    pub all: u32,
    /// Not 0: scores are added to those that are there.
    pub add: u32,
    /// Not used.
    pub padding: u32,
}

/// The blocks with the largest scores: a block of threads for each row.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct IndexChooseArgs {
    /// The index.
    pub cache: Indexed,
    /// `[rows][most]` f32.
    pub scores: u64,
    /// `[rows][line]` u32, see above.
    pub places: u64,
    /// Blocks that a row sees.
    pub keep: u32,
    /// Scores of a row.
    pub most: u32,
    /// Words of a row's places.
    pub line: u32,
    /// Not 0: the last positions of blocks stand for them.
    pub ends: u32,
}

/// Spans of neighbouring blocks to which later choices are limited: those with the largest scores, or what they leave of scores.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct IndexSpansArgs {
    /// The index.
    pub cache: Indexed,
    /// `[rows][most]` f32. Making spans destroys them.
    pub scores: u64,
    /// `[rows][line]` u32, see above.
    pub spans: u64,
    /// Blocks of a span.
    pub size: u32,
    /// Spans of a row. Only where they are made.
    pub spans_kept: u32,
    /// Blocks that a row sees: of no more, there are no scores.
    pub keep: u32,
    /// Scores of a row.
    pub most: u32,
    /// Words of a row's spans.
    pub line: u32,
    /// Blocks of threads for a row. Only where they are used.
    pub slices: u32,
}

/// Positions that a row at the end of `len` positions sees of up to `keep` whole blocks and what is behind the last of them.
#[must_use]
pub const fn seen(len: u32, shift: u32, keep: u32) -> u32 {
    let whole = len >> shift;
    let kept = if whole < keep { whole } else { keep };
    (kept << shift) + (len & ((1 << shift) - 1))
}

const _: () = assert!(size_of::<Indexed>() == 64 && align_of::<Indexed>() == 8);
const _: () = assert!(size_of::<IndexAppendArgs>() == 144 && align_of::<IndexAppendArgs>() == 8);
const _: () = assert!(size_of::<IndexScoreArgs>() == 168 && align_of::<IndexScoreArgs>() == 8);
const _: () = assert!(size_of::<IndexChooseArgs>() == 96 && align_of::<IndexChooseArgs>() == 8);
const _: () = assert!(size_of::<IndexSpansArgs>() == 104 && align_of::<IndexSpansArgs>() == 8);
