//! Which parts of the file a model's ops read: shapes checked by name, bytes left where they are.

use std::collections::HashSet;
#[cfg(feature = "cuda")]
use std::ops::Range;

use bloomery_gguf::{Format, Gguf, Tensor};
use bloomery_kernels::cpu::{KernelError, Matrix, Stack};

use crate::def::Bias;
use crate::error::LoadError;
use crate::units::Bytes;

/// A matrix of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MatrixId(usize);

/// A stack of equally shaped matrices: one projection of all experts of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StackId(usize);

/// A vector that is kept as f32: norm gains, biases, rotary factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct VectorId(usize);

/// Rows `first..first + rows` of each of `count` groups of `stride` rows of one tensor.
#[derive(Debug, Clone)]
struct View {
    tensor: Tensor,
    count: usize,
    stride: usize,
    first: usize,
    rows: usize,
    cols: usize,
}

impl View {
    fn row_bytes(&self) -> usize {
        self.cols / self.tensor.format.block_len() * self.tensor.format.block_bytes()
    }

    fn bytes(&self) -> Bytes {
        Bytes::of(self.count * self.rows, self.row_bytes())
    }
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
        let Self { tensor, count, stride, first, rows, cols } = self;
        let data = gguf.data(tensor);
        let (start, len) = (first * self.row_bytes(), rows * self.row_bytes());
        let pieces = if rows == stride {
            vec![data]
        } else {
            data.chunks_exact(stride * self.row_bytes()).map(|matrix| &matrix[start..start + len]).collect()
        };
        Packed { name: &tensor.name, format: tensor.format, count: *count, rows: *rows, cols: *cols, pieces }
    }
}

/// Every tensor the program reads.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    matrices: Vec<View>,
    stacks: Vec<View>,
    vectors: Vec<Tensor>,
}

impl Weights {
    pub(crate) fn matrix<'g>(&self, gguf: &'g Gguf, id: MatrixId) -> Result<Matrix<'g>, KernelError> {
        let view = &self.matrices[id.0];
        let bytes = gguf.data(&view.tensor);
        let (start, len) = (view.first * view.row_bytes(), view.rows * view.row_bytes());
        Matrix::new(view.tensor.format, view.rows, view.cols, &bytes[start..start + len])
    }

    pub(crate) fn stack<'g>(&self, gguf: &'g Gguf, id: StackId) -> Result<Stack<'g>, KernelError> {
        let view = &self.stacks[id.0];
        let data = gguf.data(&view.tensor);
        let stack = Stack::new(view.tensor.format, view.count, view.stride, view.cols, data)?;
        stack.with_rows(view.first, view.rows)
    }

    /// The values of a vector, in f32.
    pub(crate) fn vector(&self, gguf: &Gguf, id: VectorId) -> Result<Vec<f32>, LoadError> {
        let tensor = &self.vectors[id.0];
        let mut values = vec![0.0; tensor.elements() as usize];
        bloomery_gguf::dequantize(tensor.format, gguf.data(tensor), &mut values).map_err(|_| {
            LoadError::UnsupportedFormat { tensor: tensor.name.clone(), format: tensor.format }
        })?;
        Ok(values)
    }

    /// Every matrix, in the order of their ids.
    #[cfg(feature = "cuda")]
    pub(crate) fn packed_matrices<'g>(&'g self, gguf: &'g Gguf) -> impl Iterator<Item = Packed<'g>> {
        self.matrices.iter().map(|view| view.packed(gguf))
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
        self.stacks[id.0].tensor.format
    }

    pub(crate) fn vector_ids(&self) -> impl Iterator<Item = VectorId> {
        (0..self.vectors.len()).map(VectorId)
    }

    pub(crate) fn vector_bytes(&self) -> Bytes {
        self.vectors.iter().map(|tensor| Bytes::of(tensor.elements() as usize, 4)).sum()
    }

    pub(crate) fn matrix_bytes(&self, id: MatrixId) -> Bytes {
        self.matrices[id.0].bytes()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn vector_len(&self, id: VectorId) -> usize {
        self.vectors[id.0].elements() as usize
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn matrix_rows(&self, id: MatrixId) -> usize {
        self.matrices[id.0].rows
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn matrix_cols(&self, id: MatrixId) -> usize {
        self.matrices[id.0].cols
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

/// Looks tensors up by name, checks their shapes and remembers what was used.
pub(crate) struct Binder<'g> {
    gguf: &'g Gguf,
    used: HashSet<String>,
    weights: Weights,
}

impl<'g> Binder<'g> {
    pub(crate) fn new(gguf: &'g Gguf) -> Self {
        Self { gguf, used: HashSet::new(), weights: Weights::default() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// `rows` rows of `cols` values.
    pub(crate) fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Result<MatrixId, LoadError> {
        self.matrix_rows(name, rows, cols, 0, rows)
    }

    /// Rows `first..first + rows` of a matrix of `all` rows, for projections stored as one tensor.
    pub(crate) fn matrix_rows(
        &mut self,
        name: &str,
        all: usize,
        cols: usize,
        first: usize,
        rows: usize,
    ) -> Result<MatrixId, LoadError> {
        let tensor = self.tensor(name, &[cols, all])?;
        self.weights.matrices.push(View { tensor, count: 1, stride: all, first, rows, cols });
        Ok(MatrixId(self.weights.matrices.len() - 1))
    }

    /// Rows `first..first + rows` of each of `count` matrices of `all` rows of `cols` values.
    pub(crate) fn stack_rows(
        &mut self,
        name: &str,
        (count, all, cols): (usize, usize, usize),
        first: usize,
        rows: usize,
    ) -> Result<StackId, LoadError> {
        let tensor = self.tensor(name, &[cols, all, count])?;
        self.weights.stacks.push(View { tensor, count, stride: all, first, rows, cols });
        Ok(StackId(self.weights.stacks.len() - 1))
    }

    /// `len` values.
    pub(crate) fn vector(&mut self, name: &str, len: usize) -> Result<VectorId, LoadError> {
        let tensor = self.tensor(name, &[len])?;
        self.weights.vectors.push(tensor);
        Ok(VectorId(self.weights.vectors.len() - 1))
    }

    /// `len` values where the definition asks for them.
    pub(crate) fn bias(&mut self, bias: Bias, name: &str, len: usize) -> Result<Option<VectorId>, LoadError> {
        match bias {
            Bias::None => Ok(None),
            Bias::Optional if !self.has(name) => Ok(None),
            Bias::Optional | Bias::Required => self.vector(name, len).map(Some),
        }
    }

    fn tensor(&mut self, name: &str, dims: &[usize]) -> Result<Tensor, LoadError> {
        let tensor =
            self.gguf.tensor(name).ok_or_else(|| LoadError::MissingTensor { name: name.to_owned() })?;
        let expected: Vec<u64> = dims.iter().map(|&n| n as u64).collect();
        if tensor.dims != expected {
            let found = tensor.dims.clone();
            return Err(LoadError::TensorShape { name: name.to_owned(), expected, found });
        }
        if matches!(tensor.format, Format::I8 | Format::I16 | Format::I32 | Format::I64) {
            return Err(LoadError::UnsupportedFormat { tensor: name.to_owned(), format: tensor.format });
        }
        self.used.insert(name.to_owned());
        Ok(tensor.clone())
    }

    /// The weights, provided that nothing in the file was left unread.
    pub(crate) fn finish(self, architecture: &str) -> Result<Weights, LoadError> {
        let names: Vec<String> = self
            .gguf
            .tensors()
            .map(|tensor| tensor.name.clone())
            .filter(|name| !self.used.contains(name))
            .collect();
        if names.is_empty() {
            Ok(self.weights)
        } else {
            Err(LoadError::UnknownTensors { architecture: architecture.to_owned(), names })
        }
    }
}
