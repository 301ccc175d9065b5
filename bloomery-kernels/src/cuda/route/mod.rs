//! Experts of rows.

mod group;
mod plain;

pub use group::{Group, Tiles};
pub use plain::Narrow;

use bloomery_gguf::Format;

use super::launch::Grid;
use super::memory::Allocation;
use super::module::{Entry, ROUTE, ROUTE_RAW};
use super::{CudaError, DeviceInfo, Launch, Span, Weight};
use crate::abi::route::{self, CHAIN, EXPERTS, GATE_BYTES, GROUPS, ROWS, RouteArgs, SLAB, USED};
use crate::cpu::{RouterScore, RouterSpec};

/// Of rows that are normalised, and of rows as they are.
type Entries = [Entry<RouteArgs>; 2];

const ONE: Entries = [Entry::new(&ROUTE, "route_1"), Entry::new(&ROUTE_RAW, "route_raw_1")];
const TWO: Entries = [Entry::new(&ROUTE, "route_2"), Entry::new(&ROUTE_RAW, "route_raw_2")];
const FOUR: Entries = [Entry::new(&ROUTE, "route_4"), Entry::new(&ROUTE_RAW, "route_raw_4")];
const NORM: Entry<RouteArgs> = Entry::new(&ROUTE, "route_norm");
const GATE: Entry<RouteArgs> = Entry::new(&ROUTE_RAW, "route_gate");
const LOGITS_2: Entries =
    [Entry::new(&ROUTE, "route_logits_2"), Entry::new(&ROUTE_RAW, "route_raw_logits_2")];
const LOGITS_4: Entries =
    [Entry::new(&ROUTE, "route_logits_4"), Entry::new(&ROUTE_RAW, "route_raw_logits_4")];
const CHOOSE: Entry<RouteArgs> = Entry::new(&ROUTE, "route_choose");

const NAME: &str = "route";

/// What scores are, where they are not a softmax of the logits alone.
#[derive(Debug, Clone, Default)]
pub struct Scores {
    /// What a logit means.
    pub score: RouterScore,
    /// `[experts]`, added to scores when experts are chosen, not to their weights.
    pub bias: Option<Span<f32>>,
    /// Groups of neighbouring experts, and how many of them experts are chosen from: those with the largest values. The value of a
    /// group is its largest score of a softmax, else the sum of its two largest, biases included.
    pub groups: Option<(usize, usize)>,
    /// Experts are not chosen, only weighted.
    pub by_token: Option<ByToken>,
}

/// Experts that tokens have whatever their rows are.
#[derive(Debug, Clone)]
pub struct ByToken {
    /// `[vocab][used]`. A number that is no expert leaves a slot without one, as a token beyond the end does.
    pub table: Span<u32>,
    /// The step's.
    pub tokens: Span<u32>,
    /// `[rows]`: which of the tokens is that of a row, if rows are not all of the step's.
    pub picked: Option<Span<u32>>,
}

/// The gate of a network that every row goes through beside its experts.
#[derive(Debug, Clone)]
pub struct Share {
    /// `[cols]`.
    pub gate: Span<f32>,
    /// `[rows]`: the sigmoid of the product of a row, normalised, and the gate.
    pub out: Span<f32>,
}

impl ByToken {
    fn uses(&self) -> impl Iterator<Item = std::sync::Arc<Allocation>> {
        let spans = [&self.table, &self.tokens].into_iter().chain(&self.picked);
        spans.map(|span| span.memory().clone()).collect::<Vec<_>>().into_iter()
    }
}

/// What rows go through before the router.
#[derive(Debug, Clone)]
pub struct RouteNorm {
    /// `[cols]`.
    pub gain: Span<f32>,
    /// Added to the mean square.
    pub eps: f32,
    /// `[rows][cols]`: the rows after the norm; not `x`.
    pub normed: Span<f32>,
}

/// `normed = norm(x)`, and the experts of every row by its logits `router normed`.
///
/// Experts are those with the largest scores, of equal ones the lower number first; a NaN counts as minus infinity. A row's
/// bits depend on no other row, nor on how many there are.
#[derive(Debug, Clone)]
pub struct Route {
    /// `[rows][cols]`.
    pub x: Span<f32>,
    /// Without, rows are taken as they are.
    pub norm: Option<RouteNorm>,
    /// `[experts][cols]` in F32, F16 or BF16.
    pub router: Weight,
    /// How to choose.
    pub spec: RouterSpec,
    /// By which scores.
    pub scores: Scores,
    /// What else is computed of the rows.
    pub share: Option<Share>,
    /// `[rows][used]`: the experts of a row by descending weight.
    pub experts: Span<u32>,
    /// `[rows][used]`.
    pub weights: Span<f32>,
    /// One value, if not all rows count: how many do. The others, which fill up a graph, get numbers that are no experts and
    /// weights of 0.
    pub live: Option<Span<u32>>,
    /// [`Route::scratch_len`] values or more: 0 before the first launch, and 0 again after each one, so that launches in
    /// order share them.
    pub scratch: Span<u32>,
}

impl Route {
    /// Values of scratch memory for `rows` rows.
    #[must_use]
    pub fn scratch_len(rows: usize, experts: usize) -> usize {
        rows * route::stride(u32::try_from(experts).unwrap_or(EXPERTS)) as usize
    }

    /// The kernels, in order: one for up to 32 rows, else three, or two of rows as they are without a share.
    ///
    /// # Errors
    /// [`CudaError::NoProduct`] for a router in another format; [`CudaError::Contract`] when numbers, lengths or alignments do not
    /// fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let args = self.arguments()?;
        let norm = self.norm.iter().flat_map(|norm| [&norm.gain, &norm.normed]);
        let uses: Vec<_> = [&self.x, &self.weights]
            .into_iter()
            .chain(norm)
            .map(|span| span.memory().clone())
            .chain([&self.experts, &self.scratch].map(|span| span.memory().clone()))
            .chain(self.live.as_ref().map(|live| live.memory().clone()))
            .chain(self.scores.bias.as_ref().map(|bias| bias.memory().clone()))
            .chain(self.scores.by_token.iter().flat_map(ByToken::uses))
            .chain(
                self.share
                    .iter()
                    .flat_map(|share| [&share.gate, &share.out])
                    .map(|span| span.memory().clone()),
            )
            .chain([self.router.data().memory().clone()])
            .collect();
        let router = self.router.data().len() as u64;
        let bytes = Bytes { rows: 8 * self.x.len() as u64, router };
        Ok(if args.rows <= ROWS {
            vec![few(args, info, bytes, uses)]
        } else {
            many(args, info, bytes, &uses)
        })
    }

    fn arguments(&self) -> Result<RouteArgs, CudaError> {
        let Self { x, norm, router, spec, scores, share, experts, weights, live, scratch } = self;
        let (format, cols, count) = (router.format(), router.cols(), router.rows());
        if !matches!(format, Format::F32 | Format::F16 | Format::BF16) {
            return Err(CudaError::NoProduct { what: "a router", format });
        }
        let require = |what, found: usize, holds, rule: &dyn Fn() -> String| {
            CudaError::require(NAME, what, found as u64, holds, rule)
        };
        let equal =
            |what, found: usize, expected: usize| CudaError::equal(NAME, what, found as u64, expected as u64);
        let most = 1 << 15;
        let fits = cols > 0 && cols.is_multiple_of(4) && cols <= most;
        require("columns", cols, fits, &|| format!("a multiple of 4, at most {most}"))?;
        require("experts", count, count > 0 && count <= EXPERTS as usize, &|| format!("1 to {EXPERTS}"))?;
        let used = spec.used;
        let top = count.min(USED as usize);
        require("experts of a row", used, used > 0 && used <= top, &|| format!("1 to {top}"))?;
        let rows = x.len() / cols;
        equal("values of x", x.len(), rows * cols)?;
        let most = 1 << 20;
        require("rows", rows, rows > 0 && rows <= most, &|| format!("1 to {most}"))?;
        if let Some(RouteNorm { gain, normed, .. }) = norm {
            equal("values of the gain", gain.len(), cols)?;
            equal("normed values", normed.len(), rows * cols)?;
            let apart = normed.address() != x.address();
            require("normed values", normed.len(), apart, &|| "apart from x".to_owned())?;
        }
        equal("chosen experts", experts.len(), rows * used)?;
        equal("weights", weights.len(), rows * used)?;
        equal("numbers of live rows", live.as_ref().map_or(1, Span::len), 1)?;
        let room = Self::scratch_len(rows, count);
        require("scratch values", scratch.len(), scratch.len() >= room, &|| format!("at least {room}"))?;
        let router_address = router.data().address();
        let [gain, normed] =
            norm.as_ref().map_or([0; 2], |norm| [norm.gain.address(), norm.normed.address()]);
        let addresses = x.address() | gain | normed | scratch.address() | router_address;
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(NAME, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let plain = spec.score == RouterScore::Softmax && spec.groups.is_none();
        require("scores that `scores` should say", 1, plain, &|| "0".to_owned())?;
        let (groups, open) = scores.groups.unwrap_or_default();
        if scores.groups.is_some() {
            // Two experts, so that there are two largest.
            let fits =
                groups > 0 && groups <= GROUPS as usize && count.is_multiple_of(groups) && count / groups > 1;
            let rule = || format!("1 to {GROUPS}, of two experts or more each");
            require("groups of experts", groups, fits, &rule)?;
            let enough = open <= groups && open * (count / groups) >= used;
            require("groups of a row", open, enough, &|| format!("at most {groups}, with {used} experts"))?;
        }
        equal("biases", scores.bias.as_ref().map_or(count, Span::len), count)?;
        let mut by_token = RouteArgs::default();
        if let Some(ByToken { table, tokens, picked }) = &scores.by_token {
            let (vocab, most) = (table.len() / used, 1 << 24);
            equal("experts of tokens", table.len(), vocab * used)?;
            require("tokens of the table", vocab, vocab > 0 && vocab <= most, &|| format!("1 to {most}"))?;
            let alone = scores.bias.is_none() && scores.groups.is_none();
            require("biases and groups beside a table", 1, alone, &|| "0".to_owned())?;
            match picked {
                Some(picked) => equal("tokens of rows", picked.len(), rows)?,
                None => equal("tokens", tokens.len(), rows)?,
            }
            (by_token.table, by_token.tokens) = (table.address(), tokens.address());
            by_token.picked = picked.as_ref().map_or(0, Span::address);
            (by_token.vocab, by_token.token_count) = (vocab as u32, tokens.len() as u32);
        }
        if let Some(Share { gate, out }) = share {
            equal("weights of the share's gate", gate.len(), cols)?;
            equal("shares", out.len(), rows)?;
            let aligned = gate.address().is_multiple_of(16);
            CudaError::require(NAME, "the gate's address", gate.address(), aligned, || {
                "a multiple of 16".to_owned()
            })?;
        }
        Ok(RouteArgs {
            x: x.address(),
            gain,
            normed,
            router: router_address,
            keys: scratch.address(),
            experts: experts.address(),
            weights: weights.address(),
            live: live.as_ref().map_or(0, Span::address),
            bias: scores.bias.as_ref().map_or(0, Span::address),
            gate: share.as_ref().map_or(0, |share| share.gate.address()),
            gates: share.as_ref().map_or(0, |share| share.out.address()),
            eps: norm.as_ref().map_or(0.0, |norm| norm.eps),
            scale: spec.scale,
            cols: cols as u32,
            rows: rows as u32,
            count: count as u32,
            used: used as u32,
            format: format.id(),
            renormalize: spec.renormalize.into(),
            share: 0,
            choosers: 0,
            score: match scores.score {
                RouterScore::Softmax => route::SOFTMAX,
                RouterScore::Sigmoid => route::SIGMOID,
                RouterScore::SqrtSoftplus => route::SQRT_SOFTPLUS,
            },
            groups: groups as u32,
            open: open as u32,
            ..by_token
        })
    }
}

/// What has to move.
#[derive(Clone, Copy)]
struct Bytes {
    rows: u64,
    router: u64,
}

/// Threads of a block, a chain each. Two warps at least: they choose, a row each.
fn threads(cols: u32) -> u32 {
    (cols.div_ceil(SLAB) * SLAB / CHAIN).next_multiple_of(32).clamp(64, 512)
}

/// Which of two entry points.
fn raw(args: &RouteArgs) -> usize {
    usize::from(args.gain == 0)
}

fn few(args: RouteArgs, info: &DeviceInfo, bytes: Bytes, uses: Vec<std::sync::Arc<Allocation>>) -> Launch {
    // As many blocks as there are processors, about, with the squarest shares: they read the least.
    let (entry, experts, share) = match args.rows {
        1..=4 => (ONE, 1, 4),
        5..=8 => (TWO, 2, 4),
        9..=16 => (FOUR, 4, 4),
        _ => (FOUR, 4, 8),
    };
    let blocks = args.count.div_ceil(experts) * args.rows.div_ceil(share);
    let threads = threads(args.cols);
    // Blocks that wait must leave room for those that are waited for.
    let room = (info.processors / 4).max(1);
    let choosers = args.rows.div_ceil(threads / 32).min(blocks).min(room);
    let sums = share * (experts + 1) * route::partials(args.cols.div_ceil(SLAB));
    let grid = Grid { blocks, threads, shared_bytes: 4 * (sums + share) + GATE_BYTES };
    let args = RouteArgs { share, choosers, ..args };
    Launch::new(entry[raw(&args)], grid, args, bytes.rows + bytes.router, uses)
}

fn many(
    args: RouteArgs,
    info: &DeviceInfo,
    bytes: Bytes,
    uses: &[std::sync::Arc<Allocation>],
) -> Vec<Launch> {
    let slabs = args.cols.div_ceil(SLAB);
    let grid = Grid {
        blocks: args.rows,
        threads: threads(args.cols),
        shared_bytes: 16 * slabs.div_ceil(4) + GATE_BYTES,
    };
    let mut launches = Vec::new();
    if raw(&args) == 0 {
        launches.push(Launch::new(NORM, grid, args, bytes.rows, uses.to_vec()));
    } else if args.gate != 0 {
        let grid = Grid { shared_bytes: GATE_BYTES, ..grid };
        launches.push(Launch::new(GATE, grid, args, bytes.rows / 2, uses.to_vec()));
    }
    let tiles = |side: u32| args.rows.div_ceil(side) * args.count.div_ceil(side);
    // Large tiles read less, small ones are more.
    let (entry, side) = if tiles(64) * 2 > info.processors { (LOGITS_4, 64) } else { (LOGITS_2, 32) };
    let grid = Grid { blocks: tiles(side), threads: 256, shared_bytes: 2 * 2 * 4 * side * (SLAB + 4) };
    let bytes = bytes.rows / 2 + bytes.router;
    launches.push(Launch::new(entry[raw(&args)], grid, args, bytes, uses.to_vec()));
    let grid = Grid { blocks: args.rows.div_ceil(8), threads: 256, shared_bytes: 0 };
    let keys = 4 * u64::from(args.rows) * u64::from(args.count);
    launches.push(Launch::new(CHOOSE, grid, args, keys, uses.to_vec()));
    launches
}
