//! The one that lends, and what it stores.

use tally::limit::lease::Request;

use super::{Event, KEY, POLICY, World};

impl World {
    /// Whether what comes from a holder does not reach the grantor now.
    pub(super) fn is_unheard(&self, from: usize) -> bool {
        let is_cut = self.now_ms < self.datacenters[from].cut_until_ms;
        is_cut || self.now_ms < self.down_until_ms
    }

    pub(super) fn asked(&mut self, from: usize, life: u64, request: &Request) {
        if self.is_unheard(from) {
            return;
        }
        let policy = &self.plan.policy;
        let answer = self
            .grantor
            .ask(POLICY, policy, KEY, request, self.now_ms)
            .expect("room");
        if answer.must_commit || self.chance.below(10) == 0 {
            self.commit();
        }
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

    pub(super) fn commit(&mut self) {
        while let Some(commit) = self.grantor.commit() {
            self.rows.retain(|row, _| *row >= commit.delete_below);
            self.rows.insert(commit.row, commit.body);
        }
    }
}
