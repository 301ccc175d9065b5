//! The JSON object of a request and its fields.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::http::Request;

/// The body as JSON of any kind. A lone surrogate, which is no character, becomes U+FFFD: a client that has one in its
/// history could never go on otherwise.
pub(crate) fn json(request: &Request) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(&request.body)
        .map_err(|error| ApiError::invalid(format!("the body is not UTF-8: {error}")))?;
    serde_json::from_str(text).or_else(|error| {
        let repaired = without_lone_surrogates(text).and_then(|text| serde_json::from_str(&text).ok());
        repaired.ok_or_else(|| ApiError::invalid(format!("the body is not JSON: {error}")))
    })
}

/// The body's JSON object. Fields that are null are left out; of fields with one name the last counts.
pub(crate) fn object(request: &Request) -> Result<Map<String, Value>, ApiError> {
    match json(request)? {
        Value::Object(mut map) => {
            map.retain(|_, value| !value.is_null());
            Ok(map)
        }
        other => Err(ApiError::invalid(format!("the body is {}, expected a JSON object", kind(&other)))),
    }
}

/// The text with every escaped surrogate that has no partner replaced; `None` where there is none.
fn without_lone_surrogates(text: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(text.len());
    let (mut at, mut kept) = (0, 0);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        let pair = |high: u16, low: Option<u16>| {
            (0xD800..0xDC00).contains(&high) && low.is_some_and(|low| (0xDC00..0xE000).contains(&low))
        };
        match unit(at) {
            Some(high) if pair(high, unit(at + 6)) => at += 12,
            Some(0xD800..0xE000) => {
                out.push_str(&text[kept..at]);
                out.push_str("\\ufffd");
                at += 6;
                kept = at;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    if kept == 0 {
        return None;
    }
    out.push_str(&text[kept..]);
    Some(out)
}

/// The name of a value's type, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// An error that names the field.
pub(crate) fn field_error(name: &str, message: impl std::fmt::Display) -> ApiError {
    ApiError::invalid(format!("Field '{name}': {message}"))
}

fn wrong_type(name: &str, expected: &str, value: &Value) -> ApiError {
    field_error(name, format_args!("type must be {expected}, but is {}", kind(value)))
}

/// Typed views of an object's fields. A field that is null is absent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// The field as it is.
    pub(crate) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// The first of several names that is present.
    pub(crate) fn first(self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.get(name).is_some())
    }

    /// A boolean.
    pub(crate) fn bool(self, name: &str) -> Result<Option<bool>, ApiError> {
        self.get(name)
            .map(|value| value.as_bool().ok_or_else(|| wrong_type(name, "a boolean", value)))
            .transpose()
    }

    /// A whole number; 2.0 is one.
    pub(crate) fn integer(self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let outside = || {
            field_error(
                name,
                format_args!("must be between {} and {}, but is {value}", range.start(), range.end()),
            )
        };
        let whole = match value {
            Value::Number(number) => number,
            _ => return Err(wrong_type(name, "a number", value)),
        };
        let whole = match (whole.as_i64(), whole.as_f64()) {
            (Some(whole), _) => whole,
            (None, Some(float)) if float.fract() != 0.0 => {
                return Err(field_error(name, format_args!("must be a whole number, but is {value}")));
            }
            // 2^53 and above are no exact whole numbers.
            (None, Some(float)) if float.abs() < 9_007_199_254_740_992.0 => float as i64,
            _ => return Err(outside()),
        };
        if range.contains(&whole) { Ok(Some(whole)) } else { Err(outside()) }
    }

    /// A count or size.
    pub(crate) fn count(self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, ApiError> {
        let limit = |bound: usize| i64::try_from(bound).unwrap_or(i64::MAX);
        let value = self.integer(name, limit(*range.start())..=limit(*range.end()))?;
        Ok(value.map(|value| usize::try_from(value).unwrap_or(*range.start())))
    }

    /// A number.
    pub(crate) fn number(self, name: &str) -> Result<Option<f64>, ApiError> {
        self.get(name)
            .map(|value| value.as_f64().ok_or_else(|| wrong_type(name, "a number", value)))
            .transpose()
    }

    /// A number as the engine holds it.
    pub(crate) fn float(self, name: &str) -> Result<Option<f32>, ApiError> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        let float = number as f32;
        if float.is_finite() {
            Ok(Some(float))
        } else {
            Err(field_error(name, format_args!("{number:e} is too large")))
        }
    }

    /// A string.
    pub(crate) fn string(self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.get(name)
            .map(|value| value.as_str().ok_or_else(|| wrong_type(name, "a string", value)))
            .transpose()
    }

    /// An array of strings; a string alone is one of them.
    pub(crate) fn strings(self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let list = match value {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(list) => list.iter().map(text).collect(),
            _ => None,
        };
        list.map(Some).ok_or_else(|| wrong_type(name, "a string or an array of strings", value))
    }
}

#[cfg(test)]
mod tests {
    use hyper::{HeaderMap, Method};
    use serde_json::json;

    use super::*;

    fn request(body: &str) -> Request {
        Request {
            method: Method::POST,
            path: String::new(),
            query: Default::default(),
            headers: HeaderMap::new(),
            body: bytes::Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    #[test]
    fn lone_surrogates_become_replacement_characters_and_pairs_stay() {
        let body = r#"{"a":"x\ud83dy","b":"\ud83e\udd8a","c":"\udd8a\ud83d\ud83e\udd8a","d":"\\ud83d"}"#;
        let map = object(&request(body)).unwrap();
        assert_eq!(map["a"], "x\u{fffd}y");
        assert_eq!(map["b"], "🦊");
        assert_eq!(map["c"], "\u{fffd}\u{fffd}🦊");
        assert_eq!(map["d"], "\\ud83d");
    }

    #[test]
    fn bodies_that_are_no_object_are_refused() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        for body in ["", "{", "[1]", "1", "\"\\ud83d", &deep] {
            assert!(object(&request(body)).is_err(), "{}", &body[..body.len().min(10)]);
        }
        let map = object(&request(r#"{"a":1,"b":null,"a":2}"#)).unwrap();
        assert_eq!(Value::Object(map), json!({"a": 2}));
    }

    #[test]
    fn fields_say_their_name() {
        let body = json!({"a": 2.0, "b": 2.5, "c": 1e300, "d": -1, "e": "x", "f": 18446744073709551615u64, "g": true});
        let map = body.as_object().unwrap();
        let fields = Fields(map);
        assert_eq!(fields.integer("a", 0..=9).unwrap(), Some(2));
        assert_eq!(fields.integer("z", 0..=9).unwrap(), None);
        for name in ["b", "c", "d", "e", "f", "g"] {
            let error = fields.integer(name, 0..=i64::MAX).unwrap_err();
            assert!(error.message.starts_with(&format!("Field '{name}': ")), "{}", error.message);
        }
        assert!(fields.float("c").is_err());
        assert_eq!(fields.strings("e").unwrap(), Some(vec!["x".to_owned()]));
        assert!(fields.strings("a").is_err());
    }
}
