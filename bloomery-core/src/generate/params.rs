//! What a caller may ask of a generation.

use bloomery_gguf::{GgufError, Metadata};

use crate::draft::Drafts;
use crate::sampling::SamplingParams;

/// How to generate.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Params {
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// Most tokens to generate; `None` is until the model ends or the context is full.
    pub max_tokens: Option<usize>,
    /// Texts that end the generation; they are not part of the output.
    pub stop: Vec<String>,
    /// Whether control tokens appear in the text.
    pub special: bool,
    /// Whether the model's own end-of-generation tokens are ignored.
    pub ignore_end: bool,
    /// What guesses tokens ahead. It changes the speed and not the text.
    pub drafts: Drafts,
}

impl Params {
    /// The most likely token at every step.
    #[must_use]
    pub fn greedy() -> Self {
        Self { sampling: SamplingParams { temperature: 0.0, ..SamplingParams::default() }, ..Self::default() }
    }

    /// llama.cpp's defaults, changed by what the file recommends under `general.sampling.*`.
    pub(crate) fn from_metadata(meta: &Metadata) -> Result<Self, GgufError> {
        let mut params = Self::default();
        let sampling = &mut params.sampling;
        let keys = meta.scoped("general.sampling");
        for (key, field) in [
            ("temp", &mut sampling.temperature),
            ("top_p", &mut sampling.top_p),
            ("min_p", &mut sampling.min_p),
            ("penalty_repeat", &mut sampling.repeat_penalty),
        ] {
            if let Some(value) = keys.opt_f32(key)? {
                *field = value;
            }
        }
        if let Some(k) = keys.opt_i32("top_k")? {
            sampling.top_k = k;
        }
        if let Some(n) = keys.opt_i32("penalty_last_n")? {
            sampling.repeat_last_n = n;
        }
        Ok(params)
    }
}
