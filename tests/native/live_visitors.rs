//! Law: a visitor without a key has so many streams of so many counters, however they are opened and changed, and
//! others have theirs.

use tally::core::counter::id::CounterId;
use tally::protocol::live::subscriptions::{HubState, JoinRefusal, WatcherId};
use tally::protocol::live::topic::Topic;
use tally::protocol::live::{VISITOR_COUNTERS_MAX, VISITOR_STREAMS_MAX};

const NOW_MS: i64 = 1_795_269_600_000;

fn ids(count: usize) -> Vec<Topic> {
    let id = |number| Topic::Counter(CounterId::parse(format!("counter {number}")).expect("an id"));
    (0..count).map(id).collect()
}

fn join(board: &mut HubState, visitor: u64, count: usize) -> Option<WatcherId> {
    let has_room = board.has_room(visitor, count, None);
    has_room.then(|| {
        let id = board.join(NOW_MS, ids(count), false, None).expect("room");
        board.note_visitor(id, visitor);
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
    assert_eq!(board.change(one, NOW_MS, ids(half + 1)), Err(JoinRefusal));
    assert_eq!(board.ids_of(one).map(|ids| ids.len()), Some(half));
    assert_eq!(board.change(one, NOW_MS, ids(half)), Ok(()));
    assert_eq!(board.change(one, NOW_MS, ids(half - 1)), Ok(()));
    assert!(join(&mut board, 1, 1).is_some());
    // Whoever holds a key is nobody's visitor.
    let keyed = board.join(NOW_MS, ids(1), false, None).expect("room");
    assert_eq!(
        board.change(keyed, NOW_MS, ids(VISITOR_COUNTERS_MAX + 1)),
        Ok(())
    );
}
