//! `POST /infill`: code with a gap.

use std::sync::Arc;

use bloomery_core::tokenizer::{Fim, Specials};
use serde_json::{Map, Value};

use super::completion::run;
use super::fields::{self, Fields, field_error};
use super::prompt::{Prompts, encode};
use crate::app::App;
use crate::error::ApiError;
use crate::http::{Reply, Request};

/// Tokens around the gap, at most; what is further away belongs to the extra files.
const WINDOW: usize = 2048;

/// What separates texts where the vocabulary has no token for it.
const SNIPPET: &str = "\n\n--- snippet ---\n\n";

/// The gap, filled.
pub(super) async fn infill(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let marks = Marks::of(app.engine.tokenizer().fim())?;
    let body = fields::object(request)?;
    let prompt = layout(app, &marks, &body).await?;
    run(app, &body, vec![prompt]).await
}

/// The tokens that there have to be, and those that there may be.
struct Marks {
    prefix: u32,
    suffix: u32,
    middle: u32,
    fim: Fim,
}

impl Marks {
    fn of(fim: Fim) -> Result<Self, ApiError> {
        if let (Some(prefix), Some(suffix), Some(middle)) = (fim.prefix, fim.suffix, fim.middle) {
            return Ok(Self { prefix, suffix, middle, fim });
        }
        let names = [("prefix", fim.prefix), ("suffix", fim.suffix), ("middle", fim.middle)];
        let missing = names.iter().filter(|(_, id)| id.is_none());
        let missing: String = missing.map(|(name, _)| format!("{name} token is missing. ")).collect();
        Err(ApiError::not_supported(format!("Infill is not supported by this model: {missing}")))
    }
}

async fn layout(app: &Arc<App>, marks: &Marks, body: &Map<String, Value>) -> Result<Vec<u32>, ApiError> {
    let fields = Fields(body);
    let around = |name: &'static str| async move {
        let value = body.get(name).ok_or_else(|| ApiError::invalid(format!("\"{name}\" is required")))?;
        Ok::<_, ApiError>(Prompts::one(app, value)?.encode(app, false, Specials::AsText).await?.concat())
    };
    let prompt = fields.string("prompt")?.unwrap_or_default().to_owned();
    let extra = extra(fields)?;
    let mut prefix = around("input_prefix").await?;
    let mut suffix = around("input_suffix").await?;
    let prompt = encode(app, prompt, false, Specials::Parse).await?;

    let context = app.context();
    let window = WINDOW.min(context);
    prefix.drain(..prefix.len().saturating_sub(window / 4 * 3));
    suffix.truncate((window / 4).saturating_sub(2 + prompt.len()));
    prefix.insert(0, marks.prefix);
    prefix.extend(prompt);
    suffix.insert(0, marks.suffix);
    let tokenizer = app.engine.tokenizer();
    let mut gap: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.adds_bos()).into_iter().collect();
    gap.extend(if app.options.spm_infill { [suffix, prefix] } else { [prefix, suffix] }.concat());
    gap.push(marks.middle);

    let budget = app.options.params.max_tokens.unwrap_or(0);
    let wanted = fields.first(&["n_predict", "max_completion_tokens", "max_tokens"]);
    let wanted = wanted.map(|name| fields.integer(name, -1..=i64::from(i32::MAX))).transpose()?.flatten();
    let answer = wanted.and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(budget).max(1);
    let room = context.saturating_sub(window + 2 * budget).min(context.saturating_sub(gap.len() + answer));
    let mut tokens = extra_files(app, marks.fim, extra).await?;
    tokens.drain(..tokens.len().saturating_sub(room));
    tokens.extend(gap);
    Ok(tokens)
}

/// Names and texts of other files.
fn extra(fields: Fields<'_>) -> Result<Vec<(String, String)>, ApiError> {
    let Some(list) = fields.get("input_extra") else { return Ok(Vec::new()) };
    let list = list.as_array();
    let list =
        list.ok_or_else(|| field_error("input_extra", "must be an array of {\"filename\", \"text\"}"))?;
    let one = |value: &Value| {
        let entry = value.as_object().map(Fields);
        let text = entry.and_then(|entry| entry.get("text")).and_then(Value::as_str);
        let text = text.ok_or_else(|| field_error("input_extra", "an element needs a string \"text\""))?;
        let name = entry.map(|entry| entry.string("filename")).transpose()?.flatten().unwrap_or("tmp");
        Ok((name.to_owned(), text.to_owned()))
    };
    list.iter().map(one).collect()
}

/// The other files as the model was trained to see them, and the header of the file with the gap.
async fn extra_files(app: &Arc<App>, fim: Fim, extra: Vec<(String, String)>) -> Result<Vec<u32>, ApiError> {
    let text = |text: String| encode(app, text, false, Specials::AsText);
    let mut tokens = Vec::new();
    if let Some(repository) = fim.repository {
        tokens.push(repository);
        tokens.extend(text("myproject\n".to_owned()).await?);
    }
    for (name, content) in extra {
        tokens.extend(fim.separator);
        let header = if fim.separator.is_some() { format!("{name}\n") } else { SNIPPET.to_owned() };
        tokens.extend(text(header).await?);
        tokens.extend(text(content).await?);
    }
    if let Some(separator) = fim.separator {
        tokens.push(separator);
        tokens.extend(text("filename\n".to_owned()).await?);
    }
    Ok(tokens)
}
