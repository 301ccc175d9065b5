//! The work of a decode step, as blocks find it from the rows' lengths.

use super::super::abi::attention::{DECODE_ROWS, PAGE, split};
use super::super::simt::{WARP, ballot, divide, lane, ld_global_u32, shfl};
use super::{AttendArgs, ENDS, PART, among};

/// What a block does next.
#[derive(Clone, Copy)]
pub(super) struct Item {
    pub(super) row: u32,
    pub(super) sequence: u32,
    /// First position that this step's launches append, of this sequence.
    pub(super) fresh: u32,
    pub(super) kv_head: u32,
    /// Eight of heads.
    pub(super) tile: u32,
    /// Which piece, of how many.
    pub(super) piece: u32,
    pub(super) pieces: u32,
    /// Pages before the row's window are left out.
    pub(super) start: u32,
    pub(super) end: u32,
    /// The first position that the row sees.
    pub(super) low: u32,
}

/// The rows of the launch, one in each lane.
pub(super) struct Rows {
    pub(super) sequence: u32,
    /// Positions that the row sees, but for its window.
    pub(super) len: u32,
    pub(super) pieces: u32,
    /// Items of the rows up to this one.
    pub(super) until: u32,
    pub(super) per_piece: u32,
}

impl Rows {
    #[inline(always)]
    pub(super) unsafe fn new<const SIGHT: u32>(args: &AttendArgs) -> Self {
        let cache = &args.cache;
        let per_piece = cache.kv_heads * args.tiles;
        let (mut sequence, mut len, mut pieces) = (u32::MAX, 0, 0);
        if lane() < cache.rows {
            sequence = ld_global_u32(cache.sequences + 4 * u64::from(lane()));
            let position = ld_global_u32(cache.positions + 4 * u64::from(lane()));
            len = among::<SIGHT>(args, position.min(cache.stride * PAGE - 1) + 1);
            let span = span::<SIGHT>(args, len);
            pieces = divide(len + span - 1, span).0 - divide(low(args, len), span).0;
            if SIGHT == ENDS {
                pieces = pieces.max(1);
            }
        }
        let mut until = pieces * per_piece;
        let mut step = 1;
        while step < WARP {
            let before = shfl(until, lane().wrapping_sub(step) % WARP);
            until += if lane() >= step { before } else { 0 };
            step *= 2;
        }
        Self { sequence, len, pieces, until, per_piece }
    }

    #[inline(always)]
    pub(super) unsafe fn item<const SIGHT: u32>(&self, args: &AttendArgs, number: u32) -> Option<Item> {
        if SIGHT > PART && args.cache.rows > DECODE_ROWS {
            return self.whole::<SIGHT>(args, number);
        }
        let row = ballot(self.until <= number).trailing_ones();
        if row >= args.cache.rows {
            return None;
        }
        let (sequence, len) = (shfl(self.sequence, row), shfl(self.len, row));
        let first = ballot(self.sequence == sequence && lane() < args.cache.rows).trailing_zeros();
        // Chosen places are the predecessor's.
        let fresh = if SIGHT <= PART { shfl(self.len, first % WARP) - 1 } else { 0 };
        let pieces = shfl(self.pieces, row);
        let before = shfl(self.until, row) - pieces * self.per_piece;
        let (piece, rest) = divide(number - before, self.per_piece);
        let (kv_head, tile) = divide(rest, args.tiles);
        let (low, span) = (low(args, len), span::<SIGHT>(args, len));
        let start = (divide(low, span).0 + piece) * span;
        let end = (start + span).min(len);
        let start = start.max(low / PAGE * PAGE);
        Some(Item { row, sequence, fresh, kv_head, tile, piece, pieces, start, end, low })
    }

    /// One of many rows of chosen positions: they are few enough to be one piece.
    #[inline(always)]
    unsafe fn whole<const SIGHT: u32>(&self, args: &AttendArgs, number: u32) -> Option<Item> {
        let cache = &args.cache;
        let (row, rest) = divide(number, self.per_piece);
        if row >= cache.rows {
            return None;
        }
        let (kv_head, tile) = divide(rest, args.tiles);
        let position = ld_global_u32(cache.positions + 4 * u64::from(row)).min(cache.stride * PAGE - 1);
        let end = among::<SIGHT>(args, position + 1);
        let sequence = if SIGHT == ENDS { ld_global_u32(cache.sequences + 4 * u64::from(row)) } else { 0 };
        Some(Item { row, sequence, fresh: 0, kv_head, tile, piece: 0, pieces: 1, start: 0, end, low: 0 })
    }
}

/// The first of `len` positions that a row sees.
#[inline(always)]
fn low(args: &AttendArgs, len: u32) -> u32 {
    len.saturating_sub(args.window)
}

/// Positions of a piece of a row that sees `len`, which may be none.
#[inline(always)]
fn span<const SIGHT: u32>(args: &AttendArgs, len: u32) -> u32 {
    split(if SIGHT == ENDS { len.max(1) } else { len }, args.window)
}
