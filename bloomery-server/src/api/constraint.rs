//! Grammars of requests and the constraints they become.

use std::sync::Arc;

use bloomery_core::constrain::{self, Constraint};
use serde_json::Value;

use super::prompt::off_thread;
use crate::app::App;
use crate::error::ApiError;

/// What a text has to look like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Grammar {
    /// llama.cpp's notation.
    Gbnf(String),
    /// A JSON schema.
    Schema(Value),
}

/// A constraint for each of `count` jobs, all of one grammar; empty without one.
pub(crate) async fn constraints(
    app: &Arc<App>,
    grammar: Option<&Grammar>,
    count: usize,
) -> Result<Vec<Option<Box<dyn Constraint>>>, ApiError> {
    let Some(grammar) = grammar.cloned() else { return Ok(Vec::new()) };
    let app = Arc::clone(app);
    off_thread(true, move || (0..count).map(|_| build(&app, &grammar).map(Some)).collect()).await
}

fn build(app: &App, grammar: &Grammar) -> Result<Box<dyn Constraint>, ApiError> {
    let engine = &app.engine;
    match grammar {
        Grammar::Gbnf(text) => engine
            .constraint(&constrain::Grammar::gbnf(text))
            .map_err(|error| ApiError::invalid(format!("Failed to initialize samplers: {error}"))),
        Grammar::Schema(schema) => engine
            .constraint(&constrain::Grammar::json_schema(schema))
            .map_err(|error| ApiError::invalid(format!("\"json_schema\": {error}"))),
    }
}
