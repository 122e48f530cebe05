//! When a lead pushes to the root what its datacenter has counted, and what it pushes.
//!
//! Invariant: every push carries all that the root has not confirmed, so a lost one is made good by the
//! next, and nothing is waited for. While the counter is watched, what changed leaves within
//! [`PUSH_MS`], and again every [`REPEAT_MS`] until it is confirmed. While it is not, one push leaves once the
//! counter was quiet for [`QUIET_MS`], or [`CHECKPOINT_MS`] after the first change where it never is, and none where
//! nothing changed. An idle object is let go after 10 s: so the push leaves while the lead is open, and a
//! thousand counters that were written once are not opened again for it.
//!
//! Life: the shell says [`Pusher::changed`] with each commit, looks at [`Pusher::due_ms`], gathers its
//! datacenter where [`Pusher::wants_state`], sends what [`Pusher::take`] gives, and hands back the
//! answer by [`Pusher::confirmed`]. Of pushes in flight none is waited for: a repeat leaves before a
//! round trip of 300 ms is over, since a loss must not cost that much of the second that all readers have
//! to agree in. What is pushed is state, so that repeats do no harm.
//!
//! Clocks: times are the lead's own. Where the clock has stepped back, an interval that seems to have begun
//! later than now is over: what is due leaves at once, and no lease becomes longer.

use serde::{Deserialize, Serialize};

use super::delta::{Delta, Feed, ReceiverState};
use super::view::View;

/// The least time between two pushes while watched, where the root confirms each.
pub const PUSH_MS: i64 = 250;

/// How soon an unconfirmed push is repeated while the counter is watched, milliseconds. A lost push delays a reader by
/// this much, also after a long outage.
pub const REPEAT_MS: i64 = 100;

/// The longest silence while watched: a push then renews the lease, and says that nothing changed. Four
/// times in a lease, so that it is not lost with one message.
pub const HEARTBEAT_MS: i64 = 2_000;

/// How soon an unanswered heartbeat is repeated, milliseconds: longer than a round trip. Two may be lost, and the third
/// still arrives within the 3 s for which a reader believes a lead: 2 s + 2 × 0.4 s, and 0.2 s on its way.
pub const HEARTBEAT_AGAIN_MS: i64 = 400;

/// The longest that a change waits for its push while nobody watches: a counter that is written all the time pushes so
/// often. A push that was not confirmed is repeated as late.
pub const CHECKPOINT_MS: i64 = 60_000;

/// How long nothing must have been written before a push leaves while nobody watches, and how long where another left
/// less than [`CHECKPOINT_MS`] ago, so that a write every few seconds costs no push each. Both are below the 10 s
/// after which the platform lets an idle object go.
pub const QUIET_MS: (i64, i64) = (3_000, 8_000);

/// Pushes of the counters of one tablet are joined: at each whole second (milliseconds), at most so many in a message.
/// One takes some 0.2 ms with the directory's work (`make bench-tail`), so a message 25 ms.
pub const TOGETHER: (i64, usize) = (1_000, 128);

/// The longest lease that a lead accepts.
pub const LEASE_MS: i64 = 10_000;

/// How long a lead whose lease is over goes on pushing until the root says that nobody watches, milliseconds. So a
/// network split that outlasts leases heals as soon as a short one, and a clock that jumps ahead by ten minutes costs a
/// round trip. Ten pushes a second for a quarter of an hour are 9,000 messages without a receiver.
pub const DOUBT_MS: i64 = 900_000;

/// Lead → root: what the root may lack of the lead's datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Push {
    /// Counts the lead's pushes, so that answers to older ones are recognized.
    pub number: u64,
    /// For how long the lead goes on pushing often, by the leases it has had, milliseconds.
    pub watched_for_ms: u32,
    /// What changed.
    pub delta: Delta,
}

/// Root → lead: what the root has now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushAnswer {
    /// The push that is answered.
    pub number: u64,
    /// What the root has of the lead's feed.
    pub have: ReceiverState,
    /// For how long the lead should push often, milliseconds; 0 where nobody watches.
    pub watch_for_ms: u32,
    /// When it answers, unix milliseconds by its own clock; 0 where a root of the build before does not say it.
    pub now_ms: i64,
}

/// A lead's side of convergence. It lives in memory: after a restart the root is asked what it lacks.
#[derive(Clone, Debug)]
pub struct Pusher {
    feed: Feed,
    /// What the root has, as it last said.
    root_has: ReceiverState,
    number: u64,
    answered: u64,
    /// When the first change was made that is in no push yet.
    changed_ms: Option<i64>,
    /// When the last change was made.
    latest_ms: i64,
    /// When state was last gathered for a push that had news: what changes after one that had none leaves at once.
    gathered_ms: Option<i64>,
    sent_ms: Option<i64>,
    /// When the oldest push left that came after the newest answer.
    unanswered_ms: Option<i64>,
    watched_until_ms: Option<i64>,
    /// What the root's clock said as it answered last, unix milliseconds.
    root_ms: i64,
    /// Whether watching has begun since state was last gathered.
    has_new_watch: bool,
    /// Whether the root has not said yet that nobody watches any more.
    is_in_doubt: bool,
    /// Whether the root has said which unique elements it has, and was not sent the others yet.
    is_asked: bool,
}

impl Pusher {
    /// The pusher of a lead that has just begun to live. `incarnation` is drawn at random.
    pub fn new(generation: u64, incarnation: u64) -> Self {
        Self {
            feed: Feed::new(View::new(generation), incarnation),
            root_has: ReceiverState::Unknown,
            number: 0,
            answered: 0,
            changed_ms: None,
            latest_ms: 0,
            gathered_ms: None,
            sent_ms: None,
            unanswered_ms: None,
            watched_until_ms: None,
            root_ms: 0,
            has_new_watch: false,
            is_in_doubt: false,
            is_asked: false,
        }
    }

    /// Records that the datacenter has counted something, or may have: a shard counted that does not
    /// report each flush.
    pub fn changed(&mut self, now_ms: i64) {
        self.changed_ms.get_or_insert(now_ms);
        self.latest_ms = now_ms;
    }

    /// Somebody watches: the lead pushes often for so long.
    pub fn watch(&mut self, now_ms: i64, for_ms: u32) {
        if for_ms == 0 {
            // A lease is left to run out: this may be late, and another has begun meanwhile.
            return;
        }
        self.has_new_watch |= self.lease_ms(now_ms) == 0;
        self.is_in_doubt = true;
        let until_ms = now_ms.saturating_add(i64::from(for_ms).min(LEASE_MS));
        let held_ms = self
            .watched_until_ms
            .map_or(until_ms, |held| held.min(now_ms.saturating_add(LEASE_MS)));
        self.watched_until_ms = Some(held_ms.max(until_ms));
    }

    /// No lease is longer than the longest, whatever the clock has done since it was given.
    fn shorten_lease(&mut self, now_ms: i64) {
        let longest_ms = now_ms.saturating_add(LEASE_MS);
        self.watched_until_ms = self.watched_until_ms.map(|until| until.min(longest_ms));
    }

    /// Whether it pushes often: somebody watches, or may watch for all it knows.
    pub fn is_watched(&self, now_ms: i64) -> bool {
        let silent_ms = self
            .unanswered_ms
            .map_or(0, |at_ms| now_ms.saturating_sub(at_ms));
        self.lease_ms(now_ms) > 0 || (self.is_in_doubt && silent_ms < DOUBT_MS)
    }

    fn lease_ms(&self, now_ms: i64) -> u32 {
        let left_ms = self
            .watched_until_ms
            .map_or(0, |until| until.saturating_sub(now_ms).clamp(0, LEASE_MS));
        u32::try_from(left_ms).unwrap_or(0)
    }

    /// Whether the root lacks something that was gathered already.
    fn is_unconfirmed(&self) -> bool {
        self.number > 0 && self.feed.has_news_for(&self.root_has)
    }

    /// When the next push is due, unix milliseconds; `None` where nothing must be said.
    pub fn due_ms(&self, now_ms: i64) -> Option<i64> {
        let gather_ms = self.gather_due_ms(now_ms);
        let repeat_ms = self.is_unconfirmed().then(|| {
            let repeat_ms = match self.is_watched(now_ms) {
                true => REPEAT_MS,
                // The lead may be let go before a minute is over, and would have to ask the root anew.
                false if self.is_asked => 0,
                false => CHECKPOINT_MS,
            };
            after(self.sent_ms, repeat_ms, now_ms)
        });
        match (gather_ms, repeat_ms) {
            (Some(gather_ms), Some(repeat_ms)) => Some(gather_ms.min(repeat_ms)),
            (either, None) | (None, either) => either,
        }
    }

    /// How long the alarm that found nothing to send waits, milliseconds: until nothing was written for the longer of
    /// [`QUIET_MS`], since each check costs a row; as long again where gathering failed.
    pub fn check_again_in_ms(&self, now_ms: i64) -> i64 {
        let left_ms = after(Some(self.latest_ms), QUIET_MS.1, now_ms).saturating_sub(now_ms);
        if left_ms > 0 { left_ms } else { QUIET_MS.1 }
    }

    /// Whether there may be something to push that was not gathered yet.
    fn has_news(&self) -> bool {
        self.changed_ms.is_some() || self.has_new_watch || self.number == 0
    }

    /// When state must be gathered for a push.
    fn gather_due_ms(&self, now_ms: i64) -> Option<i64> {
        if !self.is_watched(now_ms) {
            let longest_ms = after(Some(self.changed_ms?), CHECKPOINT_MS, now_ms);
            let is_first = after(self.sent_ms, CHECKPOINT_MS, now_ms) <= now_ms;
            let quiet_ms = if is_first { QUIET_MS.0 } else { QUIET_MS.1 };
            return Some(after(Some(self.latest_ms), quiet_ms, now_ms).min(longest_ms));
        }
        Some(if self.has_news() {
            after(self.gathered_ms, PUSH_MS, now_ms)
        } else if self.lease_ms(now_ms) > 0 {
            let interval_ms = match self.unanswered_ms {
                None if !self.is_behind(now_ms) => HEARTBEAT_MS,
                _ => HEARTBEAT_AGAIN_MS,
            };
            after(self.sent_ms, interval_ms, now_ms)
        } else {
            after(self.sent_ms, REPEAT_MS, now_ms)
        })
    }

    /// Whether the push that is due should carry newly gathered state; else it repeats. A repeat takes along
    /// what changed meanwhile: it leaves anyway, and leads whose round trip is long are those that repeat.
    pub fn wants_state(&self, now_ms: i64) -> bool {
        let is_due = |at: Option<i64>| at.is_some_and(|at| at <= now_ms);
        is_due(self.gather_due_ms(now_ms))
            || (self.changed_ms.is_some() && is_due(self.due_ms(now_ms)))
    }

    /// Whether its clock is behind the root's. Then its heartbeats are more frequent, since each is only as new as the
    /// root's last answer.
    fn is_behind(&self, now_ms: i64) -> bool {
        self.root_ms.saturating_sub(now_ms) > HEARTBEAT_AGAIN_MS
    }

    /// Of when state is that is gathered now, unix milliseconds: of now, or of when the root answered last by the
    /// root's clock. So what a lead says whose clock is behind is not taken for old.
    pub fn as_of_ms(&self, now_ms: i64) -> i64 {
        now_ms.max(self.root_ms)
    }

    /// Returns the push that is due, if one is. `state` is what the datacenter has counted by now, of the
    /// lead's own generation; `None` repeats what was gathered before. Cost: as a merge of `state`.
    pub fn take(&mut self, now_ms: i64, state: Option<&View>) -> Option<Push> {
        self.shorten_lease(now_ms);
        if self.due_ms(now_ms).is_none_or(|at| at > now_ms) {
            return None;
        }
        if let Some(state) = state {
            self.feed.merge(state);
            if self.has_news() {
                self.gathered_ms = Some(now_ms);
            }
            self.changed_ms = None;
            self.has_new_watch = false;
        }
        self.number += 1;
        self.is_asked = false;
        self.sent_ms = Some(now_ms);
        self.unanswered_ms.get_or_insert(now_ms);
        Some(Push {
            number: self.number,
            watched_for_ms: self.lease_ms(now_ms),
            delta: self.feed.since(&self.root_has),
        })
    }

    /// Whether the root waits for the unique elements that it lacks.
    pub fn is_requested(&self) -> bool {
        self.is_asked
    }

    /// Takes the root's answer. Late ones only renew the lease.
    pub fn confirmed(&mut self, now_ms: i64, answer: &PushAnswer) {
        self.watch(now_ms, answer.watch_for_ms);
        if answer.number < self.answered || answer.number > self.number {
            return;
        }
        self.answered = answer.number;
        // A root that asks twice in a row gets the next push when it is due.
        let was_asked_before = matches!(self.root_has, ReceiverState::Digests { .. });
        self.is_asked = matches!(answer.have, ReceiverState::Digests { .. }) && !was_asked_before;
        self.root_has = answer.have.clone();
        self.root_ms = answer.now_ms;
        self.unanswered_ms = None;
        self.is_in_doubt = self.lease_ms(now_ms) > 0;
    }
}

/// The end of an interval that began then; at once where it never began, or the clock stepped back.
pub(super) fn after(began_ms: Option<i64>, interval_ms: i64, now_ms: i64) -> i64 {
    let began = began_ms.filter(|began| *began <= now_ms);
    began.map_or(now_ms, |began| began.saturating_add(interval_ms))
}
