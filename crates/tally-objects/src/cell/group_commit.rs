//! Group commit: flushes that arrive during a commit go into the next one. So the number of written rows depends on the
//! commits that storage can make, not on the number of isolates.
//!
//! Invariant: at most one commit is in progress, and memory is ahead of storage by that one only: the platform holds
//! every answer back until the writes before it are durable (output gate). Life of a flush: it is decided and written
//! at once if no commit is in progress. Otherwise it waits, and the request that ends that commit decides and writes
//! all waiting flushes in one synchronous step. All requests of one object share a context, so here one may wake
//! another.

use std::rc::Rc;

use futures_channel::oneshot;

use super::activity::FlushOutcome as Outcome;
use super::core::CellCore;
use tally_api::metrics::Metric;
use tally_core::counter::flush::Changes;
use tally_shared::metrics;
use tally_wire::messages::{Fault, Flush, Flushed};
use tally_wire::shell_limits::WAITING_MAX;

impl CellCore {
    /// Counts a flush in this commit or the next.
    ///
    /// # Errors
    /// The cell's refusal; `Unavailable` where storage fails, or too many flushes wait.
    pub(super) async fn commit(self: &Rc<Self>, flush: &Flush) -> Outcome {
        let answer = {
            let mut commits = self.commits.borrow_mut();
            if commits.waiting.len() >= WAITING_MAX {
                let busy = "too many flushes wait for a commit here".to_owned();
                return Err(Fault::Unavailable(busy));
            }
            commits.is_under_way.then(|| {
                let (done, answer) = oneshot::channel();
                commits.waiting.push((flush.clone(), done));
                answer
            })
        };
        if let Some(answer) = answer {
            let ended = || Fault::Unavailable("the object was ended".to_owned());
            return answer.await.unwrap_or_else(|_| Err(ended()));
        }
        let (mut outcomes, has_written) = self.write_together(&[flush]);
        // A lane has one flush in flight, so with a single lane no other flush can arrive meanwhile.
        let may_be_joined = self.state.borrow().lanes_within_second(self.host.now_ms()) > 1;
        if has_written && may_be_joined {
            self.commits.borrow_mut().is_under_way = true;
            let core = self.clone();
            self.object.wait_until(async move { core.go_on().await });
        }
        outcomes.pop().unwrap_or_else(|| {
            let none = "a commit without an outcome".to_owned();
            Err(Fault::Broken(none))
        })
    }

    /// Waits for the present commit, and writes the flushes that arrived meanwhile, until there are none.
    async fn go_on(self: Rc<Self>) {
        loop {
            // If it fails, the platform resets the object, and no flush gets an answer.
            let _ = self.rows.sync().await;
            let waiting = std::mem::take(&mut self.commits.borrow_mut().waiting);
            if waiting.is_empty() {
                self.commits.borrow_mut().is_under_way = false;
                return;
            }
            let flushes: Vec<&Flush> = waiting.iter().map(|(flush, _)| flush).collect();
            let (outcomes, _) = self.write_together(&flushes);
            for ((_, done), outcome) in waiting.into_iter().zip(outcomes) {
                // There is no receiver if the request has ended.
                let _ = done.send(outcome);
            }
        }
    }

    /// Load, decide, write: no await, so nothing can run in between. Returns the outcome of each flush, in their order,
    /// and whether anything was written.
    fn write_together(self: &Rc<Self>, flushes: &[&Flush]) -> (Vec<Outcome>, bool) {
        let now_ms = self.host.now_ms();
        let mut together = Changes::default();
        // Storage may have failed since they arrived.
        if let Err(fault) = self.readable() {
            return (vec![Err(fault); flushes.len()], false);
        }
        let mut outcomes = Vec::with_capacity(flushes.len());
        let written = {
            let mut state = self.state.borrow_mut();
            for flush in flushes {
                if let Some(fault) = self.refused_for(flush.nonce) {
                    outcomes.push(Err(fault));
                    continue;
                }
                let applied = state.apply_in(flush.nonce, &flush.load, now_ms, &mut together);
                outcomes.push(
                    applied
                        .map_err(Fault::Refused)
                        .map(|outcome| Flushed::after(&state, outcome)),
                );
            }
            self.rows.write(&state, &together, now_ms.div_euclid(1_000))
        };
        if let Err(fault) = self.written(written) {
            // Refused flushes get this fault too: none of them was counted, and each may be sent again.
            outcomes.fill(Err(fault));
            metrics::count(&self.host, Metric::CommitFailed);
            return (outcomes, false);
        }
        let lanes = self.state.borrow().lanes_within_second(now_ms);
        let is_apart = self.is_apart();
        for (flush, outcome) in flushes.iter().zip(&mut outcomes) {
            if let Ok(flushed) = outcome {
                flushed.linger_ms = self.record_flush(flush, lanes, now_ms);
                flushed.shards = self.state.borrow().spread();
                flushed.is_apart = is_apart;
            }
        }
        if !together.dimensions.is_empty() {
            self.see_to_keys(now_ms);
        }
        if together.hot {
            self.record_change(now_ms);
            metrics::committed(
                &self.host,
                outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
            );
        }
        (outcomes, together.hot)
    }
}
