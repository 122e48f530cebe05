//! The limits of a policy that were put while a world lives.
//!
//! Law: a check is judged by a policy that was in effect within the last [`POLICY_MS`]. After an edge could not read a
//! policy, it may use one that was in effect within the last [`STALE_MS_MAX`], for [`FAILED_MS`].

use tally_simulation::NotedCall;

use super::oracle::Moment;

/// How long an edge uses a policy that it has read, and then waits for a newer one, milliseconds.
const POLICY_MS: i64 = 5_000;

/// How long a policy is used that cannot be read, milliseconds.
const STALE_MS_MAX: i64 = 3_600_000;

/// How long the directory may take to answer, milliseconds.
const READ_MS_MAX: i64 = 1_500;

/// How long an edge does not read policies after one could not be read, milliseconds.
const FAILED_MS: i64 = 2_000;

/// The path of reads of a policy.
pub const READS: &str = "/policy-get";

/// When edges asked for a policy in vain, unix milliseconds.
#[derive(Clone, Debug, Default)]
pub struct Unread(Vec<i64>);

impl Unread {
    /// The questions of which neither the first attempt nor a repetition was answered in time, in the order of `calls`.
    /// A repetition is sent before all attempts have failed: after that begins another question.
    pub fn of(calls: &[NotedCall]) -> Self {
        let is_read = |(place, call): &(usize, &NotedCall)| {
            let late_ms = call.sent_ms + READ_MS_MAX;
            let mut failed_ms = call.sent_ms;
            let attempts = calls[*place..].iter();
            let attempts = attempts
                .filter(|other| other.from == call.from && other.message == call.message)
                .take_while(|other| {
                    let is_attempt = other.sent_ms <= failed_ms;
                    failed_ms = failed_ms.max(other.failed_ms.unwrap_or(late_ms));
                    is_attempt
                });
            let mut answers = attempts.filter_map(|attempt| attempt.answered_ms);
            answers.any(|at_ms| at_ms <= late_ms)
        };
        let unread = calls.iter().enumerate().filter(|call| !is_read(call));
        Self(unread.map(|(_, call)| call.sent_ms).collect())
    }

    /// Whether an edge may have used an old policy within an interval.
    fn is_within(&self, from_ms: i64, upto_ms: i64) -> bool {
        let from_ms = from_ms - READ_MS_MAX - FAILED_MS;
        self.0
            .iter()
            .any(|at_ms| (from_ms..upto_ms).contains(at_ms))
    }
}

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
    pub fn largest(&self, from_ms: i64, upto_ms: i64, skew_ms: i64, unread: &Unread) -> u64 {
        let clocks_ms = 2 * skew_ms;
        let known_ms = match unread.is_within(from_ms - clocks_ms, upto_ms) {
            true => STALE_MS_MAX,
            false => POLICY_MS,
        };
        let slack_ms = known_ms + clocks_ms;
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

#[cfg(test)]
mod tests {
    use super::{NotedCall, Unread};

    fn call(sent_ms: i64, answered_ms: Option<i64>, failed_ms: Option<i64>) -> NotedCall {
        NotedCall {
            from: "an edge".to_owned(),
            message: Vec::new(),
            sent_ms,
            answered_ms,
            failed_ms,
        }
    }

    #[test]
    fn a_question_that_is_sent_after_all_attempts_have_failed_is_no_repetition() {
        let late = |sent_ms| {
            let attempts = [
                call(10, None, Some(20)),
                call(20, None, Some(30)),
                call(sent_ms, Some(sent_ms + 1), None),
            ];
            Unread::of(&attempts).0
        };
        assert_eq!(late(30), Vec::<i64>::new());
        assert_eq!(late(31), [10, 20]);
    }

    #[test]
    fn a_repetition_may_be_sent_while_an_attempt_is_not_over() {
        let attempts = [call(10, None, None), call(260, Some(300), None)];
        assert_eq!(Unread::of(&attempts).0, Vec::<i64>::new());
        let late = [call(10, None, None), call(260, Some(1_600), None)];
        assert_eq!(Unread::of(&late).0, [10]);
    }
}
