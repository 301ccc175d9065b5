//! `response_format`, `json_schema` and `grammar` of a chat request.

use serde_json::{Map, Value, json};

use crate::api::constraint::Grammar;
use crate::api::fields::{field_error, kind};
use crate::error::ApiError;

/// The schema that the answer has to follow. A grammar is left to the fields that all routes share.
pub(super) fn read(body: &Map<String, Value>) -> Result<Option<Grammar>, ApiError> {
    let mut schema = body.get("json_schema").cloned();
    let grammar = body.get("grammar").and_then(Value::as_str).unwrap_or_default();
    if schema.is_some() && !grammar.is_empty() {
        return Err(ApiError::invalid("Cannot use both json_schema and grammar"));
    }
    match body.get("response_format") {
        None => {}
        Some(Value::Object(format)) => match format.get("type").and_then(Value::as_str) {
            Some("json_object") => {
                let own = format.get("schema").filter(|schema| !schema.is_null());
                schema = own.cloned().or(schema).or_else(|| Some(json!({})));
            }
            Some("json_schema") => {
                let own = format.get("json_schema").map(|wrapper| &wrapper["schema"]);
                let own = own.or_else(|| format.get("schema")).filter(|schema| !schema.is_null());
                schema = Some(own.cloned().unwrap_or_else(|| json!({})));
            }
            None | Some("" | "text") => {}
            Some(other) => {
                return Err(ApiError::invalid(format!(
                    "response_format type must be one of \"text\", \"json_object\" and \"json_schema\", but got: {other}"
                )));
            }
        },
        Some(other) => {
            return Err(field_error(
                "response_format",
                format_args!("must be an object, but is {}", kind(other)),
            ));
        }
    }
    schema.map(checked).transpose()
}

/// A schema that says nothing means any object.
fn checked(schema: Value) -> Result<Grammar, ApiError> {
    match schema {
        Value::Object(fields) if fields.is_empty() => Ok(Grammar::Schema(json!({ "type": "object" }))),
        Value::Object(_) | Value::Bool(_) => Ok(Grammar::Schema(schema)),
        other => Err(ApiError::invalid(format!(
            "\"json_schema\": a schema must be an object, but is {}",
            kind(&other)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::read;
    use crate::api::constraint::Grammar;

    fn schema(body: Value) -> Result<Option<Value>, String> {
        let read = read(body.as_object().unwrap()).map_err(|error| error.message)?;
        Ok(read.map(|grammar| match grammar {
            Grammar::Schema(schema) => schema,
            other => panic!("{other:?}"),
        }))
    }

    #[test]
    fn formats_become_schemas() {
        let object = json!({"type": "object"});
        let fortytwo = json!({"const": "42"});
        for (body, expected) in [
            (json!({}), None),
            (json!({"grammar": "root ::= \"a\""}), None),
            (json!({"response_format": {"type": "text"}}), None),
            (json!({"response_format": {"type": "json_object"}}), Some(&object)),
            (json!({"response_format": {"type": "json_object", "schema": fortytwo}}), Some(&fortytwo)),
            (json!({"response_format": {"type": "json_object"}, "json_schema": fortytwo}), Some(&fortytwo)),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"schema": fortytwo}}}),
                Some(&fortytwo),
            ),
            (json!({"json_schema": {}}), Some(&object)),
        ] {
            assert_eq!(schema(body.clone()).unwrap().as_ref(), expected, "{body}");
        }
    }

    #[test]
    fn formats_that_are_none_are_refused() {
        for body in [
            json!({"response_format": {"type": "sound"}}),
            json!({"response_format": {"type": "json_object", "schema": 123}}),
            json!({"response_format": "json"}),
            json!({"json_schema": "x"}),
            json!({"json_schema": {}, "grammar": "root ::= \"a\""}),
        ] {
            assert!(schema(body.clone()).is_err(), "{body}");
        }
    }
}
