//! The metadata of a file: keys and values in file order, with typed getters.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use crate::getters::{self, getter, getters};
use crate::{GgufError, Value};

/// All keys of a file. Cloning shares the values.
#[derive(Clone, Default)]
pub struct Metadata {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    pairs: Vec<(String, Value)>,
    index: HashMap<String, usize>,
}

impl Metadata {
    /// Metadata from pairs, in their order.
    ///
    /// # Errors
    /// [`GgufError::DuplicateKey`].
    pub fn from_pairs(pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Self, GgufError> {
        let mut inner = Inner::default();
        for (key, value) in pairs {
            match inner.index.entry(key) {
                Entry::Occupied(entry) => {
                    return Err(GgufError::DuplicateKey { key: entry.key().clone() });
                }
                Entry::Vacant(entry) => {
                    inner.pairs.push((entry.key().clone(), value));
                    entry.insert(inner.pairs.len() - 1);
                }
            }
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.inner.index.get(key).map(|&index| &self.inner.pairs[index].1)
    }

    /// The pairs in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.inner.pairs.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.pairs.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.pairs.is_empty()
    }

    /// The value of `general.architecture`, for example `qwen3moe`.
    ///
    /// # Errors
    /// [`GgufError::MissingKey`], [`GgufError::WrongType`].
    pub fn architecture(&self) -> Result<&str, GgufError> {
        self.str("general.architecture")
    }

    /// The same getters for the keys `PREFIX.key`.
    #[must_use]
    pub fn scoped(&self, prefix: impl Into<String>) -> Scoped<'_> {
        Scoped { metadata: self, prefix: prefix.into() }
    }

    fn full_key(&self, key: &str) -> String {
        key.to_owned()
    }

    fn lookup(&self, key: &str) -> Option<&Value> {
        self.get(key)
    }
}

/// The getters of a file's metadata.
impl Metadata {
    getters!(self: &'a Self, ['a]);
}

impl fmt::Debug for Metadata {
    /// With abbreviated arrays: a vocabulary has 150,000 entries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter()
            .fold(&mut f.debug_map(), |map, (key, value)| map.entry(&key, &format_args!("{value}")))
            .finish()
    }
}

/// A view of the keys that start with `PREFIX.`, mostly the architecture's own. Errors name the full key.
#[derive(Debug, Clone)]
pub struct Scoped<'a> {
    metadata: &'a Metadata,
    prefix: String,
}

impl<'a> Scoped<'a> {
    /// The prefix, without the last dot.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key in the file: `PREFIX.key`.
    #[must_use]
    pub fn full_key(&self, key: &str) -> String {
        format!("{}.{key}", self.prefix)
    }

    /// The value of `PREFIX.key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.metadata.get(&self.full_key(key))
    }

    /// A deeper view: the keys `PREFIX.inner.key`.
    #[must_use]
    pub fn scoped(&self, inner: &str) -> Self {
        Self { metadata: self.metadata, prefix: self.full_key(inner) }
    }

    fn lookup(&self, key: &str) -> Option<&'a Value> {
        self.get(key)
    }
}

/// The getters of a scope.
impl<'a> Scoped<'a> {
    getters!(self: &Self, []);
}
