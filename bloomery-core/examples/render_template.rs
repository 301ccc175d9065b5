//! Renders a chat template for a request: `render_template TEMPLATE REQUEST.json BOS EOS`.
//!
//! With `--batch FILE` it reads one JSON object a line (`template`, `request`, `bos`, `eos`) and answers one JSON
//! object a line, `ok` or `error`.
#![expect(clippy::print_stdout, reason = "it is a command")]

use std::collections::HashMap;
use std::error::Error;
use std::fs;

use bloomery_core::chat::{ChatRequest, ChatTemplate, TemplateError};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--batch", path] => batch(path),
        [template, request, rest @ ..] => {
            let text = |at: usize| rest.get(at).copied().unwrap_or_default();
            let template = ChatTemplate::new(&fs::read_to_string(template)?, text(0), text(1))?;
            let request: Value = serde_json::from_str(&fs::read_to_string(request)?)?;
            print!("{}", template.render(&read(&request)?)?);
            Ok(())
        }
        _ => Err("usage: render_template TEMPLATE REQUEST.json [BOS [EOS]]".into()),
    }
}

fn batch(path: &str) -> Result<(), Box<dyn Error>> {
    let mut compiled: HashMap<String, Result<ChatTemplate, TemplateError>> = HashMap::new();
    for line in fs::read_to_string(path)?.lines() {
        let case: Value = serde_json::from_str(line)?;
        let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
        let template = compiled
            .entry(format!("{}\0{}\0{}", text("bos"), text("eos"), text("template")))
            .or_insert_with(|| ChatTemplate::new(&text("template"), &text("bos"), &text("eos")));
        let result = match template {
            Ok(template) => template.render(&read(&case["request"])?),
            Err(error) => Err(error.clone()),
        };
        let answer = match result {
            Ok(text) => json!({ "ok": text }),
            Err(TemplateError::Raised { message, .. }) => json!({ "error": message, "raised": true }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        println!("{answer}");
    }
    Ok(())
}

fn read(json: &Value) -> Result<ChatRequest, Box<dyn Error>> {
    let list = |key: &str| json[key].as_array().cloned().unwrap_or_default();
    let now = json["now"].as_str().map(str::parse).transpose()?;
    Ok(ChatRequest {
        messages: list("messages"),
        tools: list("tools"),
        add_generation_prompt: json["add_generation_prompt"].as_bool().unwrap_or(false),
        kwargs: json["kwargs"].as_object().cloned().unwrap_or_default(),
        now,
        ..ChatRequest::default()
    })
}
