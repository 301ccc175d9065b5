//! Borrowed views of weights as they lie in the file.

use bloomery_gguf::Format;

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
        if cols % block != 0 {
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
        Ok(Self { count, all: Matrix::new(format, count * rows, cols, data)? })
    }

    /// Matrices in the stack.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Rows of one matrix.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.all.rows / self.count.max(1)
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
        let (rows, bytes) = (self.rows(), self.rows() * self.all.row_bytes());
        Matrix { rows, data: &self.all.data[index * bytes..(index + 1) * bytes], ..self.all }
    }
}
