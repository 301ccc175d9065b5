//! `generation_settings`: what a generation was asked to do, told back.

use bloomery_core::Drafts;
use bloomery_core::sampling::{Mirostat, Seed};
use serde_json::{Map, Value, json};

use super::constraint::Grammar;
use super::generation::Generation;

/// What the chat route adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatSettings {
    /// The markup of the answer.
    pub(crate) format: String,
    /// How thinking is shown.
    pub(crate) reasoning_format: String,
    /// Whether thinking is shown in the content.
    pub(crate) reasoning_in_content: bool,
    /// What the template puts before the answer.
    pub(crate) generation_prompt: String,
    /// Whether the grammar begins later in the answer.
    pub(crate) grammar_lazy: bool,
}

impl ChatSettings {
    /// Those of a prompt without messages, on a server with this `--reasoning-format`.
    pub(crate) fn plain(reasoning_format: &str) -> Self {
        let format = if reasoning_format == "auto" { "deepseek" } else { reasoning_format };
        Self {
            format: "Content-only".to_owned(),
            reasoning_format: format.to_owned(),
            reasoning_in_content: false,
            generation_prompt: String::new(),
            grammar_lazy: false,
        }
    }
}

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Everything: in answers.
    Long,
    /// Without lists and texts: in `/slots` and `/props`.
    Short,
}

impl Generation {
    /// The object.
    pub(crate) fn settings(&self, chat: &ChatSettings, form: Form) -> Value {
        let params = &self.params;
        let sampling = &params.sampling;
        let long = form == Form::Long;
        let mut map = Map::new();
        let mut set = |name: &str, value: Value| {
            map.insert(name.to_owned(), value);
        };
        set(
            "seed",
            json!(match sampling.seed {
                Seed::Random => u32::MAX,
                Seed::Fixed(seed) => seed,
            }),
        );
        set("temperature", float(sampling.temperature));
        set("dynatemp_range", float(sampling.dynatemp_range));
        set("dynatemp_exponent", float(sampling.dynatemp_exponent));
        set("top_k", json!(sampling.top_k));
        set("top_p", float(sampling.top_p));
        set("min_p", float(sampling.min_p));
        set("top_n_sigma", float(sampling.top_n_sigma));
        set("xtc_probability", float(sampling.xtc_probability));
        set("xtc_threshold", float(sampling.xtc_threshold));
        set("typical_p", float(sampling.typical_p));
        set("repeat_last_n", json!(sampling.repeat_last_n));
        set("repeat_penalty", float(sampling.repeat_penalty));
        set("presence_penalty", float(sampling.presence_penalty));
        set("frequency_penalty", float(sampling.frequency_penalty));
        set("dry_multiplier", float(sampling.dry_multiplier));
        set("dry_base", float(sampling.dry_base));
        set("dry_allowed_length", json!(sampling.dry_allowed_length));
        set("dry_penalty_last_n", json!(sampling.dry_penalty_last_n));
        if long {
            set("dry_sequence_breakers", json!(sampling.dry_sequence_breakers));
        }
        set(
            "mirostat",
            json!(match sampling.mirostat {
                Mirostat::Off => 0,
                Mirostat::V1 => 1,
                Mirostat::V2 => 2,
            }),
        );
        set("mirostat_tau", float(sampling.mirostat_tau));
        set("mirostat_eta", float(sampling.mirostat_eta));
        set("adaptive_target", float(sampling.adaptive_target));
        set("adaptive_decay", float(sampling.adaptive_decay));
        if long {
            set("stop", json!(params.stop));
        }
        let budget = params.max_tokens.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX));
        set("max_tokens", json!(budget));
        set("n_predict", json!(budget));
        set("n_keep", json!(self.keep));
        set("n_discard", json!(self.discard));
        set("ignore_eos", json!(params.ignore_end));
        set("stream", json!(self.stream));
        if long {
            set("logit_bias", sampling.logit_bias.iter().map(bias).collect());
        }
        set("n_probs", json!(sampling.n_probs));
        set("min_keep", json!(sampling.min_keep));
        if long {
            set("grammar", json!(grammar_text(self.grammar.as_ref())));
            set("grammar_lazy", json!(chat.grammar_lazy));
            set("grammar_triggers", json!([]));
            set("preserved_tokens", json!([]));
        }
        set("chat_format", json!(chat.format));
        set("reasoning_format", json!(chat.reasoning_format));
        set("reasoning_in_content", json!(chat.reasoning_in_content));
        set("generation_prompt", json!(chat.generation_prompt));
        set("samplers", sampling.samplers.iter().map(|kind| kind.name()).collect());
        set("speculative.types", json!(if params.drafts == Drafts::Off { "none" } else { "ngram-simple" }));
        set("timings_per_token", json!(self.timings_per_token));
        set("post_sampling_probs", json!(sampling.post_sampling_probs));
        set("backend_sampling", json!(false));
        set("lora", json!([]));
        Value::Object(map)
    }
}

/// The number as the engine holds it, so 0.8 is told as 0.800000011920929.
fn float(value: f32) -> Value {
    json!(f64::from(value))
}

/// A bias of -inf, which JSON does not have, is null.
fn bias(&(token, bias): &(u32, f32)) -> Value {
    json!({"bias": bias.is_finite().then(|| f64::from(bias)), "token": token})
}

fn grammar_text(grammar: Option<&Grammar>) -> String {
    match grammar {
        None => String::new(),
        Some(Grammar::Gbnf(text)) => text.clone(),
        Some(Grammar::Schema(schema)) => schema.to_string(),
    }
}
