//! The work of a decode step, as blocks find it from the rows' lengths.

use super::super::abi::attention::{DECODE_ROWS, PAGE, split};
use super::super::abi::index::seen;
use super::super::simt::{WARP, ballot, divide, lane, ld_global_u32, shfl};
use super::AttendArgs;

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

/// Of a row that sees chosen positions, the last one as if there were no others.
#[inline(always)]
fn among_chosen(args: &AttendArgs, position: u32) -> u32 {
    seen(position + 1, args.shift, args.keep) - 1
}

/// The rows of the launch, one in each lane.
pub(super) struct Rows {
    pub(super) sequence: u32,
    pub(super) position: u32,
    pub(super) pieces: u32,
    /// Items of the rows up to this one.
    pub(super) until: u32,
    pub(super) per_piece: u32,
}

impl Rows {
    #[inline(always)]
    pub(super) unsafe fn new<const CHOSEN: bool>(args: &AttendArgs) -> Self {
        let cache = &args.cache;
        let per_piece = cache.kv_heads * args.tiles;
        let (mut sequence, mut position, mut pieces) = (u32::MAX, 0, 0);
        if lane() < cache.rows {
            sequence = ld_global_u32(cache.sequences + 4 * u64::from(lane()));
            position = ld_global_u32(cache.positions + 4 * u64::from(lane())).min(cache.stride * PAGE - 1);
            if CHOSEN {
                position = among_chosen(args, position);
            }
            let span = split(position + 1, args.window);
            pieces = divide(position + span, span).0 - divide(low(args, position), span).0;
        }
        let mut until = pieces * per_piece;
        let mut step = 1;
        while step < WARP {
            let before = shfl(until, lane().wrapping_sub(step) % WARP);
            until += if lane() >= step { before } else { 0 };
            step *= 2;
        }
        Self { sequence, position, pieces, until, per_piece }
    }

    #[inline(always)]
    pub(super) unsafe fn item<const CHOSEN: bool>(&self, args: &AttendArgs, number: u32) -> Option<Item> {
        if CHOSEN && args.cache.rows > DECODE_ROWS {
            return self.whole(args, number);
        }
        let row = ballot(self.until <= number).trailing_ones();
        if row >= args.cache.rows {
            return None;
        }
        let (sequence, position) = (shfl(self.sequence, row), shfl(self.position, row));
        let first = ballot(self.sequence == sequence && lane() < args.cache.rows).trailing_zeros();
        let fresh = shfl(self.position, first % WARP);
        let pieces = shfl(self.pieces, row);
        let before = shfl(self.until, row) - pieces * self.per_piece;
        let (piece, rest) = divide(number - before, self.per_piece);
        let (kv_head, tile) = divide(rest, args.tiles);
        let (low, span) = (low(args, position), split(position + 1, args.window));
        let start = (divide(low, span).0 + piece) * span;
        let end = (start + span).min(position + 1);
        let start = start.max(low / PAGE * PAGE);
        // Chosen places are the predecessor's.
        let fresh = if CHOSEN { 0 } else { fresh };
        Some(Item { row, sequence, fresh, kv_head, tile, piece, pieces, start, end, low })
    }

    /// One of many rows of chosen positions: they are few enough to be one piece.
    #[inline(always)]
    unsafe fn whole(&self, args: &AttendArgs, number: u32) -> Option<Item> {
        let cache = &args.cache;
        let (row, rest) = divide(number, self.per_piece);
        if row >= cache.rows {
            return None;
        }
        let (kv_head, tile) = divide(rest, args.tiles);
        let position = ld_global_u32(cache.positions + 4 * u64::from(row)).min(cache.stride * PAGE - 1);
        let end = among_chosen(args, position) + 1;
        Some(Item { row, sequence: 0, fresh: 0, kv_head, tile, piece: 0, pieces: 1, start: 0, end, low: 0 })
    }
}

/// The first position that a row sees.
#[inline(always)]
fn low(args: &AttendArgs, position: u32) -> u32 {
    (position + 1).saturating_sub(args.window)
}
