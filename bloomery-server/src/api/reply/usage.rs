//! What a reply has cost, as each API writes it.

use bloomery_core::scheduler::Progress;
use serde_json::{Value, json};

/// Tokens of a prompt and of all replies to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Tokens of the prompt.
    pub(crate) prompt: usize,
    /// Those of them that need not be computed for the first choice.
    pub(crate) cached: usize,
    /// Tokens generated, summed over choices.
    pub(crate) generated: usize,
    choices: usize,
}

impl Usage {
    /// Before any choice.
    pub(crate) fn new(prompt: usize) -> Usage {
        Usage { prompt, ..Usage::default() }
    }

    /// With what is known before anything is generated.
    pub(crate) fn cached(prompt: usize, cached: usize) -> Usage {
        Usage { prompt, cached, ..Usage::default() }
    }

    /// Takes in a choice.
    pub(crate) fn add(&mut self, progress: &Progress) {
        if self.choices == 0 {
            self.cached = progress.cached;
        }
        self.choices += 1;
        self.generated += progress.generated;
    }

    /// For chat completions.
    pub(crate) fn chat(&self) -> Value {
        json!({
            "completion_tokens": self.generated,
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": { "cached_tokens": self.cached },
        })
    }

    /// For responses.
    pub(crate) fn responses(&self) -> Value {
        json!({
            "input_tokens": self.prompt,
            "output_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "input_tokens_details": { "cached_tokens": self.cached },
        })
    }

    /// For messages, whose input does not count what was cached.
    pub(crate) fn messages(&self) -> Value {
        json!({
            "cache_read_input_tokens": self.cached,
            "input_tokens": self.prompt.saturating_sub(self.cached),
            "output_tokens": self.generated,
            "cache_creation_input_tokens": 0,
        })
    }
}
