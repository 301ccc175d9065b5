//! Parts of tensors that are read from the disk when they are wanted: of tables from which a model needs few rows at a time.

use std::io;
use std::ops::Range;

use crate::file::{Bytes, Part};
use crate::{Gguf, GgufError, Tensor};

/// Of the largest pages that systems have: each piece of a mapping starts and ends with one.
const PAGE: usize = 64 << 10;

impl Gguf {
    /// Has the system read a tensor's bytes from the disk, without waiting for them, if they are in a mapped file. Only the pages
    /// that have them are read, where looking at the mapping would read their neighbourhood.
    pub fn prefetch(&self, tensor: &Tensor, bytes: Range<usize>) {
        #[cfg(unix)]
        if let Some(Part { bytes: Bytes::Mapped(map, _), .. }) = self.parts.get(tensor.shard)
            && bytes.start < bytes.end
            && bytes.end <= tensor.len
        {
            // Advice: where it is not taken, the bytes are read when they are wanted.
            let _ = map.advise_range(memmap2::Advice::WillNeed, tensor.offset + bytes.start, bytes.len());
        }
        #[cfg(not(unix))]
        let _ = (tensor, bytes);
    }

    /// As [`mappings`](Self::mappings), without the inner pages of some tensors: in as many pieces as that makes.
    #[must_use]
    pub fn mappings_without(&self, tensors: &[&Tensor]) -> Vec<&[u8]> {
        let mut pieces = Vec::new();
        for (shard, part) in self.parts.iter().enumerate() {
            let Bytes::Mapped(map, _) = &part.bytes else { continue };
            let inner = |tensor: &&&Tensor| {
                let end = (tensor.offset + tensor.len) / PAGE * PAGE;
                (tensor.offset.next_multiple_of(PAGE), end.min(map.len()))
            };
            let mut left: Vec<(usize, usize)> =
                tensors.iter().filter(|tensor| tensor.shard == shard).map(|tensor| inner(&tensor)).collect();
            left.sort_unstable();
            let mut start = 0;
            for (first, end) in left.into_iter().filter(|(first, end)| first < end) {
                pieces.push(&map[start..first]);
                start = end;
            }
            pieces.push(&map[start..]);
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    /// Copies a tensor's bytes from `start` on to `to`. Where they are in a mapped file they are read from it by a system call, so
    /// that a disk that fails is an error here, and the mapping, where it would end the process, is left alone.
    ///
    /// # Errors
    /// [`GgufError::Unreadable`], within [`GgufError::InFile`] if there is a file.
    pub fn read(&self, tensor: &Tensor, start: usize, to: &mut [u8]) -> Result<(), GgufError> {
        let part = self.parts.get(tensor.shard);
        part.map_or_else(|| Err(ends()), |part| part.read(tensor, start, to)).map_err(|error| {
            let (offset, bytes) = (tensor.offset.saturating_add(start) as u64, to.len() as u64);
            let error = GgufError::Unreadable { tensor: tensor.name.clone(), offset, bytes, error };
            match part.and_then(|part| part.path.as_deref()) {
                Some(path) => error.in_file(path),
                None => error,
            }
        })
    }
}

impl Part {
    fn read(&self, tensor: &Tensor, start: usize, to: &mut [u8]) -> io::Result<()> {
        if start.checked_add(to.len()).is_none_or(|end| end > tensor.len) {
            return Err(ends());
        }
        let start = tensor.offset + start;
        #[cfg(unix)]
        if let Bytes::Mapped(_, file) = &self.bytes {
            return std::os::unix::fs::FileExt::read_exact_at(file, to, start as u64);
        }
        let bytes = self.bytes.get().get(start..).and_then(|bytes| bytes.get(..to.len()));
        to.copy_from_slice(bytes.ok_or_else(ends)?);
        Ok(())
    }
}

fn ends() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the tensor ends before")
}
