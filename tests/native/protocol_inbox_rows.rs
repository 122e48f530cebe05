//! Golden: bytes that an inbox stores. A change here makes old rows unreadable.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::{KeyedWrite, WriteKey};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::queue::write_outcome::{DeadLetter, DeadLetterReason};
use tally_core::counter::queue::{Event, LogRow, QueuedDelivery};
use tally_wire::messages::{decode, encode};

/// 1 May 2026, 00:00:30 UTC.
const NOW_MS: i64 = 1_777_593_630_000;

fn counter() -> CounterId {
    CounterId::parse("page/ü").expect("a counter id")
}

/// The bytes of a value, which must be read back as the same value.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let bytes = encode(value).expect("it can be written");
    let again: T = decode(&bytes).expect("it can be read");
    assert_eq!(&again, value);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn rows_of_an_inbox_have_these_bytes() {
    let event = Event {
        counter: counter(),
        delta: 300,
        second: NOW_MS / 1_000,
        key: Some((WriteKey([7; 16]), 300)),
    };
    let logged = LogRow {
        nonce: Nonce { lane: 7, number: 1 },
        at_ms: NOW_MS,
        events: vec![(7, event)],
    };
    assert_eq!(
        golden(&logged),
        "0701e0f4b18dbc67010707706167652fc3bcac02bcb49f9f0d0107070707070707070707070707070707ac02"
    );
    let due = QueuedDelivery {
        counter: counter(),
        is_clients: true,
        write: KeyedWrite {
            generation: 7,
            added: 300,
            past: vec![(NOW_MS / 1_000, 300)],
            seen: Some(Default::default()),
            ..KeyedWrite::new(WriteKey([7; 16]), 300)
        },
    };
    assert_eq!(
        golden(&vec![due]),
        "0107706167652fc3bc0107070707070707070707070707070707ac0207ac02000001bcb49f9f0dac0201000000000000"
    );
    let letter = |death| DeadLetter {
        counter: "a".to_owned(),
        increment: 300,
        death,
        at_ms: NOW_MS,
    };
    for (death, bytes) in [
        (DeadLetterReason::Ended, "0161ac0200e0f4b18dbc67"),
        (DeadLetterReason::Reused, "0161ac0201e0f4b18dbc67"),
        (DeadLetterReason::Broken, "0161ac0202e0f4b18dbc67"),
    ] {
        assert_eq!(golden(&letter(death)), bytes);
    }
}
