//! Laws of a hub's board: who is sent what, and when.

use crate::common;

use std::collections::BTreeMap;
use std::rc::Rc;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use tally_api::live::subscriptions::{ChangeRefusal, HubState, JoinRefusal, Update, UpdatesMade};
use tally_api::live::{COUNTERS_MAX, IDS_MAX, LOST_MS, PING_MS, SECOND_MS, second_of};
use tally_core::counter::id::CounterId;
use tally_wire::live::snapshot::{CounterSnapshot, ReadCounter, Shown, is_outdated};
use tally_wire::live::topic::Topic;

const NOW_MS: i64 = 1_777_593_630_000;

fn id(text: &str) -> Topic {
    Topic::Counter(CounterId::parse(text).expect("a counter id"))
}

fn ids(texts: &[&str]) -> Vec<Topic> {
    texts.iter().map(|text| id(text)).collect()
}

/// A counter of this value, read at a moment.
fn value(value: u64, as_of_ms: i64) -> CounterSnapshot {
    CounterSnapshot {
        shown: Shown::Counter(ReadCounter {
            members: format!("\"value\":{value}"),
            members_of_strings: None,
            tag: value,
            exact: true,
            as_of_ms,
        }),
        is_read: true,
    }
}

fn missing() -> CounterSnapshot {
    CounterSnapshot {
        shown: Shown::Missing,
        is_read: true,
    }
}

fn due(board: &mut HubState, watcher: u64, now_ms: i64) -> Option<Update> {
    board.update_for(
        watcher,
        now_ms,
        second_of(now_ms),
        &mut UpdatesMade::default(),
    )
}

/// Sends what is due; the counters of the update.
fn send(board: &mut HubState, watcher: u64, now_ms: i64) -> Option<Value> {
    let update = due(board, watcher, now_ms)?;
    board.sent(watcher, now_ms, second_of(now_ms));
    let json: Value = serde_json::from_str(&update.text).expect("JSON");
    assert_eq!(
        (&json["type"], &json["sent_at"]),
        (&"update".into(), &now_ms.into())
    );
    Some(json["counters"].clone())
}

/// A board on which one watches `a` and `b`, of which both are known.
fn watched() -> (HubState, u64) {
    let mut board = HubState::new(10);
    let watcher = board
        .join(NOW_MS, ids(&["b", "a"]), false, None)
        .expect("there is room");
    board.receive(&id("a"), value(1, NOW_MS), NOW_MS);
    board.receive(&id("b"), missing(), NOW_MS);
    (board, watcher)
}

#[test]
fn the_first_update_waits_for_all_counters_and_has_them_all() {
    let mut board = HubState::new(10);
    let watcher = board
        .join(NOW_MS, ids(&["a", "b"]), false, None)
        .expect("there is room");
    assert_eq!(board.unread(), ids(&["a", "b"]));
    board.receive(&id("a"), value(1, NOW_MS - 30), NOW_MS);
    assert_eq!(due(&mut board, watcher, NOW_MS), None);
    board.receive(&id("b"), missing(), NOW_MS);
    assert_eq!(board.unread(), []);
    let update = due(&mut board, watcher, NOW_MS).expect("an update");
    let text = format!(
        r#"{{"type":"update","sent_at":{NOW_MS},"counters":{{"a":{{"value":1,"exact":true,"as_of":{},"staleness_ms":30,"reachable":true}},"b":null}}}}"#,
        NOW_MS - 30
    );
    assert_eq!(&*update.text, text);
}

#[test]
fn nothing_is_sent_while_nothing_but_times_changes() {
    let (mut board, watcher) = watched();
    assert!(send(&mut board, watcher, NOW_MS).is_some());
    for second in 1..20 {
        let now_ms = NOW_MS + second * SECOND_MS;
        board.receive(&id("a"), value(1, now_ms), now_ms);
        board.receive(&id("b"), missing(), now_ms);
        assert_eq!(due(&mut board, watcher, now_ms), None);
    }
    // A later subscriber gets the newest times.
    let now_ms = NOW_MS + 20 * SECOND_MS;
    let late = board
        .join(now_ms, ids(&["a", "b"]), false, None)
        .expect("there is room");
    let seen = send(&mut board, late, now_ms).expect("an update");
    assert_eq!(seen["a"]["staleness_ms"], SECOND_MS);
}

#[test]
fn only_what_changed_is_sent_and_once_a_second_at_most() {
    let (mut board, watcher) = watched();
    send(&mut board, watcher, NOW_MS);
    board.receive(&id("a"), value(2, NOW_MS), NOW_MS + 300);
    assert_eq!(due(&mut board, watcher, NOW_MS + 300), None);
    assert_eq!(due(&mut board, watcher, NOW_MS + 899), None);
    // A timer that rings a little early still counts.
    let seen = send(&mut board, watcher, NOW_MS + 950).expect("an update");
    assert_eq!(seen["a"]["value"], 2);
    assert_eq!(seen.get("b"), None);
    // A second that was slow does not cost the next its update.
    board.receive(&id("a"), value(3, NOW_MS), NOW_MS + 2_600);
    board.sent(watcher, NOW_MS + 2_600, second_of(NOW_MS + 2_000));
    board.receive(&id("a"), value(4, NOW_MS), NOW_MS + 3_010);
    let seen = send(&mut board, watcher, NOW_MS + 3_010).expect("an update");
    assert_eq!(seen["a"]["value"], 4);
    // A clock that stepped back by an hour holds nothing up.
    board.receive(&id("b"), value(7, NOW_MS), NOW_MS);
    let seen = send(&mut board, watcher, NOW_MS - 3_600_000).expect("an update");
    assert_eq!(seen["b"]["value"], 7);
}

#[test]
fn those_who_lack_the_same_share_one_text() {
    let (mut board, one) = watched();
    let other = board
        .join(NOW_MS, ids(&["a", "b"]), false, None)
        .expect("there is room");
    let mut made = UpdatesMade::default();
    let first = board
        .update_for(one, NOW_MS, second_of(NOW_MS), &mut made)
        .expect("an update");
    let second = board
        .update_for(other, NOW_MS, second_of(NOW_MS), &mut made)
        .expect("an update");
    assert!(Rc::ptr_eq(&first.text, &second.text));
}

#[test]
fn those_who_want_strings_get_a_text_of_their_own() {
    let mut board = HubState::new(10);
    let watchers = [false, true].map(|as_strings| {
        let joined = board.join(NOW_MS, ids(&["a"]), as_strings, None);
        joined.expect("there is room")
    });
    let mut snapshot = value(1, NOW_MS);
    if let Shown::Counter(read_counter) = &mut snapshot.shown {
        read_counter.members_of_strings = Some("\"value\":\"1\"".to_owned());
    }
    board.receive(&id("a"), snapshot, NOW_MS);
    let mut made = UpdatesMade::default();
    let [numbers, strings] = watchers.map(|watcher| {
        board
            .update_for(watcher, NOW_MS, second_of(NOW_MS), &mut made)
            .expect("an update")
    });
    assert!(numbers.text.contains(r#""value":1,"#));
    assert!(strings.text.contains(r#""value":"1","#));
    assert_eq!(numbers.id, strings.id);
}

#[test]
fn a_stream_that_goes_on_is_told_nothing_unless_something_changed() {
    let (mut board, watcher) = watched();
    let last = due(&mut board, watcher, NOW_MS).expect("an update").id;
    // On another hub, which learnt the same in another order.
    let mut other = HubState::new(10);
    let again = other
        .join(NOW_MS, ids(&["a", "b"]), false, Some(last))
        .expect("there is room");
    other.receive(&id("b"), missing(), NOW_MS);
    other.receive(&id("a"), value(1, NOW_MS + 5), NOW_MS);
    assert_eq!(due(&mut other, again, NOW_MS), None);
    other.receive(&id("a"), value(2, NOW_MS), NOW_MS);
    let seen = send(&mut other, again, NOW_MS).expect("an update");
    assert_eq!((&seen["a"]["value"], seen.get("b")), (&2.into(), None));
    // Where something changed meanwhile, the update has all of it.
    let late = other
        .join(NOW_MS, ids(&["a", "b"]), false, Some(last))
        .expect("there is room");
    let seen = send(&mut other, late, NOW_MS).expect("an update");
    assert_eq!((&seen["a"]["value"], &seen["b"]), (&2.into(), &Value::Null));
}

#[test]
fn who_changes_what_he_watches_is_sent_all_of_it() {
    let (mut board, watcher) = watched();
    send(&mut board, watcher, NOW_MS);
    board
        .change(watcher, NOW_MS, ids(&["a", "c"]))
        .expect("there is room");
    assert_eq!(board.watched(), ids(&["a", "c"]));
    assert_eq!(due(&mut board, watcher, NOW_MS + SECOND_MS), None);
    board.receive(&id("c"), value(9, NOW_MS), NOW_MS);
    let seen = send(&mut board, watcher, NOW_MS + SECOND_MS).expect("an update");
    assert_eq!(
        (&seen["a"]["value"], &seen["c"]["value"]),
        (&1.into(), &9.into())
    );
}

#[test]
fn what_nobody_watches_any_more_is_forgotten() {
    let (mut board, one) = watched();
    let other = board
        .join(NOW_MS, ids(&["b"]), false, None)
        .expect("there is room");
    let same = board
        .join(NOW_MS, ids(&["a", "b"]), false, None)
        .expect("there is room");
    board.leave(one);
    assert_eq!(board.watched(), ids(&["a", "b"]));
    board.leave(same);
    assert_eq!(board.watched(), ids(&["b"]));
    board.leave(other);
    board.leave(other);
    assert_eq!((board.watched(), board.watchers()), (ids(&[]), 0));
}

#[test]
fn a_full_hub_takes_nobody_and_one_that_leaves_makes_room() {
    let mut board = HubState::new(2);
    let first = board.join(NOW_MS, ids(&["a"]), false, None).expect("room");
    board.join(NOW_MS, ids(&["a"]), false, None).expect("room");
    assert_eq!(
        board.join(NOW_MS, ids(&["a"]), false, None),
        Err(JoinRefusal)
    );
    board.leave(first);
    assert!(board.join(NOW_MS, ids(&["a"]), false, None).is_ok());

    let mut board = HubState::new(1_000);
    let names: Vec<Topic> = (0..COUNTERS_MAX)
        .map(|number| id(&number.to_string()))
        .collect();
    for part in names.chunks(IDS_MAX) {
        board
            .join(NOW_MS, part.to_vec(), false, None)
            .expect("room");
    }
    assert_eq!(
        board.join(NOW_MS, ids(&["one more"]), false, None),
        Err(JoinRefusal)
    );
    let known = board.join(NOW_MS, ids(&["17"]), false, None).expect("room");
    assert_eq!(
        board.change(known, NOW_MS, ids(&["one more"])),
        Err(ChangeRefusal::Full)
    );
    assert_eq!(
        board.ids_of(known).expect("it watches").to_vec(),
        ids(&["17"])
    );
    assert_eq!(board.watched().len(), COUNTERS_MAX);
}

#[test]
fn a_counter_that_cannot_be_read_stays_as_it_was_and_says_so() {
    let (mut board, watcher) = watched();
    send(&mut board, watcher, NOW_MS);
    // Its live reader is silent: nothing is said before that has lasted.
    board.lose(&id("a"), NOW_MS + LOST_MS - 1);
    assert_eq!(due(&mut board, watcher, NOW_MS + LOST_MS - 1), None);
    board.lose(&id("a"), NOW_MS + LOST_MS);
    let seen = send(&mut board, watcher, NOW_MS + LOST_MS).expect("an update");
    let a = &seen["a"];
    assert_eq!((&a["value"], &a["exact"]), (&1.into(), &false.into()));
    assert_eq!(
        (&a["reachable"], &a["staleness_ms"]),
        (&false.into(), &LOST_MS.into())
    );
    // It answers again, and nothing has changed: that is news.
    let now_ms = NOW_MS + 2 * LOST_MS;
    board.receive(&id("a"), value(1, now_ms), now_ms);
    let seen = send(&mut board, watcher, now_ms).expect("an update");
    assert_eq!(seen["a"]["reachable"], true);
    // It answers, and says that it cannot read: that is said at once.
    let mut snapshot = value(1, now_ms);
    snapshot.fail();
    board.receive(&id("a"), snapshot, now_ms);
    let seen = send(&mut board, watcher, now_ms + SECOND_MS).expect("an update");
    assert_eq!(seen["a"]["reachable"], false);
}

#[test]
fn a_counter_that_was_never_read_is_waited_for_and_then_said_to_be_unknown() {
    let mut board = HubState::new(10);
    let watcher = board.join(NOW_MS, ids(&["a"]), false, None).expect("room");
    board.receive(&id("a"), CounterSnapshot::default(), NOW_MS + LOST_MS - 1);
    assert_eq!(board.unread(), ids(&["a"]));
    board.receive(&id("a"), CounterSnapshot::default(), NOW_MS + LOST_MS);
    let seen = send(&mut board, watcher, NOW_MS + LOST_MS).expect("an update");
    assert_eq!(
        (&seen["a"]["value"], &seen["a"]["reachable"]),
        (&Value::Null, &false.into())
    );
    board.receive(&id("a"), missing(), NOW_MS + LOST_MS);
    let seen = send(&mut board, watcher, NOW_MS + LOST_MS + SECOND_MS).expect("an update");
    assert_eq!(seen["a"], Value::Null);
}

#[test]
fn what_was_read_just_now_is_read_for_all() {
    assert!(!is_outdated(NOW_MS, NOW_MS + 499, 500));
    assert!(is_outdated(NOW_MS, NOW_MS + 500, 500));
    assert!(is_outdated(0, NOW_MS, 500));
    assert!(is_outdated(NOW_MS + 3_600_000, NOW_MS, 500));
}

#[test]
fn a_ping_is_due_where_nothing_was_sent_for_long() {
    let (mut board, watcher) = watched();
    send(&mut board, watcher, NOW_MS);
    assert!(!board.pings(watcher, NOW_MS + PING_MS - 1));
    assert!(board.pings(watcher, NOW_MS + PING_MS));
    assert!(!board.pings(watcher, NOW_MS + 2 * PING_MS - 1));
    board.receive(&id("a"), value(2, NOW_MS), NOW_MS);
    send(&mut board, watcher, NOW_MS + 2 * PING_MS - 1);
    assert!(!board.pings(watcher, NOW_MS + 2 * PING_MS));
    assert!(!board.pings(99, NOW_MS));
}

#[test]
fn sockets_that_a_hub_takes_back_keep_their_numbers_and_are_told_all() {
    let mut board = HubState::new(10);
    for number in [7, 3] {
        let restored = board.restore(number, NOW_MS, ids(&["a"]), false);
        assert_eq!(restored, Ok(()));
    }
    assert_eq!(board.join(NOW_MS, ids(&["a"]), false, None), Ok(8));
    board.receive(&id("a"), value(1, NOW_MS), NOW_MS);
    for watcher in [3, 7, 8] {
        assert!(send(&mut board, watcher, NOW_MS).is_some());
    }
}

proptest! {
    #![proptest_config(config(8, 300))]

    /// However many updates a watcher is too slow for, it ends with what the hub knows.
    #[test]
    fn a_slow_watcher_ends_with_the_newest_state(
        steps in vec((0..3usize, 0..4u64, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let names = ["a", "b", "c"];
        let mut board = HubState::new(10);
        let watchers = [
            board.join(NOW_MS, ids(&names), false, None).expect("room"),
            board.join(NOW_MS, ids(&["b", "a"]), false, None).expect("room"),
        ];
        let mut has = [BTreeMap::new(), BTreeMap::new()];
        let mut now_ms = NOW_MS;
        for name in names {
            board.receive(&id(name), missing(), now_ms);
        }
        let take = |board: &mut HubState, has: &mut BTreeMap<String, Value>, watcher, now_ms| {
            let Some(seen) = send(board, watcher, now_ms) else { return };
            for (name, state) in seen.as_object().expect("an object") {
                has.insert(name.clone(), state["value"].clone());
            }
        };
        let mut truth: BTreeMap<&str, Value> = names.map(|name| (name, Value::Null)).into();
        for (counter, state, first_is_ready, second_is_ready) in steps {
            now_ms += 400;
            let snapshot = if state == 0 { missing() } else { value(state, now_ms) };
            truth.insert(names[counter], if state == 0 { Value::Null } else { state.into() });
            board.receive(&id(names[counter]), snapshot, now_ms);
            for (index, is_ready) in [first_is_ready, second_is_ready].into_iter().enumerate() {
                if is_ready {
                    take(&mut board, &mut has[index], watchers[index], now_ms);
                }
            }
        }
        now_ms += SECOND_MS;
        for (index, names) in [&names[..], &names[..2]].into_iter().enumerate() {
            take(&mut board, &mut has[index], watchers[index], now_ms);
            for name in names {
                prop_assert_eq!(&has[index][*name], &truth[name]);
            }
        }
    }
}
