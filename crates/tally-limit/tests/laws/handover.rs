//! Law of keys that go to another lender: all lenders and borrowers together never admit more than the limit, although
//! borrowers that no message reaches go on to spend what the old lender lent them.

use tally_limit::borrowers::Borrowers;
use tally_limit::lease::Admission;
use tally_limit::lease::lease_ms;
use tally_limit::policy::{Algorithm, Policy, Scope};
use tally_limit::table::{Check, Table};

use crate::checks::check;
use crate::policy_kinds::BEGIN_MS;

const LIMIT: u64 = 1_000;
const WINDOW_MS: i64 = 10_000;

fn policies() -> Vec<Policy> {
    let sliding = Policy {
        scope: Scope::Global,
        ..Policy::sliding(LIMIT, WINDOW_MS.unsigned_abs() / 1_000)
    };
    let of = |algorithm| Policy {
        algorithm,
        ..sliding.clone()
    };
    let precise = Policy {
        is_precise: true,
        ..sliding.clone()
    };
    let [fixed, bucket] = [Algorithm::FixedWindow, Algorithm::TokenBucket].map(of);
    vec![sliding, precise, fixed, bucket]
}

/// Calls of cost 1, until one is not admitted, or so many were; how many were.
fn spend(
    borrowers: &mut Borrowers,
    lender: Option<&mut Table>,
    check: &Check<'_>,
    limit: u64,
    now_ms: i64,
) -> u64 {
    let mut lender = lender;
    let mut admitted = 0;
    while admitted < limit {
        match borrowers.check(check, now_ms).unwrap() {
            Admission::Decided(verdict) if verdict.is_allowed => admitted += 1,
            Admission::Ask => {
                let due_request = borrowers.next_request(check.name, check.key, now_ms);
                borrowers.leave(check.name, check.key, 1);
                let (Some(lender), Some(due_request)) = (lender.as_deref_mut(), due_request) else {
                    break;
                };
                let answer = lender.ask(check, &due_request.request, now_ms);
                borrowers.answered(check.name, check.key, &answer, now_ms);
            }
            _ => break,
        }
    }
    admitted
}

/// The most that was admitted beyond the policy in any interval that counts.
fn excess(policy: &Policy, admitted: &[(i64, u64)]) -> u64 {
    let window = |at_ms: i64| at_ms.div_euclid(WINDOW_MS);
    let mut excess_max = 0;
    for (index, (begin_ms, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for (at_ms, count) in &admitted[index..] {
            let length_ms = at_ms - begin_ms;
            let limit = match policy.algorithm {
                Algorithm::SlidingWindow if length_ms >= WINDOW_MS => break,
                Algorithm::FixedWindow if window(*at_ms) != window(*begin_ms) => break,
                Algorithm::TokenBucket => {
                    LIMIT + LIMIT * length_ms.unsigned_abs() / WINDOW_MS.unsigned_abs()
                }
                _ => LIMIT,
            };
            sum += count;
            excess_max = excess_max.max(sum.saturating_sub(limit));
        }
    }
    excess_max
}

#[test]
fn what_was_lent_before_a_key_went_to_another_lender_is_not_lent_again() {
    for policy in policies() {
        let call = check(&policy, "a", 1);
        for burst_ms in (200..lease_ms(&policy)).step_by(700) {
            let [mut old, mut next] = [Table::in_memory(), Table::in_memory()];
            let mut far = Borrowers::new("FRA", 1);
            let mut near = Borrowers::new("SYD", 2);
            let mut admitted = Vec::new();
            let moved_ms = BEGIN_MS + 2_000;
            for now_ms in (BEGIN_MS..moved_ms).step_by(10) {
                let count = spend(&mut far, Some(&mut old), &call, 1, now_ms);
                admitted.push((now_ms, count));
            }
            let handover = old.hand_over(&call, moved_ms);
            assert!(handover.outstanding > 0, "{policy:?}");
            next.take_over(&call, &handover, moved_ms).unwrap();
            // The far one is cut off, and has calls again at some time; the near one takes all that there is.
            for now_ms in (moved_ms..moved_ms + 3 * WINDOW_MS).step_by(100) {
                if now_ms == moved_ms + burst_ms {
                    admitted.push((now_ms, spend(&mut far, None, &call, LIMIT, now_ms)));
                }
                let count = spend(&mut near, Some(&mut next), &call, LIMIT, now_ms);
                admitted.push((now_ms, count));
            }
            assert_eq!(excess(&policy, &admitted), 0, "{policy:?}, {burst_ms} ms");
            let end_ms = moved_ms + lease_ms(&policy) + 2 * WINDOW_MS;
            let left = next.peek(&check(&policy, "a", LIMIT), end_ms + 3 * WINDOW_MS);
            assert_eq!(left.remaining, LIMIT, "all of it returns");
        }
    }
}

#[test]
fn a_key_that_is_lent_to_nobody_goes_on_with_what_is_used() {
    for policy in policies() {
        let call = check(&policy, "a", 1);
        let [mut old, mut next] = [Table::in_memory(), Table::in_memory()];
        let unused = old.hand_over(&call, BEGIN_MS);
        next.take_over(&call, &unused, BEGIN_MS).unwrap();
        assert!(!next.knows("p", "a"), "nothing is kept of it");
        old.check(&check(&policy, "a", 300), BEGIN_MS).unwrap();
        let handover = old.hand_over(&call, BEGIN_MS);
        assert_eq!((handover.outstanding, handover.held_ms), (0, 0));
        next.take_over(&call, &handover, BEGIN_MS).unwrap();
        assert_eq!(next.peek(&call, BEGIN_MS).remaining, LIMIT - 300);
    }
}

#[test]
fn what_is_used_above_a_lowered_limit_goes_along() {
    for policy in policies() {
        let lowered = Policy {
            limit: LIMIT / 2,
            burst: policy.burst.min(LIMIT / 2),
            ..policy.clone()
        };
        let call = check(&policy, "a", 1);
        let [mut old, mut next] = [Table::in_memory(), Table::in_memory()];
        old.check(&check(&policy, "a", LIMIT), BEGIN_MS).unwrap();
        let low = check(&lowered, "a", 1);
        assert!(!old.check(&low, BEGIN_MS).unwrap().is_allowed);
        next.take_over(&low, &old.hand_over(&low, BEGIN_MS), BEGIN_MS)
            .unwrap();
        assert!(!next.check(&low, BEGIN_MS).unwrap().is_allowed);
        // The limit is raised again.
        assert_eq!(next.peek(&call, BEGIN_MS).remaining, 0, "{policy:?}");
    }
}
