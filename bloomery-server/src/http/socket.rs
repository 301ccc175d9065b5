//! A connected socket. One part of a connection reads and writes it, another watches whether the peer is still there.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// How often a peer with unread bytes in our buffer is asked for. Without such bytes the system says when it goes.
const UNREAD_POLL: Duration = Duration::from_millis(100);

/// After this much silence the system asks a TCP peer whether it is there: a machine that lost its power says nothing.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// What a closing socket still reads, so that the peer gets our last bytes and not a reset.
const LINGER_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

macro_rules! on {
    ($socket:expr, $stream:ident => $call:expr) => {
        match &$socket.stream {
            Stream::Tcp($stream) => $call,
            #[cfg(unix)]
            Stream::Unix($stream) => $call,
        }
    };
}

/// A connected socket.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    opened: Instant,
    /// When the peer last took bytes, in milliseconds since `opened`.
    taken: AtomicU64,
    /// Bytes wait for the peer to take them.
    blocked: AtomicBool,
}

impl Socket {
    /// Takes a socket that was accepted.
    pub(super) fn new(stream: Stream) -> Arc<Self> {
        if let Stream::Tcp(tcp) = &stream {
            // Both make things better and neither has to work.
            let _ = tcp.set_nodelay(true);
            let _ = SockRef::from(tcp).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        }
        Arc::new(Self {
            stream,
            opened: Instant::now(),
            taken: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
        })
    }

    /// Returns when the peer has closed its side, or the connection broke. A peer that closes only the direction in which
    /// it sends counts as gone: nothing tells it from one that has exited. A peer that has sent more than the buffers of both
    /// systems hold is not noticed, as the end of what it sent cannot arrive.
    pub(super) async fn gone(&self) {
        while let Ok(ready) = self.ready().await {
            if ready.is_read_closed() {
                return;
            }
            // The look also clears a readiness that is stale since the last read.
            match self.peek() {
                Ok(0) => return,
                Ok(_) => sleep(UNREAD_POLL).await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// Since when nothing is on its way to the peer; `None` while something is.
    pub(super) fn quiet_since(&self) -> Option<Instant> {
        let taken = Duration::from_millis(self.taken.load(Ordering::Relaxed));
        (!self.blocked.load(Ordering::Relaxed)).then(|| self.opened + taken)
    }

    /// Says that no more will come, and reads what the peer still sends for at most `patience`: closing with unread bytes
    /// would reset the connection, and the peer might not see the reply.
    pub(super) async fn linger(&self, patience: Duration) {
        let _ = on!(self, stream => SockRef::from(stream).shutdown(std::net::Shutdown::Write));
        let rest = async {
            let (mut left, mut buffer) = (LINGER_BYTES, vec![0; 64 << 10]);
            while left > 0 && self.ready().await.is_ok() {
                match on!(self, stream => stream.try_read(&mut buffer)) {
                    Ok(0) => return,
                    Ok(read) => left = left.saturating_sub(read),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        };
        let _ = timeout(patience, rest).await;
    }

    async fn ready(&self) -> io::Result<Ready> {
        on!(self, stream => stream.ready(Interest::READABLE).await)
    }

    fn peek(&self) -> io::Result<usize> {
        let mut byte = [MaybeUninit::uninit()];
        on!(self, stream => stream.try_io(Interest::READABLE, || SockRef::from(stream).peek(&mut byte)))
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        self.blocked.store(written.is_pending(), Ordering::Relaxed);
        if written.is_ready() {
            let taken = self.opened.elapsed().as_millis();
            self.taken.store(u64::try_from(taken).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
}

/// Reads and writes a [`Socket`]. A write fails once the peer has taken no byte for `patience`.
#[derive(Debug)]
pub(super) struct SocketIo {
    socket: Arc<Socket>,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl SocketIo {
    pub(super) fn new(socket: Arc<Socket>, patience: Duration) -> Self {
        Self { socket, patience, stalled: None }
    }

    fn poll_stalled(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.socket.note(&written);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for SocketIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(self.socket, stream => loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read_buf(buffer) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        })
    }
}

impl AsyncWrite for SocketIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = on!(self.socket, stream => loop {
            match stream.poll_write_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
            match stream.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => break Poll::Ready(done),
            }
        });
        self.poll_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(on!(self.socket, stream => SockRef::from(stream).shutdown(std::net::Shutdown::Write)))
    }
}
