//! What clients know of the quota of a policy, and the law of holds against plain sums.
//!
//! Law: at every instant, what is used and what is held are together at most the limit, whatever is lost, late or
//! crashes, and wherever limiters move. The sum at an instant has what is certain: a hold from its answer on, until
//! its client begins to end it, or its time is over; what was settled, from then on for a window.

use super::clocks::Clocks;
use super::oracle::Moment;
use super::puts::{Puts, Unread};

/// How a policy counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sliding,
    Fixed,
    Bucket,
    Concurrency,
}

/// A policy of holds.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub name: &'static str,
    pub kind: Kind,
    pub is_global: bool,
    pub window_seconds: u64,
    pub limit: u64,
}

impl Policy {
    /// Its fields with another limit. What is not written at once may be forgotten by a crash.
    pub fn fields(&self, limit: u64) -> String {
        let seconds = self.window_seconds;
        let counts = match self.kind {
            Kind::Sliding => format!(r#""algorithm":"sliding-window","window_seconds":{seconds}"#),
            Kind::Fixed => format!(r#""algorithm":"fixed-window","window_seconds":{seconds}"#),
            Kind::Bucket => format!(r#""algorithm":"token-bucket","window_seconds":{seconds}"#),
            Kind::Concurrency => format!(r#""algorithm":"concurrency","ttl_seconds":{seconds}"#),
        };
        let scope = if self.is_global {
            "global"
        } else {
            "datacenter"
        };
        format!(
            r#"{{"limit":{limit},{counts},"scope":"{scope}","on_error":"closed","durability":"commit"}}"#
        )
    }

    fn window_ms(&self) -> i64 {
        i64::try_from(self.window_seconds * 1_000).expect("seconds")
    }

    /// From when on what was used counts at a moment, by clocks that are so far apart: each of these makes a sum.
    fn begins(&self, now_ms: i64, clocks_ms: i64, clocks: &Clocks) -> Vec<i64> {
        let window_ms = self.window_ms();
        let begin_ms = match self.kind {
            Kind::Concurrency => now_ms,
            Kind::Sliding => now_ms - window_ms + clocks_ms,
            // Its boundaries are by the limiter's time, which keeps all that it has gained.
            Kind::Fixed => {
                let clocks_ms = clocks_ms + clocks.gained_ms(i64::MIN, now_ms);
                let in_window_ms = now_ms.rem_euclid(window_ms);
                match in_window_ms + clocks_ms < window_ms {
                    true => now_ms - in_window_ms + clocks_ms,
                    false => now_ms,
                }
            }
            Kind::Bucket => {
                return [0, 1, 4, 12]
                    .map(|quarters| now_ms - window_ms * quarters / 4)
                    .to_vec();
            }
        };
        vec![begin_ms.min(now_ms)]
    }
}

/// A hold of a client.
#[derive(Clone, Debug)]
pub struct Hold {
    pub id: String,
    pub ends_ms: i64,
    /// Whether all comes back if its time ends.
    pub is_returned: bool,
    /// When its client began to end it.
    pub ending: Option<Moment>,
    /// What was settled, and when the client knew that.
    pub settled: Option<(u64, Moment)>,
}

/// A part of the quota of a key that was taken.
#[derive(Clone, Debug)]
pub struct Part {
    pub policy: usize,
    pub key: usize,
    pub datacenter: &'static str,
    pub amount: u64,
    pub begun: Moment,
    /// When the client knew of it.
    pub known: Moment,
    /// `None` of a check, which uses it at once.
    pub hold: Option<Hold>,
}

impl Part {
    /// How much of it is used or held for certain at a moment, and when that was admitted at the earliest. What was
    /// used counts from `from_ms` on.
    fn certain(
        &self,
        now: Moment,
        from_ms: i64,
        clocks_ms: i64,
        clocks: &Clocks,
        kind: Kind,
    ) -> Option<(u64, Moment)> {
        if self.known > now {
            return None;
        }
        let gained_ms = clocks.gained_ms(self.begun.at_ms, now.at_ms);
        let from_ms = match kind {
            Kind::Sliding => from_ms + gained_ms,
            Kind::Fixed | Kind::Bucket | Kind::Concurrency => from_ms,
        };
        let Some(hold) = &self.hold else {
            return (self.begun.at_ms > from_ms).then_some((self.amount, self.begun));
        };
        let is_used = kind != Kind::Concurrency;
        if let Some(ending) = hold.ending.filter(|ending| *ending <= now) {
            let (settled, known) = hold.settled.filter(|_| is_used && ending.at_ms > from_ms)?;
            return Some(match known <= now {
                true if settled > self.amount => (settled, ending),
                true => (settled, self.begun),
                // It is held still, or settled.
                false => (settled.min(self.amount), self.begun),
            });
        }
        let ends_ms = hold.ends_ms - clocks_ms - gained_ms;
        let is_charged = is_used && !hold.is_returned && ends_ms > from_ms;
        (now.at_ms < ends_ms || is_charged).then_some((self.amount, self.begun))
    }
}

/// What was given back, or perhaps was.
#[derive(Clone, Debug)]
pub struct GivenBack {
    pub policy: usize,
    pub key: usize,
    pub cost: u64,
    pub begun: Moment,
    /// `None` where nobody knows.
    pub ended: Option<Moment>,
}

/// All that is known of one key of a policy, in one datacenter if each has its own quota.
pub struct Account<'a> {
    pub policy: &'a Policy,
    pub puts: &'a Puts,
    pub unread: &'a Unread,
    pub parts: Vec<&'a Part>,
    pub given_back: Vec<&'a GivenBack>,
    pub skew_ms: i64,
    pub clocks: &'a Clocks,
}

impl Account<'_> {
    /// Holds every instant against the law.
    pub fn check(&self, what: &str) {
        for part in &self.parts {
            self.check_at(part.known, what);
            let settled = part.hold.as_ref().and_then(|hold| hold.settled);
            if let Some((_, known)) = settled {
                self.check_at(known, what);
            }
        }
    }

    fn check_at(&self, now: Moment, what: &str) {
        // Two clocks may be so far apart, and moments are whole milliseconds.
        let clocks_ms = 2 * self.skew_ms + 2;
        let (policy, window_ms) = (self.policy, self.policy.window_ms());
        for from_ms in policy.begins(now.at_ms, clocks_ms, self.clocks) {
            let certain = self.parts.iter();
            let certain: Vec<_> = certain
                .filter_map(|part| part.certain(now, from_ms, clocks_ms, self.clocks, policy.kind))
                .collect();
            let sum: u64 = certain.iter().map(|(amount, _)| amount).sum();
            let Some(last) = certain.iter().map(|(_, admitted)| *admitted).max() else {
                continue;
            };
            let upto_ms = now.at_ms + 1;
            let largest =
                |from_ms| (self.puts).largest(from_ms, upto_ms, self.skew_ms, self.unread);
            let limit = largest(last.at_ms);
            let flows = match policy.kind {
                Kind::Bucket => {
                    let most = largest(from_ms);
                    let gained_ms = clocks_ms + self.clocks.gained_ms(from_ms, now.at_ms);
                    let passed_ms =
                        u64::try_from(now.at_ms - from_ms + gained_ms).expect("it passed");
                    (most * passed_ms).div_ceil(u64::try_from(window_ms).expect("a window"))
                }
                _ => 0,
            };
            let back = self.given_back.iter().filter(|one| {
                one.begun <= now && one.ended.is_none_or(|ended| ended.at_ms >= from_ms)
            });
            let back: u64 = back.map(|one| one.cost).sum();
            assert!(
                sum <= limit + flows + back,
                "{what} at {}: {sum} are held or used since {from_ms}, {limit} is the limit, {flows} flowed in, {back} were given back: {certain:?}",
                now.at_ms
            );
        }
    }
}
