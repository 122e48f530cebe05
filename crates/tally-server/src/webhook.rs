//! Webhooks: requests that leave the deployment.
//!
//! Invariant: a name is resolved here, and a connection is made only to an address that was looked at after that. So a
//! public name that leads to an inner address reaches nothing. Redirects are not followed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tally_wire::alerts::Outgoing;
use tally_wire::alerts::webhook::{Allowed, Reach};
use tally_wire::names::ALERTS_ALLOW;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::options::ServerSettings;
use super::outgoing::FullBody;

/// How long a receiver may take to all of it.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The network outside of the deployment.
pub(crate) struct Webhooks {
    allowed: Arc<Allowed>,
}

impl Webhooks {
    /// The network that the settings allow.
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let allowed = Allowed::of(settings.get(ALERTS_ALLOW).as_deref());
        Self {
            allowed: Arc::new(allowed),
        }
    }

    /// POSTs, and returns the status of the answer, whose body is not read.
    pub(crate) fn post(
        &self,
        request: Outgoing,
    ) -> impl Future<Output = Result<u16, String>> + use<> {
        let allowed = self.allowed.clone();
        async move {
            let posted = tokio::time::timeout(TIME_MAX, exchange(request, &allowed)).await;
            posted.map_err(|_| format!("no answer within {} s", TIME_MAX.as_secs()))?
        }
    }
}

/// What a failure says, without the address: that may be secret.
fn said(error: impl std::error::Error) -> String {
    error.to_string()
}

async fn exchange(request: Outgoing, allowed: &Allowed) -> Result<u16, String> {
    let uri: Uri = request.url.parse().map_err(said)?;
    let is_secure = uri.scheme_str() == Some("https");
    let host = uri.host().ok_or("the address names no host")?.to_owned();
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let stream = connect(&host, port, allowed, request.reach).await?;
    let request = head_of(request, &uri)?;
    if !is_secure {
        return status_of(stream, request).await;
    }
    let bare = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let name = ServerName::try_from(bare).map_err(said)?;
    let stream = tls()?.connect(name, stream).await.map_err(said)?;
    status_of(stream, request).await
}

/// Connects to the first address of a host that may be connected to.
async fn connect(
    host: &str,
    port: u16,
    allowed: &Allowed,
    reach: Reach,
) -> Result<TcpStream, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::net::lookup_host((bare, port)).await.map_err(said)?;
    let addresses: Vec<SocketAddr> = found
        .filter(|found| allowed.opens(found.ip(), reach))
        .collect();
    if addresses.is_empty() {
        return Err("the host leads to no address that webhooks may have".to_owned());
    }
    let mut failure = String::new();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = said(error),
        }
    }
    Err(failure)
}

fn head_of(request: Outgoing, uri: &Uri) -> Result<Request<FullBody>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let length = request.body.len();
    let body = FullBody::from(Bytes::from(request.body));
    let mut made = Request::new(body);
    *made.method_mut() = Method::POST;
    *made.uri_mut() = path.parse().map_err(said)?;
    let headers = made.headers_mut();
    headers.insert(HOST, HeaderValue::from_str(authority).map_err(said)?);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    for (name, value) in &request.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(said)?;
        headers.insert(name, HeaderValue::from_str(value).map_err(said)?);
    }
    Ok(made)
}

async fn status_of<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    stream: S,
    request: Request<FullBody>,
) -> Result<u16, String> {
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(said)?;
    let driven = tokio::task::spawn_local(async move {
        let _ = connection.await;
    });
    let answered = sender.send_request(request).await;
    // The body is not read: that ends the connection.
    driven.abort();
    Ok(answered.map_err(said)?.status().as_u16())
}

/// TLS with the certificate authorities that browsers know.
fn tls() -> Result<TlsConnector, String> {
    let roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(said)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    //! Law: a name reaches no address that the operator did not allow, whatever it leads to, and nobody is followed who
    //! leads elsewhere.

    use std::borrow::Cow;

    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;

    /// Posts to a path of this machine by its name.
    async fn post(port: u16, allowed: &str, reach: Reach) -> Result<u16, String> {
        let allowed = Allowed::parse(allowed).expect("a setting");
        let request = Outgoing {
            url: format!("http://localhost:{port}/hook"),
            headers: vec![(Cow::Borrowed("webhook-id"), "1".to_owned())],
            body: b"{}".to_vec(),
            reach,
        };
        exchange(request, &allowed).await
    }

    async fn listen() -> (TcpListener, u16) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        (listener, port)
    }

    #[test]
    fn a_name_that_leads_to_this_machine_reaches_it_only_if_it_is_allowed() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        LocalSet::new().block_on(&runtime.expect("a runtime"), async {
            let (inner, port) = listen().await;
            let (elsewhere, other) = listen().await;
            for (allowed, reach) in [
                ("[]", Reach::Public),
                (r#"["localhost"]"#, Reach::Public),
                (r#"["hooks.corp","10.0.0.0/8"]"#, Reach::Named),
            ] {
                let refused = post(port, allowed, reach).await;
                assert!(
                    refused.is_err_and(|why| why.contains("no address")),
                    "{allowed}"
                );
            }
            assert!(inner.accept().now_or_never().is_none());
            let answered = tokio::task::spawn_local(async move {
                let (mut stream, _) = inner.accept().await.expect("a client");
                let mut head = [0; 512];
                let bytes = stream.read(&mut head).await.expect("a head");
                let redirect = format!(
                    "HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:{other}/\r\ncontent-length: 0\r\n\r\n"
                );
                stream.write_all(redirect.as_bytes()).await.expect("read");
                String::from_utf8_lossy(&head[..bytes]).into_owned()
            });
            let status = post(port, r#"["localhost"]"#, Reach::Named).await;
            assert_eq!(status, Ok(307));
            let head = answered.await.expect("an answer");
            assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
            assert!(elsewhere.accept().now_or_never().is_none());
        });
    }
}
