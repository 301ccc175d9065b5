//! Products of many rows: of one matrix, or of an expert's for the pairs that chose it.

use super::super::few;
use super::super::launch::Grid;
use super::super::module::{Entry, MANY};
use super::super::route::Tiles;
use super::super::{CudaError, DeviceInfo, Launch, Product, Project, Span, WeightStack};
use super::{Rows, Workspace, round};
use crate::abi::few::{PARTS, Part};
use crate::abi::many::{COLUMNS, ProductArgs, ROWS, WARPS, products_bytes};
use crate::abi::shape::Class;
use crate::abi::tiles::tile_bytes;

const ENTRY: Entry<ProductArgs> = Entry::new(&MANY, "many_products");

/// One product: the matrices, a bias, where it goes and whether it is added there.
pub(super) struct Target<'a> {
    pub(super) weight: WeightStack,
    pub(super) bias: Option<&'a Span<f32>>,
    pub(super) out: &'a Span<f32>,
    pub(super) accumulate: bool,
}

/// Whose rows are multiplied.
pub(super) enum Whose<'a> {
    /// All, with the first matrices.
    All,
    /// Pairs by expert; row `pair / used` is a pair's. Experts may have other numbers among the matrices.
    Experts { tiles: &'a Tiles, most: usize, order: &'a Span<u32>, seats: Option<&'a Span<u32>>, used: usize },
}

/// Rows of activations of a block: fewer leave room for more stages.
pub(super) fn columns(rows: usize) -> usize {
    if rows <= COLUMNS as usize { 32 } else { COLUMNS as usize }
}

/// The kernel for `rows` rows in `x`.
pub(super) fn products(
    info: &DeviceInfo,
    x: &Rows,
    (rows, cols, scales): (usize, usize, u32),
    whose: &Whose<'_>,
    targets: &[Target<'_>],
) -> Result<Launch, CudaError> {
    let mut args = ProductArgs {
        x: x.argument(0, cols, scales),
        used: 1,
        rows: rows as u32,
        blocks: cols.div_ceil(256) as u32,
        scales,
        ..ProductArgs::default()
    };
    let mut uses = vec![x.values.memory().clone()];
    args.columns = columns(rows) as u32;
    let mut across = rows.div_ceil(columns(rows));
    let mut read = 1;
    if let Whose::Experts { tiles, most, order, seats, used } = whose {
        (args.tiles, args.tile_count, args.order) =
            (tiles.list.address(), tiles.count.address(), order.address());
        args.used = *used as u32;
        args.seats = seats.map_or(0, Span::address);
        uses.extend(seats.map(|seats| seats.memory().clone()));
        uses.extend([tiles.list.memory().clone(), tiles.count.memory().clone(), order.memory().clone()]);
        args.columns = tiles.size as u32;
        across = *most;
        read = most.min(&targets.first().map_or(1, |target| target.weight.count())).to_owned();
    }
    args.matrices = targets.iter().map(|target| target.weight.count()).min().unwrap_or(0) as u32;
    let mut bytes = rows * cols;
    for (target, (argument, stride)) in targets.iter().zip(args.parts.iter_mut().zip(&mut args.strides)) {
        let Target { weight, bias, out, accumulate } = target;
        let stack = weight.tiled();
        *stride = stack.stride;
        *argument = Part {
            weight: stack.weight,
            bias: bias.map_or(0, Span::address),
            out: out.address(),
            rows: stack.rows,
            format: stack.format,
            tile_bytes: stack.tile_bytes,
            before: args.down,
            accumulate: (*accumulate).into(),
            reserved: 0,
        };
        args.down += stack.rows.div_ceil(ROWS);
        args.tile_bytes = args.tile_bytes.max(tile_bytes(stack.format));
        uses.extend([weight.data().memory().clone(), out.memory().clone()]);
        uses.extend(bias.map(|bias| bias.memory().clone()));
        bytes += read * weight.expert_bytes() + 4 * rows * weight.rows();
    }
    // The kernel counts rows in blocks with 32 bits.
    let rounded = rows as u64 * cols.div_ceil(256) as u64;
    let rule = || format!("at most {}", u32::MAX);
    CudaError::require(ENTRY.name, "blocks of activations", rounded, u32::try_from(rounded).is_ok(), rule)?;
    let blocks = across as u64 * u64::from(args.down);
    let most = u64::from(u32::MAX >> 1);
    CudaError::require(ENTRY.name, "blocks", blocks, blocks > 0 && blocks <= most, || {
        format!("1 to {most}")
    })?;
    // Two blocks on a multiprocessor.
    let bytes_of = |stages| products_bytes(scales, args.columns, args.tile_bytes, stages);
    let stages = (2..=4).rev().find(|stages| bytes_of(*stages) <= info.shared_target());
    args.stages = stages.unwrap_or(2);
    let shared_bytes = bytes_of(args.stages);
    let rule = || format!("at most {}", info.shared_per_block);
    let fits = shared_bytes <= info.shared_per_block;
    CudaError::require(ENTRY.name, "shared memory", shared_bytes.into(), fits, rule)?;
    let grid = Grid { blocks: blocks as u32, threads: 32 * WARPS, shared_bytes };
    Ok(Launch::new(ENTRY, grid, args, bytes as u64, uses))
}

/// The launches for `parts` of `op`, which are of one class: rows rounded, then multiplied.
pub(in super::super) fn project(
    op: &Project,
    info: &DeviceInfo,
    class: Class,
    parts: &[&Product],
    workspace: &Span<u8>,
) -> Result<Vec<Launch>, CudaError> {
    let (cols, scales) = (parts.first().map_or(0, |part| part.weight.cols()), few::scales(class));
    let x = Rows::new(&mut Workspace::new(workspace), op.rows, cols, scales)?;
    let shape = (op.rows, cols, scales);
    let mut launches = vec![round(op.source(), op.norm.as_ref(), shape, &x)];
    for parts in parts.chunks(PARTS) {
        let targets: Vec<Target<'_>> = parts
            .iter()
            .map(|part| Target {
                weight: WeightStack::dense(&part.weight),
                bias: part.bias.as_ref(),
                out: &part.out,
                accumulate: part.accumulate,
            })
            .collect();
        launches.push(products(info, &x, shape, &Whose::All, &targets)?);
    }
    Ok(launches)
}
