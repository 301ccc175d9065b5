//! JSON schemas: what fits them, what is refused, and what is softened.

use bloomery_core::constrain::Grammar;
use serde_json::{Value, json};

use crate::support::{check, refusal};

fn schema(schema: Value) -> Grammar {
    Grammar::json_schema(&schema)
}

fn lenient(schema: Value) -> Grammar {
    Grammar::lenient(&schema)
}

#[test]
fn types() {
    check(
        &schema(json!({"type": "string"})),
        &["\"a\"", "\"\"", "\"\\n\\u001f\""],
        &["a", "1", "\"\n\"", " \"a\""],
    );
    check(
        &schema(json!({"type": "integer"})),
        &["0", "-12", "9000000000000000000"],
        &["1.0", "01", "9000000000000000001"],
    );
    check(&schema(json!({"type": "number"})), &["0", "-12.5e-3", "1E9"], &["1.", ".5", "+1", "NaN"]);
    check(&schema(json!({"type": ["boolean", "null"]})), &["true", "false", "null"], &["1", "\"true\""]);
    check(&schema(json!({"type": "array"})), &["[]", "[1, [null], {}]"], &["{}", "[1,]"]);
    check(&schema(json!({})), &["{}", "{\"a\":[1]}"], &["1", "[]", "null"]);
    check(&schema(json!({"title": "anything"})), &["{}"], &["1"]);
    check(&schema(json!(true)), &["1", "{}", "\"a\""], &["", "x"]);
    check(&Grammar::json_object(), &["{}", "{\"a\": 1}"], &["[]", "null"]);
}

#[test]
fn objects_are_closed_unless_they_say_so() {
    let properties = json!({"a": {"type": "integer"}, "b": {"type": "boolean"}});
    let closed = json!({"type": "object", "properties": properties, "required": ["a"]});
    check(
        &schema(closed),
        &["{\"a\":1}", "{\"a\": 1, \"b\": true}"],
        &["{}", "{\"b\":true}", "{\"a\":1,\"c\":2}", "{\"a\":\"1\"}"],
    );
    let open = json!({"properties": properties, "additionalProperties": {"type": "null"}});
    check(
        &schema(open),
        &["{}", "{\"a\":1,\"c\":null}", "{\"c\":null}"],
        &["{\"c\":1}", "{\"a\":null}", "1"],
    );
    check(&schema(json!({"type": "object", "properties": {}})), &["{}"], &["{\"a\":1}"]);
    check(&schema(json!({"type": "object"})), &["{}", "{\"a\":1}"], &["[]"]);
    let map = json!({"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": false});
    check(&schema(map), &["{}", "{\"x_a\":1}"], &["{\"y\":1}", "{\"x_a\":\"1\"}"]);
}

#[test]
fn parts_of_all_of_are_one_object() {
    let parts = json!({
        "allOf": [{"$ref": "#/$defs/named"}, {"properties": {"age": {"type": "integer"}}, "required": ["age"]}],
        "$defs": {"named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    });
    check(
        &schema(parts),
        &["{\"name\":\"a\",\"age\":1}"],
        &["{\"name\":\"a\"}", "{\"age\":1}", "{\"name\":\"a\",\"age\":1,\"more\":1}"],
    );
    let either = json!({
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"required": ["b"]}],
    });
    check(
        &schema(either),
        &["{\"a\":1}", "{\"kind\":\"x\",\"a\":1}", "{\"b\":null}"],
        &["{}", "{\"kind\":1,\"a\":1}"],
    );
}

#[test]
fn arrays() {
    let bounded = json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3});
    check(&schema(bounded), &["[1]", "[1, 2,3]"], &["[]", "[1,2,3,4]", "[\"a\"]"]);
    let tuple = json!({"prefixItems": [{"type": "integer"}, {"type": "string"}]});
    check(&schema(tuple), &["[1,\"a\"]"], &["[1]", "[1,\"a\",2]", "[]"]);
    let old = json!({"items": [{"type": "integer"}], "additionalItems": {"type": "string"}});
    check(&schema(old), &["[1]", "[1,\"a\",\"b\"]"], &["[1,2]", "[\"a\"]"]);
}

#[test]
fn values_and_choices() {
    check(&schema(json!({"const": "foooooo"})), &["\"foooooo\""], &["foooooo", "\"foo\""]);
    check(&schema(json!({"const": "42"})), &["\"42\""], &["42"]);
    check(&schema(json!({"const": {"a": [1, null]}})), &["{\"a\":[1,null]}"], &["{}", "{\"a\":[1]}"]);
    check(
        &schema(json!({"enum": ["red", 5, null, "é\""]})),
        &["\"red\"", "5", "null", "\"é\\\"\""],
        &["\"blue\"", "6"],
    );
    check(&schema(json!({"type": "string", "enum": ["a", "b"]})), &["\"a\""], &["\"c\"", "a"]);
    check(&schema(json!({"oneOf": [{"type": "integer"}, {"type": "number"}]})), &["1", "1.5"], &["\"1\""]);
    check(
        &schema(json!({"anyOf": [{"type": "integer"}, {"enum": ["none"]}]})),
        &["1", "\"none\""],
        &["\"some\""],
    );
}

#[test]
fn references() {
    let list = json!({
        "$ref": "#/definitions/node~1x",
        "definitions": {"node/x": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/definitions/node~1x"}, {"type": "null"}]}},
            "required": ["value", "next"],
        }},
    });
    check(
        &schema(list),
        &["{\"value\":1,\"next\":null}", "{\"value\":1,\"next\":{\"value\":2,\"next\":null}}"],
        &["{\"value\":1}", "{\"value\":1,\"next\":{}}"],
    );
    let tree =
        json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
    check(&schema(tree), &["{}", "{\"children\":[{},{\"children\":[]}]}"], &["{\"children\":[1]}"]);
}

#[test]
fn texts() {
    check(&schema(json!({"minLength": 2, "maxLength": 3})), &["\"ab\"", "\"é漢c\""], &["\"a\"", "\"abcd\""]);
    check(&schema(json!({"pattern": "^[a-z]+\\d$"})), &["\"ab1\""], &["\"ab\"", "\"AB1\"", "\"ab1 \""]);
    check(&schema(json!({"pattern": "b+"})), &["\"abba\"", "\"b\""], &["\"a\""]);
    check(
        &schema(json!({"type": "string", "format": "date"})),
        &["\"2026-02-28\""],
        &["\"2026-13-01\"", "\"today\""],
    );
    check(&schema(json!({"format": "date-time"})), &["\"2026-02-28T10:00:00Z\""], &["\"2026-02-28\""]);
    check(&schema(json!({"format": "time"})), &["\"10:00:00Z\""], &["\"25:00:00Z\""]);
    check(
        &schema(json!({"format": "uuid"})),
        &["\"123e4567-e89b-12d3-a456-426614174000\""],
        &["\"123e4567\""],
    );
    check(&schema(json!({"type": "string", "format": "colour"})), &["\"red\""], &["1"]);
}

#[test]
fn numbers() {
    check(
        &schema(json!({"type": "integer", "minimum": 1, "maximum": 12})),
        &["1", "9", "12"],
        &["0", "13", "-1", "1.5"],
    );
    check(&schema(json!({"type": "integer", "exclusiveMinimum": 0})), &["1", "100"], &["0", "-5"]);
    check(
        &schema(json!({"type": "number", "minimum": 0, "maximum": 1})),
        &["0", "0.25", "1"],
        &["-0.1", "1.5"],
    );
}

#[test]
fn unknown_keywords_are_ignored() {
    let odd = json!({
        "$schema": "https://example.com/unheard-of", "$id": "not an address",
        "type": "object", "nullable": true, "x-guidance": {"whitespace_flexible": false, "nonsense": 1},
        "properties": {"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "contains": {}}},
        "required": true, "not": {"required": ["z"]}, "if": {}, "then": {}, "propertyNames": {"pattern": "(?=x)"},
    });
    check(&schema(odd), &["{}", "{\"tags\":[\"a\", \"a\"]}"], &["{\"z\":1}"]);
}

#[test]
fn space_ends() {
    let object =
        schema(json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}));
    let long = format!("{{\n\n{}\"a\":1}}", " ".repeat(20));
    let longer = format!("{{\n\n{}\"a\":1}}", " ".repeat(21));
    check(
        &object,
        &["{\"a\":1}", "{ \"a\" : 1 }", "{\n  \"a\": 1\n}", &long],
        &["{  \"a\":1}", "{\n\n\n\"a\":1}", &longer],
    );
}

#[test]
fn what_means_nothing_is_refused() {
    let cases = [
        (json!(123), "schema, at #: a schema is an object, true or false, not 123"),
        (json!(false), "schema, at #: no value fits `false`"),
        (
            json!({"type": "hiccup"}),
            "schema, at #: type \"hiccup\" is none of null, boolean, integer, number, string, array, object",
        ),
        (
            json!({"properties": {"a/b": {"type": ["string", 7]}}}),
            "schema, at #/properties/a~1b: type 7 is none of null, boolean, integer, number, string, array, object",
        ),
        (
            json!({"$ref": "https://example.com/a.json"}),
            "schema, at #/$ref: $ref \"https://example.com/a.json\" does not lead into this schema",
        ),
        (
            json!({"items": {"$ref": "#/$defs/no"}}),
            "schema, at #/items/$ref: $ref \"#/$defs/no\" does not lead into this schema",
        ),
        (json!({"enum": []}), "schema, at #/enum: a list of at least one value is expected"),
        (json!({"properties": []}), "schema, at #/properties: an object of schemas is expected, not a list"),
        (
            json!({"anyOf": {"type": "null"}}),
            "schema, at #/anyOf: a list of schemas is expected, not an object",
        ),
        (json!({"type": "integer", "minimum": "1"}), "schema, at #/minimum: a number is expected, not \"1\""),
        (json!({"type": "string", "minLength": -1}), "schema, at #/minLength: a count is expected"),
        (
            json!({"type": "string", "minLength": 3, "maxLength": 2}),
            "schema: Unsatisfiable schema: minLength (3) is greater than maxLength (2)",
        ),
        (json!({"type": "string", "enum": [1]}), "schema: Unsatisfiable schema: incompatible types"),
        (
            json!({"properties": {"mail": {"type": "string", "pattern": "^(?=.*@).*$"}}}),
            "schema, at #/properties/mail: look-around, including look-ahead and look-behind, is not supported",
        ),
    ];
    for (case, message) in cases {
        let found = refusal(&schema(case.clone()));
        assert_eq!(found, message, "{case}");
    }
}

#[test]
fn odd_schemas_of_tools_are_softened() {
    let tool = json!({
        "type": "object",
        "properties": {
            "mail": {"type": "string", "pattern": "^(?!\\.)(?!.*\\.\\.)([a-z]+)@x$"},
            "back": {"type": "string", "pattern": "(a)\\1"},
            "text": {"type": "string", "maxLength": 10000},
            "long": {"type": "string", "maxLength": 100_000_000_000_u64},
            "kind": {"type": "any"},
            "free": {"description": "no type"},
            "size": {"type": "integer", "minimum": "1"},
            "what": 7,
            "other": {"$ref": "https://example.com/other.json"},
            "never": {"enum": []},
            "both": {"type": "integer", "minimum": 5, "maximum": 1},
        },
        "required": ["mail", "both"],
    });
    check(
        &lenient(tool),
        &[
            "{\"mail\":\"a..b\",\"both\":1}",
            "{\"mail\":\"\",\"back\":\"b\",\"text\":\"t\",\"long\":\"l\",\"kind\":[1],\"free\":null,\"size\":-1,\"what\":{},\"other\":1,\"never\":2,\"both\":3}",
        ],
        &["{}", "{\"mail\":1,\"both\":1}", "{\"mail\":\"\",\"both\":1,\"more\":1}"],
    );
    check(&lenient(json!(7)), &["{}", "{\"a\":1}"], &["7"]);
    check(&lenient(json!({"type": "hiccup"})), &["{}"], &[]);
}
