//! What gates of feed-forward blocks go through.

/// `z / (1 + e^-z)`.
pub const SILU: u32 = 0;
/// `z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3)))`.
pub const GELU: u32 = 1;
/// `1 / (1 + e^-z)`.
pub const SIGMOID: u32 = 2;
