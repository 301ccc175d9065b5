//! How many, how slow and how long.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::fake::{HEALTH, OK, SOON, Server, post, read_all, read_until};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_over_the_limit_is_told_and_closed() {
    let server = Server::start(|options| options.max_connections = 4).await;
    // Half-open connections count.
    let mut open = Vec::new();
    for text in ["", "GET", "GET /health HTTP/1.1\r\n", HEALTH] {
        let mut stream = server.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        open.push(stream);
    }
    read_until(&mut open[3], OK).await;
    for text in ["", HEALTH, &post("/echo", 3 << 20)] {
        let start = Instant::now();
        let answer = server.exchange(text).await;
        assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
        assert!(answer.contains("Retry-After: 1\r\nContent-Length: "), "{answer}");
        assert!(answer.contains("Connection: close\r\n\r\n{\"error\":{\"code\":503,"), "{answer}");
        assert!(start.elapsed() < SOON, "it was not closed");
    }
    open.remove(0);
    sleep(ms(100)).await;
    let mut stream = server.connect().await;
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
    // The others were not touched.
    open[1].write_all(b"\r\n").await.unwrap();
    read_until(&mut open[1], OK).await;
    open[2].write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut open[2], OK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_over_the_limit_do_no_harm() {
    let server = Server::start(|options| options.max_connections = 1).await;
    let mut first = server.connect().await;
    first.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut first, OK).await;
    let mut others = Vec::new();
    for _ in 0..200 {
        others.push(server.connect().await);
    }
    first.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut first, OK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_head_is_cut() {
    let server = Server::start_within(|_| {}, |limits| limits.head = ms(300)).await;
    for text in ["", HEALTH] {
        let mut stream = server.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        if !text.is_empty() {
            read_until(&mut stream, OK).await;
        }
        // A byte now and then does not help.
        let start = Instant::now();
        let (mut reader, mut writer) = stream.split();
        let drip = async {
            for byte in HEALTH.bytes().cycle() {
                if byte != b'\r' && byte != b'\n' && writer.write_all(&[byte]).await.is_err() {
                    break;
                }
                sleep(ms(40)).await;
            }
        };
        tokio::select! {
            () = drip => {}
            text = read_all(&mut reader) => assert_eq!(text, ""),
        }
        let took = start.elapsed();
        assert!(took > ms(250) && took < ms(900), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_lives_between_requests_and_not_for_ever() {
    let server = Server::start_within(|_| {}, |limits| limits.head = ms(400)).await;
    let mut stream = server.connect().await;
    for _ in 0..4 {
        stream.write_all(HEALTH.as_bytes()).await.unwrap();
        read_until(&mut stream, OK).await;
        sleep(ms(250)).await;
    }
    // A request that takes longer than an idle connection may live.
    stream.write_all(post("/slow", 0).as_bytes()).await.unwrap();
    read_until(&mut stream, "{\"status\":\"late\"}").await;
    let start = Instant::now();
    assert_eq!(read_all(&mut stream).await, "");
    assert!(start.elapsed() > ms(300) && start.elapsed() < ms(900), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_body_gets_a_readable_answer() {
    let server = Server::start_within(
        |_| {},
        |limits| {
            limits.body.silence = ms(700);
            limits.body.rate = 1000;
        },
    )
    .await;
    // Whatever came before, silence is silence.
    for sent in [200, 50_000] {
        let mut silent = server.connect().await;
        silent.write_all(&post("/echo", 100_000).as_bytes()[..sent]).await.unwrap();
        let answer = read_all(&mut silent).await;
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("Connection: close"), "{answer}");
    }
    // 20 bytes in 80 ms are a quarter of the rate.
    let mut drip = server.connect().await;
    let (mut reader, mut writer) = drip.split();
    let text = post("/echo", 100_000);
    let drops = async {
        for part in text.as_bytes().chunks(20) {
            let _ = writer.write_all(part).await;
            sleep(ms(80)).await;
        }
    };
    tokio::select! {
        () = drops => {}
        answer = read_all(&mut reader) => assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}"),
    }
    // Twice the rate is well.
    let mut steady = server.connect().await;
    for part in post("/echo", 2000).as_bytes().chunks(100) {
        steady.write_all(part).await.unwrap();
        sleep(ms(50)).await;
    }
    read_until(&mut steady, "\"bytes\":2000}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_is_dropped() {
    let server = Server::start_within(|_| {}, |limits| limits.write = ms(400)).await;
    let mut stream = server.connect().await;
    stream.write_all(post("/flood", 0).as_bytes()).await.unwrap();
    server.running(1).await;
    let took = server.running(0).await;
    assert!(took > ms(300), "{took:?}");
    // One that takes a little again and again is not.
    let mut stream = server.connect().await;
    stream.write_all(post("/flood", 0).as_bytes()).await.unwrap();
    let mut buffer = vec![0; 8 << 20];
    for _ in 0..10 {
        stream.read_exact(&mut buffer).await.unwrap();
        sleep(ms(150)).await;
    }
    server.running(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_of_a_large_reply_is_not_idle() {
    let server = Server::start_within(|_| {}, |limits| limits.head = ms(200)).await;
    let mut stream = server.connect().await;
    stream.write_all(post("/large", 0).as_bytes()).await.unwrap();
    let start = Instant::now();
    let mut reply = Vec::with_capacity(32 << 20);
    while reply.len() < 10 << 20 {
        sleep(ms(300)).await;
        let read = stream.read_buf(&mut reply).await.unwrap();
        assert!(read > 0, "cut after {} bytes", reply.len());
    }
    assert!(start.elapsed() > ms(600), "the reader was not slow");
    // Sent now: once the last megabytes wait in the system, the server counts the time to the next head.
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    while !reply.ends_with(OK.as_bytes()) {
        let read = stream.read_buf(&mut reply).await.unwrap();
        assert!(read > 0, "cut after {} bytes", reply.len());
    }
    assert!(reply.len() > 24 << 20, "{}", reply.len());
}
