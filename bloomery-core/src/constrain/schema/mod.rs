//! From JSON schemas to what the grammar engine takes.

mod keywords;
mod merge;
mod normalise;
mod pointer;
mod soften;

use llguidance::JsonCompileOptions;
use llguidance::api::TopLevelGrammar;
use serde_json::{Map, Value, json};

use super::GrammarError;
use normalise::Normaliser;

/// Levels of a schema. Parsed JSON has at most 128, and a model's values need fewer.
const DEEPEST: usize = 100;

/// Space between the parts of a value, llama-server's: it ends, so that no model writes spaces for ever.
const SPACE: &str = r"\x20|\x0A{1,2}[\x20\x09]{0,20}";

/// The grammar of a schema that is a whole description.
pub(super) fn compile(text: &str, lenient: bool) -> Result<TopLevelGrammar, GrammarError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| GrammarError::Unusable { kind: "schema", message: error.to_string() })?;
    let bare = value.as_object().is_some_and(|map| !keywords::constrains(map));
    let mut schema = if bare { json!({}) } else { prepare(&value, lenient)? };
    if schema == json!({}) {
        schema = json!({"type": "object"});
    }
    Ok(TopLevelGrammar::from_json_schema(with_options(schema)))
}

/// The grammar of a schema that was not even written out.
pub(super) fn too_deep(lenient: bool) -> Result<TopLevelGrammar, GrammarError> {
    if lenient {
        return Ok(TopLevelGrammar::from_json_schema(with_options(json!({"type": "object"}))));
    }
    Err(GrammarError::TooLarge { what: "levels of the schema", size: DEEPEST + 1, limit: DEEPEST })
}

/// A schema as part of a grammar, with the options of this module in it.
pub(super) fn embedded(schema: &Value) -> Result<Value, GrammarError> {
    let deep = is_too_deep(schema);
    Ok(with_options(if deep { json!({}) } else { prepare(schema, true)? }))
}

/// Whether a schema has more levels than are compiled. Needs no stack.
pub(super) fn is_too_deep(schema: &Value) -> bool {
    let mut open = vec![(schema, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > DEEPEST {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    false
}

fn prepare(schema: &Value, lenient: bool) -> Result<Value, GrammarError> {
    let normal = Normaliser::new(schema, lenient).run();
    if lenient {
        return Ok(normal.map_or_else(|_| json!({"type": "object"}), soften::soften));
    }
    normal
}

fn options() -> JsonCompileOptions {
    // Lenient here is about keywords and formats without a meaning, and about `oneOf`, which is `anyOf` for a grammar.
    JsonCompileOptions {
        whitespace_pattern: Some(SPACE.to_owned()),
        lenient: true,
        ..JsonCompileOptions::default()
    }
}

fn with_options(schema: Value) -> Value {
    let mut map = match schema {
        Value::Object(map) => map,
        Value::Bool(true) => Map::new(),
        other => Map::from_iter([("allOf".to_owned(), Value::Array(vec![other]))]),
    };
    // A schema must not set options of the grammar engine by its own key.
    map.remove("x-guidance");
    let mut schema = Value::Object(map);
    options().apply_to(&mut schema);
    schema
}
