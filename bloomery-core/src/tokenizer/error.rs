//! What can be wrong with a vocabulary or a text.

/// Why a tokenizer could not be built, or a text not be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A `tokenizer.ggml.*` key is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] bloomery_gguf::GgufError),
    /// `tokenizer.ggml.model` names a kind of vocabulary that is not implemented.
    #[error("tokenizer.ggml.model is '{model}'; supported: {supported}")]
    UnknownModel {
        /// The value in the file.
        model: String,
        /// Every supported value, separated by commas.
        supported: String,
    },
    /// `tokenizer.ggml.pre` names a splitting rule that is not implemented. A wrong rule would give
    /// plausible but worse ids, so there is no fallback.
    #[error("tokenizer.ggml.pre is '{pre}'; supported: {supported}")]
    UnknownPre {
        /// The value in the file.
        pre: String,
        /// Every supported value, separated by commas.
        supported: String,
    },
    /// A byte-level vocabulary without `tokenizer.ggml.pre`.
    #[error("tokenizer.ggml.pre is missing; a gpt2 vocabulary needs one of: {supported}")]
    MissingPre {
        /// Every supported value, separated by commas.
        supported: String,
    },
    /// The file has no tokens.
    #[error("tokenizer.ggml.tokens is empty")]
    NoTokens,
    /// An array that runs parallel to the tokens is too short.
    #[error("{key} has {found} entries, the vocabulary has {expected}")]
    TooShort {
        /// The metadata key.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The number of tokens.
        expected: usize,
    },
    /// A special token's id is outside the vocabulary.
    #[error("{key} is {id}, the vocabulary has {vocab} tokens")]
    IdOutOfVocabulary {
        /// The metadata key.
        key: &'static str,
        /// The id in the file.
        id: u32,
        /// The number of tokens.
        vocab: usize,
    },
    /// The file wants a token added to every prompt but does not say which.
    #[error("{flag} is true but {key} is missing")]
    MissingId {
        /// The key that asks for the token.
        flag: &'static str,
        /// The key that should name it.
        key: &'static str,
    },
    /// A merge rule that is not two tokens separated by a space.
    #[error("tokenizer.ggml.merges[{index}] is '{merge}', expected two tokens with a space between them")]
    MalformedMerge {
        /// The position in the array.
        index: usize,
        /// The entry.
        merge: String,
    },
    /// The vocabulary has no token for a byte of the text, and no unknown token.
    #[error("the vocabulary has no token for the byte 0x{byte:02X}")]
    NoTokenForByte {
        /// The byte.
        byte: u8,
    },
    /// The text is longer than positions can count.
    #[error("the text has {bytes} bytes, the limit is {limit}")]
    TextTooLong {
        /// The length of the text in bytes, after spaces were written as U+2581 where the model does so.
        bytes: usize,
        /// The most that can be encoded at once.
        limit: usize,
    },
}
