//! Certificates and keys from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Why a server cannot speak HTTPS with the given files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not PEM.
    #[error("{}: not a PEM file: {what}", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// No `BEGIN CERTIFICATE`.
    #[error("{}: no certificate in it (-----BEGIN CERTIFICATE-----)", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// No private key.
    #[error("{}: no private key in it (-----BEGIN PRIVATE KEY-----)", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The private key needs a password.
    #[error("{}: the private key is encrypted; decrypt it first, e.g. with openssl pkey", path.display())]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key are not a pair.
    #[error("{} is not the key of the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The TLS library does not take them.
    #[error("{} and {}: {source}", certificate.display(), key.display())]
    Refused {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// What accepts TLS connections with a certificate chain and its key.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let (chain, private) = (read_chain(certificate)?, read_key(key)?);
    let refused = |source| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        match source {
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { certificate, key },
            source => TlsError::Refused { certificate, key, source },
        }
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(refused)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| not_pem(path, &error))?;
    if chain.is_empty() { Err(TlsError::NoCertificate { path: path.to_owned() }) } else { Ok(chain) }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        PemError::NoItemsFound if is_encrypted(&text) => TlsError::EncryptedKey { path: path.to_owned() },
        PemError::NoItemsFound => TlsError::NoKey { path: path.to_owned() },
        error => not_pem(path, &error),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn not_pem(path: &Path, error: &PemError) -> TlsError {
    TlsError::NotPem { path: path.to_owned(), what: error.to_string() }
}

fn is_encrypted(text: &[u8]) -> bool {
    let mark = b"BEGIN ENCRYPTED PRIVATE KEY";
    text.windows(mark.len()).any(|window| window == mark)
}
