//! `GET /`: the chat page, one file without anything from elsewhere.

use hyper::{Method, StatusCode};

use crate::http::Reply;

const PAGE: &str = include_str!("../ui/index.html");

/// The page talks to its own server only, whatever a model writes.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The chat page, where it is asked for. It needs neither a key nor a loaded model: it says itself what is missing.
#[must_use]
pub fn page(method: &Method, path: &str) -> Option<Reply> {
    let asked = [Method::GET, Method::HEAD].contains(method) && matches!(path, "" | "/" | "/index.html");
    asked.then(|| {
        Reply::whole(StatusCode::OK, "text/html; charset=utf-8", PAGE)
            .with_header("Content-Security-Policy", POLICY)
            .with_header("X-Content-Type-Options", "nosniff")
            .with_header("Cache-Control", "no-cache")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ReplyBody;

    #[test]
    fn the_page_is_at_the_root_only() {
        for path in ["", "/", "/index.html"] {
            let reply = page(&Method::GET, path).unwrap();
            assert_eq!((reply.status, reply.content_type), (StatusCode::OK, "text/html; charset=utf-8"));
            let ReplyBody::Whole(body) = reply.body else { panic!("{path}") };
            assert!(body.starts_with(b"<!doctype html>"));
        }
        assert!(page(&Method::HEAD, "/").is_some());
        assert!(page(&Method::POST, "/").is_none());
        assert!(page(&Method::GET, "/health").is_none());
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
