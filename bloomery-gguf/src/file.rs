//! An open GGUF file, or the set of files that a split model consists of.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::parse::{Head, parse};
use crate::split::{self, Split};
use crate::{GgufError, Metadata, Tensor};

/// A GGUF model: metadata, tensor entries and the bytes of the tensors, which are never copied.
pub struct Gguf {
    version: u32,
    metadata: Metadata,
    tensors: Vec<Tensor>,
    by_name: HashMap<String, usize>,
    pub(crate) parts: Vec<Part>,
}

/// One file of a model.
pub(crate) struct Part {
    pub(crate) path: Option<PathBuf>,
    pub(crate) bytes: Bytes,
}

pub(crate) enum Bytes {
    Mapped(Mmap, File),
    Static(&'static [u8]),
    Owned(Vec<u8>),
}

impl Bytes {
    pub(crate) fn get(&self) -> &[u8] {
        match self {
            Self::Mapped(map, _) => map,
            Self::Static(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Gguf {
    /// Maps a file and reads its head. For any file of a split model (`NAME-00001-of-00003.gguf`) the whole
    /// set is opened, with the metadata of the first. Tensor data starts at multiples of the file's alignment
    /// in memory too.
    ///
    /// The files must not be changed or truncated while they are open: replace them by renaming instead.
    ///
    /// # Errors
    /// [`GgufError::InFile`] with the path and what is wrong; [`GgufError::MissingShard`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, GgufError> {
        let path = path.as_ref();
        let (part, head) = Part::open(path, 0)?;
        let whole = match Split::of(&head.metadata).map_err(|error| error.in_file(path))? {
            None => Self::assemble(vec![(part, head)]),
            Some(split) => split::open(path, &split, part, head).and_then(Self::assemble),
        };
        whole.map_err(|error| match error {
            named @ GgufError::InFile { .. } => named,
            other => other.in_file(path),
        })
    }

    /// Reads a model that is part of the program. The bytes are used in place: tensor data is aligned in
    /// memory only as far as the bytes themselves are.
    ///
    /// # Errors
    /// What is wrong with the bytes; a shard of a split model is refused.
    pub fn from_static(bytes: &'static [u8]) -> Result<Self, GgufError> {
        Self::in_memory(Bytes::Static(bytes))
    }

    /// Reads a model from memory, as [`Gguf::from_static`].
    ///
    /// # Errors
    /// What is wrong with the bytes; a shard of a split model is refused.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, GgufError> {
        Self::in_memory(Bytes::Owned(bytes))
    }

    fn in_memory(bytes: Bytes) -> Result<Self, GgufError> {
        let head = parse(bytes.get(), 0)?;
        if let Some(split) = Split::of(&head.metadata)? {
            return Err(GgufError::ShardInMemory { count: split.count });
        }
        Self::assemble(vec![(Part { path: None, bytes }, head)])
    }

    fn assemble(files: Vec<(Part, Head)>) -> Result<Self, GgufError> {
        let mut whole = Self {
            version: 0,
            metadata: Metadata::default(),
            tensors: Vec::new(),
            by_name: HashMap::new(),
            parts: Vec::new(),
        };
        for (part, head) in files {
            if whole.parts.is_empty() {
                whole.version = head.version;
                whole.metadata = head.metadata;
            }
            for tensor in head.tensors {
                if whole.by_name.insert(tensor.name.clone(), whole.tensors.len()).is_some() {
                    return Err(GgufError::DuplicateTensor { tensor: tensor.name });
                }
                whole.tensors.push(tensor);
            }
            whole.parts.push(part);
        }
        Ok(whole)
    }

    /// This model with those tensors of another that `name` has a name for, under that name, and with `metadata` in place of its
    /// own: for models whose parts are published as files of their own.
    ///
    /// # Errors
    /// [`GgufError::DuplicateTensor`] for a name that is here too.
    pub fn join(
        mut self,
        other: Self,
        metadata: Metadata,
        name: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, GgufError> {
        let shards = self.parts.len();
        for mut tensor in other.tensors {
            let Some(joined) = name(&tensor.name) else { continue };
            tensor.name = joined;
            tensor.shard += shards;
            if self.by_name.insert(tensor.name.clone(), self.tensors.len()).is_some() {
                return Err(GgufError::DuplicateTensor { tensor: tensor.name });
            }
            self.tensors.push(tensor);
        }
        self.parts.extend(other.parts);
        self.metadata = metadata;
        Ok(self)
    }

    /// The metadata; of a split model, that of the first file.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors in file order.
    pub fn tensors(&self) -> std::slice::Iter<'_, Tensor> {
        self.tensors.iter()
    }

    /// The tensor of a name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|&index| &self.tensors[index])
    }

    /// The tensor of a name.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`].
    pub fn require(&self, name: &str) -> Result<&Tensor, GgufError> {
        self.tensor(name).ok_or_else(|| GgufError::MissingTensor { tensor: name.to_owned() })
    }

    /// The bytes of a tensor of this model. An entry from another model gives whatever lies at its place
    /// here, or nothing where that is outside the file.
    #[must_use]
    pub fn data<'a>(&'a self, tensor: &Tensor) -> &'a [u8] {
        let part = self.parts.get(tensor.shard).map(|part| part.bytes.get());
        part.and_then(|bytes| bytes.get(tensor.offset..)?.get(..tensor.len)).unwrap_or_default()
    }

    /// The size of all files in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes.get().len() as u64).sum()
    }

    /// All bytes of every file that is mapped, tensor data among them: for whoever lets a device read them in place. Files
    /// that are not mapped are left out.
    pub fn mappings(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().filter_map(|part| match &part.bytes {
            Bytes::Mapped(map, _) => Some(&map[..]),
            Bytes::Static(_) | Bytes::Owned(_) => None,
        })
    }

    /// The version of the format: 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The files, in the order of [`Tensor::shard`]; none for a model in memory.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().filter_map(|part| part.path.as_deref())
    }
}

impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("paths", &self.paths().collect::<Vec<_>>())
            .field("version", &self.version)
            .field("keys", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .field("file_bytes", &self.file_bytes())
            .finish()
    }
}

impl Part {
    /// Maps and reads one file; `shard` goes into its tensors.
    pub(crate) fn open(path: &Path, shard: usize) -> Result<(Self, Head), GgufError> {
        let read = || {
            // Before `open`, which waits for the other end of a pipe.
            if !fs::metadata(path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file").into());
            }
            let file = File::open(path)?;
            let bytes = Bytes::Mapped(map(&file)?, file);
            let head = parse(bytes.get(), shard)?;
            Ok((Self { path: Some(path.to_owned()), bytes }, head))
        };
        read().map_err(|error: GgufError| error.in_file(path))
    }
}

#[expect(unsafe_code, reason = "a mapping of a file is the one thing here that std has no safe form of")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private to this module, read-only, and only ever seen as `[u8]`, for which every
    // bit pattern is valid; `Gguf::open` asks its caller to leave the file unchanged while it is open.
    unsafe { Mmap::map(file) }
}
