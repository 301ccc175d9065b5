//! Borrowed views of weights as they lie in the file.

use bloomery_gguf::{DequantizeError, Format, dequantize};

/// The values of one row of weights. In a damaged file a block may have a scale that is no number: the whole row is NaN then, and
/// so is what is computed from it, until sampling refuses to draw from it.
///
/// # Panics
/// For a format of integers, or when the row does not hold as many values.
pub(super) fn read_row(format: Format, row: &[u8], values: &mut [f32]) {
    match dequantize(format, row, values) {
        Ok(()) => {}
        Err(DequantizeError::InvalidScale { .. }) => values.fill(f32::NAN),
        Err(error) => panic!("{error}"),
    }
}

/// A contract of a kernel that a caller broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A row does not hold a whole number of blocks.
    #[error("a row of {cols} values is not a multiple of {format:?}'s block of {block}")]
    RaggedRow {
        /// Values in a row.
        cols: usize,
        /// Block format.
        format: Format,
        /// Values in a block.
        block: usize,
    },
    /// A buffer has the wrong length.
    #[error("{what}: {found} values where {expected} are needed")]
    Length {
        /// The argument.
        what: &'static str,
        /// What the shapes ask for.
        expected: usize,
        /// What was passed.
        found: usize,
    },
    /// Weights of this format cannot be multiplied.
    #[error("there is no product with weights in {format:?}")]
    NoProduct {
        /// The format.
        format: Format,
    },
    /// A number (a token, a page, an expert) that must be below a limit.
    #[error("{what} {value} is out of range: must be below {limit}")]
    OutOfRange {
        /// What the number counts.
        what: &'static str,
        /// The number.
        value: usize,
        /// The first number that is too big.
        limit: usize,
    },
    /// A shape the kernels do not have.
    #[error("{what} {value}: must be {rule}")]
    Shape {
        /// The quantity.
        what: &'static str,
        /// Its value.
        value: usize,
        /// What it must be.
        rule: &'static str,
    },
}

impl KernelError {
    /// Checks a buffer's length.
    pub(super) fn length(what: &'static str, expected: usize, found: usize) -> Result<(), Self> {
        if expected == found { Ok(()) } else { Err(Self::Length { what, expected, found }) }
    }

    /// Checks that `value < limit`.
    pub(super) fn below(what: &'static str, value: usize, limit: usize) -> Result<(), Self> {
        if value < limit { Ok(()) } else { Err(Self::OutOfRange { what, value, limit }) }
    }
}

/// `rows` rows of `cols` values in one block format, row-major: `y[r] = sum_c w[r][c] x[c]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    format: Format,
    rows: usize,
    cols: usize,
    data: &'a [u8],
}

impl<'a> Matrix<'a> {
    /// Checks that `data` holds exactly `rows * cols` values of `format`.
    pub fn new(format: Format, rows: usize, cols: usize, data: &'a [u8]) -> Result<Self, KernelError> {
        let block = format.block_len();
        if !cols.is_multiple_of(block) {
            return Err(KernelError::RaggedRow { cols, format, block });
        }
        let expected = rows * (cols / block) * format.block_bytes();
        if data.len() != expected {
            return Err(KernelError::Length { what: "matrix bytes", expected, found: data.len() });
        }
        Ok(Self { format, rows, cols, data })
    }

    /// Block format of every row.
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

    /// Bytes of one row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.cols / self.format.block_len() * self.format.block_bytes()
    }

    /// The bytes of row `r`. Panics when `r >= rows`, as slices do.
    #[must_use]
    pub fn row(&self, r: usize) -> &'a [u8] {
        let bytes = self.row_bytes();
        &self.data[r * bytes..(r + 1) * bytes]
    }

    /// All bytes, row after row.
    #[must_use]
    pub fn data(&self) -> &'a [u8] {
        self.data
    }
}

/// `count` matrices of one shape and format, one after the other: the experts of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'a> {
    count: usize,
    /// Rows from the start of one matrix to the start of the next.
    stride: usize,
    first: usize,
    rows: usize,
    all: Matrix<'a>,
}

impl<'a> Stack<'a> {
    /// Checks that `data` holds exactly `count * rows * cols` values of `format`.
    pub fn new(
        format: Format,
        count: usize,
        rows: usize,
        cols: usize,
        data: &'a [u8],
    ) -> Result<Self, KernelError> {
        Ok(Self { count, stride: rows, first: 0, rows, all: Matrix::new(format, count * rows, cols, data)? })
    }

    /// Rows `first..first + rows` of every matrix, for projections that share one tensor.
    pub fn with_rows(self, first: usize, rows: usize) -> Result<Self, KernelError> {
        if first + rows > self.rows {
            return Err(KernelError::Length { what: "stack rows", expected: self.rows, found: first + rows });
        }
        Ok(Self { first: self.first + first, rows, ..self })
    }

    /// Matrices in the stack.
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
        self.all.cols
    }

    /// Block format of every matrix.
    #[must_use]
    pub fn format(&self) -> Format {
        self.all.format
    }

    /// Matrix `index`. Panics when `index >= count`, as slices do.
    #[must_use]
    pub fn matrix(&self, index: usize) -> Matrix<'a> {
        assert!(index < self.count, "matrix {index} of a stack of {}", self.count);
        let (row, start) = (self.all.row_bytes(), index * self.stride + self.first);
        Matrix { rows: self.rows, data: &self.all.data[start * row..(start + self.rows) * row], ..self.all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_of_merged_projections_view_their_rows() {
        let bytes: Vec<u8> = (0..2u8 * 4 * 4).collect();
        let stack = Stack::new(Format::F32, 2, 4, 1, &bytes).unwrap();
        let upper = stack.with_rows(2, 2).unwrap();
        assert_eq!(upper.matrix(1).data(), &bytes[16 + 8..]);
        assert_eq!(upper.rows(), 2);
        assert!(stack.with_rows(3, 2).is_err());
        assert!(Stack::new(Format::Q4_0, 1, 1, 33, &bytes).is_err());
    }
}
