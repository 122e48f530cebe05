//! Streams of server-sent events: one chunk at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tally_host::Stream;
use tally_host::object::{Events, Readiness};

use super::place::Place;

/// A stream, as the object and the connection have it.
#[derive(Default)]
pub(crate) struct EventChannel {
    chunk: RefCell<Option<Bytes>>,
    /// Whether a chunk was sent that has not left the object yet.
    is_held: Cell<bool>,
    has_ended: Cell<bool>,
    is_gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// The client's end. Whoever drops it hangs up.
pub(crate) struct EventReader(pub(crate) Rc<EventChannel>);

impl Drop for EventReader {
    fn drop(&mut self) {
        self.0.is_gone.set(true);
    }
}

/// What carries a stream to the connection, which takes the reader out of it.
pub(crate) struct EventCarrier(pub(crate) RefCell<Option<EventReader>>);

impl EventReader {
    /// The next chunk; `None` at the end.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(chunk) = self.0.chunk.take() {
            return Poll::Ready(Some(chunk));
        }
        if self.0.has_ended.get() {
            return Poll::Ready(None);
        }
        *self.0.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl EventChannel {
    /// Whether somebody may still read it.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_gone.get() && !self.has_ended.get()
    }

    /// Ends the stream after what it was sent.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.wake();
    }

    fn wake(&self) {
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// An object's end of a stream.
struct EventWriter {
    channel: Rc<EventChannel>,
    place: Rc<Place>,
    number: u64,
}

impl Events for EventWriter {
    fn readiness(&self) -> Readiness {
        if !self.channel.is_open() || !self.place.is_alive(self.number) {
            return Readiness::Gone;
        }
        match self.channel.is_held.get() || self.channel.chunk.borrow().is_some() {
            true => Readiness::Slow,
            false => Readiness::Ready,
        }
    }

    fn send(&self, text: &str) {
        let (channel, text) = (self.channel.clone(), text.as_bytes().to_vec());
        channel.is_held.set(true);
        self.place.release(self.number, move || {
            channel.is_held.set(false);
            let mut chunk = channel.chunk.borrow_mut();
            // A text that is sent to a slow stream follows the one that waits.
            let before = chunk.take().map_or_else(Vec::new, |bytes| bytes.to_vec());
            *chunk = Some([before, text].concat().into());
            drop(chunk);
            channel.wake();
        });
    }

    fn close(&self) {
        let channel = self.channel.clone();
        self.place.release(self.number, move || channel.end());
    }
}

/// A stream, and the answer that carries its other end.
pub(crate) fn begin(place: &Rc<Place>, number: u64) -> (Rc<dyn Events>, Stream) {
    let channel = Rc::<EventChannel>::default();
    place.streams.borrow_mut().push(channel.clone());
    let reader = EventReader(channel.clone());
    let writer = EventWriter {
        channel,
        place: place.clone(),
        number,
    };
    let carrier = Rc::new(EventCarrier(RefCell::new(Some(reader))));
    (
        Rc::new(writer),
        Stream {
            status: 200,
            carrier,
        },
    )
}
