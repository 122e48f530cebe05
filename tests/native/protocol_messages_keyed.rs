//! Golden: bytes of keyed writes that are stored or cross between builds. A change here makes old records unreadable.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::callers::account::AccountId;
use tally_core::cluster::claim::ClaimHolder;
use tally_core::counter::dimensions::{DimensionLog, Stamp};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{
    HomeCondition, KeySource, KeyedOutcome, KeyedWrite, Ledger, Record, Recorded, SeenValue,
    WriteKey,
};
use tally_core::counter::merge::CellTotals;
use tally_core::counter::settings::TtlMode;
use tally_core::counter::total::Value;
use tally_core::sketch::{Histogram, Sample};
use tally_wire::messages::{
    Call, Claim, ClaimAnswer, CountKeyed, Counted, FindClaims, KeyOwner, Recall, decode, encode,
};
use tally_wire::names::{Address, CellAddress};

/// 1 May 2026, 00:00:30 UTC.
const NOW_MS: i64 = 1_777_593_630_000;

/// The bytes of a value, which must be read back as the same value.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let bytes = encode(value).expect("a message");
    assert_eq!(decode::<T>(&bytes).as_ref(), Ok(value));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn address() -> CellAddress {
    CellAddress {
        counter: CounterId::parse("page/ü").expect("an id"),
        datacenter: Datacenter::parse("FRA").expect("a datacenter"),
        shard: 5,
    }
}

fn recorded() -> Recorded {
    Recorded {
        fingerprint: u64::MAX,
        generation: 1_777_593_000_000,
        sequence: 300,
        totals: (300_u128.into(), 1_u128.into()),
        is_exact: true,
        at_ms: NOW_MS,
        operations: 2,
    }
}

#[test]
fn a_record_and_the_ledgers_counts_have_these_bytes() {
    assert_eq!(
        golden(&recorded()),
        "ffffffffffffffffff01c0c0b286de33ac0200ac02000101e0f4b18dbc6702"
    );
    assert_eq!(
        golden(&Record::Counted(recorded())),
        "00ffffffffffffffffff01c0c0b286de33ac0200ac02000101e0f4b18dbc6702"
    );
    let struck = |moves: u32| Record::Struck {
        moves,
        at_ms: NOW_MS,
    };
    assert_eq!(golden(&struck(0)), "0100e0f4b18dbc67");
    assert_eq!(golden(&struck(300)), "01ac02e0f4b18dbc67");
    let refused = Record::BelowFloor {
        fingerprint: 300,
        at_ms: NOW_MS,
    };
    assert_eq!(golden(&refused), "02ac02e0f4b18dbc67");
    let refused = Record::Overflow {
        fingerprint: 300,
        at_ms: NOW_MS,
    };
    assert_eq!(golden(&refused), "03ac02e0f4b18dbc67");
    let mut ledger = Ledger::default();
    assert_eq!(golden(&ledger), "00");
    for later_ms in [0, 1, 30_000] {
        ledger.admit(NOW_MS + later_ms, 60_000, 3);
    }
    assert_eq!(golden(&ledger), "02d088bb8dbc6702b0ddbe8dbc6701");
}

#[test]
fn keyed_writes_have_these_bytes() {
    let keyed = KeyedWrite {
        key: WriteKey([7; 16]),
        fingerprint: 300,
        generation: 7,
        added: 301,
        removed: 2,
        live: vec![(NOW_MS / 1_000, 300)],
        past: vec![(1_431_820_800, 1)],
        seen: Some(SeenValue {
            value: Value::new(300_u128, 1_u128),
            is_set: true,
        }),
        condition: Some(HomeCondition {
            home: address().datacenter,
            generation: 7,
            sequence: 300,
            operations: 1,
        }),
        samples: Vec::new(),
        dimensions: Default::default(),
        within_64_bits: false,
        ttl_if_new: None,
    };
    let mut dimension_log = DimensionLog::default();
    dimension_log.push(Stamp::Live(NOW_MS / 1_000), 300, [("page", "/")]);
    let sampled = KeyedWrite {
        dimensions: dimension_log,
        within_64_bits: true,
        ttl_if_new: None,
        samples: vec![(
            NOW_MS / 1_000,
            Histogram::of(Sample::new(12.3).expect("a sample")),
        )],
        ..keyed.clone()
    };
    let writes = vec![keyed.clone(), sampled];
    let mut count = CountKeyed::new(address(), writes.clone(), Some(300), KeySource::Clients);
    count.newest = 301;
    let bytes = golden(&count);
    assert!(
        bytes.ends_with(
            "0101\
             01bcb49f9f0d\
             1c\
             0101e310019a999999999928409a99999999992840cd99b3e6cc9931\
             0101\
             1000bcb49f9f0dac02010470616765012f\
             0101\
             ad02\
             00"
        ),
        "{bytes}"
    );
    // Samples, dimensions and the bound travel beside their writes, and are with them again where they arrive.
    let received =
        decode::<CountKeyed>(&encode(&count).expect("a message")).map(CountKeyed::received);
    assert_eq!(received.map(|count| count.writes), Ok(writes));
    let count = CountKeyed::new(address(), vec![keyed], Some(300), KeySource::Clients);
    assert_eq!(
        golden(&count),
        "07706167652fc3bc03465241050107070707070707070707070707070707ac0207ad020201bcb49f9f0dac020180e8bed50a010100ac02000101010346524107ac020101ac02000000000000"
    );
}

#[test]
fn outcomes_of_keyed_writes_have_these_bytes() {
    let counted = Counted {
        outcomes: vec![
            KeyedOutcome::Counted(recorded()),
            KeyedOutcome::Replayed(recorded()),
            KeyedOutcome::Reused,
            KeyedOutcome::Full,
            KeyedOutcome::NeedsView,
            KeyedOutcome::Ended,
            KeyedOutcome::Struck,
            KeyedOutcome::BelowFloor,
            KeyedOutcome::Changed,
            KeyedOutcome::NeedsHome,
            KeyedOutcome::NotWhole,
            KeyedOutcome::Unknown,
            KeyedOutcome::BelowFloorBefore,
            KeyedOutcome::CountedBefore,
            KeyedOutcome::Expired,
            KeyedOutcome::Overflow,
            KeyedOutcome::PartFull(AccountId(300)),
        ],
        shards: 8,
        home: Some(address().datacenter),
        is_apart: true,
        totals: Some(CellTotals {
            generation: 7,
            sequence: 301,
            added: 302_u128.into(),
            removed: 3_u128.into(),
        }),
    };
    assert_eq!(
        golden(&counted),
        "1100ffffffffffffffffff01c0c0b286de33ac0200ac02000101e0f4b18dbc670201ffffffffffffffffff01c0c0b286de33ac0200ac02000101e0f4b18dbc670202030405060708090a0b0c0d0e0f10ac02080103465241010107ad02ae0203"
    );
}

#[test]
fn claims_and_recalls_have_these_bytes() {
    let claim = Claim {
        counter: address().counter,
        datacenter: address().datacenter,
        keys: vec![WriteKey([7; 16])],
        struck_at: Some(ClaimHolder::first(&address().datacenter).next(&address().datacenter)),
        source: KeySource::Public,
        account: AccountId(9),
        ttl_if_new: Some((60, TtlMode::Fixed)),
    };
    assert_eq!(
        golden(&claim),
        "07706167652fc3bc0346524101070707070707070707070707070707070103465241010309013c00"
    );
    let claimed = ClaimAnswer {
        generation: 7,
        owners: vec![
            KeyOwner::Lead(ClaimHolder {
                datacenter: address().datacenter,
                moves: 300,
            }),
            KeyOwner::Ended,
            KeyOwner::Full,
            KeyOwner::Operation,
            KeyOwner::Nobody,
            KeyOwner::PartFull(AccountId(9)),
        ],
    };
    assert_eq!(golden(&claimed), "07060003465241ac02010203040509");
    let find = FindClaims {
        counter: address().counter,
        keys: vec![WriteKey([7; 16])],
    };
    assert_eq!(
        golden(&find),
        "07706167652fc3bc0107070707070707070707070707070707"
    );
    let recall = Recall {
        to: address(),
        writes: Vec::new(),
    };
    assert_eq!(golden(&recall), "07706167652fc3bc034652410500");
}

#[test]
fn claims_of_numbered_keys_go_to_their_senders_lead_and_others_to_the_root() {
    let claim = |source| Claim {
        counter: address().counter,
        datacenter: address().datacenter,
        keys: Vec::new(),
        struck_at: None,
        source,
        account: AccountId::default(),
        ttl_if_new: None,
    };
    let root = |claim: &Claim| assert_eq!(claim.to(), Address::Root(&claim.counter));
    for source in [KeySource::Clients, KeySource::Drawn, KeySource::Public] {
        root(&claim(source));
    }
    let numbered = claim(KeySource::Numbered);
    let lead = Address::Lead(&numbered.counter, &numbered.datacenter);
    assert_eq!(numbered.to(), lead);
}
