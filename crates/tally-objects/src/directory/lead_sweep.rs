//! Moves of leads that get no calls: a partition goes through its roots, and has each lead taken over at its new place.
//!
//! Invariant: that of [`tally_core::handover::sweep`]. The progress is stored, so a restart continues.

use super::root_store::RootStore;
use super::roots::lead_calls::take_over;
use super::tablets::{LeadSpreads, SWEEP, SWEEP_PACE};
use crate::kit::store::Store;
use tally_core::cluster::root::RootEntry;
use tally_core::counter::id::CounterId;
use tally_core::handover::sweep::{Sweep, SweepTurn};
use tally_host::Host;
use tally_shared::concurrency::all_settled;
use tally_wire::fleet::MovingLeads;
use tally_wire::messages::{Fault, ListNames, decode, encode};
use tally_wire::names::LeadAt;

/// How many leads are asked at once.
const LEADS_AT_ONCE: usize = 8;

impl LeadSpreads {
    /// Reads the progress, if a sweep is under way.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn open_sweep(&self) -> Result<(), Fault> {
        let stored = self.values.get(SWEEP)?;
        let sweep = stored.map(|body| decode(&body)).transpose()?;
        self.sweep.replace(sweep);
        Ok(())
    }

    /// The time of the next step, unix milliseconds.
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.sweep.borrow().as_ref().map(Sweep::next_ms)
    }

    /// The progress: counters that were not handled yet, and leads that did not move.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn moving(&self, store: &Store) -> Result<MovingLeads, Fault> {
        let sweep = self.sweep.borrow();
        let Some(sweep) = sweep.as_ref() else {
            return Ok(MovingLeads::default());
        };
        let after = sweep.after().map_or("", String::as_str);
        Ok(MovingLeads {
            partitions: 1,
            waiting: RootStore::new(store).count_after(after)?,
            left: self.left.get(),
        })
    }

    /// Has some leads taken over at their places, if a step is due.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) async fn sweep(&self, host: &Host, store: &Store) -> Result<(), Fault> {
        let sweep = self.sweep.borrow().clone();
        let Some(sweep) = sweep.filter(|sweep| sweep.next_ms() <= host.now_ms()) else {
            return Ok(());
        };
        let roots = RootStore::new(store);
        let names = roots.names(&ListNames {
            partition: 0,
            prefix: String::new(),
            after: sweep.after().cloned(),
            limit: SWEEP_PACE.bundles_at_once,
        })?;
        let mut leads = Vec::new();
        let mut unread = 0;
        for counter in names.iter().filter_map(|name| CounterId::stored(name).ok()) {
            let root = match roots.entry(&counter) {
                Ok(Some(RootEntry::Live(root))) => root,
                Ok(_) => continue,
                // Its leads are left, and those of others move.
                Err(Fault::Unreadable(_)) => {
                    unread += 1;
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            for datacenter in &root.datacenters {
                leads.push(LeadAt {
                    counter: counter.clone(),
                    datacenter: datacenter.clone(),
                    place: self.locate(&counter, Some(datacenter))?.place,
                });
            }
        }
        let takeovers = leads.into_iter().map(|at| take_over(host, at));
        let outcomes = all_settled(takeovers, LEADS_AT_ONCE).await;
        let left = unread + outcomes.iter().filter(|outcome| outcome.is_err()).count();
        let before = sweep.after().map_or(0, |_| self.left.get());
        self.left.set(before + u64::try_from(left).unwrap_or(0));
        let turn = SweepTurn {
            last: names.last().cloned(),
            has_left: left > 0,
        };
        let current = self.sweep.borrow().clone();
        let next = sweep.turned(current.as_ref(), turn, &SWEEP_PACE, host.now_ms());
        match &next {
            Some(next) => self.values.put(SWEEP, encode(next)?)?,
            None => self.values.remove(SWEEP)?,
        }
        self.sweep.replace(next);
        Ok(())
    }
}
