//! How an object answers many calls in one message.
//!
//! Invariants: all calls of a batch are begun in one turn, in their order; a call is answered as it would be by itself, or with `None`
//! while it is under way: it goes on then, and whoever sent it asks again.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::host::Host;
use crate::host::object::{Arrived, Object, Reply};
use crate::protocol::messages::{Batch, BatchedCall, Fault, batch, encode};

/// How long a batch waits for its calls, milliseconds. What takes longer waits for another object, and is asked for again by itself:
/// so a root that does not answer holds up no counter but its own.
pub(super) const ANSWER_MS_MAX: u64 = 100;

/// The most bytes of an answer, but for the last call's: what comes after them is asked for again.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Nothing where a batch may have so many calls.
///
/// # Errors
/// `Broken` where it may not.
pub(super) fn check_size(calls: usize) -> Result<(), Fault> {
    if calls > batch::CALLS_MAX {
        let most = format!("a batch has at most {} calls", batch::CALLS_MAX);
        return Err(Fault::Broken(most));
    }
    Ok(())
}

/// A call of a batch, as it would arrive by itself.
pub(super) fn arrived(call: BatchedCall) -> Arrived {
    Arrived {
        path: call.path,
        message: call.message,
        upgrade: None,
    }
}

/// The answers of a batch: those of calls that are under way, and what comes after the most bytes, are asked for again.
pub(super) struct Answers {
    told: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl Answers {
    /// Of so many calls none is answered yet.
    pub(super) fn new(calls: usize) -> Self {
        Self {
            told: vec![None; calls],
            bytes: 0,
        }
    }

    /// Takes the answer of a call by its place.
    pub(super) fn put(&mut self, place: usize, answer: Vec<u8>) {
        if self.bytes <= ANSWER_BYTES_MAX
            && let Some(place) = self.told.get_mut(place)
        {
            self.bytes += answer.len();
            *place = Some(answer);
        }
    }

    /// What the batch is answered with.
    pub(super) fn told(self) -> Vec<Option<Vec<u8>>> {
        self.told
    }
}

/// Answers the calls of a batch, each by `answer`.
///
/// # Errors
/// `Broken` for more calls than a batch may have.
pub(super) async fn answer_batch(
    host: &Host,
    object: &Object,
    asked: Batch,
    answer: impl Fn(Arrived) -> LocalBoxFuture<'static, Reply>,
) -> Result<Vec<Option<Vec<u8>>>, Fault> {
    check_size(asked.calls.len())?;
    let mut answers = Answers::new(asked.calls.len());
    let calls = asked.calls.into_iter().enumerate().map(|(place, call)| {
        answer(arrived(call))
            .map(move |reply| (place, reply))
            .boxed_local()
    });
    let mut calls: FuturesUnordered<LocalBoxFuture<'static, (usize, Reply)>> = calls.collect();
    let mut take = |(place, reply): (usize, Reply)| {
        // Anything else than an answer is none to whoever sent the call, as it would be by itself.
        let told = match reply {
            Reply::Answer(told) => told,
            Reply::Stream(_) | Reply::Refused(..) | Reply::Unknown => Vec::new(),
        };
        answers.put(place, told);
    };
    // Most calls end in the turn in which they begin, and need no timer.
    let begun = poll_fn(|context| {
        loop {
            match calls.poll_next_unpin(context) {
                Poll::Ready(Some(ended)) => take(ended),
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Pending => return Poll::Ready(false),
            }
        }
    });
    if !begun.await {
        let rest = async {
            while let Some(ended) = calls.next().await {
                take(ended);
            }
        };
        let _ = host.within_ms(ANSWER_MS_MAX, rest).await;
    }
    if !calls.is_empty() {
        object.wait_until(async move { while calls.next().await.is_some() {} });
    }
    Ok(answers.told())
}

/// A fault as the answer of any call.
pub(super) fn refusal(fault: &Fault) -> Reply {
    Reply::Answer(refusal_bytes(fault))
}

fn refusal_bytes(fault: &Fault) -> Vec<u8> {
    encode(&Err::<(), &Fault>(fault)).unwrap_or_default()
}

/// The bytes that a caller of a cell reads.
pub(super) fn bytes_of(reply: Reply) -> Vec<u8> {
    let what = match reply {
        Reply::Answer(bytes) => return bytes,
        Reply::Refused(_, why) => why,
        Reply::Stream(_) | Reply::Unknown => "a batch holds a call that no cell answers".to_owned(),
    };
    refusal_bytes(&Fault::Broken(what))
}
