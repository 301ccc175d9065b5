//! Grammars in the dialect of the grammar engine, with schemas in them.

use llguidance::api::TopLevelGrammar;
use serde_json::Value;

use super::{GrammarError, schema};

/// Rules and terminals that are compiled: each may need a level of the stack, 2 KB.
const RULES: usize = 10_000;

/// A grammar whose schemas are made usable.
pub(super) fn compile(text: &str) -> Result<TopLevelGrammar, GrammarError> {
    let rules = text.lines().filter(|line| line.contains(':')).count();
    if rules > RULES {
        return Err(GrammarError::TooLarge { what: "rules of the grammar", size: rules, limit: RULES });
    }
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(at) = schema_start(rest) {
        let (before, json) = rest.split_at(at);
        let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
        let value = values.next().unwrap_or(Ok(Value::Null)).map_err(|error| GrammarError::Unusable {
            kind: "grammar",
            message: format!("the schema after %json is no JSON: {error}"),
        })?;
        out.push_str(before);
        out.push_str(&schema::embedded(&value)?.to_string());
        rest = &json[values.byte_offset()..];
    }
    out.push_str(rest);
    Ok(TopLevelGrammar::from_lark(out))
}

/// Where the next schema begins: after `%json` that is in no string, expression or comment.
fn schema_start(text: &str) -> Option<usize> {
    const KEYWORD: &str = "%json";
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(KEYWORD) {
            return Some(at + KEYWORD.len());
        }
        at += if rest.starts_with('#') || rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(quote @ ('"' | '/')) = rest.chars().next() {
            closing(rest, quote)
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
    }
    None
}

/// Bytes up to the end of what `quote` opens and closes.
fn closing(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_schemas_outside_of_texts() {
        let text =
            "start: \"%json \\\" {\" x # %json\nx: /%json\\/[\"]/ // %json \"\n  | %json {\"type\": 1}";
        let at = schema_start(text).unwrap();
        assert_eq!(&text[at..], " {\"type\": 1}");
        assert_eq!(schema_start("start: \"a"), None);
    }
}
