//! The watch of a counter, and the leads that its root asks to push often.
//!
//! Invariant: while a counter is read continuously, every reachable lead pushes often. The root knows that from the
//! lead's reports, not from its own messages. Without readers, each lead falls silent once its lease is over and the
//! root has answered that the counter is not watched.

use std::collections::BTreeMap;

use super::push::{LEASE_MS, after};
use crate::counter::id::Datacenter;

/// How long a counter counts as watched after the last read, and the lease of its leads, milliseconds.
pub const WATCHED_MS: i64 = LEASE_MS;

/// A lead with less than this left of its lease is notified: by then two of its heartbeats were lost.
const RENEW_MS: i64 = WATCHED_MS / 2;

/// How soon a lead that has not pushed is notified again, milliseconds.
pub const NOTIFY_MS: i64 = 200;

/// The watch of a counter, at its root. In memory only: further reads begin it again.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// When the watch began; it has had no gap since.
    since_ms: i64,
    until_ms: Option<i64>,
    leads: BTreeMap<Datacenter, LeadSubscription>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LeadSubscription {
    /// Until when the lead pushes often, by its report.
    leased_until_ms: Option<i64>,
    notified_ms: Option<i64>,
}

impl Watch {
    /// Records a read. It is not called for a reader in the only datacenter that counts.
    pub fn record_read(&mut self, now_ms: i64) {
        if !self.is_watched(now_ms) {
            self.since_ms = now_ms;
        }
        self.until_ms = Some(now_ms.saturating_add(WATCHED_MS));
    }

    /// Whether it was read lately.
    pub fn is_watched(&self, now_ms: i64) -> bool {
        self.lease_ms(now_ms) > 0
    }

    /// Whether it has been watched for this many milliseconds without a gap: by then the reachable leads know of it.
    pub fn is_watched_for(&self, now_ms: i64, milliseconds: i64) -> bool {
        self.is_watched(now_ms) && now_ms.saturating_sub(self.since_ms) >= milliseconds
    }

    /// For how long a lead should push often, milliseconds; 0 while the counter is not watched.
    pub fn lease_ms(&self, now_ms: i64) -> u32 {
        let left_ms = self
            .until_ms
            .map_or(0, |until| until.saturating_sub(now_ms));
        let is_watched = (1..=WATCHED_MS).contains(&left_ms);
        let lease_ms = if is_watched { WATCHED_MS } else { 0 };
        u32::try_from(lease_ms).unwrap_or(0)
    }

    /// Records a push, and for how long the lead continues to push often.
    pub fn record_push(&mut self, now_ms: i64, from: &Datacenter, watched_for_ms: u32) {
        // If the clock has stepped back since the last read, there may still be readers. A lead whose own clock has
        // ended its lease must not get the answer that the counter is not watched.
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

    /// The leads of the root that must be notified now that the counter is watched; they count as notified.
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
