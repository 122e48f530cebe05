//! The laws of a view: it is a state-based CRDT.

use crate::common;
use crate::common::merging;

use common::config;
use merging::{datacenter, laws_of_merging, totals};
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::view::{DatacenterState, View};
use tally_core::counter::flush::Element;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::CellFacts;
use tally_core::sketch::{HashKey, Uniques, hash};
use tally_wire::messages::{decode, encode};

/// What a lead says: (place, generation, flushes of its two cells, clock, elements seen).
type ReportMessage = (u8, u64, [u64; 2], i64, u8);

fn uniques(seen: u8) -> Uniques {
    let key = HashKey::from([3; 16]);
    let mut sketch = Uniques::new();
    for element in 0..seen {
        let element = Element::of(hash(&key, &[element]));
        sketch.insert(element.source(key.id(), 2), element.token);
    }
    sketch
}

fn view_of((place, generation, sequences, clock, seen): ReportMessage) -> View {
    let cells = [
        (0, totals(place, 0, generation, sequences[0])),
        (1, totals(place, 1, generation, sequences[1])),
    ];
    View::of(DatacenterState {
        generation,
        datacenter: &datacenter(place),
        cells: &cells,
        as_of_ms: clock,
        facts: CellFacts::written(clock - 5),
        uniques: uniques(seen),
    })
}

fn view(messages: &[ReportMessage]) -> View {
    let mut view = View::default();
    for &message in messages {
        view.merge(&view_of(message));
    }
    view
}

fn any_messages() -> impl Strategy<Value = Vec<ReportMessage>> {
    let one = (0..3_u8, 1..4_u64, [0..5_u64, 0..5_u64], 0..9_i64, 0..20_u8);
    vec(one, 0..12)
}

laws_of_merging!(View, any_messages, view, 51);

proptest! {
    #![proptest_config(config(51, 256))]

    #[test]
    fn the_newest_generation_alone_counts(messages in any_messages()) {
        let newest = messages.iter().map(|message| message.1).max().unwrap_or(0);
        let living: Vec<ReportMessage> = messages.iter().copied().filter(|message| message.1 == newest).collect();
        prop_assert_eq!(view(&messages), view(&living));
        prop_assert_eq!(view(&messages).generation(), newest);
    }

    #[test]
    fn a_view_at_rest_comes_back(messages in any_messages()) {
        let view = view(&messages);
        let bytes = encode(&view.at_rest()).expect("a view at rest");
        prop_assert_eq!(View::from_rest(decode(&bytes).expect("the same")), view);
    }
}

#[test]
fn a_lead_whose_clock_ran_ahead_is_believed_again_with_its_next_write() {
    let ahead = view_of((0, 1, [4, 0], 600_000, 0));
    let right = view_of((0, 1, [5, 0], 1_000, 0));
    let both = merged(&ahead, &right);
    assert_eq!(both.as_of_ms(), Some(1_000));
    // Without a write in between the later moment holds.
    let idle = view_of((0, 1, [4, 0], 1_000, 0));
    assert_eq!(merged(&idle, &ahead).as_of_ms(), Some(600_000));
}

#[test]
fn a_view_is_as_old_as_the_datacenter_heard_of_longest_ago() {
    let both = view(&[(0, 1, [4, 0], 700, 0), (1, 1, [9, 0], 300, 0)]);
    assert_eq!(both.as_of_ms(), Some(300));
    assert_eq!(View::new(1).as_of_ms(), None);
    let report = both.report_of(&datacenter(0)).expect("heard of");
    assert_eq!((report.progress, report.facts.last_write_ms), (4, 695));
}

#[test]
fn no_more_datacenters_and_shards_are_kept_than_may_be() {
    let mut view = View::new(1);
    let name = |number: u32| Datacenter::parse(&format!("D{number}")).expect("a datacenter");
    for number in 0..1_100 {
        let cells = [(0, totals(0, 0, 1, 1)), (64, totals(0, 64, 1, 1))];
        view.merge(&View::of(DatacenterState {
            generation: 1,
            datacenter: &name(number),
            cells: &cells,
            as_of_ms: 0,
            facts: CellFacts::written(0),
            uniques: Uniques::new(),
        }));
    }
    assert_eq!(view.datacenters().count(), 1_024);
    assert_eq!(view.cells().iter().count(), 1_024);
}
