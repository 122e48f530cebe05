//! The views that default reads share: one fetch for each question, a second one while a view changes, and readers get
//! the newest that has ended.

use std::rc::Rc;

use tally_core::counter::id::CounterId;
use tally_core::isolate::views::{
    FETCH_MS_MAX, NotEnded, RENEW_MS, VIEW_MS_MAX, ViewLookup, ViewQuestion, ViewedSum, Views,
};

#[derive(Clone, PartialEq)]
struct Question {
    counter: CounterId,
    is_light: bool,
}

impl ViewQuestion for Question {
    fn counter(&self) -> &CounterId {
        &self.counter
    }

    fn is_light(&self) -> bool {
        self.is_light
    }
}

#[derive(Debug, PartialEq)]
struct Sum(u32);

impl ViewedSum for Sum {
    fn differs(&self, other: &Self) -> bool {
        self != other
    }

    fn bytes(&self) -> usize {
        0
    }
}

type Shared = Views<Question, Sum, &'static str>;

fn question(is_light: bool) -> Question {
    Question {
        counter: CounterId::parse("page".to_owned()).expect("an id"),
        is_light,
    }
}

/// Whether a reader that asks now takes, waits or fetches; and whether it begins another fetch.
fn look(views: &Shared, asked: &Question, now_ms: i64) -> (&'static str, bool) {
    match views.look(asked, i64::MIN, now_ms) {
        ViewLookup::Take(_, _, is_due) => ("take", is_due),
        ViewLookup::Wait(_) => ("wait", false),
        ViewLookup::Fetch => ("fetch", false),
    }
}

fn sum(value: u32) -> Result<Option<Rc<Sum>>, &'static str> {
    Ok(Some(Rc::new(Sum(value))))
}

#[test]
fn one_fetch_is_in_flight_and_its_view_is_taken_for_half_a_second() {
    let (mut views, asked) = (Shared::default(), question(true));
    assert_eq!(look(&views, &asked, 0), ("fetch", false));
    views.begin(&asked, 0);
    assert_eq!(look(&views, &asked, 10), ("wait", false));
    assert!(matches!(views.wait(&asked, 0, 10), Err(NotEnded::Fetching)));
    assert!(views.end(&asked, 0, 20, sum(1)));
    assert_eq!(look(&views, &asked, VIEW_MS_MAX), ("take", false));
    assert_eq!(look(&views, &asked, VIEW_MS_MAX + 1), ("fetch", false));
}

#[test]
fn a_view_that_changes_is_fetched_again_unless_it_asks_every_lead() {
    for is_light in [true, false] {
        let (mut views, asked) = (Shared::default(), question(is_light));
        for (begun_ms, value) in [(0, 1), (300, 2)] {
            views.begin(&asked, begun_ms);
            assert!(views.end(&asked, begun_ms, begun_ms + 10, sum(value)));
        }
        assert_eq!(look(&views, &asked, 300 + RENEW_MS - 1), ("take", false));
        assert_eq!(look(&views, &asked, 300 + RENEW_MS), ("take", is_light));
    }
}

#[test]
fn of_ended_fetches_readers_get_the_one_that_began_last() {
    let (mut views, asked) = (Shared::default(), question(true));
    views.begin(&asked, 0);
    views.begin(&asked, 100);
    assert!(views.end(&asked, 100, 150, sum(2)));
    assert!(views.end(&asked, 0, 160, sum(1)));
    let taken = views.look(&asked, i64::MIN, 200);
    assert!(matches!(taken, ViewLookup::Take(100, sum, _) if *sum == Sum(2)));
}

#[test]
fn a_fault_is_for_those_that_wait_and_only_if_no_other_fetch_may_yield_a_sum() {
    let (mut views, asked) = (Shared::default(), question(true));
    views.begin(&asked, 0);
    views.begin(&asked, 100);
    assert!(views.end(&asked, 0, 150, Err("away")));
    assert!(matches!(
        views.wait(&asked, 0, 160),
        Err(NotEnded::Fetching)
    ));
    assert!(views.end(&asked, 100, 170, Err("away")));
    assert!(matches!(views.wait(&asked, 0, 180), Ok((_, Err("away")))));
    assert_eq!(look(&views, &asked, 180), ("fetch", false));
}

#[test]
fn nobody_waits_for_a_fetch_that_was_lost_or_from_before_a_change() {
    let (mut views, asked) = (Shared::default(), question(true));
    views.begin(&asked, 0);
    assert_eq!(look(&views, &asked, FETCH_MS_MAX), ("wait", false));
    assert_eq!(look(&views, &asked, FETCH_MS_MAX + 1), ("fetch", false));
    views.forget(&asked.counter);
    assert_eq!(look(&views, &asked, 1), ("fetch", false));
    assert!(!views.end(&asked, 0, 2, sum(1)), "it may lack the change");
}
