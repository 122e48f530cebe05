//! Calls between threads.
//!
//! Invariants: an object belongs to one thread, by its id. What passes from thread to thread is a message: bytes, or
//! the end of a channel that carries a stream. A thread that has too many calls waiting refuses the next one, of which
//! nothing has begun then.

use std::rc::Rc;

use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use hyper::upgrade::Upgraded;
use tally_host::Stream;
use tally_host::object::{IncomingCall, Reply};
use tally_wire::names::Placement;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::event_stream::{EventCarrier, EventReader};
use super::live_socket::SocketCarrier;

/// The digits of an object's id that say to which thread it belongs.
const THREAD_DIGITS: usize = 8;

/// The outcome of a call.
pub(crate) type Answer = Result<Reply, String>;

/// A call to an object of another thread.
pub(crate) struct FarCall {
    pub(crate) to: Placement,
    pub(crate) arrived: IncomingCall,
    pub(crate) answer: oneshot::Sender<FarAnswer>,
}

/// The outcome of a call to another thread.
pub(crate) type FarAnswer = Result<FarReply, String>;

/// What an object of another thread replies.
pub(crate) enum FarReply {
    Answer(Vec<u8>),
    Refused(u16, String),
    Unknown,
    Socket(u16, oneshot::Sender<Upgraded>),
    Events(u16, mpsc::Receiver<Bytes>),
}

/// Where the answer to a call goes.
pub(crate) enum Caller {
    Near(oneshot::Sender<Routed>),
    Far(oneshot::Sender<FarAnswer>),
}

/// What a caller waits for.
pub(crate) enum Routed {
    Near(Answer),
    Far(oneshot::Receiver<FarAnswer>),
}

impl Caller {
    /// Answers. A caller that is gone does not hear of it.
    pub(crate) fn hear(self, answer: Answer) {
        match self {
            Self::Near(caller) => drop(caller.send(Routed::Near(answer))),
            Self::Far(caller) => drop(caller.send(answer.and_then(far_reply))),
        }
    }
}

impl Routed {
    /// The answer.
    pub(crate) async fn answer(self) -> Answer {
        match self {
            Self::Near(answer) => answer,
            Self::Far(answered) => {
                let failed = |_| "the receiver has failed".to_owned();
                answered.await.map_err(failed)?.map(near_reply)
            }
        }
    }
}

fn far_reply(reply: Reply) -> FarAnswer {
    let stream = match reply {
        Reply::Answer(bytes) => return Ok(FarReply::Answer(bytes)),
        Reply::Refused(status, why) => return Ok(FarReply::Refused(status, why)),
        Reply::Unknown => return Ok(FarReply::Unknown),
        Reply::Stream(stream) => stream,
    };
    let (status, carrier) = (stream.status, &stream.carrier);
    let socket = carrier.downcast_ref::<SocketCarrier>();
    if let Some(begins) = socket.and_then(SocketCarrier::take) {
        return Ok(FarReply::Socket(status, begins));
    }
    let events = carrier.downcast_ref::<EventCarrier>();
    if let Some(reader) = events.and_then(EventCarrier::take) {
        return Ok(FarReply::Events(status, forwarded(reader)));
    }
    match carrier.downcast_ref::<String>() {
        Some(why) => Ok(FarReply::Refused(status, why.clone())),
        None => Err("it answered with a stream of another kind".to_owned()),
    }
}

fn near_reply(reply: FarReply) -> Reply {
    match reply {
        FarReply::Answer(bytes) => Reply::Answer(bytes),
        FarReply::Refused(status, why) => Reply::Refused(status, why),
        FarReply::Unknown => Reply::Unknown,
        FarReply::Socket(status, begins) => Reply::Stream(Stream {
            status,
            carrier: Rc::new(SocketCarrier::from(begins)),
        }),
        FarReply::Events(status, chunks) => Reply::Stream(Stream {
            status,
            carrier: Rc::new(EventCarrier::from(EventReader::Far(chunks))),
        }),
    }
}

/// Moves the chunks of a stream to another thread: one is on its way at a time, so a slow client is seen as such.
fn forwarded(mut reader: EventReader) -> mpsc::Receiver<Bytes> {
    let (chunks, received) = mpsc::channel(1);
    tokio::task::spawn_local(async move {
        while let Ok(room) = chunks.reserve().await {
            let next = std::pin::pin!(std::future::poll_fn(|context| reader.poll(context)));
            let gone = std::pin::pin!(chunks.closed());
            match select(next, gone).await {
                Either::Left((Some(chunk), _)) => room.send(chunk),
                _ => return,
            }
        }
    });
    received
}

/// The threads of the server, as one of them has them.
#[derive(Clone)]
pub(crate) struct Threads {
    own: usize,
    calls: Vec<mpsc::Sender<FarCall>>,
}

impl Threads {
    /// The threads, each with what it receives. `waiting_max`: how many calls may wait for a thread.
    pub(crate) fn all(count: usize, waiting_max: usize) -> Vec<(Self, mpsc::Receiver<FarCall>)> {
        let ends = (0..count).map(|_| mpsc::channel(waiting_max));
        let (calls, received): (Vec<_>, Vec<_>) = ends.unzip();
        let seats = received.into_iter().enumerate();
        let seats = seats.map(|(own, received)| {
            let calls = calls.clone();
            (Self { own, calls }, received)
        });
        seats.collect()
    }

    /// Whether there is no other thread.
    pub(crate) fn is_one(&self) -> bool {
        self.calls.len() == 1
    }

    fn thread_of(&self, id: &str) -> usize {
        let digits = id.get(..THREAD_DIGITS).unwrap_or_default();
        let number = u32::from_str_radix(digits, 16).unwrap_or(0);
        usize::try_from(number).unwrap_or(0) % self.calls.len().max(1)
    }

    /// Whether an object belongs to this thread.
    pub(crate) fn is_own(&self, id: &str) -> bool {
        self.thread_of(id) == self.own
    }

    /// Hands a call to the thread of an object.
    pub(crate) fn send(&self, id: &str, to: Placement, arrived: IncomingCall, caller: Caller) {
        let thread = self.thread_of(id);
        let room = self.calls.get(thread).map(mpsc::Sender::try_reserve);
        let (room, caller) = match (room, caller) {
            (Some(Ok(room)), Caller::Near(caller)) => (room, caller),
            (Some(Err(TrySendError::Full(()))), caller) => {
                return caller.hear(Err(format!("too many calls wait for thread {thread}")));
            }
            (_, caller) => return caller.hear(Err(format!("thread {thread} has ended"))),
        };
        let (answer, answered) = oneshot::channel();
        room.send(FarCall {
            to,
            arrived,
            answer,
        });
        let _ = caller.send(Routed::Far(answered));
    }
}
