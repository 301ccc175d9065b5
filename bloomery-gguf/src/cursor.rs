//! Bounds-checked little-endian reading of a file's head.

use crate::GgufError;

/// A position in the bytes of a file. Nothing is allocated before the bytes it needs are known to exist.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.at as u64
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes; `what` names them in the error.
    pub(crate) fn take(&mut self, len: usize, what: impl Fn() -> String) -> Result<&'a [u8], GgufError> {
        match self.bytes[self.at..].get(..len) {
            Some(taken) => {
                self.at += len;
                Ok(taken)
            }
            None => Err(GgufError::Truncated {
                what: what(),
                offset: self.offset(),
                need: len as u64,
                have: self.remaining() as u64,
            }),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self, what: impl Fn() -> String) -> Result<[u8; N], GgufError> {
        let taken = self.take(N, what)?;
        Ok(*taken.first_chunk().expect("take gives exactly N bytes"))
    }

    pub(crate) fn u32(&mut self, what: impl Fn() -> String) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: impl Fn() -> String) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A count of things of which each takes at least `size` bytes: more than the rest of the file holds, or
    /// more than `limit`, is refused here, so that callers may allocate for it.
    pub(crate) fn count(
        &mut self,
        size: usize,
        limit: usize,
        what: impl Fn() -> String,
    ) -> Result<usize, GgufError> {
        let offset = self.offset();
        let count = self.u64(&what)?;
        let limit = limit.min(self.remaining() / size);
        match usize::try_from(count) {
            Ok(fits) if fits <= limit => Ok(fits),
            _ => Err(GgufError::AbsurdCount { what: what(), offset, count, limit: limit as u64 }),
        }
    }

    /// A string: its length in bytes, then UTF-8.
    pub(crate) fn string(&mut self, limit: usize, what: impl Fn() -> String) -> Result<&'a str, GgufError> {
        let len = self.count(1, limit, || format!("the length of {}", what()))?;
        let offset = self.offset();
        let bytes = self.take(len, &what)?;
        std::str::from_utf8(bytes).map_err(|error| GgufError::BadUtf8 {
            what: what(),
            offset,
            valid: error.valid_up_to(),
        })
    }
}
