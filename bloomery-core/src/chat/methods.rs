//! Methods of Python's strings, lists and dicts, where the engine's own set lacks them or differs.

use std::collections::BTreeSet;

use minijinja::value::{Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::python;

/// Text a method reads for one unit of fuel.
const BYTES_PER_FUEL: u64 = 64;

/// What comparing an item of a list costs, in bytes of text.
const ITEM_BYTES: u64 = 32;

/// Widest field of `str.format`, whose output is not charged before it exists.
const MAX_FIELD: usize = 4;

/// Calls `value.method(args)`.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    // The engine charges for results only, and these methods read the whole text or list.
    let read = match value.kind() {
        ValueKind::Seq => value.len().unwrap_or(0) as u64 * ITEM_BYTES,
        _ => value.as_str().map_or(0, str::len) as u64,
    };
    state.consume_fuel(read / BYTES_PER_FUEL)?;
    let own = match value.kind() {
        ValueKind::String => string(state, value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq => sequence(value, method, args)?,
        ValueKind::Map => mapping(value, method, args)?,
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// None: not one of the methods handled here.
fn string(state: &State, s: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Value::from(strip(s, chars, method != "rstrip", method != "lstrip"))
        }
        "split" | "rsplit" => split(s, args, method == "rsplit")?,
        "splitlines" => {
            let (keep, kwargs): (Option<bool>, Kwargs) = from_args(args)?;
            let keep = keep.or(kwargs.get("keepends")?).unwrap_or(false);
            kwargs.assert_all_used()?;
            Value::from(split_lines(s, keep))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            let last = method == "rpartition";
            let found = if last { s.rsplit_once(separator) } else { s.split_once(separator) };
            let parts = match found {
                Some((before, after)) => [before, separator, after],
                None if last => ["", "", s],
                None => [s, "", ""],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "format" if s.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > MAX_FIELD) => {
            let detail = format!("format: numbers of more than {MAX_FIELD} digits are not supported");
            return Err(Error::new(ErrorKind::InvalidOperation, detail));
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(s.strip_prefix(prefix).unwrap_or(s))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(s.strip_suffix(suffix).unwrap_or(s))
        }
        "startswith" | "endswith" if args.len() > 1 => {
            let (affix, start, end): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
            let part = char_slice(s, start, end);
            has_affix(part, method == "startswith", affix)?
        }
        "title" => {
            let () = from_args(args)?;
            Value::from(title(s))
        }
        "isspace" => {
            let () = from_args(args)?;
            Value::from(!s.is_empty() && s.chars().all(python::is_space))
        }
        "isdecimal" | "isdigit" => {
            let () = from_args(args)?;
            Value::from(!s.is_empty() && s.chars().all(char::is_numeric))
        }
        "swapcase" => {
            let () = from_args(args)?;
            Value::from(s.chars().map(swapped).collect::<String>())
        }
        "casefold" => {
            let () = from_args(args)?;
            Value::from(s.to_lowercase())
        }
        "zfill" | "ljust" | "rjust" | "center" => pad(state, s, method, args)?,
        "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let found = if method == "index" { s.find(what) } else { s.rfind(what) };
            match found {
                Some(at) => Value::from(s[..at].chars().count()),
                None => return Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
            }
        }
        _ => return Ok(None),
    }))
}

fn has_affix(text: &str, start: bool, affix: &Value) -> Result<Value, Error> {
    let test = |affix: &str| if start { text.starts_with(affix) } else { text.ends_with(affix) };
    Ok(Value::from(match affix.as_str() {
        Some(affix) => test(affix),
        None => affix.try_iter()?.any(|affix| affix.as_str().is_some_and(test)),
    }))
}

/// `str.strip` and its one-sided forms.
pub(super) fn strip<'a>(s: &'a str, chars: Option<&str>, start: bool, end: bool) -> &'a str {
    let set: Option<BTreeSet<char>> = chars.map(|chars| chars.chars().collect());
    let drop = |c: char| set.as_ref().map_or_else(|| python::is_space(c), |set| set.contains(&c));
    let s = if start { s.trim_start_matches(drop) } else { s };
    if end { s.trim_end_matches(drop) } else { s }
}

fn split(s: &str, args: &[Value], from_end: bool) -> Result<Value, Error> {
    let (separator, limit, kwargs): (Option<&str>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = separator.or(kwargs.get("sep")?);
    let limit = limit.or(kwargs.get("maxsplit")?).and_then(|limit| usize::try_from(limit).ok());
    kwargs.assert_all_used()?;
    let pieces = limit.map_or(usize::MAX, |limit| limit.saturating_add(1));
    let mut parts: Vec<&str> = match (separator, from_end) {
        (Some(""), _) => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        (Some(separator), false) => s.splitn(pieces, separator).collect(),
        (Some(separator), true) => s.rsplitn(pieces, separator).collect(),
        (None, false) => split_space(s, pieces),
        (None, true) => rsplit_space(s, pieces),
    };
    if from_end {
        parts.reverse();
    }
    Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<Value>>()))
}

/// Words between runs of white space; the last piece keeps its inner and trailing space.
fn split_space(s: &str, pieces: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = s.trim_start_matches(python::is_space);
    while !rest.is_empty() {
        match rest.find(python::is_space).filter(|_| parts.len() + 1 < pieces) {
            Some(end) => {
                parts.push(&rest[..end]);
                rest = rest[end..].trim_start_matches(python::is_space);
            }
            None => {
                parts.push(rest);
                break;
            }
        }
    }
    parts
}

/// As [`split_space`], last word first.
fn rsplit_space(s: &str, pieces: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = s.trim_end_matches(python::is_space);
    while !rest.is_empty() {
        let space = rest.char_indices().rev().find(|(_, c)| python::is_space(*c));
        match space.filter(|_| parts.len() + 1 < pieces) {
            Some((at, c)) => {
                parts.push(&rest[at + c.len_utf8()..]);
                rest = rest[..at].trim_end_matches(python::is_space);
            }
            None => {
                parts.push(rest);
                break;
            }
        }
    }
    parts
}

fn split_lines(s: &str, keep: bool) -> Vec<Value> {
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = s;
    while let Some(at) = rest.find(is_end) {
        let end = &rest[at..];
        let width = if end.starts_with("\r\n") { 2 } else { end.chars().next().map_or(1, char::len_utf8) };
        lines.push(Value::from(&rest[..if keep { at + width } else { at }]));
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    lines
}

/// A capital after every character that has no case.
fn title(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut inside = false;
    for c in s.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = c.is_lowercase() || c.is_uppercase();
    }
    out
}

fn swapped(c: char) -> char {
    let other = if c.is_uppercase() { c.to_lowercase().next() } else { c.to_uppercase().next() };
    other.unwrap_or(c)
}

fn pad(state: &State, s: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<char>) = from_args(args)?;
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(s.chars().count());
    state.consume_fuel(missing as u64 / 16)?;
    let fill = fill.unwrap_or(' ');
    let some = |count: usize| std::iter::repeat_n(fill, count);
    let (left, right) = match method {
        "ljust" => (0, missing),
        "rjust" => (missing, 0),
        "zfill" => {
            let (sign, digits) = s.split_at(usize::from(s.starts_with(['+', '-'])));
            return Ok(Value::from(format!("{sign}{}{digits}", "0".repeat(missing))));
        }
        // CPython puts the odd blank on the left only where the width is odd.
        _ => {
            let left = missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1);
            (left, missing - left)
        }
    };
    Ok(Value::from(some(left).chain(s.chars()).chain(some(right)).collect::<String>()))
}

/// `s[start:end]` in characters.
fn char_slice(s: &str, start: Option<i64>, end: Option<i64>) -> &str {
    let count = s.chars().count();
    let clamp = |at: i64| {
        let at = if at < 0 { at.saturating_add(count as i64) } else { at };
        usize::try_from(at).unwrap_or(0).min(count)
    };
    let byte = |at: usize| s.char_indices().nth(at).map_or(s.len(), |(byte, _)| byte);
    let (start, end) = (clamp(start.unwrap_or(0)), clamp(end.unwrap_or(i64::MAX)));
    if start < end { &s[byte(start)..byte(end)] } else { "" }
}

fn sequence(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            match value.try_iter()?.position(|item| item == *what) {
                Some(at) => Value::from(at),
                None => return Err(Error::new(ErrorKind::InvalidOperation, "value is not in list")),
            }
        }
        "copy" => {
            let () = from_args(args)?;
            value.clone()
        }
        _ => return Ok(None),
    }))
}

fn mapping(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "copy" => {
            let () = from_args(args)?;
            value.clone()
        }
        _ => return Ok(None),
    }))
}
