//! What a caller may ask of drafts.

/// Where guesses come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drafts {
    /// Nothing is guessed.
    Off,
    /// From the text itself: what followed the last tokens when they came before.
    Ngram(Ngram),
    /// From the block for the next tokens that some files have, where the model's device runs it.
    Block(Block),
    /// From whichever of the two promises more.
    Best(Ngram, Block),
}

impl Default for Drafts {
    /// [`Best`](Self::Best) of both as they are by default: guesses are priced, so that texts that are hard to guess lose nothing.
    fn default() -> Self {
        Self::Best(Ngram::default(), Block::default())
    }
}

/// How the model's own block is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Most tokens that are guessed at once; no more than 16 are.
    pub most: usize,
    /// As [`Ngram::priced`].
    pub priced: bool,
}

impl Default for Block {
    fn default() -> Self {
        Self { most: 4, priced: true }
    }
}

/// How the text itself is searched.
///
/// ```
/// use bloomery_core::{Drafts, Engine, ModelSource, Ngram, Params};
///
/// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
/// let mut session = engine.session()?;
/// let short = Drafts::Ngram(Ngram { most: 3, ..Ngram::default() });
/// let params = Params { max_tokens: Some(8), drafts: short, ..Params::greedy() };
/// let mut generation = session.generate("The fox ran. The fox ran. The fox", &params)?;
/// generation.by_ref().for_each(drop);
/// assert!(generation.timings().accepted <= generation.timings().drafted);
/// # Ok::<(), bloomery_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ngram {
    /// Most tokens that are guessed at once; no more than 16 are.
    pub most: usize,
    /// Fewer are not worth a check.
    pub least: usize,
    /// Most tokens at the end of the text that are looked for: at most 16.
    pub longest: usize,
    /// Fewest tokens at the end of the text that must have come before.
    pub shortest: usize,
    /// Whether lengths, none included, are chosen by what steps take and by how often guesses were right. Otherwise all that is
    /// found is checked: that is for tests and measurements.
    pub priced: bool,
}

impl Default for Ngram {
    fn default() -> Self {
        Self { most: super::MOST_TOKENS, least: 1, longest: 4, shortest: 2, priced: true }
    }
}
