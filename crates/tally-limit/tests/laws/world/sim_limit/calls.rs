//! Calls of datacenters, and the messages that they cause.

use tally_limit::lease::{Admission, LeaseRequest};
use tally_limit::policy::Scope;
use tally_limit::table::Check;

use super::chance::between_ms;
use super::{Event, Failures, KEY, POLICY, Waiting, World};

/// How long a borrower waits for an answer.
const ANSWER_MS_MAX: i64 = 2_000;

/// How long a call waits for tokens.
const WAIT_MS_MAX: i64 = 2_000;

impl World {
    pub(super) fn attempt(&mut self, at: usize, call: Waiting) {
        let clock_ms = self.clock_ms(at);
        let policy = self.plan.policy.clone();
        let borrowers = &mut self.datacenters[at].borrowers;
        if call.since_ms.is_some() {
            borrowers.leave(POLICY, KEY, call.cost);
        }
        let admission = borrowers
            .check(&Check::of(POLICY, &policy, KEY, call.cost), clock_ms)
            .expect("room");
        let since_ms = call.since_ms.unwrap_or(self.now_ms);
        match admission {
            Admission::Decided(verdict) if verdict.is_allowed => {
                self.judge.admit(self.now_ms, call.cost)
            }
            Admission::Decided(_) | Admission::Away => {
                self.judge.refuse(&policy, self.now_ms, call.cost);
            }
            Admission::Ask if self.now_ms - since_ms > WAIT_MS_MAX => {
                borrowers.leave(POLICY, KEY, call.cost);
                self.judge.refuse(&policy, self.now_ms, call.cost);
            }
            Admission::Ask => {
                self.judge.waited += u64::from(call.since_ms.is_none());
                let since_ms = Some(since_ms);
                self.datacenters[at]
                    .waiting
                    .push(Waiting { since_ms, ..call });
            }
        }
        if let Some(due_request) = self.datacenters[at]
            .borrowers
            .next_request(POLICY, KEY, clock_ms)
        {
            self.send(at, due_request.request);
        }
    }

    pub(super) fn wake(&mut self, at: usize) {
        for call in std::mem::take(&mut self.datacenters[at].waiting) {
            self.attempt(at, call);
        }
        let clock_ms = self.clock_ms(at);
        if let Some(due_request) = self.datacenters[at]
            .borrowers
            .next_request(POLICY, KEY, clock_ms)
        {
            self.send(at, due_request.request);
        }
    }

    pub(super) fn send(&mut self, from: usize, request: LeaseRequest) {
        self.judge.requests += 1;
        let life = self.datacenters[from].life;
        let sequence = request.sequence;
        self.after(
            ANSWER_MS_MAX,
            Event::Late {
                at: from,
                life,
                sequence,
            },
        );
        for _ in 0..self.copies(from) {
            let delay_ms = self.delay_ms();
            let request = request.clone();
            self.after(
                delay_ms,
                Event::Request {
                    from,
                    life,
                    request,
                },
            );
        }
    }

    /// How many copies of a message arrive.
    pub(super) fn copies(&mut self, with: usize) -> u64 {
        if self.plan.failures == Failures::None {
            return 1;
        }
        let is_cut = self.now_ms < self.datacenters[with].cut_until_ms;
        match self.chance.below(20) {
            _ if is_cut => 0,
            0 | 1 => 0,
            2 => 2,
            _ => 1,
        }
    }

    pub(super) fn delay_ms(&mut self) -> i64 {
        let is_odd = self.plan.failures == Failures::All && self.chance.below(50) == 0;
        let (min_ms, max_ms) = match self.plan.policy.scope {
            Scope::Global => (40, 300),
            Scope::Datacenter => (0, 5),
        };
        between_ms(
            &mut self.chance,
            min_ms,
            if is_odd { 20_000 } else { max_ms },
        )
    }
}
