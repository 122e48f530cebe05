//! Laws of policies that change: what is used stays used, whoever learns of the change when.

use tally_limit::borrowers::Borrowers;
use tally_limit::lease::Admission;
use tally_limit::policy::{Algorithm, Policy, Scope};
use tally_limit::table::Table;

use crate::checks::{check, left};

const BEGIN_MS: i64 = 1_780_000_000_000;

#[test]
fn a_policy_that_changes_keeps_what_is_used() {
    let old = Policy::sliding(10, 60);
    let mut table = Table::in_memory();
    table.check(&check(&old, "a", 8), BEGIN_MS).unwrap();
    let new = Policy {
        algorithm: Algorithm::TokenBucket,
        ..Policy::sliding(20, 60)
    };
    assert_eq!(
        left(&table, &new, "a", BEGIN_MS),
        12,
        "a look changes nothing"
    );
    assert_eq!(left(&table, &old, "a", BEGIN_MS), 2);
    assert_eq!(
        table
            .check(&check(&new, "a", 1), BEGIN_MS)
            .unwrap()
            .remaining,
        11
    );
}

#[test]
fn who_has_not_heard_of_a_change_brings_nothing_back_that_would_forget() {
    let [long, short] = [Policy::sliding(100, 3_600), Policy::sliding(1_000, 1)];
    let mut table = Table::in_memory();
    table.check(&check(&short, "a", 1), BEGIN_MS).unwrap();
    // Replaced by the long one; what some isolates send of the short one arrives up to 5 s later.
    let mut admitted = 0;
    for now_ms in (BEGIN_MS..BEGIN_MS + 4_900).step_by(100) {
        let is_late = now_ms % 1_100 == 0;
        let policy = if is_late { &short } else { &long };
        for _ in 0..10 {
            let verdict = table.check(&check(policy, "a", 1), now_ms).unwrap();
            admitted += u64::from(verdict.is_allowed);
        }
    }
    assert_eq!(admitted, 99, "and the one of before");
    assert_eq!(left(&table, &short, "a", BEGIN_MS + 4_900), 0);
    // Who makes the old one again must wait until all know the change.
    let later_ms = BEGIN_MS + 6_100;
    assert_eq!(
        left(&table, &short, "a", later_ms),
        900,
        "what is used stays used"
    );
}

#[test]
fn a_report_changes_no_policy() {
    let global = |window_seconds| Policy {
        scope: Scope::Global,
        ..Policy::sliding(1_000, window_seconds)
    };
    let [old, new] = [global(60), global(86_400)];
    let mut table = Table::in_memory();
    let mut far = Borrowers::new("FRA", 1);
    let admission = far.check(&check(&old, "a", 10), BEGIN_MS);
    assert_eq!(admission, Ok(Admission::Ask));
    let due_request = far.next_request("p", "a", BEGIN_MS).unwrap();
    let answer = table.ask(&check(&old, "a", 1), &due_request.request, BEGIN_MS);
    far.answered("p", "a", &answer, BEGIN_MS);
    // The policy is replaced, and most of the new limit is used; the far datacenter does not know it.
    let changed_ms = BEGIN_MS + 30_000;
    assert!(
        table
            .check(&check(&new, "a", 900), changed_ms)
            .unwrap()
            .is_allowed
    );
    let mut now_ms = changed_ms;
    let reports = loop {
        now_ms += 1_000;
        let requests = far.due_requests(10, now_ms);
        if !requests.is_empty() {
            break requests;
        }
        assert!(
            now_ms < changed_ms + 100_000,
            "it reports before its lease ends"
        );
    };
    for due_request in reports {
        assert_eq!(
            (due_request.request.need, due_request.policy == old),
            (0, true)
        );
        table.ask(
            &check(&due_request.policy, "a", 1),
            &due_request.request,
            now_ms,
        );
    }
    let later_ms = now_ms + 200_000;
    let left = left(&table, &new, "a", later_ms);
    assert!(left <= 100, "{left} of 1,000 in a day");
}
