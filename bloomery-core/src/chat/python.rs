//! Values in the words of Python: `str(x)` and `repr(x)`.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Error, State, Value};

use super::text::Text;

/// `repr` of a float: the shortest digits that read back, an exponent outside 1e-4..1e16.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) && value != 0.0 => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value:?}"),
    }
}

/// A float that Python prints with an exponent. The engine prints its own floats with all digits, so these enter a
/// template as objects that know how to print themselves.
#[derive(Debug)]
pub(super) struct Exponential(f64);

impl Exponential {
    /// The template value of a float.
    pub(super) fn value(number: f64) -> Value {
        let magnitude = number.abs();
        let positional = number == 0.0 || (1e-4..1e16).contains(&magnitude);
        if positional { Value::from(number) } else { Value::from_object(Exponential(number)) }
    }
}

impl Object for Exponential {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&float(self.0))
    }
}

/// Whether the value is a float rather than an integer, and its value.
pub(super) fn as_float(value: &Value) -> Option<f64> {
    if let Some(Exponential(number)) = value.downcast_object_ref() {
        return Some(*number);
    }
    if value.kind() != ValueKind::Number || value.is_integer() {
        return None;
    }
    f64::try_from(value.clone()).ok()
}

/// `str(value)`.
pub(super) fn str(state: &State, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut text = Text::new(state);
    match as_float(value) {
        Some(number) => text.push(&float(number))?,
        None if matches!(value.kind(), ValueKind::Seq | ValueKind::Map) => repr(&mut text, value)?,
        None => text.push(&value.to_string())?,
    }
    Ok(text.into_string())
}

/// Appends `repr(value)`.
pub(super) fn repr(text: &mut Text, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::String => text.push(&quoted(value.as_str().unwrap_or_default())),
        ValueKind::Undefined => text.push("Undefined"),
        ValueKind::Seq => {
            let tuple = value.is_tuple();
            text.open(if tuple { "(" } else { "[" })?;
            let mut count = 0_usize;
            for item in value.try_iter()? {
                if count > 0 {
                    text.push(", ")?;
                }
                count += 1;
                repr(text, &item)?;
            }
            text.close(match (tuple, count) {
                (true, 1) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            })
        }
        ValueKind::Map => {
            text.open("{")?;
            for (count, key) in value.try_iter()?.enumerate() {
                if count > 0 {
                    text.push(", ")?;
                }
                repr(text, &key)?;
                text.push(": ")?;
                repr(text, &value.get_item(&key)?)?;
            }
            text.close("}")
        }
        _ => match as_float(value) {
            Some(number) => text.push(&float(number)),
            None => text.push(&value.to_string()),
        },
    }
}

/// `repr` of a string.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() || (c != ' ' && c.is_whitespace()) => {
                let code = u32::from(c);
                // Writing into a String does not fail.
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// What Python strips: Unicode white space and the four information separators.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::{float, quoted};

    #[test]
    fn floats_print_as_python_prints_them() {
        for (value, wanted) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123456789.123, "123456789.123"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float(value), wanted);
        }
    }

    #[test]
    fn strings_quote_as_python_quotes_them() {
        assert_eq!(quoted("it's"), "\"it's\"");
        assert_eq!(quoted("a\"b'c"), "'a\"b\\'c'");
        assert_eq!(quoted("é\n\u{7f}\u{a0}\\"), "'é\\n\\x7f\\xa0\\\\'");
    }
}
