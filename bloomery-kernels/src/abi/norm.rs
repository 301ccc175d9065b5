//! Rows normalised, rounded or added in global memory.

/// Rows of `norm_quantize_*` and `norm_add`: one block each.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct NormArgs {
    /// `[rows][cols]` f32.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
    /// `[rows][cols]` i8, or 0: not wanted.
    pub q: u64,
    /// `[rows][cols / block]` f32.
    pub scales: u64,
    /// `[rows][cols / 16]` i16; blocks of 256 only.
    pub sums: u64,
    /// `[rows][cols]` f32, or 0: the normalised rows are not wanted. `norm_add` adds them to what is there.
    pub normed: u64,
    /// Added to the mean square.
    pub eps: f32,
    /// Values of a row.
    pub cols: u32,
}

const _: () = assert!(size_of::<NormArgs>() == 56 && align_of::<NormArgs>() == 8);
