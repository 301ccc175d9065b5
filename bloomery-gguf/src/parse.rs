//! From the bytes of one file to its metadata and tensor entries.

use std::collections::HashSet;

use crate::cursor::Cursor;
use crate::tensor::{MAX_RANK, checked_size};
use crate::{Array, Format, GgufError, Metadata, Tensor, Value, ValueType};

pub(crate) const MAGIC: [u8; 4] = *b"GGUF";
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
pub(crate) const DEFAULT_ALIGNMENT: u64 = 32;
/// The specification's limit for keys, in bytes.
pub(crate) const MAX_KEY: usize = 65535;
/// How deep arrays may nest: files in use have at most two levels.
pub(crate) const MAX_DEPTH: usize = 8;
/// Entries in an array and bytes in a string: far above every file in use, and far below what a damaged count
/// in a file of many gigabytes could otherwise make the reader allocate.
pub(crate) const MAX_LEN: usize = 1 << 28;
const MAX_KEYS: usize = 1 << 20;
const MAX_TENSORS: usize = 1 << 24;

/// The head of one file.
pub(crate) struct Head {
    pub(crate) version: u32,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<Tensor>,
}

/// Reads the head of a file; `shard` goes into its tensors.
pub(crate) fn parse(bytes: &[u8], shard: usize) -> Result<Head, GgufError> {
    let cursor = &mut Cursor::new(bytes);
    let version = version(cursor)?;
    // A tensor entry takes at least its name length, rank, one dimension, type and offset.
    let tensor_count = cursor.count(32, MAX_TENSORS, || "the tensor count".into())?;
    // A pair takes at least its key length, type and one byte.
    let key_count = cursor.count(13, MAX_KEYS, || "the metadata count".into())?;

    let mut pairs = Vec::new();
    for index in 0..key_count {
        pairs.push(pair(cursor, index)?);
    }
    let metadata = Metadata::from_pairs(pairs)?;
    let alignment = alignment(&metadata)?;

    let mut tensors = Vec::new();
    for index in 0..tensor_count {
        tensors.push(tensor(cursor, index, shard, alignment)?);
    }
    place(&mut tensors, cursor.offset(), alignment, bytes.len())?;
    Ok(Head { version, metadata, tensors })
}

fn version(cursor: &mut Cursor) -> Result<u32, GgufError> {
    let found = cursor.array(|| "the magic".into())?;
    if found != MAGIC {
        return Err(GgufError::BadMagic { found });
    }
    let version = cursor.u32(|| "the version".into())?;
    match version {
        2 | 3 => Ok(version),
        // The small number of a version lands in the upper half when the file has the other byte order.
        other if other != 0 && other & 0xffff == 0 => {
            Err(GgufError::BigEndian { version: other.swap_bytes() })
        }
        other => Err(GgufError::UnsupportedVersion { version: other }),
    }
}

/// The alignment of the tensor data in bytes.
pub(crate) fn alignment(metadata: &Metadata) -> Result<u64, GgufError> {
    match metadata.opt_u64(ALIGNMENT_KEY)? {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(alignment) if alignment.is_power_of_two() => Ok(alignment),
        Some(alignment) => Err(GgufError::BadAlignment { alignment }),
    }
}

fn pair(cursor: &mut Cursor, index: usize) -> Result<(String, Value), GgufError> {
    let key = cursor.string(MAX_KEY, || format!("metadata key {index}"))?;
    let value_type = value_type(cursor, key)?;
    Ok((key.to_owned(), value(cursor, key, value_type)?))
}

fn what(key: &str) -> String {
    format!("the value of {key:?}")
}

fn value_type(cursor: &mut Cursor, key: &str) -> Result<ValueType, GgufError> {
    let offset = cursor.offset();
    let id = cursor.u32(|| format!("the type of {key:?}"))?;
    ValueType::from_id(id).ok_or_else(|| GgufError::UnknownValueType { what: what(key), offset, id })
}

fn value(cursor: &mut Cursor, key: &str, value_type: ValueType) -> Result<Value, GgufError> {
    let what = || what(key);
    Ok(match value_type {
        ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array(what)?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(what)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(what)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(what)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(what)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(what)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(what)?)),
        ValueType::Bool => {
            let offset = cursor.offset();
            let [byte] = cursor.array(what)?;
            Value::Bool(boolean(byte, offset, key)?)
        }
        ValueType::String => Value::String(cursor.string(MAX_LEN, what)?.to_owned()),
        ValueType::Array => Value::Array(array(cursor, key, 1)?),
        ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(what)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(what)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(what)?)),
    })
}

fn boolean(byte: u8, offset: u64, key: &str) -> Result<bool, GgufError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(GgufError::BadBool { what: what(key), offset, value }),
    }
}

fn array(cursor: &mut Cursor, key: &str, depth: usize) -> Result<Array, GgufError> {
    if depth > MAX_DEPTH {
        return Err(GgufError::TooDeep { what: what(key), limit: MAX_DEPTH });
    }
    Ok(match value_type(cursor, key)? {
        ValueType::U8 => Array::U8(numbers(cursor, key, u8::from_le_bytes)?),
        ValueType::I8 => Array::I8(numbers(cursor, key, i8::from_le_bytes)?),
        ValueType::U16 => Array::U16(numbers(cursor, key, u16::from_le_bytes)?),
        ValueType::I16 => Array::I16(numbers(cursor, key, i16::from_le_bytes)?),
        ValueType::U32 => Array::U32(numbers(cursor, key, u32::from_le_bytes)?),
        ValueType::I32 => Array::I32(numbers(cursor, key, i32::from_le_bytes)?),
        ValueType::F32 => Array::F32(numbers(cursor, key, f32::from_le_bytes)?),
        ValueType::Bool => {
            let count = array_len(cursor, key, 1)?;
            let start = cursor.offset();
            let bytes = cursor.take(count, || what(key))?;
            let items = bytes.iter().zip(start..).map(|(&byte, offset)| boolean(byte, offset, key));
            Array::Bool(items.collect::<Result<_, _>>()?)
        }
        ValueType::String => {
            let count = array_len(cursor, key, 8)?;
            let mut items = Vec::new();
            for index in 0..count {
                let item = cursor.string(MAX_LEN, || format!("entry {index} of {key:?}"))?;
                items.push(item.to_owned());
            }
            Array::String(items)
        }
        ValueType::Array => {
            let count = array_len(cursor, key, 12)?;
            let mut items = Vec::new();
            for _ in 0..count {
                items.push(array(cursor, key, depth + 1)?);
            }
            Array::Nested(items)
        }
        ValueType::U64 => Array::U64(numbers(cursor, key, u64::from_le_bytes)?),
        ValueType::I64 => Array::I64(numbers(cursor, key, i64::from_le_bytes)?),
        ValueType::F64 => Array::F64(numbers(cursor, key, f64::from_le_bytes)?),
    })
}

/// The length of an array whose elements take at least `size` bytes each.
fn array_len(cursor: &mut Cursor, key: &str, size: usize) -> Result<usize, GgufError> {
    cursor.count(size, MAX_LEN, || format!("the length of {key:?}"))
}

fn numbers<const N: usize, T>(
    cursor: &mut Cursor,
    key: &str,
    from_le_bytes: fn([u8; N]) -> T,
) -> Result<Vec<T>, GgufError> {
    let count = array_len(cursor, key, N)?;
    let bytes = cursor.take(count * N, || what(key))?;
    let (chunks, _) = bytes.as_chunks::<N>();
    Ok(chunks.iter().map(|&chunk| from_le_bytes(chunk)).collect())
}

/// A tensor entry. Its offset still counts from the start of the tensor data: [`place`] moves it.
fn tensor(cursor: &mut Cursor, index: usize, shard: usize, alignment: u64) -> Result<Tensor, GgufError> {
    let name = cursor.string(MAX_KEY, || format!("the name of tensor {index}"))?;
    let what = || format!("the entry of tensor {name:?}");
    let rank = cursor.u32(what)?;
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(GgufError::BadRank { tensor: name.to_owned(), rank, limit: MAX_RANK });
    }
    let mut dims = Vec::new();
    for _ in 0..rank {
        dims.push(cursor.u64(what)?);
    }
    let id_offset = cursor.offset();
    let id = cursor.u32(what)?;
    let format = Format::from_id(id).ok_or_else(|| GgufError::UnknownFormat {
        tensor: name.to_owned(),
        id,
        offset: id_offset,
    })?;
    let offset = cursor.u64(what)?;
    let len = checked_size(name, &dims, format)?;
    if !offset.is_multiple_of(alignment) {
        return Err(GgufError::Misaligned { tensor: name.to_owned(), offset, alignment });
    }
    // An offset that does not fit is outside every file: `place` says so.
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    Ok(Tensor { name: name.to_owned(), dims, format, shard, offset, len })
}

/// Makes the offsets count from the start of the file; checks names, bounds and overlap.
fn place(tensors: &mut [Tensor], head_end: u64, alignment: u64, file: usize) -> Result<(), GgufError> {
    let data = head_end.checked_next_multiple_of(alignment).and_then(|data| usize::try_from(data).ok());
    let data = data.unwrap_or(usize::MAX);
    for tensor in &mut *tensors {
        let start = tensor.offset.checked_add(data);
        match start.and_then(|start| start.checked_add(tensor.len)) {
            Some(end) if end <= file => tensor.offset += data,
            _ => {
                return Err(GgufError::OutOfFile {
                    tensor: tensor.name.clone(),
                    offset: start.unwrap_or(usize::MAX) as u64,
                    bytes: tensor.len as u64,
                    file: file as u64,
                });
            }
        }
    }

    let mut names = HashSet::new();
    if let Some(twice) = tensors.iter().find(|tensor| !names.insert(tensor.name.as_str())) {
        return Err(GgufError::DuplicateTensor { tensor: twice.name.clone() });
    }

    let mut by_offset: Vec<&Tensor> = tensors.iter().collect();
    by_offset.sort_unstable_by_key(|tensor| tensor.offset);
    for pair in by_offset.windows(2) {
        let end = pair[0].offset + pair[0].len;
        if pair[1].offset < end {
            return Err(GgufError::Overlap {
                first: pair[0].name.clone(),
                second: pair[1].name.clone(),
                offset: pair[1].offset as u64,
                end: end as u64,
            });
        }
    }
    Ok(())
}
