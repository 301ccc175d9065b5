//! What can be wrong with parameters, logits or a mask.

/// Why a sampler could not be built or no token could be drawn.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A parameter has a value that means nothing.
    #[error("{name} is {value}: {expected}")]
    Parameter {
        /// The field of `SamplingParams`.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A logit bias is NaN or +inf.
    #[error("logit_bias of token {token} is {value}: expected a finite number or -inf")]
    Bias {
        /// The biased token.
        token: u32,
        /// Its bias.
        value: f32,
    },
    /// The model produced a logit that no probability follows from.
    #[error("logit of token {token} of {vocab} is {value}: expected a finite number or -inf")]
    Logit {
        /// The first such token.
        token: u32,
        /// NaN or +inf.
        value: f32,
        /// Logits in the row.
        vocab: usize,
    },
    /// The mask does not cover the vocabulary.
    #[error("the mask has {words} words of 32 tokens, the vocabulary of {vocab} needs {needed}")]
    MaskLength {
        /// Words given.
        words: usize,
        /// Words needed.
        needed: usize,
        /// Logits in the row.
        vocab: usize,
    },
    /// Mask, biases and penalties left nothing to draw.
    #[error("no token can be drawn: {allowed} of {vocab} tokens pass the mask, and each has a logit of -inf")]
    NoCandidate {
        /// Tokens the mask allows; the whole vocabulary without a mask.
        allowed: usize,
        /// Logits in the row.
        vocab: usize,
    },
    /// The sampler looks at more of the logits than their largest.
    #[error("{found} candidates are not enough: the sampler needs all logits")]
    Candidates {
        /// Candidates given.
        found: usize,
    },
}
