//! One dialect of JSON schema: what has no meaning here is gone, what llama-server implies is said.
//!
//! * Without `type` the other keywords say what is meant.
//! * Objects with `properties` are closed unless they say otherwise, and so are arrays with `prefixItems`.
//! * Branches of `allOf`, and those beside properties, stay open: each describes only its part of an object.
//! * References lead to `#/$defs/r0`, `#/$defs/r1` and so on.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::keywords::{IMPLIED, KEYWORDS, TYPES, bound_integers, brief, count, format, insert};
use super::pointer;
use super::soften::fits_string;
use crate::constrain::GrammarError;

/// Schemas inside a schema, after which it is refused.
const MOST: usize = 10_000;
/// Properties of one object. The engine takes time with the square of their number, 0.3 s for these.
const PROPERTIES: usize = 1500;
/// Patterns and formats that are tried by themselves, 1 ms each.
const TRIALS: usize = 150;
/// A longer text does not fit any context, so a bound beyond is none.
const UNBOUNDED: u64 = 1_000_000;
/// Rewrites one schema.
pub(super) struct Normaliser<'a> {
    pub(super) root: &'a Value,
    lenient: bool,
    path: Vec<String>,
    /// Targets of references, each twice if it is also used as an open part.
    targets: Vec<(&'a Value, String, bool)>,
    schemas: usize,
    /// What was tried, and what came of it.
    tried: HashMap<String, Result<(), String>>,
}

impl<'a> Normaliser<'a> {
    pub(super) fn new(root: &'a Value, lenient: bool) -> Normaliser<'a> {
        Normaliser { root, lenient, path: Vec::new(), targets: Vec::new(), schemas: 0, tried: HashMap::new() }
    }

    pub(super) fn run(mut self) -> Result<Value, GrammarError> {
        let mut root = self.schema(self.root, false)?;
        let mut definitions = Map::new();
        while let Some((target, reference, open)) = self.targets.get(definitions.len()).cloned() {
            self.path = vec![reference[1..].trim_start_matches('/').to_owned()];
            let name = format!("r{}", definitions.len());
            let definition = self.child(target, open)?;
            definitions.insert(name, definition);
        }
        if let Some(map) = root.as_object_mut().filter(|_| !definitions.is_empty()) {
            map.insert("$defs".to_owned(), Value::Object(definitions));
        }
        if root == Value::Bool(false) {
            return Err(self.wrong("no value fits `false`"));
        }
        Ok(root)
    }

    /// A schema inside; in a lenient reading what is wrong with it stays inside.
    pub(super) fn child(&mut self, schema: &'a Value, open: bool) -> Result<Value, GrammarError> {
        let depth = self.path.len();
        let child = self.schema(schema, open);
        self.path.truncate(depth);
        match child {
            Err(error) if !self.lenient || matches!(error, GrammarError::TooLarge { .. }) => Err(error),
            child => Ok(child.unwrap_or_else(|_| json!({}))),
        }
    }

    fn schema(&mut self, schema: &'a Value, open: bool) -> Result<Value, GrammarError> {
        self.schemas += 1;
        if self.schemas > MOST {
            return Err(GrammarError::TooLarge {
                what: "schemas inside the schema",
                size: self.schemas,
                limit: MOST,
            });
        }
        match schema {
            Value::Bool(_) => Ok(schema.clone()),
            Value::Object(map) => self.object(map, open),
            other => Err(self.wrong(&format!("a schema is an object, true or false, not {}", brief(other)))),
        }
    }

    fn object(&mut self, map: &'a Map<String, Value>, open: bool) -> Result<Value, GrammarError> {
        if let Some(merged) = self.merged(map, open)? {
            return Ok(merged);
        }
        let has = |key: &str| map.contains_key(key);
        let branching = ["allOf", "anyOf", "oneOf", "$ref"].iter().filter(|key| has(key)).count();
        let own = ["properties", "patternProperties", "additionalProperties"].iter().any(|key| has(key));
        let parts_open = open || own || branching > 1;
        let mut out = Map::new();
        if let Some(types) = self.types(map)? {
            out.insert("type".to_owned(), types);
        }
        for (key, value) in map.iter().filter(|(key, _)| KEYWORDS.contains(&key.as_str())) {
            self.path.push(pointer::escaped(key));
            let kept = self.keyword(key, value, parts_open, map);
            self.path.pop();
            match kept {
                Ok(Some((key, value))) => insert(&mut out, key, value),
                Ok(None) => {}
                Err(error) if !self.lenient || matches!(error, GrammarError::TooLarge { .. }) => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        if !open && branching == 0 && out.contains_key("properties") && !has("patternProperties") {
            out.entry("additionalProperties").or_insert(Value::Bool(false));
        }
        self.close_array(&mut out);
        bound_integers(&mut out);
        if out.get("type") == Some(&json!("string")) {
            self.check_string(&mut out)?;
        }
        Ok(Value::Object(out))
    }

    /// What becomes of a keyword, under which name.
    fn keyword(
        &mut self,
        key: &str,
        value: &'a Value,
        open: bool,
        siblings: &Map<String, Value>,
    ) -> Result<Option<(&'static str, Value)>, GrammarError> {
        let name = KEYWORDS.into_iter().find(|known| *known == key).unwrap_or_default();
        let kept = match name {
            "type" => return Ok(None),
            "const" => value.clone(),
            "enum" => match value.as_array() {
                Some(values) if !values.is_empty() => value.clone(),
                _ => return Err(self.wrong("a list of at least one value is expected")),
            },
            "allOf" => self.list(value, open || value.as_array().is_some_and(|list| list.len() > 1))?,
            "anyOf" => self.list(value, open)?,
            // A grammar that chooses one branch fits one of them; that it fits no other cannot be said.
            "oneOf" => return self.list(value, open).map(|list| Some(("anyOf", list))),
            "$ref" => self.reference(value, open)?,
            "properties" | "patternProperties" => self.properties(value)?,
            "items" if value.is_array() => {
                return self.list(value, false).map(|list| Some(("prefixItems", list)));
            }
            // Only beside a list of items, whose rest it describes.
            "additionalItems" => {
                let rest = siblings.get("items").is_some_and(Value::is_array);
                return Ok(if rest { Some(("items", self.child(value, false)?)) } else { None });
            }
            "prefixItems" => self.list(value, false)?,
            "items" | "additionalProperties" => self.child(value, false)?,
            // Drafts before 4 had a boolean in the property itself.
            "required" => match value.as_array() {
                Some(names) => names.iter().filter(|name| name.is_string()).cloned().collect(),
                None => return Ok(None),
            },
            "pattern" => value.as_str().map(Value::from).ok_or_else(|| self.wrong("a text is expected"))?,
            "format" => match format(value) {
                Some(format) => Value::from(format),
                None => return Ok(None),
            },
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => value.clone(),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                if !value.is_number() {
                    return Err(self.wrong(&format!("a number is expected, not {}", brief(value))));
                }
                value.clone()
            }
            _ => match count(value).ok_or_else(|| self.wrong("a count is expected"))? {
                more if more > UNBOUNDED && name.starts_with("max") => return Ok(None),
                more if more > UNBOUNDED => return Err(self.wrong("no text is that long")),
                count => Value::from(count),
            },
        };
        Ok(Some((name, kept)))
    }

    fn list(&mut self, value: &'a Value, open: bool) -> Result<Value, GrammarError> {
        let Some(schemas) = value.as_array() else {
            return Err(self.wrong(&format!("a list of schemas is expected, not {}", brief(value))));
        };
        let mut list = Vec::with_capacity(schemas.len());
        for (index, schema) in schemas.iter().enumerate() {
            self.path.push(index.to_string());
            list.push(self.child(schema, open)?);
            self.path.pop();
        }
        Ok(Value::Array(list))
    }

    fn properties(&mut self, value: &'a Value) -> Result<Value, GrammarError> {
        let Some(properties) = value.as_object() else {
            return Err(self.wrong(&format!("an object of schemas is expected, not {}", brief(value))));
        };
        self.bounded(properties.len())?;
        let mut out = Map::new();
        for (name, schema) in properties {
            self.path.push(pointer::escaped(name));
            let schema = self.child(schema, false)?;
            out.insert(name.clone(), schema);
            self.path.pop();
        }
        Ok(Value::Object(out))
    }

    pub(super) fn bounded(&self, size: usize) -> Result<(), GrammarError> {
        match size {
            size if size > PROPERTIES => {
                Err(GrammarError::TooLarge { what: "properties of one object", size, limit: PROPERTIES })
            }
            _ => Ok(()),
        }
    }

    fn reference(&mut self, value: &'a Value, open: bool) -> Result<Value, GrammarError> {
        let reference = value.as_str().ok_or_else(|| self.wrong("a text is expected"))?;
        let target = pointer::resolve(self.root, reference)
            .ok_or_else(|| GrammarError::Reference { path: self.place(), reference: reference.to_owned() })?;
        let known = self
            .targets
            .iter()
            .position(|(known, _, as_open)| std::ptr::eq(*known, target) && *as_open == open);
        let index = known.unwrap_or_else(|| {
            self.targets.push((target, reference.to_owned(), open));
            self.targets.len() - 1
        });
        Ok(Value::from(format!("#/$defs/r{index}")))
    }

    fn types(&self, map: &Map<String, Value>) -> Result<Option<Value>, GrammarError> {
        let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
        match map.get("type") {
            Some(types) if known(types) => return Ok(Some(types.clone())),
            Some(Value::Array(types)) if !types.is_empty() && types.iter().all(known) => {
                return Ok(Some(Value::from(types.clone())));
            }
            Some(Value::Array(types)) if self.lenient && types.iter().any(known) => {
                return Ok(Some(types.iter().filter(|value| known(value)).cloned().collect()));
            }
            Some(types) if !self.lenient => {
                let wrong = match types {
                    Value::Array(types) => {
                        types.iter().find(|value| !known(value)).map_or("[]".into(), brief)
                    }
                    other => brief(other),
                };
                return Err(self.wrong(&format!("type {wrong} is none of {}", TYPES.join(", "))));
            }
            _ => {}
        }
        if ["const", "enum", "allOf", "anyOf", "oneOf", "$ref"].iter().any(|key| map.contains_key(*key)) {
            return Ok(None);
        }
        let implies = |(_, keys): &&(&str, &[&str])| {
            keys.iter().any(|key| match (*key, map.get(*key)) {
                (_, None) => false,
                ("additionalProperties", Some(value)) => *value != Value::Bool(true),
                ("required", Some(value)) => value.is_array(),
                ("format", Some(value)) => format(value).is_some(),
                _ => true,
            })
        };
        Ok(IMPLIED.iter().find(implies).map(|(name, _)| Value::from(*name)))
    }

    /// A tuple has all its items and no more, unless it says otherwise.
    fn close_array(&self, out: &mut Map<String, Value>) {
        let Some(length) = out.get("prefixItems").and_then(Value::as_array).map(Vec::len) else { return };
        if !out.contains_key("minItems") && !out.contains_key("items") {
            let most = out.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
            out.insert("minItems".to_owned(), Value::from(most.min(length as u64)));
        }
        out.entry("items").or_insert(Value::Bool(false));
    }

    /// Tries what a text has to look like by itself: messages name the place, and a lenient reading drops it.
    fn check_string(&mut self, out: &mut Map<String, Value>) -> Result<(), GrammarError> {
        if !["pattern", "format"].iter().any(|key| out.contains_key(*key)) {
            return Ok(());
        }
        let text = Value::Object(out.clone()).to_string();
        let may_try = self.tried.len() < TRIALS || self.tried.contains_key(&text);
        let fits = match may_try {
            true => self.tried.entry(text).or_insert_with(|| fits_string(out)).clone(),
            // The whole schema is compiled in any case.
            false if !self.lenient => Ok(()),
            false => Err("there are too many patterns".to_owned()),
        };
        match fits {
            Err(_) if self.lenient => {
                out.retain(|key, _| !["pattern", "format", "minLength", "maxLength"].contains(&key.as_str()));
                Ok(())
            }
            fits => fits.map_err(|message| self.wrong(&message)),
        }
    }

    fn place(&self) -> String {
        self.path.iter().fold("#".to_owned(), |place, key| place + "/" + key)
    }

    fn wrong(&self, message: &str) -> GrammarError {
        GrammarError::Schema { path: self.place(), message: message.to_owned() }
    }
}
