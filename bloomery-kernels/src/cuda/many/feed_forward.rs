//! Feed-forward blocks of many rows.

use super::super::few;
use super::super::launch::Grid;
use super::super::module::{Entry, MANY};
use super::super::route::{Group, Tiles};
use super::super::{CudaError, DeviceInfo, FeedForward, Launch, Routed, Span};
use super::products::{Target, Whose, columns, products};
use super::{Rows, Workspace, piece_bytes, round, rounded_bytes};
use crate::abi::many::CombineArgs;
use crate::abi::shape::Class;

const COMBINE: Entry<CombineArgs> = Entry::new(&MANY, "many_combine");

/// Bytes of a workspace for `rows` rows of `used` experts of `count` each: no more than for the widest rounding.
pub(in super::super) fn feed_forward_bytes(
    rows: usize,
    (used, count): (usize, usize),
    (cols, hidden, outputs): (usize, usize, usize),
) -> usize {
    let pairs = rows * used;
    let rounded = |rows, cols| rounded_bytes(rows, cols, 1).max(rounded_bytes(rows, cols, 8));
    let tiles = Group::most_tiles(pairs, count, columns(rows));
    let words = [count + 1, pairs, 4 * tiles, 1, Group::scratch_len(pairs, count)];
    rounded(rows, cols)
        + 2 * piece_bytes(4 * pairs * hidden)
        + rounded(pairs, hidden)
        + piece_bytes(4 * pairs * outputs)
        + words.into_iter().map(|len| piece_bytes(4 * len)).sum::<usize>()
}

/// The launches; `classes` are those of the two halves.
pub(in super::super) fn feed_forward(
    op: &FeedForward,
    info: &DeviceInfo,
    classes: [Class; 2],
    workspace: &Span<u8>,
) -> Result<Vec<Launch>, CudaError> {
    let FeedForward { x, rows, norm, routed, gate, up, down, out, .. } = op;
    let (cols, hidden, outputs, used) = (gate.cols(), gate.rows(), down.rows(), op.used());
    let (rows, pairs) = (*rows, *rows * used);
    let scales = classes.map(few::scales);
    let mut workspace = Workspace::new(workspace);
    let mut launches = Vec::new();

    let grouped = match routed {
        None => None,
        Some(Routed { experts, .. }) => {
            let (size, count) = (columns(rows), op.experts());
            let most = Group::most_tiles(pairs, count, size);
            let group = Group {
                experts: experts.clone(),
                count,
                offsets: workspace.take(count + 1)?,
                order: workspace.take(pairs)?,
                tiles: Tiles { size, list: workspace.take(4 * most)?, count: workspace.take(1)? },
                scratch: workspace.take(Group::scratch_len(pairs, count))?,
            };
            launches.extend(group.launches(info)?);
            Some((group, most))
        }
    };
    let whose = |used| match &grouped {
        None => Whose::All,
        Some((group, most)) => Whose::Experts {
            tiles: &group.tiles,
            most: *most,
            order: &group.order,
            seats: routed.as_ref().and_then(|routed| routed.seats.as_ref()),
            used,
        },
    };

    let rounded = Rows::new(&mut workspace, rows, cols, scales[0])?;
    let shape = (rows, cols, scales[0]);
    launches.push(round((x, None), norm.as_ref(), shape, &rounded));
    let (gates, ups) = (workspace.take(pairs * hidden)?, workspace.take(pairs * hidden)?);
    let target = |weight: &super::super::WeightStack, out| Target {
        weight: weight.clone(),
        bias: None,
        out,
        accumulate: false,
    };
    let targets = [target(gate, &gates), target(up, &ups)];
    launches.push(products(info, &rounded, shape, &whose(used), &targets)?);

    let rounded = Rows::new(&mut workspace, pairs, hidden, scales[1])?;
    let shape = (pairs, hidden, scales[1]);
    launches.push(round((&gates, Some((&ups, op.act()))), None, shape, &rounded));
    match routed {
        None => {
            let targets = [Target { accumulate: op.accumulate, ..target(down, out) }];
            launches.push(products(info, &rounded, shape, &whose(1), &targets)?);
        }
        Some(routed) => {
            let y = workspace.take(pairs * outputs)?;
            launches.push(products(info, &rounded, shape, &whose(1), &[target(down, &y)])?);
            launches.push(combine(op, info, routed, &y));
        }
    }
    Ok(launches)
}

fn combine(op: &FeedForward, info: &DeviceInfo, routed: &Routed, y: &Span<f32>) -> Launch {
    let (tokens, cols) = (op.rows, op.down.rows());
    let args = CombineArgs {
        y: y.address(),
        out: op.out.address(),
        experts: routed.experts.address(),
        weights: routed.weights.address(),
        tokens: tokens as u32,
        cols: cols as u32,
        used: routed.used as u32,
        count: op.experts() as u32,
        replace: (!op.accumulate).into(),
        padding: 0,
    };
    let uses = [y.memory(), op.out.memory(), routed.experts.memory(), routed.weights.memory()];
    let quads = tokens * cols / 4;
    let blocks = quads.div_ceil(256).min(16 * info.processors as usize).max(1) as u32;
    let grid = Grid { blocks, threads: 256, shared_bytes: 0 };
    let bytes = 4 * (tokens * routed.used * cols + 2 * tokens * cols);
    Launch::new(COMBINE, grid, args, bytes as u64, uses.map(Clone::clone).to_vec())
}
