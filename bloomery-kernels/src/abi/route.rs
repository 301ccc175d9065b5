//! Experts of rows: the router's logits, the largest of them, and pairs in the order of their experts.

/// Experts of a layer, at most.
pub const EXPERTS: u32 = 512;
/// Experts of a row, at most.
pub const USED: u32 = 16;
/// Rows of `route_*`, at most: what is routed in one launch.
pub const ROWS: u32 = 32;
/// Columns whose products are added in one tree.
pub const SLAB: u32 = 64;
/// Columns of a chain of sums, which a thread adds.
pub const CHAIN: u32 = 8;

/// Groups of experts, at most: a lane each.
pub const GROUPS: u32 = 32;
/// A score is a softmax of the logits of all experts.
pub const SOFTMAX: u32 = 0;
/// A score is the sigmoid of its logit.
pub const SIGMOID: u32 = 1;
/// A score is `sqrt(ln(1 + e^logit))`.
pub const SQRT_SOFTPLUS: u32 = 2;
/// Bytes of shared memory for the sums of a row's product with the gate.
pub const GATE_BYTES: u32 = 4 * 16;

/// Keys that there is room for in a row of the scratch memory: one for every expert of every lane.
#[must_use]
pub const fn stride(experts: u32) -> u32 {
    if experts <= 128 { 128 } else { EXPERTS }
}

/// Floats from one item's partial sums to the next one's in shared memory, for `slabs` sums: lanes that read neighbouring
/// items' four sums at a time meet no bank twice.
#[must_use]
pub const fn partials(slabs: u32) -> u32 {
    let quads = slabs.div_ceil(4);
    4 * (quads + 1 - quads % 2)
}

/// What a router does.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct RouteArgs {
    /// `[rows][cols]` f32.
    pub x: u64,
    /// `[cols]` f32. Not used of rows as they are.
    pub gain: u64,
    /// `[rows][cols]` f32: the rows after the norm. 0: they are not wanted, or taken as they are.
    pub normed: u64,
    /// `[experts][cols]` in `format`.
    pub router: u64,
    /// `[rows][stride(experts)]` u32: keys of logits. 0: not there yet; all of it is 0 between launches. Of products by themselves,
    /// `[rows][count]` f32.
    pub keys: u64,
    /// `[rows][used]` u32.
    pub experts: u64,
    /// `[rows][used]` f32. Between the launches for many rows, the first of a row is its inverse norm.
    pub weights: u64,
    /// u32: how many of the first rows have experts; the others get numbers that are none. 0: all have.
    pub live: u64,
    /// `[count]` f32, added to scores when experts are chosen, or 0.
    pub bias: u64,
    /// `[cols]` f32, or 0: the weights of a network beside the experts.
    pub gate: u64,
    /// `[rows]` f32: the sigmoid of the product of a row and the gate.
    pub gates: u64,
    /// `[vocab][used]` u32: the experts of every token, or 0: they are chosen.
    pub table: u64,
    /// `[tokens]` u32. Only with a table.
    pub tokens: u64,
    /// `[rows]` u32: which of the tokens is that of a row, or 0: all, in their order.
    pub picked: u64,
    /// Added to the mean square.
    pub eps: f32,
    /// Multiplies the weights.
    pub scale: f32,
    /// Values of a row.
    pub cols: u32,
    /// Rows of `x`.
    pub rows: u32,
    /// Experts of the layer.
    pub count: u32,
    /// Experts of a row.
    pub used: u32,
    /// The router's format: F32, F16 or BF16.
    pub format: u32,
    /// Not 0: weights are divided by their sum.
    pub renormalize: u32,
    /// Rows of a block of `route_*`.
    pub share: u32,
    /// Blocks of `route_*`, the last of the grid, that choose.
    pub choosers: u32,
    /// [`SOFTMAX`], [`SIGMOID`] or [`SQRT_SOFTPLUS`].
    pub score: u32,
    /// Groups of neighbouring experts, at most 32; 0: none.
    pub groups: u32,
    /// Groups of a row that experts are chosen from.
    pub open: u32,
    /// Tokens of the table.
    pub vocab: u32,
    /// As many as `tokens` has.
    pub token_count: u32,
    /// Makes the size a multiple of 8.
    pub reserved: u32,
}

const _: () = assert!(size_of::<RouteArgs>() == 176 && align_of::<RouteArgs>() == 8);

/// Pairs of a block of `group_*`.
pub const GROUP_PAIRS: u32 = 2048;
/// Threads of a block of `group_*`.
pub const GROUP_THREADS: u32 = 512;

/// `pairs` by expert.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GroupArgs {
    /// `[pairs]` u32: the pairs' experts.
    pub experts: u64,
    /// `[blocks][count]` u32: pairs of every expert in every block of pairs; not used with one block.
    pub counts: u64,
    /// `[count + 1]` u32.
    pub offsets: u64,
    /// `[pairs]` u32: the order.
    pub order: u64,
    /// `[..][4]` u32: expert, place of the first pair in the order, pairs, 0.
    pub tiles: u64,
    /// u32: how many.
    pub tile_count: u64,
    /// Pairs.
    pub pairs: u32,
    /// Experts of the layer.
    pub count: u32,
    /// Pairs of a tile, at most.
    pub tile: u32,
    /// Blocks of pairs.
    pub blocks: u32,
}

const _: () = assert!(size_of::<GroupArgs>() == 64 && align_of::<GroupArgs>() == 8);
