//! Rows rounded into memory.

use super::super::activated::Activated;
use super::super::launch::Grid;
use super::super::module::{Entry, MANY};
use super::super::{CudaError, Launch, Span};
use super::{Workspace, piece_bytes};
use crate::abi::many::RoundArgs;
use crate::abi::rounded::{BLOCK, Rounded, SUMS};

const ENTRY: Entry<RoundArgs> = Entry::new(&MANY, "many_round");

/// Rounded rows.
#[derive(Debug, Clone)]
pub(in super::super) struct Rows {
    pub(in super::super) values: Span<u8>,
    pub(in super::super) sums: Span<u8>,
    pub(in super::super) scales: Span<f32>,
}

/// Values, sums and scales of `rows` rows.
fn lengths(rows: usize, cols: usize, scales: u32) -> [usize; 3] {
    let blocks = rows * cols.div_ceil(BLOCK as usize);
    [blocks * BLOCK as usize, if scales == 1 { blocks * SUMS as usize } else { 0 }, blocks * scales as usize]
}

/// Bytes of a workspace for `rows` rounded rows.
pub(in super::super) fn rounded_bytes(rows: usize, cols: usize, scales: u32) -> usize {
    let [values, sums, floats] = lengths(rows, cols, scales);
    piece_bytes(values) + piece_bytes(sums) + piece_bytes(4 * floats)
}

impl Rows {
    pub(in super::super) fn new(
        workspace: &mut Workspace,
        rows: usize,
        cols: usize,
        scales: u32,
    ) -> Result<Self, CudaError> {
        let [values, sums, floats] = lengths(rows, cols, scales);
        Ok(Self {
            values: workspace.take(values)?,
            sums: workspace.take(sums)?,
            scales: workspace.take(floats)?,
        })
    }

    /// Rows from `first` on, as the kernels take them.
    pub(in super::super) fn argument(&self, first: usize, cols: usize, scales: u32) -> Rounded {
        let [values, sums, floats] = lengths(first, cols, scales);
        Rounded {
            values: self.values.address() + values as u64,
            sums: self.sums.address() + sums as u64,
            scales: self.scales.address() + 4 * floats as u64,
        }
    }
}

/// The kernel that rounds `rows` rows of `x`, normalised or with `up` and an activation, to `to`. The caller has checked lengths.
pub(in super::super) fn round(
    (x, up): (&Span<f32>, Option<(&Span<f32>, Activated)>),
    norm: Option<&(Span<f32>, f32)>,
    (rows, cols, scales): (usize, usize, u32),
    to: &Rows,
) -> Launch {
    let act = up.map_or(Activated::SILU, |(_, act)| act);
    let args = RoundArgs {
        x: x.address(),
        gain: norm.map_or(0, |(gain, _)| gain.address()),
        up: up.map_or(0, |(up, _)| up.address()),
        to: to.argument(0, cols, scales),
        eps: norm.map_or(0.0, |norm| norm.1),
        cols: cols as u32,
        scales,
        act: act.act,
        limit: act.limit,
        reserved: 0,
    };
    let mut uses = vec![x.memory().clone(), to.values.memory().clone()];
    uses.extend(norm.map(|(gain, _)| gain.memory().clone()));
    uses.extend(up.map(|(up, _)| up.memory().clone()));
    let groups = cols.div_ceil(BLOCK as usize) as u32;
    let grid = Grid { blocks: rows as u32, threads: 32 * groups.clamp(1, 8), shared_bytes: 4 * groups };
    let bytes = rows * cols * if up.is_some() { 9 } else { 5 };
    Launch::new(ENTRY, grid, args, bytes as u64, uses)
}
