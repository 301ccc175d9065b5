//! Rows normalised and rounded, or normalised and added.

use super::launch::Grid;
use super::module::{Entry, NORM};
use super::{CudaError, DeviceInfo, Launch, Span};
use crate::abi::norm::NormArgs;
use crate::cpu::Form;

const WIDE: Entry<NormArgs> = Entry::new(&NORM, "norm_quantize_wide");
const NARROW: Entry<NormArgs> = Entry::new(&NORM, "norm_quantize_narrow");

const ADD: Entry<NormArgs> = Entry::new(&NORM, "norm_add");

/// Where int8 blocks go: as the CPU's `Quantized` holds them.
#[derive(Debug, Clone)]
pub struct Rounded {
    /// Block length.
    pub form: Form,
    /// `[rows][cols]`.
    pub values: Span<i8>,
    /// `[rows][cols / block]`.
    pub scales: Span<f32>,
    /// `[rows][cols / 16]` sums of 16 values; blocks of 256 only.
    pub sums: Option<Span<i16>>,
}

/// `normed = norm(x)`, and `normed` in int8 blocks: the same bits as the CPU's.
#[derive(Debug, Clone)]
pub struct NormQuantize {
    /// `[rows][cols]`.
    pub x: Span<f32>,
    /// Rows.
    pub rows: usize,
    /// Values of a row.
    pub cols: usize,
    /// `[cols]` and the epsilon; without, the rows are rounded as they are.
    pub norm: Option<(Span<f32>, f32)>,
    /// `[rows][cols]`: the rows before rounding.
    pub normed: Option<Span<f32>>,
    /// The rows after it.
    pub rounded: Option<Rounded>,
}

impl NormQuantize {
    /// The kernel: a block of threads for every row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, multiples or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let form = self.rounded.as_ref().map(|rounded| rounded.form);
        let entry = if form == Some(Form::Q8x256) { WIDE } else { NARROW };
        let (rows, cols, block) = (self.rows, self.cols, form.map_or(8, Form::block_len));
        let rule = |rule: &'static str| move || rule.to_owned();
        let equal = |what, found: usize, expected: usize| {
            CudaError::equal(entry.name, what, found as u64, expected as u64)
        };
        let fits = rows > 0 && rows <= i32::MAX as usize && cols <= i32::MAX as usize;
        CudaError::require(entry.name, "rows", rows as u64, fits, rule("1 to 2^31 - 1, as columns"))?;
        let whole = cols > 0 && cols.is_multiple_of(block);
        CudaError::require(entry.name, "columns", cols as u64, whole, || format!("a multiple of {block}"))?;
        equal("values of x", self.x.len(), rows * cols)?;
        let mut args = NormArgs { x: self.x.address(), cols: cols as u32, ..NormArgs::default() };
        let mut uses = vec![self.x.memory().clone()];
        let mut bytes = 4 * rows * cols;
        if let Some((gain, eps)) = &self.norm {
            equal("values of the gain", gain.len(), cols)?;
            (args.gain, args.eps) = (gain.address(), *eps);
            uses.push(gain.memory().clone());
        }
        if let Some(normed) = &self.normed {
            equal("normed values", normed.len(), rows * cols)?;
            args.normed = normed.address();
            uses.push(normed.memory().clone());
            bytes += 4 * rows * cols;
        }
        if let Some(Rounded { form, values, scales, sums }) = &self.rounded {
            equal("rounded values", values.len(), rows * cols)?;
            equal("scales", scales.len(), rows * cols / block)?;
            let wanted = if *form == Form::Q8x256 { rows * cols / 16 } else { 0 };
            equal("sums", sums.as_ref().map_or(0, Span::len), wanted)?;
            (args.q, args.scales) = (values.address(), scales.address());
            args.sums = sums.as_ref().map_or(0, Span::address);
            uses.extend([values.memory().clone(), scales.memory().clone()]);
            uses.extend(sums.as_ref().map(|sums| sums.memory().clone()));
            bytes += rows * cols;
        }
        let addresses = args.x | args.gain | args.normed | args.q | args.scales | args.sums;
        let rule = rule("a multiple of 16");
        CudaError::require(entry.name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let threads = (cols.div_ceil(256) as u32 * 32).clamp(128, 512);
        let grid = Grid { blocks: rows as u32, threads, shared_bytes: 16 };
        Ok(Launch::new(entry, grid, args, bytes as u64, uses))
    }
}

/// `out += norm(x)`.
#[derive(Debug, Clone)]
pub struct AddNorm {
    /// `[rows][cols]`.
    pub x: Span<f32>,
    /// Values of a row: a multiple of 8.
    pub cols: usize,
    /// `[cols]` and the epsilon.
    pub norm: (Span<f32>, f32),
    /// `[rows][cols]`; not `x`.
    pub out: Span<f32>,
}

impl AddNorm {
    /// The kernel: a block of threads for every row.
    ///
    /// # Errors
    /// [`CudaError::Contract`] when lengths, multiples or alignments do not fit.
    pub fn launch(&self, _info: &DeviceInfo) -> Result<Launch, CudaError> {
        let Self { x, cols, norm: (gain, eps), out } = self;
        let (name, cols) = (ADD.name, *cols);
        let whole = cols > 0 && cols.is_multiple_of(8) && cols <= i32::MAX as usize;
        CudaError::require(name, "columns", cols as u64, whole, || "a multiple of 8".to_owned())?;
        let rows = x.len() / cols;
        let fits = rows > 0 && rows <= i32::MAX as usize;
        CudaError::require(name, "rows", rows as u64, fits, || "1 to 2^31 - 1".to_owned())?;
        CudaError::equal(name, "values of x", x.len() as u64, (rows * cols) as u64)?;
        CudaError::equal(name, "values of the gain", gain.len() as u64, cols as u64)?;
        CudaError::equal(name, "values of the output", out.len() as u64, x.len() as u64)?;
        let apart = out.address() != x.address();
        CudaError::require(name, "values of the output", out.len() as u64, apart, || {
            "apart from x".to_owned()
        })?;
        let addresses = x.address() | gain.address() | out.address();
        let rule = || "a multiple of 16".to_owned();
        CudaError::require(name, "an address", addresses, addresses.is_multiple_of(16), rule)?;
        let args = NormArgs {
            x: x.address(),
            gain: gain.address(),
            normed: out.address(),
            eps: *eps,
            cols: cols as u32,
            ..NormArgs::default()
        };
        let threads = (cols.div_ceil(256) as u32 * 32).clamp(64, 512);
        let grid = Grid { blocks: rows as u32, threads, shared_bytes: 16 };
        let uses = vec![x.memory().clone(), gain.memory().clone(), out.memory().clone()];
        Ok(Launch::new(ADD, grid, args, 12 * x.len() as u64, uses))
    }
}
