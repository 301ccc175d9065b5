//! Several products of the same rows.

use super::shape::Shape;

/// Products of a launch, at most.
pub const PARTS: usize = 4;
/// Rows of weights that a warp multiplies at once, for each of the rows side by side.
pub const DEPTH: u32 = 2;

/// One product.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Part {
    /// The matrix: `rows` rows of the launch's columns.
    pub weight: u64,
    /// `[rows]` f32, or 0.
    pub bias: u64,
    /// `[tokens][rows]` f32.
    pub out: u64,
    /// Rows of the matrix.
    pub rows: u32,
    /// The format's id in the file.
    pub format: u32,
    /// Not 0: add to `out`.
    pub accumulate: u32,
    /// Rows that every block takes.
    pub share: u32,
    /// How many of the first blocks take one more.
    pub extra: u32,
    /// How rows are cut.
    pub shape: Shape,
}

/// All products: every block takes its share of every part.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct ProjectArgs {
    /// `[tokens][cols]` f32.
    pub x: u64,
    /// `[cols]` f32, or 0: no norm.
    pub gain: u64,
    /// Added to the mean square.
    pub eps: f32,
    /// Values of a row.
    pub cols: u32,
    /// Rows of `x`, at most what the kernel is made for.
    pub tokens: u32,
    /// Shared memory for rows that are normalised, `4 * cols` for each token; or 0: they are read twice.
    pub raw_bytes: u32,
    /// Entries of `parts` in use.
    pub parts_used: u32,
    /// Stages of each warp's ring: 1 to 8.
    pub stages: u32,
    /// Bytes of a stage.
    pub stage_bytes: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
    /// The products.
    pub parts: [Part; PARTS],
}

const _: () = assert!(size_of::<Part>() == 72 && align_of::<Part>() == 8);
const _: () = assert!(size_of::<ProjectArgs>() == 48 + 72 * PARTS && align_of::<ProjectArgs>() == 8);

/// Shared memory before the rows of activations: the parts' table and the rows' inverse norms.
pub const PROJECT_HEAD: u32 = 80 * PARTS as u32 + 32;
