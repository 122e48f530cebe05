//! Laws of a keyspace: which commands of a request run together, and what becomes of a key. Both are decided before
//! anything is read or written.

use tally_core::callers::account::AccountId;
use tally_core::counter::ledger::WriteKey;
use tally_redis::command::Command;
use tally_redis::error;
use tally_redis::keyspace::effects::{CounterEffect, KeyEffect};
use tally_redis::keyspace::steps::{CommandRequest, CommandStep};
use tally_redis::space::{KeyspaceEntry, StoredValue};
use tally_wire::messages::Arguments;

/// The commands of lines; one that begins with `!` has a name.
fn arguments(lines: &[&str]) -> Vec<(bool, Arguments)> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect();
    let read = |line: &&str| (line.starts_with('!'), words(line.trim_start_matches('!')));
    lines.iter().map(read).collect()
}

fn request((is_named, args): &(bool, Arguments)) -> CommandRequest<'_> {
    CommandRequest {
        command: Command::find(args).expect("a command"),
        args,
        named: is_named.then_some((WriteKey([1; 16]), 7)),
        caller: 0,
        account: AccountId::default(),
    }
}

fn step(lines: &[&str]) -> CommandStep {
    let all = arguments(lines);
    let requests: Vec<_> = all.iter().map(request).collect();
    CommandStep::of(&requests)
}

#[test]
fn commands_of_one_kind_run_together_as_long_as_none_has_a_name_or_may_end_its_set() {
    assert_eq!(step(&[]), CommandStep::One);
    assert_eq!(step(&["GET a", "GET b"]), CommandStep::One);
    assert_eq!(
        step(&["INCR a", "DECRBY b 2", "GET a", "INCR a"]),
        CommandStep::Adds(2)
    );
    assert_eq!(step(&["INCR a", "!INCR a"]), CommandStep::Adds(1));
    assert_eq!(step(&["!INCR a", "INCR a"]), CommandStep::One);
    // One command of elements has nothing to join.
    assert_eq!(step(&["PFADD a x", "PFCOUNT a"]), CommandStep::One);
    assert_eq!(
        step(&["PFADD a x", "PFADD b y", "PFCOUNT a"]),
        CommandStep::Elements(2)
    );
    assert_eq!(
        step(&["ZADD s 1 a", "!ZCARD s", "GET a"]),
        CommandStep::Sorted(2)
    );
    assert_eq!(
        step(&["ZADD s 1 a", "ZREM s a", "ZCARD s"]),
        CommandStep::Sorted(2)
    );
    assert_eq!(step(&["ZREM s a", "ZADD s 1 a"]), CommandStep::Sorted(1));
}

#[test]
fn what_does_not_depend_on_a_key_is_known_by_the_words() {
    let is_blind = |line: &str| request(&arguments(&[line])[0]).is_blind();
    for line in [
        "SET a 1",
        "set a 1 EX 9",
        "DEL a",
        "MSET a 1",
        "SETEX a 9 1",
    ] {
        assert!(is_blind(line), "{line}");
    }
    for line in ["SET a 1 NX", "SET a 1 EX 9 get", "GET a", "MSETNX a 1"] {
        assert!(!is_blind(line), "{line}");
    }
    let own = |line: &str| request(&arguments(&[line])[0]).own_keys();
    assert_eq!(own("INCREX a").map(|keys| keys.len()), Some(1));
    assert_eq!(
        own("!INCREX a"),
        None,
        "a reply that has a name is stored with its keys"
    );
    assert_eq!(own("GET a"), None);
}

fn entry(text: &str, is_counter: bool) -> Option<KeyspaceEntry> {
    Some(KeyspaceEntry {
        value: StoredValue::Text(text.to_owned()),
        expires_ms: None,
        is_counter,
    })
}

/// The effect of a command that has changed a key from one state to another.
fn effect(
    line: &str,
    before: Option<KeyspaceEntry>,
    after: Option<KeyspaceEntry>,
    seen: Option<&'static str>,
) -> KeyEffect<&'static str> {
    let all = arguments(&[line]);
    KeyEffect::of(&request(&all[0]), (before.as_ref(), after.as_ref()), seen).expect("an effect")
}

#[test]
fn a_counter_begins_adds_is_replaced_or_ends_by_its_states() {
    let (five, seven) = (|| entry("5", true), || entry("7", true));
    let counter = |line, before, after, seen| effect(line, before, after, seen).counter;
    assert_eq!(
        counter("SET a 5", None, five(), None),
        CounterEffect::Begin(5)
    );
    assert_eq!(
        counter("SET a 5", five(), five(), Some("it")),
        CounterEffect::Same
    );
    let replaced = CounterEffect::Replace(Some(7), Some("it"));
    assert_eq!(counter("SET a 7", five(), seven(), Some("it")), replaced);
    // A command that adds within bounds counts as an increment of what it read.
    assert_eq!(
        counter("INCREX a", five(), seven(), Some("it")),
        CounterEffect::Add(2, "it")
    );
    assert_eq!(
        counter("INCREX a", five(), seven(), None),
        CounterEffect::Replace(Some(7), None)
    );
    // Text of its name ends a counter.
    let text = counter("SET a x", five(), entry("x", false), Some("it"));
    assert_eq!(text, CounterEffect::Replace(None, Some("it")));
    assert_eq!(
        counter("SET a x", None, entry("x", false), None),
        CounterEffect::Same
    );
    let all = arguments(&["INCREX a"]);
    let far = (entry("-2", true), entry(&i64::MAX.to_string(), true));
    let states = (far.0.as_ref(), far.1.as_ref());
    let refused = KeyEffect::of(&request(&all[0]), states, Some("it"));
    assert_eq!(refused, Err(error::overflow()));
}

#[test]
fn a_deleted_key_is_neither_a_counter_nor_a_board_and_a_script_deletes_only_its_own() {
    let sorted = || {
        let value = StoredValue::Sorted;
        entry("", false).map(|entry| KeyspaceEntry { value, ..entry })
    };
    let deleted = |line, before| effect(line, before, None, None).deleted;
    assert_eq!(deleted("DEL a", entry("5", true)), Some(true));
    assert_eq!(deleted("DEL a", entry("x", false)), Some(false));
    assert_eq!(deleted("DEL a", None), None);
    assert_eq!(deleted("EVAL x 1 a", entry("x", false)), None);
    let board = effect("DEL a", sorted(), None, None);
    assert_eq!((board.ends_board, board.deleted), (true, None));
    let text = effect("SET a x", sorted(), entry("x", false), None);
    assert!(text.ends_board);
    assert!(!effect("EXPIRE a 9", sorted(), sorted(), None).ends_board);
}
