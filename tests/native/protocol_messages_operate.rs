//! Golden: bytes of operations that are stored or cross between builds.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::callers::account::AccountId;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::WriteKey;
use tally_core::counter::settings::{TtlMode, UniqueHash};
use tally_core::counter::total::Value;
use tally_wire::messages::{
    Done, Operate, Operation, OperationCondition, OperationKey, OperationOutcome, Put, Reconcile,
    StoreAnswer, StoredAnswer, decode, encode,
};
use tally_wire::version::{SeenCell, Version};

fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).expect("a datacenter")
}

fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let bytes = encode(value).expect("a message");
    assert_eq!(decode::<T>(&bytes).as_ref(), Ok(value));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn operate(operation: Operation) -> Operate {
    Operate {
        counter: CounterId::parse("a").expect("an id"),
        datacenter: datacenter("FRA"),
        operation,
        key: None,
        condition: None,
    }
}

#[test]
fn operations_have_these_bytes() {
    let value = Value::new(9_u128, 2_u128);
    let put = Put {
        shards: Some(1),
        ttl: Some((60, TtlMode::Sliding)),
        floor: Some(value),
        home: Some(datacenter("IAD")),
        unique_hash: Some(UniqueHash::Redis),
        seconds_kept: Some(3_600),
    };
    let head = "016103465241";
    for (operation, bytes) in [
        (
            Operation::Put(put),
            "000101013c0101000900020103494144010101901c",
        ),
        (Operation::Set(value), "0100090002"),
        (Operation::Delete, "02"),
        (Operation::AssignHome, "03"),
    ] {
        assert_eq!(golden(&operate(operation)), format!("{head}{bytes}0000"));
    }
    let conditional = Operate {
        key: Some(OperationKey {
            key: WriteKey([7; 16]),
            fingerprint: 300,
            account: AccountId(9),
        }),
        condition: Some(OperationCondition::Unchanged(
            Version::of([SeenCell {
                datacenter: datacenter("FRA"),
                shard: 0,
                generation: 1,
                sequence: 42,
            }])
            .with_operations(1),
        )),
        ..operate(Operation::Delete)
    };
    let key = "07".repeat(16);
    assert_eq!(
        golden(&conditional),
        format!("{head}0201{key}ac0209010101010346524100012a")
    );
    assert_eq!(golden(&Some(OperationCondition::Exists)), "0100");
}

/// Golden: rows of operations hold these for as long as their keys are kept.
#[test]
fn what_was_done_and_answered_has_these_bytes() {
    let done = Done {
        created: true,
        generation: 300,
        pending: vec![datacenter("FRA")],
        home: Some(datacenter("IAD")),
        is_repeat: false,
    };
    assert_eq!(golden(&done), "01ac020103465241010349414400");
    let answered = StoredAnswer {
        status: 201,
        body: "{}".to_owned(),
    };
    assert_eq!(golden(&answered), "c901027b7d");
    for (outcome, bytes) in [
        (OperationOutcome::Done(Done::default()), "000000000000"),
        (OperationOutcome::Answered(answered.clone()), "01c901027b7d"),
        (OperationOutcome::NotFound, "02"),
        (OperationOutcome::Reused, "03"),
        (OperationOutcome::Full, "04"),
        (OperationOutcome::NeedsHome, "05"),
        (OperationOutcome::BelowFloor, "06"),
        (OperationOutcome::Changed, "07"),
        (OperationOutcome::PartFull(AccountId(300)), "0aac02"),
    ] {
        assert_eq!(golden(&outcome), bytes);
    }
    let keep = StoreAnswer {
        counter: CounterId::parse("a").expect("an id"),
        key: WriteKey([7; 16]),
        answer: answered,
    };
    assert_eq!(golden(&keep), format!("0161{}c901027b7d", "07".repeat(16)));
    let settle = Reconcile {
        counter: CounterId::parse("a").expect("an id"),
    };
    assert_eq!(golden(&settle), "0161");
}
