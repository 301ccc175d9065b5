//! A JSON object inside a template, with the two ways Python has to look into a dict.
//!
//! `tool['items']` is the entry; `tool.items` is the method of that name, even where an entry exists. JSON schemas
//! have an `items` entry for every array, so the difference shows.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, State, Value};

use super::{bounds, methods};

/// Names that an attribute lookup on a Python dict finds before it looks at the entries.
const METHODS: [&str; 11] =
    ["clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

/// An object of the request, keys in their order.
#[derive(Debug)]
pub(super) struct Dict {
    /// A map of the template engine.
    entries: Value,
    /// Bytes of keys and values, more or less.
    size: usize,
}

impl Dict {
    /// The template value with these entries.
    pub(super) fn value(entries: Vec<(String, Value)>) -> Value {
        let size = entries.iter().map(|(key, value)| key.len() + bounds::size(value)).sum();
        Value::from_object(Dict { entries: Value::from_pairs(entries), size })
    }

    /// Bytes the object takes written out, more or less.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.entries.as_object()?.get_value(key)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if let Some(name) = METHODS.iter().find(|name| **name == key) {
            return Some(Value::from_object(Method { owner: Value::from_dyn_object(self.clone()), name }));
        }
        self.entries.as_object()?.get_value_by_str(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.entries.as_object().map_or(Enumerator::Empty, |entries| entries.enumerate())
    }
}

/// A method taken off a dict without calling it.
#[derive(Debug)]
struct Method {
    owner: Value,
    name: &'static str,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        methods::call(state, &self.owner, self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}
