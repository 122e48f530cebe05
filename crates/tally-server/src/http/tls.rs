//! TLS of clients, where the server has a certificate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// How long a client may take to the handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// What shakes hands with clients.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl Tls {
    /// Reads a certificate, with those that lead to its authority, and its key, both as PEM.
    ///
    /// # Errors
    /// What is wrong with them, as a sentence.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let refused = |file: &Path, why: &dyn std::fmt::Display| {
            format!("the PEM file {} cannot be used: {why}", file.display())
        };
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(|why| refused(certificate, &why))?;
        if chain.is_empty() {
            return Err(refused(certificate, &"it has no CERTIFICATE"));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|why| refused(key, &why))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|why| refused(key, &why))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands; `None` with a client that cannot, or takes too long.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let shaken = tokio::time::timeout(HANDSHAKE_TIME_MAX, self.0.accept(stream)).await;
        shaken.ok()?.ok()
    }
}
