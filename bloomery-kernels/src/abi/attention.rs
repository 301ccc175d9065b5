//! Pages of keys and values, and attention over them.
//!
//! ```text
//! keys    [page][kv_head][64 positions][key_dim]
//!         Q8_0: int8 in that order, then f16 scales [key_dim / 32][64 positions]
//! values  [page][kv_head][16 groups of 4 positions][value_dim][4 positions]
//!         Q8_0: int8 in that order, then f16 scales [value_dim / 32][64 positions]
//! ```
//!
//! Sixteen bytes are what a lane holds of an operand of the tensor cores: 8 dimensions of a key, or 4 positions of two
//! dimensions of the values.

/// Positions of a page.
pub const PAGE: u32 = 64;
/// Element types.
pub const F32: u32 = 0;
/// As above.
pub const F16: u32 = 1;
/// As above.
pub const Q8_0: u32 = 2;

/// A layer's cache and who is where in it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Paged {
    /// Pages of keys.
    pub keys: u64,
    /// Pages of values.
    pub values: u64,
    /// `[tables][stride]` u32: a sequence's pages in order of position.
    pub table: u64,
    /// `[rows]` u32.
    pub positions: u64,
    /// `[rows]` u32, lines of `table`.
    pub sequences: u64,
    /// Lines of `table`.
    pub tables: u32,
    /// Entries of a line.
    pub stride: u32,
    /// Pages of the cache.
    pub pages: u32,
    /// KV heads.
    pub kv_heads: u32,
    /// Values of a key.
    pub key_dim: u32,
    /// Values of a value.
    pub value_dim: u32,
    /// Element type.
    pub kind: u32,
    /// Rows of the launch.
    pub rows: u32,
}

/// Attention of rows.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct AttendArgs {
    /// The cache.
    pub cache: Paged,
    /// `[rows][heads][key_dim]` f32.
    pub q: u64,
    /// `[rows][heads][value_dim]` f32.
    pub out: u64,
    /// Decode: `[rows][kv_heads][tiles][SPLITS]` partial results of `partial_floats` f32. Prefill: `[tiles][2]` u32, the first row
    /// and the number of rows, of one sequence.
    pub scratch: u64,
    /// Decode: `[rows][kv_heads][tiles]` u32, zero between launches.
    pub tickets: u64,
    /// Query heads of a KV head.
    pub group: u32,
    /// Decode: eights of query heads of a KV head. Prefill: tiles of the launch.
    pub tiles: u32,
    /// Multiplies scores.
    pub scale: f32,
    /// Prefill: pages that are on their way at once, 1 or 2; of the widest heads, blocks of a tile.
    pub stages: u32,
    /// Positions that a row sees, itself the last; `u32::MAX`: all before it.
    pub window: u32,
    /// Words of a row's places.
    pub line: u32,
    /// Chosen positions: `[rows][line]` u32 as in [`index`](super::index). A row sees them, and no others; of their blocks `first + i`
    /// is the place of position `i`. Of groups of which the last positions stand for all, the places of these; 0: all of them.
    pub places: u64,
    /// Chosen blocks of a row, at most.
    pub keep: u32,
    /// Positions of a block are 2 to the power of this, at least 4.
    pub shift: u32,
    /// `[rows][heads]` f32, or 0: logarithms of the sums of `e^score`.
    pub sums: u64,
    /// Positions of a group of which rows see the last one; 0 where they see blocks.
    pub every: u32,
    /// Not used.
    pub padding: u32,
}

/// Rows that the decode kernel takes, at most.
pub const DECODE_ROWS: u32 = 32;
/// Positions that a block of the decode kernel takes at once.
pub const CHUNK: u32 = 128;
/// Pieces that a row is cut into, at most.
pub const SPLITS: u32 = 32;
/// Query heads of a KV head that a block of the decode kernel takes at once.
pub const HEADS: u32 = 8;

/// Values of a key that there are kernels for, at most.
pub const WIDEST_KEY: u32 = 576;
/// Values of a value that there are kernels for, at most.
pub const WIDEST_VALUE: u32 = 512;

/// Positions of a piece of a row at the end of `len` positions, of which it sees the last `window`: it depends on nothing else. Pieces
/// begin at multiples of that, so that a window has a part of one more.
#[must_use]
pub const fn split(len: u32, window: u32) -> u32 {
    let (all, seen) = (len.div_ceil(CHUNK * SPLITS), window.div_ceil(CHUNK * (SPLITS - 1)));
    CHUNK * if all < seen { all } else { seen }
}

/// Floats of a piece's result: the heads' largest scores and sums of weights, then the weighted values.
#[must_use]
pub const fn partial_floats(group: u32, value_dim: u32) -> u32 {
    2 * HEADS + if group < HEADS { group } else { HEADS } * value_dim
}

/// Shared memory of the prefill kernel for heads of up to `32 * chunks` values of `bytes` bytes.
#[must_use]
pub const fn prefill_bytes(warps: u32, stages: u32, chunks: u32, bytes: u32) -> u32 {
    let keys = PAGE * 32 * bytes * (chunks + 1);
    let values = PAGE / 4 * (128 * bytes * chunks + 32);
    let scales = if bytes == 1 { 4 * PAGE * chunks } else { 0 };
    warps * (chunks * 2048 + 512) + stages * (keys + values + scales)
}

/// Warps of a block of the prefill kernel for the widest heads.
pub const BROAD_WARPS: u32 = 8;
/// Queries of one.
pub const BROAD_QUERIES: u32 = 32;
/// Chunks of 32 dimensions of a key.
pub const BROAD_CHUNKS: u32 = WIDEST_KEY / 32;

/// Shared memory of that kernel, for values of `bytes` bytes.
#[must_use]
pub const fn broad_bytes(bytes: u32) -> u32 {
    let weights = if bytes == 1 { 1024 } else { 512 } * (CHUNK / 16) * (BROAD_QUERIES / 16);
    128 * BROAD_QUERIES * BROAD_CHUNKS + weights + BROAD_QUERIES * (8 * BROAD_WARPS + 8)
}

const _: () = assert!(size_of::<Paged>() == 72 && align_of::<Paged>() == 8);
const _: () = assert!(size_of::<AttendArgs>() == 160 && align_of::<AttendArgs>() == 8);
