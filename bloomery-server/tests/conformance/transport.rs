//! A and B: start, health, transport, keys, cross-origin. Case 133: too many connections.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Answer, Client, Server, message};

const LOADING: &str = r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;

/// Asks again and again until the model is loaded. Everything before that says that it is not.
fn loads(path: &str) -> Answer {
    let server = Server::launch(&[]);
    let start = Instant::now();
    loop {
        let answer = server.get(path);
        if answer.status == 200 {
            return answer;
        }
        assert_eq!((answer.status, answer.body.as_str()), (503, LOADING));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn case_001_health_from_the_first_moment() {
    for path in ["/health", "/v1/health"] {
        let answer = loads(path);
        assert_eq!(answer.json(), json!({"status": "ok"}));
        assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    }
}

#[test]
fn case_002_other_routes_while_loading() {
    assert!(loads("/props").json()["total_slots"].is_u64());
}

#[test]
fn case_003_unknown_routes_and_wrong_methods() {
    let server = Server::start(&[]);
    for (method, path) in [
        ("GET", "/no-such-route"),
        ("GET", "/v1/chat/completions"),
        ("DELETE", "/health"),
        ("POST", "/v1/models"),
        ("PUT", "/completion"),
        ("GET", "//health"),
        ("GET", "/health/"),
    ] {
        let answer = server.request(method, path, "");
        assert_eq!(
            (answer.status, answer.error_type().as_str()),
            (404, "not_found_error"),
            "{method} {path}"
        );
        assert_eq!(answer.error(), "File Not Found");
    }
}

#[test]
fn case_004_the_content_type_of_curl() {
    let server = Server::start(&[]);
    let headers = "Content-Type: application/x-www-form-urlencoded\r\n";
    let small = r#"{"prompt": "Once", "n_predict": 2}"#.to_owned();
    let padded = format!(r#"{{"prompt": "Once", "n_predict": 2, "x": "{}"}}"#, "y".repeat(3 << 20));
    for body in [small, padded] {
        let answer = server.request_with("POST", "/completion", headers, &body);
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

#[test]
fn case_005_broken_json_costs_one_request() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let answer = client.request("POST", "/v1/chat/completions", r#"{"messages": ["#);
    assert_eq!((answer.status, answer.error_type().as_str()), (400, "invalid_request_error"));
    let answer = client.request("POST", "/completion", r#"{"prompt": "Once", "n_predict": 1}"#);
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn case_006_an_empty_body() {
    let server = Server::start(&[]);
    let mut client = server.client();
    for path in ["/completion", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/tokenize"] {
        let answer = client.request("POST", path, "");
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        assert!(answer.json()["error"].is_object(), "{path}: {}", answer.body);
    }
    assert_eq!(client.request("GET", "/health", "").status, 200);
}

#[test]
fn case_007_two_addresses() {
    if TcpListener::bind("[::1]:0").is_err() {
        return; // A machine without IPv6.
    }
    let server = Server::start(&["--host", "127.0.0.1,::1"]);
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    for host in ["127.0.0.1", "[::1]"] {
        let connect = || Client::new(std::net::TcpStream::connect(format!("{host}:{port}")).unwrap());
        assert_eq!(connect().request("GET", "/health", "").status, 200);
        let mut client = connect();
        let body = r#"{"prompt": "Once", "n_predict": 4, "stream": true}"#;
        client.send(&message("POST", "/completion", "", body));
        assert_eq!(client.head().status, 200);
        assert!(std::iter::from_fn(|| client.event()).count() > 1);
    }
}

#[test]
fn events_arrive_one_by_one() {
    let server = Server::start(&["-np", "1"]);
    let body = json!({"prompt": "Once", "n_predict": 100, "ignore_eos": true, "temperature": 0});
    let events = server.stream("/completion", body);
    let (first, last) = (&events[0], &events[events.len() - 1]);
    // All at the end would be as good as no stream.
    assert!(first.at < last.at / 2, "the first event after {:?}, the last after {:?}", first.at, last.at);
}

#[test]
fn case_008_an_orderly_end() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(&[]);
        let mut idle = server.client();
        assert_eq!(idle.request("GET", "/health", "").status, 200);
        let address = server.url()["http://".len()..].to_owned();
        let status = server.end_by(signal, Duration::from_secs(5));
        assert_eq!(status.code(), Some(0), "{}", server.log());
        TcpListener::bind(address).unwrap();
    }
}

#[test]
fn case_008_an_orderly_end_in_the_middle_of_a_stream() {
    let mut server = Server::start(&["-np", "1"]);
    let body = json!({"prompt": "Once", "n_predict": -1, "ignore_eos": true, "temperature": 1});
    let mut stream = server.open_stream("/completion", body.clone());
    assert!(stream.event().is_some());
    // One more waits for the slot.
    let waiting = server.send("POST", "/completion", &body.to_string());
    let status = server.end_by("TERM", Duration::from_secs(10));
    assert_eq!(status.code(), Some(0), "{}", server.log());
    let last = std::iter::from_fn(|| stream.event()).last().unwrap().json();
    assert!(last["error"]["code"] == 503 || last["stop"] == true, "{last}");
    let answer = Answer::read(waiting);
    assert!(answer.status == 503 || answer.status == 200, "{}", answer.body);
}

#[test]
fn case_009_the_root() {
    let server = Server::start(&["--no-ui", "--api-key", "k"]);
    assert_eq!(server.get("/").status, 404);
    let server = Server::start(&["--api-key", "k"]);
    assert!(matches!(server.get("/").status, 200 | 404));
}

#[test]
fn case_010_leave_to_send_a_chunked_body() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let headers = "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n";
    client.send(&format!("POST /completion HTTP/1.1\r\nHost: x\r\n{headers}\r\n"));
    assert_eq!(client.head().status, 100);
    for part in ["{\"prompt\": \"Once\", ", "\"n_predict\": 2}"] {
        client.send(&format!("{:x}\r\n{part}\r\n", part.len()));
    }
    client.send("0\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["tokens_predicted"], 2);
}

const COMPLETION: &str = r#"{"prompt": "Once", "n_predict": 1}"#;

#[test]
fn case_011_to_014_keys() {
    let server = Server::start(&["--api-key", "K,L"]);
    let post = |headers: &str| server.request_with("POST", "/completions", headers, COMPLETION);
    for headers in
        ["", "Authorization: Bearer wrong\r\n", "X-Api-Key: wrong\r\n", "Authorization: Bearer\r\n"]
    {
        let answer = post(headers);
        assert_eq!((answer.status, answer.error_type().as_str()), (401, "authentication_error"), "{headers}");
        assert_eq!(answer.error(), "Invalid API Key");
    }
    for headers in ["Authorization: Bearer K\r\n", "Authorization: Bearer L\r\n", "X-Api-Key: K\r\n"] {
        assert_eq!(post(headers).status, 200, "{headers}");
    }
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get("/v1/health").status, 200);
    for path in ["/v1/models", "/models", "/props", "/slots", "/metrics", "/nowhere"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
}

#[test]
fn case_015_a_chat_under_the_bare_root() {
    let server = Server::start(&["--api-key", "K"]);
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}).to_string();
    let key = "Authorization: Bearer K\r\nX-Stainless-Lang: python\r\n";
    let answer = server.request_with("POST", "/chat/completions", key, &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json()["choices"].as_array().unwrap().len(), 1);
}

#[test]
fn case_016_preflight() {
    let server = Server::start(&["--api-key", "K"]);
    let answer = server.request_with("OPTIONS", "/completions", "Origin: web.mydomain.fr\r\n", "");
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    let allowed = |name: &str| answer.header(&format!("access-control-allow-{name}"));
    assert_eq!(allowed("origin"), Some("web.mydomain.fr"));
    assert_eq!(allowed("credentials"), Some("true"));
    assert_eq!(allowed("methods"), Some("GET, POST, DELETE, OPTIONS"));
    assert_eq!(allowed("headers"), Some("*"));
}

#[test]
fn case_017_and_018_origins_of_this_machine() {
    let server = Server::start(&["--cors-origins", "localhost"]);
    let answer = |origin: &str| server.request_with("GET", "/health", &format!("Origin: {origin}\r\n"), "");
    for origin in ["http://localhost:8080", "http://127.0.0.1", "http://[::1]:3000"] {
        assert_eq!(answer(origin).header("access-control-allow-origin"), Some(origin));
    }
    for origin in ["http://evil.com", "http://localhost.evil.com", "http://notlocalhost"] {
        let answer = answer(origin);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None), "{origin}");
    }
}

#[test]
fn case_019_a_prefix() {
    let server = Server::launch(&["--api-prefix", "/llm", "--api-key", "K"]);
    let start = Instant::now();
    while server.get("/llm/health").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(server.request_with("GET", "/health", "X-Api-Key: K\r\n", "").status, 404);
    let answer = server.request_with("POST", "/llm/completion", "X-Api-Key: K\r\n", COMPLETION);
    assert_eq!(answer.status, 200);
}

#[test]
fn case_133_half_open_connections() {
    let server = Server::start(&["--max-connections", "64"]);
    // The connection of the last question may still be closing.
    thread::sleep(Duration::from_millis(200));
    let mut open: Vec<Client> = (0..64).map(|_| server.client()).collect();
    open[10].send("GET /hea");
    open[20].send("POST /completion HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
    thread::sleep(Duration::from_millis(200));
    for text in ["", &message("POST", "/completion", "", COMPLETION)] {
        let mut over = server.client();
        over.send(text);
        let answer = over.answer();
        assert_eq!((answer.status, answer.error_type().as_str()), (503, "unavailable_error"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("connection"), Some("close"));
    }
    open.truncate(63);
    let start = Instant::now();
    while server.get("/health").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(2), "service does not resume");
    }
    assert_eq!(open[0].request("GET", "/health", "").status, 200);
}
