//! `POST /infill`: code with a gap.

use std::sync::Arc;

use bloomery_core::tokenizer::{Fim, Specials, Tokenizer};
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
    let budget = app.options.params.max_tokens.unwrap_or(0);
    let wanted = fields.first(&["n_predict", "max_completion_tokens", "max_tokens"]);
    let wanted = wanted.map(|name| fields.integer(name, -1..=i64::from(i32::MAX))).transpose()?.flatten();
    let gap = Gap {
        prefix: around("input_prefix").await?,
        suffix: around("input_suffix").await?,
        prompt: encode(app, prompt, false, Specials::Parse).await?,
        bos: Some(app.engine.tokenizer()).filter(|tokenizer| tokenizer.adds_bos()).and_then(Tokenizer::bos),
        suffix_first: app.options.spm_infill,
        context: app.context(),
        budget,
        answer: wanted.and_then(|wanted| usize::try_from(wanted).ok()).unwrap_or(budget).max(1),
    };
    Ok(gap.lay_out(marks, extra_files(app, marks.fim, extra).await?))
}

/// A text with a gap, in tokens, and the room there is for it.
struct Gap {
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    /// How the filling begins.
    prompt: Vec<u32>,
    bos: Option<u32>,
    suffix_first: bool,
    context: usize,
    /// Tokens of an answer that the server was started with.
    budget: usize,
    /// Tokens of this answer.
    answer: usize,
}

impl Gap {
    /// The prompt. Of the text the parts nearest to the gap are kept, of other files the last ones. How much of those
    /// does not depend on the text, so that they stay known while it is being written.
    fn lay_out(mut self, marks: &Marks, mut files: Vec<u32>) -> Vec<u32> {
        // Three tokens are the marks.
        let window = WINDOW.min(self.context.saturating_sub(3 + self.answer.min(self.context / 4)));
        self.prefix.drain(..self.prefix.len().saturating_sub(window / 4 * 3));
        self.suffix.truncate((window / 4).saturating_sub(2 + self.prompt.len()));
        let before = [vec![marks.prefix], self.prefix, self.prompt].concat();
        let after = [vec![marks.suffix], self.suffix].concat();
        let mut gap = Vec::from_iter(self.bos);
        gap.extend(if self.suffix_first { [after, before] } else { [before, after] }.concat());
        gap.push(marks.middle);
        let room = self.context.saturating_sub(window + 2 * self.budget);
        let room = room.min(self.context.saturating_sub(gap.len() + self.answer));
        files.drain(..files.len().saturating_sub(room));
        files.extend(gap);
        files
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks {
        prefix: 1,
        suffix: 2,
        middle: 3,
        fim: Fim { prefix: None, suffix: None, middle: None, repository: None, separator: None },
    };

    fn gap(prefix: usize, suffix: usize) -> Gap {
        Gap {
            prefix: (1000..).take(prefix).collect(),
            suffix: (5000..).take(suffix).collect(),
            prompt: vec![7],
            bos: None,
            suffix_first: false,
            context: 8192,
            budget: 0,
            answer: 1,
        }
    }

    #[test]
    fn the_order_of_the_parts() {
        assert_eq!(gap(2, 1).lay_out(&MARKS, vec![90, 91]), [90, 91, 1, 1000, 1001, 7, 2, 5000, 3]);
        let other = Gap { bos: Some(0), suffix_first: true, ..gap(1, 1) };
        assert_eq!(other.lay_out(&MARKS, vec![90]), [90, 0, 2, 5000, 1, 1000, 7, 3]);
    }

    #[test]
    fn what_is_nearest_is_kept() {
        let tokens = gap(4000, 4000).lay_out(&MARKS, vec![]);
        assert_eq!(tokens.len(), 1536 + 512 - 3 + 1 + 3);
        assert_eq!((tokens[1], tokens[1536], tokens[1537]), (1000 + 4000 - 1536, 4999, 7));
        assert_eq!(tokens[tokens.len() - 2], 5000 + 512 - 3 - 1);
        let files: Vec<u32> = (10_000..30_000).collect();
        let short = gap(1, 1).lay_out(&MARKS, files.clone());
        assert_eq!((short[0], short.len()), (30_000 - (8192 - 2048), 8192 - 2048 + 6));
        let long = gap(4000, 4000).lay_out(&MARKS, files.clone());
        assert!(long.len() < 8192 && long[0] - short[0] < 8);
        let tight = Gap { context: 64, answer: 20, ..gap(100, 100) }.lay_out(&MARKS, files);
        assert!(tight.len() <= 64);
    }
}
