//! What takes the values of flags that are more than a number or a switch.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use bloomery_core::sampling::SamplerKind;
use bloomery_core::{Block, Drafts, KvType, Ngram};
use serde_json::Value;

use super::draft::{Draft, Wrong};
use super::flag::boolean;
use super::hub::reference;
use super::{escapes, templates};
use crate::options::Host;

/// Seats of other releases. Which code runs a file is read from the file.
const SEATS: [&str; 5] = ["qwen3", "qwen38", "glm", "ds41", "decide"];

/// The parts of a comma list that are not empty.
pub(super) fn list(value: &str) -> impl Iterator<Item = String> {
    value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned)
}

fn read(path: &str) -> Result<String, Wrong> {
    let wrong = |why: String| Wrong::File(PathBuf::from(path), why);
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".to_owned()))
}

pub(super) fn model(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    if value.starts_with("hf:") {
        return reference(draft, value);
    }
    let path = Path::new(value);
    if path.is_file() {
        draft.engine.model = Some(path.to_owned());
        return Ok(());
    }
    if path.exists() {
        return Err(Wrong::File(path.to_owned(), "is not a file".to_owned()));
    }
    match SEATS.iter().position(|seat| *seat == value) {
        // The file says which of these it is.
        Some(_) => {
            draft.seat = Some(value.to_owned());
            Ok(())
        }
        None => Err(Wrong::File(path.to_owned(), "no such file".to_owned())),
    }
}

pub(super) fn directory(value: &str) -> Result<PathBuf, Wrong> {
    let path = PathBuf::from(value);
    if path.is_dir() { Ok(path) } else { Err(Wrong::File(path, "is not a directory".to_owned())) }
}

pub(super) fn parallel(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    const MOST: usize = 1024;
    draft.engine.slots = match value {
        "auto" | "-1" => None,
        _ => match value.parse() {
            Ok(slots @ 1..=MOST) => Some(slots),
            _ => return Err(Wrong::Value(format!("expected 1 to {MOST}, -1 or auto"))),
        },
    };
    Ok(())
}

fn kv(value: &str) -> Result<KvType, Wrong> {
    match value.to_ascii_lowercase().as_str() {
        "f16" => Ok(KvType::F16),
        "q8_0" => Ok(KvType::Q8_0),
        "f32" => Ok(KvType::F32),
        "bf16" | "q4_0" | "q4_1" | "iq4_nl" | "q5_0" | "q5_1" => Err(Wrong::Unsupported(format!(
            "caches of type {value} are not in this release; use f16, q8_0 or f32"
        ))),
        _ => Err(Wrong::expected("f16, q8_0 or f32")),
    }
}

pub(super) fn kv_k(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    draft.kv_k = Some(kv(value)?);
    Ok(())
}

pub(super) fn kv_v(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    draft.kv_v = Some(kv(value)?);
    Ok(())
}

pub(super) fn hosts(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let host = |name: String| match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => Host::Address(address),
        Err(_) if name.ends_with(".sock") => Host::Socket(PathBuf::from(name)),
        Err(_) => Host::Name(name),
    };
    let hosts: Vec<Host> = list(value).map(host).collect();
    if hosts.is_empty() {
        return Err(Wrong::expected("an address"));
    }
    draft.http.hosts = hosts;
    Ok(())
}

pub(super) fn prefix(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let path = |value: &str| {
        value.starts_with('/') && value.chars().all(|c| c.is_ascii_graphic() && c != '?' && c != '#')
    };
    let value = value.trim_end_matches('/');
    if !value.is_empty() && !path(value) {
        return Err(Wrong::expected("a path that starts with a slash"));
    }
    value.clone_into(&mut draft.http.prefix);
    Ok(())
}

pub(super) fn api_key_file(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let text = read(value)?;
    let keys = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let before = draft.http.api_keys.len();
    draft.http.api_keys.extend(keys.map(str::to_owned));
    // A server that was meant to be locked must not come up open.
    if draft.http.api_keys.len() == before {
        return Err(Wrong::File(PathBuf::from(value), "has no key".to_owned()));
    }
    Ok(())
}

pub(super) fn samplers(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let mut chain = Vec::new();
    for name in value.split([';', ',']).map(str::trim).filter(|name| !name.is_empty()) {
        let kind = SamplerKind::from_name(name);
        chain.push(kind.ok_or_else(|| Wrong::Value(format!("there is no sampler `{name}`")))?);
    }
    draft.params.sampling.samplers = chain;
    Ok(())
}

/// Drafts of models that other servers have.
const DRAFT_MODELS: [&str; 4] = ["draft-simple", "draft-eagle3", "draft-dflash", "draft"];

/// The model's own block: which kind it has is read from the file.
const OWN_BLOCK: [&str; 2] = ["draft-mtp", "draft-dspark"];

/// What the text repeats, however it is looked for.
const NGRAMS: [&str; 6] =
    ["ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "default"];

pub(super) fn spec_type(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let names: Vec<String> = list(value).map(|name| name.to_ascii_lowercase()).collect();
    let is_of = |all: &[&str]| names.iter().any(|name| all.contains(&name.as_str()));
    let known = |name: &String| {
        name == "none" || OWN_BLOCK.iter().chain(&DRAFT_MODELS).chain(&NGRAMS).any(|known| known == name)
    };
    if names.is_empty() || !names.iter().all(known) {
        return Err(Wrong::Value(format!(
            "expected none, or of {}, {}",
            OWN_BLOCK.join(", "),
            NGRAMS[..5].join(", ")
        )));
    }
    if let Some(name) = names.iter().find(|name| DRAFT_MODELS.contains(&name.as_str())) {
        draft.warnings.push(format!(
            "--spec-type {name}: other models that draft are not in this release; what a text repeats is guessed"
        ));
    }
    let (ngram, block) = match draft.params.drafts {
        Drafts::Best(ngram, block) => (ngram, block),
        Drafts::Ngram(ngram) => (ngram, Block::default()),
        Drafts::Block(block) => (Ngram::default(), block),
        _ => (Ngram::default(), Block::default()),
    };
    draft.params.drafts = match (is_of(&OWN_BLOCK), is_of(&NGRAMS) || is_of(&DRAFT_MODELS)) {
        _ if is_of(&["none"]) => Drafts::Off,
        (true, true) => Drafts::Best(ngram, block),
        (true, false) => Drafts::Block(block),
        (false, _) => Drafts::Ngram(ngram),
    };
    Ok(())
}

/// Changes how a text is searched, where it is.
fn ngram(draft: &mut Draft, change: impl FnOnce(&mut Ngram)) {
    if let Drafts::Ngram(ngram) | Drafts::Best(ngram, _) = &mut draft.params.drafts {
        change(ngram);
    }
}

pub(super) fn draft_most(draft: &mut Draft, n: i64) {
    if let Drafts::Best(_, block) | Drafts::Block(block) = &mut draft.params.drafts {
        block.most = n as usize;
    }
    text_most(draft, n);
}

/// Of guesses that the text gives.
pub(super) fn text_most(draft: &mut Draft, n: i64) {
    ngram(draft, |ngram| ngram.most = n as usize);
}

pub(super) fn draft_least(draft: &mut Draft, n: i64) {
    ngram(draft, |ngram| ngram.least = n as usize);
}

pub(super) fn draft_size(draft: &mut Draft, n: i64) {
    ngram(draft, |ngram| (ngram.longest, ngram.shortest) = (n as usize, n as usize));
}

pub(super) fn sequence(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let kind =
        |c| SamplerKind::from_letter(c).ok_or_else(|| Wrong::Value(format!("there is no sampler `{c}`")));
    draft.params.sampling.samplers = value.chars().map(kind).collect::<Result<_, _>>()?;
    Ok(())
}

pub(super) fn breaker(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let breakers = &mut draft.params.sampling.dry_sequence_breakers;
    if !std::mem::replace(&mut draft.own_breakers, true) || value == "none" {
        breakers.clear();
    }
    if value != "none" {
        breakers.push(escapes::read(value));
    }
    Ok(())
}

pub(super) fn stop(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let text = escapes::read(value);
    if !text.is_empty() {
        draft.params.stop.push(text);
    }
    Ok(())
}

pub(super) fn logit_bias(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let read = || {
        let at = value.find(['+', '-'])?;
        let (token, bias) = (value[..at].trim().parse().ok()?, value[at..].parse::<f32>().ok()?);
        (!bias.is_nan() && bias != f32::INFINITY).then_some((token, bias))
    };
    let bias =
        read().ok_or_else(|| Wrong::expected("a token id and a bias, such as 15043+1 or 15043-inf"))?;
    draft.params.sampling.logit_bias.push(bias);
    Ok(())
}

pub(super) fn grammar(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    draft.serve.grammar = Some(value.to_owned());
    draft.serve.json_schema = None;
    Ok(())
}

pub(super) fn grammar_file(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    grammar(draft, &read(value)?)
}

fn schema_text(draft: &mut Draft, text: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    if !schema.is_object() && !schema.is_boolean() {
        return Err("is not a JSON schema".to_owned());
    }
    draft.serve.json_schema = Some(schema);
    draft.serve.grammar = None;
    Ok(())
}

pub(super) fn schema(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    schema_text(draft, value).map_err(Wrong::Value)
}

pub(super) fn schema_file(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    schema_text(draft, &read(value)?).map_err(|why| Wrong::File(PathBuf::from(value), why))
}

pub(super) fn template(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let source = match templates::built_in(value) {
        Some(source) => source.to_owned(),
        None if value.contains("{{") || value.contains("{%") => value.to_owned(),
        None if Path::new(value).is_file() => return template_file(draft, value),
        None => {
            let names = templates::names().collect::<Vec<_>>().join(", ");
            return Err(Wrong::Value(format!("is neither Jinja text, a file nor one of: {names}")));
        }
    };
    templates::check(&source).map_err(Wrong::Value)?;
    draft.template = Some(source);
    Ok(())
}

pub(super) fn template_file(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    let source = read(value)?;
    templates::check(&source).map_err(|why| Wrong::File(PathBuf::from(value), why))?;
    draft.template = Some(source);
    Ok(())
}

pub(super) fn kwargs(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    match serde_json::from_str(value) {
        Ok(Value::Object(kwargs)) => draft.serve.template_kwargs.extend(kwargs),
        Ok(_) => return Err(Wrong::expected("a JSON object")),
        Err(error) => return Err(Wrong::Value(format!("is not JSON: {error}"))),
    }
    Ok(())
}

fn on_off_auto(value: &str) -> Result<Option<bool>, Wrong> {
    match boolean(value) {
        None if !value.eq_ignore_ascii_case("auto") => Err(Wrong::expected("on, off or auto")),
        word => Ok(word),
    }
}

pub(super) fn reasoning(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    draft.serve.reasoning = on_off_auto(value)?;
    Ok(())
}

pub(super) fn colours(draft: &mut Draft, value: &str) -> Result<(), Wrong> {
    draft.logs.colours = on_off_auto(value)?;
    Ok(())
}
