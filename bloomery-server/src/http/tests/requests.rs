//! Middleware, bodies and what hyper makes of odd requests.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use super::fake::{HEALTH, OK, Server, post, read_all, read_until};

const CLOSE: &str = "connection: close\r\n";

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n{CLOSE}{headers}\r\n")
}

fn closing(text: &str) -> String {
    text.replacen("host: x\r\n", &format!("host: x\r\n{CLOSE}"), 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_is_preflight_loading_key_prefix_route() {
    let server = Server::start(|options| {
        options.api_keys = vec!["k".to_owned()];
        options.prefix = "/llm".to_owned();
    })
    .await;
    let status = async |text: String| server.exchange(&text).await[9..12].to_owned();
    server.fake.loading.store(true, Ordering::SeqCst);
    let preflight = format!("OPTIONS /any HTTP/1.1\r\nhost: x\r\norigin: http://a\r\n{CLOSE}\r\n");
    let answer = server.exchange(&preflight).await;
    for part in [
        "HTTP/1.1 200 ",
        "Access-Control-Allow-Origin: http://a\r\n",
        "Access-Control-Allow-Credentials: true\r\n",
        "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\n",
        "Access-Control-Allow-Headers: *\r\n",
        "Content-Type: text/html\r\n",
        "Content-Length: 0\r\n",
    ] {
        assert!(answer.contains(part), "{part} is not in {answer}");
    }
    let answer = server.exchange(&get("/nowhere", "")).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: 1\r\n"), "{answer}");
    assert!(
        answer.ends_with(r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#),
        "{answer}"
    );
    server.fake.loading.store(false, Ordering::SeqCst);
    assert_eq!(status(get("/llm/nowhere", "")).await, "401");
    assert_eq!(status(get("/nowhere", "")).await, "401");
    assert_eq!(status(get("/llm/nowhere", "authorization: Bearer k\r\n")).await, "404");
    assert_eq!(status(get("/health", "x-api-key: k\r\n")).await, "404");
    assert_eq!(status(get("/llmhealth", "x-api-key: k\r\n")).await, "404");
    assert_eq!(status(get("/llm/health", "")).await, "200");
    assert_eq!(status(get("/llm/%68ealth?x=1", "")).await, "200");
    assert_eq!(status(get("/llm/", "")).await, "200");
    assert_eq!(status(get("http://x/llm/health", "")).await, "200");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_neither_a_model_nor_a_key() {
    let start = async |ui| {
        let server = Server::start(|options| {
            options.api_keys = vec!["k".to_owned()];
            options.prefix = "/llm".to_owned();
            options.ui = ui;
        });
        let server = server.await;
        server.fake.loading.store(true, Ordering::SeqCst);
        server
    };
    let (with, without) = (start(true).await, start(false).await);
    for path in ["/llm", "/llm/", "/llm/index.html"] {
        let answer = with.exchange(&get(path, "")).await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("</html>\n"), "{path}: {answer}");
        assert!(answer.contains("Content-Security-Policy: default-src 'none'"), "{path}");
        assert!(without.exchange(&get(path, "")).await.starts_with("HTTP/1.1 503 "), "{path}");
    }
    without.fake.loading.store(false, Ordering::SeqCst);
    assert!(without.exchange(&get("/llm/index.html", "x-api-key: k\r\n")).await.starts_with("HTTP/1.1 404 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn head_is_get_without_a_body() {
    let server = Server::start(|_| {}).await;
    let answer = server.exchange(&get("/health", "").replace("GET", "HEAD")).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(answer.contains("Content-Length: 15\r\n"), "{answer}");
    let answer = server.exchange(&get("/echo?a=%20b", "").replace("GET", "HEAD")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_version_is_answered_and_closed() {
    let server = Server::start(|_| {}).await;
    let answer = server.exchange("GET /health HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200 ") && answer.ends_with(OK), "{answer}");
    let mut stream = server.connect().await;
    stream.write_all(b"POST /stream HTTP/1.0\r\n\r\n").await.unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(!head.contains("chunked"), "{head}");
    assert!(read_until(&mut stream, "\n\n").await.starts_with("data: {"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(|_| {}).await;
    let mut stream = server.connect().await;
    let text = [post("/echo", 3), HEALTH.to_owned(), post("/slow", 0), post("/echo", 5)].concat();
    stream.write_all(text.as_bytes()).await.unwrap();
    for end in ["\"bytes\":3}", OK, "{\"status\":\"late\"}", "\"bytes\":5}"] {
        read_until(&mut stream, end).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_bodies_and_leave_to_send() {
    let server = Server::start(|_| {}).await;
    let mut stream = server.connect().await;
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(read_until(&mut stream, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n").await.unwrap();
    read_until(&mut stream, "\"bytes\":5}").await;
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_leave_to_send_what_is_not_wanted() {
    let server = Server::start(|options| options.api_keys = vec!["k".to_owned()]).await;
    let answer = server
        .exchange(
            "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\nexpect: 100-continue\r\n\r\n",
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("Connection: close\r\n"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_gets_a_readable_answer() {
    let server = Server::start(|options| options.max_body = 1 << 20).await;
    let mut stream = server.connect().await;
    // The client sends everything before it reads, and the connection lives on.
    for text in [
        post("/echo", (1 << 20) + 1),
        post("/echo", 40 << 20),
        format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
            format!("10000\r\n{}\r\n", "y".repeat(1 << 16)).repeat(40)
        ),
    ] {
        stream.write_all(text.as_bytes()).await.unwrap();
        let answer = read_until(&mut stream, "\"type\":\"invalid_request_error\"}}").await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("\"code\":413"), "{answer}");
    }
    stream.write_all(post("/echo", 1 << 20).as_bytes()).await.unwrap();
    read_until(&mut stream, "\"bytes\":1048576}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn even_a_body_too_long_to_discard_gets_one() {
    let server =
        Server::start_within(|options| options.max_body = 1 << 20, |limits| limits.body.discard = 2 << 20)
            .await;
    let mut stream = server.connect().await;
    let sent = stream.write_all(post("/echo", 5 << 20).as_bytes()).await;
    let answer = read_all(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("Connection: close\r\n"),
        "{sent:?} {answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_share_a_budget() {
    let server = Server::start_within(|_| {}, |limits| limits.bodies = 1 << 20).await;
    let mut first = server.connect().await;
    first.write_all(&post("/echo", 900 << 10).as_bytes()[..800 << 10]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = server.exchange(&closing(&post("/echo", 300 << 10))).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: 1"), "{answer}");
    assert!(server.exchange(&closing(&post("/echo", 60 << 10))).await.contains("\"bytes\":61440}"));
    first.write_all(&post("/echo", 900 << 10).as_bytes()[800 << 10..]).await.unwrap();
    read_until(&mut first, "\"bytes\":921600}").await;
    assert!(server.exchange(&closing(&post("/echo", 300 << 10))).await.contains("\"bytes\":307200}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_of_one_request() {
    let server = Server::start(|_| {}).await;
    let mut stream = server.connect().await;
    for length in [0, 100_000] {
        stream.write_all(post("/panic", length).as_bytes()).await.unwrap();
        let answer = read_until(&mut stream, "\"type\":\"server_error\"}}").await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    }
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn work_on_long_bodies_stops_nobody() {
    let server = Server::start(|_| {}).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut stream = server.connect().await;
        stream.write_all(post("/burn", 100_000).as_bytes()).await.unwrap();
        streams.push(stream);
    }
    // From outside: the runtime's own clock would stop with it.
    let address = server.address;
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        let start = Instant::now();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(HEALTH.as_bytes()).unwrap();
        assert_ne!(stream.read(&mut [0; 1000]).unwrap(), 0);
        start.elapsed()
    });
    for stream in &mut streams {
        read_until(stream, "{\"status\":\"burnt\"}").await;
    }
    let took = other.join().unwrap();
    assert!(took < Duration::from_millis(500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_is_refused_in_words() {
    let server = Server::start(|_| {}).await;
    let long = "x".repeat(70_000);
    for (text, status) in [
        ("\0\0\0\0garbage\r\n\r\n".to_owned(), "400"),
        ("GET /health HTTP/9.9\r\n\r\n".to_owned(), "400"),
        ("GET /he alth HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("POST /echo HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_owned(), "400"),
        ("POST /echo HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".to_owned(), "400"),
        (format!("GET /health HTTP/1.1\r\nx: {long}\r\n\r\n"), "431"),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), "431"),
        (format!("GET /health HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200)), "431"),
    ] {
        let answer = server.exchange(&text).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{:?}: {answer}",
            &text[..40.min(text.len())]
        );
    }
    assert!(server.exchange(&get("/health", "")).await.ends_with(OK));
}
