//! How a hub reaches a watcher: by a stream of server-sent events, or by a socket.
//!
//! Invariant: what waits for a watcher is bounded. A stream takes one chunk at a time; a socket is closed that was sent
//! [`SILENT_BYTES_MAX`] bytes and has said nothing.

use worker::WebSocket;
use worker::js_sys::Uint8Array;
use worker::wasm_bindgen_futures::{JsFuture, spawn_local};
use worker::web_sys::WritableStreamDefaultWriter;

use crate::protocol::live::SILENT_BYTES_MAX;
use crate::protocol::live::talk::Kept;

/// Close code of a socket that its hub cannot serve any longer: policy violation. Source: RFC 6455 section 7.4.1.
const CLOSE_POLICY: u16 = 1_008;

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
            let reason = "say ping now and then: what waits for a silent client is bounded";
            let _ = socket.close(Some(CLOSE_POLICY), Some(reason));
        }
    }
}

/// What is kept of a socket.
pub(super) fn kept_of(socket: &WebSocket) -> Option<Kept> {
    let text: String = socket.deserialize_attachment().ok()??;
    serde_json::from_str(&text).ok()
}

/// Keeps it, as long as the socket is open.
///
/// # Errors
/// The platform's.
pub(super) fn keep(socket: &WebSocket, kept: &Kept) -> worker::Result<()> {
    socket.serialize_attachment(serde_json::to_string(kept)?)
}
