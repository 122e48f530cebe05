//! Pushes: when a lead sends its datacenter's counts to the root, and what it sends.
//!
//! Invariant: every push has everything that the root has not confirmed. So the next push repairs a lost one, and no
//! push waits for another. While the counter is watched, a change is pushed within [`PUSH_MS`], and again every
//! [`REPEAT_MS`] until it is confirmed. While it is not watched, one push is sent once the counter was quiet for
//! [`QUIET_MS`], or [`CHECKPOINT_MS`] after the first change if it is never quiet; none if nothing changed. The
//! platform closes an idle object after 10 s. So the push is sent while the lead is open, and a thousand counters that
//! were written once are not opened again for it.
//!
//! Life: the lead's object calls [`Pusher::changed`] with each commit, and checks [`Pusher::due_ms`]. It gathers its
//! datacenter if [`Pusher::wants_state`], sends the push of [`Pusher::take`], and passes the answer to
//! [`Pusher::confirmed`]. A repeat does not wait for a push in flight, and is sent before a round trip of 300 ms is
//! over. All readers must agree within a second, and a loss must not cost so much of it. A push is state, so repeats
//! are harmless.
//!
//! Clocks: times are the lead's own. If the clock has stepped back, an interval whose beginning is later than now is
//! over: a due push is sent at once, and no lease becomes longer.

use serde::{Deserialize, Serialize};

use super::delta::feed::Feed;
use super::delta::{Delta, ReceiverState};
use super::view::View;

/// The shortest time between two pushes while watched, if the root confirms each, milliseconds.
pub const PUSH_MS: i64 = 250;

/// How soon an unconfirmed push is repeated while the counter is watched, milliseconds. A lost push delays a reader by
/// this much, also after a long outage.
pub const REPEAT_MS: i64 = 100;

/// The longest time without a push while watched, milliseconds. A heartbeat then renews the lease, and reports that
/// nothing changed. There are four or more in a lease, so that a single loss does not end it.
pub const HEARTBEAT_MS: i64 = 2_000;

/// How soon an unanswered heartbeat is repeated, milliseconds: longer than a round trip. If two are lost, the third
/// still arrives within the 3 s for which a reader trusts a lead: 2 s + 2 × 0.4 s, and 0.2 s in flight.
pub const HEARTBEAT_AGAIN_MS: i64 = 400;

/// The longest time that a change waits for its push while the counter is not watched, milliseconds. A counter with
/// continuous writes pushes at this interval. An unconfirmed push is repeated after the same time.
pub const CHECKPOINT_MS: i64 = 60_000;

/// How long an unwatched counter must be without writes before a push is sent, milliseconds. The second number holds if
/// another push was sent less than [`CHECKPOINT_MS`] ago, so that a write every few seconds does not cost a push each.
/// Both are below the 10 s after which the platform closes an idle object.
pub const QUIET_MS: (i64, i64) = (3_000, 8_000);

/// Pushes of the counters of one tablet are joined at each whole second: (interval in milliseconds, most pushes in a
/// message). One takes about 0.2 ms with the directory's work (`make bench-tail`), so a message takes 25 ms.
pub const TOGETHER: (i64, usize) = (1_000, 128);

/// The longest lease that a lead accepts, milliseconds.
pub const LEASE_MS: i64 = 10_000;

/// How long a lead with an expired lease continues to push until the root answers that the counter is not watched,
/// milliseconds. So convergence after a long network split is as fast as after a short one, and a clock that jumps
/// ahead by ten minutes costs a round trip. Ten pushes a second for a quarter of an hour are 9,000 messages without a
/// receiver.
pub const DOUBT_MS: i64 = 900_000;

/// Lead → root: the changes of the lead's datacenter that the root may lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Push+")]
pub struct Push {
    /// The number of this push, by which late answers are recognized.
    pub number: u64,
    /// For how long the lead continues to push often, by its lease, milliseconds.
    pub watched_for_ms: u32,
    /// The changes.
    pub delta: Delta,
}

/// Root → lead: the state of the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushAnswer {
    /// The push that is answered.
    pub number: u64,
    /// The root's state of the lead's feed.
    pub have: ReceiverState,
    /// For how long the lead should push often, milliseconds; 0 if the counter is not watched.
    pub watch_for_ms: u32,
    /// The time of the answer, unix milliseconds by the root's clock.
    pub now_ms: i64,
}

/// A lead's side of convergence. In memory only: after a restart the root is asked for its state.
#[derive(Clone, Debug)]
pub struct Pusher {
    feed: Feed,
    /// The root's state by its last answer.
    root_has: ReceiverState,
    number: u64,
    answered: u64,
    /// The time of the first change that is in no push yet.
    changed_ms: Option<i64>,
    /// The time of the first change that the root has not confirmed.
    unreported_ms: Option<i64>,
    /// A push on its way with all changes before a time: its number, and that time.
    covering: Option<(u64, i64)>,
    /// The time of the last change.
    latest_ms: i64,
    /// When state was last gathered for a push with changes. After a push without changes, the next change is pushed at
    /// once.
    gathered_ms: Option<i64>,
    sent_ms: Option<i64>,
    /// When a push was last given to another sender.
    lent_ms: Option<i64>,
    /// When the first push after the newest answer was sent.
    unanswered_ms: Option<i64>,
    watched_until_ms: Option<i64>,
    /// The time of the root's last answer by the root's clock, unix milliseconds.
    root_ms: i64,
    /// Whether a watch has begun since state was last gathered.
    has_new_watch: bool,
    /// Whether the root has not answered yet that the counter is not watched any more.
    is_in_doubt: bool,
    /// Whether the root has sent the digests of its unique elements, and has not got the missing ones yet.
    is_asked: bool,
}

impl Pusher {
    /// The pusher of a lead that has just started. `incarnation` is drawn at random.
    pub fn new(generation: u64, incarnation: u64) -> Self {
        Self {
            feed: Feed::new(View::new(generation), incarnation),
            root_has: ReceiverState::Unknown,
            number: 0,
            answered: 0,
            changed_ms: None,
            unreported_ms: None,
            covering: None,
            latest_ms: 0,
            gathered_ms: None,
            sent_ms: None,
            lent_ms: None,
            unanswered_ms: None,
            watched_until_ms: None,
            root_ms: 0,
            has_new_watch: false,
            is_in_doubt: false,
            is_asked: false,
        }
    }

    /// Records that the datacenter's counts have changed, or may have: a shard does not report each flush.
    pub fn changed(&mut self, now_ms: i64) {
        self.changed_ms.get_or_insert(now_ms);
        self.unreported_ms.get_or_insert(now_ms);
        self.latest_ms = now_ms;
    }

    /// Records that the counter is watched: the lead pushes often for `for_ms`.
    pub fn watch(&mut self, now_ms: i64, for_ms: u32) {
        if for_ms == 0 {
            // The present lease is not ended: this answer may be late, and another lease may have begun.
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

    /// Limits the lease to the longest one, also after a clock step.
    fn shorten_lease(&mut self, now_ms: i64) {
        let longest_ms = now_ms.saturating_add(LEASE_MS);
        self.watched_until_ms = self.watched_until_ms.map(|until| until.min(longest_ms));
    }

    /// Whether it pushes often: the counter is watched, or may be watched as far as the lead knows.
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

    /// Whether the root lacks state that was gathered already.
    pub fn is_unconfirmed(&self) -> bool {
        self.number > 0 && self.feed.has_news_for(&self.root_has)
    }

    /// When the next push is due, unix milliseconds; `None` if there is nothing to send.
    pub fn due_ms(&self, now_ms: i64) -> Option<i64> {
        let gather_ms = self.gather_due_ms(now_ms);
        let repeat_ms = self.is_unconfirmed().then(|| {
            let repeat_ms = match self.is_watched(now_ms) {
                true => REPEAT_MS,
                // The lead may be closed before a minute is over, and would have to ask the root again.
                false if self.is_asked => 0,
                false => CHECKPOINT_MS,
            };
            after(self.left_ms(now_ms), repeat_ms, now_ms)
        });
        match (gather_ms, repeat_ms) {
            (Some(gather_ms), Some(repeat_ms)) => Some(gather_ms.min(repeat_ms)),
            (either, None) | (None, either) => either,
        }
    }

    /// When a push last left, by the lead or by another sender. A time later than now is of a clock that has stepped
    /// back: a push that leaves now is the last, so that the next one is not due at the same moment.
    fn left_ms(&self, now_ms: i64) -> Option<i64> {
        let times = [self.sent_ms, self.lent_ms].into_iter().flatten();
        times.filter(|at_ms| *at_ms <= now_ms).max()
    }

    /// How long an alarm that found nothing to send waits, milliseconds: until the counter has been quiet for the
    /// longer of [`QUIET_MS`], because each check costs a row. It waits for the longer one again if gathering failed.
    pub fn check_again_in_ms(&self, now_ms: i64) -> i64 {
        let left_ms = after(Some(self.latest_ms), QUIET_MS.1, now_ms).saturating_sub(now_ms);
        if left_ms > 0 { left_ms } else { QUIET_MS.1 }
    }

    /// Whether there may be changes that were not gathered yet.
    pub fn has_news(&self) -> bool {
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

    /// Whether the due push should have newly gathered state; otherwise it repeats. A repeat includes changes made
    /// meanwhile, because it is sent anyway. Leads with a long round trip are those that repeat.
    pub fn wants_state(&self, now_ms: i64) -> bool {
        let is_due = |at: Option<i64>| at.is_some_and(|at| at <= now_ms);
        is_due(self.gather_due_ms(now_ms))
            || (self.changed_ms.is_some() && is_due(self.due_ms(now_ms)))
    }

    /// Whether its clock is behind the root's. Then its heartbeats are more frequent, because the time of each is that
    /// of the root's last answer.
    fn is_behind(&self, now_ms: i64) -> bool {
        self.root_ms.saturating_sub(now_ms) > HEARTBEAT_AGAIN_MS
    }

    /// The time of state that is gathered now, unix milliseconds: now, or the time of the root's last answer by the
    /// root's clock if that is later. So the state of a lead whose clock is behind does not seem old.
    pub fn as_of_ms(&self, now_ms: i64) -> i64 {
        now_ms.max(self.root_ms)
    }

    /// Returns the due push, if there is one. `state` is the present state of the datacenter, of the lead's own
    /// generation; `None` repeats the gathered state. Cost: as a merge of `state`.
    pub fn take(&mut self, now_ms: i64, state: Option<&View>) -> Option<Push> {
        self.shorten_lease(now_ms);
        if self.due_ms(now_ms).is_none_or(|at| at > now_ms) {
            return None;
        }
        Some(self.push(now_ms, state))
    }

    /// Returns a push of the present state, also if none is due.
    pub fn report(&mut self, now_ms: i64, state: &View) -> Push {
        self.shorten_lease(now_ms);
        self.push(now_ms, Some(state))
    }

    /// Returns a push of the present state for another sender, whose answer does not come here. The lead's own push is
    /// due as if this one were lost.
    pub fn lend(&mut self, now_ms: i64, state: &View) -> Push {
        self.shorten_lease(now_ms);
        self.feed.merge(state);
        self.number += 1;
        self.lent_ms = Some(now_ms);
        self.next_push(now_ms)
    }

    fn push(&mut self, now_ms: i64, state: Option<&View>) -> Push {
        if let Some(state) = state {
            self.feed.merge(state);
            if self.has_news() {
                self.gathered_ms = Some(now_ms);
            }
            self.changed_ms = None;
            self.has_new_watch = false;
        }
        self.number += 1;
        if state.is_some() {
            self.covering.get_or_insert((self.number, now_ms));
        }
        self.is_asked = false;
        self.sent_ms = Some(now_ms);
        self.unanswered_ms.get_or_insert(now_ms);
        self.next_push(now_ms)
    }

    fn next_push(&self, now_ms: i64) -> Push {
        Push {
            number: self.number,
            watched_for_ms: self.lease_ms(now_ms),
            delta: self.feed.since(&self.root_has),
        }
    }

    /// How long the first change has waited that the root has not confirmed, milliseconds; 0 where there is none.
    pub fn unreported_for_ms(&self, now_ms: i64) -> u64 {
        let since_ms = self.unreported_ms.unwrap_or(now_ms);
        u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0)
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
        let covering = self.covering.filter(|(number, _)| *number <= answer.number);
        if answer.number == self.number {
            (self.unreported_ms, self.covering) = (self.changed_ms, None);
        } else if let Some((_, before_ms)) = covering {
            (self.unreported_ms, self.covering) = (Some(before_ms), None);
        }
        // A root that asks twice in a row gets the next push when it is due.
        let was_asked_before = matches!(self.root_has, ReceiverState::Digests { .. });
        self.is_asked = matches!(answer.have, ReceiverState::Digests { .. }) && !was_asked_before;
        self.root_has = answer.have.clone();
        self.root_ms = answer.now_ms;
        self.unanswered_ms = None;
        self.is_in_doubt = self.lease_ms(now_ms) > 0;
    }
}

/// The end of an interval that began at `began_ms`; now, if it never began or the clock stepped back.
pub(super) fn after(began_ms: Option<i64>, interval_ms: i64, now_ms: i64) -> i64 {
    let began = began_ms.filter(|began| *began <= now_ms);
    began.map_or(now_ms, |began| began.saturating_add(interval_ms))
}
