//! The objects of the native completion API.

use bloomery_core::StopReason;
use bloomery_core::scheduler::{Outcome, Progress};
use serde_json::{Map, Value, json};

use super::answer::{Answer, stop_text, stop_type};
use super::generation::Generation;
use super::jobs::Jobs;
use super::timings::timings;
use crate::app::App;

/// Builds the objects of one request.
#[derive(Debug)]
pub(crate) struct Native<'a> {
    /// The server.
    pub(crate) app: &'a App,
    /// The request.
    pub(crate) generation: &'a Generation,
    /// The settings' long form.
    pub(crate) settings: &'a Value,
}

impl Native<'_> {
    /// The final object of a job. A stream's has neither text nor tokens, which came before.
    pub(crate) fn last(&self, jobs: &Jobs, index: usize, answer: &Answer) -> Value {
        let generation = self.generation;
        let stream = generation.stream;
        let prompt = jobs.prompt(index);
        let progress = &answer.progress;
        let reason = answer.end.as_ref().map(|end| end.reason).filter(|_| !prompt.is_empty());
        let mut map = Map::new();
        let mut set = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        set("index", json!(index));
        set("content", json!(if stream { "" } else { &answer.content }));
        set("tokens", if stream || !generation.return_tokens { json!([]) } else { json!(answer.tokens) });
        set("id_slot", json!(jobs.slot(index).unwrap_or(0)));
        set("stop", json!(true));
        set("model", json!(self.app.id()));
        set("tokens_predicted", json!(progress.generated));
        set("tokens_evaluated", json!(prompt.len()));
        set("generation_settings", self.settings.clone());
        set("prompt", json!(self.app.engine.tokenizer().decode(prompt, true)));
        set("has_new_line", json!(answer.content.contains('\n')));
        set("truncated", json!(reason == Some(StopReason::ContextFull)));
        set("stop_type", json!(reason.map_or("none", stop_type)));
        set("stopping_word", json!(stop_text(answer.end.as_ref(), generation)));
        set("tokens_cached", json!(held(answer.end.as_ref(), progress)));
        set("timings", timings(progress));
        if !stream && generation.params.sampling.n_probs > 0 {
            set("completion_probabilities", json!(answer.probs));
        }
        Value::Object(map)
    }

    /// What comes while a stream goes on: text and the token it came with, and what was computed so far.
    pub(crate) fn chunk(
        &self,
        jobs: &Jobs,
        index: usize,
        text: &str,
        token: Option<u32>,
        progress: &Progress,
    ) -> Map<String, Value> {
        let mut map = Map::new();
        let mut set = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        set("index", json!(index));
        set("content", json!(text));
        set("tokens", token.into_iter().collect());
        set("stop", json!(false));
        set("id_slot", json!(jobs.slot(index).unwrap_or(0)));
        set("tokens_predicted", json!(progress.generated));
        set("tokens_evaluated", json!(jobs.prompt(index).len()));
        if self.generation.timings_per_token {
            set("timings", timings(progress));
        }
        map
    }
}

/// Tokens that the slot knows now. The last one of an answer was never computed.
fn held(end: Option<&Outcome>, progress: &Progress) -> usize {
    end.map_or(0, |end| end.held.saturating_sub(usize::from(progress.generated > 0)))
}

/// Only the wanted keys; `a/b` is the key `b` inside `a`, under that name.
pub(crate) fn pick(value: Value, wanted: &[String]) -> Value {
    if wanted.is_empty() {
        return value;
    }
    let find = |path: &str| path.split('/').try_fold(&value, |value, key| value.get(key)).cloned();
    Value::Object(wanted.iter().filter_map(|path| Some((path.clone(), find(path)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_picked_by_path() {
        let value = json!({"a": 1, "b": {"c": 2, "d": 3}});
        let wanted = ["b/c", "a", "x", "a/c"].map(str::to_owned);
        assert_eq!(pick(value, &wanted), json!({"b/c": 2, "a": 1}));
    }
}
