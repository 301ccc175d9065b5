//! Tools described in words, for templates that do not show them.

use serde_json::{Value, json};

use super::markup::Markup;
use super::tool::Tool;
use super::write::{Call, spaced};

/// True where the model knows no roles for calls and results.
pub(super) fn in_text(markup: Markup) -> bool {
    markup == Markup::Generic
}

/// What the system message says about `tools`.
pub(super) fn describe(markup: Markup, tools: &[Tool]) -> String {
    let list: Vec<String> = tools.iter().map(|tool| spaced(&tool.to_json())).collect();
    let arguments = json!({ "argument name": "value" });
    let example = Call {
        name: "function name".to_owned(),
        arguments: match arguments {
            Value::Object(fields) => fields,
            _ => return String::new(),
        },
    };
    format!(
        "# Tools\n\nYou may call functions. These are their signatures:\n<tools>\n{}\n</tools>\n\n\
         To call a function, write its name and arguments in this form and nothing after it:\n{}",
        list.join("\n"),
        markup.write(&[example])
    )
}
