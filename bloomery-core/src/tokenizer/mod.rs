//! Text to token ids and back, from what a model file says about its vocabulary.
//!
//! Two kinds of vocabulary: byte-level BPE with a splitting rule (`gpt2`) and SentencePiece with scores
//! (`llama`). Text is not normalised: where a model's own tokenizer applies NFC first, the caller may.

mod alphabet;
mod bpe;
mod detokenizer;
mod error;
mod fim;
mod merge;
mod pre;
mod rules;
mod special;
mod spm;
mod tokens;
mod vocabulary;

use std::borrow::Cow;
use std::sync::Arc;

use bloomery_gguf::Metadata;
use bpe::ByteBpe;
pub use detokenizer::Detokenizer;
pub use error::TokenizerError;
pub use fim::Fim;
use special::{Matcher, Segment};
use spm::Spm;
use tokens::Tokens;
pub use vocabulary::{TokenKind, Vocabulary};

/// What becomes of special tokens that are spelled out in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Specials {
    /// Control tokens are text like any other: for what users and tools wrote.
    AsText,
    /// Control tokens are recognised: for rendered chat templates.
    Parse,
}

/// Converts between text and token ids. Cloning shares the tables.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    tokens: Tokens,
    model: Model,
    /// What every token renders as, one after the other, and where each ends.
    rendered: Vec<u8>,
    rendered_ends: Vec<usize>,
    /// User-defined tokens.
    always: Option<Matcher>,
    /// User-defined, control and unknown tokens.
    parsed: Option<Matcher>,
    ends: Vec<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: Option<u32>,
    add_eos: Option<u32>,
    fim: Fim,
}

enum Model {
    Bpe(Box<ByteBpe>),
    Spm(Box<Spm>),
}

impl Tokenizer {
    /// Builds the tables of a file's vocabulary.
    ///
    /// # Errors
    /// If a key is missing or has the wrong type, and as [`new`](Self::new).
    pub fn from_metadata(meta: &Metadata) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::new(&Vocabulary::from_metadata(meta)?)
    }

    /// Builds the tables of a vocabulary.
    ///
    /// # Errors
    /// If the model or the splitting rule is unknown, arrays have the wrong length, an id is outside the
    /// vocabulary, a merge is malformed, or a token has to be added to prompts that the file does not name.
    pub fn new(vocabulary: &Vocabulary<'_>) -> Result<Tokenizer, TokenizerError> {
        vocabulary.check()?;
        let mut tokens = Tokens::new(vocabulary.tokens, &vocabulary.kinds);
        let spm = match vocabulary.model {
            "gpt2" => false,
            "llama" => true,
            model => {
                let supported = "gpt2, llama".to_owned();
                return Err(TokenizerError::UnknownModel { model: model.to_owned(), supported });
            }
        };
        // Files of the first SentencePiece models rely on these ids.
        let usual = |id: u32| Some(id).filter(|_| spm && (id as usize) < tokens.len());
        let bos = vocabulary.bos.or(usual(1));
        let eos = vocabulary.eos.or(usual(2));
        let unk = vocabulary.unk.or(usual(0));
        let ends = special::classify(&mut tokens, &Vocabulary { eos, ..vocabulary.clone() });
        let (model, bos_default) = if spm {
            let space_prefix = vocabulary.add_space_prefix.unwrap_or(true);
            (Model::Spm(Box::new(Spm::new(&tokens, &vocabulary.scores, unk, space_prefix))), true)
        } else {
            let bpe = ByteBpe::new(&tokens, vocabulary.pre, vocabulary.merges)?;
            let add_bos = bpe.pre.add_bos;
            (Model::Bpe(Box::new(bpe)), add_bos)
        };
        let add_bos = vocabulary::added(
            vocabulary.add_bos.unwrap_or(bos_default),
            bos,
            "add_bos_token",
            "bos_token_id",
        )?;
        let add_eos =
            vocabulary::added(vocabulary.add_eos.unwrap_or(false), eos, "add_eos_token", "eos_token_id")?;
        let (rendered, rendered_ends) = render(&tokens, spm);
        let always = Matcher::new(matched(&tokens, spm, &[TokenKind::UserDefined]));
        let kinds = [TokenKind::UserDefined, TokenKind::Control, TokenKind::Unknown];
        let parsed = Matcher::new(matched(&tokens, spm, &kinds));
        let fim = vocabulary.fim.completed(&tokens);
        let inner = Inner {
            fim,
            tokens,
            model,
            rendered,
            rendered_ends,
            always,
            parsed,
            ends,
            bos,
            eos,
            add_bos,
            add_eos,
        };
        Ok(Tokenizer(Arc::new(inner)))
    }

    /// The ids of a text, without BOS or EOS. Time is near linear in its length whatever it contains.
    ///
    /// # Errors
    /// If the text has a byte for which the vocabulary has no token, or is 4 GiB or longer.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        self.0.encode(text, specials, &mut ids)?;
        Ok(ids)
    }

    /// The ids of a prompt: [`encode`](Self::encode) with the BOS and EOS that the file asks for. A BOS
    /// that the text itself begins with is kept besides.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str, specials: Specials) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(self.0.add_bos);
        self.0.encode(text, specials, &mut ids)?;
        ids.extend(self.0.add_eos);
        Ok(ids)
    }

    /// The text of ids. Control tokens render as nothing unless `special`; ids outside the vocabulary
    /// always do; bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32], special: bool) -> String {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for &id in ids {
            bytes.extend_from_slice(self.0.bytes(id, special));
        }
        let text = bytes.strip_prefix(b" ").filter(|_| self.0.space_prefix()).unwrap_or(&bytes);
        String::from_utf8_lossy(text).into_owned()
    }

    /// What one token renders as, which may be part of a character; empty as in [`decode`](Self::decode).
    pub fn token_bytes(&self, id: u32, special: bool) -> &[u8] {
        self.0.bytes(id, special)
    }

    /// A detokenizer for ids that begin a text. As in [`decode`](Self::decode), the space that a
    /// SentencePiece model puts before the first word is dropped.
    pub fn detokenizer(&self, special: bool) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.0), special, self.0.space_prefix())
    }

    /// A detokenizer for ids that continue a text, such as the rest of a raw prompt: every space is kept.
    pub fn continuation(&self, special: bool) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.0), special, false)
    }

    /// The number of tokens; ids are below it.
    pub fn vocab_size(&self) -> usize {
        self.0.tokens.len()
    }

    /// The id of a token by its text as the file spells it (byte-level vocabularies write a space as `Ġ`).
    pub fn id(&self, token: &str) -> Option<u32> {
        self.0.tokens.id(token)
    }

    /// A token's text as the file spells it.
    pub fn piece(&self, id: u32) -> Option<&str> {
        self.0.tokens.text(id)
    }

    /// A token's kind. End-of-generation tokens are control tokens even where the file says otherwise.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.0.tokens.kind(id)
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.0.bos
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.0.eos
    }

    /// Whether [`encode_prompt`](Self::encode_prompt) begins with the BOS.
    pub fn adds_bos(&self) -> bool {
        self.0.add_bos.is_some()
    }

    /// The tokens of a prompt with a gap in it.
    pub fn fim(&self) -> Fim {
        self.0.fim
    }

    /// Whether a generation ends with this token.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.0.ends.contains(&id)
    }

    /// All tokens that end a generation, ascending.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.0.ends
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).finish_non_exhaustive()
    }
}

impl Inner {
    fn encode(&self, text: &str, specials: Specials, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        if text.len() >= u32::MAX as usize {
            return Err(TokenizerError::TextTooLong { bytes: text.len(), limit: u32::MAX as usize - 1 });
        }
        let matcher = match specials {
            Specials::AsText => self.always.as_ref(),
            Specials::Parse => self.parsed.as_ref(),
        };
        let mut first = true;
        for segment in Matcher::segments(matcher, text) {
            match (segment, &self.model) {
                (Segment::Token(id), _) => ids.push(id),
                (Segment::Text(text), Model::Bpe(bpe)) => bpe.encode(&self.tokens, text, ids)?,
                (Segment::Text(text), Model::Spm(spm)) => {
                    spm.encode(&self.tokens, text, first, ids)?;
                    first = false;
                    continue;
                }
            }
            first = true;
        }
        Ok(())
    }

    fn bytes(&self, id: u32, special: bool) -> &[u8] {
        match self.tokens.kind(id) {
            Some(TokenKind::Unused) | None => &[],
            Some(kind) if kind.is_hidden() && !special => &[],
            Some(_) => {
                let start = if id == 0 { 0 } else { self.rendered_ends[id as usize - 1] };
                &self.rendered[start..self.rendered_ends[id as usize]]
            }
        }
    }

    fn space_prefix(&self) -> bool {
        matches!(&self.model, Model::Spm(spm) if spm.space_prefix)
    }
}

/// What every token renders as, and where each ends.
fn render(tokens: &Tokens, spm: bool) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut ends = Vec::with_capacity(tokens.len());
    for (_, text, kind) in tokens.iter() {
        match kind {
            TokenKind::Normal if !spm => ByteBpe::render(text, &mut bytes),
            _ => Spm::render(text, kind, &mut bytes),
        }
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// The tokens of these kinds with the text they are found by. A SentencePiece run of spaces is also found
/// by its other spelling, as the model's own tokenizer does.
fn matched<'a>(
    tokens: &'a Tokens,
    spm: bool,
    kinds: &'a [TokenKind],
) -> impl Iterator<Item = (u32, Cow<'a, str>)> {
    let other = if spm { Some(spm::space_runs(tokens)) } else { None };
    let listed = tokens.iter().filter(|(_, _, kind)| kinds.contains(kind));
    listed.map(|(id, text, _)| (id, Cow::Borrowed(text))).chain(other.into_iter().flatten())
}
