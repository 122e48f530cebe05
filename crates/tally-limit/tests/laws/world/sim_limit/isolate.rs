//! Calls of isolates: from what they hold, else judged by the limiter of their datacenter.

use tally_limit::table::Check;

use super::{Event, KEY, POLICY, World};

impl World {
    /// A call of an isolate: from what it holds, else on its way to the limiter. Its message is never sent twice.
    pub(super) fn take(&mut self, at: usize, cost: u64) {
        let clock_ms = self.clock_ms(at);
        let policy = self.plan.policy.clone();
        let borrowers = &mut self.datacenters[at].borrowers;
        let (verdict, due_request) =
            borrowers.take(&Check::of(POLICY, &policy, KEY, cost), clock_ms);
        match verdict {
            Some(verdict) => {
                assert!(verdict.is_allowed);
                self.judge.admit(self.now_ms, cost);
            }
            None => {
                if self.plan.lends {
                    let check = Check::of(POLICY, &policy, KEY, cost);
                    borrowers.begin(&check, clock_ms).expect("room");
                }
                self.judge.waited += 1;
                if self.copies(at) > 0 {
                    let delay_ms = self.delay_ms();
                    self.after(delay_ms, Event::Checked { from: at, cost });
                }
            }
        }
        if let Some(due_request) = due_request {
            self.send(at, due_request.request);
        }
    }

    /// A call that the limiter judges itself. What it admits counts as admitted, whether its answer arrives or not.
    pub(super) fn checked(&mut self, from: usize, cost: u64) {
        if self.is_unreachable(from) {
            return;
        }
        let check = Check::of(POLICY, &self.plan.policy, KEY, cost);
        let verdict = self.lender.check(&check, self.now_ms).expect("room");
        if verdict.is_allowed {
            self.commit();
            self.judge.admit(self.now_ms, cost);
        } else {
            let policy = self.plan.policy.clone();
            self.judge.refuse(&policy, self.now_ms, cost);
        }
    }
}
