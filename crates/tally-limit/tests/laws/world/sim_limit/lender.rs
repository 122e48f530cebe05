//! The one that lends, and what it stores.

use tally_limit::lease::{LeaseAnswer, LeaseId, LeaseRequest};
use tally_limit::policy::Scope;
use tally_limit::table::Check;

use super::{Event, KEY, POLICY, World};

/// How long a recall waits for those that do not answer.
const RECALL_MS_MAX: i64 = 600;

/// Who waits for an answer.
pub struct Asker {
    from: usize,
    life: u64,
    request: LeaseRequest,
}

/// What was asked of borrowers, and for whom.
pub struct Recall {
    number: u64,
    takes_all: bool,
    /// Borrowers that have not answered.
    left: usize,
    askers: Vec<Asker>,
}

impl World {
    /// Whether what comes from a borrower does not reach the lender now.
    pub(super) fn is_unheard(&self, from: usize) -> bool {
        let is_cut = self.now_ms < self.datacenters[from].cut_until_ms;
        is_cut || self.now_ms < self.down_until_ms
    }

    pub(super) fn asked(&mut self, from: usize, life: u64, request: &LeaseRequest) {
        if self.is_unheard(from) {
            return;
        }
        let answer = self.ask(request);
        if answer.is_short(request) {
            let asker = Asker {
                from,
                life,
                request: request.clone(),
            };
            if let Some(asker) = self.recall(asker, false) {
                self.tell(&asker, answer);
            }
            return;
        }
        let request = request.clone();
        self.tell(
            &Asker {
                from,
                life,
                request,
            },
            answer,
        );
    }

    fn ask(&mut self, request: &LeaseRequest) -> LeaseAnswer {
        let check = Check::of(POLICY, &self.plan.policy, KEY, 1);
        self.lender.ask(&check, request, self.now_ms)
    }

    fn tell(&mut self, asker: &Asker, answer: LeaseAnswer) {
        if answer.must_commit || self.chance.below(10) == 0 {
            self.commit();
        }
        let Asker { from, life, .. } = *asker;
        for _ in 0..self.copies(from) {
            let delay_ms = self.delay_ms();
            let answer = answer.clone();
            self.after(
                delay_ms,
                Event::Answered {
                    to: from,
                    life,
                    answer,
                },
            );
        }
    }

    /// Recalls what others hold, for this asker or together with the recall that is going on. Gives the asker back
    /// where there is nothing to recall.
    fn recall(&mut self, asker: Asker, takes_all: bool) -> Option<Asker> {
        if self.plan.policy.scope != Scope::Global {
            return Some(asker);
        }
        if let Some(recall) = &mut self.recalling {
            recall.askers.push(asker);
            return None;
        }
        let but = asker.request.lease.clone();
        let leases = self.lender.recallable(POLICY, KEY, Some(&but), self.now_ms);
        if leases.is_empty() {
            return Some(asker);
        }
        self.recalls += 1;
        self.recalling = Some(Recall {
            number: self.recalls,
            takes_all,
            left: leases.len(),
            askers: vec![asker],
        });
        let number = self.recalls;
        self.after(RECALL_MS_MAX, Event::RecallLate { number });
        for lease in leases {
            self.judge.requests += 1;
            let at = lease.borrower.parse().expect("a datacenter");
            for _ in 0..self.copies(at) {
                let delay_ms = self.delay_ms();
                let lease = lease.clone();
                self.after(
                    delay_ms,
                    Event::Recall {
                        at,
                        lease,
                        takes_all,
                        number,
                    },
                );
            }
        }
        None
    }

    /// A borrower is asked for what it does not need.
    pub(super) fn recalled(&mut self, at: usize, lease: &LeaseId, takes_all: bool, number: u64) {
        if self.now_ms < self.datacenters[at].cut_until_ms {
            return;
        }
        let clock_ms = self.clock_ms(at);
        let borrowers = &mut self.datacenters[at].borrowers;
        let report = borrowers.recall(POLICY, KEY, lease, takes_all, clock_ms);
        for _ in 0..self.copies(at) {
            let delay_ms = self.delay_ms();
            let report = report.clone();
            self.after(
                delay_ms,
                Event::Heard {
                    from: at,
                    report,
                    number,
                },
            );
        }
    }

    pub(super) fn heard(&mut self, from: usize, report: Option<&LeaseRequest>, number: u64) {
        if self.is_unheard(from) {
            return;
        }
        if let Some(report) = report {
            self.lender.hear(POLICY, KEY, report, self.now_ms);
        }
        let recall = self.recalling.as_mut();
        if let Some(recall) = recall.filter(|recall| recall.number == number) {
            recall.left = recall.left.saturating_sub(1);
            if recall.left == 0 {
                self.recall_ends(number);
            }
        }
    }

    /// All have answered, or nobody waits for them any more: those that asked are answered, or the rest is recalled
    /// too.
    pub(super) fn recall_ends(&mut self, number: u64) {
        let is_of = |recall: &mut Recall| recall.number == number;
        let Some(recall) = self.recalling.take_if(is_of) else {
            return;
        };
        for (place, asker) in recall.askers.into_iter().enumerate() {
            let answer = self.ask(&asker.request);
            if !answer.is_short(&asker.request) {
                self.tell(&asker, answer);
                continue;
            }
            // Those behind the first may lack what that one got.
            if recall.takes_all && place == 0 {
                let lease = &asker.request.lease;
                self.lender
                    .recalled_in_vain(POLICY, KEY, lease, self.now_ms);
            }
            if let Some(asker) = self.recall(asker, true) {
                let answer = self.ask(&asker.request);
                self.tell(&asker, answer);
            }
        }
    }

    pub(super) fn commit(&mut self) {
        while let Some(commit) = self.lender.commit() {
            self.rows.retain(|row, _| *row >= commit.delete_below);
            self.rows.insert(commit.row, commit.body);
        }
    }
}
