//! The fields that all generating routes have in common.

use std::time::Duration;

use bloomery_core::Params;
use serde_json::{Map, Value};

use super::constraint::Grammar;
use super::fields::{Fields, field_error, kind};
use super::sampling;
use crate::app::App;
use crate::error::ApiError;

/// How to generate, and what to tell of it.
#[derive(Debug, Clone)]
pub(crate) struct Generation {
    /// For the engine.
    pub(crate) params: Params,
    /// Completions of each prompt.
    pub(crate) n: usize,
    /// Answer with events.
    pub(crate) stream: bool,
    /// A last event with the usage.
    pub(crate) include_usage: bool,
    /// Use what is known of the prompt.
    pub(crate) cache_prompt: bool,
    /// The slot that has to run it.
    pub(crate) slot: Option<usize>,
    /// Tell the ids of the answer.
    pub(crate) return_tokens: bool,
    /// Timings with every event.
    pub(crate) timings_per_token: bool,
    /// Events while the prompt is computed.
    pub(crate) return_progress: bool,
    /// Silence after which the client gets a comment.
    pub(crate) ping: Option<Duration>,
    /// The native answer beside another one.
    pub(crate) verbose: bool,
    /// Keys of the answer that are wanted; empty is all.
    pub(crate) response_fields: Vec<String>,
    /// What the text has to look like.
    pub(crate) grammar: Option<Grammar>,
    /// A line that is indented less ends the generation.
    pub(crate) indent: usize,
    /// The first line break after this time ends the generation.
    pub(crate) time_limit: Option<Duration>,
    /// Told back, without effect: there is no context shift.
    pub(crate) keep: i64,
    /// Told back, without effect.
    pub(crate) discard: i64,
}

/// The largest number of tokens, positions and the like.
const MOST: i64 = i32::MAX as i64;

impl Generation {
    /// Reads the fields; what is not there is what the server was started with.
    pub(crate) fn read(app: &App, map: &Map<String, Value>) -> Result<Self, ApiError> {
        let fields = Fields(map);
        let options = &app.options;
        let slots = app.scheduler.options().slots;
        let mut params = options.params.clone();
        if let Some(name) = fields.first(&["n_predict", "max_completion_tokens", "max_tokens"]) {
            params.max_tokens =
                fields.integer(name, -1..=MOST)?.and_then(|budget| usize::try_from(budget).ok());
        }
        sampling::read(app, fields, &mut params)?;
        if let Some(stop) = fields.strings("stop")? {
            let stop: Vec<String> = stop.into_iter().filter(|text| !text.is_empty()).collect();
            if !stop.is_empty() {
                params.stop = stop;
            }
        }
        let n =
            fields.first(&["n_cmpl", "n"]).map(|name| fields.count(name, 1..=slots)).transpose()?.flatten();
        let slot = fields.integer("id_slot", -1..=MOST)?.and_then(|slot| usize::try_from(slot).ok());
        let flag = |name| Ok::<_, ApiError>(fields.bool(name)?.unwrap_or(false));
        let time_limit = fields.integer("t_max_predict_ms", -1..=i64::MAX)?.unwrap_or(0);
        fields.integer("n_cache_reuse", 0..=MOST)?;
        refuse_lora(fields)?;
        Ok(Self {
            n: n.unwrap_or(1),
            stream: flag("stream")?,
            include_usage: include_usage(fields)?,
            cache_prompt: fields.bool("cache_prompt")?.unwrap_or(options.cache_prompt),
            slot: slot.filter(|&slot| slot < slots),
            return_tokens: flag("return_tokens")?,
            timings_per_token: flag("timings_per_token")?,
            return_progress: flag("return_progress")?,
            ping: match fields.integer("sse_ping_interval", -1..=MOST)? {
                Some(seconds) => {
                    u64::try_from(seconds).ok().filter(|&seconds| seconds > 0).map(Duration::from_secs)
                }
                None => options.sse_ping,
            },
            verbose: fields.bool("verbose")?.unwrap_or(options.verbose),
            response_fields: fields.strings("response_fields")?.unwrap_or_default(),
            grammar: grammar(app, fields)?,
            indent: fields.count("n_indent", 0..=MOST as usize)?.unwrap_or(0),
            time_limit: u64::try_from(time_limit).ok().filter(|&ms| ms > 0).map(Duration::from_millis),
            keep: fields.integer("n_keep", -1..=MOST)?.unwrap_or(0),
            discard: fields.integer("n_discard", 0..=MOST)?.unwrap_or(0),
            params,
        })
    }

    /// The same for the `k`-th completion of a prompt: it has a seed of its own.
    pub(crate) fn params_of(&self, k: usize) -> Params {
        let mut params = self.params.clone();
        if let bloomery_core::sampling::Seed::Fixed(seed) = params.sampling.seed {
            params.sampling.seed = bloomery_core::sampling::Seed::Fixed(seed.wrapping_add(k as u32));
        }
        params
    }
}

fn include_usage(fields: Fields<'_>) -> Result<bool, ApiError> {
    match fields.get("stream_options") {
        None => Ok(false),
        Some(Value::Object(options)) => Ok(Fields(options).bool("include_usage")?.unwrap_or(false)),
        Some(other) => {
            Err(field_error("stream_options", format_args!("type must be an object, but is {}", kind(other))))
        }
    }
}

/// A grammar beats a schema; both beat what the server was started with.
fn grammar(app: &App, fields: Fields<'_>) -> Result<Option<Grammar>, ApiError> {
    let text = fields.string("grammar")?.filter(|text| !text.is_empty());
    let own = text.map(|text| Grammar::Gbnf(text.to_owned()));
    let schema = || fields.get("json_schema").cloned().map(Grammar::Schema);
    let started = || {
        let text = app.options.grammar.clone().filter(|text| !text.is_empty()).map(Grammar::Gbnf);
        text.or_else(|| app.options.json_schema.clone().map(Grammar::Schema))
    };
    Ok(own.or_else(schema).or_else(started))
}

/// An adapter that is not there cannot be applied; asking for none of its effect is fine.
fn refuse_lora(fields: Fields<'_>) -> Result<(), ApiError> {
    let Some(value) = fields.get("lora") else { return Ok(()) };
    let list = value
        .as_array()
        .ok_or_else(|| field_error("lora", "must be an array of objects with 'id' and 'scale'"))?;
    match list.iter().find(|entry| entry.get("scale").and_then(Value::as_f64) != Some(0.0)) {
        Some(entry) => Err(field_error("lora", format_args!("there is no adapter for {entry}"))),
        None => Ok(()),
    }
}
