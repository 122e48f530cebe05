//! The connections of a hub to watchers: streams of server-sent events, and sockets.
//!
//! Invariant: what is buffered for a watcher is bounded. A stream takes one chunk at a time; a socket that was sent
//! [`SILENT_BYTES_MAX`] bytes and has sent nothing is closed.

use std::rc::Rc;

use tally_api::live::SILENT_BYTES_MAX;
use tally_api::live::client_message::SocketAttachment;
use tally_api::live::subscriptions::WatcherId;
use tally_host::Stream;
use tally_host::object::{Events, Object, Readiness, Socket};

/// Close codes and reasons of a hub: policy violation, and try again later. Source: RFC 6455 section 7.4.1 and its
/// registry.
const SILENT: (u16, &str) = (
    1_008,
    "say ping now and then: what waits for a silent client is bounded",
);
const ENDED: (u16, &str) = (1_013, "the time of a share's stream is over; connect again");
pub(super) const FAILED: (u16, &str) = (1_013, "the stream has failed; connect again");

/// The connection to a watcher.
pub(super) enum Sink {
    /// Server-sent events. The stream takes one chunk and reports when it is read: until then nothing more is written.
    Events(Rc<dyn Events>),
    /// A socket, with the bytes sent to it since its last message. The platform does not report what is still buffered.
    Socket(Rc<dyn Socket>, u64),
}

impl Sink {
    /// A stream of server-sent events, and the answer that carries it.
    ///
    /// # Errors
    /// The platform's error.
    pub(super) fn events(object: &Object) -> Result<(Self, Stream), String> {
        let (events, stream) = object.platform().events()?;
        Ok((Self::Events(events), stream))
    }

    /// A socket that stores a text, and the answer that carries it.
    ///
    /// # Errors
    /// The platform's error.
    pub(super) fn socket(
        object: &Object,
        id: WatcherId,
        attachment: String,
    ) -> Result<(Self, Stream), String> {
        let (socket, stream) = object.platform().accept(&id.to_string(), attachment)?;
        Ok((Self::Socket(socket, 0), stream))
    }

    /// Whether it can be sent something now.
    pub(super) fn readiness(&self) -> Readiness {
        match self {
            Self::Events(events) => events.readiness(),
            Self::Socket(_, silent_bytes) if *silent_bytes > SILENT_BYTES_MAX => Readiness::Gone,
            Self::Socket(..) => Readiness::Ready,
        }
    }

    /// Sends a text; returns whether the watcher is still there.
    pub(super) fn send(&mut self, text: &str) -> bool {
        match self {
            Self::Events(events) => {
                events.send(text);
                true
            }
            Self::Socket(socket, silent_bytes) => {
                *silent_bytes += u64::try_from(text.len()).unwrap_or(0);
                socket.send(text)
            }
        }
    }

    /// Closes it.
    pub(super) fn close(&self) {
        if let Self::Socket(socket, _) = self {
            close(&**socket, SILENT);
        }
    }

    /// Ends it, so that its watcher connects again.
    pub(super) fn end(&self) {
        match self {
            Self::Events(events) => events.close(),
            Self::Socket(socket, _) => close(&**socket, ENDED),
        }
    }
}

/// Closes a socket.
pub(super) fn close(socket: &dyn Socket, (code, reason): (u16, &str)) {
    socket.close(Some(code), Some(reason));
}

/// Answers the close of a client with the code that it sent, for which the client waits. A connection that broke has no
/// code that can be sent back, and nobody waits.
pub(super) fn answer_close(socket: &dyn Socket, code_and_reason: Option<(u16, String)>) {
    let (code, reason) = code_and_reason.unzip();
    socket.close(code, reason.as_deref());
}

/// The watcher of a socket.
pub(super) fn id_of(socket: &dyn Socket) -> Option<WatcherId> {
    socket.name()?.parse().ok()
}

/// The state stored with a socket.
pub(super) fn kept_of(socket: &dyn Socket) -> Option<SocketAttachment> {
    SocketAttachment::from_attachment(&socket.kept()?)
}
