//! Cross-origin rules, as browsers ask for them.

use hyper::HeaderMap;
use hyper::header::{HeaderValue, ORIGIN};

use super::Reply;
use crate::options::Cors;

impl Cors {
    /// `Access-Control-Allow-Origin` for a request with these headers, if there is to be one.
    pub(super) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN);
        match self.origins.as_str() {
            "*" if self.credentials => Some(origin.cloned().unwrap_or(HeaderValue::from_static(""))),
            "localhost" => origin.filter(|origin| is_local(origin)).cloned(),
            all => HeaderValue::from_str(all).ok(),
        }
    }

    /// The answer to `OPTIONS`.
    pub(super) fn preflight(&self) -> Reply {
        Reply::whole(hyper::StatusCode::OK, "text/html", "")
            .with_header("Access-Control-Allow-Credentials", self.credentials.to_string())
            .with_header("Access-Control-Allow-Methods", self.methods.clone())
            .with_header("Access-Control-Allow-Headers", self.headers.clone())
    }
}

/// Whether an origin (`scheme://host[:port]`) is this machine.
fn is_local(origin: &HeaderValue) -> bool {
    let Some((_, rest)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else {
        return false;
    };
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "?")),
        None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
    };
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    matches!(host, "localhost" | "127.0.0.1" | "::1")
        && (port.is_empty() || port.strip_prefix(':').is_some_and(digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(cors: &Cors, origin: Option<&'static str>) -> Option<String> {
        let mut headers = HeaderMap::new();
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        cors.allowed_origin(&headers).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn all_origins_are_echoed_with_credentials_and_named_without() {
        let cors = Cors::default();
        assert_eq!(allowed(&cors, Some("web.mydomain.fr")).as_deref(), Some("web.mydomain.fr"));
        assert_eq!(allowed(&cors, None).as_deref(), Some(""));
        let cors = Cors { credentials: false, ..cors };
        assert_eq!(allowed(&cors, Some("web.mydomain.fr")).as_deref(), Some("*"));
    }

    #[test]
    fn one_origin_is_always_named() {
        let cors = Cors { origins: "https://a.example".to_owned(), ..Cors::default() };
        assert_eq!(allowed(&cors, Some("https://b.example")).as_deref(), Some("https://a.example"));
    }

    #[test]
    fn localhost_is_only_this_machine() {
        let cors = Cors { origins: "localhost".to_owned(), ..Cors::default() };
        for origin in [
            "http://localhost:8080",
            "http://127.0.0.1",
            "http://[::1]:3000",
            "https://[::1]",
            "app://localhost",
        ] {
            assert_eq!(allowed(&cors, Some(origin)).as_deref(), Some(origin));
        }
        for origin in [
            "http://evil.com",
            "http://localhost.evil.com",
            "http://notlocalhost",
            "localhost",
            "http://localhost:80@evil.com",
            "http://localhost@evil.com",
            "http://[::1].evil.com",
            "http://[::1",
            "http://127.0.0.1/evil",
            "null",
            "",
        ] {
            assert_eq!(allowed(&cors, Some(origin)), None, "{origin}");
        }
        assert_eq!(allowed(&cors, None), None);
    }
}
