//! The gated delta net between its projections, and the recurrent states that it reads and writes.
//!
//! A state is what one layer knows of a sequence, f32:
//!
//! ```text
//! ring   [taps - 1][channels]                     the last rows of `qkv`, oldest first
//! S      [value_heads][value_dim][key_dim]
//! ```

/// Values of a head, at most: four a lane.
pub const DIM: u32 = 128;
/// Weights of the convolution, at most, the current row's among them.
pub const TAPS: u32 = 4;
/// Rows of `S` of a warp.
pub const WARP_ROWS: u32 = 8;
/// Rows of `S` of a block of `delta_scan`.
pub const SLICE: u32 = 32;
/// Rows that the threads of `delta_few` have at a time.
pub const FEW_BATCH: u32 = FEW_THREADS / 128;
/// Rows of activations that come in together.
pub const BATCH: u32 = 8;
/// Stages of them in `delta_scan`: one is worked on while the others come in.
pub const STAGES: u32 = 3;
/// Threads of a block of `delta_scan`.
pub const SCAN_THREADS: u32 = 32 * SLICE / WARP_ROWS;
/// Threads of a block of `delta_few`.
pub const FEW_THREADS: u32 = 32 * DIM / WARP_ROWS;
/// Rows of a warp of `delta_convolve`.
pub const CONVOLVE_ROWS: u32 = 8;
/// Threads of a block of `delta_convolve` and of `delta_finish`.
pub const THREADS: u32 = 256;
/// Threads of a block of `delta_channels_convolve`, whose threads need more registers.
pub const CHANNELS_THREADS: u32 = 128;
/// Shared memory of a row of activations: q, k, v of `values` values, four floats that belong to the row, and with `channels` what each
/// key keeps.
#[must_use]
pub const fn row_bytes(values: u32, channels: bool) -> u32 {
    4 * (2 * DIM + values + 4 + if channels { DIM } else { 0 })
}

/// Shared memory of `delta_scan`.
#[must_use]
pub const fn scan_bytes(channels: bool) -> u32 {
    STAGES * BATCH * row_bytes(SLICE, channels)
}

/// Shared memory of `delta_few`: rows with what their results are multiplied by, what the last block says, and each warp's window.
#[must_use]
pub const fn few_bytes(channels: bool) -> u32 {
    FEW_BATCH * row_bytes(2 * DIM, channels) + 16 + FEW_THREADS / 32 * (TAPS - 1) * 4 * DIM
}

/// What all kernels of the family take.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct DeltaArgs {
    /// `[rows][channels]` f32: q of all key heads, k of all key heads, v of all value heads. With decays of channels q alone.
    pub qkv: u64,
    /// `[rows][key_heads][key_dim]` f32. For decays of channels.
    pub k: u64,
    /// `[rows][value_heads][value_dim]` f32. For decays of channels.
    pub v: u64,
    /// `[rows][value_heads][value_dim]` f32.
    pub z: u64,
    /// `[rows][value_heads]` f32.
    pub beta: u64,
    /// `[rows][value_heads]` f32, or `[rows][value_heads][key_dim]`: of channels.
    pub alpha: u64,
    /// `[taps][channels]` f32; the last row is the current row's. With decays of channels q's alone.
    pub conv: u64,
    /// `[taps][key_heads][key_dim]` f32. For decays of channels.
    pub conv_k: u64,
    /// `[taps][value_heads][value_dim]` f32. For decays of channels.
    pub conv_v: u64,
    /// `[value_heads]` f32.
    pub a: u64,
    /// `[value_heads]` f32, or `[value_heads][key_dim]`: of channels.
    pub dt: u64,
    /// `[value_dim]` f32.
    pub gain: u64,
    /// `[rows][value_heads][value_dim]` f32.
    pub out: u64,
    /// `[slots][state_len]` f32.
    pub states: u64,
    /// `[sequences]` u32: the slot that a sequence starts from; another number: zeros.
    pub from: u64,
    /// `[sequences + 1]` u32, ascending: the first row of every sequence, then the number of rows.
    pub starts: u64,
    /// `[rows]` u32: the slot that gets the state after a row; another number: none.
    pub saves: u64,
    /// `[rows][channels]` f32: q, k and v of the delta rule. Not used for few rows.
    pub mixed: u64,
    /// `[rows][value_heads][4]` f32: decay, beta, slot, k q. Not used for few rows.
    pub gates: u64,
    /// `[rows][value_heads][key_dim]` f32: what channels keep. Not used for few rows.
    pub kept: u64,
    /// `[sequences][key_heads]` u32, 0 between launches: blocks that have read the ring. For few rows.
    pub readers: u64,
    /// Values of a state.
    pub state_len: u64,
    /// Rows.
    pub rows: u32,
    /// Sequences, at most.
    pub sequences: u32,
    /// Slots.
    pub slots: u32,
    /// Heads of q and of k.
    pub key_heads: u32,
    /// Heads of v: a multiple of `key_heads`; head j reads key head `j % key_heads`.
    pub value_heads: u32,
    /// Values of a head of q and k: a multiple of 4, at most [`DIM`].
    pub key_dim: u32,
    /// Values of a head of v: a multiple of 4, at most [`DIM`].
    pub value_dim: u32,
    /// Weights of a channel: 2 to [`TAPS`].
    pub taps: u32,
    /// Added to the mean square of a head of the result.
    pub eps: f32,
    /// The logarithm that what a channel keeps stays above.
    pub bound: f32,
    /// Not 0: results are multiplied by a sigmoid of z, else by its SiLU.
    pub sigmoid: u32,
    /// Zero.
    pub padding: u32,
}

impl DeltaArgs {
    /// Values of a row of `qkv`.
    #[must_use]
    pub const fn channels(&self) -> u32 {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }
}

const _: () = assert!(size_of::<DeltaArgs>() == 22 * 8 + 48 && align_of::<DeltaArgs>() == 8);
