//! Golden: the forms of messages in the protocol before, as its builds write and read them. A message of today is read
//! by both, and what the previous protocol lacks at the end is read as nothing.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::cluster::delta::{Basis, Delta, Mark};
use tally_core::cluster::push;
use tally_core::cluster::root::Root;
use tally_core::cluster::view::ViewAtRest;
use tally_core::counter::dimensions::DimensionLog;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, WriteKey};
use tally_core::counter::merge::CellTotals;
use tally_core::counter::nonces::FlushEffect;
use tally_core::counter::samples::Samples;
use tally_core::counter::total::Sum;
use tally_core::limit::handover::Handover;
use tally_core::limit::meter::Verdict;
use tally_core::limit::policy::Policy;
use tally_host::object::{IncomingCall, Reply as CallReply};
use tally_protocol::alerts::body::parse_alert;
use tally_protocol::alerts::webhook::Allowed;
use tally_protocol::alerts::{Alert, AlertName};
use tally_protocol::limits::PolicyName;
use tally_protocol::messages::{
    AskTop, BoardQuestion, Call, CellPart, CellRepaired, CountKeyed, Counted, EndBoard, Fault,
    Flush, Flushed, GiveKey, ListPastStates, ListRuns, LocateLead, OrderBy, PROTOCOL,
    PROTOCOL_BEFORE, PartitionRuns, PastStatePage, PastStateRow, PushView, PutAlert, PutPolicy,
    Recall, RepairCell, RepairRoot, RootPart, RootRepaired, RunInProgress, Sums, Top, TopOrder,
    TopRow, TotalsFrom, UnreadCounters, WriteBoard, decode, decode_padded, encode, later, path_in,
    protocol_of,
};
use tally_protocol::names::CellAddress;
use tally_protocol::snapshot::RunOf;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a form of before, which is the beginning of the form of now. Each end reads the other's; a message that
/// lacks more than the protocol before does is no message.
fn golden<Now, Before>(now: &Now, before: &Before, read: &Now, lacks: usize) -> String
where
    Now: Serialize + DeserializeOwned + PartialEq + Debug,
    Before: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let (new, old) = (
        encode(now).expect("a message"),
        encode(before).expect("a message"),
    );
    assert!(new.starts_with(&old));
    assert_eq!(
        decode::<Before>(&new).as_ref(),
        Ok(before),
        "a build of before reads it"
    );
    assert_eq!(
        decode_padded::<Now>(&old, lacks).as_ref(),
        Ok(read),
        "it is read from before"
    );
    assert_eq!(decode_padded::<Now>(&new, lacks).as_ref(), Ok(now));
    assert!(decode::<Now>(&old).is_err());
    let cut = old.split_last().expect("it has bytes").1;
    assert!(
        decode_padded::<Now>(cut, lacks).is_err(),
        "it lacks too much"
    );
    hex(&old)
}

fn counter() -> CounterId {
    CounterId::parse("page").expect("an id")
}

fn datacenter() -> Datacenter {
    Datacenter::parse("FRA").expect("a datacenter")
}

#[test]
fn a_lead_of_the_build_before_asks_where_it_lives_without_its_datacenter() {
    let read = LocateLead {
        counter: counter(),
        datacenter: None,
    };
    let now = LocateLead {
        datacenter: Some(datacenter()),
        ..read.clone()
    };
    let bytes = golden(&now, &counter(), &read, LocateLead::LACKS.0);
    assert_eq!(bytes, "0470616765");
    let bytes = hex(&encode(&now).expect("a message"));
    assert_eq!(bytes, "04706167650103465241");
}

#[test]
fn an_edge_of_the_build_before_writes_to_boards_without_sequences() {
    let board = CounterId::parse("page").expect("an id");
    let read = WriteBoard::new(&board, Vec::new(), None);
    let now = WriteBoard {
        sequences: vec![300],
        ..read.clone()
    };
    let WriteBoard {
        board,
        at,
        home,
        writes,
        once,
        ..
    } = read.clone();
    let before = (board, at, home, writes, once);
    let bytes = golden(&now, &before, &read, WriteBoard::LACKS.0);
    assert_eq!(bytes, "04706167650000000000");
    let bytes = hex(&encode(&now).expect("a message"));
    assert_eq!(bytes, "0470616765000000000001ac02");
}

#[test]
fn a_lead_of_the_build_before_answers_writes_without_whether_it_lives_apart() {
    let outcome = FlushEffect {
        sequence: 300,
        added: 2.into(),
        removed: 1.into(),
    };
    let flushed = Flushed {
        generation: 7,
        outcome,
        elsewhere: None,
        shards: 8,
        linger_ms: 20,
        operations: 1,
        is_apart: false,
    };
    let now: Result<_, Fault> = Ok(Flushed {
        is_apart: true,
        ..flushed
    });
    let elsewhere: Option<(Sum, Sum)> = None;
    let before: Result<_, Fault> = Ok((7_u64, outcome, elsewhere, 8_u8, 20_u32, 1_u64));
    let bytes = golden(&now, &before, &Ok(flushed), Flush::LACKS.1);
    assert_eq!(bytes, "0007ac02020100081401");

    let counted = Counted {
        outcomes: vec![KeyedOutcome::Full],
        shards: 8,
        home: Some(datacenter()),
        is_apart: false,
    };
    let now: Result<_, Fault> = Ok(Counted {
        is_apart: true,
        ..counted.clone()
    });
    let before: Result<_, Fault> = Ok((vec![KeyedOutcome::Full], 8_u8, Some(datacenter())));
    assert_eq!(CountKeyed::LACKS.1, Recall::LACKS.1);
    let bytes = golden(&now, &before, &Ok(counted), CountKeyed::LACKS.1);
    assert_eq!(bytes, "000103080103465241");
}

#[test]
fn a_limiter_of_the_build_before_hands_keys_over_without_what_is_lent() {
    let verdict = Verdict {
        is_allowed: true,
        limit: 100,
        remaining: 40,
        reset_ms: 300,
        retry_after_ms: 0,
    };
    let read = Handover {
        verdict,
        outstanding: 0,
        held_ms: 0,
    };
    let now: Result<_, Fault> = Ok(Handover {
        outstanding: 50,
        held_ms: 9_000,
        ..read
    });
    let before: Result<_, Fault> = Ok(verdict);
    let bytes = golden(&now, &before, &Ok(read), GiveKey::LACKS.1);
    assert_eq!(bytes, "00016428ac0200");
    let bytes = hex(&encode(&now).expect("a message"));
    assert_eq!(bytes, "00016428ac020032a846");
}

#[test]
fn an_edge_of_the_build_before_counts_keyed_writes_without_bounds_of_values_and_generations() {
    let write = KeyedWrite {
        key: WriteKey([9; 16]),
        fingerprint: 7,
        generation: 0,
        added: 3,
        removed: 0,
        live: vec![(60, 3)],
        past: Vec::new(),
        seen: None,
        condition: None,
        samples: Samples::default(),
        dimensions: DimensionLog::default(),
        within_64_bits: false,
    };
    let to = CellAddress::lead(&counter(), &datacenter());
    let count = |within_64_bits| {
        let write = KeyedWrite {
            within_64_bits,
            ..write.clone()
        };
        CountKeyed::new(to.clone(), vec![write], None, KeySource::Drawn)
    };
    let mut now = count(true);
    now.newest = 7;
    let samples: Vec<(u32, Samples)> = Vec::new();
    let dimensions: Vec<(u32, DimensionLog)> = Vec::new();
    let writes = vec![write.clone()];
    let moves: Option<u32> = None;
    let before = (
        to.clone(),
        writes,
        moves,
        KeySource::Drawn,
        samples,
        dimensions,
    );
    let lacks = CountKeyed::LACKS.0;
    let bytes = golden(&now, &before, &count(false), lacks);
    let expected = "0470616765034652410001\
                    090909090909090909090909090909090700030001780300000000010000";
    assert_eq!(bytes, expected);
    assert!(now.received().writes[0].within_64_bits);
}

#[test]
fn a_board_of_the_build_before_reads_a_question_about_one_member() {
    let variant = encode(&BoardQuestion::Live(0, Vec::new())).expect("a message");
    for names in [vec![], vec![b"ann".to_vec()]] {
        let before = encode(&(10_u32, names.first())).expect("a message");
        let now = encode(&BoardQuestion::Live(10, names)).expect("a message");
        assert_eq!(hex(&now), hex(&[&variant[..1], &before].concat()));
    }
}

#[test]
fn repairs_of_the_build_before_know_no_snapshots() {
    let read = RepairRoot {
        counter: counter(),
        datacenters: [datacenter()].into(),
        is_dry: true,
        kept: None,
    };
    let now = RepairRoot {
        kept: Some(Box::default()),
        ..read.clone()
    };
    let before = (counter(), BTreeSet::from([datacenter()]), true);
    let bytes = golden(&now, &before, &read, RepairRoot::LACKS.0);
    assert_eq!(bytes, "0470616765010346524101");

    let read = RootRepaired {
        damaged: vec![RootPart::Root],
        sources: vec![datacenter()],
        found: None,
        silent: Vec::new(),
        is_from_snapshot: false,
        knows_base: false,
    };
    let now: Result<_, Fault> = Ok(RootRepaired {
        silent: vec![datacenter()],
        is_from_snapshot: true,
        knows_base: true,
        ..read.clone()
    });
    let found: Option<(Root, Option<ViewAtRest>)> = None;
    let before: Result<_, Fault> = Ok((vec![RootPart::Root], vec![datacenter()], found));
    let bytes = golden(&now, &before, &Ok(read), RepairRoot::LACKS.1);
    assert_eq!(bytes, "000100010346524100");

    let read = CellRepaired {
        damaged: vec![CellPart::Totals],
        totals_from: TotalsFrom::Remembered,
        counted: None,
    };
    let now: Result<_, Fault> = Ok(CellRepaired {
        counted: Some(CellTotals {
            generation: 7,
            sequence: 1,
            added: 1.into(),
            removed: 0.into(),
        }),
        ..read.clone()
    });
    let before: Result<_, Fault> = Ok((vec![CellPart::Totals], TotalsFrom::Remembered));
    let bytes = golden(&now, &before, &Ok(read), RepairCell::LACKS.1);
    assert_eq!(bytes, "00010002");
}

#[test]
fn partitions_of_the_build_before_do_not_say_how_many_there_ever_were() {
    let read = PartitionRuns {
        runs: Vec::new(),
        in_progress: None,
        has_files: true,
        has_counters: true,
        ever: 0,
    };
    let now: Result<_, Fault> = Ok(PartitionRuns {
        ever: 16,
        ..read.clone()
    });
    let runs: (Vec<RunOf>, Option<RunInProgress>) = (Vec::new(), None);
    let before: Result<_, Fault> = Ok((runs, true, true));
    let bytes = golden(&now, &before, &Ok(read), ListRuns::LACKS.1);
    assert_eq!(bytes, "0000000101");

    let read = PastStatePage {
        run: None,
        rows: Vec::new(),
        has_more: true,
        ever: 0,
    };
    let now: Result<_, Fault> = Ok(PastStatePage {
        ever: 16,
        ..read.clone()
    });
    let rows: (Option<RunOf>, Vec<PastStateRow>) = (None, Vec::new());
    let before: Result<_, Fault> = Ok((rows, true));
    let bytes = golden(&now, &before, &Ok(read), ListPastStates::LACKS.1);
    assert_eq!(bytes, "00000001");
}

#[test]
fn pushes_of_the_build_before_do_not_tell_of_what_time_increments_are() {
    let push = push::Push {
        number: 1,
        watched_for_ms: 0,
        delta: Delta {
            generation: 7,
            basis: Basis::Whole,
            mark: Mark {
                incarnation: 2,
                revision: 3,
            },
            parts: Vec::new(),
            uniques: Vec::new(),
        },
    };
    let read = PushView {
        counter: counter(),
        datacenter: datacenter(),
        push: push.clone(),
        newest_count_ms: None,
    };
    let now = PushView {
        newest_count_ms: Some(1_431_820_799_999),
        ..read.clone()
    };
    let before = (counter(), datacenter(), push);
    let bytes = golden(&now, &before, &read, PushView::LACKS.0);
    assert_eq!(bytes, "0470616765034652410100070002030000");
}

#[test]
fn a_board_of_the_build_before_is_ended_whichever_it_is() {
    let read = EndBoard {
        board: counter(),
        generation: None,
    };
    let now = EndBoard {
        generation: Some(7),
        ..read.clone()
    };
    let bytes = golden(&now, &counter(), &read, EndBoard::LACKS.0);
    assert_eq!(bytes, "0470616765");
}

#[test]
fn what_the_build_before_puts_is_no_step_of_an_import() {
    let once = Some(WriteKey([7; 16]));
    let policy = Policy::sliding(100, 60);
    let name = PolicyName::parse("api").expect("a name");
    let read = PutPolicy {
        name: name.clone(),
        policy: policy.clone(),
        once: None,
    };
    let now = PutPolicy {
        once,
        ..read.clone()
    };
    let bytes = golden(&now, &(name, policy), &read, PutPolicy::LACKS.0);
    assert_eq!(bytes, "0361706964c0a90700640000000000");

    let body =
        r#"{"counter":"page","when":{"value":{"above":1}},"webhook":"https://hooks.example.com/"}"#;
    let put = parse_alert(body.as_bytes(), &Allowed::of(None)).expect("an alert");
    let name = AlertName::parse("a").expect("a name");
    let read = PutAlert {
        name: name.clone(),
        put: put.clone(),
        over: None,
        once: None,
    };
    let now = PutAlert {
        once,
        ..read.clone()
    };
    let over: Option<Alert> = None;
    let bytes = golden(&now, &(name, put, over), &read, PutAlert::LACKS.0);
    assert!(bytes.starts_with("0161"), "{bytes}");
}

#[test]
fn tops_of_the_build_before_are_of_windows_that_the_directory_stores() {
    let order = TopOrder {
        by: OrderBy::Count,
        prefix: "a".to_owned(),
        since: None,
    };
    let read = AskTop {
        order: order.clone(),
        limit: 10,
        counter: None,
        range: None,
    };
    let now = AskTop {
        range: Some((60, 119)),
        ..read.clone()
    };
    let counter: Option<CounterId> = None;
    let bytes = golden(&now, &(order, 10_u32, counter), &read, AskTop::LACKS.0);
    assert_eq!(bytes, "016101000a00");

    let read = Top {
        missing_partitions: vec![3],
        ..Top::default()
    };
    let now: Result<_, Fault> = Ok(Top {
        unasked: Some(UnreadCounters::default()),
        cells: 7,
        ..read.clone()
    });
    let rows: (Vec<TopRow>, Sums) = (Vec::new(), Sums::default());
    let before: Result<_, Fault> = Ok((rows, vec![3_u32]));
    let bytes = golden(&now, &before, &Ok(read), AskTop::LACKS.1);
    assert_eq!(bytes, "000000000000000000000103");
}

#[test]
fn a_message_says_in_its_path_which_protocol_it_is_in() {
    assert_eq!((PROTOCOL_BEFORE, PROTOCOL), (2, 3));
    assert_eq!(path_in(PROTOCOL_BEFORE, Flush::PATH), "/2/flush");
    assert_eq!(path_in(PROTOCOL, Flush::PATH), "/3/flush");
    for path in ["/flush", "/policy-put", "/2/flush", "/200/flush"] {
        let (protocol, bare) = protocol_of(path);
        assert_eq!(path_in(protocol, bare), path);
    }
    // Neither is a protocol.
    assert_eq!(protocol_of("/256/flush"), (1, "/256/flush"));
    assert_eq!(protocol_of("/x/flush"), (1, "/x/flush"));
}

#[test]
fn a_build_understands_its_own_protocol_and_the_one_before() {
    let understands = |newest, protocol| {
        let mut arrived = IncomingCall::within(Flush::PATH.to_owned(), vec![1]);
        arrived.protocol = protocol;
        match arrived.understood_by(newest) {
            Ok(_) => Ok(()),
            Err(CallReply::Answer(bytes)) => match later(&bytes) {
                Some(known) => Err(Fault::Later(known)),
                None => decode::<Result<(), Fault>>(&bytes).expect("a result"),
            },
            Err(_) => panic!("anything else is no answer"),
        }
    };
    assert_eq!(understands(2, 2), Ok(()));
    assert_eq!(understands(2, 1), Ok(()));
    assert_eq!(understands(2, 3), Err(Fault::Later(2)));
    assert_eq!(understands(1, 2), Err(Fault::Later(1)));
    // Those of 0.1.0 have no number.
    assert_eq!(protocol_of("/flush"), (1, Flush::PATH));
    assert!(matches!(understands(PROTOCOL, 1), Err(Fault::Broken(_))));
}

#[test]
fn no_other_answer_is_taken_for_that_of_an_older_build() {
    let bytes = encode(&Err::<(), _>(Fault::Later(1))).expect("a message");
    assert_eq!(hex(&bytes), "010901");
    assert_eq!(later(&bytes), Some(1));
    for fault in [Fault::NotLocated, Fault::Superseded(1), Fault::TooMany(1)] {
        assert_eq!(
            later(&encode(&Err::<(), _>(fault)).expect("a message")),
            None
        );
    }
    assert_eq!(later(&[]), None);
    assert_eq!(later(&[0]), None);
    assert_eq!(later(b"no such call"), None);
}
