//! Matrices in the memory of a card: as they lie in the file, or in tiles for the tensor cores.

use bloomery_gguf::Format;

use super::{CudaError, Pack, Span};
use crate::abi::shape::{self, Class, Shape};
use crate::abi::tiles::{TILE_ROWS, tile_bytes};

/// How the bytes of a matrix are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    File,
    Tiles,
}

/// `rows` rows of `cols` values in one format.
#[derive(Debug, Clone)]
pub struct Weight {
    format: Format,
    rows: usize,
    cols: usize,
    data: Span<u8>,
    order: Order,
}

impl Weight {
    /// A matrix as it lies in the file: exactly `rows * cols` values of `format`.
    ///
    /// # Errors
    /// [`CudaError::Contract`].
    pub fn new(format: Format, rows: usize, cols: usize, data: Span<u8>) -> Result<Self, CudaError> {
        let (what, block) = ("a matrix", format.block_len());
        let whole = cols.is_multiple_of(block);
        CudaError::require(what, "its columns", cols as u64, whole, || {
            format!("a multiple of {block} ({format})")
        })?;
        let expected = rows * (cols / block) * format.block_bytes();
        CudaError::equal(what, "its bytes", data.len() as u64, expected as u64)?;
        Ok(Self { format, rows, cols, data, order: Order::File })
    }

    /// A matrix in the tiles that [`Pack`](super::Pack) made of it.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for another length.
    pub fn tiles(format: Format, rows: usize, cols: usize, data: Span<u8>) -> Result<Self, CudaError> {
        let expected = Pack::bytes(format, 1, rows, cols);
        CudaError::equal("a matrix in tiles", "its bytes", data.len() as u64, expected as u64)?;
        let format = Pack::kept(format);
        Ok(Self { format, rows, cols, data, order: Order::Tiles })
    }

    /// Block format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Output values.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input values.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All bytes.
    #[must_use]
    pub fn data(&self) -> &Span<u8> {
        &self.data
    }

    /// What the products of a launch may rely on.
    pub(super) fn product(&self, what: &'static str) -> Result<Form, CudaError> {
        form(what, self.format, self.order, self.cols, self.data.address())
    }
}

/// A matrix for every expert of a layer, all of one shape and format.
#[derive(Debug, Clone)]
pub struct WeightStack {
    format: Format,
    count: usize,
    rows: usize,
    cols: usize,
    /// From the first byte of the first matrix on.
    data: Span<u8>,
    /// Bytes from one matrix to the next.
    stride: usize,
    order: Order,
}

impl WeightStack {
    /// Matrices as they lie in the file: exactly `count * rows * cols` values of `format`.
    ///
    /// # Errors
    /// [`CudaError::Contract`].
    pub fn new(
        format: Format,
        count: usize,
        rows: usize,
        cols: usize,
        data: Span<u8>,
    ) -> Result<Self, CudaError> {
        let all = Weight::new(format, count * rows, cols, data)?;
        let stride = rows * (cols / format.block_len()) * format.block_bytes();
        Ok(Self { format, count, rows, cols, data: all.data, stride, order: Order::File })
    }

    /// Matrices in the tiles that [`Pack`](super::Pack) made of them.
    ///
    /// # Errors
    /// [`CudaError::Contract`] for another length.
    pub fn tiles(
        format: Format,
        count: usize,
        rows: usize,
        cols: usize,
        data: Span<u8>,
    ) -> Result<Self, CudaError> {
        let stride = Pack::bytes(format, 1, rows, cols);
        CudaError::equal("a stack in tiles", "its bytes", data.len() as u64, (count * stride) as u64)?;
        let format = Pack::kept(format);
        Ok(Self { format, count, rows, cols, data, stride, order: Order::Tiles })
    }

    /// Rows `first..first + rows` of every matrix, for projections that share one tensor.
    ///
    /// # Errors
    /// [`CudaError::Contract`] if there are not as many, or if they do not start with a tile.
    pub fn with_rows(&self, first: usize, rows: usize) -> Result<Self, CudaError> {
        let (has, end) = (self.rows, first + rows);
        CudaError::require("a stack", "its rows", end as u64, end <= has, || format!("at most {has}"))?;
        let start = match self.order {
            Order::File => first * self.row_bytes(),
            Order::Tiles => {
                let whole = first.is_multiple_of(TILE_ROWS as usize);
                let rule = || format!("a multiple of {TILE_ROWS}");
                CudaError::require("a stack in tiles", "the first row", first as u64, whole, rule)?;
                Pack::bytes(self.format, 1, first, self.cols)
            }
        };
        let data = self.data.slice(start..self.data.len())?;
        Ok(Self { rows, data, ..self.clone() })
    }

    /// The matrix as the only expert.
    #[must_use]
    pub fn dense(weight: &Weight) -> Self {
        let Weight { format, rows, cols, data, order } = weight.clone();
        Self { format, count: 1, rows, cols, stride: data.len(), data, order }
    }

    fn row_bytes(&self) -> usize {
        self.cols / self.format.block_len() * self.format.block_bytes()
    }

    /// Matrices.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Rows of one matrix.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Input values.
    #[must_use]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Block format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Bytes of one matrix.
    #[must_use]
    pub fn expert_bytes(&self) -> usize {
        self.rows * self.row_bytes()
    }

    pub(super) fn data(&self) -> &Span<u8> {
        &self.data
    }

    pub(super) fn product(&self, what: &'static str) -> Result<Form, CudaError> {
        form(what, self.format, self.order, self.cols, self.data.address())
    }

    /// As the kernels of tiles take it.
    pub(super) fn tiled(&self) -> crate::abi::few::Stack {
        crate::abi::few::Stack {
            weight: self.data.address(),
            stride: self.stride as u64,
            rows: self.rows as u32,
            format: self.format.id(),
            tile_bytes: tile_bytes(self.format.id()),
            reserved: 0,
        }
    }

    /// As the kernels take it.
    pub(super) fn argument(&self, form: &Form) -> crate::abi::experts::Stack {
        crate::abi::experts::Stack {
            weight: self.data.address(),
            stride: self.stride as u64,
            rows: self.rows as u32,
            format: self.format.id(),
            shape: form.shape,
            reserved: 0,
        }
    }
}

/// How weights are multiplied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) class: Class,
    pub(super) shape: Shape,
}

fn form(
    what: &'static str,
    format: Format,
    order: Order,
    cols: usize,
    address: u64,
) -> Result<Form, CudaError> {
    let class = shape::class(format.id()).ok_or(CudaError::NoProduct { what, format })?;
    let (block, most) = (class.block() as usize, 1 << 20);
    let fits = cols > 0 && cols.is_multiple_of(block) && cols <= most;
    let rule = || format!("a multiple of {block} ({format}) and at most {most}");
    CudaError::require(what, "columns", cols as u64, fits, rule)?;
    let (wanted, alignment) = match tile_bytes(format.id()) {
        0 => (Order::File, u64::from(shape::alignment(format.id()))),
        _ => (Order::Tiles, 16),
    };
    let rule = || format!("in {wanted:?}, which {format} is multiplied in");
    CudaError::require(what, "its order", order as u64, order == wanted, rule)?;
    let rule = || format!("a multiple of {alignment}");
    CudaError::require(what, "the address", address, address.is_multiple_of(alignment), rule)?;
    Ok(Form { class, shape: Shape::new(format.id(), cols as u32) })
}
