//! The limits of a policy that were put while a world lives.

use super::oracle::Moment;

/// How long an edge goes on with a policy where its questions for a newer one get lost, milliseconds, and a message
/// more that was asked by it.
const POLICY_MS: i64 = 16_000;

/// A limit that was put.
#[derive(Clone, Debug)]
struct Put {
    limit: u64,
    begun: Moment,
    done: Option<Moment>,
}

/// All that were put, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub struct Puts(Vec<Put>);

impl Puts {
    /// A limit is sent. Returns its place.
    pub fn begin(&mut self, limit: u64, begun: Moment) -> usize {
        self.0.push(Put {
            limit,
            begun,
            done: None,
        });
        self.0.len() - 1
    }

    /// The one of a place was acknowledged.
    pub fn end(&mut self, place: usize, now: Moment) {
        self.0[place].done = Some(now);
    }

    /// Whether the policy is there.
    pub fn is_made(&self) -> bool {
        self.0.iter().any(|put| put.done.is_some())
    }

    /// The largest limit that may have held within an interval, by clocks that are so far off.
    pub fn largest(&self, from_ms: i64, upto_ms: i64, skew_ms: i64) -> u64 {
        let slack_ms = POLICY_MS + 2 * skew_ms;
        let held = self.0.iter().enumerate().filter(|(place, put)| {
            let is_over = |later: &Put| {
                later.done.is_some_and(|at| {
                    at.at_ms + slack_ms < from_ms && put.done.is_some_and(|done| done < later.begun)
                })
            };
            put.begun.at_ms < upto_ms && !self.0[place + 1..].iter().any(is_over)
        });
        held.map(|(_, put)| put.limit).max().expect("a limit")
    }

    /// The limit that holds at rest; `None` where nobody can say.
    pub fn last(&self) -> Option<u64> {
        let last = self.0.last().expect("a limit");
        let is_before = |put: &Put| put.done.is_some_and(|at| at < last.begun);
        let is_known = self
            .0
            .iter()
            .all(|put| is_before(put) || put.begun == last.begun);
        (is_known && last.done.is_some()).then_some(last.limit)
    }
}
