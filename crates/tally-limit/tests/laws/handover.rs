//! Law of keys that go to another lender: all lenders and borrowers together never admit more than the limit, although
//! borrowers that hear of nothing go on to spend what the former lender lent them.

use tally_limit::borrowers::Borrowers;
use tally_limit::lease::Admission;
use tally_limit::lender::lease_ms;
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
    asked: &Check<'_>,
    most: u64,
    now_ms: i64,
) -> u64 {
    let mut lender = lender;
    let mut admitted = 0;
    while admitted < most {
        match borrowers.check(asked, now_ms).unwrap() {
            Admission::Decided(verdict) if verdict.is_allowed => admitted += 1,
            Admission::Ask => {
                let due = borrowers.due(asked.name, asked.key, now_ms);
                borrowers.leave(asked.name, asked.key, 1);
                let (Some(lender), Some(due)) = (lender.as_deref_mut(), due) else {
                    break;
                };
                let answer = lender.ask(asked, &due.request, now_ms);
                borrowers.answered(asked.name, asked.key, &answer, now_ms);
            }
            _ => break,
        }
    }
    admitted
}

/// The most that was admitted beyond the policy in any interval that counts.
fn excess(policy: &Policy, admitted: &[(i64, u64)]) -> u64 {
    let window = |at_ms: i64| at_ms.div_euclid(WINDOW_MS);
    let mut most = 0;
    for (place, (begin_ms, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for (at_ms, count) in &admitted[place..] {
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
            most = most.max(sum.saturating_sub(limit));
        }
    }
    most
}

#[test]
fn what_was_lent_before_a_key_went_to_another_lender_is_not_lent_again() {
    for policy in policies() {
        let asked = check(&policy, "a", 1);
        for burst_ms in (200..lease_ms(&policy)).step_by(700) {
            let [mut former, mut next] = [Table::in_memory(), Table::in_memory()];
            let mut far = Borrowers::new("FRA", 1);
            let mut near = Borrowers::new("SYD", 2);
            let mut admitted = Vec::new();
            let moved_ms = BEGIN_MS + 2_000;
            for now_ms in (BEGIN_MS..moved_ms).step_by(10) {
                let count = spend(&mut far, Some(&mut former), &asked, 1, now_ms);
                admitted.push((now_ms, count));
            }
            let handover = former.hand_over(&asked, moved_ms);
            assert!(handover.outstanding > 0, "{policy:?}");
            next.take_over(&asked, &handover, moved_ms).unwrap();
            // The far one is cut off, and has calls again at some time; the near one takes all that there is.
            for now_ms in (moved_ms..moved_ms + 3 * WINDOW_MS).step_by(100) {
                if now_ms == moved_ms + burst_ms {
                    admitted.push((now_ms, spend(&mut far, None, &asked, LIMIT, now_ms)));
                }
                let count = spend(&mut near, Some(&mut next), &asked, LIMIT, now_ms);
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
        let asked = check(&policy, "a", 1);
        let [mut former, mut next] = [Table::in_memory(), Table::in_memory()];
        let unused = former.hand_over(&asked, BEGIN_MS);
        next.take_over(&asked, &unused, BEGIN_MS).unwrap();
        assert!(!next.knows("p", "a"), "nothing is kept of it");
        former.check(&check(&policy, "a", 300), BEGIN_MS).unwrap();
        let handover = former.hand_over(&asked, BEGIN_MS);
        assert_eq!((handover.outstanding, handover.held_ms), (0, 0));
        next.take_over(&asked, &handover, BEGIN_MS).unwrap();
        assert_eq!(next.peek(&asked, BEGIN_MS).remaining, LIMIT - 300);
    }
}
