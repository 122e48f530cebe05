//! Golden: bytes that are stored or cross between builds. A change here makes old rows unreadable,
//! so it needs a new kind of row or a new path.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::board::member::{Amount, ScoreWrite};
use tally_core::board::placing::{Layout, ShardAt};
use tally_core::board::score::Score;
use tally_core::cluster::operation::Operations;
use tally_core::cluster::root::{Root, RootEntry};
use tally_core::cluster::tablets::{LeadPlace, SpreadChange, Spreads};
use tally_core::counter::cell::{CellState, FlushRow};
use tally_core::counter::dimensions::{DimensionLog, Stamp};
use tally_core::counter::flush::{Element, Load, Refusal};
use tally_core::counter::grant::Grant;
use tally_core::counter::history::Resolution;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{CellFacts, CellTotals, Part, Question};
use tally_core::counter::nonces::{FlushEffect, Nonce};
use tally_core::counter::numbered_writes::{Decision, Numbers};
use tally_core::counter::queue::InboxId;
use tally_core::counter::queue::sessions::SenderLane;
use tally_core::counter::settings::{Settings, Ttl, TtlMode};
use tally_core::counter::total::Value;
use tally_core::sketch::{HashKey, Histogram, Sample, Token, Uniques};
use tally_wire::messages;
use tally_wire::messages::{
    AskBoard, BoardAnswer, BoardQuestion, BoardWritten, Call, CallLead, CellPart, CellRepaired,
    CommandShard, DamagedTable, Fault, Flush, FlushAnswer, Flushed, GiveLead, LeadHandover,
    LeadLocation, LeadPresence, LeadTaken, ListDatacenters, ListNames, LocateLead, LookUp,
    MemberAction, MemberRange, MemberWrite, PlaceLead, RememberedCell, RepairCell, RepairObject,
    RepairRoot, ReportShard, RootPart, RootRepaired, ShardCommand, TotalsFrom, WriteBoard,
    WriteBoards, decode, encode,
};
use tally_wire::names::object_at::ObjectAt;
use tally_wire::names::{CellAddress, LeadAt, TabletAddress};
use tally_wire::problem::{Code, Problem};

/// 1 May 2026, 00:00:30 UTC.
const NOW_MS: i64 = 1_777_593_630_000;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a value, which must be read back as the same value.
fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let bytes = encode(value).expect("a message");
    assert_eq!(decode::<T>(&bytes).as_ref(), Ok(value));
    hex(&bytes)
}

fn address() -> CellAddress {
    CellAddress {
        counter: CounterId::parse("page/ü").expect("an id"),
        datacenter: Datacenter::parse("FRA").expect("a datacenter"),
        shard: 5,
    }
}

fn grant() -> Grant {
    Grant {
        generation: 1_777_593_000_000,
        settings: Settings {
            number: 2,
            shards: Some(8),
            ttl: Some(Ttl {
                seconds: 3_600,
                mode: TtlMode::Sliding,
                set_at_ms: NOW_MS - 1_000,
            }),
            ..Settings::default()
        },
        last_write_ms: NOW_MS - 500,
        alone: true,
        spread: 8,
        ..Grant::default()
    }
}

/// What a write says of itself.
fn dimension_log() -> DimensionLog {
    let mut log = DimensionLog::default();
    log.push(Stamp::Live(NOW_MS / 1_000), 300, [("page", "/")]);
    log
}

fn load() -> Load {
    let second = NOW_MS / 1_000;
    Load {
        added: u128::MAX - 300,
        removed: 3,
        live: vec![(second, 300), (second - 1, 1)],
        past: vec![(1_431_820_800, 2)],
        tokens: vec![(second, Element::of(0x0123_4567_89ab_cdef))],
        past_tokens: vec![(1_431_820_800, Element::of(3))],
        hash: HashKey::from([7; 16]).id(),
        writes: 5,
        newest: 300,
        samples: vec![(second, Histogram::of(Sample::new(12.3).expect("a sample")))],
        dimensions: dimension_log(),
        imported: Uniques::new(),
        ttl_if_new: Some((3_600, TtlMode::Sliding)),
    }
}

/// A cell with something in every field of its hot row.
fn cell() -> CellState {
    let mut cell = CellState::default();
    cell.take_grant(grant(), NOW_MS);
    let nonce = Nonce {
        lane: u64::MAX,
        number: 7,
    };
    let known = Load {
        newest: grant().generation,
        past_tokens: Vec::new(),
        ..load()
    };
    let counted = cell.apply(nonce, &known, NOW_MS);
    assert!(counted.is_ok(), "{counted:?}");
    cell
}

#[test]
fn a_flush_has_these_bytes() {
    let flush = Flush {
        to: address(),
        nonce: Nonce {
            lane: u64::MAX,
            number: 300,
        },
        load: load(),
        wants_report: true,
    };
    assert_eq!(
        golden(&flush),
        "07706167652fc3bc0346524105ffffffffffffffffff01ac027dd3fdffffffffffffffffffffffffffffffff030302bcb49f9f0dac02bab49f9f0d010180e8bed50a0201bcb49f9f0d37c08a8d090180e8bed50a2c24cef29fe10705ac02\
         01bcb49f9f0d1c0101e310019a999999999928409a99999999992840cd99b3e6cc993100\
         1000bcb49f9f0dac02010470616765012f\
         01901c0101"
    );
}

#[test]
fn an_answer_to_a_flush_has_these_bytes() {
    let flushed = Flushed {
        generation: 7,
        outcome: FlushEffect {
            sequence: 300,
            added: u128::MAX.into(),
            removed: 1.into(),
        },
        elsewhere: Some((300_u128.into(), 0_u128.into())),
        shards: 8,
        linger_ms: 20,
        operations: 0,
        is_apart: false,
    };
    assert_eq!(
        golden(&Ok::<_, Fault>(FlushAnswer {
            flushed,
            report: None
        })),
        "0007ac02ffffffffffffffffffffffffffffffffffff03010100ac0200000814000000"
    );
    let refused = Err::<Flushed, _>(Fault::Refused(Refusal::Stray));
    assert_eq!(golden(&refused), "010101");
}

#[test]
fn a_hot_row_has_these_bytes() {
    assert_eq!(
        golden::<FlushRow>(&cell().hot_row()),
        "0126c0c0b286de331002010801901c0190e5b18dbc67000000f8ecb18dbc6700010000000000000801d3fdffffffffffffffffffffffffffffffff030306e0f4b18dbc6708080001ffffffffffffffffff0107e0f4b18dbc6701d3fdffffffffffffffffffffffffffffffff030302bab49f9f0d0102ac02a2a69f9f0df8df949f0dffffffffffffffffff01ffffffffffffffffff010180b49f9f0dad020180b49f9f0d0180b49f9f0d00"
    );
    assert_eq!(
        golden::<FlushRow>(&CellState::default().hot_row()),
        "000000000affffffffffffffffff010000000000ffffffffffffffffff01ffffffffffffffffff01ffffffffffffffffff01ffffffffffffffffff0100000000"
    );
}

#[test]
fn pages_and_sketches_have_these_bytes() {
    let cell = cell();
    let day = Resolution::Day.page_of(1_431_820_800);
    assert_eq!(golden(&cell.page_row(Resolution::Day, day)), "013802");
    let minutes = Resolution::Minute.page_of(NOW_MS / 1_000);
    assert_eq!(
        golden(&cell.page_row(Resolution::Minute, minutes)),
        "0100ad02"
    );
    assert_eq!(hex(&cell.all_time_row()), "");
    assert_eq!(
        hex(&cell.uniques().to_bytes()),
        "024ef9277c0f0600010040452301"
    );
}

#[test]
fn a_sealed_shards_part_has_these_bytes() {
    let part = cell().answer(&Question::plain(grant().generation));
    assert_eq!(
        golden::<Option<Part>>(&part),
        "013f0100c0c0b286de3301d3fdffffffffffffffffffffffffffffffff030300000006e0f4b18dbc670e024ef9277c0f0600010040452301000000000000000000"
    );
    assert_eq!(golden::<Option<Part>>(&None), "00");
}

fn totals() -> CellTotals {
    CellTotals {
        generation: 1_777_593_000_000,
        sequence: 300,
        added: 301.into(),
        removed: 2.into(),
    }
}

#[test]
fn entries_of_the_directory_have_these_bytes() {
    let names = ["IAD", "FRA"];
    let mut operations = Operations::default();
    let seen = vec![
        (address().datacenter, Some(vec![(1, totals())])),
        (Datacenter::local(), None),
    ];
    operations.set(Value::new(9_u128, 0_u128), seen, NOW_MS);
    let root = Root {
        generation: 1_777_593_000_000,
        created_at_ms: NOW_MS,
        settings: grant().settings,
        datacenters: names
            .iter()
            .filter_map(|name| Datacenter::parse(name))
            .collect(),
        last_write_ms: NOW_MS + 1,
        retry_end_ms: 7,
        inboxes: [InboxId {
            datacenter: address().datacenter,
            number: 3,
        }]
        .into(),
        revision: 4,
        home: Some(address().datacenter),
        held: vec![(address().datacenter, vec![(1, totals())])],
        operations,
        may_lack: false,
    };
    assert_eq!(
        golden(&RootEntry::Live(root)),
        "0067c0c0b286de33e0f4b18dbc671002010801901c0190e5b18dbc67000000020346524103494144e2f4b18dbc670e01034652410304010346524101034652410101c0c0b286de33ac02ad020201e0f4b18dbc6700090000010346524101ad020201054c4f43414c00"
    );
    let ended = RootEntry::Ended {
        generation: 300,
        at_ms: NOW_MS,
    };
    assert_eq!(golden(&ended), "01ac02e0f4b18dbc67");
}

#[test]
fn what_a_root_knows_of_a_sender_has_these_bytes() {
    let mut accepted = Numbers::default();
    for number in [1, 2, 4] {
        accepted.put(number, Decision::Counted);
    }
    let mut lane = SenderLane::default();
    lane.open(1_777_593_000_000, 1);
    lane.close(1, &accepted);
    lane.open(1_777_593_000_000, 300);
    assert_eq!(golden(&lane), "c0c0b286de33ac0201ac0202010200040400");
}

#[test]
fn an_address_has_these_bytes() {
    assert_eq!(golden(&address()), "07706167652fc3bc0346524105");
}

macro_rules! paths {
    ($($call:ident $path:literal)*) => {
        /// The paths of all calls.
        const PATHS: &[(&str, &str)] = &[$((messages::$call::PATH, $path)),*];
    };
}

crate::each_call!(paths);

/// The sources with tables of calls.
const TABLES: &[&str] = &[
    include_str!("../../crates/tally-wire/src/messages/cell.rs"),
    include_str!("../../crates/tally-wire/src/messages/aggregate.rs"),
    include_str!("../../crates/tally-wire/src/messages/keyed_writes.rs"),
    include_str!("../../crates/tally-wire/src/messages/operate.rs"),
    include_str!("../../crates/tally-wire/src/messages/read.rs"),
    include_str!("../../crates/tally-wire/src/messages/converge.rs"),
    include_str!("../../crates/tally-wire/src/messages/explain.rs"),
    include_str!("../../crates/tally-wire/src/messages/archive/export.rs"),
    include_str!("../../crates/tally-wire/src/messages/queue.rs"),
    include_str!("../../crates/tally-wire/src/messages/limit.rs"),
    include_str!("../../crates/tally-wire/src/messages/deployment/secrets.rs"),
    include_str!("../../crates/tally-wire/src/messages/deployment/alert.rs"),
    include_str!("../../crates/tally-wire/src/messages/deployment/share.rs"),
    include_str!("../../crates/tally-wire/src/messages/deployment/api_key.rs"),
    include_str!("../../crates/tally-wire/src/messages/totals.rs"),
    include_str!("../../crates/tally-wire/src/messages/lead_moves.rs"),
    include_str!("../../crates/tally-wire/src/messages/redis.rs"),
    include_str!("../../crates/tally-wire/src/messages/root_moves.rs"),
    include_str!("../../crates/tally-wire/src/messages/archive/repair.rs"),
    include_str!("../../crates/tally-wire/src/messages/board.rs"),
];

#[test]
fn each_call_has_its_own_path() {
    for (path, expected) in PATHS {
        assert_eq!(path, expected);
    }
    let mut all: Vec<&str> = Vec::new();
    for table in TABLES {
        let (_, table) = table.split_once("calls! {").expect("the table");
        let (table, _) = table.split_once('}').expect("its end");
        all.extend(table.split('"').skip(1).step_by(2));
    }
    let distinct: BTreeSet<&str> = all.iter().copied().collect();
    // A call that is not named above would show here.
    assert_eq!(distinct, PATHS.iter().map(|(path, _)| *path).collect());
    assert_eq!(distinct.len(), all.len(), "two calls share a path: {all:?}");
}

#[test]
fn what_is_no_message_is_broken_and_names_are_checked() {
    for bytes in [
        &b""[..],
        b"\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let read = decode::<Flush>(bytes);
        assert!(matches!(read, Err(Fault::Broken(_))), "{read:?}");
    }
    // A counter `.`, a datacenter `a/b`, and a token that no hash has.
    assert!(decode::<LookUp>(b"\x01.").is_err());
    assert!(decode::<LookUp>(b"\x01a").is_ok());
    assert!(decode::<Datacenter>(b"\x03a/b").is_err());
    assert!(decode::<Token>(b"\x3f").is_err());
    assert!(decode::<Token>(b"\x26").is_ok());
}

#[test]
fn faults_tell_clients_who_must_act() {
    let unknown = "later; the write may or may not have been counted, try again";
    let busy = "the counter is busy; nothing was counted, try again";
    for (fault, code, detail) in [
        (
            Fault::Unavailable("later".to_owned()),
            Code::Unavailable,
            unknown,
        ),
        (Fault::Refused(Refusal::NeedsGrant), Code::Unavailable, busy),
        (Fault::Refused(Refusal::Stray), Code::Unavailable, busy),
        (
            Fault::Refused(Refusal::TooManyLanes),
            Code::Unavailable,
            busy,
        ),
        (Fault::Refused(Refusal::HasFloor), Code::Unavailable, busy),
        (Fault::Refused(Refusal::Moved(2)), Code::Unavailable, busy),
        (
            Fault::Elsewhere(address().datacenter),
            Code::Unavailable,
            busy,
        ),
        (Fault::Superseded(7), Code::Unavailable, busy),
        (Fault::Moved(LeadPlace::Own), Code::Unavailable, busy),
        (Fault::NotLocated, Code::Unavailable, busy),
        (Fault::Later(1), Code::Unavailable, busy),
        (
            Fault::Unreadable("row 7".to_owned()),
            Code::Unavailable,
            "stored data cannot be read: row 7",
        ),
        (
            Fault::TooMany(5_000),
            Code::TooManyCounters,
            "more than 5000 counters would have to be read; ask for a longer prefix",
        ),
        (Fault::Broken("row 7".to_owned()), Code::Internal, "row 7"),
    ] {
        let problem = Problem::from(fault);
        assert_eq!((problem.code(), problem.detail()), (code, detail));
    }
}

/// Where the lead of the tests' counter is in a tablet.
fn lead_at(place: LeadPlace) -> LeadAt {
    LeadAt {
        counter: address().counter,
        datacenter: address().datacenter,
        place,
    }
}

#[test]
fn where_a_lead_is_is_stored_in_these_bytes() {
    let lead = "07706167652fc3bc03465241";
    let here = |place| LeadPresence::Here {
        epoch: 3,
        former_place: place,
    };
    assert_eq!(golden(&here(None)), "000300");
    assert_eq!(
        golden(&here(Some((lead_at(LeadPlace::Own), 5)))),
        format!("000301{lead}0005")
    );
    let leaving = LeadPresence::Leaving {
        to: LeadPlace::Tablet(300),
        epoch: 3,
        seal: 5,
    };
    assert_eq!(golden(&leaving), "0101ac020305");
    assert_eq!(golden(&LeadPresence::Arriving), "02");
    let mut spreads = Spreads::new(None);
    assert_eq!(spreads.change(Some(64), 5), SpreadChange::Applied);
    assert_eq!(golden(&spreads), "020000000101400a");
}

#[test]
fn a_lead_moves_by_these_bytes() {
    let lead = "07706167652fc3bc03465241";
    let counter = address().counter;
    let datacenter = address().datacenter;
    let locate = LocateLead {
        counter: counter.clone(),
        datacenter: Some(datacenter.clone()),
    };
    assert_eq!(golden(&locate), "07706167652fc3bc0103465241");
    let place = PlaceLead {
        counter,
        datacenter,
        apart: true,
    };
    assert_eq!(golden(&place), "07706167652fc3bc0346524101");
    let located = LeadLocation {
        epoch: 3,
        place: LeadPlace::Tablet(7),
        former_places: vec![LeadPlace::Own],
    };
    assert_eq!(golden(&located), "0301070100");
    let give = GiveLead {
        at: lead_at(LeadPlace::Own),
        to: LeadPlace::Tablet(7),
        epoch: 3,
        abandoned: None,
        after: Some((5, vec![9])),
    };
    assert_eq!(golden(&give), format!("{lead}000107030001050109"));
    assert_eq!(golden(&LeadHandover::Nothing), "00");
    assert_eq!(
        golden(&LeadHandover::ToAnother(LeadPlace::Own, 5)),
        "010005"
    );
    let rows = LeadHandover::Rows {
        seal: 5,
        rows: vec![(vec![1], vec![2])],
        after: Some(vec![1]),
    };
    assert_eq!(golden(&rows), "02050101010102010101");
    let taken = LeadTaken {
        at: lead_at(LeadPlace::Own),
        seal: 5,
    };
    assert_eq!(golden(&taken), format!("{lead}0005"));
    let call = CallLead {
        at: lead_at(LeadPlace::Own),
        path: "/a".to_owned(),
        message: vec![1],
    };
    assert_eq!(golden(&call), format!("{lead}00022f610101"));
    assert_eq!(golden(&Fault::Moved(LeadPlace::Tablet(7))), "060107");
    assert_eq!(golden(&Fault::NotLocated), "07");
    assert_eq!(golden(&Fault::Unreadable("a".to_owned())), "080161");
    assert_eq!(golden(&Fault::Later(1)), "0901");
}

#[test]
fn boards_are_asked_and_told_by_these_bytes() {
    let board = CounterId::parse("b").expect("an id");
    let write = ScoreWrite::of(Amount::Delta(Score::new(1.0).expect("a number")));
    let write = MemberWrite {
        member: b"m".to_vec(),
        action: MemberAction::Put(write),
        condition: None,
    };
    let one = "016d0001000000000000f03f0000000000";
    let writes = WriteBoard::new(&board, vec![write.clone()], None);
    assert_eq!(golden(&writes), format!("016200000001{one}0000"));
    let writes = WriteBoards {
        board: board.clone(),
        at: ShardAt {
            layout: 3,
            shard: 1,
        },
        home: Datacenter::parse("FRA"),
        requests: vec![(vec![write], None)],
    };
    assert_eq!(
        golden(&writes),
        format!("016203010103465241{}{one}00", "0101")
    );
    let ask = AskBoard {
        at_least: Some((5, 7)),
        ..AskBoard::new(
            &board,
            BoardQuestion::Range(MemberRange {
                limit: 10,
                ..MemberRange::default()
            }),
        )
    };
    assert_eq!(
        golden(&ask),
        "0162000000000105070100000000".to_owned() + "0a"
    );
    let layout = Layout {
        number: 2,
        shards: 4,
    };
    assert_eq!(golden(&BoardWritten::Spread(layout)), "060204");
    assert_eq!(golden(&BoardAnswer::Spread(layout)), "040204");
    let at = ShardAt {
        layout: 3,
        shard: 1,
    };
    let tell = |command| CommandShard {
        board: board.clone(),
        at,
        home: Datacenter::parse("FRA"),
        command,
    };
    let head = "016203010103465241";
    assert_eq!(golden(&tell(ShardCommand::Drop)), format!("{head}0d"));
    let take = ShardCommand::Take(3, 1, vec![(0, b"m".to_vec(), None)]);
    assert_eq!(golden(&tell(take)), format!("{head}0a03010100016d00"));
    let board = board.clone();
    assert_eq!(golden(&ReportShard { board, at }), "01620301");
}

#[test]
fn hidden_members_are_asked_for_by_a_question_about_a_board() {
    let board = CounterId::parse("b").expect("an id");
    let question = BoardQuestion::Hidden(b"m".to_vec(), 10);
    assert_eq!(
        golden(&AskBoard::new(&board, question)),
        "0162000000000009016d0a"
    );
}

#[test]
fn what_is_said_of_repairs_has_these_bytes() {
    let repair = RepairCell {
        to: address(),
        remembered: RememberedCell {
            grant: Grant::default(),
            totals: Some(totals()),
            facts: CellFacts::written(3),
            shards: 4,
        },
        is_dry: true,
    };
    assert_eq!(
        golden(&repair),
        "07706167652fc3bc03465241051200060000000000000000000000000000000001c0c0b286de33ac02ad020201060401"
    );
    let repaired = CellRepaired {
        damaged: vec![CellPart::Totals, CellPart::Shards],
        totals_from: TotalsFrom::Nothing,
        counted: None,
    };
    assert_eq!(golden(&repaired), "0200090300");
    let repair = RepairRoot {
        counter: address().counter,
        datacenters: [address().datacenter].into(),
        is_dry: false,
        kept: None,
    };
    assert_eq!(golden(&repair), "07706167652fc3bc01034652410000");
    let repaired = RootRepaired {
        damaged: vec![RootPart::Root, RootPart::Totals],
        sources: vec![address().datacenter],
        found: None,
        silent: vec![address().datacenter],
        is_from_snapshot: false,
        knows_base: true,
    };
    assert_eq!(golden(&repaired), "02000201034652410001034652410001");
    let repair = RepairObject {
        to: ObjectAt::Tablet(TabletAddress {
            datacenter: address().datacenter,
            number: 3,
        }),
        discards: true,
    };
    assert_eq!(golden(&repair), "01034652410301");
    let damaged = DamagedTable {
        table: "log".to_owned(),
        rows: 2,
        names: vec!["a".to_owned()],
        loss: "b".to_owned(),
    };
    assert_eq!(golden(&damaged), "036c6f67020101610162");
    let list = ListNames {
        partition: 3,
        prefix: "a".to_owned(),
        after: Some("b".to_owned()),
        limit: 300,
    };
    assert_eq!(golden(&list), "030161010162ac02");
    assert_eq!(golden(&ListDatacenters { partition: 9 }), "09");
}
