//! Weights from the file's order into [tiles](super::abi::tiles).

use super::abi::formats::{IQ4_XS, MXFP4, Q3_K, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K};
use super::abi::tiles::{CHUNK, PackArgs, TILE_COLS, TILE_ROWS, chunks, kept, part_bytes, tile_bytes};
use super::simt::{
    await_predecessors, block, blocks, divide, ld_global_u8, release_successor, st_global_u32, thread,
    threads,
};

/// A tile's part of a row in the file: fewer bytes, or none, where the matrix ends.
#[derive(Clone, Copy)]
struct Row {
    at: u64,
    len: u32,
}

impl Row {
    /// `bytes` bytes as the low ones of a word.
    #[inline(always)]
    unsafe fn bytes(self, offset: u32, bytes: u32) -> u32 {
        let mut word = 0;
        let mut i = 0;
        while i < bytes && offset + i < self.len {
            word |= ld_global_u8(self.at + u64::from(offset + i)) << (8 * i);
            i += 1;
        }
        word
    }
}

/// The byte of a block at which chunk `c`'s run of 32 bytes starts.
#[inline(always)]
fn run(format: u32, c: u32) -> u32 {
    match format {
        Q4_K => 16 + 32 * c,
        Q5_K => {
            if c < 4 {
                48 + 32 * c
            } else {
                16
            }
        }
        // Low nibbles, then pairs of bits: both in the order of the block.
        Q6_K => 32 * c,
        Q3_K => {
            if c < 2 {
                32 + 32 * c
            } else {
                0
            }
        }
        // Q8_0: a block each.
        _ => 34 * c + 2,
    }
}

/// The four low nibbles of a word in its low half, the high ones in its high half.
#[inline(always)]
fn unzip(word: u32) -> u32 {
    let halves = |nibbles: u32| {
        (nibbles & 0xf) | (nibbles >> 4 & 0xf0) | (nibbles >> 8 & 0xf00) | (nibbles >> 12 & 0xf000)
    };
    halves(word & 0x0f0f_0f0f) | halves(word >> 4 & 0x0f0f_0f0f) << 16
}

/// The values that the nibbles of IQ4_NL stand for: -127, -104, -83, -65, -49, -35, -22, -10, and 1, 13, 25, 38, 53, 69, 89, 113.
const NONLINEAR: [u64; 2] = [0xf6ea_ddcf_bfad_9881, 0x7159_4535_2619_0d01];

/// The values that the nibbles of MXFP4 stand for, doubled: 0, 1, 2, 3, 4, 6, 8, 12, and the same with the other sign.
const FOUR_BITS: [u64; 2] = [0x0c08_0604_0302_0100, 0xf4f8_fafc_fdfe_ff00];

/// `2^(exponent - 128)` as a half float: the nearest that there is, or zero.
#[inline(always)]
fn half_scale(exponent: u32) -> u32 {
    match exponent {
        0..104 => 0,
        104..114 => 1 << (exponent - 104),
        114..144 => (exponent - 113) << 10,
        _ => 30 << 10,
    }
}

/// Four values of block `c` of a row, from value `first` on, in units of the block's scale.
#[inline(always)]
unsafe fn units(format: u32, row: Row, c: u32, first: u32) -> u32 {
    let block = part_bytes(format) / 8 * c;
    let fifth = if format == Q5_0 { row.bytes(block + 2, 4) >> first } else { 0 };
    let nibbles = row.bytes(block + part_bytes(format) / 8 - 16 + first % 16, 4) >> (first / 16 * 4);
    let mut word = 0;
    let mut i = 0;
    while i < 4 {
        let nibble = nibbles >> (8 * i) & 0xf;
        let unit = match format {
            Q4_0 => nibble.wrapping_sub(8),
            Q5_0 => (nibble | (fifth >> i & 1) << 4).wrapping_sub(16),
            _ => {
                let values = if format == MXFP4 { FOUR_BITS } else { NONLINEAR };
                let half = if nibble < 8 { values[0] } else { values[1] };
                (half >> (8 * (nibble & 7))) as u32
            }
        };
        word |= (unit & 0xff) << (8 * i);
        i += 1;
    }
    word
}

/// Four bytes of chunk `c` of a format of blocks of 32 with minimums, of values `first ..` of blocks: nibbles of two blocks, then the
/// fifth bits of all.
#[inline(always)]
unsafe fn with_minimums(format: u32, row: Row, c: u32, first: u32) -> u32 {
    let bytes = part_bytes(format) / 8;
    if c < 4 {
        let place = bytes - 16 + first % 16;
        let [low, high] = [2 * c, 2 * c + 1].map(|block| bytes * block + place);
        let shift = first / 16 * 4;
        let [low, high] = [row.bytes(low, 4), row.bytes(high, 4)].map(|word| word >> shift & 0x0f0f_0f0f);
        return low | high << 4;
    }
    if format == Q4_1 {
        return 0;
    }
    let (mut word, mut block) = (0, 0);
    while block < 8 {
        let bits = row.bytes(bytes * block + 4, 4) >> first;
        let mut i = 0;
        while i < 4 {
            word |= (bits >> i & 1) << (8 * i + block);
            i += 1;
        }
        block += 1;
    }
    word
}

/// Word `i` of a tile; `row` gives its rows.
#[inline(always)]
unsafe fn word(format: u32, i: u32, row: impl Fn(u32) -> Row) -> u32 {
    let heads = chunks(format) * CHUNK / 4;
    if i < heads {
        let (c, lane, w) = (i / 128, i % 128 / 4, i % 4);
        let (row, t) = (row(lane / 4 + 8 * (w / 2)), lane % 4);
        if matches!(format, Q4_1 | Q5_1) {
            return with_minimums(format, row, c, 16 * (w % 2) + 4 * t);
        }
        if kept(format) != format {
            return units(format, row, c, 16 * (w % 2) + 4 * t);
        }
        if format == IQ4_XS {
            return unzip(row.bytes(8 + 32 * c + 16 * (w % 2) + 4 * t, 4));
        }
        return row.bytes(run(format, c) + 16 * (w % 2) + 4 * t, 4);
    }
    let i = i - heads;
    match format {
        Q4_K | Q5_K => row(i / 4).bytes(4 * (i % 4), 4),
        IQ4_XS => row(i / 2).bytes(4 * (i % 2), 4),
        Q6_K if i < 64 => row(i / 4).bytes(192 + 4 * (i % 4), 4),
        Q6_K => row(2 * i - 128).bytes(208, 2) | row(2 * i - 127).bytes(208, 2) << 16,
        Q3_K if i < 48 => row(i / 3).bytes(96 + 4 * (i % 3), 4),
        Q3_K => row(2 * i - 96).bytes(108, 2) | row(2 * i - 95).bytes(108, 2) << 16,
        // As Q8_0: those of two blocks; then as many minimums.
        _ => {
            let (row, k, of) = (row(i / 4 % TILE_ROWS), i % 4, 2 * (i / 64));
            let block = part_bytes(format) / 8;
            if format == MXFP4 {
                let scale = |block_at: u32| half_scale(row.bytes(block_at, 1));
                return scale(2 * block * k) | scale(2 * block * k + block) << 16;
            }
            row.bytes(2 * block * k + of, 2) | row.bytes(2 * block * k + block + of, 2) << 16
        }
    }
}

/// The kernel: threads take words in turn.
///
/// # Safety
/// Both sides have the lengths of [`PackArgs`], `to` is aligned to 4 bytes; the format has tiles and `cols` is a multiple of its
/// blocks.
#[inline(always)]
pub(crate) unsafe fn pack(args: PackArgs) {
    await_predecessors();
    release_successor();
    let PackArgs { from, to, count, rows, cols, format } = args;
    let words = tile_bytes(format) / 4;
    let (down, across) = (rows.div_ceil(TILE_ROWS), cols.div_ceil(TILE_COLS));
    // Of a row: bytes in a tile, and all.
    let part = part_bytes(format);
    let row_bytes = (u64::from(cols) * u64::from(part) / 256) as u32;
    let tiles = count * down * across;
    let mut tile = block();
    while tile < tiles {
        let (above, x) = divide(tile, across);
        let (matrix, y) = divide(above, down);
        let mut i = thread();
        while i < words {
            let row = |r: u32| {
                let r = TILE_ROWS * y + r;
                let at = (u64::from(matrix) * u64::from(rows) + u64::from(r)) * u64::from(row_bytes);
                let left = row_bytes - x * part;
                let len = if left < part { left } else { part };
                Row { at: from + at + u64::from(x * part), len: if r < rows { len } else { 0 } }
            };
            let value = word(format, i, row);
            st_global_u32(to + 4 * (u64::from(tile) * u64::from(words) + u64::from(i)), value);
            i += threads();
        }
        tile += blocks();
    }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    crate::simt::bounds!(pack, 256, 4);

    /// See [`pack`](super::pack).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn pack(args: super::PackArgs) {
        super::pack(args);
    }
}
