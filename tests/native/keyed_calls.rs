//! Law: however many leads have the keys of a body, it makes no more calls than it may; what is left over fails
//! with nothing counted, and is told so.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tally_api::batch::budget::{CallBudget, KEYED_AT_ONCE_MAX};
use tally_api::batch::gathered::{Times, element_second};
use tally_api::keyed_routes::{
    BudgetedCarrier, Carrier, MOVES_MAX, after_unknown, count_claimed, count_unclaimed,
};
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::flush::Refusal;
use tally_core::counter::id::Datacenter;
use tally_core::counter::ledger::{HomeCondition, KeyedOutcome, KeyedWrite, Recorded, WriteKey};
use tally_wire::messages::{ClaimAnswer, Counted, Fault, KeyOwner};

/// A root that spreads keys over so many leads, which all answer at once.
struct Spread<'a> {
    leads: usize,
    calls: &'a Cell<usize>,
    counted: &'a RefCell<BTreeSet<WriteKey>>,
    /// Whether the leads strike out all that they get.
    strikes: bool,
}

fn lead(number: usize) -> Datacenter {
    Datacenter::parse(&format!("D{number:03}")).expect("a name")
}

/// What a lead answers that is alone.
fn counted(outcomes: Vec<KeyedOutcome>) -> Counted {
    Counted {
        outcomes,
        shards: 1,
        home: None,
        is_apart: false,
        totals: None,
    }
}

impl Carrier for Spread<'_> {
    async fn claim(
        &self,
        _here: &Datacenter,
        keys: Vec<WriteKey>,
        _struck_at: Option<ClaimHolder>,
    ) -> Result<ClaimAnswer, Fault> {
        self.calls.set(self.calls.get() + 1);
        let owners = (0..keys.len())
            .map(|number| KeyOwner::Lead(ClaimHolder::first(&lead(number % self.leads))));
        Ok(ClaimAnswer {
            generation: 1,
            owners: owners.collect(),
        })
    }

    async fn count(
        &self,
        _lead: &Datacenter,
        _moves: Option<u32>,
        writes: Vec<KeyedWrite>,
    ) -> Result<Counted, Fault> {
        self.calls.set(self.calls.get() + 1);
        let outcome = |write: &KeyedWrite| {
            if self.strikes {
                return KeyedOutcome::Struck;
            }
            self.counted.borrow_mut().insert(write.key);
            KeyedOutcome::Full
        };
        Ok(counted(writes.iter().map(outcome).collect()))
    }
}

/// Runs what never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nobody waits here"),
    }
}

fn write(number: u64) -> KeyedWrite {
    KeyedWrite {
        added: 1,
        ..KeyedWrite::new(WriteKey(u128::from(number).to_le_bytes()), 1)
    }
}

#[test]
fn keys_that_lie_with_many_leads_make_a_bounded_number_of_calls() {
    let messages = u64::try_from(KEYED_AT_ONCE_MAX).expect("2,000");
    let writes: Vec<KeyedWrite> = (0..2 * messages + 1).map(write).collect();
    // One claim for each of three messages; the third is of one key.
    for (leads, most, expected) in [
        (1, 100, 6),
        (40, 100, 84),
        (40, 84, 84),
        (40, 83, 83),
        (500, 100, 100),
        (500, 0, 0),
    ] {
        let (made, counted) = (Cell::new(0), RefCell::default());
        let carrier = Spread {
            leads,
            calls: &made,
            counted: &counted,
            strikes: false,
        };
        let calls = CallBudget::new(most);
        let bounded = BudgetedCarrier {
            carrier,
            calls: &calls,
        };
        let outcomes = now(count_claimed(&bounded, &lead(0), &writes));
        assert_eq!(made.get(), expected, "{leads} leads, {most} calls");
        assert_eq!(outcomes.len(), writes.len());
        for ((_, outcome), write) in outcomes.iter().zip(&writes) {
            let is_counted = counted.borrow().contains(&write.key);
            match outcome {
                Ok(_) => assert!(is_counted),
                Err(fault) => {
                    assert!(matches!(fault, Fault::TooMany(_)), "{fault:?}");
                    assert!(!is_counted, "it is told that nothing was counted");
                }
            }
        }
    }
}

#[test]
fn what_is_struck_out_again_and_again_makes_a_bounded_number_of_calls_too() {
    let writes: Vec<KeyedWrite> = (0..100).map(write).collect();
    // Each round is a claim and a count at ten leads at most.
    for most in [2, 7, 50, 1_000] {
        let (made, counted) = (Cell::new(0), RefCell::default());
        let carrier = Spread {
            leads: 10,
            calls: &made,
            counted: &counted,
            strikes: true,
        };
        let calls = CallBudget::new(most);
        let bounded = BudgetedCarrier {
            carrier,
            calls: &calls,
        };
        let outcomes = now(count_claimed(&bounded, &lead(0), &writes));
        assert!(made.get() <= most, "{} calls", made.get());
        assert!(made.get() <= MOVES_MAX * (1 + 10), "{} calls", made.get());
        assert_eq!(outcomes.len(), writes.len());
    }
}

/// A root that gives each key to another holder, and a first lead that has struck all of them out.
struct Scattered {
    /// Who has counted which key.
    counted: RefCell<Vec<(ClaimHolder, WriteKey)>>,
}

impl Scattered {
    /// Who has a key: its number tells.
    fn holder_of(key: WriteKey) -> ClaimHolder {
        let number = usize::from(key.0[0]);
        ClaimHolder {
            datacenter: lead(number % 2),
            moves: u32::from(key.0[0]),
        }
    }
}

impl Carrier for Scattered {
    async fn claim(
        &self,
        _here: &Datacenter,
        keys: Vec<WriteKey>,
        struck_at: Option<ClaimHolder>,
    ) -> Result<ClaimAnswer, Fault> {
        assert_eq!(struck_at, Some(ClaimHolder::first(&lead(0))));
        let owners = keys.into_iter().map(Self::holder_of).map(KeyOwner::Lead);
        Ok(ClaimAnswer {
            generation: 1,
            owners: owners.collect(),
        })
    }

    async fn count(
        &self,
        lead: &Datacenter,
        moves: Option<u32>,
        writes: Vec<KeyedWrite>,
    ) -> Result<Counted, Fault> {
        let outcome = |write: &KeyedWrite| {
            let Some(moves) = moves else {
                return KeyedOutcome::Struck;
            };
            let datacenter = lead.clone();
            let holder = ClaimHolder { datacenter, moves };
            self.counted.borrow_mut().push((holder, write.key));
            KeyedOutcome::Full
        };
        Ok(counted(writes.iter().map(outcome).collect()))
    }
}

/// Some of a batch were counted at one home and some at the next: what is sent again must find each where it is.
#[test]
fn drawn_keys_that_were_struck_out_go_each_to_whoever_has_it() {
    let carrier = Scattered {
        counted: RefCell::default(),
    };
    let writes: Vec<KeyedWrite> = (1..6).map(write).collect();
    let outcomes = now(count_unclaimed(&carrier, &lead(0), &writes));
    let mut counted = carrier.counted.into_inner();
    counted.sort();
    let mut expected: Vec<(ClaimHolder, WriteKey)> = writes
        .iter()
        .map(|write| (Scattered::holder_of(write.key), write.key))
        .collect();
    expected.sort();
    assert_eq!(counted, expected);
    for ((at, outcome), write) in outcomes.into_iter().zip(&writes) {
        let holder = Scattered::holder_of(write.key);
        assert_eq!((at, outcome), (holder.datacenter, Ok(KeyedOutcome::Full)));
    }
}

/// The first attempt may be counted still: only a record, or a strike, keeps it from that.
#[test]
fn a_refusal_after_an_attempt_that_was_not_answered_is_unknown_where_nothing_is_recorded() {
    let recorded = Recorded {
        fingerprint: 1,
        generation: 1,
        sequence: 1,
        totals: (1_u128.into(), 0_u128.into()),
        is_exact: true,
        at_ms: 0,
        operations: 0,
    };
    for (outcome, is_for_good) in [
        (KeyedOutcome::Counted(recorded), true),
        (KeyedOutcome::Replayed(recorded), true),
        (KeyedOutcome::Struck, true),
        (KeyedOutcome::BelowFloor, true),
        (KeyedOutcome::BelowFloorBefore, true),
        (KeyedOutcome::Overflow, true),
        (KeyedOutcome::Changed, false),
        (KeyedOutcome::NeedsHome, false),
        (KeyedOutcome::NotWhole, false),
    ] {
        let both = counted(vec![KeyedOutcome::Counted(recorded), outcome]);
        assert_eq!(after_unknown(Some(0), Ok(both.clone())), Ok(both.clone()));
        let drawn = after_unknown(None, Ok(both.clone()));
        match is_for_good {
            true => assert_eq!(drawn, Ok(both)),
            false => assert!(matches!(drawn, Err(Fault::Unavailable(_))), "{drawn:?}"),
        }
    }
    // A refusal of the second attempt does not say what became of the first.
    let refused = Err(Fault::Refused(Refusal::Newer(7)));
    assert_eq!(after_unknown(Some(0), refused.clone()), refused);
    let drawn = after_unknown(None, refused);
    assert!(matches!(drawn, Err(Fault::Unavailable(_))), "{drawn:?}");
    for moves in [Some(0), None] {
        let moving = after_unknown(moves, Err(Fault::NotLocated));
        assert!(matches!(moving, Err(Fault::Unavailable(_))), "{moving:?}");
    }
}

#[test]
fn a_retry_brings_nobody_back_into_a_window() {
    let counted = 1_777_593_630;
    for (times, given, expected) in [
        (Times::Live, counted, counted),
        // Without a time of its own a retry is of now, a day later.
        (Times::Live, counted + 86_400, counted),
        // What was given an earlier time keeps it.
        (Times::Live, counted - 5, counted - 5),
        // An edge whose clock is behind.
        (Times::Live, counted - 600, counted - 5),
        (Times::Past, counted - 600, counted - 600),
        (Times::Past, counted + 600, counted),
    ] {
        assert_eq!(element_second(times, given, counted), expected);
    }
}

/// A root that gives all keys to one lead, which keeps what it gets.
struct Only {
    lead: Datacenter,
    got: RefCell<Vec<KeyedWrite>>,
}

impl Carrier for Only {
    async fn claim(
        &self,
        _here: &Datacenter,
        keys: Vec<WriteKey>,
        _struck_at: Option<ClaimHolder>,
    ) -> Result<ClaimAnswer, Fault> {
        Ok(ClaimAnswer {
            generation: 7,
            owners: vec![KeyOwner::Lead(ClaimHolder::first(&self.lead)); keys.len()],
        })
    }

    async fn count(
        &self,
        _lead: &Datacenter,
        _moves: Option<u32>,
        writes: Vec<KeyedWrite>,
    ) -> Result<Counted, Fault> {
        let outcomes = vec![KeyedOutcome::Changed; writes.len()];
        self.got.borrow_mut().extend(writes);
        Ok(counted(outcomes))
    }
}

/// Home has moved since, and the next home's cell may have counted as often as the first one's.
#[test]
fn a_condition_holds_only_at_the_home_that_was_seen() {
    let seen = HomeCondition {
        home: lead(1),
        generation: 7,
        sequence: 5,
        operations: 2,
    };
    for (at, generation) in [(lead(1), 7), (lead(2), 0)] {
        let carrier = Only {
            lead: at.clone(),
            got: RefCell::default(),
        };
        let conditional = KeyedWrite {
            condition: Some(seen.clone()),
            ..write(1)
        };
        now(count_claimed(
            &carrier,
            &lead(0),
            std::slice::from_ref(&conditional),
        ));
        now(count_unclaimed(&carrier, &at, &[conditional]));
        for got in carrier.got.into_inner() {
            let expected = HomeCondition {
                generation,
                ..seen.clone()
            };
            assert_eq!(got.condition, Some(expected), "{at}");
        }
    }
}
