//! What a JSON schema says about the type of a value.

use serde_json::Value;

/// How many references are followed.
const MAX_DEPTH: usize = 16;

/// The types that a value may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds {
    /// Texts.
    pub(crate) string: bool,
    /// Numbers, whole or not.
    pub(crate) number: bool,
    /// True and false.
    pub(crate) boolean: bool,
    /// Null.
    pub(crate) null: bool,
    /// Objects.
    pub(crate) object: bool,
    /// Arrays.
    pub(crate) array: bool,
}

impl Kinds {
    /// Every type.
    pub(crate) const ANY: Kinds =
        Kinds { string: true, number: true, boolean: true, null: true, object: true, array: true };

    const NONE: Kinds =
        Kinds { string: false, number: false, boolean: false, null: false, object: false, array: false };

    /// The types that `schema` allows; references lead into `root`.
    pub(crate) fn of(schema: &Value, root: &Value) -> Kinds {
        Kinds::within(schema, root, MAX_DEPTH)
    }

    /// True for texts and nothing else.
    pub(crate) fn only_string(self) -> bool {
        self == Kinds { string: true, ..Kinds::NONE }
    }

    /// True where the type of a JSON value is allowed.
    pub(crate) fn allow(self, value: &Value) -> bool {
        self.and(Kinds::of_value(value)) != Kinds::NONE
    }

    fn of_value(value: &Value) -> Kinds {
        match value {
            Value::Null => Kinds { null: true, ..Kinds::NONE },
            Value::Bool(_) => Kinds { boolean: true, ..Kinds::NONE },
            Value::Number(_) => Kinds { number: true, ..Kinds::NONE },
            Value::String(_) => Kinds { string: true, ..Kinds::NONE },
            Value::Array(_) => Kinds { array: true, ..Kinds::NONE },
            Value::Object(_) => Kinds { object: true, ..Kinds::NONE },
        }
    }

    fn named(name: &str) -> Kinds {
        match name {
            "string" => Kinds { string: true, ..Kinds::NONE },
            "integer" | "number" => Kinds { number: true, ..Kinds::NONE },
            "boolean" => Kinds { boolean: true, ..Kinds::NONE },
            "null" => Kinds { null: true, ..Kinds::NONE },
            "object" => Kinds { object: true, ..Kinds::NONE },
            "array" => Kinds { array: true, ..Kinds::NONE },
            _ => Kinds::ANY,
        }
    }

    fn within(schema: &Value, root: &Value, depth: usize) -> Kinds {
        let Some(fields) = schema.as_object() else { return Kinds::ANY };
        let Some(depth) = depth.checked_sub(1) else { return Kinds::ANY };
        let mut kinds = Kinds::ANY;
        if let Some(target) = fields.get("$ref").and_then(Value::as_str).and_then(|at| resolve(at, root)) {
            kinds = kinds.and(Kinds::within(target, root, depth));
        }
        match fields.get("type") {
            Some(Value::String(name)) => kinds = kinds.and(Kinds::named(name)),
            Some(Value::Array(names)) => {
                let any = names.iter().filter_map(Value::as_str).map(Kinds::named);
                kinds = kinds.and(any.reduce(Kinds::or).unwrap_or(Kinds::ANY));
            }
            _ => {}
        }
        if let Some(value) = fields.get("const") {
            kinds = kinds.and(Kinds::of_value(value));
        }
        if let Some(values) = fields.get("enum").and_then(Value::as_array) {
            let any = values.iter().map(Kinds::of_value).reduce(Kinds::or);
            kinds = kinds.and(any.unwrap_or(Kinds::ANY));
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            let Some(parts) = fields.get(key).and_then(Value::as_array) else { continue };
            let parts = parts.iter().map(|part| Kinds::within(part, root, depth));
            let part = if key == "allOf" { parts.reduce(Kinds::and) } else { parts.reduce(Kinds::or) };
            kinds = kinds.and(part.unwrap_or(Kinds::ANY));
        }
        if kinds == Kinds::ANY {
            // Without a type, keywords of one type tell it.
            let has = |keys: &[&str]| keys.iter().any(|key| fields.contains_key(*key));
            match () {
                () if has(&["properties", "additionalProperties", "required"]) => {
                    kinds = Kinds::named("object")
                }
                () if has(&["items", "prefixItems", "minItems"]) => kinds = Kinds::named("array"),
                () if has(&["pattern", "minLength", "maxLength"]) => kinds = Kinds::named("string"),
                () => {}
            }
        }
        if fields.get("nullable") == Some(&Value::Bool(true)) {
            kinds.null = true;
        }
        if kinds == Kinds::NONE { Kinds::ANY } else { kinds }
    }

    fn or(self, other: Kinds) -> Kinds {
        Kinds {
            string: self.string || other.string,
            number: self.number || other.number,
            boolean: self.boolean || other.boolean,
            null: self.null || other.null,
            object: self.object || other.object,
            array: self.array || other.array,
        }
    }

    fn and(self, other: Kinds) -> Kinds {
        Kinds {
            string: self.string && other.string,
            number: self.number && other.number,
            boolean: self.boolean && other.boolean,
            null: self.null && other.null,
            object: self.object && other.object,
            array: self.array && other.array,
        }
    }
}

/// The texts that a schema lists, where it lists its values.
pub(crate) fn listed(schema: &Value, root: &Value) -> Option<Vec<String>> {
    let schema =
        schema.get("$ref").and_then(Value::as_str).and_then(|at| resolve(at, root)).unwrap_or(schema);
    let values = match schema.get("const") {
        Some(value) => std::slice::from_ref(value),
        None => schema.get("enum")?.as_array()?,
    };
    Some(values.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// The target of `#/a/b` in `root`.
pub(crate) fn resolve<'a>(reference: &str, root: &'a Value) -> Option<&'a Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// The schema of one parameter of a tool.
pub(crate) fn parameter<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    object(schema)?.get("properties")?.get(name)
}

/// The object that a schema of arguments describes, reached through references.
pub(crate) fn object(schema: &Value) -> Option<&Value> {
    let mut at = schema;
    for _ in 0..MAX_DEPTH {
        match at.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(reference, schema)) {
            Some(target) => at = target,
            None => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Kinds, listed};

    #[test]
    fn types_are_found_wherever_schemas_say_them() {
        let root = json!({"$defs": {"s": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}});
        let of = |schema| Kinds::of(&schema, &root);
        let kinds = |names: &[&str]| names.iter().map(|name| Kinds::named(name)).reduce(Kinds::or).unwrap();
        for (schema, wanted) in [
            (json!({"type": "string"}), kinds(&["string"])),
            (json!({"type": "integer"}), kinds(&["number"])),
            (json!({"type": ["string", "null"]}), kinds(&["string", "null"])),
            (json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}), kinds(&["number", "boolean"])),
            (json!({"oneOf": [{"type": "integer"}, {"$ref": "#/$defs/s"}]}), kinds(&["number", "string"])),
            (json!({"allOf": [{"type": ["integer", "string"]}, {"type": "string"}]}), kinds(&["string"])),
            (json!({"enum": ["a", "b"]}), kinds(&["string"])),
            (json!({"enum": ["a", 1, null]}), kinds(&["string", "number", "null"])),
            (json!({"const": true}), kinds(&["boolean"])),
            (json!({"$ref": "#/$defs/s"}), kinds(&["string"])),
            (json!({"type": "string", "nullable": true}), kinds(&["string", "null"])),
            (json!({"properties": {}}), kinds(&["object"])),
            (json!({"items": {}}), kinds(&["array"])),
            (json!({}), Kinds::ANY),
            (json!(true), Kinds::ANY),
            (json!({"type": "hiccup"}), Kinds::ANY),
            (json!({"type": 5}), Kinds::ANY),
            (json!({"$ref": "#/$defs/loop"}), Kinds::ANY),
            (json!({"$ref": "http://x/y"}), Kinds::ANY),
        ] {
            assert_eq!(of(schema.clone()), wanted, "{schema}");
        }
        assert_eq!(listed(&json!({"enum": ["a", 1]}), &root), Some(vec!["a".to_owned()]));
        assert_eq!(listed(&json!({"type": "string"}), &root), None);
    }
}
