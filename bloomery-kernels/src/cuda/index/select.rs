//! The choice of the blocks that rows attend to.

use super::super::launch::Grid;
use super::super::module::{Entry, INDEX};
use super::super::{CudaError, DeviceInfo, Launch, Rope, Span};
use super::{IndexCache, IndexRows, Limits, aligned};
use crate::abi::attention::PAGE;
use crate::abi::index::{
    CHOOSE_BYTES, CHOOSE_THREADS, INDEX_HEADS, IndexChooseArgs, IndexScoreArgs, SCORE_THREADS, SPREAD,
};

const NAME: &str = "index_choose";
const CHOOSE: Entry<IndexChooseArgs> = Entry::new(&INDEX, NAME);
const FEW: Entry<IndexScoreArgs> = Entry::new(&INDEX, "index_score_8");
const MANY: Entry<IndexScoreArgs> = Entry::new(&INDEX, "index_score_32");
/// Lines of heads that a block of threads of these has, and keys of a lane.
const FEW_LINES: (usize, u32) = (8, 1);
const MANY_LINES: (usize, u32) = (INDEX_HEADS as usize, 2);
/// Launches that add their heads' scores, at most.
const LAUNCHES: usize = 2;
/// Rows that are few.
const FEW_ROWS: usize = 32;
/// Scores that are kept at once, but for those of few rows: more rows come in turns.
const SCORES: usize = 1 << 24;
/// Blocks of threads that a multiprocessor has room for.
const RESIDENT: u32 = 2;

/// Positions that rows attend to: blocks of them, as [`Select`] chose them.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// `[rows]` of [`Chosen::line`]: `64 page + offset` of the blocks' first positions, in order, then of the first one behind the last
    /// whole block; or of the blocks' last positions.
    pub places: Span<u32>,
    /// Blocks of a row, at most.
    pub keep: usize,
    /// Positions of a block.
    pub block: usize,
    /// Whether the last positions of blocks stand for them.
    pub ends: bool,
}

impl Chosen {
    /// Words of a row's places.
    #[must_use]
    pub fn line(keep: usize, ends: bool) -> usize {
        if ends { keep.next_multiple_of(4) } else { keep + 1 }
    }

    /// The places of some rows.
    pub(in super::super) fn some(&self, rows: std::ops::Range<usize>) -> Result<Self, CudaError> {
        let line = Self::line(self.keep, self.ends);
        Ok(Self { places: self.places.slice(rows.start * line..rows.end * line)?, ..self.clone() })
    }
}

/// Chooses for every row the `keep` whole blocks with the largest sums over heads of `weight max(q . key, 0)`, of equal ones those
/// that come first, and the positions behind the last whole block. Of rows with no more blocks, all.
///
/// A row's choice depends on the row alone.
#[derive(Debug, Clone)]
pub struct Select {
    /// `[rows][heads][width]`; stays as it is.
    pub q: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Query heads, up to 64.
    pub heads: usize,
    /// `[width]` and the epsilon, of queries.
    pub norm: Option<(Span<f32>, f32)>,
    /// Of queries.
    pub rope: Option<Rope>,
    /// `[rows][heads]`: what each head's fit counts for, and what multiplies that; all the same without.
    pub weights: Option<(Span<f32>, f32)>,
    /// The index, keys of this step's rows included.
    pub cache: IndexRows,
    /// [`Select::scratch_len`] values.
    pub scratch: Span<f32>,
    /// Where the choice goes.
    pub chosen: Chosen,
    /// Spans of blocks that it makes, or is limited to.
    pub limits: Limits,
}

/// Scores of a row of up to `stride` pages.
fn most(shape: &IndexCache, stride: usize) -> usize {
    (stride * PAGE as usize / shape.block).next_multiple_of(4)
}

impl Select {
    /// Values of the scratch for steps of up to `rows` rows of up to `stride` pages.
    #[must_use]
    pub fn scratch_len(shape: &IndexCache, rows: usize, stride: usize) -> usize {
        let most = most(shape, stride);
        (rows * most).min(SCORES.max(rows.min(FEW_ROWS) * most))
    }

    /// Whether there are kernels for so many heads.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are none.
    pub fn check_heads(heads: usize) -> Result<(), CudaError> {
        let most = LAUNCHES * INDEX_HEADS as usize;
        let holds = heads > 0 && heads <= most;
        CudaError::require(NAME, "heads of an index", heads as u64, holds, || format!("1 to {most}"))
    }

    /// The kernels, in order.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, widths or alignments do not fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let Self { q, rows, heads, weights, cache, scratch, chosen, .. } = self;
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        cache.arguments(NAME, *rows)?;
        Self::check_heads(*heads)?;
        let width = cache.shape.width;
        equal("values of queries", q.len(), rows * heads * width)?;
        if let Some((weights, _)) = weights {
            equal("weights of heads", weights.len(), rows * heads)?;
        }
        equal("positions of a chosen block", chosen.block, cache.shape.block)?;
        let holds = chosen.keep > 0 && chosen.keep < 1 << 20;
        CudaError::require(NAME, "chosen blocks", chosen.keep as u64, holds, || "1 to 2^20 - 1".to_owned())?;
        let line = Chosen::line(chosen.keep, chosen.ends);
        equal("words of the choice", chosen.places.len(), rows * line)?;
        let holds = chosen.ends || chosen.block >= 4;
        let rule = || "at least 4 where rows see all of them".to_owned();
        CudaError::require(NAME, "positions of a chosen block", chosen.block as u64, holds, rule)?;
        self.limits.check(&cache.shape, cache.stride, *rows)?;
        let most = most(&cache.shape, cache.stride);
        let needed = Self::scratch_len(&cache.shape, *rows, cache.stride);
        let holds = scratch.len() >= needed;
        let rule = || format!("at least {needed}");
        CudaError::require(NAME, "values of the scratch", scratch.len() as u64, holds, rule)?;
        aligned(NAME, q.address() | scratch.address())?;
        let at_once = (needed / most).max(1);
        let mut launches = Vec::new();
        for first in (0..*rows).step_by(at_once) {
            launches.extend(self.some(info, first, at_once.min(rows - first), most)?);
        }
        Ok(launches)
    }

    /// Those of `rows` rows from `first` on.
    fn some(
        &self,
        info: &DeviceInfo,
        first: usize,
        rows: usize,
        most: usize,
    ) -> Result<Vec<Launch>, CudaError> {
        let Self { heads, scratch, chosen, .. } = self;
        let (range, heads) = (first..first + rows, *heads);
        let of = |each: usize| first * each..(first + rows) * each;
        let cache = IndexRows {
            positions: self.cache.positions.slice(range.clone())?,
            sequences: self.cache.sequences.slice(range)?,
            ..self.cache.clone()
        };
        let (width, indexed) = (cache.shape.width, cache.arguments(NAME, rows)?);
        let q = self.q.slice(of(heads * width))?;
        let places = chosen.some(first..first + rows)?.places;
        let mut args = IndexScoreArgs {
            cache: indexed,
            q: q.address(),
            scores: scratch.address(),
            heads: heads as u32,
            keep: chosen.keep as u32,
            most: most as u32,
            all: heads as u32,
            ..IndexScoreArgs::default()
        };
        let mut uses = cache.uses();
        uses.extend([&q, scratch].map(|span| span.memory().clone()));
        if let Some((gain, eps)) = &self.norm {
            CudaError::equal(NAME, "values of the gain", gain.len() as u64, width as u64)?;
            (args.gain, args.eps) = (gain.address(), *eps);
            uses.push(gain.memory().clone());
        }
        if let Some(rope) = &self.rope {
            args.turn = rope.arguments(NAME, width)?;
            uses.extend([&rope.low, &rope.high].map(|span| span.memory().clone()));
        }
        if let Some((weights, scale)) = &self.weights {
            let weights = weights.slice(of(heads))?;
            (args.weights, args.scale) = (weights.address(), *scale);
            uses.push(weights.memory().clone());
        }
        let [before, behind] = self.limits.launches(info, (&cache.shape, first, rows), &args, &uses)?;
        // The sums of a line and a key are the same in both.
        let few = rows <= FEW_ROWS && heads <= FEW_LINES.0;
        let (entry, (lines, keys)) = if few { (FEW, FEW_LINES) } else { (MANY, MANY_LINES) };
        let group = (lines / heads).max(1) as u32;
        let groups = (rows as u32).div_ceil(group);
        let tiles = (most as u32).div_ceil(SCORE_THREADS / SPREAD * keys);
        let slices = tiles.min((RESIDENT * info.processors).div_ceil(groups)).max(1);
        let shared_bytes = 4 * (lines * width + lines) as u32;
        let grid = Grid { blocks: groups * slices, threads: SCORE_THREADS, shared_bytes };
        let bytes = 4 * q.len() as u64;
        let score = |head: usize| {
            let skip = |from: u64, each: usize| if from == 0 { 0 } else { from + 4 * (head * each) as u64 };
            let (q, weights) = (skip(args.q, width), skip(args.weights, 1));
            let (add, heads) = (u32::from(head > 0), (heads - head).min(INDEX_HEADS as usize) as u32);
            let args = IndexScoreArgs { q, weights, heads, add, group, slices, ..args };
            Launch::new(entry, grid, args, bytes, uses.clone())
        };
        let mut launches: Vec<Launch> = (0..heads).step_by(INDEX_HEADS as usize).map(score).collect();
        launches.extend(before);
        let args = IndexChooseArgs {
            cache: indexed,
            scores: scratch.address(),
            places: places.address(),
            keep: chosen.keep as u32,
            most: most as u32,
            line: Chosen::line(chosen.keep, chosen.ends) as u32,
            ends: u32::from(chosen.ends),
        };
        let mut uses = cache.uses();
        uses.push(scratch.memory().clone());
        uses.push(places.memory().clone());
        let grid = Grid { blocks: rows as u32, threads: CHOOSE_THREADS, shared_bytes: CHOOSE_BYTES };
        launches.push(Launch::new(CHOOSE, grid, args, 4 * places.len() as u64, uses));
        launches.extend(behind);
        Ok(launches)
    }
}
