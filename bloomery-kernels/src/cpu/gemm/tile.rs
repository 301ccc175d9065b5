//! Activations of 16 rows, interleaved for products: four neighbouring values of each row side by side.

use std::ops::Range;

/// Rows of activations in a tile: the lanes of an AVX-512 register and the columns of an AMX tile.
pub(crate) const LANES: usize = 16;

/// One block of 256 values of 16 rows. Rows beyond the last are zero.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct TileBlock {
    /// `quants[k / 4][4 * lane + k % 4]`: what a multiply-accumulate of int8 quadruples wants as its operand.
    pub(super) quants: [[i8; 4 * LANES]; 64],
    /// Sums of 16 values, in pairs: `sums16[run / 2][2 * lane + run % 2]`.
    pub(super) sums16: [[i16; 2 * LANES]; 8],
    /// Sums of 32 values, in pairs: `sums32[sub / 2][2 * lane + sub % 2]`.
    pub(super) sums32: [[i16; 2 * LANES]; 4],
    /// Sum of all values.
    pub(super) sum: [i32; LANES],
    /// Scale.
    pub(super) d: [f32; LANES],
}

impl TileBlock {
    pub(crate) const ZERO: Self = Self {
        quants: [[0; 4 * LANES]; 64],
        sums16: [[0; 2 * LANES]; 8],
        sums32: [[0; 2 * LANES]; 4],
        sum: [0; LANES],
        d: [0.0; LANES],
    };

    /// Writes one row's block into lane `lane < 16`. `sums` are the sums of 16 values each.
    #[inline]
    pub(crate) fn set(&mut self, lane: usize, d: f32, quants: &[i8; 256], sums: &[i16; 16]) {
        for (to, from) in self.quants.iter_mut().zip(quants.as_chunks::<4>().0) {
            to[4 * lane..4 * lane + 4].copy_from_slice(from);
        }
        for (pair, [a, b]) in sums.as_chunks::<2>().0.iter().enumerate() {
            self.sums16[pair][2 * lane..2 * lane + 2].copy_from_slice(&[*a, *b]);
            // At most 32 * 128 in magnitude.
            self.sums32[pair / 2][2 * lane + pair % 2] = a + b;
        }
        self.sum[lane] = sums.iter().map(|s| i32::from(*s)).sum();
        self.d[lane] = d;
    }
}

/// One block of 32 values of 16 rows of activations. Rows beyond the last are zero.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct NarrowBlock {
    /// `quants[k / 4][4 * lane + k % 4]`, plus 128: the unsigned operand of VNNI.
    pub(super) quants: [[u8; 4 * LANES]; 8],
    /// Scale.
    pub(super) d: [f32; LANES],
    /// Sum of the values.
    pub(super) sum: [f32; LANES],
}

impl NarrowBlock {
    pub(crate) const ZERO: Self = Self { quants: [[128; 4 * LANES]; 8], d: [0.0; LANES], sum: [0.0; LANES] };

    /// Writes one row's block into lane `lane < 16`.
    #[inline]
    pub(crate) fn set(&mut self, lane: usize, d: f32, quants: &[i8; 32], sum: i16) {
        for (to, from) in self.quants.iter_mut().zip(quants.as_chunks::<4>().0) {
            to[4 * lane..4 * lane + 4].copy_from_slice(&from.map(|q| q as u8 ^ 128));
        }
        self.d[lane] = d;
        self.sum[lane] = f32::from(sum);
    }
}

/// Activations in tiles, in the forms that a call wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiles<'a> {
    /// Tiles.
    pub(crate) tiles: usize,
    /// Values in a row.
    pub(crate) cols: usize,
    /// Block `b` of tile `t` is `wide[b * tiles + t]`.
    pub(crate) wide: &'a [TileBlock],
    /// Block `b` of tile `t` is `narrow[t * (cols / 32) + b]`.
    pub(crate) narrow: &'a [NarrowBlock],
}

impl<'a> Tiles<'a> {
    /// Block `block` of every tile.
    pub(super) fn wide_of(&self, block: usize) -> &'a [TileBlock] {
        &self.wide[block * self.tiles..(block + 1) * self.tiles]
    }

    /// All blocks of some tiles.
    pub(super) fn narrow_of(&self, tiles: Range<usize>) -> &'a [NarrowBlock] {
        let blocks = self.cols / 32;
        &self.narrow[tiles.start * blocks..tiles.end * blocks]
    }
}
