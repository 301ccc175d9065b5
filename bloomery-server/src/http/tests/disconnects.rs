//! A client that goes away takes its request with it, whatever the request is waiting for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::fake::{HEALTH, OK, Server, post, read_all, read_until};

/// Ways to go.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Close,
    Reset,
    HalfClose,
}

const WAYS: [Way; 3] = [Way::Close, Way::Reset, Way::HalfClose];

/// Goes away. What is returned keeps a half-closed socket open.
async fn leave(mut stream: TcpStream, way: Way) -> Option<TcpStream> {
    match way {
        Way::Close => None,
        Way::Reset => {
            stream.set_zero_linger().unwrap();
            None
        }
        Way::HalfClose => {
            stream.shutdown().await.unwrap();
            Some(stream)
        }
    }
}

/// Waits until no stream gets rid of events any more, and says how many have gone.
async fn stalled(server: &Server) -> usize {
    let mut before = usize::MAX;
    loop {
        let sent = server.fake.sent.load(Ordering::SeqCst);
        // 256 MiB: the buffers of two sockets at their largest are far below.
        assert!(sent < 16_384, "{sent} events of 16 KiB wait for one reader");
        if sent == before {
            return sent;
        }
        before = sent;
        sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nothing_is_written() {
    let server = Server::start(|_| {}).await;
    for way in WAYS {
        for path in ["/wait", "/silent"] {
            let mut stream = server.connect().await;
            stream.write_all(post(path, 10).as_bytes()).await.unwrap();
            server.running(1).await;
            sleep(Duration::from_millis(50)).await;
            let kept = leave(stream, way).await;
            let took = server.running(0).await;
            assert!(took < Duration::from_millis(1000), "{way:?} {path} {took:?}");
            drop(kept);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_middle_of_a_stream() {
    let server = Server::start(|_| {}).await;
    for way in WAYS {
        let mut stream = server.connect().await;
        stream.write_all(post("/stream", 0).as_bytes()).await.unwrap();
        for _ in 0..3 {
            read_until(&mut stream, "\n\n").await;
        }
        let kept = leave(stream, way).await;
        let took = server.running(0).await;
        assert!(took < Duration::from_millis(1000), "{way:?} {took:?}");
        drop(kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_further_requests_sent_ahead() {
    let server = Server::start(|_| {}).await;
    for way in WAYS {
        for (path, ahead) in [("/wait", 1), ("/wait", 1000), ("/silent", 1), ("/stream", 1)] {
            let mut stream = server.connect().await;
            stream.write_all(post(path, 0).as_bytes()).await.unwrap();
            server.running(1).await;
            stream.write_all(HEALTH.repeat(ahead).as_bytes()).await.unwrap();
            let kept = leave(stream, way).await;
            let took = server.running(0).await;
            assert!(took < Duration::from_millis(1000), "{way:?} {path} {took:?}");
            drop(kept);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_client_does_not_read() {
    let server = Server::start(|_| {}).await;
    for way in WAYS {
        let mut stream = server.connect().await;
        stream.write_all(post("/flood", 0).as_bytes()).await.unwrap();
        stalled(&server).await;
        let kept = leave(stream, way).await;
        let took = server.running(0).await;
        assert!(took < Duration::from_millis(1000), "{way:?} {took:?}");
        drop(kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_stalls_only_itself() {
    let server = Server::start(|_| {}).await;
    let mut slow = server.connect().await;
    slow.write_all(post("/flood", 0).as_bytes()).await.unwrap();
    let sent = stalled(&server).await;
    let mut other = server.connect().await;
    other.write_all(post("/stream", 0).as_bytes()).await.unwrap();
    read_until(&mut other, "\n\n").await;
    // It goes on where it stopped.
    let mut buffer = vec![0; 1 << 20];
    while server.fake.sent.load(Ordering::SeqCst) == sent {
        assert_ne!(slow.read(&mut buffer).await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_middle_of_a_body() {
    let server = Server::start(|_| {}).await;
    for way in WAYS {
        let mut stream = server.connect().await;
        stream.write_all(&post("/echo", 1000).as_bytes()[..500]).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        if let Some(mut stream) = leave(stream, way).await {
            assert_eq!(read_all(&mut stream).await, "");
        }
    }
    assert!(server.exchange(&HEALTH.replace("x\r\n", "x\r\nconnection: close\r\n")).await.ends_with(OK));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_at_once_is_answered_to_a_half_closed_client_too() {
    let server = Server::start(|_| {}).await;
    for _ in 0..20 {
        let mut stream = server.connect().await;
        stream.write_all(HEALTH.repeat(2).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = read_all(&mut stream).await;
        assert_eq!(answer.matches(OK).count(), 2, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_stay_are_left_alone() {
    let server = Server::start(|_| {}).await;
    let mut streams = Vec::new();
    for path in ["/wait", "/silent", "/stream"] {
        let mut stream = server.connect().await;
        stream.write_all(post(path, 0).as_bytes()).await.unwrap();
        streams.push(stream);
    }
    server.running(3).await;
    drop(streams.remove(1));
    server.running(2).await;
    sleep(Duration::from_millis(700)).await;
    assert_eq!(server.fake.running.load(Ordering::SeqCst), 2);
    read_until(&mut streams[1], "\n\n").await;
}
