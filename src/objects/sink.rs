//! How a hub reaches a watcher: by a stream of server-sent events, or by a socket.
//!
//! Invariant: what waits for a watcher is bounded. A stream takes one chunk at a time; a socket is closed that was sent
//! [`SILENT_BYTES_MAX`] bytes and has said nothing.

use worker::js_sys::Uint8Array;
use worker::wasm_bindgen_futures::{JsFuture, spawn_local};
use worker::web_sys::{TransformStream, WritableStreamDefaultWriter};
use worker::{Response, ResponseBody, State, WebSocket, WebSocketPair};

use crate::protocol::live::SILENT_BYTES_MAX;
use crate::protocol::live::board::WatcherId;
use crate::protocol::live::talk::Kept;

/// Close codes and reasons of a hub: policy violation, and try again later. Source: RFC 6455 section 7.4.1 and its registry.
const SILENT: (u16, &str) = (
    1_008,
    "say ping now and then: what waits for a silent client is bounded",
);
pub(super) const FAILED: (u16, &str) = (1_013, "the stream has failed; connect again");

/// Close code of a message that named none. It is never sent. Source: RFC 6455 section 7.4.1.
const NO_CODE: usize = 1_005;

/// How a watcher is reached.
pub(super) enum Sink {
    /// Server-sent events. The stream takes one chunk and tells when that is read: until then nothing more is written.
    Events(WritableStreamDefaultWriter),
    /// A socket, with the bytes that it was sent since it last said something. The platform does not tell what waits to be sent.
    Socket(WebSocket, u64),
}

/// Whether a watcher can be sent something.
pub(super) enum Readiness {
    /// Yes.
    Ready,
    /// It has not taken yet what it was sent.
    Slow,
    /// Never again.
    Gone,
}

impl Sink {
    /// A stream of server-sent events, and the answer that carries it.
    ///
    /// # Errors
    /// The platform's.
    pub(super) fn events() -> worker::Result<(Self, Response)> {
        let stream = TransformStream::new()?;
        let sink = Self::Events(stream.writable().get_writer()?);
        let response = Response::from_body(ResponseBody::Stream(stream.readable()))?;
        Ok((sink, response))
    }

    /// A socket that keeps a text, and the answer that carries it. It is accepted last: one that is accepted and cannot be served
    /// would stay open.
    ///
    /// # Errors
    /// The platform's.
    pub(super) fn socket(
        object: &State,
        id: WatcherId,
        attachment: String,
    ) -> worker::Result<(Self, Response)> {
        let pair = WebSocketPair::new()?;
        pair.server.serialize_attachment(attachment)?;
        let response = Response::from_websocket(pair.client)?;
        object.accept_websocket_with_tags(&pair.server, &[&id.to_string()]);
        Ok((Self::Socket(pair.server, 0), response))
    }

    /// Whether it can be sent something now.
    pub(super) fn readiness(&self) -> Readiness {
        match self {
            Self::Events(writer) => match writer.desired_size() {
                Ok(Some(size)) if size > 0.0 => Readiness::Ready,
                Ok(Some(_)) => Readiness::Slow,
                _ => Readiness::Gone,
            },
            Self::Socket(_, silent_bytes) if *silent_bytes > SILENT_BYTES_MAX => Readiness::Gone,
            Self::Socket(..) => Readiness::Ready,
        }
    }

    /// Sends a text; whether the watcher is still there.
    pub(super) fn send(&mut self, text: &str) -> bool {
        match self {
            Self::Events(writer) => {
                let chunk = Uint8Array::from(text.as_bytes());
                let written = writer.write_with_chunk(&chunk);
                // It fails where the client has hung up, which the next look at the stream tells.
                spawn_local(async move {
                    let _ = JsFuture::from(written).await;
                });
                true
            }
            Self::Socket(socket, silent_bytes) => {
                *silent_bytes += u64::try_from(text.len()).unwrap_or(0);
                socket.send_with_str(text).is_ok()
            }
        }
    }

    /// Closes it.
    pub(super) fn close(&self) {
        if let Self::Socket(socket, _) = self {
            close(socket, SILENT);
        }
    }
}

/// Closes a socket. One that is gone already is left as it is.
pub(super) fn close(socket: &WebSocket, (code, reason): (u16, &str)) {
    let _ = socket.close(Some(code), Some(reason));
}

/// Answers the close of a client with the code that it sent: it waits for that. A connection that broke has sent none that can be
/// sent back, and nobody waits.
pub(super) fn answer_close(socket: &WebSocket, code: usize, reason: &str) {
    let code = u16::try_from(code).ok().filter(|_| code != NO_CODE);
    let _ = socket.close(code, code.map(|_| reason));
}

/// What is kept of a socket.
pub(super) fn kept_of(socket: &WebSocket) -> Option<Kept> {
    let text: String = socket.deserialize_attachment().ok()??;
    Kept::from_attachment(&text)
}
