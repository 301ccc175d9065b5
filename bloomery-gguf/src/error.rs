//! What can be wrong with a file, a key or a tensor.

use std::io;
use std::path::PathBuf;

use crate::{Format, ValueType};

/// An error of the GGUF container. Offsets are bytes from the start of the file unless said otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant is its description and names its fields")]
pub enum GgufError {
    /// Anything wrong inside the file at `path`.
    #[error("{}: {error}", path.display())]
    InFile { path: PathBuf, error: Box<GgufError> },
    #[error(transparent)]
    Io(#[from] io::Error),

    // The header.
    #[error("not a GGUF file: it starts with bytes {found:02x?}, not \"GGUF\"")]
    BadMagic { found: [u8; 4] },
    #[error("big-endian GGUF (version {version}) is not supported: convert the file to little-endian")]
    BigEndian { version: u32 },
    #[error("GGUF version {version} is not supported: versions 2 and 3 are")]
    UnsupportedVersion { version: u32 },
    #[error("the file ends in {what}: {need} bytes from offset {offset}, {have} left")]
    Truncated { what: String, offset: u64, need: u64, have: u64 },
    /// A count or a length that its limit or the rest of the file rules out.
    #[error("{what} at offset {offset} is {count}: at most {limit} can follow")]
    AbsurdCount { what: String, offset: u64, count: u64, limit: u64 },
    #[error("{what} at offset {offset} is not UTF-8 (first bad byte at +{valid})")]
    BadUtf8 { what: String, offset: u64, valid: usize },

    // Metadata values.
    #[error("{what} at offset {offset} has the unknown value type {id}")]
    UnknownValueType { what: String, offset: u64, id: u32 },
    #[error("{what} at offset {offset} is a bool of value {value}: only 0 and 1 are bools")]
    BadBool { what: String, offset: u64, value: u8 },
    #[error("{what} nests arrays more than {limit} deep")]
    TooDeep { what: String, limit: usize },
    #[error("duplicate metadata key {key:?}")]
    DuplicateKey { key: String },
    #[error("general.alignment is {alignment}: it must be a power of two")]
    BadAlignment { alignment: u64 },

    // Tensors.
    #[error("tensor {tensor:?} has {rank} dimensions: 1 to {limit} are possible")]
    BadRank { tensor: String, rank: u32, limit: u32 },
    #[error("tensor {tensor:?} has an empty dimension: {dims:?}")]
    EmptyDimension { tensor: String, dims: Vec<u64> },
    #[error("tensor {tensor:?} with dimensions {dims:?} is too large for a 64-bit size")]
    TooLarge { tensor: String, dims: Vec<u64> },
    #[error("tensor {tensor:?} has rows of {row} values: {format} needs a multiple of {block}")]
    RaggedRow { tensor: String, row: u64, format: Format, block: usize },
    #[error("tensor {tensor:?} has the unknown type id {id} (at offset {offset})")]
    UnknownFormat { tensor: String, id: u32, offset: u64 },
    #[error("duplicate tensor {tensor:?}")]
    DuplicateTensor { tensor: String },
    /// `offset` counts from the start of the tensor data, as the file states it.
    #[error("tensor {tensor:?} lies at data offset {offset}: not a multiple of the alignment {alignment}")]
    Misaligned { tensor: String, offset: u64, alignment: u64 },
    #[error("tensor {tensor:?} takes {bytes} bytes from offset {offset}: the file has {file}")]
    OutOfFile { tensor: String, offset: u64, bytes: u64, file: u64 },
    #[error("tensor {second:?} starts at offset {offset}, inside tensor {first:?} which ends at {end}")]
    Overlap { first: String, second: String, offset: u64, end: u64 },
    #[error("no tensor {tensor:?} in the file")]
    MissingTensor { tensor: String },
    #[error("{bytes} bytes of tensor {tensor:?} from offset {offset} could not be read: {error}")]
    Unreadable { tensor: String, offset: u64, bytes: u64, error: io::Error },
    /// Bytes given to the writer that are not the size of the tensor.
    #[error("tensor {tensor:?} needs {expected} bytes and was given {found}")]
    WrongSize { tensor: String, expected: u64, found: u64 },

    // Files in parts.
    #[error("shard {number} of {count} is missing: {}", path.display())]
    MissingShard { path: PathBuf, number: u64, count: u64 },
    #[error("shard {number} of {count} must be named NAME-{number:05}-of-{count:05}.gguf")]
    ShardName { number: u64, count: u64 },
    #[error("{key} is {found}: {expected} was expected")]
    ShardDisagrees { key: &'static str, expected: u64, found: u64 },
    #[error("the bytes are one shard of {count}: a split file can only be opened by its path")]
    ShardInMemory { count: u64 },

    // Getters.
    #[error("missing metadata key {key:?}")]
    MissingKey { key: String },
    #[error("metadata key {key:?} is {found}: {expected} was expected")]
    WrongType { key: String, expected: &'static str, found: FoundType },
    #[error("metadata key {key:?} is {value}: out of range for {expected}")]
    OutOfRange { key: String, value: i128, expected: &'static str },
    #[error("metadata key {key:?} has {found} entries for {expected} layers")]
    PerLayerLength { key: String, expected: usize, found: usize },
}

impl GgufError {
    /// The error itself, without the file names around it.
    #[must_use]
    pub fn root(&self) -> &Self {
        match self {
            Self::InFile { error, .. } => error.root(),
            other => other,
        }
    }

    pub(crate) fn in_file(self, path: impl Into<PathBuf>) -> Self {
        Self::InFile { path: path.into(), error: Box::new(self) }
    }
}

/// The type of a value that a getter refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoundType {
    /// One value.
    Scalar(ValueType),
    /// An array with elements of this type.
    Array(ValueType),
}

impl std::fmt::Display for FoundType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scalar(kind) => write!(f, "{kind}"),
            Self::Array(kind) => write!(f, "array of {kind}"),
        }
    }
}
