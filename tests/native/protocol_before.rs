//! Golden: the forms of messages in the protocol before, as its builds write and read them. A message of today is read by both, and what
//! the protocol before lacks at the end is read as nothing.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally::core::cluster::delta::{Have, Mark};
use tally::core::cluster::push::Pushed;
use tally::core::cluster::root::Root;
use tally::core::cluster::tablets::Place;
use tally::core::cluster::view::ViewAtRest;
use tally::core::counter::grant::Grant;
use tally::core::counter::id::{CounterId, Datacenter};
use tally::host::object::{Arrived, Reply};
use tally::protocol::messages::{
    Call, Fault, Flush, PROTOCOL, PROTOCOL_BEFORE, Push, Register, ViewOf, Viewed, decode,
    decode_padded, encode, later, path_in, protocol_of,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a form of before, which is the beginning of the form of now. Each end reads the other's; a message that lacks more than
/// the protocol before does is no message.
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

fn root() -> Root {
    Root::create(None, 1_777_593_000_000)
}

#[test]
fn a_lead_of_the_build_before_registers_without_its_place() {
    let read = Register {
        counter: counter(),
        datacenter: datacenter(),
        holds: Some(Grant::default()),
        place: None,
        settled: None,
    };
    let now = Register {
        place: Some(Place::Tablet(3)),
        settled: Some(7),
        ..read.clone()
    };
    let before = (counter(), datacenter(), Some(Grant::default()));
    let bytes = golden(&now, &before, &read, Register::LACKS.0);
    let golden = "0470616765034652410100000000000000000000000000000000";
    assert_eq!(bytes, golden);
    assert_eq!(
        hex(&encode(&now).expect("a message")),
        [golden, "0101030107"].concat()
    );
}

#[test]
fn a_root_of_the_build_before_answers_without_its_time() {
    let mark = Mark {
        incarnation: 300,
        revision: 2,
    };
    let pushed = Pushed {
        number: 9,
        have: Have::All(mark),
        watch_for_ms: 10_000,
        now_ms: 0,
    };
    let now = Pushed {
        now_ms: 1_777_593_630_000,
        ..pushed.clone()
    };
    let before: Result<_, Fault> = Ok((9_u64, Have::All(mark), 10_000_u32));
    let bytes = golden(&Ok::<_, Fault>(now), &before, &Ok(pushed), Push::LACKS.1);
    assert_eq!(bytes, "000901ac0202904e");
}

#[test]
fn a_view_of_the_build_before_lacks_its_time_and_whether_leads_are_watched() {
    let viewed = Viewed {
        root: root(),
        view: None,
        is_watched: false,
        now_ms: 0,
    };
    let now = Viewed {
        is_watched: true,
        now_ms: 1_777_593_630_000,
        ..viewed.clone()
    };
    let before: Result<Option<(Root, Option<ViewAtRest>)>, Fault> = Ok(Some((root(), None)));
    let now: Result<_, Fault> = Ok(Some(now));
    let bytes = golden(&now, &before, &Ok(Some(viewed)), ViewOf::LACKS.1);
    assert_eq!(
        bytes,
        "0001c0c0b286de338081e58cbc670000000000008081e58cbc67000000000000000000000000000000"
    );
}

#[test]
fn a_message_says_in_its_path_which_protocol_it_is_in() {
    assert_eq!((PROTOCOL_BEFORE, PROTOCOL), (1, 2));
    assert_eq!(path_in(PROTOCOL_BEFORE, Flush::PATH), "/flush");
    assert_eq!(path_in(PROTOCOL, Flush::PATH), "/2/flush");
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
        let mut arrived = Arrived::within(Flush::PATH.to_owned(), vec![1]);
        arrived.protocol = protocol;
        match arrived.understood_by(newest) {
            Ok(_) => Ok(()),
            Err(Reply::Answer(bytes)) => match later(&bytes) {
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
    assert!(matches!(understands(3, 1), Err(Fault::Broken(_))));
}

#[test]
fn no_other_answer_is_taken_for_that_of_an_older_build() {
    let told = encode(&Err::<(), _>(Fault::Later(1))).expect("a message");
    assert_eq!(hex(&told), "010901");
    assert_eq!(later(&told), Some(1));
    for fault in [Fault::Unsettled, Fault::Superseded(1), Fault::TooMany(1)] {
        assert_eq!(
            later(&encode(&Err::<(), _>(fault)).expect("a message")),
            None
        );
    }
    assert_eq!(later(&[]), None);
    assert_eq!(later(&[0]), None);
    assert_eq!(later(b"no such call"), None);
}
