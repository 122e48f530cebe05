//! What is stored and said of moves.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::handover::copies::{CopyOwner, CopySource};
use tally_core::handover::sweep::{Sweep, SweepPace, SweepTurn};
use tally_wire::messages::{Fault, decode, encode};
use tally_wire::problem::Problem;

fn golden<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let bytes = encode(value).expect("it can be written");
    assert_eq!(decode::<T>(&bytes).as_ref(), Ok(value));
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_refusal_while_a_lead_moves_says_that_nothing_was_counted() {
    let refused = Fault::Unavailable("the former place is silent".to_owned()).while_moving();
    assert!(refused.is_passing());
    let detail = Problem::from(refused).detail().to_owned();
    assert!(detail.contains("nothing was counted"), "{detail}");
    let moved = Fault::Moved(LeadPlace::Own);
    assert_eq!(moved.clone().while_moving(), moved);
    assert!(!moved.is_passing());
}

#[test]
fn what_is_known_of_moves_is_stored_in_these_bytes() {
    let mut owner = CopyOwner::<u64>::default();
    for from in [None, Some(1)] {
        let to = owner.begin(|number| number);
        assert!(owner.arrive(to, from));
    }
    owner.begin(|number| number);
    assert_eq!(golden(&owner), "0301030101");
    let mut source = CopySource::default();
    source.track(5);
    source.seal(5);
    assert_eq!(golden(&source), "050500");
    source.cancel(6);
    assert_eq!(golden(&source), "000006");
    let pace = SweepPace {
        bundles_at_once: 1,
        begin_ms: 3,
        next_ms: 1,
        again_ms: 9,
    };
    let begun = Sweep::<String>::begin(&pace, 0);
    assert_eq!(golden(&begun), "000006");
    let turn = SweepTurn {
        last: Some("ab".to_owned()),
        has_left: true,
    };
    let next = begun.turned(Some(&begun), turn, &pace, 3);
    assert_eq!(golden(&next.expect("it goes on")), "010261620108");
}
