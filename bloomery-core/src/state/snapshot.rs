//! A sequence's state as bytes: to keep in memory, or to write to a file and read back.

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
        let page_bytes = self.pages.first().map_or(0, Vec::len);
        let mut out = Vec::with_capacity(40 + 4 * self.tokens.len() + page_bytes * self.pages.len());
        out.extend_from_slice(MAGIC);
        for word in [self.model, self.tokens.len() as u64, self.pages.len() as u64, page_bytes as u64] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        self.tokens.iter().for_each(|token| out.extend_from_slice(&token.to_le_bytes()));
        self.pages.iter().for_each(|page| out.extend_from_slice(page));
        out
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote. Refuses anything else, truncated or longer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EngineError> {
        let bad = |why: &str| EngineError::BadSnapshot { why: why.to_owned() };
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("it does not start with BLMSNAP1"))?;
        let (header, rest) = rest.split_at_checked(32).ok_or_else(|| bad("the header is cut off"))?;
        let mut words = [0u64; 4];
        for (word, chunk) in words.iter_mut().zip(header.chunks_exact(8)) {
            word.clone_from(&u64::from_le_bytes(chunk.try_into().map_err(|_| bad("the header is cut off"))?));
        }
        let [model, tokens, pages, page_bytes] = words;
        let expected =
            tokens.checked_mul(4).zip(pages.checked_mul(page_bytes)).and_then(|(t, p)| t.checked_add(p));
        if expected != Some(rest.len() as u64) {
            return Err(EngineError::BadSnapshot {
                why: format!(
                    "{tokens} tokens and {pages} pages of {page_bytes} bytes do not make {}",
                    rest.len()
                ),
            });
        }
        let (ids, rest) = rest.split_at(tokens as usize * 4);
        let tokens = ids.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        let pages = match page_bytes {
            0 => Vec::new(),
            size => rest.chunks_exact(size as usize).map(<[u8]>::to_vec).collect(),
        };
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
