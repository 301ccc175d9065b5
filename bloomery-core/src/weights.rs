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
    vectors: Vec<Tensor>,
}

impl Weights {
    pub(crate) fn matrix<'g>(&'g self, gguf: &'g Gguf, id: MatrixId) -> Result<Matrix<'g>, KernelError> {
        let view = &self.matrices[id.0];
        let (rows, pieces) = (view.count * view.rows, view.pieces(gguf));
        // Rows that lie apart were [joined](Self::join).
        Matrix::new(view.format(), rows, view.cols, pieces.first().copied().unwrap_or_default())
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
        let tensor = &self.vectors[id.0];
        floats(tensor, &[gguf.data(tensor)])
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
        self.matrices[id.0].count * self.matrices[id.0].rows
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

impl HeadsId {
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
        let view = View { tensor, base: first, count: 1, stride: rows, first: 0, rows, cols, made: None };
        Ok(self.push(view))
    }

    /// The first or second half of the rows of each of `groups` groups, from row `base` of a matrix of `all` rows on, as a matrix
    /// of `groups * half` rows.
    pub(crate) fn matrix_halves(
        &mut self,
        name: &str,
        (all, cols): (usize, usize),
        base: usize,
        (groups, half): (usize, usize),
        second: bool,
    ) -> Result<MatrixId, LoadError> {
        let tensor = self.tensor(name, &[cols, all])?;
        let first = if second { half } else { 0 };
        let view =
            View { tensor, base, count: groups, stride: 2 * half, first, rows: half, cols, made: None };
        Ok(self.push(view))
    }

    /// As [`matrix`](Self::matrix), in f32 whatever the file has: for small matrices whose errors add up.
    pub(crate) fn matrix_floats(
        &mut self,
        name: &str,
        rows: usize,
        cols: usize,
    ) -> Result<MatrixId, LoadError> {
        let id = self.matrix(name, rows, cols)?;
        let view = &mut self.weights.matrices[id.0];
        if view.format() != Format::F32 {
            let values = floats(&view.tensor, &view.pieces(self.gguf))?;
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            view.made = Some(Made { format: Format::F32, bytes });
        }
        Ok(id)
    }

    /// A matrix for each head. With `transposed` the file has columns for rows.
    pub(crate) fn heads(&mut self, name: &str, at: HeadRows, transposed: bool) -> Result<HeadsId, LoadError> {
        let HeadRows { count, stride, first, rows, cols } = at;
        let is_flat = self.gguf.tensor(name).is_some_and(|tensor| tensor.dims.len() == 2);
        let (flat, stacked) = ([cols, stride * count], [cols, stride, count]);
        let tensor = self.tensor(name, if is_flat { &flat } else { &stacked })?;
        let view = View { tensor, base: 0, count, stride, first, rows, cols, made: None };
        self.weights.heads.push(Heads { view, transposed });
        Ok(HeadsId(self.weights.heads.len() - 1))
    }

    fn push(&mut self, view: View) -> MatrixId {
        self.weights.matrices.push(view);
        MatrixId(self.weights.matrices.len() - 1)
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
        self.weights.stacks.push(View { tensor, base: 0, count, stride: all, first, rows, cols, made: None });
        Ok(StackId(self.weights.stacks.len() - 1))
    }

    /// `len` values; the file may call them a matrix of one row.
    pub(crate) fn vector(&mut self, name: &str, len: usize) -> Result<VectorId, LoadError> {
        let is_row = self.gguf.tensor(name).is_some_and(|tensor| tensor.dims == [len as u64, 1]);
        let dims = [len, 1];
        self.values(name, if is_row { &dims } else { &dims[..1] })
    }

    /// All values of a tensor of these dimensions, innermost first.
    pub(crate) fn values(&mut self, name: &str, dims: &[usize]) -> Result<VectorId, LoadError> {
        let tensor = self.tensor(name, dims)?;
        self.weights.vectors.push(tensor);
        Ok(VectorId(self.weights.vectors.len() - 1))
    }

    /// As [`values`](Self::values), where the file may have dimensions of 1 between.
    pub(crate) fn squeezed(&mut self, name: &str, dims: &[usize]) -> Result<VectorId, LoadError> {
        let Some(found) = self.gguf.tensor(name).map(|tensor| tensor.dims.clone()) else {
            return Err(LoadError::MissingTensor { name: name.to_owned() });
        };
        let long = |dims: &[u64]| dims.iter().copied().filter(|&dim| dim != 1).collect::<Vec<u64>>();
        let wanted: Vec<u64> = dims.iter().map(|&dim| dim as u64).collect();
        if long(&found) != long(&wanted) {
            return Err(LoadError::TensorShape { name: name.to_owned(), expected: wanted, found });
        }
        self.values(name, &found.iter().map(|&dim| dim as usize).collect::<Vec<usize>>())
    }

    /// All rows of a matrix of which only the width is known.
    pub(crate) fn table(&mut self, name: &str, cols: usize) -> Result<MatrixId, LoadError> {
        let rows = self.gguf.tensor(name).map_or(0, Tensor::rows);
        self.matrix(name, rows as usize, cols)
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

    /// The weights, provided that nothing in the file was left unread but what is `reserved`: beginnings of names.
    pub(crate) fn finish(self, architecture: &str, reserved: &[String]) -> Result<Weights, LoadError> {
        let names: Vec<String> = self
            .gguf
            .tensors()
            .map(|tensor| tensor.name.clone())
            .filter(|name| !self.used.contains(name) && !reserved.iter().any(|start| name.starts_with(start)))
            .collect();
        if names.is_empty() {
            Ok(self.weights)
        } else {
            Err(LoadError::UnknownTensors { architecture: architecture.to_owned(), names })
        }
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
