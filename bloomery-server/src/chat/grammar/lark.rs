//! Writes rules in the Lark dialect of llguidance.

use serde_json::Value;

/// Tells the id of a text that is one control token; see [`super::ToolGrammar::new`].
pub(super) type Control<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// Collects rules.
pub(super) struct Lark {
    rules: Vec<String>,
    /// Marks that are control tokens, longest first, and their ids.
    controls: Vec<(&'static str, u32)>,
}

impl Lark {
    /// `markers`: texts that may be control tokens.
    pub(super) fn new(markers: &[&'static str], control: Control) -> Lark {
        let known = markers.iter().filter_map(|marker| Some((*marker, control(marker)?)));
        let mut controls: Vec<(&'static str, u32)> = known.collect();
        controls.sort_by_key(|(marker, _)| std::cmp::Reverse(marker.len()));
        controls.dedup();
        Lark { rules: Vec::new(), controls }
    }

    /// Adds `name: body`.
    pub(super) fn rule(&mut self, name: &str, body: &str) {
        self.rules.push(format!("{name}: {body}"));
    }

    /// A text as a sequence of literals and control tokens. An empty one is the empty literal.
    pub(super) fn text(&self, text: &str) -> String {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let next = self.controls.iter().filter_map(|(mark, id)| Some((rest.find(mark)?, *mark, *id)));
            let next = next.min_by_key(|(at, mark, _)| (*at, std::cmp::Reverse(mark.len())));
            let (before, after) = match next {
                Some((at, mark, id)) => {
                    if at > 0 {
                        parts.push(literal(&rest[..at]));
                    }
                    parts.push(format!("<[{id}]>"));
                    (at, mark.len())
                }
                None => {
                    parts.push(literal(rest));
                    (rest.len(), 0)
                }
            };
            rest = &rest[before + after..];
        }
        if parts.is_empty() { "\"\"".to_owned() } else { parts.join(" ") }
    }

    /// A text up to its first control token, and the rest.
    pub(super) fn split<'t>(&self, text: &'t str) -> (&'t str, &'t str) {
        let at = self.controls.iter().filter_map(|(mark, _)| text.find(mark)).min();
        text.split_at(at.unwrap_or(text.len()))
    }

    /// The rules, beginning with `start`.
    pub(super) fn finish(self) -> String {
        self.rules.join("\n") + "\n"
    }
}

/// A text between quotes. The dialect reads literals as JSON strings.
fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// A schema as a rule's body.
pub(super) fn json(schema: &Value) -> String {
    format!("%json {schema}")
}

/// Alternatives.
pub(super) fn any(names: &[String]) -> String {
    names.join(" | ")
}
