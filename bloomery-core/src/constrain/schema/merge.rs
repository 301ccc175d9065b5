//! `allOf` of plain objects.

use serde_json::{Map, Value, json};

use super::keywords::KEYWORDS;
use super::normalise::Normaliser;
use super::pointer;
use crate::constrain::GrammarError;

impl<'a> Normaliser<'a> {
    /// `allOf` of plain objects as the one object that it describes, so that it can be closed.
    pub(super) fn merged(
        &mut self,
        map: &'a Map<String, Value>,
        open: bool,
    ) -> Result<Option<Value>, GrammarError> {
        let mut parts = Vec::new();
        if open || !map.contains_key("allOf") || !self.plain_parts(map, &mut parts, 0) {
            return Ok(None);
        }
        let mut properties: Map<String, Value> = Map::new();
        let mut required: Vec<Value> = Vec::new();
        for part in parts {
            for (name, schema) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let schema = self.child(schema, false)?;
                let both = match properties.shift_remove(name) {
                    Some(other) if other != schema => json!({"allOf": [other, schema]}),
                    _ => schema,
                };
                properties.insert(name.clone(), both);
            }
            required.extend(part.get("required").and_then(Value::as_array).into_iter().flatten().cloned());
        }
        required.retain(Value::is_string);
        self.bounded(properties.len())?;
        Ok(Some(json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        })))
    }

    /// The objects that `map` is all of, if they are nothing but properties.
    fn plain_parts(
        &self,
        map: &'a Map<String, Value>,
        parts: &mut Vec<&'a Map<String, Value>>,
        depth: usize,
    ) -> bool {
        const PLAIN: [&str; 5] = ["type", "properties", "required", "allOf", "$ref"];
        let other = |key: &str| KEYWORDS.contains(&key) && !PLAIN.contains(&key);
        if depth > 8 || parts.len() > 64 || map.keys().any(|key| other(key)) {
            return false;
        }
        if map.get("type").is_some_and(|types| types != "object") {
            return false;
        }
        if let Some(reference) = map.get("$ref") {
            let target = reference.as_str().and_then(|text| pointer::resolve(self.root, text));
            let Some(target) = target.and_then(Value::as_object) else { return false };
            if !self.plain_parts(target, parts, depth + 1) {
                return false;
            }
        }
        if map.contains_key("properties") || map.contains_key("required") {
            parts.push(map);
        } else if !map.contains_key("allOf") && !map.contains_key("$ref") {
            return false;
        }
        let list = map.get("allOf").and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .all(|part| part.as_object().is_some_and(|part| self.plain_parts(part, parts, depth + 1)))
    }
}
