//! Writing GGUF version 3.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::parse::{ALIGNMENT_KEY, MAGIC, MAX_DEPTH, MAX_KEY, alignment};
use crate::tensor::checked_size;
use crate::{Array, Format, GgufError, Metadata, Value};

/// Collects metadata and tensors, then writes a file.
#[derive(Debug, Clone, Default)]
pub struct Writer<'a> {
    pairs: Vec<(String, Value)>,
    tensors: Vec<Entry<'a>>,
}

#[derive(Debug, Clone)]
struct Entry<'a> {
    name: String,
    dims: Vec<u64>,
    format: Format,
    bytes: Cow<'a, [u8]>,
}

impl<'a> Writer<'a> {
    /// A writer of an empty file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key. A key that is there keeps its place and gets the new value.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> &mut Self {
        let (key, value) = (key.into(), value.into());
        match self.pairs.iter_mut().find(|pair| pair.0 == key) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((key, value)),
        }
        self
    }

    /// Sets `general.alignment`: tensor data starts at multiples of so many bytes, 32 where this is not
    /// called. It must be a power of two, which [`Writer::write_to`] checks.
    pub fn alignment(&mut self, bytes: u32) -> &mut Self {
        self.set(ALIGNMENT_KEY, bytes)
    }

    /// Adds a tensor: dimensions with the fastest first, and exactly the bytes that they need in the format.
    ///
    /// # Errors
    /// A shape that no file can hold, [`GgufError::WrongSize`], [`GgufError::DuplicateTensor`] (from
    /// [`Writer::write_to`]).
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        dims: &[u64],
        format: Format,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self, GgufError> {
        let (name, bytes) = (name.into(), bytes.into());
        check_len("the length of a tensor name", name.len(), MAX_KEY)?;
        let expected = checked_size(&name, dims, format)?;
        if bytes.len() != expected {
            return Err(GgufError::WrongSize {
                tensor: name,
                expected: expected as u64,
                found: bytes.len() as u64,
            });
        }
        self.tensors.push(Entry { name, dims: dims.to_vec(), format, bytes });
        Ok(self)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`GgufError::Io`] from `out`; [`GgufError::BadAlignment`], [`GgufError::DuplicateTensor`], and arrays
    /// or keys beyond the limits of the reader.
    pub fn write_to(&self, mut out: impl Write) -> Result<(), GgufError> {
        let (head, alignment) = self.head()?;
        out.write_all(&head)?;
        pad(&mut out, head.len() as u64, alignment)?;
        for tensor in &self.tensors {
            out.write_all(&tensor.bytes)?;
            pad(&mut out, tensor.bytes.len() as u64, alignment)?;
        }
        out.flush()?;
        Ok(())
    }

    /// Writes the file under a temporary name beside `path` and renames it, so that an open mapping of an
    /// older file at `path` stays valid.
    ///
    /// # Errors
    /// As [`Writer::write_to`], within [`GgufError::InFile`].
    pub fn write_file(&self, path: impl AsRef<Path>) -> Result<(), GgufError> {
        let path = path.as_ref();
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let write = || {
            self.write_to(BufWriter::new(File::create(&partial)?))?;
            fs::rename(&partial, path)?;
            Ok(())
        };
        write().map_err(|error: GgufError| {
            // The first error is the one to report.
            let _ = fs::remove_file(&partial);
            error.in_file(path)
        })
    }

    /// Everything before the padding of the tensor data, and the alignment.
    fn head(&self) -> Result<(Vec<u8>, u64), GgufError> {
        let alignment = alignment(&Metadata::from_pairs(
            self.pairs.iter().filter(|pair| pair.0 == ALIGNMENT_KEY).cloned(),
        )?)?;
        let mut names = HashSet::new();
        if let Some(twice) = self.tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
            return Err(GgufError::DuplicateTensor { tensor: twice.name.clone() });
        }

        let mut head = MAGIC.to_vec();
        put(&mut head, 3u32.to_le_bytes());
        put(&mut head, (self.tensors.len() as u64).to_le_bytes());
        put(&mut head, (self.pairs.len() as u64).to_le_bytes());
        for (key, value) in &self.pairs {
            check_len("the length of a key", key.len(), MAX_KEY)?;
            put_string(&mut head, key);
            put(&mut head, value.value_type().id().to_le_bytes());
            put_value(&mut head, key, value)?;
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            put_string(&mut head, &tensor.name);
            put(&mut head, (tensor.dims.len() as u32).to_le_bytes());
            for dim in &tensor.dims {
                put(&mut head, dim.to_le_bytes());
            }
            put(&mut head, tensor.format.id().to_le_bytes());
            put(&mut head, offset.to_le_bytes());
            offset = (offset + tensor.bytes.len() as u64).checked_next_multiple_of(alignment).ok_or_else(
                || GgufError::TooLarge { tensor: tensor.name.clone(), dims: tensor.dims.clone() },
            )?;
        }
        Ok((head, alignment))
    }
}

fn check_len(what: &str, len: usize, limit: usize) -> Result<(), GgufError> {
    if len <= limit {
        return Ok(());
    }
    Err(GgufError::AbsurdCount { what: what.to_owned(), offset: 0, count: len as u64, limit: limit as u64 })
}

fn pad(out: &mut impl Write, written: u64, alignment: u64) -> Result<(), GgufError> {
    let padding = written.next_multiple_of(alignment) - written;
    io::copy(&mut io::Read::take(io::repeat(0), padding), out)?;
    Ok(())
}

fn put<const N: usize>(head: &mut Vec<u8>, bytes: [u8; N]) {
    head.extend_from_slice(&bytes);
}

fn put_string(head: &mut Vec<u8>, text: &str) {
    put(head, (text.len() as u64).to_le_bytes());
    head.extend_from_slice(text.as_bytes());
}

fn put_value(head: &mut Vec<u8>, key: &str, value: &Value) -> Result<(), GgufError> {
    match value {
        Value::U8(v) => put(head, v.to_le_bytes()),
        Value::I8(v) => put(head, v.to_le_bytes()),
        Value::U16(v) => put(head, v.to_le_bytes()),
        Value::I16(v) => put(head, v.to_le_bytes()),
        Value::U32(v) => put(head, v.to_le_bytes()),
        Value::I32(v) => put(head, v.to_le_bytes()),
        Value::F32(v) => put(head, v.to_le_bytes()),
        Value::Bool(v) => put(head, [u8::from(*v)]),
        Value::String(v) => put_string(head, v),
        Value::Array(v) => put_array(head, key, v, 1)?,
        Value::U64(v) => put(head, v.to_le_bytes()),
        Value::I64(v) => put(head, v.to_le_bytes()),
        Value::F64(v) => put(head, v.to_le_bytes()),
    }
    Ok(())
}

fn put_array(head: &mut Vec<u8>, key: &str, array: &Array, depth: usize) -> Result<(), GgufError> {
    if depth > MAX_DEPTH {
        return Err(GgufError::TooDeep { what: format!("the value of {key:?}"), limit: MAX_DEPTH });
    }
    put(head, array.element_type().id().to_le_bytes());
    put(head, (array.len() as u64).to_le_bytes());
    match array {
        Array::U8(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::I8(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::U16(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::I16(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::U32(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::I32(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::F32(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::Bool(items) => items.iter().for_each(|&item| put(head, [u8::from(item)])),
        Array::String(items) => items.iter().for_each(|item| put_string(head, item)),
        Array::Nested(items) => {
            for item in items {
                put_array(head, key, item, depth + 1)?;
            }
        }
        Array::U64(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::I64(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
        Array::F64(items) => items.iter().for_each(|item| put(head, item.to_le_bytes())),
    }
    Ok(())
}
