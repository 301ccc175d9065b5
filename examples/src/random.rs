//! Reproducible random token ids.

/// SplitMix64 (Steele, Lea and Flood, 2014): good enough for benchmark prompts, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A sequence that depends on `seed` only.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An id below `vocab` (which must not be 0).
    pub fn id(&mut self, vocab: usize) -> u32 {
        (self.next() % vocab.max(1) as u64) as u32
    }

    /// `count` ids below `vocab`.
    pub fn ids(&mut self, count: usize, vocab: usize) -> Vec<u32> {
        (0..count).map(|_| self.id(vocab)).collect()
    }
}
