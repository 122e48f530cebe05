//! Laws of keys whose limiters change in number, while some isolates know the old number and some the new one.

use std::rc::Rc;

use tally_core::cluster::spread::{KeyPlace, LimiterCounts, Rings, Spread};
use tally_core::limit::policy::Policy;
use tally_core::limit::table::{Check, Table};

use tally_testing::chance::Chance;

/// Any time, not the beginning of a window.
const BEGIN_MS: i64 = 1_777_593_630_123;

fn check<'a>(policy: &'a Policy, key: &'a str, cost: u64) -> Check<'a> {
    Check::of("p", policy, key, cost)
}

const OLD: LimiterCounts = LimiterCounts {
    now: 2,
    before: None,
};
const NEW: LimiterCounts = LimiterCounts {
    now: 5,
    before: Some(2),
};

/// One limiter: what it knows, what it has stored of that, and its table.
struct Limiter {
    spread: Spread,
    stored: Option<LimiterCounts>,
    table: Table,
}

impl Limiter {
    fn start(&mut self, counts: LimiterCounts, now_ms: i64) {
        self.spread = Spread::new(Rc::new(Rings::new(counts)));
        if let Some(stored) = self.stored {
            self.spread.receive(stored, now_ms, now_ms);
        }
    }

    fn receive(&mut self, counts: LimiterCounts, now_ms: i64) {
        if self.spread.receive(counts, now_ms, now_ms) {
            self.stored = Some(counts);
        }
    }
}

fn partition(number: u32) -> usize {
    usize::try_from(number).unwrap()
}

/// One check as limiters pass it on. Returns whether it was admitted.
fn ask(limiters: &mut [Limiter], policy: &Policy, key: &str, edge: &Rings, now_ms: i64) -> bool {
    let place = format!("p/{key}");
    let mut me = edge.now(&place);
    for is_sent_on in [false, true] {
        let here = &limiters[partition(me)];
        match here.spread.place_of(&place, me, now_ms) {
            KeyPlace::At(_) if is_sent_on => return false,
            KeyPlace::At(home) => {
                let counts = here.spread.counts(now_ms);
                me = home;
                limiters[partition(me)].receive(counts, now_ms);
                continue;
            }
            KeyPlace::After(old) if !here.table.knows("p", key) => {
                let counts = here.spread.counts(now_ms);
                let before = &mut limiters[partition(old)];
                before.receive(counts, now_ms);
                if !matches!(before.spread.place_of(&place, old, now_ms), KeyPlace::At(_)) {
                    return false;
                }
                let request = check(policy, key, 1);
                let handover = before.table.hand_over(&request, now_ms);
                let table = &mut limiters[partition(me)].table;
                table.take_over(&request, &handover, now_ms).unwrap();
            }
            KeyPlace::After(_) | KeyPlace::Here => {}
        }
        let table = &mut limiters[partition(me)].table;
        return table
            .check(&check(policy, key, 1), now_ms)
            .unwrap()
            .is_allowed;
    }
    false
}

#[test]
fn no_key_gets_more_than_its_limit_whichever_isolate_knows_which_number() {
    for seed in 0..300 {
        let chance = &mut Chance(seed);
        let policy = Policy::sliding(10, 60);
        let rings = [OLD, NEW].map(|counts| Rc::new(Rings::new(counts)));
        let begin = || Limiter {
            spread: Spread::new(rings[0].clone()),
            stored: None,
            table: Table::in_memory(),
        };
        let mut limiters: Vec<Limiter> = (0..5).map(|_| begin()).collect();
        let mut admitted = [0_u64; 8];
        for step in 0..600 {
            // All within one window.
            let now_ms = BEGIN_MS + step * 50;
            if step > 100 && chance.below(10) == 0 {
                // An isolate starts, most often a new one.
                let counts = if chance.below(3) == 0 { OLD } else { NEW };
                let place = chance.index(5);
                limiters[place].start(counts, now_ms);
            }
            let number = chance.index(8);
            let is_new = step > 100 && chance.below(2) == 0;
            let edge = &rings[usize::from(is_new)];
            let key = format!("k{number}");
            admitted[number] += u64::from(ask(&mut limiters, &policy, &key, edge, now_ms));
        }
        assert!(
            admitted.iter().all(|admitted| *admitted <= 10),
            "seed {seed}: {admitted:?}"
        );
    }
}

#[test]
fn a_number_is_heeded_that_was_changed_from_the_own_one_and_for_an_hour() {
    let spread = |counts| Spread::new(Rc::new(Rings::new(counts)));
    let mut old = spread(OLD);
    assert!(old.receive(NEW, BEGIN_MS, BEGIN_MS));
    assert!(
        !old.receive(NEW, BEGIN_MS + 1_000, BEGIN_MS + 1_000),
        "stored already"
    );
    assert_eq!(old.counts(BEGIN_MS + 3_599_000), NEW);
    assert_eq!(old.counts(BEGIN_MS + 3_600_000), OLD);
    assert!(
        old.receive(NEW, BEGIN_MS + 3_000_000, BEGIN_MS + 3_000_000),
        "goes on"
    );
    assert_eq!(old.counts(BEGIN_MS + 3_600_000), NEW);
    // Who knows the new one hears nothing from those who know the old one.
    let mut new = spread(NEW);
    assert!(!new.receive(OLD, BEGIN_MS, BEGIN_MS));
    let back = LimiterCounts {
        now: 2,
        before: Some(5),
    };
    assert!(
        !new.receive(back, BEGIN_MS, BEGIN_MS),
        "nobody can tell which is newer"
    );
}
