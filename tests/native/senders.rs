//! Laws: an idempotency key is its sender's alone, and no sender stores so many replies that another has no room.

use std::collections::BTreeMap;

use crate::common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_api::access::{Access, Caller, Sender};
use tally_api::api_key::parse_change;
use tally_api::idempotency_keys::{KeyKind, command_key, request_hash, write_key};
use tally_core::sketch::{HashKey, hash};
use tally_redis::command::Command;
use tally_redis::kept_replies::{
    KEPT_BYTES_MAX, KEPT_BYTES_OF_CALLER_MAX, KEPT_MEMBERS_MAX, KEPT_REPLIES_MAX,
    KEPT_REPLIES_OF_CALLER_MAX, KeptReplies, check_reply, slot_of,
};
use tally_redis::request::without_token;
use tally_wire::messages::KeptSize;
use tally_wire::rights::{ApiKey, KeyId, make_token};

const NOW_MS: i64 = 1_800_000_000_000;

fn keyed_hash(bytes: &[u8]) -> u64 {
    hash(&HashKey::from([7; 16]), bytes)
}

/// The sender that holds a key of this configuration.
fn sender_at(keys_json: &str, key: &str, now_ms: i64) -> Sender {
    let access = Access::from_config(Some(keys_json), false).expect("a configuration");
    let authorization = format!("Bearer {key}");
    let caller = access.identify(Some(&authorization), None, now_ms);
    caller.expect("a caller").sender()
}

fn entry(name: &str, key: &str) -> String {
    format!(r#"{{"name":"{name}","key":"{key}","scopes":["write"]}}"#)
}

fn made(id: u64, secret: u8) -> Sender {
    let change = parse_change(br#"{"name":"app","scopes":["write"]}"#, NOW_MS).expect("a body");
    let (_, secret) = make_token(&HashKey::from([1; 16]), KeyId(id), &[secret; 32]);
    let key: ApiKey = change.make("ops", secret, NOW_MS).expect("a key");
    Caller::of_key(KeyId(id), &key).sender()
}

#[test]
fn each_kind_and_each_identity_is_a_sender_of_its_own() {
    let open = Access::from_config(None, true).expect("an open deployment");
    let keys = format!(
        r#"{{"keys":[{},{},{{"key":"0123456789abcdee","scopes":["write"]}},{{"key":"0123456789abcded","scopes":["write"]}}]}}"#,
        entry("one", "0123456789abcdef"),
        entry("two", "0123456789abcde0"),
    );
    let senders = [
        open.identify(None, None, NOW_MS).expect("anyone").sender(),
        Caller::nobody().sender(),
        Caller::of_share("pub/".to_owned()).sender(),
        made(1, 1),
        made(2, 1),
        sender_at(&keys, "0123456789abcdef", NOW_MS),
        sender_at(&keys, "0123456789abcde0", NOW_MS),
        sender_at(&keys, "0123456789abcdee", NOW_MS),
        sender_at(&keys, "0123456789abcded", NOW_MS),
    ];
    let mut names: Vec<_> = senders
        .iter()
        .map(|sender| write_key(&keyed_hash, *sender, KeyKind::Write, "order-1").0)
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), senders.len());
}

#[test]
fn a_sender_stays_when_its_secret_is_rotated() {
    assert_eq!(made(1, 1), made(1, 2));
    let of = |key: &str| format!(r#"{{"keys":[{}]}}"#, entry("app", key));
    let (before, after) = ("0123456789abcdef", "fedcba9876543210");
    let sender = sender_at(&of(before), before, NOW_MS);
    assert_eq!(sender, sender_at(&of(after), after, NOW_MS));
}

#[test]
fn a_key_of_several_entries_is_one_sender_also_when_one_of_them_has_ended() {
    let key = "0123456789abcdef";
    let ends = format!(
        r#"{{"name":"first","key":"{key}","scopes":["write"],"expires_at":{}}}"#,
        NOW_MS / 1_000 + 1
    );
    for others in [
        entry("second", key),
        format!(r#"{{"key":"{key}","scopes":["read"]}}"#),
    ] {
        for keys in [format!("{ends},{others}"), format!("{others},{ends}")] {
            let json = format!(r#"{{"keys":[{keys}]}}"#);
            let at = |now_ms| sender_at(&json, key, now_ms);
            assert_eq!(at(NOW_MS), at(NOW_MS + 1_000), "{json}");
        }
    }
}

/// Golden: records are looked up by these for as long as they are kept, whichever build runs.
#[test]
fn stored_forms_of_senders_do_not_change() {
    let hex = |sender: Sender| -> String {
        let bytes = sender.to_bytes();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let key = "0123456789abcdef";
    let named = format!(r#"{{"keys":[{}]}}"#, entry("app", key));
    let nameless = format!(r#"{{"keys":[{{"key":"{key}","scopes":["write"]}}]}}"#);
    assert_eq!(
        [
            hex(Caller::nobody().sender()),
            hex(made(0x6d1f_0c9f_0b7a_4c21, 7)),
            hex(sender_at(&named, key, NOW_MS)),
            hex(sender_at(&nameless, key, NOW_MS)),
        ],
        [
            "0100000000000000000000000000000000",
            "03214c7a0b9f0c1f6d0000000000000000",
            "04c8ba7ffdcc61e425079e58b1378a1ff8",
            "05c081935e59da96d910f0e9232bae562f",
        ]
    );
}

#[test]
fn the_name_of_a_command_has_its_keys_and_its_place_among_the_commands_on_them() {
    let key = write_key(
        &keyed_hash,
        Caller::nobody().sender(),
        KeyKind::Command,
        "k",
    );
    let name = |keys: &[&[u8]], nth| command_key(&keyed_hash, key, keys, nth).0;
    let mut names = vec![
        name(&[], 0),
        name(&[b"a"], 0),
        name(&[b"a"], 1),
        name(&[b"b"], 0),
        name(&[b"a", b"b"], 0),
        name(&[b"ab"], 0),
        name(&[b"ab", b""], 0),
    ];
    assert!(names.iter().all(|name| name[..8] != name[8..]));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 7);
}

#[test]
fn a_request_is_the_same_by_its_call_its_query_and_the_bytes_of_its_body() {
    let of = |call: &[&[u8]], body: &[u8]| request_hash(&keyed_hash, call, body);
    let one = of(&[b"increment", b"0"], br#"{"delta":1}"#);
    assert_eq!(one, of(&[b"increment", b"0"], br#"{"delta":1}"#));
    for other in [
        of(&[b"decrement", b"0"], br#"{"delta":1}"#),
        of(&[b"increment", b"1"], br#"{"delta":1}"#),
        of(&[b"increment", b"0"], br#"{"delta": 1}"#),
        of(&[b"increment", b"0"], br#"{"delta":2}"#),
    ] {
        assert_ne!(one, other);
    }
    assert_eq!(of(&[b"delete"], b""), of(&[b"delete"], b"{}"));
    assert_eq!(
        without_token("EX=1&_token=abc&NX"),
        without_token("EX=1&NX")
    );
    assert_ne!(without_token("EX=1"), without_token("EX=2"));
}

#[test]
fn commands_that_read_take_no_name() {
    let may_write = |words: &[&str]| {
        let args: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Command::find(&args).expect("a command").may_write(&args)
    };
    for words in [
        &["GET", "a"][..],
        &["TOUCH", "a"],
        &["PFCOUNT", "a"],
        &["ZRANGE", "a", "0", "-1"],
        &["SCAN", "0"],
        &["EVALSHA_RO", "0", "0"],
    ] {
        assert_eq!(may_write(words), words[0] == "EVALSHA_RO", "{words:?}");
    }
    for words in [
        &["INCR", "a"][..],
        &["GETDEL", "a"],
        &["GETEX", "a"],
        &["ZPOPMIN", "a"],
        &["EVAL", "return 1", "0"],
        &["FLUSHDB"],
    ] {
        assert!(may_write(words), "{words:?}");
    }
}

#[test]
fn a_command_whose_reply_is_too_large_to_be_stored_is_refused() {
    let check = |words: &[&str]| {
        let args: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        check_reply(&args)
    };
    let (most, more) = (
        KEPT_MEMBERS_MAX.to_string(),
        (KEPT_MEMBERS_MAX + 1).to_string(),
    );
    assert!(check(&["ZPOPMIN", "a", &most]).is_ok());
    assert!(check(&["ZADD", "a", &more, "m"]).is_ok());
    for name in ["ZPOPMIN", "zpopmax"] {
        let refusal = check(&[name, "a", &more]).expect_err("a refusal");
        let text = format!("{refusal:?}");
        assert!(text.contains(&more) && text.contains(&most), "{text}");
    }
}

const fn size(replies: u64, bytes: u64) -> KeptSize {
    KeptSize { replies, bytes }
}

#[test]
fn a_caller_that_stores_all_it_may_is_refused_and_no_other_is() {
    let mut kept = KeptReplies::default();
    let fill = |kept: &mut KeptReplies, caller: u64, part: KeptSize| {
        let mut stored = size(0, 0);
        while kept.has_room(caller, part) {
            kept.add(1, caller, part);
            stored = stored.plus(part);
        }
        stored
    };
    for caller in 0..40 {
        let part = match caller % 2 {
            0 => size(1_000, 64_000),
            _ => size(1, 1_000_000),
        };
        let stored = fill(&mut kept, caller, part);
        assert!(stored.replies <= KEPT_REPLIES_OF_CALLER_MAX);
        assert!(stored.bytes <= KEPT_BYTES_OF_CALLER_MAX);
        assert!(!kept.has_room(caller, part), "{caller}");
        assert!(kept.has_room(1_000, size(1, 200)), "after {caller}");
    }
}

proptest! {
    #![proptest_config(config(61, 256))]

    #[test]
    fn sizes_are_the_sums_of_what_was_added_and_has_not_expired(
        steps in vec((0..4_i64, 0..5_u64, 1..4_u64, 1..900_000_u64, prop::bool::weighted(0.2)), 1..120),
    ) {
        let mut kept = KeptReplies::default();
        let mut model = BTreeMap::<(i64, u64), KeptSize>::new();
        let mut now_ms = 0;
        for (ahead, caller, replies, bytes, passes) in steps {
            if passes {
                now_ms += 1;
                let before = model.len();
                model.retain(|(slot, _), _| *slot > now_ms);
                prop_assert_eq!(kept.expire(now_ms), model.len() < before);
                continue;
            }
            let (slot, more) = (now_ms + 1 + ahead, size(replies, bytes));
            let of = |wanted: Option<u64>| {
                let chosen = model.iter().filter(|((_, caller), _)| wanted.is_none_or(|wanted| wanted == *caller));
                chosen.map(|(_, size)| *size).fold(more, KeptSize::plus)
            };
            let (own, all) = (of(Some(caller)), of(None));
            let may = all.replies <= KEPT_REPLIES_MAX && all.bytes <= KEPT_BYTES_MAX
                && own.replies <= KEPT_REPLIES_OF_CALLER_MAX.min(KEPT_REPLIES_MAX - all.replies)
                && own.bytes <= KEPT_BYTES_OF_CALLER_MAX.min(KEPT_BYTES_MAX - all.bytes);
            prop_assert_eq!(kept.has_room(caller, more), may);
            if may {
                let row = model.entry((slot, caller)).or_default();
                *row = row.plus(more);
                prop_assert_eq!(kept.add(slot, caller, more), *row);
            }
        }
    }

    #[test]
    fn a_reply_is_kept_for_its_time_and_a_quarter_at_most(
        now_ms in 0..NOW_MS, kept_ms in prop_oneof![Just(60_000_i64), Just(86_400_000), 60_000..604_800_000_i64],
    ) {
        let kept = slot_of(now_ms, kept_ms) - now_ms;
        prop_assert!(kept > kept_ms && kept <= kept_ms + kept_ms / 4, "{} of {}", kept, kept_ms);
    }
}
