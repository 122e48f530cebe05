//! What a delta holds, case by case: what changed for whoever follows, digests for whoever does not.

use crate::common::following;

use following::{Lead, World, datacenter, elements, nothing};
use tally_core::cluster::delta::feed::Feed;
use tally_core::cluster::delta::{Basis, DeltaOutcome, Mark, ReceiverState, ViewReceiver};
use tally_core::cluster::view::{DatacenterState, View};
use tally_core::counter::merge::CellFacts;
use tally_core::sketch::Uniques;
use tally_wire::messages::encode;

/// A lead, a root and what is sent between them, without loss.
fn followed(elements_seen: u32) -> (Lead, ViewReceiver) {
    let mut world = World::new();
    world.leads[0].sequences = [7, 3];
    world.leads[0].uniques = elements(elements_seen, 1, 1);
    world.run_until_quiet();
    (world.leads.swap_remove(0), world.root)
}

#[test]
fn whoever_follows_is_sent_what_changed_and_nothing_else() {
    let (mut lead, mut root) = followed(10_000);
    assert!(lead.feed.since(&lead.root_has).parts.is_empty());
    lead.sequences[1] += 1;
    lead.uniques.merge(&elements(10_020, 1, 1));
    lead.gather(0);
    let delta = lead.feed.since(&lead.root_has);
    assert!(matches!(delta.basis, Basis::Revision(_)));
    assert_eq!(delta.parts.len(), 1);
    assert_eq!(delta.parts[0].cells.len(), 1);
    let bytes = encode(&delta).expect("a delta").len();
    println!(
        "one cell and {} bytes of registers: {bytes} bytes",
        delta.uniques[0].1.len()
    );
    assert!(bytes <= 110, "{bytes}");
    let have = ReceiverState::All(lead.feed.mark());
    assert_eq!(
        root.take(&datacenter(0), &delta),
        DeltaOutcome::Applied(have.clone())
    );
    // Once more, late: nothing is taken back.
    let known = root.view().clone();
    assert_eq!(
        root.take(&datacenter(0), &delta),
        DeltaOutcome::Applied(have)
    );
    assert_eq!(root.view(), &known);
}

#[test]
fn that_nothing_was_counted_since_is_no_news() {
    let (mut lead, mut root) = followed(10);
    let state = View::of(DatacenterState {
        generation: 1,
        datacenter: &datacenter(0),
        cells: &lead.feed.view().cells().cells_of(&datacenter(0)),
        as_of_ms: 1_000_000,
        facts: CellFacts::written(0),
        uniques: Uniques::new(),
    });
    lead.feed.merge(&state);
    assert!(!lead.feed.has_news_for(&lead.root_has));
    assert_ne!(lead.root_has, ReceiverState::All(lead.feed.mark()));
    let delta = lead.feed.since(&lead.root_has);
    root.take(&datacenter(0), &delta);
    let report = root.view().report_of(&datacenter(0)).expect("heard of");
    assert_eq!(report.as_of_ms, 1_000_000);
}

#[test]
fn a_new_incarnation_costs_digests_and_not_all_registers() {
    let (lead, mut root) = followed(30_000);
    let mut restarted = Feed::new(View::new(1), 77);
    restarted.merge(&lead.state(0));
    let first = restarted.since(&ReceiverState::Unknown);
    assert_eq!(first.basis, Basis::Unclear);
    let DeltaOutcome::Applied(have) = root.take(&datacenter(0), &first) else {
        panic!("it is of the generation that lives");
    };
    assert!(matches!(have, ReceiverState::Digests { .. }));
    let second = restarted.since(&have);
    let bytes = encode(&first).expect("a delta").len() + encode(&second).expect("a delta").len();
    assert!(bytes < 150, "{bytes}");
    let have = ReceiverState::All(restarted.mark());
    assert!(
        matches!(root.take(&datacenter(0), &second), DeltaOutcome::Applied(state) if state == have)
    );
}

#[test]
fn the_same_visitors_of_a_new_generation_are_not_taken_for_known_ones() {
    let (lead, mut root) = followed(30_000);
    let old = ReceiverState::Digests {
        generation: 1,
        digests: root.view().uniques().digests(),
    };
    let mut next = lead;
    next.generation = 2;
    let mut feed = Feed::new(View::new(2), 78);
    feed.merge(&next.state(0));
    root.take(&datacenter(0), &feed.since(&old));
    assert_eq!(root.view(), feed.view());
}

#[test]
fn an_ended_generation_is_refused() {
    let (lead, mut root) = followed(10);
    let late = lead.feed.since(&nothing());
    root.begin(2);
    assert_eq!(root.take(&datacenter(0), &late), DeltaOutcome::Outdated(2));
    assert!(root.marks().is_empty());
    assert_eq!(root.view().generation(), 2);
}

#[test]
fn whoever_lags_behind_the_log_is_asked_for_digests() {
    let (mut lead, _) = followed(20_000);
    let then = ReceiverState::All(lead.feed.mark());
    for _ in 0..2_100 {
        lead.sequences[0] += 1;
        lead.gather(0);
    }
    // Each of them changed the same two things: the log is short.
    assert!(matches!(lead.feed.since(&then).basis, Basis::Revision(_)));
    lead.uniques.merge(&elements(90_000, 1, 1));
    lead.gather(0);
    assert_eq!(lead.feed.since(&then).basis, Basis::Unclear);
    let unborn = Mark {
        incarnation: lead.feed.mark().incarnation,
        revision: u64::MAX - 1,
    };
    assert_eq!(
        lead.feed.since(&ReceiverState::All(unborn)).basis,
        Basis::Unclear
    );
}
