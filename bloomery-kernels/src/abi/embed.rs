//! Rows of the token table.

/// `out[i] = scale * table[ids[i]]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct EmbedArgs {
    /// The matrix.
    pub table: u64,
    /// `[count]` u32.
    pub ids: u64,
    /// `[count][cols]` f32.
    pub out: u64,
    /// Rows to read.
    pub count: u32,
    /// Rows of the table. A row that it does not have reads as zeros.
    pub rows: u32,
    /// Values of a row.
    pub cols: u32,
    /// The format's id in the file.
    pub format: u32,
    /// Multiplies the values.
    pub scale: f32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

const _: () = assert!(size_of::<EmbedArgs>() == 48 && align_of::<EmbedArgs>() == 8);
