//! JSON into the values of the template engine.

use minijinja::Value;
use serde_json::Value as Json;

use super::{dict::Dict, error::TemplateError, python::Exponential};

/// Levels of lists and objects in a request, the limit serde_json sets for parsed text.
const MAX_DEPTH: usize = 128;

/// Converts one value; `place` names the part of the request in the error.
pub(super) fn from_json(json: &Json, place: &'static str) -> Result<Value, TemplateError> {
    convert(json, place, MAX_DEPTH)
}

/// Converts the fields of an object in their order.
pub(super) fn object<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a Json)>,
    place: &'static str,
) -> Result<Value, TemplateError> {
    dict(fields, place, MAX_DEPTH - 1)
}

fn convert(json: &Json, place: &'static str, depth: usize) -> Result<Value, TemplateError> {
    let Some(below) = depth.checked_sub(1) else {
        return Err(TemplateError::RequestTooDeep { place, limit: MAX_DEPTH });
    };
    Ok(match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Exponential::value(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            let items = items.iter().map(|item| convert(item, place, below));
            Value::from(items.collect::<Result<Vec<Value>, TemplateError>>()?)
        }
        Json::Object(fields) => dict(fields.iter().map(|(key, value)| (key.as_str(), value)), place, below)?,
    })
}

fn dict<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a Json)>,
    place: &'static str,
    depth: usize,
) -> Result<Value, TemplateError> {
    let fields = fields.into_iter().map(|(key, value)| Ok((key.to_owned(), convert(value, place, depth)?)));
    Ok(Dict::value(fields.collect::<Result<_, TemplateError>>()?))
}
