//! A server: it accepts connections, and stops in a bounded time.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::auth::Keys;
use super::body::Budget;
use super::connection;
use super::listen::{Listener, Listeners};
use super::phase::Phase;
use super::service::{Answer, Limits, Shared};
use super::socket::{Socket, SocketIo};
use super::{Reply, ReplyBody, Request};
use crate::api;
use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::options::HttpOptions;

/// Connections over the limit that are told so at the same time. Further ones are closed without a word.
const REFUSALS: usize = 32;

/// File handles that are not for connections.
#[cfg(unix)]
const OTHER_FILES: u64 = 64;

/// A place for the loaded model. Until one is set all routes answer that it is loading.
#[derive(Debug, Clone, Default)]
pub struct Ready(Arc<OnceLock<Arc<App>>>);

impl Ready {
    /// From here on the routes answer. Only the first model counts.
    pub fn set(&self, app: Arc<App>) {
        if self.0.set(app).is_err() {
            tracing::warn!("a second model for one server");
        }
    }

    /// The model, if it is loaded.
    #[must_use]
    pub fn get(&self) -> Option<&Arc<App>> {
        self.0.get()
    }
}

impl Answer for Ready {
    fn is_ready(&self) -> bool {
        self.get().is_some()
    }

    async fn answer(&self, request: Request) -> Reply {
        match self.get() {
            Some(app) => api::answer(app, request).await,
            None => Reply::from(ApiError::new(ErrorKind::Unavailable, "Loading model")),
        }
    }
}

/// Serves until `shutdown` is there. Then nothing is accepted any more, replies have a few seconds to end, and those that
/// have not ended end with an error.
pub async fn serve<A: Answer>(
    listeners: Listeners,
    options: HttpOptions,
    answer: A,
    shutdown: impl Future<Output = ()>,
) {
    let limits = Limits::new(&options);
    serve_within(listeners, options, limits, answer, shutdown).await;
}

pub(super) async fn serve_within<A: Answer>(
    listeners: Listeners,
    options: HttpOptions,
    limits: Limits,
    answer: A,
    shutdown: impl Future<Output = ()>,
) {
    let (phase, receiver) = watch::channel(Phase::Open);
    let most = most_connections(&options);
    let (drain, cut) = (limits.drain, limits.cut);
    let shared = Arc::new(Shared {
        keys: Keys::new(&options.api_keys),
        budget: Budget::new(limits.bodies),
        phase: receiver,
        options,
        limits,
        answer,
    });
    let door = Arc::new(Door {
        tls: listeners.tls,
        shared,
        connections: Arc::new(Semaphore::new(most as usize)),
        refusals: Arc::new(Semaphore::new(REFUSALS)),
    });
    let mut accepting = JoinSet::new();
    for listener in listeners.all {
        accepting.spawn(door.clone().accept(listener));
    }
    shutdown.await;
    phase.send_replace(Phase::Draining);
    accepting.shutdown().await;
    for (time, next) in [(drain, Phase::Cut), (cut, Phase::Closed), (cut, Phase::Closed)] {
        if timeout(time, door.connections.acquire_many(most)).await.is_ok() {
            return;
        }
        phase.send_replace(next);
    }
}

/// What accepts.
struct Door<A> {
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared<A>>,
    connections: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

impl<A: Answer> Door<A> {
    async fn accept(self: Arc<Self>, listener: Listener) {
        loop {
            let socket = match listener.accept().await {
                Ok(socket) => socket,
                Err(error) => {
                    // A connection that broke before it was accepted says nothing about the next. No handles or no
                    // memory: time may bring some.
                    if !matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                    ) {
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(Duration::from_millis(100)).await;
                    }
                    continue;
                }
            };
            if let Ok(permit) = self.connections.clone().try_acquire_owned() {
                let (tls, shared) = (self.tls.clone(), self.shared.clone());
                tokio::spawn(async move {
                    connection::run(socket, tls, shared).await;
                    drop(permit);
                });
            } else if let Ok(permit) = self.refusals.clone().try_acquire_owned() {
                let (tls, limits) = (self.tls.clone(), self.shared.limits.clone());
                tokio::spawn(async move {
                    let _ = timeout(limits.linger * 2, refuse(socket, tls, limits)).await;
                    drop(permit);
                });
            }
        }
    }
}

/// Tells a client that there are too many.
async fn refuse(socket: Arc<Socket>, tls: Option<TlsAcceptor>, limits: Limits) -> io::Result<()> {
    let mut io = SocketIo::new(socket.clone(), limits.linger);
    let text = refusal();
    match tls {
        None => io.write_all(text.as_bytes()).await?,
        Some(tls) => {
            let mut io = tls.accept(io).await?;
            io.write_all(text.as_bytes()).await?;
            io.shutdown().await?;
        }
    }
    socket.linger(limits.linger).await;
    Ok(())
}

fn refusal() -> String {
    let reply = Reply::from(ApiError::new(ErrorKind::Unavailable, "Too many connections; try again"));
    let ReplyBody::Whole(body) = &reply.body else { return String::new() };
    let mut text = format!("HTTP/1.1 {}\r\nContent-Type: {}\r\n", reply.status, reply.content_type);
    for (name, value) in &reply.headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    text + &String::from_utf8_lossy(body)
}

/// As many connections as the options say and the system has handles for: without a handle a client could not even be told
/// that there are too many.
fn most_connections(options: &HttpOptions) -> u32 {
    let most = options.max_connections.max(1);
    #[cfg(unix)]
    let most = match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(files) => most.min(usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(most).max(1)),
        None => most,
    };
    u32::try_from(most).unwrap_or(u32::MAX)
}
