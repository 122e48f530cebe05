//! Laws: a visitor without a key has so many streams of so many counters, however they are opened and changed. Others
//! have theirs. A watcher adds so many counters, however it changes what it watches.

use tally_api::live::subscriptions::{ChangeRefusal, HubState, WatcherId};
use tally_api::live::{
    ADDED_TOPIC_MS, ADDED_TOPICS_MAX, COUNTERS_MAX, IDS_MAX, VISITOR_COUNTERS_MAX,
    VISITOR_STREAMS_MAX,
};
use tally_core::counter::id::CounterId;
use tally_wire::live::topic::Topic;

const NOW_MS: i64 = 1_795_269_600_000;

fn ids(count: usize) -> Vec<Topic> {
    let id = |number| Topic::Counter(CounterId::parse(format!("counter {number}")).expect("an id"));
    (0..count).map(id).collect()
}

fn join(board: &mut HubState, visitor: u64, count: usize) -> Option<WatcherId> {
    let has_room = board.has_room(visitor, count, None);
    has_room.then(|| {
        let id = board.join(NOW_MS, ids(count), false, None).expect("room");
        board.set_visitor(id, visitor);
        id
    })
}

#[test]
fn a_visitor_has_so_many_streams() {
    let mut board = HubState::new(1_000);
    let first = join(&mut board, 1, 1).expect("the first");
    for _ in 1..VISITOR_STREAMS_MAX {
        assert!(join(&mut board, 1, 1).is_some());
    }
    assert_eq!(join(&mut board, 1, 1), None);
    assert!(join(&mut board, 2, 1).is_some(), "another one has its own");
    board.leave(first);
    assert!(join(&mut board, 1, 1).is_some());
    assert_eq!(join(&mut board, 1, 1), None);
}

#[test]
fn its_streams_name_so_many_counters_together_also_once_they_change() {
    let mut board = HubState::new(1_000);
    let half = VISITOR_COUNTERS_MAX / 2;
    let one = join(&mut board, 1, half).expect("half");
    join(&mut board, 1, half).expect("the other half");
    assert_eq!(join(&mut board, 1, 1), None);
    assert_eq!(
        board.change(one, NOW_MS, ids(half + 1)),
        Err(ChangeRefusal::Full)
    );
    assert_eq!(board.ids_of(one).map(|ids| ids.len()), Some(half));
    assert_eq!(board.change(one, NOW_MS, ids(half)), Ok(()));
    assert_eq!(board.change(one, NOW_MS, ids(half - 1)), Ok(()));
    assert!(join(&mut board, 1, 1).is_some());
    // Whoever holds a key is nobody's visitor.
    let keyed = board
        .join(NOW_MS, ids(VISITOR_COUNTERS_MAX), false, None)
        .expect("room");
    assert_eq!(
        board.change(keyed, NOW_MS, ids(VISITOR_COUNTERS_MAX + 1)),
        Ok(())
    );
}

/// So many counters whose names begin so.
fn named(name: &str, count: u32) -> Vec<Topic> {
    let id = |number| CounterId::parse(format!("{name} {number}")).expect("an id");
    (0..count)
        .map(|number| Topic::Counter(id(number)))
        .collect()
}

/// When this watcher may add what it was refused.
fn refused_ms(board: &mut HubState, id: WatcherId, now_ms: i64, topics: Vec<Topic>) -> u64 {
    match board.change(id, now_ms, topics) {
        Err(ChangeRefusal::Spent(wait_ms)) => wait_ms,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_watcher_adds_so_many_counters_at_once_and_then_one_after_the_other() {
    let mut board = HubState::new(10);
    let [one, other] = [1, 2].map(|_| board.join(NOW_MS, ids(1), false, None).expect("room"));
    let most = ADDED_TOPICS_MAX;
    assert_eq!(board.change(one, NOW_MS, named("a", most)), Ok(()));
    // What it watches already and what it lets go costs nothing.
    assert_eq!(board.change(one, NOW_MS, named("a", most)), Ok(()));
    assert_eq!(board.change(one, NOW_MS, named("a", most / 2)), Ok(()));
    let all_ms = u64::from(most * ADDED_TOPIC_MS);
    let wait_ms = refused_ms(&mut board, one, NOW_MS, named("b", most));
    assert_eq!(wait_ms, all_ms);
    // Its counters stay as they were, and nothing was used.
    let stay = board.ids_of(one).expect("it watches").to_vec();
    assert_eq!(stay.len(), named("a", most / 2).len());
    let interval_ms = i64::from(ADDED_TOPIC_MS);
    assert_eq!(
        refused_ms(&mut board, one, NOW_MS + interval_ms - 1, named("b", 1)),
        1
    );
    let later_ms = NOW_MS + interval_ms;
    assert_eq!(board.change(one, later_ms, named("b", 1)), Ok(()));
    // Another watcher has its own.
    assert_eq!(board.change(other, later_ms, named("b", most)), Ok(()));
    // What a full hub refuses uses nothing.
    let mut full = HubState::new(1_000);
    for part in ids(COUNTERS_MAX).chunks(IDS_MAX) {
        full.join(NOW_MS, part.to_vec(), false, None).expect("room");
    }
    let late = full.join(NOW_MS, ids(1), false, None).expect("room");
    for _ in 0..3 {
        let refused = full.change(late, NOW_MS, named("a", most));
        assert_eq!(refused, Err(ChangeRefusal::Full));
    }
    let known = usize::try_from(most).expect("few");
    assert_eq!(full.change(late, NOW_MS, ids(known)), Ok(()));
}

#[test]
fn all_watchers_of_a_visitor_add_so_many_counters_together() {
    let mut board = HubState::new(1_000);
    let most = ADDED_TOPICS_MAX;
    let one = join(&mut board, 1, 1).expect("room");
    assert_eq!(board.change(one, NOW_MS, named("a", most)), Ok(()));
    // Nor does it help to close it and open another.
    board.leave(one);
    let next = join(&mut board, 1, 1).expect("room");
    assert!(refused_ms(&mut board, next, NOW_MS, named("b", 1)) > 0);
    let other = join(&mut board, 2, 1).expect("room");
    assert_eq!(board.change(other, NOW_MS, named("b", most)), Ok(()));
}
