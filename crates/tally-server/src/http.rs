//! Connections of clients: HTTP/1.1 by hyper.
//!
//! Invariants: everything that clients fill has a bound: [connections, requests in flight](super::clients), the time of
//! a head, its size. Beyond a bound the answer is 503 with `Retry-After`, as long as there is a descriptor to say it
//! on.

pub(crate) mod head_timer;
mod incoming;
pub(crate) mod tls;

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, TRANSFER_ENCODING, UPGRADE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tally_api::routes::{RouteName, name_of};
use tally_host::http::Body;
use tally_host::{Host, Memory, Stream};
use tally_wire::problem::{Code, Problem};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tracing::debug;

use super::clients::{self, ClientBounds};
use super::clock::{Turns, monotonic};
use super::ground::Ground;
use super::guest::Guest;
use super::live_socket::SocketCarrier;
use super::outgoing::{AnswerBody, answer_of};
use super::place::Home;
use head_timer::HeadTimer;
use incoming::ClientCall;
use tls::Tls;

/// The largest head of a request, and the most that is read ahead of it, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1_024;

/// The most headers of a request.
const HEADERS_MAX: usize = 128;

/// The version of WebSockets.
const SOCKET_VERSION: &str = "13";

/// What a client gets that is one too many.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Where clients enter: a listener with the memory of an edge.
pub(crate) struct EdgeDoor {
    ground: Rc<Ground>,
    guest: Rc<Guest>,
    memory: Rc<Memory>,
    blob: Option<String>,
    tls: Option<Tls>,
    bounds: Arc<ClientBounds>,
    ends: watch::Receiver<bool>,
}

impl EdgeDoor {
    /// A door of a node. `blob`: the header that says where a request entered. `tls`: what all of its clients speak.
    /// `ends`: whether the end has begun.
    pub(crate) fn new(
        home: Rc<dyn Home>,
        blob: Option<&str>,
        bounds: &Arc<ClientBounds>,
        tls: Option<&Tls>,
        ends: &watch::Receiver<bool>,
    ) -> Rc<Self> {
        Rc::new(Self {
            ground: home.ground().clone(),
            guest: Rc::new(Guest::of_edge(home)),
            memory: Rc::default(),
            blob: blob.map(str::to_owned),
            tls: tls.cloned(),
            bounds: bounds.clone(),
            ends: ends.clone(),
        })
    }

    /// Accepts clients until the end begins.
    pub(crate) async fn listen(self: Rc<Self>, listener: TcpListener) {
        let ends = self.ends.clone();
        let admit = |stream, peer| self.clone().admit(stream, peer);
        clients::accept(&listener, self.bounds.head_time_max, ends, admit).await;
    }

    fn admit(self: Rc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Some(held) = self.bounds.admit() else {
            return self.bounds.refuse(stream, TOO_MANY);
        };
        let clock = self.ground.clock.clone();
        let work = async move {
            match &self.tls.clone() {
                None => self.serve(stream, peer.ip()).await,
                Some(tls) => {
                    if let Some(stream) = tls.accept(stream).await {
                        Box::pin(self.serve(stream, peer.ip())).await;
                    }
                }
            }
            drop(held);
        };
        tokio::task::spawn_local(Turns::new(&clock, work));
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self: Rc<Self>,
        stream: S,
        peer: IpAddr,
    ) {
        let head_time_max = self.bounds.head_time_max;
        let (mut ends, seen) = (self.ends.clone(), self.ends.clone());
        let service = service_fn(move |request| {
            let door = self.clone();
            async move { Ok::<_, Infallible>(door.answer(request, peer).await) }
        });
        let connection = http1::Builder::new()
            .timer(HeadTimer)
            .header_read_timeout(head_time_max)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .half_close(true)
            // Head and body of a small answer are one piece to send.
            .writev(false)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let mut ended = std::pin::pin!(ends.changed());
        let mut is_watched = false;
        let has_ended = std::future::poll_fn(|context| {
            // To watch takes a lock in each turn, to look takes none.
            let is_first = !std::mem::replace(&mut is_watched, true);
            let may_end = is_first || seen.has_changed().unwrap_or(true);
            if may_end && ended.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            connection.as_mut().poll(context).map(|_| false)
        });
        if has_ended.await {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }

    async fn answer(&self, mut request: Request<Incoming>, peer: IpAddr) -> Response<AnswerBody> {
        if let Some(answer) = answer_to_form(&request) {
            return answer;
        }
        let Some(_held) = self.bounds.begin_request() else {
            return overloaded();
        };
        let begun = monotonic();
        let upgrade = is_upgrade(&request).then(|| hyper::upgrade::on(&mut request));
        let key = socket_key(request.headers()).cloned();
        let (parts, body) = request.into_parts();
        let route = name_of(parts.method.as_str(), parts.uri.path());
        let call = Box::new(ClientCall::new(
            parts,
            body,
            peer,
            self.blob.as_deref(),
            &self.ground,
        ));
        let host = Host::new(self.guest.clone(), self.memory.clone());
        let mut response = tally_edge::fetch(call, host, self.ground.context()).await;
        let times = self.bounds.times();
        let took = begun.elapsed();
        times.observe(route, took);
        debug!("{} {} {took:?}", route.as_str(), response.head.status);
        if route == RouteName::Metrics
            && response.head.status == 200
            && let Body::Text(text) = &response.body
        {
            response.body = Body::Text([text, times.text().as_str()].concat().into());
        }
        // A file of the program takes no memory of its own.
        let is_file = matches!(response.body, Body::Bytes(Cow::Borrowed(_)));
        match answer_of(response, &self.ends) {
            Ok(answer) if is_file => answer,
            Ok(mut answer) => match answer.body_mut().hold(self.bounds.held()) {
                Ok(()) => answer,
                Err(bytes) => unheld(bytes),
            },
            Err(stream) => upgraded(&stream, upgrade, key),
        }
    }
}

/// Whether a request names one host, or none in a version before HTTP/1.1, and that host has no character of a path. A
/// `/` or a `?` in it would be a part of the path, and lead to another call than the one that a proxy checked. Source:
/// RFC 9112, section 3.2.
fn has_plain_host(version: Version, headers: &HeaderMap) -> bool {
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(byte);
    let mut hosts = headers.get_all(HOST).iter();
    let is_first_plain = match hosts.next() {
        Some(host) => host.as_bytes().iter().all(is_plain),
        None => version < Version::HTTP_11,
    };
    is_first_plain && hosts.next().is_none()
}

/// The key of a handshake, 16 bytes in base64, if it is of the version that is spoken here. Source: RFC 6455, section
/// 4.2.1.
fn socket_key(headers: &HeaderMap) -> Option<&HeaderValue> {
    let version = headers.get(SEC_WEBSOCKET_VERSION)?;
    let is_key = |key: &&HeaderValue| {
        let key = key.as_bytes();
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
        key.len() == 24 && key.ends_with(b"==") && key[..22].iter().all(is_base64)
    };
    headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|key| version == SOCKET_VERSION && is_key(key))
}

fn is_upgrade(request: &Request<Incoming>) -> bool {
    request.headers().contains_key(UPGRADE)
}

fn overloaded() -> Response<AnswerBody> {
    let detail = "too many requests are answered at once; nothing was counted, try again";
    refusal(&Problem::new(Code::Overloaded, detail))
}

/// The answer to a request that names no resource, or has a transfer coding that is not supported. Source: RFC 9110,
/// sections 9.3.6 and 9.3.7; RFC 9112, section 6.1.
fn answer_to_form(request: &Request<Incoming>) -> Option<Response<AnswerBody>> {
    let headers = request.headers();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !has_plain_host(request.version(), headers) {
        return Some(unreadable());
    }
    if request.method() == Method::CONNECT || !codings.all(is_chunked) {
        return Some(last(StatusCode::NOT_IMPLEMENTED));
    }
    let is_of_server = request.method() == Method::OPTIONS && request.uri() == "*";
    is_of_server.then(|| last(StatusCode::NO_CONTENT))
}

/// The answer to a head that is none, as hyper itself answers it.
fn unreadable() -> Response<AnswerBody> {
    last(StatusCode::BAD_REQUEST)
}

/// The last answer of a connection.
fn last(status: StatusCode) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::from(Vec::new()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Instead of an answer that there is no memory for.
fn unheld(bytes: usize) -> Response<AnswerBody> {
    let detail = format!(
        "the answer has {bytes} bytes, and there is no room for it while clients do not read theirs; what the request writes is done; ask for less at once, or later"
    );
    refusal(&Problem::new(Code::Unavailable, detail))
}

fn refusal(problem: &Problem) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::from(problem.to_json().into_bytes()));
    let status = StatusCode::from_u16(problem.code().status());
    *answer.status_mut() = status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let headers = answer.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// Begins a WebSocket. An object's refusal has no connection to take over.
fn upgraded(
    stream: &Stream,
    upgrade: Option<hyper::upgrade::OnUpgrade>,
    key: Option<HeaderValue>,
) -> Response<AnswerBody> {
    let carrier = stream.carrier.downcast_ref::<SocketCarrier>();
    let begins = carrier.and_then(SocketCarrier::take);
    let (Some(begins), Some(upgrade)) = (begins, upgrade) else {
        return unreadable();
    };
    let Some(key) = key else {
        let detail = "a WebSocket needs Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key";
        let mut answer = refusal(&Problem::new(Code::InvalidUpgrade, detail));
        let version = HeaderValue::from_static(SOCKET_VERSION);
        answer.headers_mut().insert(SEC_WEBSOCKET_VERSION, version);
        return answer;
    };
    // Where the connection is lost, what it was to be given to is dropped, and so the socket ends.
    tokio::task::spawn_local(async move {
        if let Ok(connection) = upgrade.await {
            let _ = begins.send(connection);
        }
    });
    let mut answer = Response::new(AnswerBody::from(Vec::new()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = accept {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    answer
}
