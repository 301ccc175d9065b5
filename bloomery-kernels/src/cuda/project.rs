//! Several products of the same rows.

use super::activated::Activated;
use super::few;
use super::launch::{Grid, Share};
use super::many;
use super::many_float;
use super::module::{Entry, PROJECT_BOTH, PROJECT_FLOAT};
use super::ring::{Rings, raw_bytes, room};
use super::weights::Form;
use super::{CudaError, DeviceInfo, Gate, Launch, Span, TILE_ROWS, Tuning, Weight};
use crate::abi::project::{DEPTH, PARTS, PROJECT_HEAD, Part, ProjectArgs};
use crate::abi::project_both::ProjectBothArgs;
use crate::abi::shape::{Class, Shape};

const BOTH: Entry<ProjectBothArgs> = Entry::new(&PROJECT_BOTH, "project_both");

/// Rows up to which the kernels for few rows are faster, 8 rows at a time.
pub(super) const FEW: usize = 32;
/// Rows that one pass over the weights serves.
const TOKENS: usize = 8;

/// One product of a projection.
#[derive(Debug, Clone)]
pub struct Product {
    /// The matrix.
    pub weight: Weight,
    /// Added to every row: as many values as the matrix has rows.
    pub bias: Option<Span<f32>>,
    /// Rows of as many values as the matrix has rows.
    pub out: Span<f32>,
    /// Add to `out` instead of replacing it.
    pub accumulate: bool,
}

/// `out (+)= w norm(x) (+ bias)` for every part: rows normalised and rounded once, weights read once for up to 8 rows.
#[derive(Debug, Clone)]
pub struct Project {
    /// Rows of as many values as the matrices have columns.
    pub x: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// As many gains as columns, and the epsilon; without, the rows are multiplied as they are.
    pub norm: Option<(Span<f32>, f32)>,
    /// As many values as `x`, whose sigmoids multiply it; not with a norm.
    pub gate: Option<Span<f32>>,
    /// The products.
    pub parts: Vec<Product>,
    /// Room for [`workspace_bytes`](Self::workspace_bytes): for rows that are rounded, or cut in two, in memory. Without, each block
    /// rounds the rows for itself, 8 at a time: fine for one.
    pub workspace: Option<Span<u8>>,
    /// How the kernels run.
    pub tuning: Tuning,
}

impl Project {
    /// Bytes of a workspace for `rows` rows of `cols` values and weights of any format, or of any but [floats](super::is_float).
    #[must_use]
    pub fn workspace_bytes(rows: usize, cols: usize, floats: bool) -> usize {
        let floats = if floats && rows > FEW { many_float::workspace_bytes(rows, cols) } else { 0 };
        many::rounded_bytes(rows, cols, 1).max(many::rounded_bytes(rows, cols, 8)).max(floats)
    }

    /// What is rounded, and with what it is gated, as [`many::round`] takes it.
    pub(super) fn source(&self) -> (&Span<f32>, Option<(&Span<f32>, Activated)>) {
        match &self.gate {
            None => (&self.x, None),
            Some(gate) => (gate, Some((&self.x, Activated::SIGMOID))),
        }
    }

    /// The kernels: one for all parts whose formats read the same activations, for every 8 rows.
    ///
    /// # Errors
    /// [`CudaError::NoProduct`] for a format without a product; [`CudaError::Contract`] when lengths, multiples or alignments do
    /// not fit.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let forms: Vec<Form> = self.parts.iter().map(|part| self.check(part)).collect::<Result<_, _>>()?;
        if let Some(gate) = &self.gate {
            let rule = || "0".to_owned();
            CudaError::require("project", "gates of rows with a norm", 1, self.norm.is_none(), rule)?;
            // Where rows are rounded, they are gated on the way.
            let alone = Gate { x: self.x.clone(), gate: gate.clone() }.launch(info)?;
            if forms.iter().any(|form| form.class == Class::Float) {
                let rest = Self { gate: None, ..self.clone() }.launches(info)?;
                return Ok(std::iter::once(alone).chain(rest).collect());
            }
        }
        if let Some(launch) = self.both(info, &forms)? {
            return Ok(vec![launch]);
        }
        let mut launches = Vec::new();
        for class in [Class::Wide, Class::Narrow, Class::Float] {
            let parts: Vec<(&Product, Form)> = self
                .parts
                .iter()
                .zip(&forms)
                .filter(|(_, form)| form.class == class)
                .map(|(p, f)| (p, *f))
                .collect();
            if class != Class::Float && !parts.is_empty() {
                let parts: Vec<&Product> = parts.iter().map(|(part, _)| *part).collect();
                launches.extend(match &self.workspace {
                    // Weights that are read several times come from the second-level cache.
                    Some(workspace) if self.rows > FEW => {
                        many::project(self, info, class, &parts, workspace)?
                    }
                    workspace => few::project(self, info, class, &parts, workspace.as_ref())?,
                });
                continue;
            }
            if let Some(workspace) = self.workspace.as_ref().filter(|_| self.rows > FEW) {
                let parts: Vec<&Product> = parts.iter().map(|(part, _)| *part).collect();
                launches.extend(many_float::project(self, info, &parts, workspace)?);
                continue;
            }
            for parts in parts.chunks(PARTS) {
                let step = self.step(info, class, parts)?;
                for first in (0..self.rows).step_by(step) {
                    launches.push(self.launch(info, parts, first..self.rows.min(first + step))?);
                }
            }
        }
        Ok(launches)
    }

    /// One kernel for one row and weights of both kinds: some in tiles, all of the same class, and some of floats.
    fn both(&self, info: &DeviceInfo, forms: &[Form]) -> Result<Option<Launch>, CudaError> {
        let all = || self.parts.iter().zip(forms);
        let floats: Vec<(&Product, Form)> =
            all().filter(|(_, form)| form.class == Class::Float).map(|(part, form)| (part, *form)).collect();
        let Some((_, form)) = all().find(|(_, form)| form.class != Class::Float) else { return Ok(None) };
        let tiles: Vec<&Product> =
            all().filter(|(_, other)| other.class == form.class).map(|(part, _)| part).collect();
        let every = floats.len() + tiles.len() == self.parts.len();
        let few = tiles.len() <= few::PARTS && (1..=PARTS).contains(&floats.len());
        let grid = self.tuning.grid(info);
        if self.rows != 1 || !every || !few || grid < 2 {
            return Ok(None);
        }
        let first = float_blocks(grid, &tiles, &floats);
        let (floats, grid) = self.arguments(info, &floats, 0..1, (self.tuning, first))?;
        let (tiles, other) = few::one_row(self, info, (form.class, &tiles), self.tuning.grid(info) - first)?;
        let args = ProjectBothArgs { tiles: tiles.args, floats: floats.args, first, reserved: 0 };
        let grid = Grid {
            blocks: first + tiles.blocks,
            shared_bytes: grid.shared_bytes.max(other.shared_bytes),
            ..grid
        };
        let uses = [floats.uses, tiles.uses].concat();
        Ok(Some(Launch::new(BOTH, grid, args, floats.bytes + tiles.bytes, uses)))
    }

    fn check(&self, part: &Product) -> Result<Form, CudaError> {
        let kernel = "project";
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(kernel, what, found as u64, expected as u64)
        };
        let form = part.weight.product("a weight")?;
        let (rows, cols) = (part.weight.rows(), part.weight.cols());
        equal("values of x", self.x.len(), self.rows * cols)?;
        equal("values of an output", part.out.len(), self.rows * rows)?;
        if let Some(bias) = &part.bias {
            equal("values of a bias", bias.len(), rows)?;
        }
        if let Some((gain, _)) = &self.norm {
            equal("values of the gain", gain.len(), cols)?;
        }
        let most = 1 << 19;
        CudaError::require(kernel, "rows of a weight", rows as u64, rows > 0 && rows <= most, || {
            format!("1 to {most}")
        })?;
        let addresses = self.x.address() | self.norm.as_ref().map_or(0, |(gain, _)| gain.address());
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(kernel, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        Ok(form)
    }

    /// Rows of a launch: as many as have room in shared memory.
    fn step(&self, info: &DeviceInfo, class: Class, parts: &[(&Product, Form)]) -> Result<usize, CudaError> {
        let Some((part, _)) = parts.first() else { return Ok(TOKENS) };
        let row = class.activation_bytes(part.weight.cols() as u32);
        let room = u64::from(room(info, self.tuning.for_floats(), stage_bytes(parts)));
        let fits = |tokens: usize| u64::from(PROJECT_HEAD) + tokens as u64 * u64::from(row) <= room;
        // A kernel for 8 rows has room for 8 whatever it gets.
        let step = [8, 4, 2, 1].into_iter().find(|tokens| fits(*tokens));
        let rule = || format!("less than {}", info.shared_per_block);
        CudaError::require("project", "shared memory of a row", row.into(), step.is_some(), rule)?;
        Ok(step.unwrap_or(1))
    }

    fn launch(
        &self,
        info: &DeviceInfo,
        parts: &[(&Product, Form)],
        rows: std::ops::Range<usize>,
    ) -> Result<Launch, CudaError> {
        let tuning = self.tuning.for_floats();
        let (Share { args, bytes, uses, .. }, grid) =
            self.arguments(info, parts, rows.clone(), (tuning, tuning.grid(info)))?;
        Ok(Launch::new(entry(rows.len()).1, grid, args, bytes, uses))
    }

    /// What a launch for weights of floats is made of.
    fn arguments(
        &self,
        info: &DeviceInfo,
        parts: &[(&Product, Form)],
        rows: std::ops::Range<usize>,
        (tuning, blocks): (Tuning, u32),
    ) -> Result<(Share<ProjectArgs>, Grid), CudaError> {
        let cols = parts[0].0.weight.cols();
        let (made, entry) = entry(rows.len());
        let stage_bytes = stage_bytes(parts);
        let raw_bytes = self.norm.as_ref().map_or(0, |_| raw_bytes(info, rows.len(), cols));
        let fixed = PROJECT_HEAD + raw_bytes + made as u32 * Class::Float.activation_bytes(cols as u32);
        let turns = parts.iter().map(|(part, form)| {
            let items = part.weight.rows().div_ceil((DEPTH * form.shape.side()) as usize);
            items.div_ceil((blocks * tuning.warps()) as usize) as u64 * u64::from(form.shape.chunks)
        });
        let rings = Rings::new(entry.name, info, tuning, fixed, stage_bytes, turns.sum())?;
        let mut args = ProjectArgs {
            x: self.x.address() + 4 * (rows.start * cols) as u64,
            cols: cols as u32,
            tokens: rows.len() as u32,
            raw_bytes,
            parts_used: parts.len() as u32,
            stages: rings.stages,
            stage_bytes,
            ..ProjectArgs::default()
        };
        let mut uses = vec![self.x.memory().clone()];
        let mut bytes = 4 * rows.len() * cols;
        if let Some((gain, eps)) = &self.norm {
            (args.gain, args.eps) = (gain.address(), *eps);
            uses.push(gain.memory().clone());
        }
        for ((part, form), argument) in parts.iter().zip(&mut args.parts) {
            let Product { weight, bias, out, accumulate } = part;
            *argument = Part {
                weight: weight.data().address(),
                bias: bias.as_ref().map_or(0, Span::address),
                out: out.address() + 4 * (rows.start * weight.rows()) as u64,
                rows: weight.rows() as u32,
                format: weight.format().id(),
                accumulate: (*accumulate).into(),
                share: weight.rows() as u32 / blocks,
                extra: weight.rows() as u32 % blocks,
                shape: form.shape,
            };
            uses.extend([weight.data().memory().clone(), out.memory().clone()]);
            uses.extend(bias.as_ref().map(|bias| bias.memory().clone()));
            bytes += weight.data().len() + 4 * rows.len() * weight.rows();
        }
        Ok((Share { args, blocks, bytes: bytes as u64, uses }, rings.grid(blocks)))
    }
}

/// Blocks for weights of floats, of `grid`: those that weights in tiles leave without work, or as many as there are bytes to read.
fn float_blocks(grid: u32, tiles: &[&Product], floats: &[(&Product, Form)]) -> u32 {
    let rows = |part: &Product| part.weight.rows() as u32;
    let count: u32 = tiles.iter().map(|part| rows(part).div_ceil(TILE_ROWS as u32)).sum();
    let free = grid - count.div_ceil(count.div_ceil(grid).max(1)).min(grid);
    let bytes = |part: &Product| part.weight.data().len() as u64;
    let own: u64 = floats.iter().map(|(part, _)| bytes(part)).sum();
    let all = own + tiles.iter().map(|part| bytes(part)).sum::<u64>();
    let fair = (u64::from(grid) * own).div_ceil(all.max(1)) as u32;
    let most: u32 = floats.iter().map(|(part, _)| rows(part).div_ceil(DEPTH)).sum();
    let blocks = if 4 * free >= 3 * fair { free } else { fair };
    blocks.min(most).clamp(1, grid - 1)
}

/// Bytes of a stage: of the largest part.
fn stage_bytes(parts: &[(&Product, Form)]) -> u32 {
    let stage = |shape: &Shape| match shape.chunks {
        1 => shape.stage_bytes(1, DEPTH * shape.side()),
        _ => shape.stage_bytes(DEPTH, 1),
    };
    parts.iter().map(|(_, form)| stage(&form.shape)).max().unwrap_or(16)
}

/// The smallest kernel for `tokens` rows, and how many it is made for.
fn entry(tokens: usize) -> (usize, Entry<ProjectArgs>) {
    let made = if tokens > 4 { 8 } else { tokens.next_power_of_two() };
    let names = ["project_float_1", "project_float_2", "project_float_4", "project_float_8"];
    (made, Entry::new(&PROJECT_FLOAT, names[made.ilog2() as usize]))
}
