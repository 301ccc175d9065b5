//! Schemas that others wrote: what cannot be compiled is replaced by something wider.

use std::panic::{AssertUnwindSafe, catch_unwind};

use llguidance::GrammarBuilder;
use serde_json::{Map, Value, json};

use super::options;
use crate::constrain::compiler::{first_line, limits};

/// Bytes of schemas that are compiled to look for the cause; beyond them the whole schema gives way. About 0.3 s.
const EFFORT: usize = 200_000;

/// A schema that can be compiled, and that `schema` is a part of.
pub(super) fn soften(mut schema: Value) -> Value {
    if compiles(&schema).is_ok() {
        return schema;
    }
    let mut effort = EFFORT;
    let definitions = schema.as_object_mut().and_then(|map| map.shift_remove("$defs"));
    let mut definitions = definitions.unwrap_or_else(|| json!({}));
    let names: Vec<String> = definitions.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    for name in names {
        let relaxed = relax(definitions[&name].clone(), &definitions, &mut effort);
        definitions[&name] = relaxed;
    }
    let mut schema = relax(schema, &definitions, &mut effort);
    if let Some(map) = schema.as_object_mut() {
        map.insert("$defs".to_owned(), definitions);
    }
    if compiles(&schema).is_ok() { schema } else { json!({"type": "object"}) }
}

/// Widens the parts that are to blame, from the leaves up.
fn relax(mut schema: Value, definitions: &Value, effort: &mut usize) -> Value {
    let whole = with_definitions(&schema, definitions);
    match effort.checked_sub(whole.to_string().len()) {
        Some(left) => *effort = left,
        None => return json!({}),
    }
    if compiles(&whole).is_ok() {
        return schema;
    }
    let Some(map) = schema.as_object_mut() else { return json!({}) };
    for (key, value) in map.iter_mut() {
        match (key.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(parts)) => {
                parts.values_mut().for_each(|part| *part = relax(part.take(), definitions, effort));
            }
            ("allOf" | "anyOf" | "prefixItems", Value::Array(parts)) => {
                parts.iter_mut().for_each(|part| *part = relax(part.take(), definitions, effort));
            }
            ("items" | "additionalProperties", part @ Value::Object(_)) => {
                *part = relax(part.take(), definitions, effort);
            }
            _ => {}
        }
    }
    if compiles(&with_definitions(&schema, definitions)).is_ok() {
        return schema;
    }
    match schema.get("type") {
        Some(types) => json!({"type": types}),
        None => json!({}),
    }
}

fn with_definitions(schema: &Value, definitions: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut() {
        map.insert("$defs".to_owned(), definitions.clone());
    }
    schema
}

/// Whether the string keywords of a schema can be compiled, and if not, why.
pub(super) fn fits_string(schema: &Map<String, Value>) -> Result<(), String> {
    compiles(&Value::Object(schema.clone()))
}

fn compiles(schema: &Value) -> Result<(), String> {
    let compile = || {
        let builder = GrammarBuilder::new(None, limits());
        let built = options().json_to_llg(builder, schema.clone()).map_err(|error| error.to_string())?;
        built.builder.check_limits().map_err(|error| error.to_string())
    };
    let result = catch_unwind(AssertUnwindSafe(compile));
    result.unwrap_or_else(|_| Err("it cannot be compiled".to_owned())).map_err(|error| first_line(&error))
}
