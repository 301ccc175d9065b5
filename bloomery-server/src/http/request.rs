//! A request with its whole body.

use bytes::Bytes;
use hyper::{HeaderMap, Method};

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// GET, POST …; HEAD is served as GET.
    pub method: Method,
    /// Without prefix and query.
    pub path: String,
    /// What follows the `?`.
    pub query: Query,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The `name=value` pairs after the `?`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(pub Vec<(String, String)>);

impl Query {
    /// The first value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}
