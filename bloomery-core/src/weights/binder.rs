//! Tensors by name.

use std::collections::HashSet;

use bloomery_gguf::{Format, Gguf, Tensor};

use super::{
    HeadRows, Heads, HeadsId, Made, MatrixId, NumbersId, StackId, Vector, VectorId, View, Weights, floats,
};
use crate::def::Bias;
use crate::error::LoadError;

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

    /// Values of a row of a tensor; none of one that is not there.
    pub(crate) fn cols(&self, name: &str) -> usize {
        self.gguf.tensor(name).and_then(|tensor| tensor.dims.first()).map_or(0, |&cols| cols as usize)
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
        self.weights.vectors.push(Vector::File(tensor));
        Ok(VectorId(self.weights.vectors.len() - 1))
    }

    /// `len` values, so many times over.
    pub(crate) fn repeated(&mut self, name: &str, len: usize, times: usize) -> Result<VectorId, LoadError> {
        let tensor = self.tensor(name, &[len])?;
        self.weights.vectors.push(Vector::Repeated(tensor, times));
        Ok(VectorId(self.weights.vectors.len() - 1))
    }

    /// So many values, all 1.
    pub(crate) fn ones(&mut self, len: usize) -> VectorId {
        self.weights.vectors.push(Vector::Ones(len));
        VectorId(self.weights.vectors.len() - 1)
    }

    /// Rows of `cols` numbers that are not below zero.
    pub(crate) fn numbers(&mut self, name: &str, cols: usize) -> Result<NumbersId, LoadError> {
        let missing = || LoadError::MissingTensor { name: name.to_owned() };
        let tensor = self.gguf.tensor(name).ok_or_else(missing)?;
        if tensor.format != Format::I32 {
            return Err(LoadError::UnsupportedFormat { tensor: name.to_owned(), format: tensor.format });
        }
        let expected = vec![cols as u64, tensor.rows()];
        if tensor.dims != expected {
            return Err(LoadError::TensorShape {
                name: name.to_owned(),
                expected,
                found: tensor.dims.clone(),
            });
        }
        let words = self.gguf.data(tensor).as_chunks::<4>().0.iter().map(|&bytes| u32::from_le_bytes(bytes));
        self.weights.numbers.push(words.collect());
        self.used.insert(name.to_owned());
        Ok(NumbersId(self.weights.numbers.len() - 1))
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
