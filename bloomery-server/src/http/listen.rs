//! Where a server listens.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, Socket as RawSocket, Type};
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::net::{TcpListener, lookup_host};
use tokio_rustls::TlsAcceptor;

use super::socket::{Socket, Stream};
use super::tls::{self, TlsError};
use crate::options::{Host, HttpOptions};

/// Connections that the system holds until they are accepted.
const BACKLOG: i32 = 1024;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// No address was named.
    #[error("no address to listen on")]
    NoHost,
    /// A name has no address.
    #[error("host {name}: {source}")]
    Resolve {
        /// The name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// An address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A Unix socket cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Path {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Sockets that listen.
pub struct Listeners {
    pub(super) all: Vec<Listener>,
    pub(super) tls: Option<TlsAcceptor>,
    urls: Vec<String>,
}

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listeners").field(&self.urls).finish()
    }
}

impl Listeners {
    /// Where clients find the server: `http://127.0.0.1:8080`, `https://[::1]:8080`, `unix:///run/x.sock`.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }
}

/// Listens on all addresses of the options. Connections wait until [`serve`](super::serve).
///
/// # Errors
/// Names that are unknown, addresses that are taken or not this machine's, certificates that cannot be used.
pub async fn bind(options: &HttpOptions) -> Result<Listeners, BindError> {
    let tls = match &options.tls {
        Some((certificate, key)) => Some(tls::acceptor(certificate, key)?),
        None => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (mut all, mut urls, mut port) = (Vec::new(), Vec::new(), options.port);
    // Beside other addresses `::` must not take the IPv4 ones too.
    let only_v6 = options.hosts.iter().filter(|host| !matches!(host, Host::Socket(_))).count() > 1;
    for host in &options.hosts {
        let name = match host {
            Host::Address(address) => {
                let listener = tcp(SocketAddr::new(*address, port), only_v6)?;
                port = add(&mut all, &mut urls, scheme, listener)?;
                continue;
            }
            Host::Socket(path) => {
                all.push(Listener::at_path(path.clone())?);
                urls.push(format!("unix://{}", path.display()));
                continue;
            }
            Host::Name(name) => name,
        };
        let resolve = |source| BindError::Resolve { name: name.clone(), source };
        let mut failure = resolve(io::Error::other("it has no address"));
        let before = all.len();
        for address in lookup_host((name.as_str(), port)).await.map_err(resolve)? {
            match tcp(SocketAddr::new(address.ip(), port), true) {
                Ok(listener) => port = add(&mut all, &mut urls, scheme, listener)?,
                Err(error) => failure = error,
            }
        }
        // A machine may have a name's IPv4 address and not its IPv6 address.
        if all.len() == before {
            return Err(failure);
        }
    }
    if all.is_empty() { Err(BindError::NoHost) } else { Ok(Listeners { all, tls, urls }) }
}

fn tcp(address: SocketAddr, only_v6: bool) -> Result<TcpListener, BindError> {
    let listen = || {
        let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // Elsewhere than on Unix it would let two servers share one port.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(only_v6)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listen().map_err(|source| BindError::Address { address, source })
}

/// Takes a listener in and returns its port, which the others are to have too.
fn add(
    all: &mut Vec<Listener>,
    urls: &mut Vec<String>,
    scheme: &str,
    listener: TcpListener,
) -> Result<u16, BindError> {
    let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
    let address = listener.local_addr().map_err(|source| BindError::Address { address: unknown, source })?;
    urls.push(format!("{scheme}://{address}"));
    all.push(Listener::Tcp(listener));
    Ok(address.port())
}

/// One socket that listens.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// The next connection.
    pub(super) async fn accept(&self) -> io::Result<Arc<Socket>> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
            #[cfg(unix)]
            Self::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
        }
        .map(Socket::new)
    }

    #[cfg(not(unix))]
    fn at_path(path: PathBuf) -> Result<Self, BindError> {
        Err(BindError::Path { path, source: io::ErrorKind::Unsupported.into() })
    }

    #[cfg(unix)]
    fn at_path(path: PathBuf) -> Result<Self, BindError> {
        use std::os::unix::fs::FileTypeExt;
        let listen = || {
            // A server that was killed leaves its socket behind. It is removed if it is one and nobody answers.
            if let Ok(found) = path.symlink_metadata() {
                if !found.file_type().is_socket() {
                    return Err(io::Error::new(
                        io::ErrorKind::AlreadyExists,
                        "the file exists and is no socket",
                    ));
                }
                if std::os::unix::net::UnixStream::connect(&path).is_ok() {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                std::fs::remove_file(&path)?;
            }
            UnixListener::bind(&path)
        };
        match listen() {
            Ok(listener) => Ok(Self::Unix(listener, path)),
            Err(source) => Err(BindError::Path { path, source }),
        }
    }
}

#[cfg(unix)]
impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}
