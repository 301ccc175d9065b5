//! The `tojson` filter of transformers: `json.dumps` of Python, no HTML escapes.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value};

use super::text::Text;
use super::{arguments, python};

/// How `json.dumps` was asked to write.
struct Style {
    ascii: bool,
    /// What one level of indentation is; None writes everything on one line.
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let style = Style::from_args(args)?;
    let mut text = Text::new(state);
    style.write(&mut text, value)?;
    Ok(text.into_string())
}

impl Style {
    fn from_args(args: Rest<ValueOrKwargs>) -> Result<Style, Error> {
        let names = ["ensure_ascii", "indent", "separators", "sort_keys"];
        let [ascii, indent, separators, sort] = arguments::bind(names, args)?;
        let indent = indent.as_ref().map(indentation).transpose()?.flatten();
        let (item, key) = match separators.filter(|value| !value.is_none()) {
            Some(pair) => separator_pair(&pair)?,
            None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        };
        let (ascii, sort) = (arguments::is_true(ascii.as_ref()), arguments::is_true(sort.as_ref()));
        Ok(Style { ascii, indent, item, key, sort })
    }

    fn write(&self, text: &mut Text, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => text.push("null"),
            ValueKind::Bool => text.push(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => text.push(&number(value)),
            ValueKind::String => self.string(text, value.as_str().unwrap_or_default()),
            ValueKind::Seq => self.list(text, value),
            ValueKind::Map => self.object(text, value),
            _ if python::as_float(value).is_some() => text.push(&number(value)),
            kind => Err(Error::new(ErrorKind::BadSerialization, format!("{kind} is not JSON serializable"))),
        }
    }

    fn list(&self, text: &mut Text, value: &Value) -> Result<(), Error> {
        text.open("[")?;
        let mut empty = true;
        for item in value.try_iter()? {
            self.separate(text, empty)?;
            empty = false;
            self.write(text, &item)?;
        }
        self.end(text, empty, "]")
    }

    fn object(&self, text: &mut Text, value: &Value) -> Result<(), Error> {
        text.open("{")?;
        let mut keys: Vec<Value> = value.try_iter()?.collect();
        if self.sort {
            keys.sort();
        }
        let empty = keys.is_empty();
        for (at, key) in keys.iter().enumerate() {
            self.separate(text, at == 0)?;
            match key.kind() {
                ValueKind::String => self.string(text, key.as_str().unwrap_or_default())?,
                ValueKind::Number | ValueKind::Bool | ValueKind::None => {
                    text.push("\"")?;
                    self.write(text, key)?;
                    text.push("\"")?;
                }
                kind => {
                    let detail = format!("keys must be str, int, float, bool or None, not {kind}");
                    return Err(Error::new(ErrorKind::BadSerialization, detail));
                }
            }
            text.push(&self.key)?;
            self.write(text, &value.get_item(key)?)?;
        }
        self.end(text, empty, "}")
    }

    fn separate(&self, text: &mut Text, first: bool) -> Result<(), Error> {
        if !first {
            text.push(&self.item)?;
        }
        self.new_line(text, text.depth())
    }

    fn end(&self, text: &mut Text, empty: bool, bracket: &str) -> Result<(), Error> {
        if !empty {
            self.new_line(text, text.depth() - 1)?;
        }
        text.close(bracket)
    }

    fn new_line(&self, text: &mut Text, depth: usize) -> Result<(), Error> {
        let Some(indent) = &self.indent else { return Ok(()) };
        text.push("\n")?;
        (0..depth).try_for_each(|_| text.push(indent))
    }

    fn string(&self, text: &mut Text, value: &str) -> Result<(), Error> {
        text.push("\"")?;
        let mut plain = 0;
        for (at, c) in value.char_indices() {
            let code = u32::from(c);
            let plain_char = code >= 0x20 && c != '"' && c != '\\' && (!self.ascii || code < 0x7f);
            if plain_char {
                continue;
            }
            text.push(&value[plain..at])?;
            plain = at + c.len_utf8();
            text.push(&escape(c))?;
        }
        text.push(&value[plain..])?;
        text.push("\"")
    }
}

fn escape(c: char) -> String {
    match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    }
}

/// JSON as Python writes numbers, which includes the words JSON does not have.
fn number(value: &Value) -> String {
    match python::as_float(value) {
        Some(float) if float.is_nan() => "NaN".to_owned(),
        Some(float) if float.is_infinite() => if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Some(float) => python::float(float),
        None => value.to_string(),
    }
}

/// An indent argument: a number of spaces, or the text of one level. None is no indentation at all.
fn indentation(value: &Value) -> Result<Option<String>, Error> {
    /// Wider levels are a mistake or an attack: 128 levels of it are written for one value.
    const WIDEST: i64 = 1024;
    match value.kind() {
        ValueKind::None => Ok(None),
        ValueKind::Bool => Ok(Some(" ".repeat(usize::from(value.is_true())))),
        ValueKind::String => Ok(value.as_str().map(str::to_owned)),
        _ => match value.as_i64().filter(|width| *width <= WIDEST) {
            Some(width) => Ok(Some(" ".repeat(usize::try_from(width).unwrap_or(0)))),
            None => {
                let detail =
                    format!("tojson: indent must be a string or an integer up to {WIDEST}, not {value}");
                Err(Error::new(ErrorKind::InvalidOperation, detail))
            }
        },
    }
}

fn separator_pair(value: &Value) -> Result<(String, String), Error> {
    let pair: Vec<Value> = value.try_iter()?.take(3).collect();
    match pair.as_slice() {
        [item, key] => match (item.as_str(), key.as_str()) {
            (Some(item), Some(key)) => Ok((item.to_owned(), key.to_owned())),
            _ => Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be strings")),
        },
        _ => Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings")),
    }
}
