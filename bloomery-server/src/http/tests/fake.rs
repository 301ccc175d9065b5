//! A server with handlers that wait, stream, burn time and panic, and a client that sends bytes as they are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::error::{ApiError, ErrorKind};
use crate::http::server::serve_within;
use crate::http::service::{Answer, Limits};
use crate::http::{Events, Reply, Request, bind};
use crate::options::HttpOptions;

/// Long enough for anything that is to happen at once, on a machine that does other things too.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// What the handlers do and have done.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) loading: AtomicBool,
    /// Handlers and streams that have not been dropped.
    pub(super) running: AtomicUsize,
    /// Events that a stream could hand over.
    pub(super) sent: AtomicUsize,
}

/// The handlers.
#[derive(Debug, Clone, Default)]
pub(super) struct Fake(Arc<Inner>);

struct Running(Arc<Inner>);

impl Running {
    fn new(inner: &Arc<Inner>) -> Self {
        inner.running.fetch_add(1, Ordering::SeqCst);
        Self(inner.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Fake {
    /// A stream of `size` bytes an event, one every `pause`.
    fn events(&self, size: usize, pause: Duration) -> Reply {
        let (sender, events) = Events::channel();
        let (inner, running) = (self.0.clone(), Running::new(&self.0));
        tokio::spawn(async move {
            let _running = running;
            let text = "x".repeat(size);
            while sender.data(&json!({ "text": text })).await.is_ok() {
                inner.sent.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    () = sender.closed() => return,
                    () = sleep(pause) => {}
                }
            }
        });
        Reply::events(events)
    }
}

impl Answer for Fake {
    fn is_ready(&self) -> bool {
        !self.0.loading.load(Ordering::SeqCst)
    }

    async fn answer(&self, request: Request) -> Reply {
        match request.path.as_str() {
            "/health" => Reply::json(&json!({"status": "ok"})),
            "/" => Reply::whole(hyper::StatusCode::OK, "text/html", "page"),
            "/echo" => Reply::json(&json!({
                "method": request.method.as_str(),
                "query": request.query.0,
                "bytes": request.body.len(),
            })),
            "/large" => Reply::whole(hyper::StatusCode::OK, "application/octet-stream", vec![b'x'; 24 << 20]),
            "/wait" => {
                let _running = Running::new(&self.0);
                std::future::pending().await
            }
            "/slow" => {
                let _running = Running::new(&self.0);
                sleep(Duration::from_millis(400)).await;
                Reply::json(&json!({"status": "late"}))
            }
            "/stream" | "/v1/messages" => self.events(4, Duration::from_millis(10)),
            "/silent" => self.events(4, Duration::from_secs(1000)),
            "/flood" => self.events(16 << 10, Duration::ZERO),
            "/burn" => {
                std::thread::sleep(Duration::from_millis(700));
                Reply::json(&json!({"status": "burnt"}))
            }
            "/panic" => panic!("a planted panic"),
            _ => Reply::from(ApiError::new(ErrorKind::NotFound, "File Not Found")),
        }
    }
}

/// A server that runs inside the test.
pub(super) struct Server {
    pub(super) fake: Arc<Inner>,
    pub(super) address: SocketAddr,
    pub(super) urls: Vec<String>,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(change: impl FnOnce(&mut HttpOptions)) -> Self {
        Self::start_within(change, |_| {}).await
    }

    pub(super) async fn start_within(
        change: impl FnOnce(&mut HttpOptions),
        narrow: impl FnOnce(&mut Limits),
    ) -> Self {
        let mut options = HttpOptions { port: 0, ..HttpOptions::default() };
        change(&mut options);
        let mut limits = Limits::new(&options);
        limits.drain = Duration::from_millis(500);
        limits.cut = Duration::from_millis(500);
        limits.linger = Duration::from_millis(500);
        narrow(&mut limits);
        let fake = Fake::default();
        let listeners = bind(&options).await.unwrap();
        let urls = listeners.urls().to_vec();
        let address = urls.iter().find_map(|url| url.split_once("://")?.1.parse().ok());
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve_within(listeners, options, limits, fake.clone(), stopped));
        let address = address.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        Self { fake: fake.0, address, urls, stop: Some(stop), task }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends text on a new connection and reads until the server closes it.
    pub(super) async fn exchange(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        read_all(&mut stream).await
    }

    /// Waits until `count` handlers and streams are left, and says how long that took.
    pub(super) async fn running(&self, count: usize) -> Duration {
        let start = Instant::now();
        while self.fake.running.load(Ordering::SeqCst) != count {
            let left = self.fake.running.load(Ordering::SeqCst);
            assert!(start.elapsed() < SOON, "{left} handlers run after {SOON:?}, and not {count}");
            sleep(Duration::from_millis(1)).await;
        }
        start.elapsed()
    }
}

/// What comes until the end, or in [`SOON`].
pub(super) async fn read_all<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> String {
    let mut text = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

/// What comes until `end` has come.
pub(super) async fn read_until<S: tokio::io::AsyncRead + Unpin>(stream: &mut S, end: &str) -> String {
    let mut text = Vec::new();
    let all = async {
        while !text.ends_with(end.as_bytes()) {
            match stream.read_u8().await {
                Ok(byte) => text.push(byte),
                Err(_) => break,
            }
        }
    };
    let done = timeout(SOON, all).await.is_ok();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(done && text.ends_with(end), "no {end:?} in {text:?}");
    text
}

pub(super) const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
pub(super) const OK: &str = "{\"status\":\"ok\"}";

/// A POST with a body of `x`.
pub(super) fn post(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{}", "x".repeat(length))
}
