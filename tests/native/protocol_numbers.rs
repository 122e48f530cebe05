//! The numbers of protocols: which a build understands, and how a message and a refusal say them.

use tally_host::object::{IncomingCall, Reply as CallReply};
use tally_wire::messages::{
    Call, Fault, Flush, PROTOCOL, PROTOCOL_MIN, decode, encode, later, origin, path_in,
    path_within, protocol_of,
};

#[test]
fn a_message_says_in_its_path_which_protocol_it_is_in() {
    assert_eq!((PROTOCOL_MIN, PROTOCOL), (3, 3));
    assert_eq!(path_in(PROTOCOL, Flush::PATH), "/3/flush");
    for path in ["/0/flush", "/3/policy-put", "/4/flush", "/200/flush"] {
        let (protocol, bare) = protocol_of(path);
        assert_eq!(path_in(protocol, bare), path);
    }
    // None is a protocol.
    for path in ["/flush", "/256/flush", "/x/flush"] {
        assert_eq!(protocol_of(path), (0, path));
    }
}

#[test]
fn a_receiver_takes_messages_of_its_own_jurisdiction_alone() {
    assert_eq!(origin(None), "http://tally");
    assert_eq!(origin(Some("eu")), "http://eu.tally");
    let jurisdictions = [None, Some("eu"), Some("fedramp"), Some("fedramp-high")];
    for sender in jurisdictions {
        let url = [origin(sender), path_in(PROTOCOL, Flush::PATH)].concat();
        for own in jurisdictions {
            let read = path_within(&url, own);
            if sender == own {
                assert_eq!(read, Ok("/3/flush"));
                continue;
            }
            // Nothing was done, so nothing is asked again, and `/healthz` names it.
            assert!(
                matches!(read, Err(Fault::Unreadable(_))),
                "{sender:?} {own:?}"
            );
        }
    }
    let Err(fault) = path_within("http://eu.tally/3/flush", None) else {
        panic!("another jurisdiction");
    };
    assert_eq!(
        fault.to_string(),
        "stored data cannot be read: TALLY_JURISDICTION is `eu` on the Worker that asks, and not set on the Worker \
         of the objects: set it alike on both"
    );
    // What names no jurisdiction is of none.
    assert_eq!(path_within("http://tally", None), Ok(""));
    assert_eq!(
        path_within("http://example.com/3/flush", None),
        Ok("/3/flush")
    );
    assert!(path_within("http://example.com/3/flush", Some("eu")).is_err());
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
    assert_eq!(understands(9, 9), Ok(()));
    assert_eq!(understands(9, 8), Ok(()));
    assert_eq!(understands(9, 10), Err(Fault::Later(9)));
    assert!(matches!(understands(9, 7), Err(Fault::Broken(_))));
    // No release had an earlier one than the first.
    assert_eq!(understands(PROTOCOL_MIN, PROTOCOL_MIN), Ok(()));
    for protocol in 0..PROTOCOL_MIN {
        let refused = understands(PROTOCOL_MIN, protocol);
        assert!(matches!(refused, Err(Fault::Broken(_))), "{protocol}");
    }
}

#[test]
fn no_other_answer_is_taken_for_that_of_an_older_build() {
    let bytes = encode(&Err::<(), _>(Fault::Later(1))).expect("a message");
    assert_eq!(bytes, [1, 9, 1]);
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
