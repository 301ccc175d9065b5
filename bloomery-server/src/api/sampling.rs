//! The fields that choose tokens.

use bloomery_core::Params;
use bloomery_core::sampling::{Mirostat, SamplerKind, SamplingParams, Seed};
use bloomery_core::tokenizer::Specials;
use serde_json::Value;

use super::fields::{Fields, field_error};
use crate::app::App;
use crate::error::ApiError;

/// Reads sampling parameters over those in `params`.
pub(super) fn read(app: &App, fields: Fields<'_>, params: &mut Params) -> Result<(), ApiError> {
    let sampling = &mut params.sampling;
    floats(fields, sampling)?;
    counts(app, fields, sampling)?;
    if let Some(seed) = fields.integer("seed", -1..=i64::from(u32::MAX))? {
        sampling.seed = u32::try_from(seed).map_or(Seed::Random, Seed::from);
    }
    if let Some(breakers) = fields.get("dry_sequence_breakers") {
        let texts =
            fields.strings("dry_sequence_breakers")?.filter(|texts| !texts.is_empty() && breakers.is_array());
        sampling.dry_sequence_breakers = texts
            .ok_or_else(|| field_error("dry_sequence_breakers", "must be a non-empty array of strings"))?;
    }
    if let Some(order) = fields.get("samplers") {
        sampling.samplers = samplers(order)?;
    }
    if let Some(bias) = fields.get("logit_bias") {
        sampling.logit_bias = logit_bias(app, bias);
    }
    if let Some(ignore) = fields.bool("ignore_eos")? {
        params.ignore_end = ignore;
    }
    if params.ignore_end {
        let ends = app.engine.tokenizer().end_of_generation();
        params.sampling.logit_bias.extend(ends.iter().map(|&id| (id, f32::NEG_INFINITY)));
    }
    params.sampling.validate().map_err(|error| ApiError::invalid(error.to_string()))
}

fn floats(fields: Fields<'_>, sampling: &mut SamplingParams) -> Result<(), ApiError> {
    const ALL: (f32, f32) = (f32::MIN, f32::MAX);
    let share = (0.0, 1.0);
    let usual_base = sampling.dry_base;
    for (name, (low, high), field) in [
        ("temperature", (0.0, f32::MAX), &mut sampling.temperature),
        ("top_p", share, &mut sampling.top_p),
        ("min_p", share, &mut sampling.min_p),
        ("typical_p", ALL, &mut sampling.typical_p),
        ("top_n_sigma", ALL, &mut sampling.top_n_sigma),
        ("xtc_probability", share, &mut sampling.xtc_probability),
        ("xtc_threshold", share, &mut sampling.xtc_threshold),
        ("dynatemp_range", ALL, &mut sampling.dynatemp_range),
        ("dynatemp_exponent", ALL, &mut sampling.dynatemp_exponent),
        ("repeat_penalty", ALL, &mut sampling.repeat_penalty),
        ("frequency_penalty", ALL, &mut sampling.frequency_penalty),
        ("presence_penalty", ALL, &mut sampling.presence_penalty),
        ("dry_multiplier", ALL, &mut sampling.dry_multiplier),
        ("dry_base", ALL, &mut sampling.dry_base),
        ("mirostat_tau", ALL, &mut sampling.mirostat_tau),
        ("mirostat_eta", ALL, &mut sampling.mirostat_eta),
        ("adaptive_target", (f32::MIN, 1.0), &mut sampling.adaptive_target),
    ] {
        if let Some(value) = fields.float(name)? {
            *field = value.clamp(low, high);
        }
    }
    if sampling.dry_base < 1.0 {
        sampling.dry_base = usual_base;
    }
    if let Some(decay) = fields.float("adaptive_decay")? {
        if !(0.0..=0.99).contains(&decay) {
            return Err(field_error(
                "adaptive_decay",
                format_args!("must be between 0 and 0.99, but is {decay}"),
            ));
        }
        sampling.adaptive_decay = decay;
    }
    Ok(())
}

fn counts(app: &App, fields: Fields<'_>, sampling: &mut SamplingParams) -> Result<(), ApiError> {
    const MOST: i64 = i32::MAX as i64;
    let whole = |name, low| Ok::<_, ApiError>(fields.integer(name, low..=MOST)?.map(|value| value as i32));
    if let Some(k) = whole("top_k", i64::from(i32::MIN))? {
        sampling.top_k = k.max(0);
    }
    if let Some(window) = whole("repeat_last_n", 0)? {
        sampling.repeat_last_n = window;
    }
    if let Some(window) = whole("dry_penalty_last_n", 0)? {
        sampling.dry_penalty_last_n = window;
    }
    if let Some(length) = whole("dry_allowed_length", 0)? {
        sampling.dry_allowed_length = length.unsigned_abs();
    }
    if let Some(keep) = whole("min_keep", 0)? {
        sampling.min_keep = keep.unsigned_abs();
    }
    if let Some(version) = whole("mirostat", i64::from(i32::MIN))? {
        sampling.mirostat = match version {
            ..=0 => Mirostat::Off,
            1 => Mirostat::V1,
            2.. => Mirostat::V2,
        };
    }
    // `logprobs` is a number here and a boolean on the chat route, which reads it itself.
    let logprobs = Some("logprobs").filter(|name| fields.get(name).is_some_and(Value::is_number));
    if let Some(name) = fields.first(&["n_probs"]).or(logprobs) {
        let wanted = fields.integer(name, i64::from(i32::MIN)..=MOST)?.unwrap_or(0);
        sampling.n_probs = usize::try_from(wanted).unwrap_or(0).min(app.engine.model().vocab);
    }
    if let Some(post) = fields.bool("post_sampling_probs")? {
        sampling.post_sampling_probs = post;
    }
    fields.bool("backend_sampling")?;
    Ok(())
}

/// An array of names or a string of letters. Names that do not exist are skipped, as clients send names of samplers
/// that came and went.
fn samplers(order: &Value) -> Result<Vec<SamplerKind>, ApiError> {
    let wrong = || field_error("samplers", "must be an array of names or a string of letters");
    let known = |kind: Option<SamplerKind>, name: &dyn std::fmt::Display| {
        if kind.is_none() {
            tracing::warn!("there is no sampler {name}: skipped");
        }
        kind
    };
    match order {
        Value::String(letters) => Ok(letters
            .chars()
            .filter_map(|letter| known(SamplerKind::from_letter(letter), &letter))
            .collect()),
        Value::Array(names) => {
            let names = names.iter().map(|name| name.as_str().ok_or_else(wrong));
            let names = names.collect::<Result<Vec<_>, _>>()?;
            Ok(names.into_iter().filter_map(|name| known(SamplerKind::from_name(name), &name)).collect())
        }
        _ => Err(wrong()),
    }
}

/// Pairs or an object of ids or texts and biases. What makes no sense is skipped, as llama-server does.
fn logit_bias(app: &App, value: &Value) -> Vec<(u32, f32)> {
    let tokenizer = app.engine.tokenizer();
    let vocab = app.engine.model().vocab;
    let bias = |value: &Value| match value {
        Value::Bool(false) => Some(f32::NEG_INFINITY),
        value => {
            value.as_f64().map(|bias| bias as f32).filter(|bias| !bias.is_nan() && *bias != f32::INFINITY)
        }
    };
    let by_id =
        |id: Option<u64>| id.and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < vocab);
    let by_text = |text: &str| tokenizer.encode(text, Specials::AsText).unwrap_or_default();
    let mut list = Vec::new();
    match value {
        Value::Array(pairs) => {
            for pair in pairs {
                let Some([key, value]) = pair.as_array().map(Vec::as_slice) else { continue };
                let Some(bias) = bias(value) else { continue };
                match key {
                    Value::String(text) => list.extend(by_text(text).into_iter().map(|id| (id, bias))),
                    key => list.extend(by_id(key.as_u64()).map(|id| (id, bias))),
                }
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                let Some(bias) = bias(value) else { continue };
                match key.parse::<i64>() {
                    Ok(id) => list.extend(by_id(u64::try_from(id).ok()).map(|id| (id, bias))),
                    Err(_) => list.extend(by_text(key).into_iter().map(|id| (id, bias))),
                }
            }
        }
        _ => {}
    }
    list
}
