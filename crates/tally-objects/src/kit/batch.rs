//! Answers to many calls in one message.
//!
//! Invariants: all calls of a batch are begun in one turn, in their order. Each is answered as it would be alone, or
//! with `None` while it is in progress: it then continues, and the sender asks again.

use std::cell::RefCell;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};

use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Reply};
use tally_wire::messages::{Batch, BatchedCall, Fault, batch, encode};

/// How long a batch waits for its calls, milliseconds. A call that takes longer waits for another object, and its
/// sender asks for it again separately. So a root that does not answer delays only its own counter.
pub(crate) const ANSWER_MS_MAX: u64 = 100;

/// The calls of a batch that begin together: their rows are read ahead by one statement, and their writes are joined.
/// Most rows are below 1 KB, a few have 13 KB.
pub(super) const BEGUN_AT_ONCE: usize = 480;

/// The most bytes of an answer, except for its last call: later answers are asked for again.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Succeeds if a batch may have this many calls.
///
/// # Errors
/// `Broken` if it may not.
pub(crate) fn check_size(calls: usize) -> Result<(), Fault> {
    if calls > batch::CALLS_MAX {
        let detail = format!("a batch has at most {} calls", batch::CALLS_MAX);
        return Err(Fault::Broken(detail));
    }
    Ok(())
}

/// Calls of a batch that wait for another object, by index.
#[derive(Default)]
pub(crate) struct BatchInFlight(RefCell<FuturesUnordered<LocalBoxFuture<'static, (usize, Reply)>>>);

impl BatchInFlight {
    /// Begins a call. Returns its answer, if it has ended.
    pub(crate) fn begin(
        &self,
        index: usize,
        mut call: LocalBoxFuture<'static, Reply>,
    ) -> Option<(usize, Reply)> {
        // Polled at once: the next call can use the memory of an ended one.
        let ended = (&mut call).now_or_never();
        if ended.is_none() {
            let rest = call.map(move |reply| (index, reply));
            self.0.borrow().push(rest.boxed_local());
        }
        ended.map(|reply| (index, reply))
    }
}

/// A call of a batch, as if it had arrived alone.
pub(crate) fn arrived(call: BatchedCall) -> IncomingCall {
    IncomingCall::within(call.path, call.message)
}

/// The answers of a batch. The sender asks again for calls in flight, and for answers beyond [`ANSWER_BYTES_MAX`].
pub(crate) struct Answers {
    bodies: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl Answers {
    /// No answers yet, for this many calls.
    pub(crate) fn new(calls: usize) -> Self {
        Self {
            bodies: vec![None; calls],
            bytes: 0,
        }
    }

    /// Adds the answer of the call at this index.
    pub(crate) fn put(&mut self, index: usize, answer: Vec<u8>) {
        if self.bytes <= ANSWER_BYTES_MAX
            && let Some(body) = self.bodies.get_mut(index)
        {
            self.bytes += answer.len();
            *body = Some(answer);
        }
    }

    fn take(&mut self, (index, reply): (usize, Reply)) {
        // A reply of another kind counts as no answer, as for a call alone.
        let body = match reply {
            Reply::Answer(body) => body,
            Reply::Stream(_) | Reply::Refused(..) | Reply::Unknown => Vec::new(),
        };
        self.put(index, body);
    }

    /// The answer to the batch.
    pub(crate) fn into_bodies(self) -> Vec<Option<Vec<u8>>> {
        self.bodies
    }
}

/// Answers the calls of a batch: `begin` begins some of them in one turn, and returns those that have ended.
///
/// # Errors
/// `Broken` for more calls than a batch may have.
pub(crate) async fn answer_batch(
    host: &Host,
    object: &Object,
    message: Batch,
    begin: impl Fn(Vec<(usize, BatchedCall)>, &BatchInFlight) -> Vec<(usize, Reply)>,
) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    check_size(message.calls.len())?;
    let mut answers = Answers::new(message.calls.len());
    let in_flight = BatchInFlight::default();
    let mut calls = message.calls.into_iter().enumerate();
    while calls.len() > 0 {
        let some = calls.by_ref().take(BEGUN_AT_ONCE).collect();
        for ended in begin(some, &in_flight) {
            answers.take(ended);
        }
    }
    let mut in_flight = in_flight.0.into_inner();
    // Most calls end in the turn in which they begin, and need no timer.
    if in_flight.is_empty() {
        return Ok(answers.into_bodies());
    }
    let rest = async {
        while let Some(ended) = in_flight.next().await {
            answers.take(ended);
        }
    };
    let _ = host.within_ms(ANSWER_MS_MAX, rest).await;
    if !in_flight.is_empty() {
        object.wait_until(async move { while in_flight.next().await.is_some() {} });
    }
    Ok(answers.into_bodies())
}

/// A fault as the answer of any call.
pub(crate) fn refusal(fault: &Fault) -> Reply {
    Reply::Answer(refusal_bytes(fault))
}

fn refusal_bytes(fault: &Fault) -> Vec<u8> {
    encode(&Err::<(), &Fault>(fault)).unwrap_or_default()
}

/// The bytes of the answer to a call of a cell.
pub(crate) fn bytes_of(reply: Reply) -> Vec<u8> {
    let what = match reply {
        Reply::Answer(bytes) => return bytes,
        Reply::Refused(_, why) => why,
        Reply::Stream(_) | Reply::Unknown => "a batch holds a call that no cell answers".to_owned(),
    };
    refusal_bytes(&Fault::Broken(what))
}
