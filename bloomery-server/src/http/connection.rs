//! One connection, from its first byte to its last.

use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::flight::{Flight, State};
use super::phase::{Phase, reached};
use super::service::{self, Answer, Limits, Shared};
use super::socket::{Socket, SocketIo};

/// Serves a connection until one of the sides has had enough.
pub(super) async fn run<A: Answer>(socket: Arc<Socket>, tls: Option<TlsAcceptor>, shared: Arc<Shared<A>>) {
    let io = SocketIo::new(socket.clone(), shared.limits.write);
    let (limits, phase) = (shared.limits.clone(), shared.phase.clone());
    let live = async {
        let gone = match tls {
            None => drive(io, &socket, shared).await,
            Some(tls) => match timeout(limits.handshake, tls.accept(io)).await {
                Ok(Ok(io)) => drive(io, &socket, shared).await,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "TLS handshake");
                    false
                }
                Err(_) => true,
            },
        };
        if !gone {
            socket.linger(limits.linger).await;
        }
    };
    tokio::select! {
        () = live => {}
        () = reached(phase, Phase::Closed) => {}
    }
}

/// Serves requests. Whether the peer is gone.
async fn drive<A, I>(io: I, socket: &Socket, shared: Arc<Shared<A>>) -> bool
where
    A: Answer,
    I: AsyncRead + AsyncWrite + Unpin,
{
    let (flight, state) = Flight::new();
    let (limits, phase) = (shared.limits.clone(), shared.phase.clone());
    let serve = service_fn(move |request| service::serve(shared.clone(), flight.clone(), request));
    // The time for a head is watched here and not by hyper, whose timer would also run while a slow peer still takes the
    // reply before. So is the peer's end, which hyper notices only while nothing has been read ahead.
    let http = http1::Builder::new()
        .half_close(true)
        .title_case_headers(true)
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes)
        .max_header_size(limits.head_bytes)
        .serve_connection(TokioIo::new(io), serve);
    let mut http = pin!(http);
    let mut over = pin!(watch_peer(socket, state, &limits));
    let mut draining = pin!(reached(phase, Phase::Draining));
    let mut drains = false;
    loop {
        tokio::select! {
            biased;
            end = http.as_mut() => {
                if let Err(error) = end {
                    tracing::debug!(%error, "connection");
                }
                return false;
            }
            end = over.as_mut() => return end == End::Gone,
            () = draining.as_mut(), if !drains => {
                drains = true;
                http.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The peer went away while its request was in work.
    Gone,
    /// No request came.
    Idle,
}

/// Returns when the connection is of no use any more.
async fn watch_peer(socket: &Socket, mut state: watch::Receiver<State>, limits: &Limits) -> End {
    loop {
        let now = *state.borrow_and_update();
        let end = async {
            match now {
                State::Idle => {
                    idle(socket, limits).await;
                    End::Idle
                }
                State::Reading => std::future::pending().await,
                State::Answering => {
                    socket.gone().await;
                    End::Gone
                }
            }
        };
        tokio::select! {
            end = end => return end,
            changed = state.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
        }
    }
}

/// Returns once there was neither a request nor a byte of a reply for the time that a head may take.
async fn idle(socket: &Socket, limits: &Limits) {
    let since = Instant::now();
    loop {
        let from = socket.quiet_since().map_or_else(Instant::now, |quiet| quiet.max(since));
        let end = from + limits.head;
        if end <= Instant::now() {
            return;
        }
        sleep_until(end).await;
    }
}
