//! Who watches a counter, and when: the views' polls, and which leads the root asks to push often.
//!
//! Invariant: while a view polls, every lead that can be reached pushes often, and the root knows it from
//! the lead's own word, not from what it has sent. While no view polls, each lead falls silent once its lease
//! is over and the root has said that nobody watches.
//!
//! | type | who | decides |
//! |---|---|---|
//! | [`Poller`] | a place that views counters of one directory partition | when to ask |
//! | [`Held`] | the partition | how long a poll waits for news |
//! | [`Watch`] | the root | whether it is watched, which leads must be told |
//!
//! A poll names what the view has of each counter, and is answered by what changed since: at once where
//! something did, else when something does, at most [`HOLD_MS`] later. Polls leave by the clock and overlap:
//! none waits for the answer to another, so a lost one costs the interval to the next and not a
//! timeout. While it is quiet, four polls wait at the root: news goes out in four answers at once, and is
//! lost with probability 0.0975^4 = 0.00009 where each message is lost with 5 %. While news comes, polls
//! leave every [`POLL_MS`]. A view in a place joins its counters of one partition in one poll.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::delta::{Delta, Have};
use super::push::{LEASE_MS, after};
use crate::core::counter::id::{CounterId, Datacenter};

/// Between two polls while news comes.
pub const POLL_MS: i64 = 100;

/// News counts as coming for so long after the last.
const NEWS_MS: i64 = 1_000;

/// Between two polls while it is quiet.
pub const QUIET_POLL_MS: i64 = 250;

/// Between two polls while the root does not answer: once it can be reached, one of them soon is there.
pub const OUTAGE_POLL_MS: i64 = 100;

/// No answer for so long is an outage: a poll may wait for [`HOLD_MS`], travel 300 ms, and be lost.
const OUTAGE_MS: i64 = 2_000;

/// How long the root keeps a poll that it has no news for.
pub const HOLD_MS: i64 = 1_000;

/// Polls of one view that wait at once: 1,000 ms / 250 ms.
pub const HELD_MAX: usize = 4;

/// How long a counter counts as watched after the last poll, and the lease of its leads.
pub const WATCHED_MS: i64 = LEASE_MS;

/// A lead whose lease is shorter than this is told: two heartbeats of it were lost by then.
const RENEW_MS: i64 = WATCHED_MS / 2;

/// How soon a lead that is not heard of is told again.
pub const TELL_MS: i64 = 200;

/// View → partition: what has changed since?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    /// The view, by a number drawn at random: polls of one view wait together.
    pub view: u64,
    /// The counters that it views, and what it has of each.
    pub counters: Vec<(CounterId, Have)>,
}

/// What has changed: counters without news are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    /// What the view lacks of each counter.
    pub news: Vec<(CounterId, Delta)>,
}

/// When a place asks one partition about the counters that it views.
#[derive(Clone, Debug)]
pub struct Poller {
    sent_ms: Option<i64>,
    answered_ms: i64,
    news_ms: Option<i64>,
}

impl Poller {
    /// A place that begins to view.
    pub fn new(now_ms: i64) -> Self {
        Self {
            sent_ms: None,
            answered_ms: now_ms,
            news_ms: None,
        }
    }

    /// When the next poll is due, unix milliseconds.
    pub fn due_ms(&self, now_ms: i64) -> i64 {
        // What seems to be later than now is from before a step of the clock: long ago, for all we know.
        let is_within = |at_ms: i64, length_ms: i64| (0..length_ms).contains(&(now_ms - at_ms));
        let interval_ms = match self.news_ms {
            _ if !is_within(self.answered_ms, OUTAGE_MS) => OUTAGE_POLL_MS,
            Some(at_ms) if is_within(at_ms, NEWS_MS) => POLL_MS,
            _ => QUIET_POLL_MS,
        };
        after(self.sent_ms, interval_ms, now_ms)
    }

    /// Notes that a poll has left.
    pub fn sent(&mut self, now_ms: i64) {
        self.sent_ms = Some(now_ms);
    }

    /// Notes an answer, and whether it told anything new.
    pub fn answered(&mut self, now_ms: i64, news: bool) {
        self.answered_ms = now_ms;
        if news {
            self.news_ms = Some(now_ms);
        }
    }
}

/// The polls of one view that wait at the root; `T` is what answers one.
#[derive(Clone, Debug)]
pub struct Held<T> {
    /// Oldest first: when it came, and what answers it.
    polls: Vec<(i64, T)>,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { polls: Vec::new() }
    }
}

impl<T> Held<T> {
    /// Keeps a poll that there is no news for. Returns the oldest one where they are too many: it is
    /// answered without news.
    pub fn hold(&mut self, now_ms: i64, poll: T) -> Option<T> {
        self.polls.push((now_ms, poll));
        (self.polls.len() > HELD_MAX).then(|| self.polls.remove(0).1)
    }

    /// All polls, to be answered since there is news.
    pub fn release(&mut self) -> Vec<T> {
        let polls = std::mem::take(&mut self.polls);
        polls.into_iter().map(|(_, poll)| poll).collect()
    }

    /// The polls that have waited long enough, to be answered without news.
    pub fn expired(&mut self, now_ms: i64) -> Vec<T> {
        // Those from before a step of the clock have waited for who knows how long.
        let is_over = |at_ms: &i64| now_ms.saturating_sub(*at_ms) >= HOLD_MS || *at_ms > now_ms;
        let polls = std::mem::take(&mut self.polls);
        let (over, kept) = polls.into_iter().partition(|(at_ms, _)| is_over(at_ms));
        self.polls = kept;
        over.into_iter().map(|(_, poll): (i64, T)| poll).collect()
    }

    /// When the next of them has waited long enough, unix milliseconds.
    pub fn due_ms(&self) -> Option<i64> {
        self.polls
            .first()
            .map(|(at_ms, _)| at_ms.saturating_add(HOLD_MS))
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.polls.is_empty()
    }
}

/// Who watches a counter, at its root. In memory: views that go on polling begin it again.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    until_ms: Option<i64>,
    leads: BTreeMap<Datacenter, Told>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Until when the lead pushes often, by its own word.
    leased_until_ms: Option<i64>,
    told_ms: Option<i64>,
}

impl Watch {
    /// A view has asked. The shell does not say so of a reader in the only datacenter that counts.
    pub fn asked(&mut self, now_ms: i64) {
        self.until_ms = Some(now_ms.saturating_add(WATCHED_MS));
    }

    /// Whether a view has asked lately.
    pub fn is_watched(&self, now_ms: i64) -> bool {
        self.lease_ms(now_ms) > 0
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
    pub fn heard(&mut self, now_ms: i64, from: &Datacenter, watched_for_ms: u32) {
        // Where the clock has stepped back since the last poll, views are there for all that is known: a lead
        // whose own clock has ended its lease must not be told that nobody watches.
        let longest_ms = now_ms.saturating_add(WATCHED_MS);
        self.until_ms = self.until_ms.map(|until| until.min(longest_ms));
        if !self.is_watched(now_ms) {
            // The answer says so, and where the lead's clock has jumped it falls silent with it, whatever its word
            // was: the next poll has it told.
            self.leads.remove(from);
            return;
        }
        let told = self.leads.entry(from.clone()).or_default();
        told.leased_until_ms = Some(now_ms.saturating_add(watched_for_ms.into()));
    }

    /// The leads that must be told now that somebody watches, of all that the root has; they count as
    /// told.
    pub fn tell<'a>(
        &mut self,
        now_ms: i64,
        leads: impl Iterator<Item = &'a Datacenter>,
    ) -> Vec<Datacenter> {
        if !self.is_watched(now_ms) {
            self.leads.clear();
            return Vec::new();
        }
        let mut due = Vec::new();
        for lead in leads {
            let told = self.leads.entry(lead.clone()).or_default();
            if told.due_ms(now_ms) <= now_ms {
                told.told_ms = Some(now_ms);
                due.push(lead.clone());
            }
        }
        due
    }

    /// When the next lead must be told, unix milliseconds; `None` while nobody watches.
    pub fn due_ms<'a>(
        &self,
        now_ms: i64,
        leads: impl Iterator<Item = &'a Datacenter>,
    ) -> Option<i64> {
        let due_ms = |lead| {
            let told = self.leads.get(lead).copied().unwrap_or_default();
            told.due_ms(now_ms)
        };
        leads.filter(|_| self.is_watched(now_ms)).map(due_ms).min()
    }
}

impl Told {
    fn due_ms(&self, now_ms: i64) -> i64 {
        let again_ms = after(self.told_ms, TELL_MS, now_ms);
        let longest_ms = now_ms.saturating_add(WATCHED_MS);
        let lease_ms = self.leased_until_ms.filter(|until| *until <= longest_ms);
        again_ms.max(lease_ms.map_or(now_ms, |until| until.saturating_sub(RENEW_MS)))
    }
}
