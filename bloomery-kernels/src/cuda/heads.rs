//! Products of every head's values with a matrix of its own.

use std::sync::Arc;

use half::f16;

use super::launch::{Grid, Share};
use super::many_float;
use super::memory::Allocation;
use super::module::{Entry, HEADS};
use super::project::FEW;
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::heads::{HeadsArgs, ROWS, SIXTEENS, WARPS, WIDE_OUTS, WIDE_ROWS};

const ENTRY: Entry<HeadsArgs> = Entry::new(&HEADS, "per_head");
const WIDE: Entry<HeadsArgs> = Entry::new(&HEADS, "per_head_wide");
const WIDE_MANY: Entry<HeadsArgs> = Entry::new(&HEADS, "per_head_wide_many");
/// Shared memory of a block.
pub(super) const SHARED_BYTES: u32 = 512 * WARPS;
/// Columns that the warps of a block keep.
const KEPT: usize = (16 * SIXTEENS * WARPS) as usize;
/// Columns, at most.
const MOST: usize = 1 << 14;
/// Blocks for each multiprocessor, about, before blocks take more rows.
const WAVES: usize = 8;

/// A matrix for every head, in half precision and in the order of the tensor cores' operands.
#[derive(Debug, Clone)]
pub struct HeadWeights {
    heads: usize,
    rows: usize,
    cols: usize,
    data: Span<u16>,
}

impl HeadWeights {
    /// Matrices of `rows` rows and `cols` columns that [`pack`](Self::pack) has brought into order.
    ///
    /// # Errors
    /// [`CudaError::Contract`] unless rows are a multiple of 8 and columns one of 16, columns at most 16384, and `data` has their length.
    pub fn new(heads: usize, rows: usize, cols: usize, data: Span<u16>) -> Result<Self, CudaError> {
        Self::check(heads, rows, cols)?;
        CudaError::equal(
            ENTRY.name,
            "values of the weights",
            data.len() as u64,
            Self::packed_len(heads, rows, cols) as u64,
        )?;
        let (address, rule) = (data.address(), || "a multiple of 16".to_owned());
        CudaError::require(ENTRY.name, "the weights' address", address, address.is_multiple_of(16), rule)?;
        Ok(Self { heads, rows, cols, data })
    }

    /// Whether there is a kernel for matrices of such sizes.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn check(heads: usize, rows: usize, cols: usize) -> Result<(), CudaError> {
        for (what, value, step, most) in
            [("rows of a matrix", rows, 8, 1 << 16), ("columns of a matrix", cols, 16, MOST)]
        {
            let holds = value > 0 && value.is_multiple_of(step) && value <= most;
            let rule = || format!("a multiple of {step} up to {most}");
            CudaError::require(ENTRY.name, what, value as u64, holds, rule)?;
        }
        let rule = || "1 to 1024".to_owned();
        CudaError::require(ENTRY.name, "heads", heads as u64, (1..=1024).contains(&heads), rule)
    }

    /// `[heads][rows][cols]` values in half precision, in the order that the kernel wants.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if a value is too large for half precision.
    pub fn pack(heads: usize, rows: usize, cols: usize, values: &[f32]) -> Result<Vec<u16>, CudaError> {
        Self::check(heads, rows, cols)?;
        CudaError::equal(
            ENTRY.name,
            "values of the weights",
            values.len() as u64,
            (heads * rows * cols) as u64,
        )?;
        let mut packed = Vec::with_capacity(Self::packed_len(heads, rows, cols));
        // Rows that fill up the last sixteen of a matrix are zeros.
        for sixteen in values.chunks_exact(rows * cols).flat_map(|matrix| matrix.chunks(16 * cols)) {
            for column in (0..cols).step_by(16) {
                for lane in 0..32 {
                    let (g, t) = (lane / 4, lane % 4);
                    for (row, at) in [(g, 0), (g + 8, 0), (g, 2), (g + 8, 2)] {
                        for i in 0..2 {
                            let value = sixteen.get(row * cols + column + 4 * t + at + i);
                            let value = value.copied().unwrap_or_default();
                            let half = f16::from_f32(value);
                            let rule = || "the bits of a finite number in half precision".to_owned();
                            let bits = value.to_bits().into();
                            CudaError::require(ENTRY.name, "a weight", bits, half.is_finite(), rule)?;
                            packed.push(half.to_bits());
                        }
                    }
                }
            }
        }
        Ok(packed)
    }

    /// Values that [`pack`](Self::pack) returns.
    #[must_use]
    pub const fn packed_len(heads: usize, rows: usize, cols: usize) -> usize {
        heads * rows.next_multiple_of(16) * cols
    }

    /// Heads.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Rows of a matrix.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of a matrix.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    pub(super) fn data(&self) -> &Span<u16> {
        &self.data
    }
}

/// `out[row][head] = [W_head x[row][head][..cols]; x[row][head][cols..]]`: the values behind those that are multiplied go along.
///
/// A row's result depends on the row alone. Values are taken as pairs of halves, that is with 22 bits, and must be below 65504.
#[derive(Debug, Clone)]
pub struct PerHead {
    /// `[rows][heads][cols + tail]`.
    pub x: Span<f32>,
    /// The matrices.
    pub weights: HeadWeights,
    /// `[rows][heads][matrix rows + tail]`.
    pub out: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Values of a head that go along, a multiple of 4. None beside more than 512 columns.
    pub tail: usize,
}

impl PerHead {
    /// Bytes of a workspace for `rows` rows.
    #[must_use]
    pub fn workspace_bytes(rows: usize, heads: usize, cols: usize) -> usize {
        if Self::is_wide(rows, cols) { many_float::workspace_bytes(rows * heads, cols) } else { 0 }
    }

    /// Whether `rows` rows are multiplied by kernels that want a workspace.
    fn is_wide(rows: usize, cols: usize) -> bool {
        rows > FEW && cols > KEPT && many_float::multiplies_heads(cols)
    }

    /// The kernels: with `workspace`, which has room for [`workspace_bytes`](Self::workspace_bytes), those for many rows where there are
    /// such.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launches(&self, info: &DeviceInfo, workspace: &Span<u8>) -> Result<Vec<Launch>, CudaError> {
        let launch = self.launch(info)?;
        if !Self::is_wide(self.rows, self.weights.cols) {
            return Ok(vec![launch]);
        }
        many_float::heads(info, (&self.x, self.rows), &self.weights, &self.out, workspace)
    }

    /// The kernel.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths or alignments do not fit.
    pub fn launch(&self, info: &DeviceInfo) -> Result<Launch, CudaError> {
        let threads = 32 * WARPS;
        if self.weights.cols > KEPT {
            let rule = || "0".to_owned();
            CudaError::require(ENTRY.name, "values that go along", self.tail as u64, self.tail == 0, rule)?;
            let args = self.checked()?;
            let few = args.rows <= ROWS;
            let (entry, span, outs) = if few { (WIDE, ROWS, 16) } else { (WIDE_MANY, WIDE_ROWS, WIDE_OUTS) };
            let args = HeadsArgs { slices: WARPS, blocks: args.outs.div_ceil(outs), span, ..args };
            let blocks = args.heads * args.blocks * args.rows.div_ceil(span);
            let shared_bytes = SHARED_BYTES * span / ROWS * outs / 16;
            let grid = Grid { blocks, threads, shared_bytes };
            return Ok(Launch::new(entry, grid, args, self.bytes(), self.uses()));
        }
        let Share { args, blocks, bytes, uses } = self.arguments(info)?;
        let grid = Grid { blocks, threads, shared_bytes: SHARED_BYTES };
        Ok(Launch::new(ENTRY, grid, args, bytes, uses))
    }

    /// Arguments, blocks, bytes that move, and memory, of matrices of up to 512 columns.
    pub(super) fn arguments(&self, info: &DeviceInfo) -> Result<Share<HeadsArgs>, CudaError> {
        let rule = || format!("at most {KEPT}");
        let cols = self.weights.cols;
        CudaError::require(ENTRY.name, "columns of a matrix", cols as u64, cols <= KEPT, rule)?;
        let args = self.checked()?;
        let (rows, heads, outs) = (self.rows, self.weights.heads, self.weights.rows);
        let slices = cols.div_ceil((16 * SIXTEENS) as usize).next_power_of_two();
        let blocks = outs.div_ceil(16).div_ceil(WARPS as usize / slices);
        let eights = rows.div_ceil(ROWS as usize);
        let spans = (WAVES * info.processors as usize).div_ceil(heads * blocks).clamp(1, eights);
        let span = ROWS as usize * eights.div_ceil(spans);
        let args = HeadsArgs { slices: slices as u32, blocks: blocks as u32, span: span as u32, ..args };
        let blocks = (heads * blocks * rows.div_ceil(span)) as u32;
        Ok(Share { args, blocks, bytes: self.bytes(), uses: self.uses() })
    }

    /// Arguments but for how the work is cut.
    fn checked(&self) -> Result<HeadsArgs, CudaError> {
        let Self { x, weights, out, rows, tail } = self;
        let HeadWeights { heads, rows: outs, cols, data } = weights;
        let holds = *rows > 0 && rows * heads < 1 << 28;
        let rule = || "at least 1, and below 2^28 heads of all rows".to_owned();
        CudaError::require(ENTRY.name, "rows", *rows as u64, holds, rule)?;
        let holds = tail.is_multiple_of(4) && *tail <= 1 << 16;
        let rule = || "a multiple of 4 up to 2^16".to_owned();
        CudaError::require(ENTRY.name, "values that go along", *tail as u64, holds, rule)?;
        for (what, span, width) in
            [("values of x", x, cols + tail), ("values of the output", out, outs + tail)]
        {
            CudaError::equal(ENTRY.name, what, span.len() as u64, (rows * heads * width) as u64)?;
        }
        let addresses = x.address() | out.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(ENTRY.name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        Ok(HeadsArgs {
            weights: data.address(),
            x: x.address(),
            out: out.address(),
            heads: *heads as u32,
            outs: *outs as u32,
            cols: *cols as u32,
            tail: *tail as u32,
            rows: *rows as u32,
            slices: 0,
            blocks: 0,
            span: 0,
        })
    }

    fn bytes(&self) -> u64 {
        (2 * self.weights.data.len() + 4 * (self.x.len() + self.out.len())) as u64
    }

    fn uses(&self) -> Vec<Arc<Allocation>> {
        vec![self.x.memory().clone(), self.out.memory().clone(), self.weights.data.memory().clone()]
    }
}
