//! Element types of a cache as operands of the tensor cores.

use super::super::simt::{
    half2_sub, ld_global_u32, ld_global_u32x2, ld_global_u32x4, ld_shared_u32x2, ld_shared_u32x4, permute,
};

/// An element type whose values half precision holds exactly, but for a scale.
pub(crate) trait Kind: Copy {
    /// Bytes of an element.
    const BYTES: u32;
    /// Whether groups of 32 dimensions have a scale for each position.
    const SCALED: bool;
    /// Eight neighbouring elements.
    type Eight: Copy;
    /// Zeros.
    const ZERO: Self::Eight;
    /// From global memory.
    ///
    /// # Safety
    /// `at` is aligned to 8 elements and valid for reads.
    unsafe fn load(at: u64) -> Self::Eight;
    /// Four neighbouring elements of each of two places in global memory.
    ///
    /// # Safety
    /// Both are aligned to 4 elements and valid for reads.
    unsafe fn load_fours(at: [u64; 2]) -> Self::Eight;
    /// From shared memory.
    ///
    /// # Safety
    /// `at` is aligned to 8 elements and inside the block's shared memory.
    unsafe fn load_shared(at: u32) -> Self::Eight;
    /// In half precision.
    fn halves(eight: Self::Eight) -> [u32; 4];
}

/// Half precision.
#[derive(Clone, Copy)]
pub(crate) struct Half;

impl Kind for Half {
    const BYTES: u32 = 2;
    const SCALED: bool = false;
    type Eight = [u32; 4];
    const ZERO: [u32; 4] = [0; 4];

    #[inline(always)]
    unsafe fn load(at: u64) -> [u32; 4] {
        ld_global_u32x4(at)
    }

    #[inline(always)]
    unsafe fn load_fours(at: [u64; 2]) -> [u32; 4] {
        let [[a, b], [c, d]] = at.map(|at| ld_global_u32x2(at));
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn load_shared(at: u32) -> [u32; 4] {
        ld_shared_u32x4(at)
    }

    #[inline(always)]
    fn halves(eight: [u32; 4]) -> [u32; 4] {
        eight
    }
}

/// Bytes with a scale for 32 of them.
#[derive(Clone, Copy)]
pub(crate) struct Rounded;

impl Kind for Rounded {
    const BYTES: u32 = 1;
    const SCALED: bool = true;
    type Eight = [u32; 2];
    const ZERO: [u32; 2] = [0; 2];

    #[inline(always)]
    unsafe fn load(at: u64) -> [u32; 2] {
        ld_global_u32x2(at)
    }

    #[inline(always)]
    unsafe fn load_fours(at: [u64; 2]) -> [u32; 2] {
        at.map(|at| ld_global_u32(at))
    }

    #[inline(always)]
    unsafe fn load_shared(at: u32) -> [u32; 2] {
        ld_shared_u32x2(at)
    }

    /// A byte `b + 128` below the upper byte of 1024 is the half 1024 + 128 + b.
    #[inline(always)]
    fn halves(eight: [u32; 2]) -> [u32; 4] {
        const UPPER: u32 = 0x6464_6464;
        const OFFSET: u32 = 0x6480_6480;
        let (a, b) = (eight[0] ^ 0x8080_8080, eight[1] ^ 0x8080_8080);
        [
            half2_sub(permute(a, UPPER, 0x4140), OFFSET),
            half2_sub(permute(a, UPPER, 0x4342), OFFSET),
            half2_sub(permute(b, UPPER, 0x4140), OFFSET),
            half2_sub(permute(b, UPPER, 0x4342), OFFSET),
        ]
    }
}
