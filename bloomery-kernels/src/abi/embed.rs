//! Rows of the token table.

/// `out[i][c] = scale * table[ids[i]]` for every copy `c`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct EmbedArgs {
    /// The matrix.
    pub table: u64,
    /// `[count / copies]` u32.
    pub ids: u64,
    /// `[count][cols]` f32.
    pub out: u64,
    /// Rows to write.
    pub count: u32,
    /// Rows of the table. A row that it does not have reads as zeros.
    pub rows: u32,
    /// Values of a row.
    pub cols: u32,
    /// The format's id in the file.
    pub format: u32,
    /// Multiplies the values.
    pub scale: f32,
    /// Copies of every row.
    pub copies: u32,
}

const _: () = assert!(size_of::<EmbedArgs>() == 48 && align_of::<EmbedArgs>() == 8);
