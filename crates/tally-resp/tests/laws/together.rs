//! Laws: each connection has the replies to its own commands, in their order, whatever others have sent with them;
//! commands share a batch only if they are quick and of one kind; a batch has bounds.

use proptest::prelude::*;
use tally_redis::together::{BatchKind, SharedBatch, divide};
use tally_wire::messages::Arguments;
use tally_wire::redis::Reply;

fn run(commands: &[&str]) -> Vec<Arguments> {
    let words = |command: &&str| command.split(' ').map(str::to_owned).collect();
    commands.iter().map(words).collect()
}

#[test]
fn quick_commands_of_one_kind_share_a_batch_and_others_do_not() {
    let additions = Some(BatchKind::Additions);
    let sorted = Some(BatchKind::Sorted);
    for (commands, kind) in [
        (&["INCR a"][..], additions),
        (&["incr a", "DECRBY b 2", "INCRBYFLOAT c 1"], additions),
        (&["ZADD a 1 m", "ZREVRANK a m", "zscore b m"], sorted),
        // A removal may delete the set, a range may be large.
        (&["ZREM a m"], None),
        (&["ZRANGE a 0 -1"], None),
        (&["ZADD a 1 m", "ZPOPMIN a"], None),
        (&["INCR a", "ZADD a 1 m"], None),
        (&["INCR a", "GET a"], None),
        (&["GET a"], None),
        (&["FLUSHALL"], None),
        // One that is refused is refused alone.
        (&["INCR"], None),
        (&["NONE a"], None),
        (&[], None),
    ] {
        assert_eq!(BatchKind::of(&run(commands)), kind, "{commands:?}");
    }
}

#[test]
fn a_batch_of_several_connections_is_no_larger_than_that_of_one() {
    let mut batch = SharedBatch::default();
    let many = run(&["INCR a"; 400]);
    let large = vec![vec!["INCR".to_owned(), "a".repeat(9 << 20)]];
    assert!(batch.has_room(&large), "an empty one takes any");
    batch.add(many.clone());
    assert!(!batch.has_room(&large));
    assert!(batch.has_room(&many));
    batch.add(many.clone());
    assert!(!batch.has_room(&many));
    assert!(batch.has_room(&run(&["INCR a"; 200])));
    assert!(!batch.has_room(&run(&["INCR a"; 201])));
    assert_eq!(batch.into_parts(), [many.clone(), many]);
}

#[test]
fn a_refusal_of_the_batch_is_that_of_each_connection() {
    let refused = Err::<Vec<Reply>, _>("ERR no".to_owned());
    assert_eq!(divide(&[1, 2], refused.clone()), [refused.clone(), refused]);
}

proptest! {
    #[test]
    fn each_connection_has_its_own_replies(lengths in prop::collection::vec(0_usize..5, 0..9)) {
        let parts = lengths.iter().enumerate().map(|(connection, length)| {
            let number = |nth: usize| i64::try_from(connection * 10 + nth).expect("small");
            (0..*length).map(|nth| Reply::Integer(number(nth))).collect::<Vec<_>>()
        });
        let parts: Vec<_> = parts.collect();
        let divided = divide(&lengths, Ok(parts.concat()));
        prop_assert_eq!(divided, parts.into_iter().map(Ok).collect::<Vec<_>>());
    }
}
