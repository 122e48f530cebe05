//! Laws of the leases of isolates, which hold parts of the limits of hot keys: which keys are hot, what is admitted
//! from what is held, and what the limiter answers about the rest.

use std::ops::Range;

use tally_limit::borrowers::{Borrowers, DueRequest};
use tally_limit::hot::HotKeys;
use tally_limit::lease::ISOLATE_LEASE_MS;
use tally_limit::lease::LeaseAnswer;
use tally_limit::policy::{
    Algorithm, Durability, ISOLATE_LEASE_CAPACITY_MIN, ISOLATE_LEASE_WINDOW_MS_MIN, Policy, Scope,
};
use tally_limit::table::{Check, Table};

const BEGIN_MS: i64 = 1_777_593_630_123;
const NAME: &str = "p";
const KEY: &str = "k";

/// An isolate and the limiter of its datacenter, side by side.
struct Pair {
    policy: Policy,
    borrowers: Borrowers,
    table: Table,
    /// What the last call made due.
    due_request: Option<DueRequest>,
}

impl Pair {
    fn new(policy: Policy) -> Self {
        let mut borrowers = Borrowers::new("FRA", 1);
        borrowers
            .begin(&Check::of(NAME, &policy, KEY, 1), BEGIN_MS)
            .unwrap();
        Self {
            policy,
            borrowers,
            table: Table::stored(),
            due_request: None,
        }
    }

    fn take(&mut self, cost: u64, now_ms: i64) -> bool {
        let (verdict, due_request) = self
            .borrowers
            .take(&Check::of(NAME, &self.policy, KEY, cost), now_ms);
        self.due_request = due_request;
        verdict.is_some_and(|verdict| verdict.is_allowed)
    }

    /// Sends what is due; whether anything was.
    fn lend(&mut self, now_ms: i64) -> Option<LeaseAnswer> {
        let due_request = self.due_request.take()?;
        let answer = self.table.ask(
            &Check::of(NAME, &self.policy, KEY, 1),
            &due_request.request,
            now_ms,
        );
        self.borrowers.answered(NAME, KEY, &answer, now_ms);
        Some(answer)
    }

    /// Brings in so many calls, one a millisecond, and lends whenever that is due; how many were admitted from what
    /// was held.
    fn warm(&mut self, calls: i64) -> i64 {
        let mut taken = 0;
        for now_ms in BEGIN_MS..BEGIN_MS + calls {
            taken += i64::from(self.take(1, now_ms));
            self.lend(now_ms);
        }
        taken
    }

    /// Lets nobody ask, and the timer give back what is left.
    fn rest(&mut self, times: Range<i64>) {
        for now_ms in times {
            for due_request in self.borrowers.due_requests(10, now_ms) {
                let check = Check::of(NAME, &self.policy, KEY, 1);
                let answer = self.table.ask(&check, &due_request.request, now_ms);
                self.borrowers.answered(NAME, KEY, &answer, now_ms);
            }
        }
    }

    fn left(&self, now_ms: i64) -> u64 {
        let check = Check::of(NAME, &self.policy, KEY, 1);
        self.table.peek(&check, now_ms).remaining
    }
}

#[test]
fn a_key_is_hot_once_it_stands_four_times_among_the_newest_sixteen_of_a_second() {
    let mut hot = HotKeys::default();
    assert_eq!(
        (0..40).filter(|_| hot.is_sample_due()).count(),
        10,
        "one in four"
    );
    for _ in 0..3 {
        assert!(!hot.record(7, BEGIN_MS));
    }
    assert!(hot.record(7, BEGIN_MS));
    assert!(!hot.record(8, BEGIN_MS), "another is not");
    assert!(hot.record(7, BEGIN_MS + 1_000));
    assert!(
        !hot.record(7, BEGIN_MS + 1_001),
        "a second later it has cooled"
    );
    let mut hot = HotKeys::default();
    for hash in 0..100_000_u64 {
        assert!(
            !hot.record(hash % 10_000, BEGIN_MS),
            "none of 10,000 is hot"
        );
    }
    let mut hot = HotKeys::default();
    let calls = (0..1_000_u64).map(|number| if number % 3 == 0 { 7 } else { 100 + number });
    let hot_at = calls
        .enumerate()
        .find(|(_, hash)| hot.record(*hash, BEGIN_MS));
    assert_eq!(hot_at, Some((9, 7)), "one with a third of the calls");
}

#[test]
fn what_is_lent_to_isolates_is_what_a_datacenter_holds_for_itself_and_not_each_time() {
    let policy = Policy::sliding(ISOLATE_LEASE_CAPACITY_MIN, 10);
    assert!(policy.may_lease_to_isolates());
    assert_eq!(policy.window_ms, ISOLATE_LEASE_WINDOW_MS_MIN);
    let is_precise = true;
    let others = [
        Policy {
            scope: Scope::Global,
            ..policy.clone()
        },
        Policy {
            is_precise,
            ..policy.clone()
        },
        Policy::sliding(ISOLATE_LEASE_CAPACITY_MIN, 9),
        Policy::sliding(ISOLATE_LEASE_CAPACITY_MIN - 1, 10),
    ];
    for other in others {
        assert!(!other.may_lease_to_isolates(), "{other:?}");
    }
}

#[test]
fn a_hot_key_is_admitted_from_what_is_held_and_the_limiter_hears_of_all_of_it() {
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
    ] {
        let mut pair = Pair::new(Policy {
            algorithm,
            ..Policy::sliding(1_000_000, 3_600)
        });
        let taken = pair.warm(2_000);
        assert!(taken > 1_980, "{algorithm:?}: {taken}");
        let end_ms = BEGIN_MS + 2_000;
        let held = 1_000_000 - pair.left(end_ms);
        assert!(held >= 2_000, "what is spent is used or out: {held}");
        // Nobody asks any more: the timer gives back what is left, once it is seen that nobody does.
        let given_ms = end_ms + 3 * ISOLATE_LEASE_MS;
        pair.rest(end_ms..given_ms);
        assert!(pair.borrowers.is_empty());
        let used = 1_000_000 - pair.left(given_ms);
        let refilled = match algorithm {
            // A bucket refills meanwhile: 278 a second, five of them.
            Algorithm::TokenBucket => 1_390,
            _ => 0,
        };
        let taken = u64::try_from(taken).unwrap();
        assert!(
            used <= taken && used + refilled >= taken,
            "{algorithm:?}: {used} of {taken}"
        );
    }
}

#[test]
fn no_more_than_an_eighth_of_what_is_left_is_lent_to_all_together() {
    let mut pair = Pair::new(Policy::sliding(1_000, 60));
    for isolate in 0..30 {
        let mut other = Borrowers::new("FRA", 2 + isolate);
        let check = Check::of(NAME, &pair.policy, KEY, 1);
        other.begin(&check, BEGIN_MS).unwrap();
        let mut first = None;
        for _ in 0..100 {
            let taken = other.take(&check, BEGIN_MS);
            first = first.or(taken.1);
        }
        let due_request = first.unwrap();
        pair.table.ask(&check, &due_request.request, BEGIN_MS);
        let left = pair.left(BEGIN_MS);
        assert!(left >= 880, "{isolate} isolates leave {left} of 1,000");
    }
    assert!(pair.left(BEGIN_MS) < 990, "and some is lent");
}

#[test]
fn an_isolate_that_gets_little_or_nothing_does_not_ask_at_each_call() {
    let mut pair = Pair::new(Policy::sliding(10, 60));
    let mut request_count = 0;
    for now_ms in BEGIN_MS..BEGIN_MS + 1_000 {
        pair.take(1, now_ms);
        request_count += u64::from(pair.lend(now_ms).is_some());
    }
    assert!(
        request_count <= 30,
        "it asked {request_count} times in a second"
    );
    let mut lost = Pair::new(Policy::sliding(1_000, 60));
    let mut request_count = 0;
    for now_ms in BEGIN_MS..BEGIN_MS + 1_000 {
        lost.take(1, now_ms);
        if let Some(due_request) = lost.due_request.take() {
            let silence: Result<LeaseAnswer, ()> = Err(());
            assert_eq!(
                lost.borrowers
                    .receive_outcome(&due_request, silence, now_ms),
                Err(())
            );
            request_count += 1;
        }
    }
    assert!(
        (1..=10).contains(&request_count),
        "it asked {request_count} times in a second"
    );
}

#[test]
fn a_grant_is_stored_before_it_is_told_only_where_the_policy_says_so() {
    for (durability, stored) in [(Durability::Memory, false), (Durability::Commit, true)] {
        let mut pair = Pair::new(Policy {
            durability,
            ..Policy::sliding(1_000, 60)
        });
        pair.take(1, BEGIN_MS);
        let answer = pair.lend(BEGIN_MS).unwrap();
        assert!(answer.granted > 0);
        assert_eq!(answer.must_commit, stored, "{durability:?}");
    }
}

#[test]
fn a_narrower_policy_returns_what_is_held_and_a_stranger_has_nothing() {
    for policy in [Policy::sliding(500, 60), Policy::sliding(1_000_000, 61)] {
        let wide = Policy::sliding(1_000_000, 60);
        let mut pair = Pair::new(wide.clone());
        let taken = pair.warm(100);
        let now_ms = BEGIN_MS + 100;
        pair.policy = policy;
        assert!(!pair.take(1, now_ms), "nothing is admitted from it");
        assert!(
            pair.due_request.is_some(),
            "and its limiter hears of that at once"
        );
        let stranger = pair
            .borrowers
            .take(&Check::of(NAME, &pair.policy, "other", 1), now_ms);
        assert_eq!(stranger, (None, None));
        pair.lend(now_ms);
        pair.policy = wide;
        let used = pair.policy.limit - pair.left(now_ms);
        assert_eq!(used, u64::try_from(taken).unwrap(), "nothing is forfeited");
    }
}

#[test]
fn a_policy_that_is_as_wide_goes_on_with_what_is_held() {
    let mut pair = Pair::new(Policy::sliding(1_000_000, 60));
    pair.warm(100);
    for policy in [
        Policy::sliding(2_000_000, 60),
        Policy {
            is_shadow: true,
            ..Policy::sliding(2_000_000, 60)
        },
    ] {
        pair.policy = policy;
        assert!(pair.take(1, BEGIN_MS + 100));
    }
}

#[test]
fn a_refund_of_all_that_is_held_is_told_though_no_call_comes() {
    for is_lost in [false, true] {
        let mut pair = Pair::new(Policy::sliding(1_000_000, 3_600));
        let mut taken = pair.warm(500);
        let mut now_ms = BEGIN_MS + 500;
        // Whatever is left is spent, so nothing is out of which the timer would report.
        while pair.take(1, now_ms) {
            taken += 1;
            // What it asks for does not come.
            if let Some(due_request) = pair.due_request.take() {
                let sequence = due_request.request.sequence;
                pair.borrowers.lost(NAME, KEY, sequence, now_ms);
            }
        }
        now_ms += 100;
        assert_eq!(pair.borrowers.refund(NAME, KEY, 300, now_ms), 300);
        let mut requests = pair.borrowers.due_requests(10, now_ms);
        if is_lost {
            let sequence = requests[0].request.sequence;
            pair.borrowers.lost(NAME, KEY, sequence, now_ms);
            assert_eq!(pair.borrowers.due_requests(10, now_ms), [], "it rests");
            now_ms += 100;
            requests = pair.borrowers.due_requests(10, now_ms);
        }
        assert_eq!(requests[0].request.refunded, 300, "lost: {is_lost}");
        pair.due_request = requests.pop();
        pair.lend(now_ms);
        pair.rest(now_ms..now_ms + 3 * ISOLATE_LEASE_MS);
        let used = 1_000_000 - pair.left(now_ms + 3 * ISOLATE_LEASE_MS);
        assert_eq!(used, u64::try_from(taken - 300).unwrap(), "lost: {is_lost}");
    }
}

#[test]
fn what_is_given_back_was_spent_and_is_told_with_the_next_report() {
    let mut pair = Pair::new(Policy::sliding(1_000_000, 3_600));
    let taken = pair.warm(1_000);
    let now_ms = BEGIN_MS + 1_000;
    assert_eq!(pair.borrowers.refund(NAME, KEY, 300, now_ms), 300);
    assert_eq!(pair.borrowers.refund(NAME, "other", 300, now_ms), 0);
    let end_ms = now_ms + 2 * ISOLATE_LEASE_MS;
    pair.rest(now_ms..end_ms);
    assert_eq!(
        1_000_000 - pair.left(end_ms),
        u64::try_from(taken - 300).unwrap()
    );
}

#[test]
fn quota_returns_at_most_0_13_seconds_later_than_without_leases() {
    let mut late_ms = 0;
    for calls in [100, 730, 1_000, 2_345] {
        let mut pair = Pair::new(Policy::sliding(1_000_000, 10));
        pair.warm(calls);
        let last_ms = BEGIN_MS + calls - 1;
        pair.rest(last_ms..last_ms + 3 * ISOLATE_LEASE_MS);
        // A window of sixtieths may be one of them late, without leases too.
        let usual_ms = last_ms + pair.policy.window_ms + pair.policy.window_ms / 60 + 1;
        let used = |after_ms| 1_000_000 - pair.left(usual_ms + after_ms);
        late_ms = (0..1_000)
            .rev()
            .find(|after_ms| used(*after_ms) > 0)
            .unwrap_or(0)
            .max(late_ms);
    }
    println!("{late_ms} ms late");
    assert!((1..130).contains(&late_ms), "{late_ms} ms late");
}

#[test]
fn a_request_whose_sender_was_ended_is_given_up_and_its_late_answer_changes_nothing() {
    let mut pair = Pair::new(Policy::sliding(1_000_000, 60));
    pair.take(1, BEGIN_MS);
    let lost = pair.due_request.take().unwrap();
    let late = pair.table.ask(
        &Check::of(NAME, &pair.policy, KEY, 1),
        &lost.request,
        BEGIN_MS,
    );
    assert!(!pair.take(1, BEGIN_MS + 4_999) && pair.due_request.is_none());
    assert!(!pair.take(1, BEGIN_MS + 5_000));
    let again = pair.due_request.take().unwrap();
    assert!(again.request.sequence > lost.request.sequence);
    pair.borrowers.answered(NAME, KEY, &late, BEGIN_MS + 5_000);
    assert!(!pair.take(1, BEGIN_MS + 5_000));
    // One that nobody asks for any more is dropped all the same.
    assert!(pair.borrowers.due_requests(10, BEGIN_MS + 9_999).is_empty());
    assert!(!pair.borrowers.is_empty());
    pair.borrowers.due_requests(10, BEGIN_MS + 10_000);
    assert!(pair.borrowers.is_empty());
}

#[test]
fn what_is_held_ends_with_the_lease() {
    let mut pair = Pair::new(Policy::sliding(1_000_000, 60));
    pair.warm(500);
    // The newest request was sent by then at the latest.
    let last_ms = BEGIN_MS + 499;
    assert!(pair.take(1, last_ms + 1));
    assert!(!pair.take(1, last_ms + ISOLATE_LEASE_MS));
    let mut pair = Pair::new(Policy::sliding(1_000_000, 60));
    pair.warm(500);
    assert!(!pair.take(1, last_ms + 60 * ISOLATE_LEASE_MS));
}
