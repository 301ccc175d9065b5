//! The keywords of JSON schema that mean something here.

use serde_json::{Map, Value, json};

/// The names of types.
pub(super) const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// Keywords that are kept; every other is an annotation, or cannot be said in a grammar.
pub(super) const KEYWORDS: [&str; 27] = [
    "type",
    "const",
    "enum",
    "allOf",
    "anyOf",
    "oneOf",
    "$ref",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Keywords that a type follows from, the first one first.
pub(super) const IMPLIED: [(&str, &[&str]); 4] = [
    ("object", &["properties", "patternProperties", "additionalProperties", "required"]),
    ("array", &["items", "prefixItems", "minItems", "maxItems"]),
    ("string", &["pattern", "format", "minLength", "maxLength"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

const FORMATS: [&str; 10] =
    ["date", "time", "date-time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri"];

/// Integers without bounds end here, near what 64 bits hold: a model does not write digits for ever.
const INTEGERS: i64 = 9_000_000_000_000_000_000;

/// Whether a schema says anything about values.
pub(super) fn constrains(map: &Map<String, Value>) -> bool {
    map.keys().any(|key| KEYWORDS.contains(&key.as_str()))
}

/// Adds a keyword; a second list of alternatives has to hold as well.
pub(super) fn insert(out: &mut Map<String, Value>, key: &str, value: Value) {
    match (key, out.contains_key(key)) {
        ("anyOf", true) => {
            let all = out.entry("allOf").or_insert_with(|| json!([]));
            if let Some(all) = all.as_array_mut() {
                all.push(json!({"anyOf": value}));
            }
        }
        ("allOf", true) => {
            if let (Some(all), Value::Array(more)) = (out[key].as_array_mut(), value) {
                all.extend(more);
            }
        }
        _ => {
            out.insert(key.to_owned(), value);
        }
    }
}

/// Bounds that an integer has if nothing else is said.
pub(super) fn bound_integers(out: &mut Map<String, Value>) {
    let types = out.get("type").cloned().unwrap_or_default();
    let has =
        |name: &str| types == name || types.as_array().is_some_and(|list| list.iter().any(|it| it == name));
    if !has("integer") || has("number") || out.contains_key("multipleOf") {
        return;
    }
    for (bound, other, value) in
        [("minimum", "exclusiveMinimum", -INTEGERS), ("maximum", "exclusiveMaximum", INTEGERS)]
    {
        if !out.contains_key(other) {
            out.entry(bound).or_insert(Value::from(value));
        }
    }
}

/// A format that is known, by the name that it is known by.
pub(super) fn format(value: &Value) -> Option<&'static str> {
    let name = value.as_str()?;
    let uuid = matches!(name, "uuid1" | "uuid2" | "uuid3" | "uuid4" | "uuid5");
    FORMATS.into_iter().find(|known| *known == name || (uuid && *known == "uuid"))
}

/// A count, also if it is written as `3.0`.
pub(super) fn count(value: &Value) -> Option<u64> {
    let whole =
        |number: f64| (number.fract() == 0.0 && (0.0..1e18).contains(&number)).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

/// A value for a message.
pub(super) fn brief(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => crate::constrain::compiler::first_line(&other.to_string()),
    }
}
