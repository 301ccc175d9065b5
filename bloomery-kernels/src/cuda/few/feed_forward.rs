//! Feed-forward blocks of a few rows.

use std::ops::Range;

use super::super::module::{Entry, FEW};
use super::super::ring::Rings;
use super::super::{CudaError, DeviceInfo, FeedForward, Launch, Span, Tuning, many};
use super::{layout, rounds, scales, steps};
use crate::abi::few::{DownArgs, GateUpArgs, down_places, gate_up_places};
use crate::abi::routes::{PAIRS, TOKENS};
use crate::abi::shape::Class;
use crate::abi::tiles::{TILE_ROWS, tile_bytes};

const GATE_UP: Entry<GateUpArgs> = Entry::new(&FEW, "few_gate_up");
const DOWN: Entry<DownArgs> = Entry::new(&FEW, "few_down");

/// The launches, two for every few rows; `classes` are those of the two halves.
pub(in super::super) fn feed_forward(
    op: &FeedForward,
    info: &DeviceInfo,
    classes: [Class; 2],
    workspace: Option<&Span<u8>>,
) -> Result<Vec<Launch>, CudaError> {
    let (cols, hidden, used) = (op.gate.cols(), op.gate.rows(), op.used());
    let bytes = |rows: usize| {
        let pairs = rows * used;
        if pairs > PAIRS as usize {
            return u32::MAX;
        }
        let first = gate_up_places(layout(classes[0], cols, rows), 1).bytes;
        first.max(down_places(layout(classes[1], hidden, pairs)).bytes)
    };
    let mut launches = Vec::new();
    for rows in steps("feed-forward", info, op.rows, bytes)? {
        let pairs = rows.len() * used;
        let (mut first, mut second) = (None, None);
        if let (Some(workspace), 2..) = (workspace, rows.len()) {
            // Every block would round all rows for itself.
            let mut workspace = many::Workspace::new(workspace);
            first = Some(many::Rows::new(&mut workspace, rows.len(), cols, scales(classes[0]))?);
            second = Some(many::Rows::new(&mut workspace, pairs, hidden, scales(classes[1]))?);
        }
        if let Some(to) = &first {
            let x = op.x.slice(rows.start * cols..rows.end * cols)?;
            let shape = (rows.len(), cols, scales(classes[0]));
            launches.push(many::round((&x, None), op.norm.as_ref(), shape, to));
        }
        launches.push(gate_up(op, info, classes[0], (rows.clone(), first.as_ref()))?);
        if let Some(to) = &second {
            let start = rows.start % TOKENS as usize * used * hidden;
            let x = op.hidden.slice(start..start + pairs * hidden)?;
            launches.push(many::round((&x, None), None, (pairs, hidden, scales(classes[1])), to));
        }
        launches.push(down(op, info, classes[1], (rows, second.as_ref()))?);
    }
    Ok(launches)
}

/// The first half for a few rows, which may have been rounded before.
pub(in super::super) fn gate_up(
    op: &FeedForward,
    info: &DeviceInfo,
    class: Class,
    (rows, rounded): (Range<usize>, Option<&many::Rows>),
) -> Result<Launch, CudaError> {
    let (tokens, cols, hidden) = (rows.len(), op.gate.cols(), op.gate.rows());
    let (gain, eps) = op.norm.as_ref().map_or((0, 0.0), |(gain, eps)| (gain.address(), *eps));
    let mut args = GateUpArgs {
        x: if rounded.is_some() { 0 } else { op.x.address() + 4 * (rows.start * cols) as u64 },
        gain: if rounded.is_some() { 0 } else { gain },
        rounded: rounded.map_or_else(Default::default, |rows| rows.argument(0, cols, scales(class))),
        hidden: op.hidden_of(&rows),
        routes: op.routes(&rows),
        gate: op.gate.tiled(),
        up: op.up.tiled(),
        eps,
        cols: cols as u32,
        tokens: tokens as u32,
        scales: scales(class),
        stages: 0,
        stage_bytes: tile_bytes(op.gate.format().id()),
        round: 1,
        act: op.act(),
    };
    let mut uses = op.gate_up_uses();
    uses.extend(rounded.map(|rows| rows.values.memory().clone()));
    let experts = op.most_experts(tokens);
    let units = experts as u32 * (hidden as u32).div_ceil(TILE_ROWS);
    // Two blocks on a multiprocessor: they do not wait for each other.
    let tuning = Tuning { warps: op.tuning.warps() / 2, ..op.tuning };
    let (warps, blocks) = (tuning.warps(), (2 * tuning.grid(info)).min(units));
    // A thread adds up one result, and all of a round's have room.
    let threads = 32 * warps / 16 / tokens as u32;
    args.round = rounds(1, units.div_ceil(blocks).min(threads.max(1)), 2 * cols, tokens);
    let fixed = gate_up_places(layout(class, cols, tokens), args.round).bytes;
    let turns = units.div_ceil(blocks) as usize * (2 * cols.div_ceil(256)).div_ceil(warps as usize);
    let rings = Rings::new(GATE_UP.name, info, tuning, fixed, args.stage_bytes, turns as u64)?;
    args.stages = rings.stages;
    let bytes = experts * 2 * op.gate.expert_bytes() + 4 * tokens * (cols + op.used() * hidden);
    Ok(Launch::new(GATE_UP, rings.grid(blocks), args, bytes as u64, uses))
}

/// The second half for a few rows.
pub(in super::super) fn down(
    op: &FeedForward,
    info: &DeviceInfo,
    class: Class,
    (rows, rounded): (Range<usize>, Option<&many::Rows>),
) -> Result<Launch, CudaError> {
    let (tokens, cols, outputs) = (rows.len(), op.down.cols(), op.down.rows());
    let pairs = tokens * op.used();
    let mut args = DownArgs {
        hidden: if rounded.is_some() { 0 } else { op.hidden_of(&rows) },
        rounded: rounded.map_or_else(Default::default, |rows| rows.argument(0, cols, scales(class))),
        out: op.out.address() + 4 * (rows.start * outputs) as u64,
        routes: op.routes(&rows),
        down: op.down.tiled(),
        cols: cols as u32,
        tokens: tokens as u32,
        scales: scales(class),
        stages: 0,
        stage_bytes: tile_bytes(op.down.format().id()),
        replace: (!op.accumulate).into(),
    };
    let mut uses = op.down_uses();
    uses.extend(rounded.map(|rows| rows.values.memory().clone()));
    let tiles = (outputs as u32).div_ceil(TILE_ROWS);
    let fixed = down_places(layout(class, cols, pairs)).bytes;
    let (warps, blocks) = (op.tuning.warps(), op.tuning.grid(info).min(tiles));
    let items = op.most_experts(tokens) * cols.div_ceil(256);
    let turns = tiles.div_ceil(blocks) as usize * items.div_ceil(warps as usize);
    let rings = Rings::new(DOWN.name, info, op.tuning, fixed, args.stage_bytes, turns as u64)?;
    args.stages = rings.stages;
    let bytes = op.most_experts(tokens) * op.down.expert_bytes() + 4 * (pairs * cols + 2 * tokens * outputs);
    Ok(Launch::new(DOWN, rings.grid(blocks), args, bytes as u64, uses))
}
