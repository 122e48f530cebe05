//! A WebSocket, as both of its ends have it: the object's, and the task that moves frames to and from the connection.
//!
//! Invariant: what an object sends waits here, [`WAITING_BYTES_MAX`] at the most, as a part of the memory that clients
//! fill together: a client that takes no more is broken off.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use futures_channel::oneshot;
use hyper::upgrade::Upgraded;

use super::clients::held_bytes::{HeldBytes, HeldRoom};

/// Bytes that wait for a client.
const WAITING_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// The state of a socket, as its object sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketPhase {
    Open,
    /// The client has closed, and waits for the object's answer.
    ClientClosed,
    /// The object has closed, or the connection is gone.
    Closed,
}

/// What an object sends.
pub(crate) enum Outbound {
    Text(String),
    Close(Option<(u16, String)>),
}

/// A socket, as both of its ends have it.
pub(crate) struct LiveSocket {
    pub(crate) name: String,
    pub(crate) kept: RefCell<String>,
    pub(crate) phase: Cell<SocketPhase>,
    waiting: RefCell<VecDeque<Outbound>>,
    waiting_bytes: Cell<usize>,
    /// What waits, of the memory of all clients.
    held: RefCell<HeldBytes>,
    is_broken: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl LiveSocket {
    /// A socket that is open. `room`: the memory of all clients.
    pub(crate) fn new(name: &str, kept: String, room: &Arc<HeldRoom>) -> Self {
        Self {
            name: name.to_owned(),
            kept: RefCell::new(kept),
            phase: Cell::new(SocketPhase::Open),
            waiting: RefCell::default(),
            waiting_bytes: Cell::default(),
            held: RefCell::new(HeldBytes::new(room)),
            is_broken: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// Whether the object may send something.
    pub(crate) fn is_open(&self) -> bool {
        self.phase.get() == SocketPhase::Open
    }

    /// Ends the connection without a word.
    pub(crate) fn break_off(&self) {
        self.phase.set(SocketPhase::Closed);
        self.is_broken.set(true);
        self.wake();
    }

    fn wake(&self) {
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Something has left the object.
    pub(crate) fn push(&self, what: Outbound) {
        if let Outbound::Text(text) = &what {
            let bytes = self.waiting_bytes.get() + text.len();
            if !self.hold(bytes) || bytes > WAITING_BYTES_MAX {
                self.is_broken.set(true);
            }
        }
        self.waiting.borrow_mut().push_back(what);
        self.wake();
    }

    /// Counts what waits from now on. Returns whether there is room for it.
    fn hold(&self, bytes: usize) -> bool {
        self.waiting_bytes.set(bytes);
        self.held.borrow_mut().set(bytes)
    }

    /// What is sent next; `None` where the connection ends.
    pub(crate) async fn next(&self) -> Option<Outbound> {
        std::future::poll_fn(|context| {
            if self.is_broken.get() {
                return Poll::Ready(None);
            }
            if let Some(next) = self.waiting.borrow_mut().pop_front() {
                if let Outbound::Text(text) = &next {
                    self.hold(self.waiting_bytes.get().saturating_sub(text.len()));
                }
                return Poll::Ready(Some(next));
            }
            *self.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// What carries a socket to the connection, which it gives to the task of the socket. Where none is given, the socket
/// ends.
pub(crate) struct SocketCarrier(Cell<Option<oneshot::Sender<Upgraded>>>);

impl From<oneshot::Sender<Upgraded>> for SocketCarrier {
    fn from(begins: oneshot::Sender<Upgraded>) -> Self {
        Self(Cell::new(Some(begins)))
    }
}

impl SocketCarrier {
    /// Takes what the connection is given to; `None` where it was taken.
    pub(crate) fn take(&self) -> Option<oneshot::Sender<Upgraded>> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    //! Law: what waits for clients is a part of the memory that they fill, and who takes none of it is broken off.

    use futures_util::FutureExt;

    use super::*;

    fn socket(room: &Arc<HeldRoom>) -> LiveSocket {
        LiveSocket::new("a", String::new(), room)
    }

    fn push(socket: &LiveSocket, bytes: usize) {
        socket.push(Outbound::Text("x".repeat(bytes)));
    }

    /// Whether something comes next; `None` where the connection ends.
    fn takes(socket: &LiveSocket) -> Option<bool> {
        match socket.next().now_or_never() {
            Some(next) => next.map(|_| true),
            None => Some(false),
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_broken_off_and_leaves_its_room() {
        let room = HeldRoom::new(100_000);
        let [deaf, slow, quick] = [0; 3].map(|_| socket(&room));
        push(&deaf, 90_000);
        push(&slow, 30_000);
        push(&slow, 30_000);
        // There was no room for the second one.
        assert_eq!(takes(&slow), None);
        drop(slow);
        for _ in 0..100 {
            push(&quick, 15_000);
            assert_eq!(takes(&quick), Some(true));
        }
        assert_eq!(takes(&deaf), Some(true));
        assert_eq!(takes(&deaf), Some(false));
        push(&quick, 110_000);
        assert_eq!(takes(&quick), Some(true));
        push(&deaf, WAITING_BYTES_MAX + 1);
        assert_eq!(takes(&deaf), None);
    }
}
