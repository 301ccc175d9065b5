//! Filters and tests where the engine differs from Jinja2.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value};

use super::{arguments, methods, python, text::Text};

/// `trim(value, chars=None)`.
pub(super) fn trim(state: &State, value: &Value, chars: Option<&str>) -> Result<String, Error> {
    let text = python::str(state, value)?;
    Ok(methods::strip(&text, chars, true, true).to_owned())
}

/// `string(value)`.
pub(super) fn string(state: &State, value: &Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::String {
        Ok(value.clone())
    } else {
        python::str(state, value).map(Value::from)
    }
}

/// `value is iterable`: the engine counts none as an empty list, Python does not.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// `value is sequence`: whatever has a length and can be indexed, which in Python includes dicts and the undefined.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Undefined)
}

/// `value is number`.
pub(super) fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool) || is_float(value)
}

/// `value is float`.
pub(super) fn is_float(value: &Value) -> bool {
    python::as_float(value).is_some()
}

/// `value is callable`.
pub(super) fn is_callable(value: &Value) -> bool {
    value.kind() == ValueKind::Plain && !is_float(value)
}

/// `int(value, default=0, base=10)`: the default where the text is no number.
pub(super) fn int(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [default, base] = arguments::bind(["default", "base"], args)?;
    let default = default.unwrap_or_else(|| Value::from(0));
    let base = base.map_or(Ok(10), u32::try_from)?;
    let Some(text) = value.as_str() else {
        return Ok(number(value).map_or(default, |number| Value::from(number as i64)));
    };
    let digits = methods::strip(text, None, true, true).replace('_', "");
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, digits.strip_prefix('+').unwrap_or(&digits)),
    };
    let prefix = match base {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    };
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    let parsed = if (2..=36).contains(&base) { i64::from_str_radix(digits, base).ok() } else { None };
    let parsed = parsed.or_else(|| digits.parse::<f64>().ok().map(|number| number as i64));
    Ok(parsed.map_or(default, |number| Value::from(sign * number)))
}

/// `float(value, default=0.0)`: the default where the text is no number.
pub(super) fn float(value: &Value, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [default] = arguments::bind(["default"], args)?;
    let default = default.unwrap_or_else(|| Value::from(0.0));
    let parsed = match value.as_str() {
        Some(text) => methods::strip(text, None, true, true).replace('_', "").parse().ok(),
        None => number(value),
    };
    Ok(parsed.map_or(default, Value::from))
}

fn number(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        _ => python::as_float(value).or_else(|| f64::try_from(value.clone()).ok()),
    }
}

/// `indent(text, width=4, first=False, blank=False)`; the width may be the text to indent with.
pub(super) fn indent(state: &State, value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let text = python::str(state, value)?;
    let [width, first, blank] = arguments::bind(["width", "first", "blank"], args)?;
    let (first, blank) = (arguments::is_true(first.as_ref()), arguments::is_true(blank.as_ref()));
    let width = match width {
        None => "    ".to_owned(),
        Some(width) => match (width.as_str(), width.as_i64()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(count)) => {
                let count = usize::try_from(count).unwrap_or(0);
                state.consume_fuel(count as u64 / 16)?;
                " ".repeat(count)
            }
            (None, None) => return Err(Error::new(ErrorKind::InvalidOperation, "indent: bad width")),
        },
    };
    let mut out = Text::new(state);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push("\n")?;
        }
        if (at == 0 && first) || (at > 0 && (blank || !line.is_empty())) {
            out.push(&width)?;
        }
        out.push(line)?;
    }
    Ok(out.into_string())
}

/// `dict(entries, **more)`.
pub(super) fn dict(state: &State, entries: Option<Value>, more: Kwargs) -> Result<Value, Error> {
    let mut fields: Vec<(Value, Value)> = Vec::new();
    if let Some(entries) = entries {
        let map = entries.kind() == ValueKind::Map;
        for entry in entries.try_iter()? {
            state.consume_fuel(1)?;
            fields.push(if map {
                let value = entries.get_item(&entry)?;
                (entry, value)
            } else {
                (entry.get_item_by_index(0)?, entry.get_item_by_index(1)?)
            });
        }
    }
    for name in more.args() {
        fields.push((Value::from(name), more.get(name)?));
    }
    Ok(Value::from_pairs(fields))
}
