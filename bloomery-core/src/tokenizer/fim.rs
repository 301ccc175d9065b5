//! The tokens of a prompt with a gap in it, for code completion (Bavarian et al., 2022).

use bloomery_gguf::{GgufError, Metadata};

use super::tokens::Tokens;

/// Which tokens mark the parts of a text that has a gap. A model that was not trained for it has none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fim {
    /// Before the text that comes before the gap.
    pub prefix: Option<u32>,
    /// Before the text that comes after the gap.
    pub suffix: Option<u32>,
    /// Before what fills the gap.
    pub middle: Option<u32>,
    /// Before the name of a repository.
    pub repository: Option<u32>,
    /// Before the name of a file.
    pub separator: Option<u32>,
}

const PREFIX: &[&str] = &[
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
];
const SUFFIX: &[&str] = &[
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
];
const MIDDLE: &[&str] = &[
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];
const REPOSITORY: &[&str] = &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
const SEPARATOR: &[&str] = &["<|file_sep|>"];

impl Fim {
    /// What the file names: `tokenizer.ggml.fim_pre_token_id` and its kin, under today's names or the first ones.
    pub(super) fn from_metadata(meta: &Metadata) -> Result<Self, GgufError> {
        let keys = meta.scoped("tokenizer.ggml");
        let first = |new: &str, old: &str| Ok::<_, GgufError>(keys.opt_u32(new)?.or(keys.opt_u32(old)?));
        Ok(Self {
            prefix: first("fim_pre_token_id", "prefix_token_id")?,
            suffix: first("fim_suf_token_id", "suffix_token_id")?,
            middle: first("fim_mid_token_id", "middle_token_id")?,
            repository: keys.opt_u32("fim_rep_token_id")?,
            separator: keys.opt_u32("fim_sep_token_id")?,
        })
    }

    /// With the tokens that the file does not name but its vocabulary has under a usual name.
    pub(super) fn completed(self, tokens: &Tokens) -> Self {
        let usual = |names: &[&str]| names.iter().find_map(|name| tokens.id(name));
        Self {
            prefix: self.prefix.or_else(|| usual(PREFIX)),
            suffix: self.suffix.or_else(|| usual(SUFFIX)),
            middle: self.middle.or_else(|| usual(MIDDLE)),
            repository: self.repository.or_else(|| usual(REPOSITORY)),
            separator: self.separator.or_else(|| usual(SEPARATOR)),
        }
    }

    /// Keys and ids, for checks.
    pub(super) fn keys(self) -> [(&'static str, Option<u32>); 5] {
        [
            ("tokenizer.ggml.fim_pre_token_id", self.prefix),
            ("tokenizer.ggml.fim_suf_token_id", self.suffix),
            ("tokenizer.ggml.fim_mid_token_id", self.middle),
            ("tokenizer.ggml.fim_rep_token_id", self.repository),
            ("tokenizer.ggml.fim_sep_token_id", self.separator),
        ]
    }
}
