//! Law: a lane is bounded: what does not fit goes in the next batch or is refused, and what nobody
//! sends any more does not stop the lane.

use tally_core::counter::autoscale::LINGER_MS_MAX;
use tally_core::counter::flush::Load;
use tally_core::counter::lane::{
    BATCH_ENTRIES_MAX, BATCH_ITEMS_MAX, BATCHES_MAX, IN_FLIGHT_MS_MAX, Lane, OUTCOMES_MAX, Ticket,
    UNSENT_MS_MAX,
};

type Plain = Lane<u64, ()>;

fn load(added: u128) -> Load {
    Load {
        added,
        ..Load::default()
    }
}

fn join(lane: &mut Plain, added: u128) -> Ticket {
    lane.join(load(added), 0, None).expect("there is room")
}

/// Flies the first batch, which is this one.
fn send(lane: &mut Plain, batch: u64, outcome: u64) -> Load {
    let (_, load) = lane.take(batch, 0).expect("first in line");
    lane.complete(batch, outcome, 0);
    load
}

#[test]
fn a_batch_closes_at_its_most_writes() {
    let mut lane = Plain::new(1);
    let first = join(&mut lane, 1);
    for _ in 1..BATCH_ITEMS_MAX {
        assert_eq!(join(&mut lane, 1).batch, first.batch);
    }
    let next = join(&mut lane, 1);
    assert!(next.opens && next.batch != first.batch);
    let full = send(&mut lane, first.batch, 1);
    assert_eq!(full.added, u128::from(BATCH_ITEMS_MAX));
    assert_eq!(send(&mut lane, next.batch, 2).added, 1);
}

#[test]
fn a_batch_closes_at_its_most_entries() {
    let mut lane = Plain::new(1);
    let bulk = Load {
        added: 1,
        past: vec![(7, 1); BATCH_ENTRIES_MAX - 1],
        ..Load::default()
    };
    let first = lane.join(bulk, 0, Some(())).expect("there is room");
    let last = Load {
        added: 1,
        live: vec![(7, 1)],
        ..Load::default()
    };
    assert_eq!(
        lane.join(last, 0, None).map(|ticket| ticket.batch),
        Some(first.batch)
    );
    assert_ne!(join(&mut lane, 1).batch, first.batch, "it is full");
}

#[test]
fn what_a_batch_cannot_hold_opens_the_next() {
    let mut lane = Plain::new(1);
    let batches = [3, u128::MAX, 1, 4].map(|added| join(&mut lane, added).batch);
    assert_eq!(batches, [1, 2, 3, 3]);
    let loads = [1, 2, 3].map(|batch| send(&mut lane, batch, batch).added);
    assert_eq!(loads, [3, u128::MAX, 5]);
}

#[test]
fn a_full_lane_refuses_and_goes_on_once_a_batch_flies() {
    let wide = u128::MAX;
    let mut lane = Plain::new(1);
    for _ in 0..BATCHES_MAX {
        join(&mut lane, wide);
    }
    assert_eq!(lane.join(load(1), 0, None), None);
    assert_eq!(lane.join(load(wide), 0, None), None);
    lane.take(1, 0).expect("first in line");
    assert_eq!(join(&mut lane, 1).batch, 17, "refused ones left nothing");
}

#[test]
fn only_the_first_batch_flies_and_only_when_nothing_else_does() {
    let wide = u128::MAX;
    let mut lane = Plain::new(1);
    let (one, two) = (join(&mut lane, wide), join(&mut lane, wide));
    assert_eq!(lane.take(two.batch, 0), None);
    assert!(lane.take(one.batch, 0).is_some());
    assert_eq!(lane.take(one.batch, 0), None, "a batch is sent once");
    assert_eq!(lane.take(two.batch, 0), None);
    lane.complete(one.batch, 7, 0);
    assert!(lane.take(two.batch, 0).is_some());
    // What settles late changes nothing.
    lane.complete(one.batch, 8, 0);
    assert_eq!(lane.arrival(&one).map(|arrival| arrival.outcome), Some(7));
    assert_eq!(lane.arrival(&two), None);
}

#[test]
fn a_lane_gathers_as_long_as_it_is_asked_to() {
    let mut lane = Plain::new(1);
    lane.linger(u32::MAX);
    assert_eq!(lane.gathers_ms(0), 0);
    let first = join(&mut lane, 1);
    assert!(
        lane.take(first.batch, 0).is_some(),
        "the first is sent at once"
    );
    lane.complete(first.batch, 0, 1);
    let second = join(&mut lane, 1);
    let linger_ms = i64::from(LINGER_MS_MAX);
    assert_eq!(lane.gathers_ms(0), linger_ms);
    assert_eq!(lane.gathers_ms(linger_ms - 1), 1);
    assert_eq!(lane.take(second.batch, linger_ms - 1), None);
    assert_eq!(lane.gathers_ms(linger_ms), 0);
    assert!(lane.take(second.batch, linger_ms).is_some());
    lane.complete(second.batch, 0, linger_ms);
    let full = Load {
        past: vec![(7, 1); BATCH_ENTRIES_MAX],
        ..load(1)
    };
    let full = lane.join(full, 0, None).expect("there is room");
    assert!(
        lane.take(full.batch, linger_ms).is_some(),
        "a full one does not wait"
    );
}

#[test]
fn what_nobody_attends_any_more_is_given_up_and_not_before() {
    let stale_ms = IN_FLIGHT_MS_MAX + IN_FLIGHT_MS_MAX / 2;
    let mut lane = Plain::new(1);
    let in_flight = join(&mut lane, 1);
    lane.take(in_flight.batch, 0).expect("first in line");
    let with_sender = join(&mut lane, 1);
    lane.give_up_stale(stale_ms, &9);
    assert_eq!(lane.arrival(&in_flight), None);
    lane.give_up_stale(stale_ms + 1, &9);
    for ticket in [in_flight, with_sender] {
        assert_eq!(
            lane.arrival(&ticket).map(|arrival| arrival.outcome),
            Some(9)
        );
    }
    // Somebody may still be looking; nobody looks that long.
    assert!(!lane.is_idle(2 * IN_FLIGHT_MS_MAX));
    assert!(lane.is_idle(2 * IN_FLIGHT_MS_MAX + 1));

    let without_sender = lane.join(load(1), 0, Some(())).expect("there is room");
    assert!(!without_sender.sends);
    assert!(lane.give_up_stale(UNSENT_MS_MAX, &9).is_empty());
    assert_eq!(lane.give_up_stale(UNSENT_MS_MAX + 1, &9), [()]);
    assert!(lane.is_idle(UNSENT_MS_MAX + 1));
}

#[test]
fn outcomes_are_kept_until_each_write_has_looked_and_the_last_64_after_that() {
    let mut lane = Plain::new(1);
    let mut tickets = Vec::new();
    let count = 3 * OUTCOMES_MAX;
    for outcome in (0..).take(count) {
        let ticket = join(&mut lane, 1);
        send(&mut lane, ticket.batch, outcome);
        tickets.push(ticket);
    }
    let look = |lane: &Plain| -> Vec<Option<u64>> {
        let arrivals = tickets.iter().map(|ticket| lane.arrival(ticket));
        arrivals
            .map(|arrival| arrival.map(|arrival| arrival.outcome))
            .collect()
    };
    // Natively 64 flushes passed while a write slept: it was counted, and its client was told that it failed.
    assert_eq!(look(&lane), (0..).take(count).map(Some).collect::<Vec<_>>());
    let ticket = join(&mut lane, 1);
    send(&mut lane, ticket.batch, 7);
    let left = look(&lane).into_iter().flatten().count();
    assert_eq!(left, OUTCOMES_MAX - 1);
}

#[test]
fn a_ticket_of_a_lane_that_was_let_go_gets_nothing_from_its_successor() {
    let mut old = Plain::new(1);
    let ticket = join(&mut old, 1);
    let mut new = Plain::new(2);
    let other = join(&mut new, 1);
    assert_eq!(ticket.batch, other.batch, "both begin at the same number");
    assert!(!new.is_waiting(&ticket));
    assert_eq!(new.take_for(&ticket, 0), None);
    new.take_for(&other, 0).expect("its own");
    new.complete(other.batch, 5, 1);
    assert_eq!(new.arrival(&ticket), None);
    assert!(new.arrival(&other).is_some());
}

#[test]
fn a_clock_that_steps_back_does_not_hold_a_lane() {
    let mut lane = Plain::new(1);
    let first = join(&mut lane, 1);
    lane.take(first.batch, 100_000).expect("first in line");
    lane.complete(first.batch, 5, 100_001);
    lane.linger(20);
    let next = join(&mut lane, 1);
    assert_eq!(lane.take(next.batch, 100_010), None, "it gathers");
    assert_eq!(lane.gathers_ms(40_000), 0);
    assert!(lane.take(next.batch, 40_000).is_some());
}
