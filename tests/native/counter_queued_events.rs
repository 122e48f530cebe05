//! Laws of the lane of queued events: each event is in one message of one batch, batches stay within the bounds of
//! the platform, and whatever a queue does to messages, each counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::lane::{BATCHES_MAX, Lane, Ticket};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::queue::SUMMED_MAX;
use tally_core::counter::queue::queued_events::{
    BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, EventBatch, EventBatchLimits, INBOX_LIMITS,
    MESSAGE_BYTES_MAX, QUEUE_LIMITS, QueuedEvents,
};
use tally_wire::queued::{Message, group};

const NOW_MS: i64 = 1_777_593_630_000;

fn event(
    counter: usize,
    added: u128,
    place: usize,
    clients: Option<u8>,
    drawn: u64,
) -> QueuedEvents {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&drawn.to_le_bytes());
    QueuedEvents {
        datacenter: Datacenter::parse(["FRA", "IAD"][place % 2]).expect("a datacenter"),
        counter: CounterId::parse(format!("c{counter}")).expect("a counter id"),
        generation: 5,
        added,
        second: NOW_MS / 1_000 + i64::try_from(place / 2).expect("a few seconds"),
        is_clients: clients.is_some(),
        key: clients.map_or(WriteKey(key), |key| WriteKey([key + 1; 16])),
        fingerprint: clients.map_or(0, u64::from),
    }
}

/// The lane of events to one queue or inbox.
type Events = Lane<u64, (), EventBatch>;

/// The most messages of a batch to a queue.
const MESSAGES_MAX: usize = QUEUE_LIMITS.messages_max * QUEUE_LIMITS.sends_max;

fn join_named(
    lane: &mut Events,
    event: QueuedEvents,
    limits: EventBatchLimits,
    name: impl Fn(&mut QueuedEvents) + 'static,
) -> Option<Ticket<usize>> {
    lane.join(EventBatch::new(event, limits, Rc::new(name)), NOW_MS, None)
}

fn join(lane: &mut Events, event: QueuedEvents) -> Option<Ticket<usize>> {
    join_named(lane, event, QUEUE_LIMITS, |_| {})
}

/// Takes what may be sent.
fn take(lane: &mut Events) -> Option<(u64, Vec<QueuedEvents>)> {
    let taken = lane.take_first(NOW_MS);
    taken.map(|(nonce, batch)| (nonce.number, batch.into_messages()))
}

/// What an event or a message says of where, when and whose it is.
type Name = (CounterId, Datacenter, i64);

fn name(sent: &QueuedEvents) -> Name {
    (sent.counter.clone(), sent.datacenter.clone(), sent.second)
}

#[derive(Clone, Debug)]
enum Step {
    Join(usize, u128, usize, Option<u8>),
    Take,
    Settle,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let amount = prop_oneof![
        1_u128..10,
        Just(SUMMED_MAX),
        Just(SUMMED_MAX + 1),
        Just(u128::MAX)
    ];
    let join = (
        0_usize..300,
        amount,
        0_usize..4,
        prop::option::weighted(0.2, 0_u8..5),
    )
        .prop_map(|(counter, added, place, key)| Step::Join(counter, added, place, key));
    prop::collection::vec(
        prop_oneof![60 => join, 1 => Just(Step::Take), 1 => Just(Step::Settle)],
        1..400,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_event_is_in_one_message_of_the_batch_that_it_was_told(steps in steps()) {
        let mut lane = Events::new(7);
        let mut joined: BTreeMap<u64, Vec<(Ticket<usize>, QueuedEvents)>> = BTreeMap::new();
        let mut batches: BTreeMap<u64, Vec<QueuedEvents>> = BTreeMap::new();
        let mut in_flight = None;
        let mut drawn = 0;
        for step in steps {
            match step {
                Step::Join(counter, added, place, clients) => {
                    drawn += 1;
                    let event = event(counter, added, place, clients, drawn);
                    let ticket = join(&mut lane, event.clone()).expect("there is room");
                    prop_assert!(!batches.contains_key(&ticket.batch), "a batch that was taken is closed");
                    joined.entry(ticket.batch).or_default().push((ticket, event));
                }
                Step::Take => if let Some((number, messages)) = take(&mut lane) {
                    prop_assert!(messages.len() <= MESSAGES_MAX);
                    prop_assert!(batches.insert(number, messages).is_none());
                    prop_assert_eq!(in_flight.replace(number), None, "one at a time");
                },
                Step::Settle => if let Some(number) = in_flight.take() {
                    lane.complete(number, number * 2, NOW_MS);
                },
            }
        }
        if let Some(number) = in_flight {
            lane.complete(number, number * 2, NOW_MS);
        }
        while let Some((number, messages)) = take(&mut lane) {
            batches.insert(number, messages);
            lane.complete(number, number * 2, NOW_MS);
        }
        prop_assert_eq!(batches.len(), joined.len());
        for (number, events) in &joined {
            let messages = &batches[number];
            // Each finds its message, and so its send, by the place of its outcome.
            for (ticket, event) in events {
                let arrival = lane.arrival(ticket).expect("it has settled");
                prop_assert_eq!(arrival.outcome, number * 2);
                prop_assert_eq!(name(&messages[arrival.later]), name(event));
            }
            let events: Vec<QueuedEvents> = events.iter().map(|(_, event)| event.clone()).collect();
            let of_clients = |sent: &&QueuedEvents| sent.is_clients;
            // A client's event goes as it is: its key stands for it alone.
            prop_assert_eq!(
                messages.iter().filter(of_clients).collect::<Vec<_>>(),
                events.iter().filter(of_clients).collect::<Vec<_>>()
            );
            let sums = |list: &[QueuedEvents]| {
                let mut sums: BTreeMap<Name, (u128, u64)> = BTreeMap::new();
                for sent in list.iter().filter(|sent| !sent.is_clients) {
                    let (sum, wraps) = sums.entry(name(sent)).or_default();
                    let (next, wrapped) = sum.overflowing_add(sent.added);
                    (*sum, *wraps) = (next, *wraps + u64::from(wrapped));
                }
                sums
            };
            prop_assert_eq!(sums(messages), sums(&events));
            // What no counter can hold is alone.
            for event in events.iter().filter(|event| event.added > SUMMED_MAX) {
                prop_assert!(messages.contains(event));
            }
        }
    }

    #[test]
    fn messages_that_come_twice_and_in_any_order_count_once(
        events in prop::collection::vec(
            (0_usize..4, 1_u128..100, 0_usize..4, prop::option::weighted(0.3, 0_u8..4)),
            1..60,
        ),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
    ) {
        let mut lane = Events::new(7);
        let mut acknowledged: BTreeMap<CounterId, u128> = BTreeMap::new();
        let mut keys = BTreeSet::new();
        for ((counter, added, place, clients), drawn) in events.into_iter().zip(1..) {
            // A client sends the same amount with the same key, from wherever it is.
            let added = clients.map_or(added, |key| u128::from(key) + 1);
            let event = event(counter, added, place, clients, drawn);
            if clients.is_none() || keys.insert((event.counter.clone(), event.key)) {
                *acknowledged.entry(event.counter.clone()).or_default() += added;
            }
            join(&mut lane, event);
        }
        let (_, messages) = take(&mut lane).expect("a batch");
        let mut counted = BTreeSet::new();
        let mut totals: BTreeMap<CounterId, u128> = BTreeMap::new();
        // Some batches of any messages, and then one of all.
        let again = order.chunks(7).map(|some| some.iter().map(|which| which.get(&messages)).collect());
        let all: Vec<&QueuedEvents> = messages.iter().collect();
        for batch in again.chain([all]) {
            let batch: Vec<QueuedEvents> = batch.into_iter().cloned().collect();
            let length = batch.len();
            let groups = group(batch.clone().into_iter().enumerate().collect());
            let mut places: Vec<usize> = groups.iter().flat_map(|group| group.indices.clone()).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..length).collect::<Vec<_>>());
            for group in groups {
                let first = group.deliveries[0].clone();
                for (place, due) in group.indices.iter().zip(&group.deliveries) {
                    prop_assert_eq!(&batch[*place].clone().into_delivery(), due);
                    prop_assert_eq!(&group.datacenter, &batch[*place].datacenter);
                    prop_assert_eq!((&due.counter, due.is_clients), (&first.counter, first.is_clients));
                    prop_assert_eq!(due.write.generation, first.write.generation);
                    if counted.insert((due.counter.clone(), due.write.key)) {
                        *totals.entry(due.counter.clone()).or_default() += due.write.added;
                    }
                }
            }
        }
        prop_assert_eq!(totals, acknowledged);
    }
}

#[test]
fn what_comes_while_a_batch_flies_flies_together() {
    let mut lane = Events::new(7);
    assert_eq!(take(&mut lane), None);
    let first = join(&mut lane, event(0, 1, 0, None, 1)).expect("there is room");
    let (number, messages) = take(&mut lane).expect("nothing is in flight");
    assert_eq!((number, messages.len()), (first.batch, 1));
    for drawn in 0..50 {
        let ticket = join(&mut lane, event(0, 1, 0, None, drawn)).expect("there is room");
        assert_eq!(ticket.batch, number + 1);
    }
    assert_eq!(take(&mut lane), None);
    for counter in 0..MESSAGES_MAX {
        join(&mut lane, event(counter, 1, 0, None, 1));
    }
    let ticket = join(&mut lane, event(MESSAGES_MAX, 1, 0, None, 1)).expect("there is room");
    assert_eq!(ticket.batch, number + 2);
    lane.complete(number, 0, NOW_MS);
    let (number, messages) = take(&mut lane).expect("the one before has settled");
    assert_eq!((messages.len(), messages[0].added), (MESSAGES_MAX, 51));
    lane.complete(number, 0, NOW_MS);
    assert_eq!(
        take(&mut lane).map(|(number, _)| number),
        Some(ticket.batch)
    );
}

#[test]
fn each_message_is_named_once_and_what_joins_one_is_not() {
    let mut lane = Events::new(7);
    let given = Rc::new(std::cell::Cell::new(0));
    for (counter, place) in [(0, 0), (0, 0), (1, 0), (0, 2), (1, 0)] {
        let given = given.clone();
        let name = move |event: &mut QueuedEvents| {
            given.set(given.get() + 1);
            event.key = WriteKey([given.get(); 16]);
        };
        join_named(
            &mut lane,
            event(counter, 1, place, None, 0),
            QUEUE_LIMITS,
            name,
        );
    }
    let (_, messages) = take(&mut lane).expect("a batch");
    let keys: Vec<u8> = messages.iter().map(|message| message.key.0[0]).collect();
    assert_eq!(keys, [1, 2, 3], "numbers without gaps");
}

#[test]
fn events_to_an_inbox_go_as_they_came() {
    let mut lane = Events::new(7);
    // Though all are of one counter.
    for drawn in 0..1_003 {
        assert!(join_named(&mut lane, event(0, 1, 0, None, drawn), INBOX_LIMITS, |_| {}).is_some());
    }
    let mut lengths = Vec::new();
    while let Some((number, messages)) = take(&mut lane) {
        lengths.push(messages.len());
        lane.complete(number, 0, NOW_MS);
    }
    let full = INBOX_LIMITS.messages_max;
    assert_eq!(lengths, [full, full, 3]);
}

#[test]
fn each_send_of_a_batch_is_within_the_bounds_of_the_platform() {
    let places: Vec<usize> = (0..MESSAGES_MAX).collect();
    for (number, send) in places.chunks(BATCH_MESSAGES_MAX).enumerate() {
        assert!(
            send.iter()
                .all(|place| QUEUE_LIMITS.send_of(*place) == number)
        );
    }
    assert_eq!(INBOX_LIMITS.send_of(INBOX_LIMITS.messages_max - 1), 0);
}

#[test]
fn an_inbox_is_given_the_event_of_a_message() {
    let plain = event(1, 300, 0, None, 9);
    let logged = plain.clone().into_event();
    assert_eq!(
        (&logged.counter, logged.delta, logged.second, logged.key),
        (&plain.counter, 300, plain.second, None)
    );
    let keyed = event(1, 300, 0, Some(6), 9).into_event();
    assert_eq!(keyed.key, Some((WriteKey([7; 16]), 6)));
}

#[test]
fn too_many_that_wait_are_refused() {
    let mut lane = Events::new(7);
    let room = BATCHES_MAX * MESSAGES_MAX;
    for counter in 0..room {
        assert!(join(&mut lane, event(counter, 1, 0, None, 1)).is_some());
    }
    assert_eq!(join(&mut lane, event(room, 1, 0, None, 1)), None);
    // Of a counter that is in the youngest batch there is always room for more.
    assert!(join(&mut lane, event(room - 1, 1, 0, None, 1)).is_some());
    assert!(take(&mut lane).is_some());
    assert!(join(&mut lane, event(room, 1, 0, None, 1)).is_some());
}

#[test]
fn the_longest_message_is_within_its_bound_and_a_batch_of_them_within_the_platforms() {
    let longest = QueuedEvents {
        datacenter: Datacenter::parse(&"X".repeat(16)).expect("a datacenter"),
        counter: CounterId::parse("é".repeat(256)).expect("a counter id"),
        generation: u64::MAX,
        added: u128::MAX,
        second: i64::MIN,
        is_clients: true,
        key: WriteKey([255; 16]),
        fingerprint: u64::MAX,
    };
    let bytes = Message::write(longest.clone()).expect("it can be written");
    assert_eq!(bytes.len(), MESSAGE_BYTES_MAX);
    assert!(bytes.len() * BATCH_MESSAGES_MAX < BATCH_BYTES_MAX);
    assert_eq!(Message::read(&bytes), Some(longest));
}

#[test]
fn a_message_has_these_bytes_and_nothing_else_is_one() {
    let sent = event(1, 300, 0, Some(6), 0);
    let bytes = Message::write(sent.clone()).expect("it can be written");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "000346524102633105ac02bcb49f9f0d010707070707070707070707070707070706"
    );
    assert_eq!(Message::read(&bytes), Some(sent.clone()));
    for length in 0..bytes.len() {
        assert_eq!(Message::read(&bytes[..length]), None);
    }
    let mut later = bytes.clone();
    later[0] = 1;
    assert_eq!(Message::read(&later), None, "a version that is not known");
    let nothing = Message::write(QueuedEvents { added: 0, ..sent }).expect("it can be written");
    assert_eq!(Message::read(&nothing), None);
    assert_eq!(Message::read(&vec![0; MESSAGE_BYTES_MAX + 1]), None);
}
