//! Rules for calls whose arguments stand in tags.

use serde_json::{Map, Value};

use super::super::schema::{Kinds, listed, object};
use super::super::style::TaggedStyle;
use super::super::tool::Tool;
use super::lark::{Lark, any, json};

/// Parameters that are counted: each needs a bit of the 64 that a rule can carry.
const MAX_COUNTED: usize = 60;

/// Values of a list that are spelled out.
const MAX_LISTED: usize = 200;

/// Names of a tool's parameters that the tags can carry.
fn fits(key: &str, style: &TaggedStyle) -> bool {
    !key.is_empty() && !key.contains('\n') && !key.contains(style.key_end)
}

/// A rule for each tool, `f0`, `f1` and so on: every parameter at most once, in any order, the required ones always.
pub(super) fn rules(lark: &mut Lark, style: &TaggedStyle, tools: &[&Tool]) {
    // Where the family writes lines, some of its members do not.
    let loose = style.block.is_none();
    let plain = lark.text(style.line);
    let line = if loose { format!("({plain})?") } else { plain };
    free_text(lark, style);
    for (index, tool) in tools.iter().enumerate() {
        let schema = tool.schema();
        let empty = Map::new();
        let described = object(&schema).unwrap_or(&schema);
        let properties = described.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required: Vec<&str> = described
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let known = properties.iter().filter(|(key, _)| fits(key, style));
        let (mut needed, optional): (Vec<_>, Vec<_>) =
            known.partition(|(key, _)| required.contains(&key.as_str()));
        let count = needed.len();
        needed.extend(optional);
        let counted = (1..=MAX_COUNTED).contains(&needed.len());
        let head = lark.text(&format!("{}{}{}", style.call_open, tool.name, style.name_end));
        let close = lark.text(style.call_close);
        let body = format!("{head} {line} p{index}{} {close}", if counted { "::0x0" } else { "" });
        lark.rule(&format!("f{index}"), &body);
        let names: Vec<String> = (0..needed.len()).map(|at| format!("p{index}_{at}")).collect();
        if counted {
            let end = if count == 0 { "\"\"".to_owned() } else { format!("\"\" %if is_ones([0:{count}])") };
            let steps = names.iter().enumerate();
            let steps = steps.map(|(at, name)| format!("{name} p{index}::set_bit({at}) %if bit_clear({at})"));
            let body: Vec<String> = std::iter::once(end).chain(steps).collect();
            lark.rule(&format!("p{index}::_"), &body.join("\n  | "));
        } else if names.is_empty() {
            lark.rule(&format!("p{index}"), "\"\"");
        } else {
            lark.rule(&format!("p{index}"), &format!("({})*", any(&names)));
        }
        for ((key, parameter), name) in needed.iter().zip(&names) {
            let body = parameter_rule(lark, style, key, parameter, &schema, &line);
            lark.rule(name, &body);
        }
    }
}

/// The rule `text`: anything up to the closing tag, and that.
fn free_text(lark: &mut Lark, style: &TaggedStyle) {
    let close = closing(style);
    let (before, rest) = lark.split(&close);
    match (before, rest) {
        (before, "") => lark.rule(&format!("text[suffix={}]", Value::from(before)), "/(?s:.*)/"),
        ("", rest) => lark.rule("text", &format!("/(?s:.*)/ {}", lark.text(rest))),
        (before, rest) => {
            // The tag is a text and a control token: the text alone does not end the value.
            lark.rule("text", &format!("part+ {}", lark.text(rest)));
            lark.rule(&format!("part[suffix={}]", Value::from(before)), "/(?s:.*)/");
        }
    }
}

fn closing(style: &TaggedStyle) -> String {
    format!("{}{}", pad(style), style.param_close)
}

fn pad(style: &TaggedStyle) -> &'static str {
    if style.value_lines { "\n" } else { "" }
}

fn parameter_rule(
    lark: &Lark,
    style: &TaggedStyle,
    key: &str,
    schema: &Value,
    root: &Value,
    line: &str,
) -> String {
    let kinds = Kinds::of(schema, root);
    let open = |string: bool| {
        let attribute = match (style.string_attribute, string) {
            (false, _) => "",
            (true, true) => " string=\"true\">",
            (true, false) => " string=\"false\">",
        };
        let head = lark.text(&format!("{}{key}{}{attribute}", style.param_open, style.key_end));
        let lines = if style.value_open.is_empty() { "" } else { line };
        let value = format!("{}{}", style.value_open, pad(style));
        let value = if value.is_empty() { String::new() } else { lark.text(&value) };
        format!("{head} {lines} {value}")
    };
    let close = lark.text(&closing(style));
    let typed = |schema: &Value| format!("{} {} {close} {line}", open(false), json(&rooted(schema, root)));
    if !kinds.string {
        return typed(schema);
    }
    if let Some(texts) = listed(schema, root)
        && kinds.only_string()
        && !texts.is_empty()
        && texts.len() <= MAX_LISTED
    {
        let texts: Vec<String> = texts.iter().map(|text| lark.text(text)).collect();
        return format!("{} ({}) {close} {line}", open(true), any(&texts));
    }
    let text = format!("{} text {line}", open(true));
    // With the attribute the model says what it means; without it any text is a value.
    if style.string_attribute && !kinds.only_string() { format!("{text} | {}", typed(schema)) } else { text }
}

/// A part of a schema that stands alone: with the definitions that it refers to.
fn rooted(schema: &Value, root: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut fields = fields.clone();
    for key in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(key) {
            fields.insert(key.to_owned(), definitions.clone());
        }
    }
    let rooted = Value::Object(fields);
    if refers_elsewhere(&rooted) { Value::Object(Map::new()) } else { rooted }
}

fn refers_elsewhere(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| match value.as_str() {
            Some(at) if key == "$ref" => !at.starts_with("#/$defs/") && !at.starts_with("#/definitions/"),
            _ => refers_elsewhere(value),
        }),
        Value::Array(items) => items.iter().any(refers_elsewhere),
        _ => false,
    }
}
