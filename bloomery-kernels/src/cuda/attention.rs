//! Causal attention over the cache.

use super::launch::Grid;
use super::module::{ATTENTION, Entry, PREFILL};
use super::{CudaError, DeviceInfo, KvCache, KvRows, Launch, Sight, Span, chosen};
use crate::abi::attention::{
    AttendArgs, BROAD_QUERIES, BROAD_WARPS, CHUNK, DECODE_ROWS, HEADS, SPLITS, WIDEST_KEY, broad_bytes,
    partial_floats, prefill_bytes, split,
};
use crate::cpu::KvType;

pub(super) const NAME: &str = "attend";
const FLOAT: Entry<AttendArgs> = Entry::new(&ATTENTION, "attend_float");
const FLOAT_WIDE: Entry<AttendArgs> = Entry::new(&ATTENTION, "attend_float_wide");
/// The widest heads that tiles in shared memory take.
const NARROW: u32 = 256;
/// Blocks' units of work that keep a card busy: rows with many query heads of a KV head are fewer at once, for the scratch's sake.
const BUSY: usize = 64;
/// Warps of a block of the kernel for f32.
const FLOAT_WARPS: u32 = 4;

/// Memory that the kernel for few rows keeps its pieces' results in; any number of layers may share it.
#[derive(Debug, Clone)]
pub struct AttendScratch {
    /// At least [`AttendScratch::floats`].
    pub partials: Span<f32>,
    /// At least [`AttendScratch::tickets`]; zero at first, and again after every launch.
    pub tickets: Span<u32>,
}

impl AttendScratch {
    /// Blocks' units of work: a row and up to 8 heads of a KV head.
    fn units(shape: &KvCache, heads: usize, rows: usize) -> usize {
        rows.min(at_once(shape, heads)) * tiles(shape, heads)
    }

    /// Floats for up to `rows` rows.
    #[must_use]
    pub fn floats(shape: &KvCache, heads: usize, rows: usize) -> usize {
        let group = (heads / shape.kv_heads()) as u32;
        Self::units(shape, heads, rows) * (SPLITS * partial_floats(group, shape.value_dim() as u32)) as usize
    }

    /// Tickets for up to `rows` rows.
    #[must_use]
    pub fn tickets(shape: &KvCache, heads: usize, rows: usize) -> usize {
        Self::units(shape, heads, rows)
    }
}

/// `out[row][head] = sum over p of softmax over p of (scale * q[row][head] . key[p]) * value[p]`, over the positions
/// `0..=positions[row]` of the row's sequence; head `h` reads KV head `h / (heads / kv_heads)`.
///
/// With a window, a row sees the last so many of these, and pages before them are not read. With chosen blocks, a row sees these and what
/// is behind the last whole block, and nothing else is read.
///
/// A row's result depends on the row alone: on its position, and on whether it is among up to [`Attend::FEW`] rows. Queries are taken as pairs of halves, that is with 22 bits, and must be below 65504.
#[derive(Debug, Clone)]
pub struct Attend {
    /// `[rows][heads][key_dim]`.
    pub q: Span<f32>,
    /// Keys and values, those of this step's rows included.
    pub cache: KvRows,
    /// `[rows][heads][value_dim]`.
    pub out: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Query heads, a multiple of the KV heads.
    pub heads: usize,
    /// Positive.
    pub scale: f32,
    /// Positions that a row sees, its own the last; all if there is none.
    pub window: Option<usize>,
    /// Which positions rows see. Of those that stand for others, there may be none: the results are zeros then, and minus infinity.
    pub sight: Sight,
    /// `[rows][heads]`: logarithms of the sums of `e^score`, for [`Blend`](super::Blend).
    pub sums: Option<Span<f32>>,
    /// For up to [`Attend::FEW`] rows.
    pub scratch: AttendScratch,
    /// For more rows: what [`AttendTiles::list`] says of them.
    pub tiles: Option<Span<u32>>,
}

impl Attend {
    /// Up to so many rows are a decode step.
    pub const FEW: usize = DECODE_ROWS as usize;

    /// The kernel, for heads that want several with as many rows each.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let (shape, most) = (self.cache.shape, at_once(&self.cache.shape, self.heads));
        if self.rows <= most || shape.kind() == KvType::F32 || self.rows > Self::FEW {
            return Ok(vec![self.launch(info)?]);
        }
        self.arguments()?;
        let (key, value) = (self.heads * shape.key_dim(), self.heads * shape.value_dim());
        let some = |first: usize| {
            let rows = most.min(self.rows - first);
            let range = first..first + rows;
            let cache = KvRows {
                positions: self.cache.positions.slice(range.clone())?,
                sequences: self.cache.sequences.slice(range.clone())?,
                ..self.cache.clone()
            };
            let (q, out) = (first * key..range.end * key, first * value..range.end * value);
            let of_sums = range.start * self.heads..range.end * self.heads;
            let sums = self.sums.as_ref().map(|sums| sums.slice(of_sums)).transpose()?;
            let (q, out, sight) = (self.q.slice(q)?, self.out.slice(out)?, self.sight.some(range)?);
            Self { q, out, rows, cache, sight, sums, ..self.clone() }.launch(info)
        };
        (0..self.rows).step_by(most).map(some).collect()
    }

    /// The kernel for rows that one launch takes.
    fn launch(&self, info: &DeviceInfo) -> Result<Launch, CudaError> {
        let shape = self.cache.shape;
        let args = self.arguments()?;
        let bytes = 4 * (self.q.len() + self.out.len());
        let mut uses = self.cache.uses();
        uses.extend([&self.q, &self.out, &self.scratch.partials].map(|span| span.memory().clone()));
        uses.push(self.scratch.tickets.memory().clone());
        uses.extend(self.sums.iter().map(|sums| sums.memory().clone()));
        let (is_all, ends) = (matches!(self.sight, Sight::All), self.sight.is_of_ends());
        if let Sight::Chosen(chosen) = &self.sight {
            uses.push(chosen.places.memory().clone());
        }
        if shape.kind() == KvType::F32 {
            let blocks = (self.rows * self.heads).div_ceil(FLOAT_WARPS as usize) as u32;
            let shared_bytes = 4 * (shape.key_dim() as u32 + 32) * FLOAT_WARPS;
            let grid = Grid { blocks, threads: 32 * FLOAT_WARPS, shared_bytes };
            let entry = match (is_all, is_wide(&shape)) {
                (false, _) => chosen::entry(&shape, ends)?.1,
                (true, true) => FLOAT_WIDE,
                (true, false) => FLOAT,
            };
            return Ok(Launch::new(entry, grid, args, bytes as u64, uses));
        }
        if let Some((entry, blocks)) = self.chosen_many()? {
            let bytes_each = if shape.kind() == KvType::Q8_0 { 1 } else { 2 };
            let args = AttendArgs { stages: blocks, ..args };
            let blocks = args.cache.rows * args.cache.kv_heads * blocks;
            let grid = Grid { blocks, threads: 32 * BROAD_WARPS, shared_bytes: broad_bytes(bytes_each) };
            return Ok(Launch::new(entry, grid, args, bytes as u64, uses));
        }
        let (width, entry) = match is_all {
            false => chosen::entry(&shape, ends)?,
            true if self.rows <= Self::FEW && self.sums.is_some() => chosen::part(&shape)?,
            true => entry(&shape, self.rows <= Self::FEW),
        };
        if self.rows > Self::FEW && is_all {
            let tiling = AttendTiles::new(info, &shape, self.heads)?;
            let list = self.tiles.as_ref();
            let words = list.map_or(0, Span::len);
            let holds = words >= 2 && words.is_multiple_of(2) && words <= 2 * self.rows;
            let rule = || format!("2 for each of 1 to {} tiles", self.rows);
            CudaError::require(NAME, "words of the tiles", words as u64, holds, rule)?;
            uses.extend(list.map(|list| list.memory().clone()));
            let tiles = (words / 2) as u32;
            let scratch = list.map_or(0, Span::address);
            let rule = || "a multiple of 8".to_owned();
            CudaError::require(NAME, "the tiles' address", scratch, scratch.is_multiple_of(8), rule)?;
            let args = AttendArgs { scratch, tiles, stages: tiling.stages, ..args };
            let grid = Grid {
                blocks: tiles * args.cache.kv_heads * if is_wide(&shape) { tiling.stages } else { 1 },
                threads: 32 * tiling.warps,
                shared_bytes: tiling.shared_bytes,
            };
            return Ok(Launch::new(entry, grid, args, bytes as u64, uses));
        }
        let visible = self.sight.most(self.cache.stride) as u32;
        let seen = args.window / split(u32::MAX / 2, args.window) + 2;
        let most = visible.div_ceil(CHUNK).min(SPLITS).min(seen).max(1);
        // Many rows are whole pieces.
        let most = if self.rows > Self::FEW { 1 } else { most };
        let items = args.cache.rows * args.cache.kv_heads * args.tiles * most;
        let threads = if width == 64 { 128 } else { 256 };
        // Blocks that are there at once; more would only wait.
        let blocks = items.min(
            info.processors
                * match width {
                    64 => 3,
                    128 => 2,
                    _ => 1,
                },
        );
        let shared_bytes = 1024 * (width / 32) + 4096 + 528 + 4 * HEADS * SPLITS;
        let grid = Grid { blocks, threads, shared_bytes };
        Ok(Launch::new(entry, grid, args, bytes as u64, uses))
    }

    /// Checks everything but what single kernels want.
    fn arguments(&self) -> Result<AttendArgs, CudaError> {
        let Self { q, cache, out, rows, heads, scale, scratch, .. } = self;
        let shape = cache.shape;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let paged = cache.arguments(NAME, *rows)?;
        let whole = *heads > 0 && heads.is_multiple_of(shape.kv_heads()) && *heads <= 1 << 16;
        let rule = || format!("a multiple of {} up to 2^16", shape.kv_heads());
        CudaError::require(NAME, "query heads", *heads as u64, whole, rule)?;
        CudaError::require(NAME, "rows of all heads", (rows * heads) as u64, rows * heads < 1 << 30, || {
            "below 2^30".to_owned()
        })?;
        equal("values of queries", q.len(), rows * heads * shape.key_dim())?;
        equal("values of the output", out.len(), rows * heads * shape.value_dim())?;
        let window = self.window.unwrap_or(usize::MAX);
        CudaError::require(NAME, "the window", window as u64, window > 0, || "at least 1".to_owned())?;
        let rule = || "positive".to_owned();
        CudaError::require(NAME, "the bits of the scale", scale.to_bits().into(), *scale > 0.0, rule)?;
        let places = self.places(&paged)?;
        if let Some(sums) = &self.sums {
            equal("sums", sums.len(), rows * heads)?;
        }
        let (floats, tickets) = if *rows <= Self::FEW && shape.kind() != KvType::F32 {
            (AttendScratch::floats(&shape, *heads, *rows), AttendScratch::tickets(&shape, *heads, *rows))
        } else {
            (0, 0)
        };
        let at_least = |what, found: usize, needed: usize| {
            CudaError::require(NAME, what, found as u64, found >= needed, || format!("at least {needed}"))
        };
        at_least("values of the scratch", scratch.partials.len(), floats)?;
        at_least("tickets", scratch.tickets.len(), tickets)?;
        let addresses = q.address() | out.address() | scratch.partials.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let group = heads / shape.kv_heads();
        Ok(AttendArgs {
            cache: paged,
            q: q.address(),
            out: out.address(),
            scratch: scratch.partials.address(),
            tickets: scratch.tickets.address(),
            group: group as u32,
            tiles: group.div_ceil(HEADS as usize) as u32,
            scale: *scale,
            stages: 0,
            window: u32::try_from(window).unwrap_or(u32::MAX),
            line: places.line,
            places: places.address,
            keep: places.keep,
            shift: places.shift,
            sums: self.sums.as_ref().map_or(0, Span::address),
            every: places.every,
            padding: 0,
        })
    }
}

/// How many rows are cut into tiles for the kernel for many.
#[derive(Debug, Clone, Copy)]
pub struct AttendTiles {
    warps: u32,
    stages: u32,
    shared_bytes: u32,
    /// Rows of a tile, at most.
    rows: usize,
}

impl AttendTiles {
    /// For a card, a cache and `heads` query heads.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if a KV head has more query heads than a tile has room for. Tiles of the widest heads
    /// have room for any number.
    pub fn new(info: &DeviceInfo, shape: &KvCache, heads: usize) -> Result<Self, CudaError> {
        let (width, _) = entry(shape, false);
        let bytes = if shape.kind() == KvType::Q8_0 { 1 } else { 2 };
        if is_wide(shape) {
            let (group, queries) = ((heads / shape.kv_heads()).max(1), BROAD_QUERIES as usize);
            let rows = (queries / group).max(1);
            let stages = (rows * group).div_ceil(queries) as u32;
            return Ok(Self { warps: BROAD_WARPS, stages, shared_bytes: broad_bytes(bytes), rows });
        }
        let room = |(warps, stages): (u32, u32)| prefill_bytes(warps, stages, width / 32, bytes);
        let shapes = [(8, 2), (8, 1), (4, 2), (4, 1), (2, 1), (1, 1)];
        let fits =
            |shape: &(u32, u32)| (shape.1 == 1 || width <= 128) && room(*shape) <= info.shared_per_block;
        let (warps, stages) = shapes.into_iter().find(fits).unwrap_or((1, 1));
        let group = heads / shape.kv_heads();
        let most = 16 * warps as usize;
        let rule = || format!("1 to {most}");
        CudaError::require(
            NAME,
            "query heads of a KV head",
            group as u64,
            (1..=most).contains(&group),
            rule,
        )?;
        Ok(Self { warps, stages, shared_bytes: room((warps, stages)), rows: most / group })
    }

    /// The tiles of rows at `positions` of `sequences`, those with most work first: the first row and the number of rows of
    /// each. Rows of a sequence follow each other, in ascending order.
    #[must_use]
    pub fn list(&self, positions: &[u32], sequences: &[u32]) -> Vec<u32> {
        let mut tiles = Vec::new();
        let mut row = 0;
        for run in sequences.chunk_by(|a, b| a == b) {
            for first in (row..row + run.len()).step_by(self.rows) {
                let rows = self.rows.min(row + run.len() - first);
                tiles.push((
                    positions.get(first + rows - 1).copied().unwrap_or(0),
                    first as u32,
                    rows as u32,
                ));
            }
            row += run.len();
        }
        tiles.sort_by_key(|tile| std::cmp::Reverse(tile.0));
        tiles.into_iter().flat_map(|(_, first, rows)| [first, rows]).collect()
    }
}

/// Whether heads are wider than tiles in shared memory take.
fn is_wide(shape: &KvCache) -> bool {
    shape.key_dim().max(shape.value_dim()) > NARROW as usize
}

/// Eights of query heads, of all KV heads.
fn tiles(shape: &KvCache, heads: usize) -> usize {
    shape.kv_heads() * (heads / shape.kv_heads()).div_ceil(HEADS as usize)
}

/// Rows that the kernel for few takes at once.
fn at_once(shape: &KvCache, heads: usize) -> usize {
    let most = DECODE_ROWS as usize;
    if is_wide(shape) { (BUSY / tiles(shape, heads).max(1)).clamp(1, most) } else { most }
}

/// The kernel of a shape for few rows or for many, and the width of heads that it is made for.
fn entry(shape: &KvCache, few: bool) -> (u32, Entry<AttendArgs>) {
    let names = match (shape.kind() == KvType::Q8_0, few) {
        (true, true) => ["decode_q8_64", "decode_q8_128", "decode_q8_256", "decode_q8_576"],
        (false, true) => ["decode_f16_64", "decode_f16_128", "decode_f16_256", "decode_f16_576"],
        (true, false) => ["prefill_q8_64", "prefill_q8_128", "prefill_q8_256", "prefill_q8_576"],
        (false, false) => ["prefill_f16_64", "prefill_f16_128", "prefill_f16_256", "prefill_f16_576"],
    };
    let (width, name) = match shape.key_dim().max(shape.value_dim()) {
        0..=64 => (64, names[0]),
        65..=128 => (128, names[1]),
        129..=256 => (256, names[2]),
        _ => (WIDEST_KEY, names[3]),
    };
    (width, Entry::new(if few { &ATTENTION } else { &PREFILL }, name))
}
