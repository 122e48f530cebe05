//! The one that lends, and what it stores.

use tally_limit::lease::{LeaseAnswer, LeaseId, LeaseRequest};
use tally_limit::policy::Scope;
use tally_limit::table::Check;

use super::{Event, KEY, POLICY, World};

/// How long a recall waits for those that do not answer.
const RECALL_MS_MAX: i64 = 600;

/// Who waits for an answer.
pub struct Requester {
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
    requesters: Vec<Requester>,
}

impl World {
    /// Whether what comes from a borrower does not reach the lender now.
    pub(super) fn is_unreachable(&self, from: usize) -> bool {
        let is_cut = self.now_ms < self.datacenters[from].cut_until_ms;
        is_cut || self.now_ms < self.down_until_ms
    }

    pub(super) fn receive_request(&mut self, from: usize, life: u64, request: &LeaseRequest) {
        if self.is_unreachable(from) {
            return;
        }
        let answer = self.lend(request);
        if answer.is_short(request) {
            let requester = Requester {
                from,
                life,
                request: request.clone(),
            };
            if let Some(requester) = self.recall(requester, false) {
                self.answer(&requester, answer);
            }
            return;
        }
        let request = request.clone();
        self.answer(
            &Requester {
                from,
                life,
                request,
            },
            answer,
        );
    }

    fn lend(&mut self, request: &LeaseRequest) -> LeaseAnswer {
        let check = Check::of(POLICY, &self.plan.policy, KEY, 1);
        self.lender.ask(&check, request, self.now_ms)
    }

    fn answer(&mut self, requester: &Requester, answer: LeaseAnswer) {
        if answer.must_commit || self.chance.below(10) == 0 {
            self.commit();
        }
        let Requester { from, life, .. } = *requester;
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
    fn recall(&mut self, requester: Requester, takes_all: bool) -> Option<Requester> {
        if self.plan.policy.scope != Scope::Global {
            return Some(requester);
        }
        if let Some(recall) = &mut self.recalling {
            recall.requesters.push(requester);
            return None;
        }
        let but = requester.request.lease.clone();
        let leases = self.lender.recallable(POLICY, KEY, Some(&but), self.now_ms);
        if leases.is_empty() {
            return Some(requester);
        }
        self.recalls += 1;
        self.recalling = Some(Recall {
            number: self.recalls,
            takes_all,
            left: leases.len(),
            requesters: vec![requester],
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
                Event::RecallReport {
                    from: at,
                    report,
                    number,
                },
            );
        }
    }

    pub(super) fn receive_report(
        &mut self,
        from: usize,
        report: Option<&LeaseRequest>,
        number: u64,
    ) {
        if self.is_unreachable(from) {
            return;
        }
        if let Some(report) = report {
            self.lender.receive_report(POLICY, KEY, report, self.now_ms);
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
        for (index, requester) in recall.requesters.into_iter().enumerate() {
            let answer = self.lend(&requester.request);
            if !answer.is_short(&requester.request) {
                self.answer(&requester, answer);
                continue;
            }
            // Those behind the first may lack what that one got.
            if recall.takes_all && index == 0 {
                let lease = &requester.request.lease;
                self.lender
                    .recalled_in_vain(POLICY, KEY, lease, self.now_ms);
            }
            if let Some(requester) = self.recall(requester, true) {
                let answer = self.lend(&requester.request);
                self.answer(&requester, answer);
            }
        }
    }

    pub(super) fn commit(&mut self) {
        while let Some(commit) = self.lender.commit() {
            for place in commit.deleted {
                self.rows.remove(&place);
            }
            self.rows.insert(commit.place, (commit.row, commit.body));
        }
    }
}
