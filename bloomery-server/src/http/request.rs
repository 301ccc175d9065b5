//! A request with its whole body.

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode;

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
    /// Reads the text after the `?`. What is not UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let decode = |part: &str| {
            let spaced = part.replace('+', " ");
            percent_decode(spaced.as_bytes()).decode_utf8_lossy().into_owned()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(a, b)| (decode(a), decode(b)))
                .collect(),
        )
    }

    /// The first value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = Query::parse("beta=true&a+b=c%20d%2B&flag&&x=1&x=2&bad=%ff%zz&%3d=%26&eq=a=b");
        let get = |name| query.get(name);
        assert_eq!(get("beta"), Some("true"));
        assert_eq!(get("a b"), Some("c d+"));
        assert_eq!(get("flag"), Some(""));
        assert_eq!(get("x"), Some("1"));
        assert_eq!(get("bad"), Some("\u{fffd}%zz"));
        assert_eq!(get("="), Some("&"));
        assert_eq!(get("eq"), Some("a=b"));
        assert_eq!(get("none"), None);
        assert_eq!(Query::parse(""), Query::default());
    }
}
