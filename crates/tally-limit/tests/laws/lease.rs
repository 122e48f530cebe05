//! Laws of leases, each by itself: when one ends, what a dead datacenter strands, what is reported when, and the
//! bytes of what is stored and sent.

use tally_limit::NEVER_MS;
use tally_limit::borrower::Borrower;
use tally_limit::borrowers::Borrowers;
use tally_limit::lease::{Admission, LeaseAnswer, LeaseId, LeaseRequest, Spent};
use tally_limit::lease::{LEASE_MS_MAX, LEASE_MS_MIN, lease_ms};
use tally_limit::lender::{LEASES_MAX, Lender};
use tally_limit::policy::{Algorithm, Policy, Scope};
use tally_limit::table::{Check, Table};

use crate::checks::check;
use crate::policy_kinds::{BEGIN_MS, request};

fn precise(limit: u64, window_seconds: u64) -> Policy {
    Policy {
        is_precise: true,
        scope: Scope::Global,
        ..Policy::sliding(limit, window_seconds)
    }
}

fn borrower(name: &str) -> Borrower {
    Borrower::new(LeaseId {
        borrower: name.to_owned(),
        incarnation: 1,
        number: 1,
    })
}

fn is_allowed(admission: Admission) -> bool {
    matches!(admission, Admission::Decided(verdict) if verdict.is_allowed)
}

#[test]
fn a_lease_ends_at_its_holder_before_it_ends_at_the_lender() {
    for window_seconds in [1, 60, 86_400] {
        let policy = precise(1_000, window_seconds);
        for drift_millionths in [-9_900, 0, 9_900] {
            for (there_ms, back_ms) in [(0, 0), (300, 300), (0, 900), (900, 0)] {
                let clock_ms =
                    |true_ms: i64| true_ms + (true_ms - BEGIN_MS) * drift_millionths / 1_000_000;
                let mut lender = Lender::new(&policy);
                let mut borrower = borrower("FRA");
                assert_eq!(
                    borrower.check(&policy, clock_ms(BEGIN_MS), 5),
                    Admission::Ask
                );
                let request = borrower.next_request(&policy, clock_ms(BEGIN_MS)).unwrap();
                let request_ms = BEGIN_MS + there_ms;
                let answer = lender.ask(&policy, &request, request_ms);
                let answered_ms = request_ms + back_ms;
                borrower.answered(&answer, clock_ms(answered_ms));
                assert!(borrower.tokens(clock_ms(answered_ms)) >= 5);
                let ends_ms = request_ms + lease_ms(&policy);
                assert_eq!(
                    borrower.tokens(clock_ms(ends_ms)),
                    0,
                    "{drift_millionths} {there_ms} {back_ms}"
                );
                lender.expire(&policy, ends_ms - 1);
                assert!(lender.outstanding() >= 5);
                lender.expire(&policy, ends_ms);
                assert_eq!(lender.outstanding(), 0);
                // What it costs: little of the lease is lost.
                let last_ms = ends_ms - there_ms - lease_ms(&policy) / 40 - 110;
                assert!(
                    borrower.tokens(clock_ms(last_ms)) > 0,
                    "{drift_millionths} {there_ms} {back_ms}"
                );
            }
        }
    }
}

#[test]
fn a_holder_that_ends_returns_what_it_has_not_spent() {
    let policy = precise(100, 60);
    let mut lender = Table::stored();
    let mut borrowers = Borrowers::new("FRA", 1);
    let wanted = check(&policy, "a", 40);
    assert_eq!(borrowers.check(&wanted, BEGIN_MS), Ok(Admission::Ask));
    let due = borrowers.next_request("p", "a", BEGIN_MS).unwrap();
    let call = check(&policy, "a", 5);
    let answer = lender.ask(&call, &due.request, BEGIN_MS);
    assert!(answer.granted >= 40);
    borrowers.answered("p", "a", &answer, BEGIN_MS);
    let spent = borrowers.check(&call, BEGIN_MS + 1);
    assert!(is_allowed(spent.unwrap()));
    assert_eq!(
        lender.peek(&call, BEGIN_MS + 2).remaining,
        100 - answer.granted
    );
    for last in borrowers.into_last_requests(BEGIN_MS + 2) {
        let answer = lender.ask(&call, &last.request, BEGIN_MS + 2);
        assert_eq!(answer.free, 95);
    }
    assert_eq!(lender.peek(&call, BEGIN_MS + 3).remaining, 95);
}

#[test]
fn what_a_borrower_has_just_reported_as_unspent_is_left_after_a_change_of_the_policy_too() {
    let policy = precise(10, 60);
    let mut lender = Table::stored();
    let mut borrowers = Borrowers::new("FRA", 1);
    let call = check(&policy, "a", 10);
    assert_eq!(borrowers.check(&call, BEGIN_MS), Ok(Admission::Ask));
    let due = borrowers.next_request("p", "a", BEGIN_MS).unwrap();
    let answer = lender.ask(&call, &due.request, BEGIN_MS);
    assert_eq!(answer.granted, 10);
    borrowers.answered("p", "a", &answer, BEGIN_MS);
    let spent = borrowers.check(&check(&policy, "a", 7), BEGIN_MS);
    assert!(is_allowed(spent.unwrap()));
    let lease = &due.request.lease;
    let report = borrowers.recall("p", "a", lease, false, BEGIN_MS + 1);
    lender.receive_report("p", "a", &report.unwrap(), BEGIN_MS + 2);
    for changed in [policy.clone(), precise(10, 90), precise(10, 30)] {
        let look = check(&changed, "a", 1);
        assert_eq!(lender.peek_left(&look, BEGIN_MS + 3).remaining, 3);
    }
    let wider = precise(20, 60);
    let look = check(&wider, "a", 1);
    assert_eq!(lender.peek_left(&look, BEGIN_MS + 3).remaining, 13);
}

#[test]
fn a_dead_datacenter_strands_its_lease_until_that_ends_and_a_window_longer() {
    let policy = precise(100, 60);
    let mut lender = Lender::new(&policy);
    let answer = lender.ask(&policy, &request("FRA", 1, 40), BEGIN_MS);
    assert_eq!(answer.granted, 40);
    assert!(
        lender.check(&policy, BEGIN_MS, 60).is_allowed,
        "the rest is not stranded"
    );
    let ends_ms = BEGIN_MS + lease_ms(&policy);
    let held = lender.peek(&policy, ends_ms - 1, 100);
    assert_eq!(held.remaining, 60, "what was used here has returned");
    let charged = lender.peek(&policy, ends_ms + 30_000, 100);
    assert_eq!((charged.remaining, charged.retry_after_ms), (60, 30_000));
    // Nobody asked meanwhile: it counts as spent at its end all the same.
    assert!(lender.check(&policy, ends_ms + 60_000, 100).is_allowed);
}

#[test]
fn what_is_reported_counts_from_when_it_was_spent_and_never_from_earlier() {
    for drift_millionths in [-9_900, 0, 9_900] {
        let policy = precise(100, 60);
        let clock_ms = |true_ms: i64| true_ms + (true_ms - BEGIN_MS) * drift_millionths / 1_000_000;
        let mut lender = Lender::new(&policy);
        let mut borrower = borrower("FRA");
        assert_eq!(
            borrower.check(&policy, clock_ms(BEGIN_MS), 10),
            Admission::Ask
        );
        let first = borrower.next_request(&policy, clock_ms(BEGIN_MS)).unwrap();
        borrower.answered(&lender.ask(&policy, &first, BEGIN_MS), clock_ms(BEGIN_MS));
        let spent_ms = BEGIN_MS + 5_000;
        assert!(is_allowed(borrower.check(&policy, clock_ms(spent_ms), 10)));
        // A call that finds too little makes it report.
        let request_ms = BEGIN_MS + 45_000;
        assert_eq!(
            borrower.check(&policy, clock_ms(request_ms), 90),
            Admission::Ask
        );
        let second = borrower
            .next_request(&policy, clock_ms(request_ms))
            .unwrap();
        assert_eq!(second.spent, 10);
        lender.ask(
            &policy,
            &LeaseRequest {
                want: 0,
                need: 0,
                ..second
            },
            request_ms,
        );
        assert_eq!(
            lender.peek(&policy, spent_ms + 59_999, 1).remaining,
            90,
            "{drift_millionths}"
        );
        let late_ms = spent_ms + 60_000 + 900;
        assert_eq!(
            lender.peek(&policy, late_ms, 1).remaining,
            100,
            "{drift_millionths}"
        );
    }
}

#[test]
fn what_an_unheard_answer_granted_is_taken_back_by_the_next_request() {
    let policy = precise(100, 60);
    let mut lender = Lender::new(&policy);
    lender.ask(&policy, &request("FRA", 1, 40), BEGIN_MS);
    assert_eq!(lender.outstanding(), 40);
    let again = lender.ask(&policy, &request("FRA", 2, 50), BEGIN_MS);
    assert_eq!((again.granted, lender.outstanding()), (50, 50));
    let late = lender.ask(&policy, &request("FRA", 1, 40), BEGIN_MS);
    assert_eq!(
        (late.granted, lender.outstanding()),
        (50, 50),
        "a late request changes nothing"
    );
}

#[test]
fn a_lease_that_has_ended_gets_nothing_more() {
    let policy = precise(100, 60);
    let mut lender = Lender::new(&policy);
    lender.ask(&policy, &request("FRA", 1, 40), BEGIN_MS);
    let later = LeaseRequest {
        known_granted: 40,
        ..request("FRA", 2, 10)
    };
    let answer = lender.ask(&policy, &later, BEGIN_MS + lease_ms(&policy));
    assert_eq!(
        (answer.granted, answer.valid_ms, answer.must_commit),
        (0, 0, false)
    );
    assert_eq!(lender.outstanding(), 0);
}

#[test]
fn a_holder_that_is_not_asked_any_more_gives_back_what_it_has() {
    let policy = precise(100, 60);
    let mut lender = Lender::new(&policy);
    let mut borrowers = Borrowers::new("FRA", 1);
    assert_eq!(
        borrowers.check(&Check::of("p", &policy, "k", 10), BEGIN_MS),
        Ok(Admission::Ask)
    );
    let first = borrowers.next_request("p", "k", BEGIN_MS).unwrap().request;
    borrowers.answered("p", "k", &lender.ask(&policy, &first, BEGIN_MS), BEGIN_MS);
    let out = lender.outstanding();
    assert!(out >= 10, "it got {out}");
    let mut now_ms = BEGIN_MS;
    while now_ms < BEGIN_MS + lease_ms(&policy) {
        now_ms += 1_000;
        for due_request in borrowers.due_requests(9, now_ms) {
            assert_eq!(
                (due_request.name.as_str(), due_request.key.as_str()),
                ("p", "k")
            );
            let answer = lender.ask(&due_request.policy, &due_request.request, now_ms);
            borrowers.answered("p", "k", &answer, now_ms);
        }
    }
    assert_eq!(lender.outstanding(), 0);
    assert_eq!(
        lender.peek(&policy, now_ms, 1).remaining,
        100,
        "none of it counts as spent"
    );
    borrowers.due_requests(9, now_ms + 2 * lease_ms(&policy));
    assert!(borrowers.is_empty());
}

#[test]
fn a_clock_that_is_seen_to_step_back_forfeits_all_leases() {
    let policy = precise(100, 60);
    let mut lender = Lender::new(&policy);
    let mut borrowers = Borrowers::new("FRA", 1);
    assert_eq!(
        borrowers.check(&Check::of("p", &policy, "k", 10), BEGIN_MS),
        Ok(Admission::Ask)
    );
    let first = borrowers.next_request("p", "k", BEGIN_MS).unwrap().request;
    let answer = lender.ask(&policy, &first, BEGIN_MS);
    assert_eq!(
        borrowers.check(&Check::of("p", &policy, "k", 1), BEGIN_MS - 1),
        Ok(Admission::Ask)
    );
    let second = borrowers
        .next_request("p", "k", BEGIN_MS - 1)
        .unwrap()
        .request;
    assert_ne!(first.lease, second.lease, "no two leases are named alike");
    borrowers.answered("p", "k", &answer, BEGIN_MS);
    assert_eq!(
        borrowers.check(&Check::of("p", &policy, "k", 1), BEGIN_MS),
        Ok(Admission::Ask),
        "it is not of this lease"
    );
}

#[test]
fn leases_are_bounded_in_number_and_length() {
    let policy = precise(1_000, 60);
    let mut lender = Lender::new(&policy);
    for number in 0..LEASES_MAX {
        let answer = lender.ask(&policy, &request(&number.to_string(), 1, 1), BEGIN_MS);
        assert_eq!(answer.granted, 1, "borrower {number}");
    }
    let answer = lender.ask(&policy, &request("one more", 1, 1), BEGIN_MS);
    assert_eq!((answer.granted, answer.valid_ms), (0, 0));
    assert!(answer.retry_after_ms >= 1);
    assert_eq!(lease_ms(&precise(1, 1)), LEASE_MS_MIN);
    assert_eq!(lease_ms(&precise(1, 2_592_000)), LEASE_MS_MAX);
}

#[test]
fn a_dry_grantor_is_not_asked_again_for_a_second() {
    let policy = precise(10, 60);
    let mut lender = Lender::new(&policy);
    assert!(lender.check(&policy, BEGIN_MS, 10).is_allowed);
    let mut borrower = borrower("FRA");
    assert_eq!(borrower.check(&policy, BEGIN_MS, 1), Admission::Ask);
    let first = borrower.next_request(&policy, BEGIN_MS).unwrap();
    borrower.answered(&lender.ask(&policy, &first, BEGIN_MS), BEGIN_MS + 100);
    let Admission::Decided(verdict) = borrower.check(&policy, BEGIN_MS + 200, 1) else {
        unreachable!("it was asked")
    };
    assert!(!verdict.is_allowed);
    assert!(borrower.next_request(&policy, BEGIN_MS + 200).is_none());
    assert_eq!(borrower.check(&policy, BEGIN_MS + 1_100, 1), Admission::Ask);
}

#[test]
fn what_the_asker_holds_itself_brings_nothing_back_by_a_recall() {
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::FixedWindow,
        Algorithm::TokenBucket,
    ] {
        let policy = Policy {
            algorithm,
            scope: Scope::Global,
            ..Policy::sliding(1_000, 12)
        };
        let mut lender = Lender::new(&policy);
        let mut borrower = borrower("FRA");
        assert_eq!(borrower.check(&policy, BEGIN_MS, 1), Admission::Ask);
        let first = borrower.next_request(&policy, BEGIN_MS).unwrap();
        let first = LeaseRequest { want: 50, ..first };
        borrower.answered(&lender.ask(&policy, &first, BEGIN_MS), BEGIN_MS);
        borrower.leave(1);
        assert!(is_allowed(borrower.check(&policy, BEGIN_MS, 1)));
        assert!(borrower.tokens(BEGIN_MS) > 0);
        assert_eq!(borrower.check(&policy, BEGIN_MS, 1_000), Admission::Ask);
        let second = borrower.next_request(&policy, BEGIN_MS).unwrap();
        let answer = lender.ask(&policy, &second, BEGIN_MS);
        let alone_ms = lender.meter_mut().peek(&policy, BEGIN_MS, 1_000);
        assert_eq!(
            answer.retry_after_ms, alone_ms.retry_after_ms,
            "{algorithm:?}"
        );
        assert!(answer.retry_after_ms > 1, "{algorithm:?}");
    }
}

#[test]
fn what_was_lent_since_a_recall_in_vain_is_recalled_at_once_and_the_rest_not() {
    let policy = precise(100, 3_600);
    let mut lender = Lender::new(&policy);
    for name in ["FRA", "NRT"] {
        lender.ask(&policy, &request(name, 1, 10), BEGIN_MS);
    }
    let requester = request("SJC", 1, 100).lease;
    lender.recalled_in_vain(&requester, BEGIN_MS);
    assert_eq!(lender.recallable(None, BEGIN_MS + 1), []);
    let more = LeaseRequest {
        known_granted: 10,
        ..request("NRT", 2, 5)
    };
    let answer = lender.ask(&policy, &more, BEGIN_MS + 1);
    assert_eq!(answer.granted, 15);
    let recalled = lender.recallable(None, BEGIN_MS + 2);
    assert_eq!(recalled, std::slice::from_ref(&more.lease));
    assert_eq!(lender.recallable(Some(&more.lease), BEGIN_MS + 2), []);
    // It brought too little as well; the others need not wait longer for that.
    lender.recalled_in_vain(&requester, BEGIN_MS + 200);
    assert_eq!(lender.recallable(None, BEGIN_MS + 201), []);
    // A recall does not ask for what the requester itself holds.
    lender.recalled_in_vain(&more.lease, BEGIN_MS + 202);
    assert_eq!(
        lender.recallable(None, BEGIN_MS + 203),
        std::slice::from_ref(&more.lease)
    );
    assert_eq!(lender.recallable(None, BEGIN_MS + 300).len(), 2);
}

#[test]
fn what_is_given_back_is_told_at_once_though_the_lender_gave_nothing_last() {
    for is_pending in [false, true] {
        let policy = precise(50, 3_600);
        let mut lender = Lender::new(&policy);
        let mut borrower = borrower("NRT");
        assert_eq!(borrower.check(&policy, BEGIN_MS, 50), Admission::Ask);
        let first = borrower.next_request(&policy, BEGIN_MS).unwrap();
        borrower.answered(&lender.ask(&policy, &first, BEGIN_MS), BEGIN_MS + 300);
        borrower.leave(50);
        let now_ms = BEGIN_MS + 300;
        assert!(is_allowed(borrower.check(&policy, now_ms, 50)));
        let more = borrower.next_request(&policy, now_ms).unwrap();
        let nothing = lender.ask(&policy, &more, now_ms);
        assert_eq!(nothing.granted, more.known_granted);
        if is_pending {
            assert_eq!(borrower.refund(now_ms, 24), 24);
            assert_eq!(borrower.next_request(&policy, now_ms), None);
        }
        let now_ms = BEGIN_MS + 600;
        borrower.answered(&nothing, now_ms);
        if !is_pending {
            assert_eq!(borrower.refund(now_ms, 24), 24);
        }
        let report = borrower.next_request(&policy, now_ms).unwrap();
        let answer = lender.ask(&policy, &report, now_ms);
        assert_eq!(report.refunded, 24);
        let left = lender.peek(&policy, now_ms, 1).remaining;
        assert_eq!(left + answer.granted - report.known_granted, 24);
    }
}

#[test]
fn what_the_lender_never_grants_is_told_as_never() {
    let old = precise(1_000, 60);
    let new = precise(100, 3_600);
    let mut lender = Table::in_memory();
    lender.check(&check(&old, "a", 1), BEGIN_MS).unwrap();
    lender.check(&check(&new, "a", 1), BEGIN_MS).unwrap();
    // It does not know the narrower policy.
    let call = check(&old, "a", 200);
    let mut far = Borrowers::new("FRA", 1);
    assert_eq!(far.check(&call, BEGIN_MS), Ok(Admission::Ask));
    let due_request = far.next_request("p", "a", BEGIN_MS).unwrap();
    let answer = lender.ask(&call, &due_request.request, BEGIN_MS);
    assert_eq!(answer.retry_after_ms, NEVER_MS);
    far.answered("p", "a", &answer, BEGIN_MS);
    far.leave("p", "a", 200);
    let Ok(Admission::Decided(verdict)) = far.check(&call, BEGIN_MS + 7) else {
        panic!("a refusal that is cached");
    };
    assert_eq!(
        (verdict.is_allowed, verdict.retry_after_ms),
        (false, NEVER_MS)
    );
}

#[test]
fn messages_and_stored_lenders_keep_their_bytes() {
    let policy = Policy {
        algorithm: Algorithm::TokenBucket,
        ..precise(100, 60)
    };
    let mut request = request("FRA", 3, 40);
    request.recent.push(Spent {
        age_ms: 300,
        amount: 2,
    });
    let mut lender = Lender::new(&policy);
    let answer: LeaseAnswer = lender.ask(&policy, &request, BEGIN_MS);
    let hex = |bytes: Vec<u8>| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        hex(postcard::to_allocvec(&policy).unwrap()),
        "64c0a90702640100000100"
    );
    assert_eq!(
        hex(postcard::to_allocvec(&request).unwrap()),
        "034652410101030001ac0202000000282828"
    );
    assert_eq!(
        hex(postcard::to_allocvec(&answer).unwrap()),
        "032890bf053cc8dc030001"
    );
    assert_eq!(
        hex(postcard::to_allocvec(&lender).unwrap()),
        "d6f6b18dbc67010001034652410101032800000028f6f4bc8dbc6790bf05"
    );
}
