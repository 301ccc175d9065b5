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
}

const MAGIC: &[u8; 8] = b"BLMSNAP1";

impl Snapshot {
    /// Tokens of the saved session.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Little-endian: magic, model, counts of tokens and pages, bytes of a page, tokens, pages.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let page_bytes = self.page_bytes();
        let mut out = Vec::with_capacity(40 + 4 * self.tokens.len() + page_bytes * self.pages.len());
        self.write_to(&mut out).expect("a vector takes every byte");
        out
    }

    /// Writes the bytes of [`to_bytes`](Self::to_bytes) without a copy of them in memory.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        let counts =
            [self.model, self.tokens.len() as u64, self.pages.len() as u64, self.page_bytes() as u64];
        counts.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))?;
        let tokens: Vec<u8> = self.tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        out.write_all(&tokens)?;
        self.pages.iter().try_for_each(|page| out.write_all(page))
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
        let mut magic = [0; MAGIC.len()];
        let mut words = [0u64; 4];
        let Some(rest) = len.checked_sub((magic.len() + 8 * words.len()) as u64) else {
            return Err(bad("the header is cut off".to_owned()));
        };
        fill(&mut magic)?;
        if magic != *MAGIC {
            return Err(bad("it does not start with BLMSNAP1".to_owned()));
        }
        for word in &mut words {
            let mut bytes = [0; 8];
            fill(&mut bytes)?;
            *word = u64::from_le_bytes(bytes);
        }
        let [model, tokens, pages, page_bytes] = words;
        let expected =
            tokens.checked_mul(4).zip(pages.checked_mul(page_bytes)).and_then(|(t, p)| t.checked_add(p));
        if expected != Some(rest) || (page_bytes == 0 && pages > 0) {
            return Err(bad(format!(
                "{tokens} tokens and {pages} pages of {page_bytes} bytes do not make {rest}"
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
        Ok(Self { model, tokens, pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_and_damage_is_refused() {
        let snapshot = Snapshot { model: 9, tokens: vec![1, 2, 3], pages: vec![vec![5; 16], vec![6; 16]] };
        let bytes = snapshot.to_bytes();
        assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), snapshot);
        for len in 0..bytes.len() {
            assert!(Snapshot::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Snapshot::from_bytes(&longer).is_err());
        let mut absurd = bytes;
        absurd[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Snapshot::from_bytes(&absurd).is_err());
    }
}
