//! Requests that are wrong, each with what has to come of it.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::leaving;
use crate::support::{Answer, Client, Server, message};

/// One kind of bad client.
type Attack = fn(&Server, usize);

/// All kinds.
pub(crate) const ALL: [(&str, Attack); 21] = [
    ("invalid UTF-8", invalid_utf8),
    ("in the queue", leaving::in_the_queue),
    ("duplicate fields", duplicate_fields),
    ("garbage", garbage),
    ("in a stream", leaving::in_a_stream),
    ("deep JSON", deep_json),
    ("wrong keys", wrong_keys),
    ("in a prompt", leaving::in_a_prompt),
    ("huge heads", huge_heads),
    ("context overflow", context_overflow),
    ("without a word", leaving::without_a_word),
    ("while it generates", leaving::while_it_generates),
    ("unknown model", unknown_model),
    ("slow senders", slow_senders),
    ("half-closed", leaving::half_closed),
    ("broken framing", broken_framing),
    ("odd numbers", odd_numbers),
    ("not reading", leaving::not_reading),
    ("odd paths", odd_paths),
    ("surrogates", surrogates),
    ("many requests at once", leaving::with_many_requests_sent),
];

const KEY: &str = "Authorization: Bearer K\r\n";

/// GET with the key.
pub(crate) fn get(server: &Server, path: &str) -> Answer {
    server.request_with("GET", path, KEY, "")
}

/// POST with the key.
pub(crate) fn post(server: &Server, path: &str, body: &str) -> Answer {
    server.request_with("POST", path, KEY, body)
}

/// A POST as bytes, with the key.
pub(crate) fn bytes(path: &str, body: &str) -> String {
    message("POST", path, KEY, body)
}

#[track_caller]
fn refused(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{}", answer.body);
    answer.error_type();
}

/// Sends bytes on a new connection and reads until the server closes it, which must be soon.
fn throw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = server.connect();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The server may have closed before the last byte.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn invalid_utf8(server: &Server, _: usize) {
    for path in ["/completion", "/v1/chat/completions", "/v1/messages", "/tokenize"] {
        let body = b"{\"prompt\": \"\xff\xfe\xc3\", \"content\": \"\xe2\x82\"}";
        let head = format!(
            "POST {path} HTTP/1.1\r\n{KEY}Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = throw(server, &[head.as_bytes(), body].concat());
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"error\""), "{path}: {answer}");
    }
}

fn duplicate_fields(server: &Server, _: usize) {
    let body = r#"{"prompt": 5, "prompt": "Once", "n_predict": 9, "n_predict": 2, "temperature": 0}"#;
    let answer = post(server, "/completion", body);
    assert_eq!(
        (answer.status, answer.json()["tokens_predicted"].as_u64()),
        (200, Some(2)),
        "{}",
        answer.body
    );
}

fn garbage(server: &Server, client: usize) {
    // The beginnings of TLS and of HTTP/2, and bytes of no protocol.
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20);
    let noise: Vec<u8> = (0..3000usize).map(|i| (i * 7919 + client * 31 + i / 13) as u8).collect();
    for bytes in [&tls[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &noise, b"\r\n\r\n\r\nGET\r\n\r\n"] {
        let answer = throw(server, bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

fn deep_json(server: &Server, _: usize) {
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    for value in [format!("{open}{close}"), open, objects] {
        for (path, field) in [
            ("/completion", "prompt"),
            ("/completion", "unknown"),
            ("/completion", "json_schema"),
            ("/v1/chat/completions", "messages"),
            ("/v1/messages", "tools"),
            ("/tokenize", "content"),
        ] {
            refused_or_envelope(&post(server, path, &format!("{{\"{field}\": {value}}}")));
        }
    }
}

/// 400 in either of the two shapes that errors have.
fn refused_or_envelope(answer: &Answer) {
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.json()["error"]["message"].is_string(), "{}", answer.body);
}

fn wrong_keys(server: &Server, _: usize) {
    let body = "x".repeat(2 << 20);
    for headers in ["", "Authorization: Bearer k\r\n", "X-Api-Key: KK\r\n", "Authorization: Basic Sw==\r\n"] {
        refused(&server.request_with("POST", "/completion", headers, &body), 401);
    }
    let long = format!("Authorization: Bearer {}\r\n", "K".repeat(60_000));
    refused(&server.request_with("GET", "/props", &long, ""), 401);
}

fn huge_heads(server: &Server, _: usize) {
    let long = "x".repeat(70_000);
    for text in [
        format!("GET /health HTTP/1.1\r\nX-Long: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\n\r\n"),
        format!("GET /health HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5000)),
        format!("GET /health HTTP/1.1\r\n{}", "A: b\r\n".repeat(200_000)),
    ] {
        let answer = throw(server, text.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

fn context_overflow(server: &Server, _: usize) {
    let long = "Once upon a time there was a fox. ".repeat(200);
    let chat = json!({"messages": [{"role": "user", "content": long}], "stream": true});
    for (path, body) in [
        ("/completion", json!({"prompt": long})),
        ("/completion", json!({"prompt": long, "stream": true})),
        ("/v1/chat/completions", chat),
    ] {
        let answer = post(server, path, &body.to_string());
        assert_eq!((answer.status, answer.error_type().as_str()), (400, "exceed_context_size_error"));
    }
}

pub(crate) fn large_bodies(server: &Server) {
    let answer = post(server, "/completion", &"x".repeat((100 << 20) + 1));
    refused(&answer, 413);
    let fits = json!({"prompt": "Once", "n_predict": 1, "unknown": "y".repeat(90 << 20)}).to_string();
    assert_eq!(post(server, "/completion", &fits).status, 200);
    let numbers = format!("{{\"prompt\": [{}1]}}", "1,".repeat(4 << 20));
    refused(&post(server, "/completion", &numbers), 400);
}

fn unknown_model(server: &Server, _: usize) {
    let body = json!({"model": "no/such-model", "prompt": "Once", "n_predict": 1});
    assert_eq!(post(server, "/completion", &body.to_string()).status, 200);
    refused(&get(server, "/v1/models/no-such-model"), 404);
}

fn slow_senders(server: &Server, _: usize) {
    let mut streams: Vec<_> = (0..8).map(|_| server.connect()).collect();
    let text = bytes("/completion", &"x".repeat(100));
    for part in text.as_bytes().chunks(text.len() / 6).take(4) {
        for stream in &mut streams {
            stream.write_all(part).unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn broken_framing(server: &Server, _: usize) {
    let head = format!("POST /completion HTTP/1.1\r\nConnection: close\r\n{KEY}");
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (rest, statuses) in [
        (format!("{chunked}\r\nzz\r\n"), &[400][..]),
        (format!("{chunked}\r\nfffffffffffffffff\r\n"), &[400]),
        (format!("{chunked}\r\n-1\r\n\r\n"), &[400]),
        (format!("{chunked}Content-Length: 3\r\n\r\n0\r\n\r\n"), &[400]),
        ("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}".to_owned(), &[400]),
        ("Content-Length: 18446744073709551616\r\n\r\n".to_owned(), &[400]),
        ("Content-Length: 18446744073709551615\r\nExpect: 100-continue\r\n\r\n".to_owned(), &[413, 431]),
        ("Content-Length: 99999999999999\r\nExpect: 100-continue\r\n\r\n".to_owned(), &[413]),
        ("Transfer-Encoding: gzip\r\n\r\n{}".to_owned(), &[400, 501]),
    ] {
        let answer = throw(server, format!("{head}{rest}").as_bytes());
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        // A body that breaks off has no answer.
        let known = status.map_or(answer.is_empty(), |status: u16| statuses.contains(&status));
        assert!(known, "{rest:?}: {answer}");
    }
}

fn odd_numbers(server: &Server, _: usize) {
    for field in [
        r#""n_predict": 1e999"#,
        r#""n_predict": 18446744073709551616"#,
        r#""n_predict": -9223372036854775808"#,
        r#""temperature": "hot""#,
        r#""seed": [1]"#,
        r#""top_k": 9223372036854775808"#,
    ] {
        let body = format!(r#"{{"prompt": "Once", "stop": ["."], {field}}}"#);
        let answer = post(server, "/completion", &body);
        assert_eq!(answer.status, 400, "{field}: {}", answer.body);
        answer.error_type();
    }
}

fn odd_paths(server: &Server, _: usize) {
    for path in
        ["/%00", "/../../etc/passwd", "/%ff%fe", "/slots/-1", "/slots/99999999999999999999", "/.", "/%2e%2e/"]
    {
        refused(&get(server, path), 404);
    }
    for path in ["/slots/99?action=erase", "/slots/x?action=save", "/slots/0?action=%ff"] {
        let answer = post(server, path, "{}");
        assert!(matches!(answer.status, 400 | 501), "{path}: {}", answer.body);
    }
}

fn surrogates(server: &Server, _: usize) {
    let body = r#"{"prompt": "Once \ud83d upon", "n_predict": 1}"#;
    assert_eq!(post(server, "/completion", body).status, 200);
    let mut client = Client::new(server.connect());
    client.send(&bytes("/tokenize", r#"{"content": "\udc00\ud83d\ude00"}"#));
    assert_eq!(client.answer().status, 200);
}
