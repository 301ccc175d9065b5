//! The value of one argument between its tags, as JSON of the type that the tool's schema asks for.

use serde_json::Value;

use super::super::schema::{Kinds, listed, parameter};
use super::super::style::TaggedStyle;
use super::super::tool::Tool;
use super::input::{Input, Starts, Step, is_space, space};
use super::json::{JsonScan, Scan, escaped, quoted};

/// What is known about a value before it comes.
#[derive(Debug, Clone)]
pub(super) struct Expect {
    kinds: Kinds,
    /// The texts that the schema lists.
    texts: Option<Vec<String>>,
    /// The model says that the value is JSON.
    json: bool,
}

impl Expect {
    /// `string`: what the model says about the value, where its markup says it.
    pub(super) fn new(tool: Option<&Tool>, key: &str, string: Option<bool>) -> Expect {
        let schema = tool.and_then(|tool| parameter(&tool.parameters, key).zip(Some(&tool.parameters)));
        let mut kinds = schema.map_or(Kinds::ANY, |(schema, root)| Kinds::of(schema, root));
        let texts = schema.and_then(|(schema, root)| listed(schema, root));
        match string {
            Some(true) if kinds.string => {
                kinds = Kinds::of(&serde_json::json!({"type": "string"}), &Value::Null)
            }
            Some(false) if !kinds.only_string() => kinds.string = false,
            _ => {}
        }
        Expect { kinds, texts, json: string == Some(false) }
    }
}

#[derive(Debug)]
enum Mode {
    /// Nothing was read.
    Line,
    /// The line end before the value was read.
    First,
    /// Text that is sent on as the inside of a string.
    Text,
    /// JSON that is sent on.
    Json(JsonScan),
    /// JSON is complete; its closing tag follows.
    Close,
    /// Text whose type shows at its end. The scan goes on while it may be JSON.
    Held(String, Option<JsonScan>),
}

/// Reads a value and the tag after it.
#[derive(Debug)]
pub(super) struct ValueReader {
    style: &'static TaggedStyle,
    expect: Expect,
    mode: Mode,
}

/// Where a value ends.
enum Close {
    At { end: usize, next: usize },
    Maybe(usize),
    No,
}

impl ValueReader {
    pub(super) fn new(style: &'static TaggedStyle, expect: Expect) -> ValueReader {
        ValueReader { style, expect, mode: Mode::Line }
    }

    /// Reads on and appends JSON to `out`. Done: the closing tag was read.
    pub(super) fn step(&mut self, input: &mut Input, out: &mut String) -> Step {
        match &mut self.mode {
            Mode::Line if !self.style.value_lines => {
                self.mode = Mode::First;
                Step::More
            }
            Mode::Line => match starts_line(input.rest()) {
                None => Step::Wait,
                Some(len) => {
                    input.take(len);
                    self.mode = Mode::First;
                    Step::More
                }
            },
            Mode::First => self.first(input, out),
            Mode::Json(scan) => match scan.read(input, out) {
                Step::Done => {
                    self.mode = Mode::Close;
                    Step::More
                }
                step => step,
            },
            Mode::Close => {
                input.skip_space();
                match input.take_tag(self.style.param_close) {
                    Starts::Yes => Step::Done,
                    Starts::Maybe => Step::Wait,
                    Starts::No => Step::Fail,
                }
            }
            Mode::Text | Mode::Held(..) => self.text(input, out),
        }
    }

    /// Chooses how to read the value by its first character.
    fn first(&mut self, input: &mut Input, out: &mut String) -> Step {
        let kinds = self.expect.kinds;
        if kinds.only_string() && self.expect.texts.is_none() && !self.expect.json {
            out.push('"');
            self.mode = Mode::Text;
            return Step::More;
        }
        let space = space(input.rest());
        let Some(first) = input.rest()[space..].chars().next() else { return Step::Wait };
        if !kinds.string && matches!(first, '{' | '[') {
            input.take(space);
            self.mode = Mode::Json(JsonScan::new());
        } else {
            self.mode = Mode::Held(String::new(), Some(JsonScan::new()));
        }
        Step::More
    }

    fn text(&mut self, input: &mut Input, out: &mut String) -> Step {
        let (end, next, step) = match self.close(input.rest(), input.ended) {
            Close::At { end, next } => (end, next, Step::Done),
            Close::Maybe(at) => (at, at, Step::Wait),
            Close::No => (input.rest().len(), input.rest().len(), Step::Wait),
        };
        let text = input.take(next)[..end].to_owned();
        self.read(&text, out);
        if step == Step::Done {
            match &self.mode {
                Mode::Text => out.push('"'),
                Mode::Held(held, scan) => {
                    let complete = scan.as_ref().is_some_and(JsonScan::complete);
                    out.push_str(&self.convert(held, complete));
                }
                _ => {}
            }
        }
        step
    }

    /// Takes text of the value.
    fn read(&mut self, text: &str, out: &mut String) {
        let plain = self.expect.texts.is_none() && self.expect.kinds.string && !self.expect.json;
        match &mut self.mode {
            Mode::Text => out.push_str(&escaped(text)),
            Mode::Held(held, scan) => {
                held.push_str(text);
                let mut going = scan.is_some();
                if let Some(scan) = scan {
                    let mut ignored = String::new();
                    going =
                        text.chars().all(|c| !matches!(scan.feed(c, &mut ignored), Scan::Bad | Scan::Past));
                }
                if !going {
                    *scan = None;
                    if plain {
                        let held = std::mem::take(held);
                        out.push('"');
                        out.push_str(&escaped(&held));
                        self.mode = Mode::Text;
                    }
                }
            }
            _ => {}
        }
    }

    /// A whole value of a type that only its end shows.
    fn convert(&self, text: &str, json: bool) -> String {
        let kinds = self.expect.kinds;
        let trimmed = text.trim_matches(is_space);
        let parsed = if json { serde_json::from_str::<Value>(trimmed).ok() } else { None };
        if let Some(texts) = &self.expect.texts {
            let unquoted = parsed.as_ref().and_then(Value::as_str);
            if let Some(text) = [Some(text), Some(trimmed), unquoted]
                .into_iter()
                .flatten()
                .find(|text| texts.iter().any(|t| t == text))
            {
                return quoted(text);
            }
        }
        match &parsed {
            Some(Value::String(inner)) if self.expect.json || kinds == Kinds::ANY => return quoted(inner),
            Some(Value::String(_)) if kinds.string => return quoted(text),
            Some(Value::String(inner)) => return quoted(inner),
            Some(value) if kinds.allow(value) || !kinds.string => return trimmed.to_owned(),
            None if json && !kinds.string => return trimmed.to_owned(),
            _ => {}
        }
        // Words of Python, where no text can be meant.
        match trimmed {
            "True" | "TRUE" if kinds.boolean && !kinds.string => "true".to_owned(),
            "False" | "FALSE" if kinds.boolean && !kinds.string => "false".to_owned(),
            "None" if kinds.null && !kinds.string => "null".to_owned(),
            _ => quoted(text),
        }
    }

    /// Looks for the closing tag. One that is not followed by another tag of the call is part of the value.
    fn close(&self, text: &str, ended: bool) -> Close {
        let tag = self.style.param_close;
        let mut from = 0;
        loop {
            let found = text[from..].find(tag).map(|at| from + at);
            let Some(at) = found else {
                return match beginning(&text[from..], tag, self.style.value_lines) {
                    Some(at) => Close::Maybe(from + at),
                    None => Close::No,
                };
            };
            let next = at + tag.len();
            let line = self.style.value_lines && text[..at].ends_with('\n');
            let end = at - usize::from(line);
            match self.followed(&text[next..]) {
                Starts::Yes => return Close::At { end, next },
                Starts::Maybe if ended => return Close::At { end, next },
                Starts::Maybe => return Close::Maybe(end),
                Starts::No => from = next,
            }
        }
    }

    fn followed(&self, text: &str) -> Starts {
        let text = text.trim_start_matches(is_space);
        let block = self.style.block.map(|(_, close)| close);
        let tags = [Some(self.style.param_open), Some(self.style.call_close), block];
        let mut result = Starts::No;
        for tag in tags.into_iter().flatten() {
            match super::input::starts(text, tag) {
                Starts::Yes => return Starts::Yes,
                Starts::Maybe => result = Starts::Maybe,
                Starts::No => {}
            }
        }
        result
    }
}

/// Bytes of the line end at the start. None: it is not certain yet.
fn starts_line(text: &str) -> Option<usize> {
    match text.as_bytes() {
        [] | [b'\r'] => None,
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => Some(0),
    }
}

/// Where the end of a text may be the beginning of a closing tag, or of the line end before it.
fn beginning(text: &str, tag: &str, lines: bool) -> Option<usize> {
    let from = text.len().saturating_sub(tag.len() + 1);
    let tail = text.char_indices().map(|(at, _)| at).filter(|at| *at >= from);
    let part = |rest: &str| !rest.is_empty() && tag.starts_with(rest);
    tail.into_iter().find(|at| {
        let rest = &text[*at..];
        part(rest) || (lines && rest.strip_prefix('\n').is_some_and(|rest| rest.is_empty() || part(rest)))
    })
}
