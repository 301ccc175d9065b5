//! Several products of the same few rows.

use std::ops::Range;

use super::super::launch::{Grid, Share};
use super::super::module::{Entry, FEW};
use super::super::ring::Rings;
use super::super::{CudaError, DeviceInfo, Launch, Product, Project, Span, many};
use super::{layout, rounds, scales, steps};
use crate::abi::few::{PARTS, Part, ProjectArgs, project_places};
use crate::abi::shape::Class;
use crate::abi::tiles::{TILE_ROWS, tile_bytes};

const ENTRY: Entry<ProjectArgs> = Entry::new(&FEW, "few_project");

/// The launches for `parts` of `op`, which are of one class.
pub(in super::super) fn project(
    op: &Project,
    info: &DeviceInfo,
    class: Class,
    parts: &[&Product],
    workspace: Option<&Span<u8>>,
) -> Result<Vec<Launch>, CudaError> {
    let cols = parts.first().map_or(0, |part| part.weight.cols());
    let (mut launches, mut rounded) = (Vec::new(), None);
    if let (Some(workspace), 2..) = (workspace, op.rows) {
        // Every block would round all rows for itself.
        let shape = (op.rows, cols, scales(class));
        let rows = many::Rows::new(&mut many::Workspace::new(workspace), op.rows, cols, scales(class))?;
        launches.push(many::round(op.source(), op.norm.as_ref(), shape, &rows));
        rounded = Some(rows);
    }
    for parts in parts.chunks(PARTS) {
        let tiles: u32 = parts.iter().map(|part| (part.weight.rows() as u32).div_ceil(TILE_ROWS)).sum();
        let least = op.tuning.warps().div_ceil(cols.div_ceil(256) as u32);
        let blocks = op.tuning.grid(info).min(tiles);
        let round = rounds(least, tiles.div_ceil(blocks), cols, op.rows);
        let bytes = |rows| project_places(layout(class, cols, rows), round).bytes;
        for rows in steps(ENTRY.name, info, op.rows, bytes)? {
            let rows = (rows, rounded.as_ref());
            let (Share { args, bytes, uses, .. }, grid) =
                arguments(op, info, class, parts, (blocks, round), rows)?;
            launches.push(Launch::new(ENTRY, grid, args, bytes, uses));
        }
    }
    Ok(launches)
}

/// What a launch for one row in at most `blocks` blocks is made of; `parts` are as many as one takes.
pub(in super::super) fn one_row(
    op: &Project,
    info: &DeviceInfo,
    (class, parts): (Class, &[&Product]),
    blocks: u32,
) -> Result<(Share<ProjectArgs>, Grid), CudaError> {
    let cols = parts.first().map_or(0, |part| part.weight.cols());
    let tiles: u32 = parts.iter().map(|part| (part.weight.rows() as u32).div_ceil(TILE_ROWS)).sum();
    let least = op.tuning.warps().div_ceil(cols.div_ceil(256) as u32);
    let blocks = blocks.min(tiles);
    let round = rounds(least, tiles.div_ceil(blocks), cols, 1);
    arguments(op, info, class, parts, (blocks, round), (0..1, None))
}

fn arguments(
    op: &Project,
    info: &DeviceInfo,
    class: Class,
    parts: &[&Product],
    (blocks, round): (u32, u32),
    (rows, rounded): (Range<usize>, Option<&many::Rows>),
) -> Result<(Share<ProjectArgs>, Grid), CudaError> {
    let cols = parts.first().map_or(0, |part| part.weight.cols());
    let mut args = ProjectArgs {
        x: op.x.address() + 4 * (rows.start * cols) as u64,
        cols: cols as u32,
        tokens: rows.len() as u32,
        scales: scales(class),
        round,
        ..ProjectArgs::default()
    };
    let mut uses = vec![op.x.memory().clone()];
    let mut bytes = 4 * rows.len() * cols;
    if let Some(rounded) = rounded {
        args.x = 0;
        args.rounded = rounded.argument(rows.start, cols, args.scales);
        uses.push(rounded.values.memory().clone());
    } else if let Some((gain, eps)) = &op.norm {
        (args.gain, args.eps) = (gain.address(), *eps);
        uses.push(gain.memory().clone());
    } else if let Some(gate) = &op.gate {
        args.gate = gate.address() + 4 * (rows.start * cols) as u64;
        uses.push(gate.memory().clone());
    }
    for (part, argument) in parts.iter().zip(&mut args.parts) {
        let Product { weight, bias, out, accumulate } = part;
        *argument = Part {
            weight: weight.data().address(),
            bias: bias.as_ref().map_or(0, Span::address),
            out: out.address() + 4 * (rows.start * weight.rows()) as u64,
            rows: weight.rows() as u32,
            format: weight.format().id(),
            tile_bytes: tile_bytes(weight.format().id()),
            before: args.tiles,
            accumulate: (*accumulate).into(),
            reserved: 0,
        };
        args.tiles += (weight.rows() as u32).div_ceil(TILE_ROWS);
        uses.extend([weight.data().memory().clone(), out.memory().clone()]);
        uses.extend(bias.as_ref().map(|bias| bias.memory().clone()));
        bytes += weight.data().len() + 4 * rows.len() * weight.rows();
    }
    let fixed = project_places(layout(class, cols, rows.len()), round).bytes;
    let warps = op.tuning.warps();
    args.stage_bytes = args.parts.iter().map(|part| part.tile_bytes).max().unwrap_or(0);
    let turns = args.tiles.div_ceil(blocks).div_ceil(round) as usize
        * (round as usize * cols.div_ceil(256)).div_ceil(warps as usize);
    let rings = Rings::new(ENTRY.name, info, op.tuning, fixed, args.stage_bytes, turns as u64)?;
    args.stages = rings.stages;
    Ok((Share { args, blocks, bytes: bytes as u64, uses }, rings.grid(blocks)))
}
