//! Streams between an object and a client: WebSockets, and server-sent events.
//!
//! Invariant: what one end sends reaches the other in order. A cut between the two sites breaks the connection at the
//! next text: the client is told by code [`BROKEN`], the object of a close without a code, or of an error. A socket
//! outlives the object's memory; it breaks where the object crashes, and so does a stream of events.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use crate::core::Core;
use crate::events::EventStream;
use crate::network::Site;
use crate::sockets::WebSocket;

/// Close code of a connection that broke. Source: RFC 6455 section 7.4.1.
pub const BROKEN: u16 = 1_006;

/// Close code of a stream of events that its object has ended.
pub const ENDED: u16 = 1_000;

/// A text that a client has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// When, true unix milliseconds.
    pub at_ms: i64,
    /// What.
    pub text: String,
}

/// What has reached a client.
#[derive(Default)]
pub(crate) struct Arrivals {
    pub(crate) received: RefCell<Vec<Received>>,
    pub(crate) taken: Cell<usize>,
    pub(crate) closed: RefCell<Option<(u16, String)>>,
    pub(crate) waker: RefCell<Option<Waker>>,
    /// Nothing sent later arrives before this.
    pub(crate) last_us: Cell<u64>,
}

impl Arrivals {
    fn wake(&self) {
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn close(&self, code: u16, reason: &str) {
        let mut closed = self.closed.borrow_mut();
        if closed.is_none() {
            *closed = Some((code, reason.to_owned()));
            drop(closed);
            self.wake();
        }
    }

    pub(crate) fn take(&self, core: &Core, text: String) {
        if self.closed.borrow().is_some() {
            return;
        }
        core.journal.count(|figures| figures.texts += 1);
        let at_ms = core.now_ms();
        self.received.borrow_mut().push(Received { at_ms, text });
        self.wake();
    }
}

/// Draws when something arrives that may not overtake what was sent before.
pub(crate) fn arrival_us(core: &Core, from: Site, to: Site, last_us: &Cell<u64>) -> u64 {
    let delay_us = core.network.delay_us(from, to, &core.chance);
    let at_us = (core.executor.now_us() + delay_us).max(last_us.get() + 1);
    last_us.set(at_us);
    at_us
}

/// A client's end, on its way and at the client. Whoever drops it hangs up.
pub(crate) enum Carrier {
    Socket(Rc<WebSocket>),
    Events(Rc<EventStream>),
    /// No stream: why.
    Refusal(String),
}

impl Carrier {
    pub(crate) fn arrivals(&self) -> Option<&Rc<Arrivals>> {
        match self {
            Self::Socket(socket) => Some(socket.arrivals()),
            Self::Events(stream) => Some(stream.arrivals()),
            Self::Refusal(_) => None,
        }
    }

    /// The client is there.
    pub(crate) fn set_client(&self, client: Site) {
        match self {
            Self::Socket(socket) => socket.set_client(client),
            Self::Events(stream) => stream.set_client(client),
            Self::Refusal(_) => {}
        }
    }

    /// The client says something; `None` for what is no text.
    pub(crate) fn send(&self, text: Option<String>) {
        if let Self::Socket(socket) = self {
            socket.receive(text);
        }
    }

    /// The client closes a socket, and waits for the answer.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        if let Self::Socket(socket) = self {
            socket.close_by_client(code, reason);
        }
    }

    /// The client takes no more chunks for now, or takes all.
    pub(crate) fn pause(&self, is_paused: bool) {
        if let Self::Events(stream) = self {
            stream.pause(is_paused);
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        match self {
            Self::Socket(socket) => socket.hang_up(),
            Self::Events(stream) => stream.hang_up(),
            Self::Refusal(_) => {}
        }
    }
}
