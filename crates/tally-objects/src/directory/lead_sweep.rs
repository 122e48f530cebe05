//! Moves of leads that get no calls: a partition goes through its roots, some at a time, and has each lead taken over
//! at its new place.
//!
//! Invariant: a lead that does not answer delays no other; if any is left the roots are gone through again, later. The
//! progress is stored, so a restart continues.

use serde::{Deserialize, Serialize};

use super::root_store::RootStore;
use super::tablets::LeadSpreads;
use crate::kit::store::Store;
use tally_core::cluster::root::RootEntry;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_protocol::fleet::MovingLeads;
use tally_protocol::messages::{CallLead, Fault, ListNames, decode, encode};
use tally_protocol::names::{CellAddress, LeadAt};
use tally_shared::call::call_within;
use tally_shared::concurrency::all_settled;
use tally_shared::open_objects;

/// Name of the deployment value that holds the progress during a sweep.
pub(super) const SWEEP: &str = "sweep";

/// How many counters are handled together, and how many leads are asked at once.
const COUNTERS_AT_ONCE: u32 = 16;
const LEADS_AT_ONCE: usize = 8;

/// How long after a change of the number of tablets the first ones wait, milliseconds: leads with writes move by
/// themselves.
const BEGIN_MS: i64 = 30_000;

/// The time between two steps, milliseconds: 16 in half a second are 2 million a day in each partition.
const NEXT_MS: i64 = 500;

/// The time before it begins again where leads were left, milliseconds.
const AGAIN_MS: i64 = 300_000;

/// How long a lead waits until one more object may be open, milliseconds.
const ROOM_MS_MAX: i64 = 2_000;

/// How long a lead may take to move, milliseconds; a slower one continues, and is checked again.
const TAKE_MS_MAX: u64 = 2_000;

/// The progress. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sweep {
    /// The last counter that was handled.
    after: Option<String>,
    /// Whether a lead before that did not move.
    has_left: bool,
    /// The time of the next step, unix milliseconds.
    pub(super) next_ms: i64,
}

impl Sweep {
    /// A sweep that begins.
    pub(super) fn begin(now_ms: i64) -> Self {
        Self {
            after: None,
            has_left: false,
            next_ms: now_ms.saturating_add(BEGIN_MS),
        }
    }

    /// The progress after these counters; `None` once all have moved.
    fn go_on(self, looked_at: &[CounterId], has_left: bool, now_ms: i64) -> Option<Self> {
        let has_left = self.has_left || has_left;
        let is_last = looked_at.len() < usize::try_from(COUNTERS_AT_ONCE).unwrap_or(usize::MAX);
        match (is_last, has_left) {
            (true, false) => None,
            (true, true) => Some(Self {
                after: None,
                has_left: false,
                next_ms: now_ms.saturating_add(AGAIN_MS),
            }),
            (false, has_left) => Some(Self {
                after: looked_at.last().map(|last| last.as_str().to_owned()),
                has_left,
                next_ms: now_ms.saturating_add(NEXT_MS),
            }),
        }
    }
}

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
        self.sweep.borrow().as_ref().map(|sweep| sweep.next_ms)
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
        let after = sweep.after.as_deref().unwrap_or_default();
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
        let Some(sweep) = sweep.filter(|sweep| sweep.next_ms <= host.now_ms()) else {
            return Ok(());
        };
        let roots = RootStore::new(store);
        let names = roots.names(&ListNames {
            partition: 0,
            prefix: String::new(),
            after: sweep.after.clone(),
            limit: COUNTERS_AT_ONCE,
        })?;
        let looked_at = names.iter().filter_map(|name| CounterId::stored(name).ok());
        let looked_at: Vec<CounterId> = looked_at.collect();
        let mut leads = Vec::new();
        let mut unread = 0;
        for counter in &looked_at {
            let root = match roots.entry(counter) {
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
                    place: self.locate(counter, Some(datacenter))?.place,
                });
            }
        }
        let takeovers = leads.into_iter().map(|at| take_over(host, at));
        let outcomes = all_settled(takeovers, LEADS_AT_ONCE).await;
        // A sweep that began meanwhile goes through all roots.
        if self.sweep.borrow().as_ref() != Some(&sweep) {
            return Ok(());
        }
        let left = unread + outcomes.iter().filter(|outcome| outcome.is_err()).count();
        let has_left = left > 0;
        let before = sweep.after.as_ref().map_or(0, |_| self.left.get());
        self.left.set(before + u64::try_from(left).unwrap_or(0));
        let next = sweep.go_on(&looked_at, has_left, host.now_ms());
        match &next {
            Some(next) => self.values.put(SWEEP, encode(next)?)?,
            None => self.values.remove(SWEEP)?,
        }
        self.sweep.replace(next);
        Ok(())
    }
}

/// Has a lead taken over at its place.
pub(super) async fn take_over(host: &Host, at: LeadAt) -> Result<(), Fault> {
    if at.place == LeadPlace::Own {
        let lead = CellAddress::lead(&at.counter, &at.datacenter);
        open_objects::room_of_own(host, &lead, host.now_ms() + ROOM_MS_MAX).await?;
    }
    let take = CallLead {
        at,
        path: String::new(),
        message: Vec::new(),
    };
    call_within(host, &take, TAKE_MS_MAX).await.map(|_| ())
}
