//! How large and how deep a value may become when a template keeps it.
//!
//! The engine charges fuel for every list it makes, but a list of a list of ... of one list costs little and nests
//! without limit, and two references to one list cost nothing and double what has to be printed. Both are measured
//! where a value is given to a variable or walked by a loop.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::dict::Dict;

/// Levels of lists and maps around the data of the request, which has its own limit.
const MAX_DEPTH: usize = 160;

/// What the value would take written out, in bytes.
const MAX_SIZE: usize = 256 << 20;

/// Items of all its lists and maps together.
const MAX_ITEMS: usize = 500_000;

/// What an item of a list costs besides its text.
const ITEM_SIZE: usize = 16;

/// `_iterated`: passes on what a loop can walk.
pub(super) fn iterated(state: &State, value: &Value) -> Result<Value, Error> {
    if value.is_none() {
        return Err(Error::new(ErrorKind::InvalidOperation, "none is not iterable"));
    }
    stored(state, value)
}

/// `_stored`: passes on what a variable may hold.
pub(super) fn stored(state: &State, value: &Value) -> Result<Value, Error> {
    keep(state, value, true)
}

/// `_kept`: passes on what an attribute of a namespace may hold. That excludes namespaces, so that none contains
/// itself.
pub(super) fn kept(state: &State, value: &Value) -> Result<Value, Error> {
    keep(state, value, false)
}

/// Bytes a value takes written out, more or less.
pub(super) fn size(value: &Value) -> usize {
    let mut measure = Measure { size: 0, items: 0, namespaces: true };
    // Past the limits, the part that was measured.
    let _ = measure.visit(value, 0);
    measure.size
}

fn keep(state: &State, value: &Value, namespaces: bool) -> Result<Value, Error> {
    let mut measure = Measure { size: 0, items: 0, namespaces };
    // Lists that are computed while they are walked would otherwise pile up on each other.
    let value = if value.kind() == ValueKind::Iterable {
        Value::from(value.try_iter()?.take(MAX_ITEMS + 1).collect::<Vec<Value>>())
    } else {
        value.clone()
    };
    let result = measure.visit(&value, 0);
    state.consume_fuel(measure.items as u64 / 2)?;
    result.map(|()| value)
}

struct Measure {
    size: usize,
    items: usize,
    namespaces: bool,
}

impl Measure {
    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.items += 1;
        self.size += ITEM_SIZE;
        match value.kind() {
            ValueKind::String => self.size += value.as_str().map_or(0, str::len),
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
                if let Some(dict) = value.downcast_object_ref::<Dict>() {
                    self.size += dict.size();
                } else {
                    self.contents(value, depth + 1)?;
                }
            }
            _ => {}
        }
        if self.size > MAX_SIZE {
            return Err(refusal(format!("a value of more than {MAX_SIZE} bytes")));
        }
        if self.items > MAX_ITEMS {
            return Err(refusal(format!("a value of more than {MAX_ITEMS} items")));
        }
        Ok(())
    }

    fn contents(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(refusal(format!("a value that nests more than {MAX_DEPTH} levels deep")));
        }
        let namespace = value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"));
        if namespace && !self.namespaces {
            return Err(refusal("a namespace inside a namespace".to_owned()));
        }
        let map = value.kind() == ValueKind::Map;
        for item in value.try_iter()? {
            if map {
                self.visit(&value.get_item(&item)?, depth)?;
            }
            self.visit(&item, depth)?;
        }
        Ok(())
    }
}

fn refusal(what: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("cannot keep {what}"))
}
