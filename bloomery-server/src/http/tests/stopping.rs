//! The end of a server.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::fake::{HEALTH, OK, SOON, Server, post, read_all, read_until};

/// Stops the server and says how long that took.
async fn stop(server: Server) -> Duration {
    let start = Instant::now();
    let Server { stop, task, .. } = server;
    stop.unwrap().send(()).unwrap();
    timeout(SOON, task).await.expect("the server has stopped").unwrap();
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_stops_at_once() {
    let server = Server::start(|_| {}).await;
    let mut idle = server.connect().await;
    idle.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut idle, OK).await;
    let mut fresh = server.connect().await;
    sleep(Duration::from_millis(50)).await;
    let address = server.address;
    let closing = tokio::spawn(async move { (read_all(&mut idle).await, read_all(&mut fresh).await) });
    let took = stop(server).await;
    assert!(took < Duration::from_millis(400), "{took:?}");
    assert_eq!(closing.await.unwrap(), (String::new(), String::new()));
    assert!(TcpStream::connect(address).await.is_err(), "the port is still taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_soon_is_answered() {
    let server = Server::start(|_| {}).await;
    let mut stream = server.connect().await;
    stream.write_all(post("/slow", 0).as_bytes()).await.unwrap();
    server.running(1).await;
    let reader = tokio::spawn(async move { read_all(&mut stream).await });
    let took = stop(server).await;
    assert!(took < Duration::from_millis(900), "{took:?}");
    assert!(reader.await.unwrap().ends_with("{\"status\":\"late\"}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_is_told_why() {
    let server = Server::start(|_| {}).await;
    let mut readers = Vec::new();
    for path in ["/wait", "/stream", "/silent", "/v1/messages"] {
        let mut stream = server.connect().await;
        stream.write_all(post(path, 0).as_bytes()).await.unwrap();
        readers.push(tokio::spawn(async move { read_all(&mut stream).await }));
    }
    server.running(4).await;
    let fake = server.fake.clone();
    let took = stop(server).await;
    assert!(took > Duration::from_millis(400) && took < Duration::from_millis(1200), "{took:?}");
    let mut texts = Vec::new();
    for reader in readers {
        texts.push(reader.await.unwrap());
    }
    let error =
        r#"{"error":{"code":503,"message":"The server is shutting down","type":"unavailable_error"}}"#;
    assert!(texts[0].starts_with("HTTP/1.1 503 ") && texts[0].ends_with(error), "{}", texts[0]);
    for text in &texts[1..3] {
        assert!(text.ends_with(&format!("data: {error}\n\n\r\n0\r\n\r\n")), "{text}");
    }
    assert!(texts[3].contains("event: error\ndata: {\"type\":\"error\",\"error\":{"), "{}", texts[3]);
    sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.running.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_or_end_a_head_hold_nobody_up() {
    let server = Server::start(|_| {}).await;
    let mut flood = server.connect().await;
    flood.write_all(post("/flood", 0).as_bytes()).await.unwrap();
    let mut half = server.connect().await;
    half.write_all(b"GET /health HT").await.unwrap();
    let mut body = server.connect().await;
    body.write_all(&post("/echo", 1000).as_bytes()[..200]).await.unwrap();
    server.running(1).await;
    sleep(Duration::from_millis(100)).await;
    let took = stop(server).await;
    assert!(took < Duration::from_millis(1600), "{took:?}");
}
