//! Calls in a family's markup: for prompts, for histories of models whose template cannot write them, for tests.

use serde_json::{Map, Value};

use super::markup::Markup;
use super::style::{JsonStyle, Layout, NamedStyle, TaggedStyle, layout};

/// A call with its arguments as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// The arguments by name.
    pub arguments: Map<String, Value>,
}

impl Markup {
    /// `calls` as the model would write them.
    pub fn write(self, calls: &[Call]) -> String {
        match layout(self) {
            Layout::Json(style) => json(style, calls),
            Layout::Named(style) => named(style, calls),
            Layout::Tagged(style) => tagged(style, calls),
            Layout::Harmony => calls.iter().map(harmony).collect::<Vec<_>>().join("<|start|>assistant"),
        }
    }
}

/// JSON as the templates of models write it, with a space after commas and colons.
pub(crate) fn spaced(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{}: {}", text(key), spaced(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

fn text(key: &str) -> String {
    Value::from(key).to_string()
}

fn arguments(call: &Call) -> String {
    spaced(&Value::Object(call.arguments.clone()))
}

fn json(style: &JsonStyle, calls: &[Call]) -> String {
    let objects = calls.iter().map(|call| {
        format!("{{\"name\": {}, \"{}\": {}}}", text(&call.name), style.arguments, arguments(call))
    });
    let open = style.open.first().copied().unwrap_or_default();
    let close = style.close.first().copied().unwrap_or_default();
    match (style.array, style.pad) {
        (true, _) => format!("{open}[{}]", objects.collect::<Vec<_>>().join(", ")),
        // Llama 3 writes the bare object.
        (false, "") => objects.collect::<Vec<_>>().join("; "),
        (false, pad) => {
            let calls = objects.map(|object| format!("{open}{pad}{object}{pad}{close}"));
            calls.collect::<Vec<_>>().join("\n")
        }
    }
}

fn named(style: &NamedStyle, calls: &[Call]) -> String {
    let calls = calls.iter().enumerate().map(|(index, call)| {
        let number = if style.numbered { format!(":{index}") } else { String::new() };
        let NamedStyle { call_open, before_name, after_name, call_close, .. } = style;
        format!("{call_open}{before_name}{}{number}{after_name}{}{call_close}", call.name, arguments(call))
    });
    let (open, close) = style.block.unwrap_or_default();
    let line = if style.call_close.contains('\n') { "\n" } else { "" };
    format!("{open}{}{close}", calls.collect::<Vec<_>>().join(line))
}

fn tagged(style: &TaggedStyle, calls: &[Call]) -> String {
    let line = style.line;
    let (open, close) = style.block.unwrap_or_default();
    let written = calls.iter().map(|call| {
        let mut out = format!("{}{}{}{line}", style.call_open, call.name, style.name_end);
        for (key, value) in &call.arguments {
            let string = value.as_str();
            let attribute = match string {
                _ if !style.string_attribute => "",
                Some(_) => " string=\"true\">",
                None => " string=\"false\">",
            };
            let pad = if style.value_lines { "\n" } else { "" };
            let value = string.map_or_else(|| spaced(value), str::to_owned);
            let before_value = if style.value_open.is_empty() { "" } else { line };
            out.extend([style.param_open, key, style.key_end, attribute, before_value, style.value_open]);
            out.extend([pad, &value, pad, style.param_close, line]);
        }
        out.push_str(style.call_close);
        out
    });
    match style.block {
        None => written.collect::<Vec<_>>().join("\n"),
        Some(_) if style.many => {
            format!("{open}{line}{}{line}{close}", written.collect::<Vec<_>>().join(line))
        }
        Some(_) => {
            let blocks = written.map(|call| format!("{open}{line}{call}{line}{close}"));
            blocks.collect::<Vec<_>>().join("\n")
        }
    }
}

fn harmony(call: &Call) -> String {
    let (name, arguments) = (&call.name, arguments(call));
    format!("<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>")
}
