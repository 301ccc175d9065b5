//! Which parts of the file a model's ops read: shapes checked by name, bytes left where they are.

mod binder;

#[cfg(feature = "cuda")]
use std::ops::Range;

use bloomery_gguf::{Format, Gguf, Tensor};
use bloomery_kernels::cpu::{KernelError, Matrix, Stack};

use crate::error::LoadError;
use crate::units::Bytes;

pub(crate) use binder::Binder;

/// A matrix of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MatrixId(usize);

/// A stack of equally shaped matrices: one projection of all experts of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StackId(usize);

/// A vector that is kept as f32: norm gains, biases, rotary factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct VectorId(usize);

/// Numbers that are no weights: experts by token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NumbersId(usize);

/// One small matrix for each head of a layer, which backends keep as floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct HeadsId(usize);

/// Rows of one tensor: from row `base` on, rows `first..first + rows` of each of `count` groups of `stride` rows.
#[derive(Debug, Clone)]
struct View {
    tensor: Tensor,
    base: usize,
    count: usize,
    stride: usize,
    first: usize,
    rows: usize,
    cols: usize,
    /// The rows themselves where they are not as the file has them.
    made: Option<Made>,
}

/// Rows that were made of the file's.
#[derive(Debug, Clone)]
struct Made {
    format: Format,
    bytes: Vec<u8>,
}

impl View {
    fn format(&self) -> Format {
        self.made.as_ref().map_or(self.tensor.format, |made| made.format)
    }

    fn row_bytes(&self) -> usize {
        self.cols / self.format().block_len() * self.format().block_bytes()
    }

    fn bytes(&self) -> Bytes {
        Bytes::of(self.count * self.rows, self.row_bytes())
    }

    /// The rows in order, in as few pieces as they lie in.
    fn pieces<'g>(&'g self, gguf: &'g Gguf) -> Vec<&'g [u8]> {
        if let Some(made) = &self.made {
            return vec![&made.bytes];
        }
        let (row, data) = (self.row_bytes(), gguf.data(&self.tensor));
        let data = &data[self.base * row..][..self.count * self.stride * row];
        if self.rows == self.stride {
            return vec![data];
        }
        let (start, len) = (self.first * row, self.rows * row);
        data.chunks_exact(self.stride * row).map(|group| &group[start..start + len]).collect()
    }
}

/// The matrices of a layer's heads, `rows` by `cols` each.
#[derive(Debug, Clone)]
struct Heads {
    view: View,
    /// The file has columns for rows.
    transposed: bool,
}

/// Where in a tensor the rows of each head are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadRows {
    /// Heads.
    pub(crate) count: usize,
    /// Rows of the tensor for each head.
    pub(crate) stride: usize,
    /// The first of those that are taken.
    pub(crate) first: usize,
    /// How many are.
    pub(crate) rows: usize,
    /// Values of a row.
    pub(crate) cols: usize,
}

/// A matrix or a stack as a card holds it: `count` matrices of `rows` rows, one after the other.
#[cfg(feature = "cuda")]
#[derive(Debug, Clone)]
pub(crate) struct Packed<'g> {
    pub(crate) name: &'g str,
    pub(crate) format: Format,
    pub(crate) count: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// The file's bytes, in order.
    pub(crate) pieces: Vec<&'g [u8]>,
}

#[cfg(feature = "cuda")]
impl View {
    fn packed<'g>(&'g self, gguf: &'g Gguf) -> Packed<'g> {
        let Self { tensor, count, rows, cols, .. } = self;
        let pieces = self.pieces(gguf);
        Packed { name: &tensor.name, format: self.format(), count: *count, rows: *rows, cols: *cols, pieces }
    }
}

/// Every tensor the program reads.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    matrices: Vec<View>,
    stacks: Vec<View>,
    heads: Vec<Heads>,
    vectors: Vec<Vector>,
    numbers: Vec<Vec<u32>>,
}

/// Where the values of a vector are.
#[derive(Debug)]
enum Vector {
    File(Tensor),
    /// So many, all 1: the gain of a norm that has none.
    Ones(usize),
    /// A tensor so many times over: the gain that parts of a row share.
    Repeated(Tensor, usize),
}

impl Vector {
    fn len(&self) -> usize {
        match self {
            Self::File(tensor) => tensor.elements() as usize,
            Self::Ones(len) => *len,
            Self::Repeated(tensor, times) => tensor.elements() as usize * times,
        }
    }
}

impl Weights {
    pub(crate) fn matrix<'g>(&'g self, gguf: &'g Gguf, id: MatrixId) -> Result<Matrix<'g>, KernelError> {
        let view = &self.matrices[id.0];
        let (rows, pieces) = (view.count * view.rows, view.pieces(gguf));
        // Rows that lie apart were [joined](Self::join).
        Matrix::new(view.format(), rows, view.cols, pieces.first().copied().unwrap_or_default())
    }

    /// The tensor whose rows are those of a matrix, if there is one.
    pub(crate) fn tensor(&self, id: MatrixId) -> Option<&Tensor> {
        let view = &self.matrices[id.0];
        let is_whole = view.base == 0 && view.rows == view.stride && view.made.is_none();
        is_whole.then_some(&view.tensor)
    }

    /// Copies the rows of matrices that lie apart in the file to one place, for who reads weights where they are.
    pub(crate) fn join(&mut self, gguf: &Gguf) {
        for view in &mut self.matrices {
            let pieces = view.pieces(gguf);
            if pieces.len() > 1 {
                view.made = Some(Made { format: view.format(), bytes: pieces.concat() });
            }
        }
    }

    /// Heads, rows and columns.
    pub(crate) fn heads_shape(&self, id: HeadsId) -> (usize, usize, usize) {
        let Heads { view, transposed } = &self.heads[id.0];
        let (rows, cols) = if *transposed { (view.cols, view.rows) } else { (view.rows, view.cols) };
        (view.count, rows, cols)
    }

    /// The matrices of all heads in f32, rows after rows.
    pub(crate) fn heads_values(&self, gguf: &Gguf, id: HeadsId) -> Result<Vec<f32>, LoadError> {
        let Heads { view, transposed } = &self.heads[id.0];
        let values = floats(&view.tensor, &view.pieces(gguf))?;
        if !transposed {
            return Ok(values);
        }
        let (rows, cols) = (view.rows, view.cols);
        let turned = |head: &[f32]| {
            (0..cols)
                .flat_map(|col| (0..rows).map(move |row| (row, col)))
                .map(|(row, col)| head[row * cols + col])
                .collect::<Vec<f32>>()
        };
        Ok(values.chunks_exact(rows * cols).flat_map(turned).collect())
    }

    /// Bytes of the matrices of all heads, as floats of 16 bits.
    pub(crate) fn heads_bytes(&self, id: HeadsId) -> Bytes {
        let view = &self.heads[id.0].view;
        Bytes::of(view.count * view.rows * view.cols, 2)
    }

    pub(crate) fn stack<'g>(&self, gguf: &'g Gguf, id: StackId) -> Result<Stack<'g>, KernelError> {
        let view = &self.stacks[id.0];
        let data = gguf.data(&view.tensor);
        let stack = Stack::new(view.tensor.format, view.count, view.stride, view.cols, data)?;
        stack.with_rows(view.first, view.rows)
    }

    /// The values of a vector, in f32.
    pub(crate) fn vector(&self, gguf: &Gguf, id: VectorId) -> Result<Vec<f32>, LoadError> {
        match &self.vectors[id.0] {
            Vector::File(tensor) => floats(tensor, &[gguf.data(tensor)]),
            Vector::Ones(len) => Ok(vec![1.0; *len]),
            Vector::Repeated(tensor, times) => Ok(floats(tensor, &[gguf.data(tensor)])?.repeat(*times)),
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn numbers_ids(&self) -> impl Iterator<Item = NumbersId> {
        (0..self.numbers.len()).map(NumbersId)
    }

    /// The numbers of all rows, one row after the other.
    pub(crate) fn numbers(&self, id: NumbersId) -> &[u32] {
        &self.numbers[id.0]
    }

    /// Every matrix, in the order of their ids.
    #[cfg(feature = "cuda")]
    pub(crate) fn packed_matrices<'g>(&'g self, gguf: &'g Gguf) -> impl Iterator<Item = Packed<'g>> {
        // Groups of rows are one matrix.
        let one = |packed: Packed<'g>| Packed { count: 1, rows: packed.count * packed.rows, ..packed };
        self.matrices.iter().map(move |view| one(view.packed(gguf)))
    }

    /// Every stack, in the order of their ids.
    #[cfg(feature = "cuda")]
    pub(crate) fn packed_stacks<'g>(&'g self, gguf: &'g Gguf) -> impl Iterator<Item = Packed<'g>> {
        self.stacks.iter().map(|view| view.packed(gguf))
    }

    /// The file's bytes of some experts of a stack, in order: one piece where they lie one after the other.
    #[cfg(feature = "cuda")]
    pub(crate) fn experts<'g>(&self, gguf: &'g Gguf, id: StackId, experts: Range<usize>) -> Vec<&'g [u8]> {
        let view = &self.stacks[id.0];
        let (data, row) = (gguf.data(&view.tensor), view.row_bytes());
        let one = |expert: usize, count: usize| {
            let start = (expert * view.stride + view.first) * row;
            &data[start..start + ((count - 1) * view.stride + view.rows) * row]
        };
        match view.rows == view.stride {
            true if !experts.is_empty() => vec![one(experts.start, experts.len())],
            _ => experts.map(|expert| one(expert, 1)).collect(),
        }
    }

    /// Format of a stack.
    #[cfg(feature = "cuda")]
    pub(crate) fn stack_format(&self, id: StackId) -> Format {
        self.stacks[id.0].format()
    }

    pub(crate) fn heads_ids(&self) -> impl Iterator<Item = HeadsId> {
        (0..self.heads.len()).map(HeadsId)
    }

    pub(crate) fn vector_ids(&self) -> impl Iterator<Item = VectorId> {
        (0..self.vectors.len()).map(VectorId)
    }

    pub(crate) fn vector_bytes(&self) -> Bytes {
        self.vectors.iter().map(|vector| Bytes::of(vector.len(), 4)).sum()
    }

    pub(crate) fn matrix_bytes(&self, id: MatrixId) -> Bytes {
        self.matrices[id.0].bytes()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn vector_len(&self, id: VectorId) -> usize {
        self.vectors[id.0].len()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn matrix_rows(&self, id: MatrixId) -> usize {
        self.matrices[id.0].count * self.matrices[id.0].rows
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn matrix_cols(&self, id: MatrixId) -> usize {
        self.matrices[id.0].cols
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn matrix_format(&self, id: MatrixId) -> Format {
        self.matrices[id.0].format()
    }

    /// Matrices of the stack.
    #[cfg(feature = "cuda")]
    pub(crate) fn stack_count(&self, id: StackId) -> usize {
        self.stacks[id.0].count
    }

    /// Columns of one matrix of the stack.
    #[cfg(feature = "cuda")]
    pub(crate) fn stack_cols(&self, id: StackId) -> usize {
        self.stacks[id.0].cols
    }

    /// Rows of one matrix of the stack.
    #[cfg(feature = "cuda")]
    pub(crate) fn stack_rows(&self, id: StackId) -> usize {
        self.stacks[id.0].rows
    }

    /// Bytes of one matrix of the stack.
    pub(crate) fn expert_bytes(&self, id: StackId) -> Bytes {
        let view = &self.stacks[id.0];
        Bytes::of(view.rows, view.row_bytes())
    }
}

impl VectorId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

impl HeadsId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

#[cfg(feature = "cuda")]
impl NumbersId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

#[cfg(feature = "cuda")]
impl MatrixId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

#[cfg(feature = "cuda")]
impl StackId {
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// Pieces of a tensor's rows in f32.
fn floats(tensor: &Tensor, pieces: &[&[u8]]) -> Result<Vec<f32>, LoadError> {
    let format = tensor.format;
    let len = |piece: &&[u8]| piece.len() / format.block_bytes() * format.block_len();
    let mut values = vec![0.0; pieces.iter().map(len).sum()];
    let mut rest = values.as_mut_slice();
    for piece in pieces {
        let (now, after) = rest.split_at_mut(len(piece));
        let unsupported = |_| LoadError::UnsupportedFormat { tensor: tensor.name.clone(), format };
        bloomery_gguf::dequantize(format, piece, now).map_err(unsupported)?;
        rest = after;
    }
    Ok(values)
}
