//! Addresses, Unix sockets and TLS.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::fake::{HEALTH, OK, Server, post, read_all, read_until};
use crate::http::{BindError, TlsError, bind};
use crate::options::{Host, HttpOptions};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls").join(name)
}

fn pair(certificate: &str, key: &str) -> Option<(PathBuf, PathBuf)> {
    Some((data(certificate), data(key)))
}

async fn refusal(change: impl FnOnce(&mut HttpOptions)) -> BindError {
    let mut options = HttpOptions { port: 0, ..HttpOptions::default() };
    change(&mut options);
    bind(&options).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_addresses_share_a_port() {
    let v6 = TcpStream::connect((Ipv6Addr::LOCALHOST, 1)).await.unwrap_err();
    if v6.kind() != std::io::ErrorKind::ConnectionRefused {
        return; // A machine without IPv6.
    }
    let hosts = [Host::Address(Ipv4Addr::LOCALHOST.into()), Host::Address(Ipv6Addr::LOCALHOST.into())];
    let server = Server::start(|options| options.hosts = hosts.to_vec()).await;
    let port = server.address.port();
    assert_eq!(server.urls, [format!("http://127.0.0.1:{port}"), format!("http://[::1]:{port}")]);
    for host in ["127.0.0.1", "::1"] {
        let mut stream = TcpStream::connect((host, port)).await.unwrap();
        stream.write_all(HEALTH.as_bytes()).await.unwrap();
        read_until(&mut stream, OK).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_resolved() {
    let server = Server::start(|options| options.hosts = vec![Host::Name("localhost".to_owned())]).await;
    let mut stream = server.connect().await;
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
    let error = refusal(|options| options.hosts = vec![Host::Name("no such host".to_owned())]).await;
    assert!(error.to_string().starts_with("host no such host: "), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn taken_and_foreign_addresses_are_named() {
    let server = Server::start(|_| {}).await;
    let error = refusal(|options| options.port = server.address.port()).await;
    assert!(error.to_string().starts_with(&format!("cannot listen on {}: ", server.address)), "{error}");
    let error =
        refusal(|options| options.hosts = vec![Host::Address(Ipv4Addr::new(192, 0, 2, 1).into())]).await;
    assert!(error.to_string().starts_with("cannot listen on 192.0.2.1:0: "), "{error}");
    let error = refusal(|options| options.hosts.clear()).await;
    assert!(matches!(error, BindError::NoHost));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_comes_and_goes() {
    let folder = std::env::temp_dir().join(format!("bloomery-listening-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("x.sock");
    let hosts = vec![Host::Socket(path.clone())];
    // What a killed server leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = Server::start(|options| options.hosts = hosts.clone()).await;
    assert_eq!(server.urls, [format!("unix://{}", path.display())]);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
    stream.write_all(post("/wait", 0).as_bytes()).await.unwrap();
    server.running(1).await;
    drop(stream);
    server.running(0).await;
    let error = refusal(|options| options.hosts = hosts.clone()).await;
    assert!(error.to_string().contains("x.sock"), "{error}");
    assert!(path.exists(), "the socket of a live server is gone");
    let Server { stop, task, .. } = server;
    stop.unwrap().send(()).unwrap();
    task.await.unwrap();
    assert!(!path.exists());
    std::fs::write(&path, "text").unwrap();
    let error = refusal(|options| options.hosts = hosts.clone()).await;
    assert!(error.to_string().contains("no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    std::fs::remove_dir_all(folder).unwrap();
}

async fn secure(server: &Server) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(data("cert.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, server.connect().await).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_serves_streams_and_notices_disconnects() {
    let server = Server::start(|options| {
        options.tls = pair("cert.pem", "key.pem");
        options.max_connections = 3;
    })
    .await;
    assert_eq!(server.urls, [format!("https://{}", server.address)]);
    let mut stream = secure(&server).await;
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
    for path in ["/wait", "/silent", "/stream", "/flood"] {
        let mut stream = secure(&server).await;
        stream.write_all(post(path, 0).as_bytes()).await.unwrap();
        server.running(1).await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        drop(stream);
        server.running(0).await;
    }
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
    // Those over the limit are told inside the tunnel.
    let _open = (server.connect().await, server.connect().await);
    let mut stream = secure(&server).await;
    assert!(read_all(&mut stream).await.starts_with("HTTP/1.1 503 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_on_a_tls_port_is_closed() {
    let server = Server::start(|options| options.tls = pair("cert.pem", "key.pem")).await;
    let answer = server.exchange(HEALTH).await;
    assert!(!answer.contains("HTTP"), "{answer}");
    let mut stream = secure(&server).await;
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    read_until(&mut stream, OK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_certificates_are_named() {
    let error = async |certificate, key| match refusal(|options| options.tls = pair(certificate, key)).await {
        BindError::Tls(error) => error,
        other => panic!("{other}"),
    };
    assert!(matches!(error("none.pem", "key.pem").await, TlsError::Read { .. }));
    assert!(matches!(error("cert.pem", "none.pem").await, TlsError::Read { .. }));
    assert!(matches!(error("key.pem", "key.pem").await, TlsError::NoCertificate { .. }));
    assert!(matches!(error("README.md", "key.pem").await, TlsError::NoCertificate { .. }));
    assert!(matches!(error("cert.pem", "cert.pem").await, TlsError::NoKey { .. }));
    assert!(matches!(error("cert.pem", "encrypted-key.pem").await, TlsError::EncryptedKey { .. }));
    let mismatch = error("cert.pem", "other-key.pem").await;
    assert!(matches!(mismatch, TlsError::Mismatch { .. }), "{mismatch}");
    assert!(mismatch.to_string().contains("other-key.pem is not the key of"), "{mismatch}");
}
