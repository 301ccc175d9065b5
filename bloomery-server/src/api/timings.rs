//! What clients are told of speed and amounts.

use std::time::Duration;

use bloomery_core::scheduler::Progress;
use serde_json::{Value, json};

use super::placement;

/// The `timings` object. Every value is finite and at least 0.
pub(crate) fn timings(progress: &Progress) -> Value {
    let mut timings = speed(progress);
    if let Some(traffic) = &progress.traffic {
        timings["placement"] = placement::of_steps(traffic);
    }
    timings
}

fn speed(progress: &Progress) -> Value {
    let (prompt_ms, prompt_token_ms, prompt_rate) = rates(progress.prompt_time, progress.prompt);
    // The first token comes with the prompt, so the time is that of the others.
    let steps = progress.generated.saturating_sub(1);
    let (ms, token_ms, rate) = rates(progress.generate_time, steps);
    let mut timings = json!({
        "cache_n": progress.cached,
        "prompt_n": progress.prompt,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_token_ms,
        "prompt_per_second": prompt_rate,
        "predicted_n": progress.generated,
        "predicted_ms": ms,
        "predicted_per_token_ms": token_ms,
        "predicted_per_second": rate,
    });
    if progress.drafted > 0 {
        timings["draft_n"] = json!(progress.drafted);
        timings["draft_n_accepted"] = json!(progress.accepted);
    }
    timings
}

/// Milliseconds, milliseconds of one, and how many a second.
fn rates(time: Duration, count: usize) -> (f64, f64, f64) {
    let ms = time.as_secs_f64() * 1e3;
    if count == 0 || time.is_zero() {
        return (ms, 0.0, 0.0);
    }
    (ms, ms / count as f64, count as f64 / time.as_secs_f64())
}

/// The `prompt_progress` object; `total` is the prompt's length.
pub(crate) fn prompt_progress(progress: &Progress, total: usize) -> Value {
    json!({
        "total": total,
        "cache": progress.cached,
        "processed": progress.cached + progress.prompt,
        "time_ms": progress.prompt_time.as_millis() as u64,
    })
}

/// Tokens of an answer in OpenAI's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Prompt tokens, cached ones included.
    pub(crate) prompt: usize,
    /// Those that were known already.
    pub(crate) cached: usize,
    /// Generated tokens.
    pub(crate) completion: usize,
}

impl Usage {
    /// Adds one completion. Those after the `first` of a prompt share it.
    pub(crate) fn add(&mut self, progress: &Progress, prompt: usize, first: bool) {
        self.completion += progress.generated;
        if first {
            self.prompt += prompt;
            self.cached += progress.cached;
        }
    }

    /// The `usage` object.
    pub(crate) fn json(self) -> Value {
        json!({
            "completion_tokens": self.completion,
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_finite_and_count_steps_after_the_first_token() {
        let one = Progress { cached: 3, prompt: 1, generated: 1, ..Progress::default() };
        let value = timings(&one);
        assert_eq!(value["predicted_per_second"], 0.0);
        assert_eq!(value["predicted_per_token_ms"], 0.0);
        assert_eq!(value["prompt_per_second"], 0.0);
        let more = Progress { generated: 16, generate_time: Duration::from_millis(30), ..one };
        assert_eq!(timings(&more)["predicted_per_token_ms"], 2.0);
        assert_eq!(timings(&more)["predicted_per_second"], 500.0);
    }

    #[test]
    fn drafts_are_told_where_there_were_any() {
        let none = timings(&Progress { generated: 4, ..Progress::default() });
        assert_eq!((none.get("draft_n"), none.get("draft_n_accepted")), (None, None));
        let some = timings(&Progress { drafted: 5, accepted: 0, ..Progress::default() });
        assert_eq!((&some["draft_n"], &some["draft_n_accepted"]), (&json!(5), &json!(0)));
    }
}
