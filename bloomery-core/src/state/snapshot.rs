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
}

/// A recurrent state. Pages reach as far as it does; tokens after them are run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedState {
    /// Positions it is of.
    pub(crate) len: usize,
    /// None where that is 0.
    pub(crate) bytes: Vec<u8>,
}

/// Without a recurrent state, and with one.
const MAGIC: [&[u8; 8]; 2] = [b"BLMSNAP1", b"BLMSNAP2"];

impl Snapshot {
    /// Tokens of the saved session.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Little-endian: magic, model, counts of tokens and pages, bytes of a page; where there is a recurrent state its
    /// positions and bytes; tokens, pages, the state.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let page_bytes = self.page_bytes();
        let state = self.state.as_ref().map_or(0, |state| 16 + state.bytes.len());
        let mut out = Vec::with_capacity(40 + 4 * self.tokens.len() + page_bytes * self.pages.len() + state);
        self.write_to(&mut out).expect("a vector takes every byte");
        out
    }

    /// Writes the bytes of [`to_bytes`](Self::to_bytes) without a copy of them in memory.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC[usize::from(self.state.is_some())])?;
        let counts =
            [self.model, self.tokens.len() as u64, self.pages.len() as u64, self.page_bytes() as u64];
        let state = self.state.iter().flat_map(|state| [state.len as u64, state.bytes.len() as u64]);
        counts.into_iter().chain(state).try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
        let tokens: Vec<u8> = self.tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        out.write_all(&tokens)?;
        self.pages.iter().try_for_each(|page| out.write_all(page))?;
        self.state.iter().try_for_each(|state| out.write_all(&state.bytes))
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
        let Some(words) =
            [4, 6].into_iter().zip(MAGIC).find_map(|(words, known)| (*known == magic).then_some(words))
        else {
            return Err(bad("it does not start with BLMSNAP1 or BLMSNAP2".to_owned()));
        };
        let mut header = [0u64; 6];
        rest = rest.checked_sub(8 * words as u64).ok_or_else(cut_off)?;
        for word in &mut header[..words] {
            let mut bytes = [0; 8];
            fill(&mut bytes)?;
            *word = u64::from_le_bytes(bytes);
        }
        let [model, tokens, pages, page_bytes, state_len, state_bytes] = header;
        let parts = [tokens.checked_mul(4), pages.checked_mul(page_bytes), Some(state_bytes)];
        let expected = parts.into_iter().try_fold(0u64, |sum, part| sum.checked_add(part?));
        if expected != Some(rest) || (page_bytes == 0 && pages > 0) || state_len > tokens {
            return Err(bad(format!(
                "{tokens} tokens, {pages} pages of {page_bytes} bytes and a state of {state_bytes} do not make {rest}"
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
        let mut state = None;
        if words == header.len() {
            let mut bytes = vec![0; state_bytes as usize];
            fill(&mut bytes)?;
            state = Some(SavedState { len: state_len as usize, bytes });
        }
        Ok(Self { model, tokens, pages, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_damage_is_refused() {
        let (tokens, pages) = (vec![1, 2, 3], vec![vec![5; 16], vec![6; 16]]);
        let plain = Snapshot { model: 9, tokens, pages, state: None };
        let state = Some(SavedState { len: 2, bytes: vec![7; 12] });
        for (snapshot, magic) in [(plain.clone(), b"BLMSNAP1"), (Snapshot { state, ..plain }, b"BLMSNAP2")] {
            let bytes = snapshot.to_bytes();
            assert!(bytes.starts_with(magic));
            assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), snapshot);
            for len in 0..bytes.len() {
                assert!(Snapshot::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(Snapshot::from_bytes(&longer).is_err());
            for word in 1..(if snapshot.state.is_some() { 7 } else { 5 }) {
                let mut absurd = bytes.clone();
                absurd[8 * word..8 * (word + 1)].copy_from_slice(&u64::MAX.to_le_bytes());
                assert!(Snapshot::from_bytes(&absurd).is_err() || word == 1, "word {word}");
            }
        }
    }
}
