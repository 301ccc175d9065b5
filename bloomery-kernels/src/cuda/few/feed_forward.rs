//! Feed-forward blocks of a few rows.

use std::ops::Range;

use super::super::module::{Entry, FEW};
use super::super::ring::Rings;
use super::super::{CudaError, DeviceInfo, FeedForward, Launch, Span, Tuning, many};
use super::{layout, rounds, scales, steps};
use crate::abi::few::{Down, DownArgs, GateUp, GateUpArgs, down_places, gate_up_places};
use crate::abi::rounded::Layout;
use crate::abi::routes::{PAIRS, TOKENS};
use crate::abi::shape::Class;
use crate::abi::tiles::{TILE_ROWS, tile_bytes};

/// Without a network beside the experts, and with one.
const GATE_UP: [Entry<GateUpArgs>; 2] =
    [Entry::new(&FEW, "few_gate_up"), Entry::new(&FEW, "few_gate_up_beside")];
const DOWN: [Entry<DownArgs>; 2] = [Entry::new(&FEW, "few_down"), Entry::new(&FEW, "few_down_beside")];

/// A network and the classes of its halves.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Network<'a> {
    pub(in super::super) op: &'a FeedForward,
    pub(in super::super) classes: [Class; 2],
}

impl Network<'_> {
    /// Shared memory of the first half without rings, but for more than one unit between two barriers.
    fn first_bytes(&self, rows: usize) -> u32 {
        gate_up_places(layout(self.classes[0], self.op.gate.cols(), rows), 1).bytes
    }

    /// The rows of the second half.
    fn hidden(&self, rows: usize) -> Layout {
        layout(self.classes[1], self.op.down.cols(), rows * self.op.used())
    }

    /// Units of work of the first half, and the bytes of all their tiles.
    fn units(&self, rows: usize) -> u32 {
        self.op.most_experts(rows) as u32 * (self.op.gate.rows() as u32).div_ceil(TILE_ROWS)
    }

    fn first_tiles_bytes(&self, rows: usize) -> u64 {
        let gate = &self.op.gate;
        u64::from(self.units(rows))
            * gate.cols().div_ceil(256) as u64
            * u64::from(tile_bytes(gate.format().id()))
    }
}

/// Experts, and a network beside them.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Networks<'a> {
    pub(in super::super) experts: Network<'a>,
    pub(in super::super) beside: Option<Network<'a>>,
}

impl<'a> Networks<'a> {
    /// Which of two entry points.
    fn entry(&self) -> usize {
        usize::from(self.beside.is_some())
    }

    fn iter(&self) -> impl Iterator<Item = Network<'a>> + use<'a> {
        [Some(self.experts), self.beside].into_iter().flatten()
    }

    /// Blocks of the first half of each: as many as it has bytes to read, two on a multiprocessor. They do not wait for each other.
    fn blocks(&self, info: &DeviceInfo, tokens: usize) -> [u32; 2] {
        let all = 2 * self.experts.op.tuning.grid(info);
        let units = self.experts.units(tokens);
        let Some(beside) = &self.beside else { return [all.min(units), 0] };
        let [own, other] = [self.experts.first_tiles_bytes(tokens), beside.first_tiles_bytes(tokens)];
        let share = (u64::from(all) * other).div_ceil((own + other).max(1)) as u32;
        let second = share.clamp(1, all - 1).min(beside.units(tokens));
        [(all - second).min(units), second]
    }
}

impl Networks<'_> {
    /// Shared memory for `rows` rows, without rings.
    fn bytes(&self, rows: usize) -> u32 {
        if rows * self.experts.op.used() > PAIRS as usize {
            return u32::MAX;
        }
        let first = self.iter().map(|network| network.first_bytes(rows)).max().unwrap_or(0);
        first.max(second_bytes(self, rows))
    }

    fn steps(&self, info: &DeviceInfo) -> Result<Vec<Range<usize>>, CudaError> {
        steps("feed-forward", info, self.experts.op.rows, |rows| self.bytes(rows))
    }

    /// Whether the network beside the experts fits into their launches: with its rows in shared memory there may be room for fewer
    /// rows at a time, and every part of the rows reads all weights again. (8 rows of DeepSeek-V2-Lite as 7 and 1 take 123 us a
    /// layer, 106 with a network of its own launches.)
    pub(in super::super) fn fits(&self, info: &DeviceInfo) -> Result<bool, CudaError> {
        let alone = Self { beside: None, ..*self };
        Ok(self.steps(info)?.len() <= alone.steps(info)?.len())
    }
}

/// Rows that are rounded in memory, of each network.
#[derive(Debug, Default)]
struct Rounded {
    first: [Option<many::Rows>; 2],
    second: [Option<many::Rows>; 2],
}

/// The launches, two for every few rows.
pub(in super::super) fn feed_forward(
    networks: Networks<'_>,
    info: &DeviceInfo,
    workspace: Option<&Span<u8>>,
) -> Result<Vec<Launch>, CudaError> {
    let mut launches = Vec::new();
    for rows in networks.steps(info)? {
        let mut rounded = Rounded::default();
        if let (Some(workspace), 2..) = (workspace, rows.len()) {
            // Every block would round all rows for itself.
            rounded = round_firsts(&networks, &rows, workspace, &mut launches)?;
        }
        launches.push(gate_up(&networks, info, &rows, rounded.first.each_ref().map(Option::as_ref))?);
        for (network, to) in networks.iter().zip(&rounded.second) {
            let Some(to) = to else { continue };
            let (op, cols) = (network.op, network.op.down.cols());
            let (used, pairs) = (op.used(), rows.len() * op.used());
            let start = rows.start % TOKENS as usize * used * cols;
            let x = op.hidden.slice(start..start + pairs * cols)?;
            launches.push(many::round((&x, None), None, (pairs, cols, scales(network.classes[1])), to));
        }
        launches.push(down(&networks, info, &rows, rounded.second.each_ref().map(Option::as_ref))?);
    }
    Ok(launches)
}

/// Rounds what the first halves read, once where they want the same, and finds room for what the second ones do.
fn round_firsts(
    networks: &Networks<'_>,
    rows: &Range<usize>,
    workspace: &Span<u8>,
    launches: &mut Vec<Launch>,
) -> Result<Rounded, CudaError> {
    let mut workspace = many::Workspace::new(workspace);
    let mut rounded = Rounded::default();
    for (i, network) in networks.iter().enumerate() {
        let (op, [first, second]) = (network.op, network.classes.map(scales));
        let (cols, pairs) = (op.gate.cols(), rows.len() * op.used());
        let same = i == 1 && first == scales(networks.experts.classes[0]);
        rounded.first[i] = if same {
            rounded.first[0].clone()
        } else {
            let to = many::Rows::new(&mut workspace, rows.len(), cols, first)?;
            let x = op.x.slice(rows.start * cols..rows.end * cols)?;
            launches.push(many::round((&x, None), op.norm.as_ref(), (rows.len(), cols, first), &to));
            Some(to)
        };
        rounded.second[i] = Some(many::Rows::new(&mut workspace, pairs, op.down.cols(), second)?);
    }
    Ok(rounded)
}

/// The first halves for a few rows, which may have been rounded before.
pub(in super::super) fn gate_up(
    networks: &Networks<'_>,
    info: &DeviceInfo,
    rows: &Range<usize>,
    rounded: [Option<&many::Rows>; 2],
) -> Result<Launch, CudaError> {
    let (op, tokens) = (networks.experts.op, rows.len());
    let blocks = networks.blocks(info, tokens);
    let mut args = GateUpArgs {
        cols: op.gate.cols() as u32,
        tokens: tokens as u32,
        act: op.act().act,
        first: blocks[0],
        ..GateUpArgs::default()
    };
    if rounded[0].is_none() {
        args.x = op.x.address() + 4 * (rows.start * op.gate.cols()) as u64;
        (args.gain, args.eps) = op.norm.as_ref().map_or((0, 0.0), |(gain, eps)| (gain.address(), *eps));
    }
    let tuning = Tuning { warps: op.tuning.warps() / 2, ..op.tuning };
    let warps = tuning.warps();
    let turns = |network: Network<'_>, units: u32| {
        units as usize * (2 * network.op.gate.cols().div_ceil(256)).div_ceil(warps as usize)
    };
    // A thread adds up one result, and all of a round's have room.
    let threads = 32 * warps / 16 / tokens as u32;
    let units = |i: usize, network: &Network<'_>| network.units(tokens).div_ceil(blocks[i]);
    let each = networks.iter().enumerate().map(|(i, network)| units(i, &network)).min().unwrap_or(1);
    args.round = rounds(1, each.min(threads.max(1)), 2 * op.gate.cols(), tokens);
    let (mut uses, mut fixed, mut most) = (Vec::new(), 0, 0);
    let mut bytes = 4 * tokens * op.gate.cols();
    for (i, network) in networks.iter().enumerate() {
        let Network { op, classes: [class, _] } = network;
        let cols = op.gate.cols();
        args.networks[i] = GateUp {
            rounded: rounded[i].map_or_else(Default::default, |rows| rows.argument(0, cols, scales(class))),
            hidden: op.hidden_of(rows),
            routes: op.routes(rows),
            gate: op.gate.tiled(),
            up: op.up.tiled().weight,
            limit: op.act().limit,
            reserved: 0,
        };
        args.stage_bytes = args.stage_bytes.max(tile_bytes(op.gate.format().id()));
        fixed = fixed.max(gate_up_places(layout(class, cols, tokens), args.round).bytes);
        most = most.max(turns(network, units(i, &network)));
        uses.extend(op.gate_up_uses());
        uses.extend(rounded[i].map(|rows| rows.values.memory().clone()));
        bytes +=
            op.most_experts(tokens) * 2 * op.gate.expert_bytes() + 4 * tokens * op.used() * op.gate.rows();
    }
    let rings =
        Rings::new(GATE_UP[networks.entry()].name, info, tuning, fixed, args.stage_bytes, most as u64)?;
    args.stages = rings.stages;
    Ok(Launch::new(GATE_UP[networks.entry()], rings.grid(blocks[0] + blocks[1]), args, bytes as u64, uses))
}

/// Shared memory of the second halves without rings.
fn second_bytes(networks: &Networks<'_>, rows: usize) -> u32 {
    let none = Layout { blocks: 0, scales: 1, rows: 0 };
    let beside = networks.beside.map_or(none, |beside| beside.hidden(rows));
    down_places(networks.experts.hidden(rows), beside).bytes
}

/// The second halves for a few rows.
pub(in super::super) fn down(
    networks: &Networks<'_>,
    info: &DeviceInfo,
    rows: &Range<usize>,
    rounded: [Option<&many::Rows>; 2],
) -> Result<Launch, CudaError> {
    let op = networks.experts.op;
    let (tokens, outputs) = (rows.len(), op.down.rows());
    let mut args = DownArgs {
        out: op.out.address() + 4 * (rows.start * outputs) as u64,
        tokens: tokens as u32,
        // Of the two the network is the first.
        replace: (!networks.beside.as_ref().map_or(op, |beside| beside.op).accumulate).into(),
        ..DownArgs::default()
    };
    let (mut uses, mut bytes, mut items) = (Vec::new(), 8 * tokens * outputs, 0);
    for (i, Network { op, classes: [_, class] }) in networks.iter().enumerate() {
        let (cols, scales) = (op.down.cols(), scales(class));
        args.networks[i] = Down {
            hidden: if rounded[i].is_some() { 0 } else { op.hidden_of(rows) },
            rounded: rounded[i].map_or_else(Default::default, |rows| rows.argument(0, cols, scales)),
            routes: op.routes(rows),
            down: op.down.tiled(),
            cols: cols as u32,
            scales,
        };
        args.stage_bytes = args.stage_bytes.max(tile_bytes(op.down.format().id()));
        uses.extend(op.down_uses());
        uses.extend(rounded[i].map(|rows| rows.values.memory().clone()));
        items += op.most_experts(tokens) * cols.div_ceil(256);
        bytes += op.most_experts(tokens) * op.down.expert_bytes() + 4 * tokens * op.used() * cols;
    }
    let tiles = (outputs as u32).div_ceil(TILE_ROWS);
    let (warps, blocks) = (op.tuning.warps(), op.tuning.grid(info).min(tiles));
    let turns = tiles.div_ceil(blocks) as usize * items.div_ceil(warps as usize);
    let fixed = second_bytes(networks, tokens);
    let rings =
        Rings::new(DOWN[networks.entry()].name, info, op.tuning, fixed, args.stage_bytes, turns as u64)?;
    args.stages = rings.stages;
    Ok(Launch::new(DOWN[networks.entry()], rings.grid(blocks), args, bytes as u64, uses))
}
