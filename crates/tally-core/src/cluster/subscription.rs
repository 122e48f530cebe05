//! Who watches a counter, and which leads its root asks to push often.
//!
//! Invariant: while somebody keeps reading a counter, every lead that can be reached pushes often. The root knows
//! that from the lead's reports, not from what the root has sent. While nobody reads, each lead falls silent once its
//! lease is over and the root has said that nobody watches.

use std::collections::BTreeMap;

use super::push::{LEASE_MS, after};
use crate::counter::id::Datacenter;

/// How long a counter counts as watched after the last read, and the lease of its leads.
pub const WATCHED_MS: i64 = LEASE_MS;

/// A lead whose lease is shorter than this is notified: two heartbeats of it were lost by then.
const RENEW_MS: i64 = WATCHED_MS / 2;

/// How soon a lead that has not pushed is notified again.
pub const NOTIFY_MS: i64 = 200;

/// Who watches a counter, at its root. In memory: those who go on reading begin it again.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Since when it is watched without a gap.
    since_ms: i64,
    until_ms: Option<i64>,
    leads: BTreeMap<Datacenter, LeadSubscription>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LeadSubscription {
    /// Until when the lead pushes often, by what it reports.
    leased_until_ms: Option<i64>,
    notified_ms: Option<i64>,
}

impl Watch {
    /// A reader has asked. The shell does not say so of a reader in the only datacenter that counts.
    pub fn record_read(&mut self, now_ms: i64) {
        if !self.is_watched(now_ms) {
            self.since_ms = now_ms;
        }
        self.until_ms = Some(now_ms.saturating_add(WATCHED_MS));
    }

    /// Whether a reader has asked lately.
    pub fn is_watched(&self, now_ms: i64) -> bool {
        self.lease_ms(now_ms) > 0
    }

    /// Whether it has been watched for so long without a gap, milliseconds: leads that can be reached know of it by
    /// then.
    pub fn is_watched_for(&self, now_ms: i64, milliseconds: i64) -> bool {
        self.is_watched(now_ms) && now_ms.saturating_sub(self.since_ms) >= milliseconds
    }

    /// For how long a lead should push often, milliseconds; 0 while nobody watches.
    pub fn lease_ms(&self, now_ms: i64) -> u32 {
        let left_ms = self
            .until_ms
            .map_or(0, |until| until.saturating_sub(now_ms));
        let is_watched = (1..=WATCHED_MS).contains(&left_ms);
        let lease_ms = if is_watched { WATCHED_MS } else { 0 };
        u32::try_from(lease_ms).unwrap_or(0)
    }

    /// A lead has pushed, and said for how long it goes on pushing often.
    pub fn record_push(&mut self, now_ms: i64, from: &Datacenter, watched_for_ms: u32) {
        // Where the clock has stepped back since the last read, readers are there for all that is known: a lead
        // whose own clock has ended its lease must not be notified that nobody watches.
        let longest_ms = now_ms.saturating_add(WATCHED_MS);
        self.until_ms = self.until_ms.map(|until| until.min(longest_ms));
        if !self.is_watched(now_ms) {
            // The answer ends the lead's subscription, also if its clock has jumped. The next read renews it.
            self.leads.remove(from);
            return;
        }
        let subscription = self.leads.entry(from.clone()).or_default();
        subscription.leased_until_ms = Some(now_ms.saturating_add(watched_for_ms.into()));
    }

    /// The leads that must be notified now that somebody watches, of all that the root has; they count as
    /// notified.
    pub fn leads_to_notify<'a>(
        &mut self,
        now_ms: i64,
        leads: impl Iterator<Item = &'a Datacenter>,
    ) -> Vec<Datacenter> {
        if !self.is_watched(now_ms) {
            self.leads.clear();
            return Vec::new();
        }
        let mut due_leads = Vec::new();
        for lead in leads {
            let subscription = self.leads.entry(lead.clone()).or_default();
            if subscription.due_ms(now_ms) <= now_ms {
                subscription.notified_ms = Some(now_ms);
                due_leads.push(lead.clone());
            }
        }
        due_leads
    }
}

impl LeadSubscription {
    fn due_ms(&self, now_ms: i64) -> i64 {
        let again_ms = after(self.notified_ms, NOTIFY_MS, now_ms);
        let longest_ms = now_ms.saturating_add(WATCHED_MS);
        let lease_ms = self.leased_until_ms.filter(|until| *until <= longest_ms);
        again_ms.max(lease_ms.map_or(now_ms, |until| until.saturating_sub(RENEW_MS)))
    }
}
