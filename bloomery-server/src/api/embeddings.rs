//! `POST /v1/embeddings` and `/embedding(s)`.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bloomery_core::scheduler::{Event, Job, Pooling};
use bloomery_core::tokenizer::Specials;
use bloomery_core::{EngineError, Params};
use serde_json::{Map, Value, json};

use super::fields::{self, Fields, field_error};
use super::prompt::Prompts;
use crate::app::App;
use crate::error::ApiError;
use crate::http::{Reply, Request};
use crate::stream::JobStream;

/// In OpenAI's form, unless the request has llama-server's `content`.
pub(super) async fn openai(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    let input = Input::read(app, request, false).await?;
    if input.is_native {
        return input.native(app).await;
    }
    let tokens = input.tokens();
    let (model, base64) = (input.model.clone(), input.base64);
    let vectors = input.embed(app).await?;
    let data = vectors.into_iter().enumerate().map(|(index, rows)| entry(index, &rows.concat(), base64));
    Ok(Reply::json(&json!({
        "model": model,
        "object": "list",
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "data": data.collect::<Vec<_>>(),
    })))
}

/// In llama-server's form.
pub(super) async fn native(app: &Arc<App>, request: &Request) -> Result<Reply, ApiError> {
    Input::read(app, request, true).await?.native(app).await
}

fn entry(index: usize, vector: &[f32], base64: bool) -> Value {
    let mut map = Map::new();
    let embedding = match base64 {
        true => {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            json!(BASE64_STANDARD.encode(bytes))
        }
        false => numbers(vector),
    };
    map.insert("embedding".to_owned(), embedding);
    map.insert("index".to_owned(), json!(index));
    map.insert("object".to_owned(), json!("embedding"));
    if base64 {
        map.insert("encoding_format".to_owned(), json!("base64"));
    }
    Value::Object(map)
}

fn numbers(vector: &[f32]) -> Value {
    vector.iter().map(|&value| json!(f64::from(value))).collect()
}

/// A request's texts and how their vectors are wanted.
struct Input {
    prompts: Vec<Vec<u32>>,
    model: String,
    base64: bool,
    norm: i64,
    is_native: bool,
}

impl Input {
    async fn read(app: &Arc<App>, request: &Request, native: bool) -> Result<Self, ApiError> {
        if !app.options.embeddings {
            return Err(ApiError::not_supported(
                "This server does not support embeddings. Start it with `--embeddings`",
            ));
        }
        let body = fields::object(request)?;
        let fields = Fields(&body);
        let name = fields.first(&["input", "content"]);
        let name = name.ok_or_else(|| ApiError::invalid("\"input\" or \"content\" must be provided"))?;
        let base64 = match fields.string("encoding_format")? {
            None | Some("float") => false,
            Some("base64") => true,
            Some(_) => return Err(field_error("encoding_format", "must be float or base64")),
        };
        let prompts = Prompts::read(app, &body[name])?.encode(app, true, Specials::Parse).await?;
        let limit = app.context();
        for prompt in &prompts {
            if prompt.is_empty() {
                return Err(ApiError::invalid("Input content cannot be empty"));
            }
            if prompt.len() > limit {
                let len = prompt.len();
                return Err(ApiError::invalid(format!(
                    "input ({len} tokens) is too large to process, at most {limit} are possible"
                )));
            }
        }
        let is_native = name == "content" || native;
        if !is_native && app.options.pooling == Pooling::None {
            return Err(ApiError::invalid(
                "Pooling type 'none' is not OAI compatible. Please use a different pooling type",
            ));
        }
        Ok(Self {
            prompts,
            model: body.get("model").and_then(Value::as_str).unwrap_or(app.id()).to_owned(),
            base64,
            norm: fields
                .integer("embd_normalize", -1..=i64::from(i32::MAX))?
                .unwrap_or(app.options.embd_normalize),
            is_native,
        })
    }

    fn tokens(&self) -> usize {
        self.prompts.iter().map(Vec::len).sum()
    }

    async fn native(self, app: &Arc<App>) -> Result<Reply, ApiError> {
        let vectors = self.embed(app).await?;
        let entry = |(index, rows): (usize, Vec<Vec<f32>>)| json!({"index": index, "embedding": rows.iter().map(|row| numbers(row)).collect::<Vec<_>>()});
        Ok(Reply::json(&vectors.into_iter().enumerate().map(entry).collect()))
    }

    /// The vectors of each text, brought to the wanted length.
    async fn embed(self, app: &Arc<App>) -> Result<Vec<Vec<Vec<f32>>>, ApiError> {
        let mut texts = hidden_states(app, self.prompts).await?;
        // Rows that are not pooled stay as they are.
        if app.options.pooling != Pooling::None {
            texts.iter_mut().flatten().for_each(|row| normalise(row, self.norm));
        }
        Ok(texts)
    }
}

/// The rows of each text.
async fn hidden_states(app: &Arc<App>, prompts: Vec<Vec<u32>>) -> Result<Vec<Vec<Vec<f32>>>, ApiError> {
    let width = app.engine.model().hidden;
    let mut texts = Vec::with_capacity(prompts.len());
    for prompt in prompts {
        let mut job = JobStream::submit(&app.scheduler, |sink| Job {
            embed: Some(app.options.pooling),
            ..Job::new(prompt, Params::default(), sink)
        })?;
        let rows = loop {
            match job.next().await {
                Some(Event::Embedding(rows)) => break rows,
                Some(Event::Failed(error)) => return Err(error.into()),
                Some(_) => {}
                None => return Err(EngineError::Stopped.into()),
            }
        };
        texts.push(rows.chunks_exact(width).map(<[f32]>::to_vec).collect());
    }
    Ok(texts)
}

/// Divides by a norm: -1 is none, 0 scales to 16-bit integers, 1 is the sum, 2 Euclid's, and so on.
fn normalise(row: &mut [f32], norm: i64) {
    let values = row.iter().map(|&value| f64::from(value).abs());
    let length = match norm {
        ..0 => return,
        0 => values.fold(0.0, f64::max) / 32760.0,
        1 => values.sum(),
        2 => values.map(|value| value * value).sum::<f64>().sqrt(),
        p => values.map(|value| value.powf(p as f64)).sum::<f64>().powf(1.0 / p as f64),
    };
    if length > 0.0 {
        row.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms() {
        let of = |norm| {
            let mut row = [3.0, -4.0];
            normalise(&mut row, norm);
            row
        };
        assert_eq!(of(-1), [3.0, -4.0]);
        assert_eq!(of(0), [24570.0, -32760.0]);
        assert_eq!(of(1), [3.0 / 7.0, -4.0 / 7.0]);
        assert_eq!(of(2), [0.6, -0.8]);
        let cubes: f32 = of(3).iter().map(|value| value.abs().powi(3)).sum();
        assert!((cubes - 1.0).abs() < 1e-5);
        let mut zero = [0.0; 2];
        normalise(&mut zero, 2);
        assert_eq!(zero, [0.0; 2]);
    }

    #[test]
    fn vectors_as_base64() {
        let value = entry(1, &[1.0, -2.5], true);
        let bytes = BASE64_STANDARD.decode(value["embedding"].as_str().unwrap()).unwrap();
        assert_eq!(bytes, [1.0_f32.to_le_bytes(), (-2.5_f32).to_le_bytes()].concat());
        assert_eq!(value["encoding_format"], "base64");
        assert_eq!(entry(0, &[0.5], false)["embedding"], json!([0.5]));
    }
}
