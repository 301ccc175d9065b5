//! Experts that have seats on the card, and the desk where the host is asked for the others.

/// A seat's number where there is none.
pub const NOWHERE: u32 = u32::MAX;
/// Experts of a row, at most: a warp looks at all of them.
pub const USED: u32 = 32;
/// Rows that are offered to the host at once, at most: their pairs are counted with 16 bits.
pub const OFFERED_ROWS: u32 = 1024;

/// Numbers of seats for those of experts, and what the host has to compute of a layer.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct OfferArgs {
    /// `[rows][used]` u32.
    pub experts: u64,
    /// `[rows][used]` f32.
    pub weights: u64,
    /// `[count]` u32: each expert's seat, or [`NOWHERE`].
    pub seats: u64,
    /// `[rows][used]` u32.
    pub out: u64,
    /// `[count]` u32: how many pairs chose each expert; or 0.
    pub counts: u64,
    /// `[rows][cols]` f32.
    pub normed: u64,
    /// `[rows][used]` pairs of an expert and its weight, in the host's memory.
    pub pairs: u64,
    /// `[rows][cols]` f32 in the host's memory: the rows that have an expert without a seat.
    pub to: u64,
    /// In the host's memory, the step and how many pairs have no seat; or 0: nothing is offered.
    pub asked: u64,
    /// `[rows]` pairs of words: the step, and how many of the row's pairs have no seat.
    pub states: u64,
    /// u32: 0 before and after.
    pub ticket: u64,
    /// Two u32: the step's number, and again until the host was given up.
    pub step: u64,
    /// Rows: one block each.
    pub rows: u32,
    /// Experts of a row.
    pub used: u32,
    /// Experts of the layer. Pairs with another number stay out of it all.
    pub count: u32,
    /// Values of a row: a multiple of 4.
    pub cols: u32,
    /// 1: `out` gets the numbers of experts that have seats; 0: of their seats.
    pub keep: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

/// What the host computed, added.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CollectArgs {
    /// `[rows][cols]` f32.
    pub out: u64,
    /// `[rows][cols]` f32 in the host's memory.
    pub sums: u64,
    /// As in [`OfferArgs`].
    pub states: u64,
    /// As in [`OfferArgs`].
    pub step: u64,
    /// In the host's memory, two u32: the step that was answered, and whether it was broken off.
    pub done: u64,
    /// In the host's memory, two u32: the step that had to go on alone, and the layer where, plus 1.
    pub failed: u64,
    /// Nanoseconds to wait.
    pub limit: u64,
    /// Values of a row: a multiple of 4.
    pub cols: u32,
    /// The layer.
    pub layer: u32,
}

/// Which of the experts without seats the host has had brought.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct FetchArgs {
    /// `[rows][used]` u32.
    pub experts: u64,
    /// `[rows][used]` u32.
    pub out: u64,
    /// `[count]` u32, where the seat of each expert that was brought is left; or 0.
    pub homes: u64,
    /// `[rows][used]` u64 in the host's memory: the seat of each pair's expert, or [`NOWHERE`].
    pub seats: u64,
    /// In the host's memory, two u32: the step in which the host has decided, and the number of what it has brought, or 0.
    pub told: u64,
    /// u32: the number of what has arrived last.
    pub arrived: u64,
    /// As in [`OfferArgs`].
    pub states: u64,
    /// As in [`OfferArgs`].
    pub step: u64,
    /// As in [`CollectArgs`].
    pub failed: u64,
    /// Nanoseconds to wait.
    pub limit: u64,
    /// Rows.
    pub rows: u32,
    /// Pairs.
    pub pairs: u32,
    /// Experts of the layer.
    pub count: u32,
    /// The layer.
    pub layer: u32,
}

/// What was brought has arrived.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct ArriveArgs {
    /// As in [`FetchArgs`].
    pub arrived: u64,
    /// Its number.
    pub number: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

const _: () = assert!(size_of::<OfferArgs>() == 120 && align_of::<OfferArgs>() == 8);
const _: () = assert!(size_of::<CollectArgs>() == 64 && align_of::<CollectArgs>() == 8);
const _: () = assert!(size_of::<FetchArgs>() == 96 && align_of::<FetchArgs>() == 8);
