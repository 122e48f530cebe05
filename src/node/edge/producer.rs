//! The deployment's queue, where it has one: what an isolate must know before it puts events there, and how.
//!
//! Invariant: each message has its key before it is first sent, so a batch of unknown outcome may be sent again.

use std::cell::RefCell;

use super::request_context::RequestContext;
use crate::core::cluster::lease::{Held, Look};
use crate::core::counter::id::CounterId;
use crate::core::counter::produce::Sent;
use crate::core::counter::queue::InboxId;
use crate::host::{Host, State};
use crate::node::shared::call;
use crate::protocol::messages::{Fault, RegisterInbox};
use crate::protocol::problem::Problem;
use crate::protocol::queued::Message;

/// Time for the first attempt of a batch, and for its retry.
const ATTEMPTS_MS: [u64; 2] = [2_500, 2_000];

/// How often a root is asked that does not answer, or so late that its answer cannot be relied on.
const ASK_TRIES: usize = 2;

/// The generations that this isolate knows of.
struct Leases(RefCell<Held>);

impl State for Leases {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// The living generation of a counter, which is created if need be. Its root knows from then on that reads of
/// it may lack what is queued.
///
/// # Errors
/// `unavailable` where the root does not answer.
pub async fn generation_of(context: &RequestContext, counter: &CounterId) -> Result<u64, Problem> {
    let leases = context.host.state::<Leases>();
    let mut fault = Fault::Unavailable("the counter's root took too long".to_owned());
    for _ in 0..=ASK_TRIES {
        // One of those who come asks before the answer is too old, so that the others need not wait.
        let look = leases.0.borrow_mut().look(counter, context.host.now_ms());
        if let Look::Known(generation) = look {
            return Ok(generation);
        }
        let asked_ms = context.host.now_ms();
        let register = RegisterInbox {
            counter: counter.clone(),
            inbox: InboxId::of_queue(),
        };
        match call(&context.host, &register).await {
            Ok(generation) => {
                leases.0.borrow_mut().keep(counter, generation, asked_ms);
            }
            Err(failed) => fault = failed,
        }
    }
    Err(fault.into())
}

/// Sends a batch to the queue.
///
/// # Errors
/// `Unavailable`, after which it is unknown whether the queue has it.
pub async fn send(host: &Host, messages: Vec<Sent>) -> Result<(), Fault> {
    let batch: Result<Vec<Vec<u8>>, Fault> = messages.into_iter().map(Message::write).collect();
    let batch = batch?;
    for milliseconds in ATTEMPTS_MS {
        let attempt = host.platform().enqueue(batch.clone());
        if let Some(Ok(())) = host.within_ms(milliseconds, attempt).await {
            return Ok(());
        }
    }
    let unknown = "the queue did not answer".to_owned();
    Err(Fault::Unavailable(unknown))
}
