//! Streams of server-sent events: one chunk at a time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tally_host::Later;
use tally_host::object::Readiness;
use tokio::sync::{mpsc, watch};

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
pub(crate) enum EventReader {
    /// The object is of this thread.
    Near(ChannelEnd),
    /// The object is of another thread.
    Far(mpsc::Receiver<Bytes>),
}

/// The client's end of a channel of this thread.
pub(crate) struct ChannelEnd(Rc<EventChannel>);

impl Drop for ChannelEnd {
    fn drop(&mut self) {
        self.0.is_gone.set(true);
    }
}

/// What carries a stream to the connection, which takes the reader out of it.
pub(crate) struct EventCarrier(Cell<Option<EventReader>>);

impl From<EventReader> for EventCarrier {
    fn from(reader: EventReader) -> Self {
        Self(Cell::new(Some(reader)))
    }
}

impl EventCarrier {
    /// Takes the reader; `None` where it was taken.
    pub(crate) fn take(&self) -> Option<EventReader> {
        self.0.take()
    }
}

impl EventReader {
    /// The reader of a channel.
    pub(crate) fn of(channel: &Rc<EventChannel>) -> Self {
        Self::Near(ChannelEnd(channel.clone()))
    }

    /// The next chunk; `None` at the end.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            Self::Near(end) => end.poll(context),
            Self::Far(chunks) => chunks.poll_recv(context),
        }
    }
}

/// A stream that ends with the server: who reads it connects to the next one.
pub(crate) struct ServedStream {
    reader: EventReader,
    ends: Later<()>,
}

impl ServedStream {
    /// A stream that lasts until `ends` says that the server ends.
    pub(crate) fn new(reader: EventReader, mut ends: watch::Receiver<bool>) -> Self {
        let ends = async move {
            // Its sender is the signal: if that is gone, the end has begun too.
            let _ = ends.wait_for(|ends| *ends).await;
        };
        Self {
            reader,
            ends: Box::pin(ends),
        }
    }

    /// The next chunk; `None` at the end.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.reader.poll(context) {
            Poll::Pending => self.ends.as_mut().poll(context).map(|()| None),
            ready => ready,
        }
    }
}

impl ChannelEnd {
    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
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

    /// Whether it takes a text now.
    pub(crate) fn readiness(&self) -> Readiness {
        if !self.is_open() {
            return Readiness::Gone;
        }
        match self.is_held.get() || self.chunk.borrow().is_some() {
            true => Readiness::Slow,
            false => Readiness::Ready,
        }
    }

    /// A text was sent, which leaves the object once its writes are durable.
    pub(crate) fn hold(&self) {
        self.is_held.set(true);
    }

    /// A text has left the object.
    pub(crate) fn send(&self, text: Vec<u8>) {
        self.is_held.set(false);
        let mut chunk = self.chunk.borrow_mut();
        // A text that is sent to a slow stream follows the one that waits.
        let before = chunk.take().map_or_else(Vec::new, |bytes| bytes.to_vec());
        *chunk = Some([before, text].concat().into());
        drop(chunk);
        self.wake();
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
