//! A vocabulary as a file states it, before anything is derived from it.

use bloomery_gguf::{GgufError, Metadata};

use super::error::TokenizerError;
use super::fim::Fim;

/// What kind of entry a token is; the numbers are those of `tokenizer.ggml.token_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenKind {
    /// Ordinary text (1).
    Normal,
    /// Stands for text the vocabulary cannot express (2).
    Unknown,
    /// Structure of the prompt, such as a turn marker: matched only with `Specials::Parse` (3).
    Control,
    /// Text that always becomes this one token (4).
    UserDefined,
    /// A hole in the numbering: renders as nothing (5 and every undefined number).
    Unused,
    /// One byte, spelled `<0xXX>` (6).
    Byte,
}

impl TokenKind {
    /// The kind of a `token_type` number.
    pub fn from_number(number: i32) -> TokenKind {
        match number {
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            6 => TokenKind::Byte,
            _ => TokenKind::Unused,
        }
    }

    /// Whether the token is part of the prompt's structure and hidden from readers.
    pub(super) fn is_hidden(self) -> bool {
        matches!(self, TokenKind::Control | TokenKind::Unknown | TokenKind::Unused)
    }

    /// Whether text may become this token by merging. Control tokens may not: user text must never turn
    /// into prompt structure.
    pub(super) fn is_mergeable(self) -> bool {
        matches!(self, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused)
    }
}

/// The tokenizer part of a model file, borrowed. Absent keys are `None` or empty.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary<'a> {
    /// `tokenizer.ggml.model`: `gpt2` (byte-level BPE) or `llama` (SentencePiece with scores).
    pub model: &'a str,
    /// `tokenizer.ggml.pre`: the splitting rule of a `gpt2` vocabulary; not used by `llama`.
    pub pre: Option<&'a str>,
    /// `tokenizer.ggml.tokens`; the index is the id.
    pub tokens: &'a [String],
    /// `tokenizer.ggml.token_type`; empty means that every token is normal.
    pub kinds: Vec<TokenKind>,
    /// `tokenizer.ggml.scores`; empty means all zero. Only used by `llama`.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.merges`, best first, each `left right`. Only used by `gpt2`.
    pub merges: &'a [String],
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`, end of turn.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`, end of message.
    pub eom: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unk: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`. Only used by `llama`.
    pub add_space_prefix: Option<bool>,
    /// Tokens around a gap that the file names.
    pub fim: Fim,
}

impl<'a> Vocabulary<'a> {
    /// Reads the `tokenizer.ggml.*` keys of a file.
    ///
    /// # Errors
    /// If the model or the tokens are missing, or a key has the wrong type.
    pub fn from_metadata(meta: &'a Metadata) -> Result<Vocabulary<'a>, GgufError> {
        let keys = meta.scoped("tokenizer.ggml");
        let kinds = keys.opt_i32s("token_type")?.unwrap_or_default();
        Ok(Vocabulary {
            model: keys.str("model")?,
            pre: keys.opt_str("pre")?,
            tokens: keys.strings("tokens")?,
            kinds: kinds.into_iter().map(TokenKind::from_number).collect(),
            scores: keys.opt_f32s("scores")?.unwrap_or_default(),
            merges: keys.opt_strings("merges")?.unwrap_or_default(),
            bos: keys.opt_u32("bos_token_id")?,
            eos: keys.opt_u32("eos_token_id")?,
            eot: keys.opt_u32("eot_token_id")?,
            eom: keys.opt_u32("eom_token_id")?,
            unk: keys.opt_u32("unknown_token_id")?,
            add_bos: keys.opt_bool("add_bos_token")?,
            add_eos: keys.opt_bool("add_eos_token")?,
            add_space_prefix: keys.opt_bool("add_space_prefix")?,
            fim: Fim::from_metadata(meta)?,
        })
    }

    /// Lengths and ids, before anything relies on them.
    pub(super) fn check(&self) -> Result<(), TokenizerError> {
        let vocab = self.tokens.len();
        if vocab == 0 {
            return Err(TokenizerError::NoTokens);
        }
        let lengths =
            [("tokenizer.ggml.token_type", self.kinds.len()), ("tokenizer.ggml.scores", self.scores.len())];
        for (key, found) in lengths {
            if found != 0 && found < vocab {
                return Err(TokenizerError::TooShort { key, found, expected: vocab });
            }
        }
        let ids = [
            ("tokenizer.ggml.bos_token_id", self.bos),
            ("tokenizer.ggml.eos_token_id", self.eos),
            ("tokenizer.ggml.eot_token_id", self.eot),
            ("tokenizer.ggml.eom_token_id", self.eom),
            ("tokenizer.ggml.unknown_token_id", self.unk),
        ];
        for (key, id) in ids.into_iter().chain(self.fim.keys()) {
            if let Some(id) = id.filter(|&id| id as usize >= vocab) {
                return Err(TokenizerError::IdOutOfVocabulary { key, id, vocab });
            }
        }
        Ok(())
    }
}

/// The token to add, if it is wanted.
pub(super) fn added(
    wanted: bool,
    id: Option<u32>,
    flag: &'static str,
    key: &'static str,
) -> Result<Option<u32>, TokenizerError> {
    match (wanted, id) {
        (true, None) => Err(TokenizerError::MissingId { flag, key }),
        (true, id) => Ok(id),
        (false, _) => Ok(None),
    }
}
