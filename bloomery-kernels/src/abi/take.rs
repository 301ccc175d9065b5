//! Rows that are wanted.

/// `to[i] = from[rows[i]]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct TakeArgs {
    /// `[have][cols]` f32.
    pub from: u64,
    /// `[count]` u32.
    pub rows: u64,
    /// `[count][cols]` f32.
    pub to: u64,
    /// Rows of `to`.
    pub count: u32,
    /// Rows of `from`. A row that it does not have reads as zeros.
    pub have: u32,
    /// Values of a row: a multiple of 4.
    pub cols: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

const _: () = assert!(size_of::<TakeArgs>() == 40 && align_of::<TakeArgs>() == 8);
