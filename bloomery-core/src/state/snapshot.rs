//! A sequence's state as bytes: to keep in memory, or to write to a file and read back.

use std::io::{self, Read, Write};

use crate::error::EngineError;

/// The tokens of a session and the caches they filled, apart from any engine.
///
/// Restoring gives bit for bit the state that was saved, in any engine that runs the same file with the same cache
/// type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) model: u64,
    pub(crate) tokens: Vec<u32>,
    /// One run of bytes per page.
    pub(crate) pages: Vec<Vec<u8>>,
    /// Of models that have recurrent layers.
    pub(crate) state: Option<SavedState>,
    /// Of models some of whose layers skipped positions.
    pub(crate) skipped: Option<Skipped>,
}

/// Of which rows all layers have keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Positions that pages are of; tokens after them are run again.
    pub(crate) len: usize,
    /// Rows of every page before the first that some layers have skipped.
    pub(crate) sound: Vec<u8>,
}

/// A recurrent state. Pages reach as far as it does; tokens after them are run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedState {
    /// Positions it is of.
    pub(crate) len: usize,
    /// None where that is 0.
    pub(crate) bytes: Vec<u8>,
}

/// Without a recurrent state, with one, and with rows that layers have skipped.
const MAGIC: [&[u8; 8]; 3] = [b"BLMSNAP1", b"BLMSNAP2", b"BLMSNAP3"];

impl Snapshot {
    /// Tokens of the saved session.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Little-endian: magic, model, counts of tokens and pages, bytes of a page; where there is a recurrent state its
    /// positions and bytes; where layers have skipped rows the positions of pages, and how many bytes say which rows; tokens, pages, the
    /// state, a byte for each page.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let page_bytes = self.page_bytes();
        let more = self.more().map_or(0, |(_, bytes)| 16 + bytes.len());
        let mut out = Vec::with_capacity(40 + 4 * self.tokens.len() + page_bytes * self.pages.len() + more);
        self.write_to(&mut out).expect("a vector takes every byte");
        out
    }

    /// Writes the bytes of [`to_bytes`](Self::to_bytes) without a copy of them in memory.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let kind = if self.skipped.is_some() { 2 } else { usize::from(self.state.is_some()) };
        out.write_all(MAGIC[kind])?;
        let counts =
            [self.model, self.tokens.len() as u64, self.pages.len() as u64, self.page_bytes() as u64];
        let more = self.more().into_iter().flat_map(|(len, bytes)| [len as u64, bytes.len() as u64]);
        counts.into_iter().chain(more).try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
        let tokens: Vec<u8> = self.tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        out.write_all(&tokens)?;
        self.pages.iter().try_for_each(|page| out.write_all(page))?;
        self.more().map_or(Ok(()), |(_, bytes)| out.write_all(bytes))
    }

    /// What follows the pages, and positions that belong to it.
    fn more(&self) -> Option<(usize, &[u8])> {
        let state = self.state.as_ref().map(|state| (state.len, state.bytes.as_slice()));
        state.or_else(|| self.skipped.as_ref().map(|skipped| (skipped.len, skipped.sound.as_slice())))
    }

    fn page_bytes(&self) -> usize {
        self.pages.first().map_or(0, Vec::len)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. Refuses anything else, truncated or longer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EngineError> {
        Self::read_from(&mut &*bytes, bytes.len() as u64)
    }

    /// Reads what [`write_to`](Self::write_to) wrote: all `len` bytes of `input`. Takes no more memory than that,
    /// whatever the bytes are.
    ///
    /// # Errors
    /// [`EngineError::BadSnapshot`] for anything else, and where the input fails.
    pub fn read_from(input: &mut impl Read, len: u64) -> Result<Self, EngineError> {
        let bad = |why: String| EngineError::BadSnapshot { why };
        let mut fill = |bytes: &mut [u8]| {
            input.read_exact(bytes).map_err(|error| bad(format!("cannot be read to its end: {error}")))
        };
        let mut magic = [0; 8];
        let cut_off = || bad("the header is cut off".to_owned());
        let Some(mut rest) = len.checked_sub(magic.len() as u64) else { return Err(cut_off()) };
        fill(&mut magic)?;
        let Some(kind) = MAGIC.iter().position(|known| **known == magic) else {
            return Err(bad("it does not start with BLMSNAP1, BLMSNAP2 or BLMSNAP3".to_owned()));
        };
        let words = [4, 6, 6][kind];
        let mut header = [0u64; 6];
        rest = rest.checked_sub(8 * words as u64).ok_or_else(cut_off)?;
        for word in &mut header[..words] {
            let mut bytes = [0; 8];
            fill(&mut bytes)?;
            *word = u64::from_le_bytes(bytes);
        }
        let [model, tokens, pages, page_bytes, more_len, more_bytes] = header;
        let parts = [tokens.checked_mul(4), pages.checked_mul(page_bytes), Some(more_bytes)];
        let expected = parts.into_iter().try_fold(0u64, |sum, part| sum.checked_add(part?));
        if expected != Some(rest) || (page_bytes == 0 && pages > 0) || more_len > tokens {
            return Err(bad(format!(
                "{tokens} tokens, {pages} pages of {page_bytes} bytes and {more_bytes} more do not make {rest}"
            )));
        }
        let mut ids = vec![0; tokens as usize * 4];
        fill(&mut ids)?;
        let tokens = ids.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        let page = |_| {
            let mut page = vec![0; page_bytes as usize];
            fill(&mut page).map(|()| page)
        };
        let pages = (0..pages).map(page).collect::<Result<_, _>>()?;
        let (mut state, mut skipped) = (None, None);
        if words == header.len() {
            let mut bytes = vec![0; more_bytes as usize];
            fill(&mut bytes)?;
            let len = more_len as usize;
            match kind {
                1 => state = Some(SavedState { len, bytes }),
                _ => skipped = Some(Skipped { len, sound: bytes }),
            }
        }
        Ok(Self { model, tokens, pages, state, skipped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_damage_is_refused() {
        let (tokens, pages) = (vec![1, 2, 3], vec![vec![5; 16], vec![6; 16]]);
        let plain = Snapshot { model: 9, tokens, pages, state: None, skipped: None };
        let state = Some(SavedState { len: 2, bytes: vec![7; 12] });
        let skipped = Some(Skipped { len: 2, sound: vec![64, 3] });
        for (snapshot, magic) in [
            (plain.clone(), b"BLMSNAP1"),
            (Snapshot { state, ..plain.clone() }, b"BLMSNAP2"),
            (Snapshot { skipped, ..plain }, b"BLMSNAP3"),
        ] {
            let bytes = snapshot.to_bytes();
            assert!(bytes.starts_with(magic));
            assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), snapshot);
            for len in 0..bytes.len() {
                assert!(Snapshot::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(Snapshot::from_bytes(&longer).is_err());
            for word in 1..(if snapshot.more().is_some() { 7 } else { 5 }) {
                let mut absurd = bytes.clone();
                absurd[8 * word..8 * (word + 1)].copy_from_slice(&u64::MAX.to_le_bytes());
                assert!(Snapshot::from_bytes(&absurd).is_err() || word == 1, "word {word}");
            }
        }
    }
}
