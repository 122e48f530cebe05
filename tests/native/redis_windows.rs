//! Laws of Redis's windows and of fields that expire: `INCREX`, and `HEXPIRE` with its kin. The replies are those of
//! Redis's documentation, as no Redis of a package has these commands.

use tally_redis::command::{Command, run};
use tally_redis::notifications;
use tally_redis::space::{KeyspaceEntry, Space, StoredValue};
use tally_wire::redis::{Encoding, Reply};
use tally_wire::rights::Scope;

const NOW_MS: i64 = 1_700_000_000_250;

/// A space that commands run in.
struct Keys(Space);

impl Keys {
    fn new() -> Self {
        Self(Space::new(NOW_MS))
    }

    fn run(&mut self, text: &str) -> Reply {
        let args: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Command::find(&args).map_or_else(
            |refused| refused,
            |command| run(command, &mut self.0, &args),
        )
    }

    /// The same keys as they are loaded that much later.
    fn later(&self, milliseconds: i64) -> Self {
        let mut space = Space::new(self.0.now_ms() + milliseconds);
        for key in self.0.changed() {
            if let Some(entry) = self.0.get(key) {
                space.load(key.clone(), entry.clone());
            }
        }
        Self(space)
    }

    /// Compares the JSON of the reply to each command.
    fn expect(&mut self, cases: &[(&str, &str)]) {
        for (text, wanted) in cases {
            let reply = self.run(text).to_json(Encoding::Plain);
            let inner = reply
                .trim_start_matches("{\"result\":")
                .trim_end_matches('}');
            let inner = inner
                .trim_start_matches("{\"error\":\"ERR ")
                .trim_end_matches('"');
            assert_eq!(inner, *wanted, "{text}");
        }
    }
}

#[test]
fn a_window_counts_within_its_bounds() {
    let mut keys = Keys::new();
    keys.expect(&[
        ("INCREX hits", "[1,1]"),
        ("TTL hits", "-1"),
        ("INCREX hits BYINT 5 UBOUND 10", "[6,5]"),
        ("INCREX hits BYINT 5 UBOUND 10", "[6,0]"),
        ("INCREX hits byint 5 ubound 10 saturate", "[10,4]"),
        ("INCREX hits UBOUND 10 SATURATE", "[10,0]"),
        ("INCREX hits BYINT -20 LBOUND 0", "[10,0]"),
        ("INCREX hits BYINT -20 LBOUND 0 SATURATE", "[0,-10]"),
        // Outside of its bounds already: refused, or brought back by SATURATE.
        ("SET hits 200", "\"OK"),
        ("INCREX hits BYINT -50 UBOUND 100", "[200,0]"),
        ("INCREX hits BYINT -50 UBOUND 100 SATURATE", "[100,-100]"),
        // The bounds of the type.
        ("SET big 9223372036854775807", "\"OK"),
        ("INCREX big", "[\"9223372036854775807\",0]"),
        ("INCREX big SATURATE", "[\"9223372036854775807\",0]"),
        (
            "INCREX big BYINT -9223372036854775808 LBOUND 0 SATURATE",
            "[0,\"-9223372036854775807\"]",
        ),
        (
            "INCREX small BYINT -9223372036854775808",
            "[\"-9223372036854775808\",\"-9223372036854775808\"]",
        ),
        (
            "INCREX small LBOUND 9223372036854775807 SATURATE",
            "applied increment would overflow",
        ),
        // Nothing is created by a refused call.
        ("INCREX none BYINT 5 UBOUND 3", "[0,0]"),
        ("EXISTS none", "0"),
        ("INCREX floats BYFLOAT 3", "[\"3\",\"3\"]"),
        ("INCREX floats BYFLOAT 1e1 UBOUND 5.0", "[\"3\",\"0\"]"),
    ]);
    let is_counter = |key| keys.0.get(key).is_some_and(|entry| entry.is_counter);
    assert!(is_counter("hits") && is_counter("small"));
}

#[test]
fn a_window_expires_as_its_options_say() {
    let mut keys = Keys::new();
    keys.expect(&[
        ("INCREX window EX 60 ENX", "[1,1]"),
        ("INCREX window EX 900 ENX", "[2,1]"),
        ("PTTL window", "60000"),
        ("INCREX window UBOUND 2 EX 900 ENX", "[2,0]"),
        ("PTTL window", "60000"),
        ("INCREX window PX 1500", "[3,1]"),
        ("PTTL window", "1500"),
        ("INCREX window", "[4,1]"),
        ("PTTL window", "1500"),
        ("INCREX window PERSIST", "[5,1]"),
        ("PTTL window", "-1"),
        ("INCREX window EXAT 1700000010", "[6,1]"),
        ("PEXPIRETIME window", "1700000010000"),
        ("INCREX window PXAT 1700000020000 ENX", "[7,1]"),
        ("PEXPIRETIME window", "1700000010000"),
        // An end in the past removes the key.
        ("INCREX window PXAT 1", "[8,1]"),
        ("EXISTS window", "0"),
    ]);
    let window = keys.run("INCREX window EX 60");
    assert_eq!(
        window,
        Reply::Array(vec![Reply::Integer(1), Reply::Integer(1)])
    );
    let is_counter = |keys: &Keys| keys.0.get("window").is_some_and(|entry| entry.is_counter);
    assert!(!is_counter(&keys), "a window that expires is no counter");
    keys.later(59_999)
        .expect(&[("INCREX window EX 60 ENX", "[2,1]")]);
    keys.later(60_000)
        .expect(&[("INCREX window EX 60 ENX", "[1,1]")]);
}

#[test]
fn options_of_a_window_are_refused_as_redis_refuses_them() {
    let mut keys = Keys::new();
    let syntax = "syntax error";
    let whole = "value is not an integer or out of range";
    keys.expect(&[
        ("INCREX", "wrong number of arguments for 'increx' command"),
        ("INCREX k nonsense", syntax),
        ("INCREX k BYINT", syntax),
        ("INCREX k BYINT 1 BYFLOAT 1", syntax),
        ("INCREX k EX 10 PX 10", syntax),
        ("INCREX k EX 10 PERSIST", syntax),
        ("INCREX k ENX PERSIST", syntax),
        ("INCREX k SATURATE SATURATE", syntax),
        ("INCREX k ENX", "ENX flag requires an expiration"),
        ("INCREX k BYINT 1.5", whole),
        ("INCREX k BYINT 9223372036854775808", whole),
        ("INCREX k UBOUND x", whole),
        ("INCREX k BYFLOAT x", "value is not a valid float"),
        (
            "INCREX k BYFLOAT 1.5",
            "counters hold whole numbers: send INCRBYFLOAT a whole number, or scale the amount",
        ),
        (
            "INCREX k LBOUND 2 UBOUND 1",
            "LBOUND can't be greater than UBOUND",
        ),
        ("INCREX k EX 0", "invalid expire time in 'increx' command"),
        (
            "INCREX k EX 9223372036854775807",
            "invalid expire time in 'increx' command",
        ),
        ("INCREX k EX x", whole),
        ("SADD set m", "1"),
        ("SET text hello", "\"OK"),
        ("INCREX text", whole),
        ("EXISTS k", "0"),
    ]);
    assert!(
        keys.run("INCREX set")
            .to_json(Encoding::Plain)
            .contains("WRONGTYPE")
    );
}

#[test]
fn who_may_only_add_lets_no_counter_expire() {
    let scope = |text: &str| {
        let args: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Command::find(&args).expect("a command").scope_of(&args)
    };
    for text in ["INCREX k", "INCREX k BYINT 5 UBOUND 10 SATURATE", "INCR k"] {
        assert_eq!(scope(text), Scope::Write, "{text}");
    }
    for text in [
        "INCREX k EX 5",
        "INCREX k PXAT 5 ENX",
        "INCREX k persist",
        "HEXPIRE h 5 FIELDS 1 f",
    ] {
        assert_eq!(scope(text), Scope::Admin, "{text}");
    }
}

#[test]
fn fields_expire_alone() {
    let mut keys = Keys::new();
    keys.expect(&[
        ("HTTL none FIELDS 2 a b", "[-2,-2]"),
        ("HEXPIRE none 5 FIELDS 1 a", "[-2]"),
        ("HPERSIST none FIELDS 1 a", "[-2]"),
        ("HGETEX none EX 5 FIELDS 2 a b", "[null,null]"),
        ("HSET h a 1 b 2 c 3", "3"),
        ("HEXPIRE h 10 FIELDS 3 a b x", "[1,1,-2]"),
        ("HTTL h FIELDS 4 a b c x", "[10,10,-1,-2]"),
        ("HPTTL h FIELDS 1 a", "[10000]"),
        ("HEXPIRETIME h FIELDS 1 a", "[1700000011]"),
        ("HPEXPIRETIME h FIELDS 1 a", "[1700000010250]"),
        ("HEXPIRE h 20 NX FIELDS 2 a c", "[0,1]"),
        ("HEXPIRE h 20 XX FIELDS 1 b", "[1]"),
        ("HPEXPIRE h 5000 GT FIELDS 2 a b", "[0,0]"),
        ("HPEXPIRE h 5000 lt FIELDS 2 a b", "[1,1]"),
        ("HPERSIST h FIELDS 3 c c x", "[1,-1,-2]"),
        ("HEXPIRE h 30 GT FIELDS 1 c", "[0]"),
        ("HEXPIRE h 30 XX FIELDS 1 c", "[0]"),
        ("HEXPIRE h 30 LT FIELDS 1 c", "[1]"),
        // Who sets a field anew ends its expiry, and who adds to it does not.
        ("HINCRBY h a 5", "6"),
        ("HSET h b 9", "0"),
        ("HTTL h FIELDS 3 a b c", "[5,-1,30]"),
        ("TTL h", "-1"),
        ("TYPE h", "\"hash"),
    ]);
    let mut later = keys.later(4_999);
    later.expect(&[
        ("HGET h a", "\"6"),
        ("HPTTL h FIELDS 1 a", "[1]"),
        ("HTTL h FIELDS 1 a", "[1]"),
    ]);
    let mut later = keys.later(5_000);
    later.expect(&[
        ("HGETALL h", "[\"b\",\"9\",\"c\",\"3\"]"),
        ("HTTL h FIELDS 2 a c", "[-2,25]"),
    ]);
    // A field of that name that is set again does not expire.
    later.expect(&[
        ("HSET h a 7", "1"),
        ("HTTL h FIELDS 1 a", "[-1]"),
        ("HDEL h b", "1"),
    ]);
    later.expect(&[
        ("HEXPIRE h 0 FIELDS 2 a a", "[2,-2]"),
        ("HGETALL h", "[\"c\",\"3\"]"),
    ]);
    later.expect(&[("HEXPIREAT h 1 FIELDS 1 c", "[2]"), ("EXISTS h", "0")]);
}

#[test]
fn a_hash_whose_fields_have_all_expired_is_gone() {
    let mut keys = Keys::new();
    keys.expect(&[
        ("HSET h a 1 b 2", "2"),
        ("HPEXPIRE h 10 FIELDS 1 a", "[1]"),
        ("HPEXPIRE h 20 FIELDS 1 b", "[1]"),
    ]);
    keys.later(20).expect(&[
        ("EXISTS h", "0"),
        ("HSET h b 3", "1"),
        ("HTTL h FIELDS 1 b", "[-1]"),
    ]);
    let hash = |keys: &Keys| match keys.0.get("h").map(|entry| entry.value.clone()) {
        Some(StoredValue::Timed(hash)) => hash,
        other => panic!("{other:?} has no fields that expire"),
    };
    // What a row's expiry is made of: the last field's, or the key's where that is sooner.
    assert_eq!(hash(&keys).last_end_ms(), Some(NOW_MS + 20));
    keys.expect(&[("PEXPIRE h 15", "1"), ("PTTL h", "15")]);
    keys.expect(&[("HPERSIST h FIELDS 1 b", "[1]")]);
    assert_eq!(hash(&keys).last_end_ms(), Some(NOW_MS + 15));
    keys.expect(&[("PERSIST h", "1"), ("HSET h c 1", "1")]);
    assert_eq!(hash(&keys).last_end_ms(), None, "c does not expire");
}

#[test]
fn the_expiry_of_a_row_is_not_that_of_its_key() {
    let mut keys = Keys::new();
    keys.expect(&[("HSET h a 1", "1"), ("HPEXPIRE h 20 FIELDS 1 a", "[1]")]);
    let Some(KeyspaceEntry { value, .. }) = keys.0.get("h").cloned() else {
        panic!("there is a hash");
    };
    let mut loaded = Keys::new();
    let expires_ms = Some(NOW_MS + 20);
    loaded.0.load(
        "h".to_owned(),
        KeyspaceEntry {
            value,
            expires_ms,
            is_counter: false,
        },
    );
    loaded.expect(&[("TTL h", "-1"), ("HPTTL h FIELDS 1 a", "[20]")]);
}

#[test]
fn values_come_with_another_expiry_of_their_fields() {
    let mut keys = Keys::new();
    keys.expect(&[
        ("HSET h a 1 b 2", "2"),
        ("HGETEX h FIELDS 2 a x", "[\"1\",null]"),
        ("HGETEX h EX 10 FIELDS 2 a x", "[\"1\",null]"),
        ("HTTL h FIELDS 2 a b", "[10,-1]"),
        ("HGETEX h PERSIST FIELDS 2 a b", "[\"1\",\"2\"]"),
        ("HTTL h FIELDS 2 a b", "[-1,-1]"),
        ("HGETEX h PXAT 1700000005250 FIELDS 1 b", "[\"2\"]"),
        ("HTTL h FIELDS 1 b", "[5]"),
        ("HGETEX h EX 0 FIELDS 1 b", "[\"2\"]"),
        ("HGETEX h EXAT 1 FIELDS 1 a", "[\"1\"]"),
        ("EXISTS h", "0"),
    ]);
}

#[test]
fn options_of_fields_are_refused_as_redis_refuses_them() {
    let mut keys = Keys::new();
    let at = "Mandatory argument FIELDS is missing or not at the right position";
    let positive = "Number of fields must be a positive integer";
    let count = "The `numfields` parameter must match the number of arguments";
    keys.expect(&[
        ("HSET h a 1", "1"),
        (
            "HEXPIRE h 5 FIELDS 1",
            "wrong number of arguments for 'hexpire' command",
        ),
        ("HEXPIRE h 5 NX FIELDS 1", count),
        (
            "HEXPIRE h x FIELDS 1 a",
            "value is not an integer or out of range",
        ),
        (
            "HEXPIRE h -1 FIELDS 1 a",
            "invalid expire time, must be >= 0",
        ),
        (
            "HEXPIRE h 281474976710 FIELDS 1 a",
            "invalid expire time in 'hexpire' command",
        ),
        (
            "HPEXPIREAT h 70368744177664 FIELDS 1 a",
            "invalid expire time in 'hpexpireat' command",
        ),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "[1]"),
        ("HEXPIRE h 5 FIELDZ 1 a", at),
        (
            "HEXPIRE h 5 FIELDS 0 a",
            "Parameter `numFields` should be greater than 0",
        ),
        ("HEXPIRE h 5 FIELDS 2 a", count),
        ("HEXPIRE h 5 FIELDS 1 a b", count),
        ("HTTL h a FIELDS 1", at),
        ("HTTL h FIELDS x a", positive),
        ("HPERSIST h FIELDS -1 a", positive),
        ("HPERSIST h FIELDS 99999999999999999999 a", positive),
        ("HGETEX h EX FIELDS 1 a", at),
        (
            "HGETEX h EX x FIELDS 1 a",
            "value is not an integer or out of range",
        ),
        ("HGETEX h bad FIELDS 1 a", at),
        ("HGETEX h EX 5 FIELDS 1", count),
    ]);
    keys.run("SET text x");
    for text in [
        "HEXPIRE text 5 FIELDS 1 a",
        "HTTL text FIELDS 1 a",
        "HGETEX text EX 5 FIELDS 1 a",
    ] {
        assert!(
            keys.run(text)
                .to_json(Encoding::Plain)
                .contains("WRONGTYPE"),
            "{text}"
        );
    }
}

#[test]
fn listeners_hear_of_windows_and_fields_by_the_names_of_redis() {
    let mut keys = Keys::new();
    let mut events = |text: &str| {
        let before = keys.0.clone();
        keys.0.kept();
        keys.run(text);
        let args: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let command = Command::find(&args).expect("a command");
        let events = notifications::of_keys(command, &args, &before, &keys.0);
        let names = events.into_iter().map(|event| event.name);
        names.collect::<Vec<_>>().join(" ")
    };
    for (text, wanted) in [
        ("INCREX k EX 10", "incrby expire"),
        ("INCREX k EX 10 ENX", "incrby"),
        ("INCREX k PERSIST", "incrby persist"),
        ("INCREX k UBOUND 1", ""),
        ("INCREX k BYFLOAT 2", "incrbyfloat"),
        ("HSET h a 1 b 2 c 3", "hset"),
        ("HEXPIRE h 10 FIELDS 1 a", "hexpire"),
        ("HEXPIRE h 10 NX FIELDS 1 a", ""),
        ("HTTL h FIELDS 1 a", ""),
        ("HPERSIST h FIELDS 1 a", "hpersist"),
        ("HGETEX h PX 10 FIELDS 1 a", "hexpire"),
        ("HGETEX h PERSIST FIELDS 1 a", "hpersist"),
        ("HPEXPIREAT h 1 FIELDS 1 a", "hdel"),
        ("HGETEX h PXAT 1 FIELDS 1 b", "hdel"),
        ("HEXPIRE h 0 FIELDS 1 c", "hdel del"),
    ] {
        assert_eq!(events(text), wanted, "{text}");
    }
}
