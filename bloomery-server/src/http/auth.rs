//! API keys.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use subtle::{Choice, ConstantTimeEq};

/// The keys that open the server.
#[derive(Clone)]
pub(super) struct Keys(Vec<String>);

impl Keys {
    pub(super) fn new(keys: &[String]) -> Self {
        Self(keys.to_vec())
    }

    /// Whether a request with these headers may pass. All may where there are no keys. The time this takes tells the
    /// lengths of the keys and no more.
    pub(super) fn admit(&self, headers: &HeaderMap) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let given = |name: &str| {
            headers.get(name).map(hyper::header::HeaderValue::as_bytes).filter(|key| !key.is_empty())
        };
        let Some(key) = given(AUTHORIZATION.as_str()).or_else(|| given("x-api-key")) else { return false };
        let key = key.strip_prefix(b"Bearer ").unwrap_or(key);
        let known = self.0.iter().fold(Choice::from(0), |known, one| known | one.as_bytes().ct_eq(key));
        known.into()
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn admits(keys: &[&str], headers: &[(&'static str, &'static str)]) -> bool {
        let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
        let pairs = headers
            .iter()
            .map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Keys::new(&keys).admit(&pairs.collect())
    }

    #[test]
    fn without_keys_everybody_passes() {
        assert!(admits(&[], &[]));
        assert!(admits(&[], &[("authorization", "Bearer whatever")]));
    }

    #[test]
    fn a_key_may_come_in_three_ways() {
        for headers in [
            [("authorization", "Bearer k2")],
            [("authorization", "k2")],
            [("x-api-key", "k2")],
            [("x-api-key", "Bearer k2")],
        ] {
            assert!(admits(&["k1", "k2"], &headers), "{headers:?}");
        }
        assert!(admits(&["k1"], &[("authorization", ""), ("x-api-key", "k1")]));
    }

    #[test]
    fn everything_else_is_refused() {
        for headers in [
            &[][..],
            &[("authorization", "Bearer k")],
            &[("authorization", "Bearer k11")],
            &[("authorization", "bearer k1")],
            &[("authorization", "Bearer  k1")],
            &[("authorization", "Basic k1")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer wrong"), ("x-api-key", "k1")],
            &[("x-api-key", "")],
        ] {
            assert!(!admits(&["k1"], headers), "{headers:?}");
        }
    }
}
