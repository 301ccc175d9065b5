//! `GET /`: the chat page, one file without anything from elsewhere.

use hyper::{Method, StatusCode};

use crate::http::{Reply, Request};

const PAGE: &str = include_str!("../ui/index.html");

/// The page talks to its own server only, whatever a model writes.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The chat page, where it is asked for. It needs neither a key nor a loaded model: it says itself what is missing.
#[must_use]
pub fn page(request: &Request) -> Option<Reply> {
    let asked = request.method == Method::GET && matches!(request.path.as_str(), "" | "/" | "/index.html");
    asked.then(|| {
        Reply::whole(StatusCode::OK, "text/html; charset=utf-8", PAGE)
            .with_header("Content-Security-Policy", POLICY)
            .with_header("X-Content-Type-Options", "nosniff")
            .with_header("Cache-Control", "no-cache")
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::HeaderMap;

    use super::*;
    use crate::http::{Query, ReplyBody};

    fn request(method: Method, path: &str) -> Request {
        Request {
            method,
            path: path.to_owned(),
            query: Query::default(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    #[test]
    fn the_page_is_at_the_root_only() {
        for path in ["", "/", "/index.html"] {
            let reply = page(&request(Method::GET, path)).unwrap();
            assert_eq!((reply.status, reply.content_type), (StatusCode::OK, "text/html; charset=utf-8"));
            let ReplyBody::Whole(body) = reply.body else { panic!("{path}") };
            assert!(body.starts_with(b"<!doctype html>"));
        }
        assert!(page(&request(Method::POST, "/")).is_none());
        assert!(page(&request(Method::GET, "/health")).is_none());
    }

    #[test]
    fn the_page_is_small_and_complete_in_itself() {
        assert!(PAGE.len() < 60_000, "{} bytes", PAGE.len());
        for word in
            ["src=\"http", "href=\"http", "@import", "innerHTML", "insertAdjacentHTML", "document.write"]
        {
            assert!(!PAGE.contains(word), "{word}");
        }
    }
}
