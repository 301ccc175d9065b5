//! Feed-forward blocks: of chosen experts, and of dense layers as one expert.

use std::ops::Range;
use std::sync::Arc;

use super::activated::Activated;
use super::few;
use super::formats::gates;
use super::many;
use super::memory::Allocation;
use super::module::{EXPERTS_FLOAT, Entry};
use super::ring::{Rings, raw_bytes, room};
use super::weights::Form;
use super::{CudaError, DeviceInfo, Launch, Span, Tuning, WeightStack};
use crate::abi::experts::{DownArgs, GATE_UP_HEAD, GateUpArgs};
use crate::abi::project::DEPTH;
use crate::abi::routes::{GROUPS_BYTES, PAIRS, Routes, TOKENS};
use crate::abi::shape::Class;
use crate::cpu::Activation;

/// What a router wrote: for every row its experts and their weights.
#[derive(Debug, Clone)]
pub struct Routed {
    /// `[rows][used]`. A number that is no expert leaves the slot out. No row has an expert twice.
    pub experts: Span<u32>,
    /// `[rows][used]`.
    pub weights: Span<f32>,
    /// Experts of a row.
    pub used: usize,
    /// `[count]`: the matrices of expert `e` are those with number `seats[e]`, and there are `count` experts. Without, they are those
    /// with its own number. For many rows and weights in tiles.
    pub seats: Option<Span<u32>>,
}

/// `out[row] (+)= sum over slots of weight * down_e(act(gate_e n) * (up_e n))`, `n` being `norm(x[row])` or `x[row]`.
///
/// Two kernels: hidden values of all pairs of rows and slots, then their products, weighted and summed in the order of the slots.
#[derive(Debug, Clone)]
pub struct FeedForward {
    /// `[rows][cols]`.
    pub x: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// `[cols]` and the epsilon; without, `x` is taken as it is.
    pub norm: Option<(Span<f32>, f32)>,
    /// Who goes where; without, all rows go to the first matrices with weight 1.
    pub routed: Option<Routed>,
    /// `[count][hidden][cols]`.
    pub gate: WeightStack,
    /// As `gate`, in its format.
    pub up: WeightStack,
    /// `[count][outputs][hidden]`.
    pub down: WeightStack,
    /// Room for `[rows * used][hidden]`; of 8 rows, whatever `rows` is, if there are more.
    pub hidden: Span<f32>,
    /// What gates go through: SiLU, within limits or not, or GELU by its tangent.
    pub activation: Activation,
    /// `[rows][outputs]`.
    pub out: Span<f32>,
    /// Add to `out` instead of replacing it. Experts that are routed add.
    pub accumulate: bool,
    /// Room for [`workspace_bytes`](Self::workspace_bytes), as for [`Project`](super::Project).
    pub workspace: Option<Span<u8>>,
    /// How the kernels run.
    pub tuning: Tuning,
}

const KERNEL: &str = "feed-forward";

impl FeedForward {
    /// Values that `hidden` needs.
    #[must_use]
    pub fn hidden_len(rows: usize, used: usize, hidden: usize) -> usize {
        rows.min(TOKENS as usize) * used * hidden
    }

    /// Bytes of a workspace for `rows` rows, each of which has `used` experts of `count`.
    #[must_use]
    pub fn workspace_bytes(
        rows: usize,
        (used, count): (usize, usize),
        (cols, hidden, outputs): (usize, usize, usize),
    ) -> usize {
        many::feed_forward_bytes(rows, (used, count), (cols, hidden, outputs))
    }

    /// The kernels, two for every 8 rows. They must be launched in this order, with nothing between the two of a pair.
    ///
    /// # Errors
    /// [`CudaError::NoProduct`] for a format without a product; [`CudaError::Contract`] when lengths, multiples or alignments do
    /// not fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let classes = self.check()?;
        let alone = few::Networks { experts: few::Network { op: self, classes }, beside: None };
        if classes[0] != Class::Float && classes[1] != Class::Float {
            return match &self.workspace {
                // Rows are combined four columns at a time.
                Some(workspace) if self.sorts() => many::feed_forward(self, info, classes, workspace),
                workspace => {
                    self.refuse_seats()?;
                    few::feed_forward(alone, info, workspace.as_ref())
                }
            };
        }
        self.refuse_seats()?;
        let mut launches = Vec::new();
        if classes[0] != classes[1] && classes.contains(&Class::Float) {
            // Floats in one half only: rare, and a row at a time.
            for row in 0..self.rows {
                let rows = row..row + 1;
                launches.push(match classes[0] {
                    Class::Float => self.gate_up(info, rows.clone())?,
                    _ => few::gate_up(&alone, info, &rows, [None, None])?,
                });
                launches.push(match classes[1] {
                    Class::Float => self.down(info, rows)?,
                    _ => few::down(&alone, info, &rows, [None, None])?,
                });
            }
            return Ok(launches);
        }
        let step = self.step(info)?;
        // Each row of eight has its own hidden values.
        for window in (0..self.rows).step_by(TOKENS as usize) {
            let end = self.rows.min(window + TOKENS as usize);
            for first in (window..end).step_by(step) {
                let rows = first..end.min(first + step);
                launches.push(self.gate_up(info, rows.clone())?);
                launches.push(self.down(info, rows)?);
            }
        }
        Ok(launches)
    }

    /// Whether the kernels for so many rows sort them by expert. They take numbers of experts and, with
    /// [seats](Routed::seats), look up where the matrices are; the others take the numbers of matrices.
    #[must_use]
    pub fn sorts(&self) -> bool {
        let tiled = |stack: &WeightStack| super::Pack::has_tiles(stack.format());
        self.rows > TOKENS as usize
            && self.workspace.is_some()
            && self.down.rows().is_multiple_of(4)
            && tiled(&self.gate)
            && tiled(&self.down)
    }

    /// The activation as kernels take it.
    pub(super) fn act(&self) -> Activated {
        Activated::new(self.activation).unwrap_or(Activated::SILU)
    }

    pub(super) fn used(&self) -> usize {
        self.routed.as_ref().map_or(1, |routed| routed.used)
    }

    /// Experts of the layer.
    pub(super) fn experts(&self) -> usize {
        let seats = self.routed.as_ref().and_then(|routed| routed.seats.as_ref());
        seats.map_or(self.gate.count(), Span::len)
    }

    /// An error if experts have seats: the kernels for few rows take the numbers of seats.
    pub(super) fn refuse_seats(&self) -> Result<(), CudaError> {
        let seats = self.routed.as_ref().and_then(|routed| routed.seats.as_ref()).map_or(0, Span::len);
        let rule = || format!("0 but for more than {TOKENS} rows, tiles and a workspace");
        CudaError::require(KERNEL, "seats", seats as u64, seats == 0, rule)
    }

    /// The classes of the two halves.
    pub(super) fn check(&self) -> Result<[Class; 2], CudaError> {
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(KERNEL, what, found as u64, expected as u64)
        };
        let (gate, up, down) = (&self.gate, &self.up, &self.down);
        let known = Activated::new(self.activation).is_some();
        CudaError::require(KERNEL, "activations without a kernel", 1, known, || "0".to_owned())?;
        let classes = [gate.product("a gate")?.class, down.product("a down projection")?.class];
        up.product("an up projection")?;
        if !gates(gate.format()) {
            return Err(CudaError::NoProduct { what: "a gate", format: gate.format() });
        }
        if up.format() != gate.format() {
            return Err(CudaError::NoProduct {
                what: "an up projection beside a gate of another format",
                format: up.format(),
            });
        }
        equal("experts of up", up.count(), gate.count())?;
        equal("experts of down", down.count(), gate.count())?;
        equal("rows of up", up.rows(), gate.rows())?;
        equal("columns of up", up.cols(), gate.cols())?;
        equal("columns of down", down.cols(), gate.rows())?;
        equal("values of x", self.x.len(), self.rows * gate.cols())?;
        equal("values of the output", self.out.len(), self.rows * down.rows())?;
        if let Some((gain, _)) = &self.norm {
            equal("values of the gain", gain.len(), gate.cols())?;
        }
        if let Some(Routed { experts, weights, used, .. }) = &self.routed {
            equal("experts of the routes", experts.len(), self.rows * used)?;
            equal("weights of the routes", weights.len(), self.rows * used)?;
            let fits = *used > 0 && *used <= PAIRS as usize;
            CudaError::require(KERNEL, "experts of a row", *used as u64, fits, || format!("1 to {PAIRS}"))?;
        }
        let need = Self::hidden_len(self.rows, self.used(), gate.rows());
        let rule = || format!("at least {need}");
        CudaError::require(
            KERNEL,
            "hidden values",
            self.hidden.len() as u64,
            self.hidden.len() >= need,
            rule,
        )?;
        let most = 1 << 19;
        let rows = gate.rows().max(down.rows());
        CudaError::require(KERNEL, "rows of a weight", rows as u64, rows > 0 && rows <= most, || {
            format!("1 to {most}")
        })?;
        let gain = self.norm.as_ref().map_or(0, |(gain, _)| gain.address());
        // Rows of hidden values, too, are read 16 bytes at a time.
        let addresses = self.x.address() | gain | self.hidden.address() | (4 * gate.rows() as u64);
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(KERNEL, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        Ok(classes)
    }

    /// Memory that the first half uses.
    pub(super) fn gate_up_uses(&self) -> Vec<Arc<Allocation>> {
        let mut uses = self.uses();
        uses.extend([&self.gate, &self.up].map(|stack| stack.data().memory().clone()));
        uses.push(self.x.memory().clone());
        uses.extend(self.norm.as_ref().map(|(gain, _)| gain.memory().clone()));
        uses
    }

    /// Memory that the second half uses.
    pub(super) fn down_uses(&self) -> Vec<Arc<Allocation>> {
        let mut uses = self.uses();
        uses.extend([self.out.memory().clone(), self.down.data().memory().clone()]);
        uses
    }

    /// Memory that both halves use.
    fn uses(&self) -> Vec<Arc<Allocation>> {
        let mut uses = vec![self.hidden.memory().clone()];
        if let Some(routed) = &self.routed {
            uses.extend([routed.experts.memory().clone(), routed.weights.memory().clone()]);
        }
        uses
    }

    /// Rows of a pair of launches: as many as have room in shared memory, with all their pairs.
    fn step(&self, info: &DeviceInfo) -> Result<usize, CudaError> {
        let (gate, down) = (self.gate.product("a gate")?, self.down.product("a down projection")?);
        let row = u64::from(gate.class.activation_bytes(self.gate.cols() as u32));
        let pair = u64::from(down.class.activation_bytes(self.down.cols() as u32))
            + 4 * u64::from(self.columns(info));
        let stages =
            [2 * gate.shape.side() * gate.shape.slot_bytes, down.shape.side() * down.shape.slot_bytes];
        let rooms = stages.map(|stage| u64::from(room(info, self.tuning.for_floats(), stage)));
        let fits = |tokens: &usize| {
            let (tokens, pairs) = (*tokens as u64, (*tokens * self.used()) as u64);
            pairs <= u64::from(PAIRS)
                && u64::from(GATE_UP_HEAD) + tokens * row <= rooms[0]
                && u64::from(GROUPS_BYTES) + 16 + pairs * pair <= rooms[1]
        };
        let step = (1..=TOKENS as usize).rev().find(fits);
        let rule = || format!("less than {}", info.shared_per_block);
        let need = pair * self.used() as u64;
        CudaError::require(KERNEL, "shared memory of a row", need, step.is_some(), rule)?;
        Ok(step.unwrap_or(1))
    }

    /// Where the hidden values of rows start: each row of eight has its own.
    pub(super) fn hidden_of(&self, rows: &Range<usize>) -> u64 {
        let first = rows.start % TOKENS as usize * self.used() * self.gate.rows();
        self.hidden.address() + 4 * first as u64
    }

    /// Output columns of a block, at most one more than needed.
    fn columns(&self, info: &DeviceInfo) -> u32 {
        self.down.rows() as u32 / self.tuning.grid(info) + 1
    }

    pub(super) fn routes(&self, rows: &Range<usize>) -> Routes {
        let at = |used: usize| 4 * (rows.start * used) as u64;
        let count = self.gate.count() as u32;
        match &self.routed {
            None => Routes { experts: 0, weights: 0, used: 1, count },
            Some(Routed { experts, weights, used, .. }) => Routes {
                experts: experts.address() + at(*used),
                weights: weights.address() + at(*used),
                used: *used as u32,
                count,
            },
        }
    }

    /// Experts that a launch reads, at most.
    pub(super) fn most_experts(&self, tokens: usize) -> usize {
        (tokens * self.used()).min(self.gate.count())
    }

    fn gate_up(&self, info: &DeviceInfo, rows: Range<usize>) -> Result<Launch, CudaError> {
        let form = self.gate.product("a gate")?;
        let entry = entries(self.made(rows.len())).0;
        let tuning = self.tuning.for_floats();
        let (tokens, cols, hidden) = (rows.len(), self.gate.cols(), self.gate.rows());
        let raw_bytes = self.norm.as_ref().map_or(0, |_| raw_bytes(info, tokens, cols));
        let fixed = GATE_UP_HEAD + raw_bytes + tokens as u32 * form.class.activation_bytes(cols as u32);
        let stage_bytes = gate_up_stage(&form);
        let experts = self.most_experts(tokens);
        let items = experts * hidden.div_ceil(form.shape.side() as usize);
        let turns = tuning.turns(info, items, form.shape.chunks);
        let rings = Rings::new(entry.name, info, tuning, fixed, stage_bytes, turns)?;
        let (gain, eps) = self.norm.as_ref().map_or((0, 0.0), |(gain, eps)| (gain.address(), *eps));
        let args = GateUpArgs {
            x: self.x.address() + 4 * (rows.start * cols) as u64,
            gain,
            hidden: self.hidden_of(&rows),
            routes: self.routes(&rows),
            gate: self.gate.argument(&form),
            up: self.up.argument(&form),
            eps,
            cols: cols as u32,
            tokens: tokens as u32,
            stages: rings.stages,
            stage_bytes,
            raw_bytes,
            act: self.act().act,
            limit: self.act().limit,
        };
        let uses = self.gate_up_uses();
        let grid = rings.grid(tuning.grid(info));
        let bytes = experts * 2 * self.gate.expert_bytes() + 4 * tokens * (cols + self.used() * hidden);
        Ok(Launch::new(entry, grid, args, bytes as u64, uses))
    }

    fn down(&self, info: &DeviceInfo, rows: Range<usize>) -> Result<Launch, CudaError> {
        let form = self.down.product("a down projection")?;
        let entry = entries(self.made(rows.len())).1;
        let tuning = self.tuning.for_floats();
        let (tokens, cols, outputs) = (rows.len(), self.down.cols(), self.down.rows());
        let (pairs, columns) = (tokens * self.used(), self.columns(info));
        let products = (4 * pairs as u32 * columns).next_multiple_of(16);
        let fixed = GROUPS_BYTES + products + pairs as u32 * form.class.activation_bytes(cols as u32);
        let stage_bytes = down_stage(&form);
        let experts = self.most_experts(tokens);
        let of_item = (DEPTH * form.shape.side()) as usize;
        let per_block = experts * (columns as usize).div_ceil(of_item);
        let items = per_block * tuning.grid(info) as usize;
        let turns = tuning.turns(info, items, form.shape.chunks);
        let rings = Rings::new(entry.name, info, tuning, fixed, stage_bytes, turns)?;
        let args = DownArgs {
            hidden: self.hidden_of(&rows),
            out: self.out.address() + 4 * (rows.start * outputs) as u64,
            routes: self.routes(&rows),
            down: self.down.argument(&form),
            cols: cols as u32,
            tokens: tokens as u32,
            stages: rings.stages,
            stage_bytes,
            share: outputs as u32 / tuning.grid(info),
            extra: outputs as u32 % tuning.grid(info),
            replace: (!self.accumulate).into(),
            reserved: 0,
        };
        let uses = self.down_uses();
        let grid = rings.grid(tuning.grid(info));
        let bytes = experts * self.down.expert_bytes() + 4 * (pairs * cols + 2 * tokens * outputs);
        Ok(Launch::new(entry, grid, args, bytes as u64, uses))
    }

    /// The kernel's number: groups of 1, of up to 4, or one group of 8.
    fn made(&self, tokens: usize) -> u32 {
        match (tokens, &self.routed) {
            (1, None) => 1,
            // One warp makes the table of a single row.
            (1, Some(routed)) if routed.used <= 32 => 1,
            (5.., None) => 8,
            _ => 4,
        }
    }
}

/// Bytes of a stage: a span of each matrix.
fn gate_up_stage(form: &Form) -> u32 {
    form.shape.stage_bytes(2, form.shape.side())
}

/// Bytes of a stage: neighbouring columns, or as many chunks.
fn down_stage(form: &Form) -> u32 {
    match form.shape.chunks {
        1 => form.shape.stage_bytes(1, DEPTH * form.shape.side()),
        _ => form.shape.stage_bytes(DEPTH, 1),
    }
}

fn entries(made: u32) -> (Entry<GateUpArgs>, Entry<DownArgs>) {
    let (gate_up, down) = match made {
        1 => ("gate_up_float_1", "down_float_1"),
        4 => ("gate_up_float_4", "down_float_4"),
        _ => ("gate_up_float_8", "down_float_8"),
    };
    (Entry::new(&EXPERTS_FLOAT, gate_up), Entry::new(&EXPERTS_FLOAT, down))
}
