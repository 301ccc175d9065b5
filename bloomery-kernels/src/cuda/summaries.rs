//! Rows that stand for groups of positions: what they are made of, and their way to the cache.

use super::launch::Grid;
use super::module::{Entry, SUMMARIES};
use super::{CudaError, DeviceInfo, KvRows, Launch, Rope, Span};
use crate::abi::attention::PAGE;
use crate::abi::rope::WIDEST;
use crate::abi::summaries::{SUMMARY_BYTES, SummariseArgs, SummaryAppendArgs, WIDEST_ROW};

const SUMMARISE: Entry<SummariseArgs> = Entry::new(&SUMMARIES, "summarise");
const APPEND: Entry<SummaryAppendArgs> = Entry::new(&SUMMARIES, "summary_append");

const NAME: &str = "groups";
/// Warps of a block that appends.
const WARPS: u32 = 4;
/// Rows, at most.
const MOST: usize = 1 << 24;

/// Shape of one layer's groups; a page is that of the CPU's `GroupShape`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupCache {
    width: usize,
    positions: usize,
    overlap: bool,
}

impl GroupCache {
    /// Rows of `width` values for groups of `positions`. With `overlap` a group's row is also of the group before.
    ///
    /// # Errors
    /// [`CudaError::Contract`] unless the width is a multiple of 4 up to 1024, and the positions divide a page or are several pages.
    pub fn new(width: usize, positions: usize, overlap: bool) -> Result<Self, CudaError> {
        let holds = width > 0 && width.is_multiple_of(4) && width <= WIDEST_ROW as usize;
        let rule = || format!("a multiple of 4 up to {WIDEST_ROW}");
        CudaError::require(NAME, "the width of a row", width as u64, holds, rule)?;
        let page = PAGE as usize;
        let holds = positions > 0 && (page.is_multiple_of(positions) || positions.is_multiple_of(page));
        let holds = holds && positions <= 1 << 16;
        let rule = || format!("a divisor or a multiple of {page}, up to 65536");
        CudaError::require(NAME, "positions of a group", positions as u64, holds, rule)?;
        Ok(Self { width, positions, overlap })
    }

    /// Values, and gates, of a position.
    fn channels(&self) -> usize {
        if self.overlap { 2 * self.width } else { self.width }
    }

    /// Positions of a group that are kept.
    fn kept(&self) -> usize {
        let all = self.overlap || self.positions > PAGE as usize;
        if all { self.positions } else { self.positions - 1 }
    }

    /// Values of a page; 0 where nothing is kept.
    #[must_use]
    pub fn page_len(&self) -> usize {
        let (page, kept) = (PAGE as usize, self.kept());
        let of_page = if self.positions > page { page } else { page / self.positions * kept };
        2 * of_page * self.channels()
    }
}

/// One layer's groups and where the rows of a step are in them. Pages have the numbers that they have in the layer's cache.
#[derive(Debug, Clone)]
pub struct GroupRows {
    /// Shape.
    pub shape: GroupCache,
    /// `[pages]` of [`GroupCache::page_len`], if that is not 0.
    pub pages: Option<Span<f32>>,
    /// `[sequences][stride]`: pages in order of position. What would go to a page that there is not goes nowhere.
    pub table: Span<u32>,
    /// Entries of a sequence.
    pub stride: usize,
    /// `[rows]`: rows of a sequence follow each other, in ascending order.
    pub positions: Span<u32>,
    /// `[rows]`: lines of `table`.
    pub sequences: Span<u32>,
}

/// Keeps what rows give to their groups, and makes the rows of those groups that end with one of them: of columns apart, the sum of the
/// members' values with a softmax of their gates as weights, and a norm.
#[derive(Debug, Clone)]
pub struct Summarise {
    /// `[rows][channels]`.
    pub values: Span<f32>,
    /// As many. None where a group is one position.
    pub gates: Option<Span<f32>>,
    /// `[positions][channels]`: added to gates.
    pub places: Option<Span<f32>>,
    /// `[width]` and the epsilon.
    pub norm: (Span<f32>, f32),
    /// Where what is kept goes.
    pub groups: GroupRows,
    /// `[rows][width]`: zeros for rows that end no group.
    pub out: Span<f32>,
}

impl Summarise {
    /// The kernel: a block for each row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { values, gates, places, norm: (gain, eps), groups, out } = self;
        let GroupRows { shape, pages, table, stride, positions, sequences } = groups;
        let name = SUMMARISE.name;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        let (rows, channels, width) = (positions.len(), shape.channels(), shape.width);
        let holds = (1..=MOST).contains(&rows);
        CudaError::require(name, "rows", rows as u64, holds, || format!("1 to {MOST}"))?;
        equal("sequences", sequences.len(), rows)?;
        equal("values of positions", values.len(), rows * channels)?;
        equal("values of the output", out.len(), rows * width)?;
        equal("values of the gain", gain.len(), width)?;
        let needs = shape.positions > 1 || shape.overlap;
        equal("gates of a position", usize::from(gates.is_some()), usize::from(needs))?;
        if let Some(gates) = gates {
            equal("values of gates", gates.len(), rows * channels)?;
        }
        if let Some(places) = places {
            equal("gates of places", places.len(), shape.positions * channels)?;
        }
        let holds = *stride > 0 && *stride <= 1 << 24 && table.len() >= *stride;
        let rule = || format!("1 to 2^24 and at most {}", table.len());
        CudaError::require(name, "entries of a sequence", *stride as u64, holds, rule)?;
        let page_len = shape.page_len();
        equal("memory of groups", usize::from(pages.is_some()), usize::from(page_len > 0))?;
        let len = pages.as_ref().map_or(0, Span::len);
        let count = len / page_len.max(1);
        equal("values of the pages", len, count * page_len)?;
        let holds = page_len == 0 || (count > 0 && count < u32::MAX as usize);
        CudaError::require(name, "pages", count as u64, holds, || "1 to 2^32 - 2".to_owned())?;
        let floats = [values, gain, out].into_iter().chain(gates).chain(places).chain(pages);
        let addresses = floats.clone().fold(0, |all, span| all | span.address());
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let address = |span: &Option<Span<f32>>| span.as_ref().map_or(0, Span::address);
        let args = SummariseArgs {
            values: values.address(),
            gates: address(gates),
            memory: address(pages),
            table: table.address(),
            positions: positions.address(),
            sequences: sequences.address(),
            places: address(places),
            gain: gain.address(),
            out: out.address(),
            eps: *eps,
            tables: (table.len() / stride) as u32,
            stride: *stride as u32,
            pages: count as u32,
            rows: rows as u32,
            width: width as u32,
            channels: channels as u32,
            group: shape.positions as u32,
            kept: shape.kept() as u32,
            page_len: page_len as u32,
        };
        let threads = (width as u32 / 4).next_multiple_of(32);
        let grid = Grid { blocks: rows as u32, threads, shared_bytes: SUMMARY_BYTES };
        let words = [table, positions, sequences].map(|span| span.memory().clone());
        let uses = floats.map(|span| span.memory().clone()).chain(words).collect();
        Ok(Launch::new(SUMMARISE, grid, args, 4 * (5 * values.len() + out.len()) as u64, uses))
    }
}

/// Puts rows of groups into a cache whose keys are values too, turned as at a group's first position, at its last. Rows that end no group
/// go nowhere.
#[derive(Debug, Clone)]
pub struct SummaryAppend {
    /// `[rows][key_dim]`.
    pub x: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Positions of a group.
    pub positions: usize,
    /// Of some of a row's values; without, positions are left out.
    pub rope: Option<Rope>,
    /// Where they go: of one head, values as wide as keys.
    pub cache: KvRows,
}

impl SummaryAppend {
    /// The kernel: a warp for the key and one for the value of each row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, widths or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, rows, positions, rope, cache } = self;
        let (rows, shape, name) = (*rows, cache.shape, APPEND.name);
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(name, what, found as u64, expected as u64);
        let paged = cache.arguments(name, rows)?;
        equal("KV heads", shape.kv_heads(), 1)?;
        equal("the width of a key", shape.key_dim(), shape.value_dim())?;
        equal("values of rows", x.len(), rows * shape.key_dim())?;
        let holds = (1..=1 << 16).contains(positions);
        CudaError::require(name, "positions of a group", *positions as u64, holds, || {
            "1 to 65536".to_owned()
        })?;
        let mut args = SummaryAppendArgs {
            cache: paged,
            x: x.address(),
            group: *positions as u32,
            ..SummaryAppendArgs::default()
        };
        let mut uses = cache.uses();
        uses.push(x.memory().clone());
        if let Some(rope) = rope {
            args.turn = rope.arguments(name, shape.key_dim())?;
            uses.extend([&rope.low, &rope.high].map(|span| span.memory().clone()));
        }
        let grid = Grid {
            blocks: (2 * rows as u32).div_ceil(WARPS),
            threads: 32 * WARPS,
            shared_bytes: 4 * WIDEST * WARPS,
        };
        let cached = shape.page_bytes() / PAGE as usize;
        let bytes = rows.div_ceil(*positions) * (4 * shape.key_dim() + cached);
        Ok(Launch::new(APPEND, grid, args, bytes as u64, uses))
    }
}
