//! WebSockets and streams of server-sent events.

use std::rc::Rc;

use worker::js_sys::Uint8Array;
use worker::wasm_bindgen_futures::{JsFuture, spawn_local};
use worker::web_sys::{Response, TransformStream, WritableStreamDefaultWriter};
use worker::{State, WebSocket, WebSocketPair};

use super::messages::carried;
use tally_host::Stream;
use tally_host::object::{Events, Readiness, Socket};

struct HeldSocket {
    state: Rc<State>,
    socket: WebSocket,
}

/// A socket that an object has.
pub(super) fn held(state: &Rc<State>, socket: WebSocket) -> Rc<dyn Socket> {
    let state = state.clone();
    Rc::new(HeldSocket { state, socket })
}

/// Accepts a socket. That is done last: one that is accepted and cannot be served would stay open.
pub(super) fn accept(
    state: &Rc<State>,
    name: &str,
    kept: String,
) -> worker::Result<(Rc<dyn Socket>, Stream)> {
    let pair = WebSocketPair::new()?;
    pair.server.serialize_attachment(kept)?;
    let response: Response = worker::Response::from_websocket(pair.client)?.into();
    state.accept_websocket_with_tags(&pair.server, &[name]);
    Ok((held(state, pair.server), carried(response)))
}

impl Socket for HeldSocket {
    fn name(&self) -> Option<String> {
        self.state.get_tags(&self.socket).into_iter().next()
    }

    fn kept(&self) -> Option<String> {
        self.socket.deserialize_attachment().ok()?
    }

    fn keep(&self, text: String) -> Result<(), String> {
        let kept = self.socket.serialize_attachment(text);
        kept.map_err(|error| error.to_string())
    }

    fn send(&self, text: &str) -> bool {
        self.socket.send_with_str(text).is_ok()
    }

    fn close(&self, code: Option<u16>, reason: Option<&str>) {
        let _ = self.socket.close(code, reason);
    }
}

/// The stream takes one chunk and tells when that is read: until then nothing more is written.
struct Writer(WritableStreamDefaultWriter);

/// A stream of server-sent events, and the answer that carries its other end.
pub(super) fn events() -> worker::Result<(Rc<dyn Events>, Stream)> {
    let stream = TransformStream::new()?;
    let writer = Writer(stream.writable().get_writer()?);
    let response = Response::new_with_opt_readable_stream(Some(&stream.readable()))?;
    Ok((Rc::new(writer), carried(response)))
}

impl Events for Writer {
    fn readiness(&self) -> Readiness {
        match self.0.desired_size() {
            Ok(Some(size)) if size > 0.0 => Readiness::Ready,
            Ok(Some(_)) => Readiness::Slow,
            _ => Readiness::Gone,
        }
    }

    fn send(&self, text: &str) {
        let chunk = Uint8Array::from(text.as_bytes());
        let written = self.0.write_with_chunk(&chunk);
        // It fails where the client has hung up, which the next look at the stream tells.
        spawn_local(async move {
            let _ = JsFuture::from(written).await;
        });
    }

    fn close(&self) {
        let closed = self.0.close();
        spawn_local(async move {
            let _ = JsFuture::from(closed).await;
        });
    }
}
