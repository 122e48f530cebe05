//! Law: a root whose row was lost is made again from what leads were granted: same generation, all that write in
//! it, and no claim that it knows all.

use tally_core::cluster::delta::ReceiverState;
use tally_core::cluster::delta::feed::Feed;
use tally_core::cluster::root::Root;
use tally_core::cluster::view::{DatacenterState, View};
use tally_core::counter::grant::Grant;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellFacts, CellTotals};
use tally_core::counter::settings::{Settings, Ttl, TtlMode};
use tally_core::counter::total::Value;
use tally_core::sketch::Uniques;

const NOW_MS: i64 = 1_777_593_630_000;
const CREATED_MS: i64 = NOW_MS - 3_600_000;

fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).unwrap_or_else(Datacenter::local)
}

/// A root of these datacenters, as it was before its row was lost.
fn lost(names: &[&str]) -> Root {
    let mut root = Root::create(None, CREATED_MS);
    for name in names {
        root.datacenters.insert(datacenter(name));
        root.revision += 1;
    }
    root
}

fn counted(added: u128) -> Vec<(u8, CellTotals)> {
    let totals = CellTotals {
        generation: 1,
        sequence: 1,
        added: added.into(),
        removed: 0.into(),
    };
    vec![(0, totals)]
}

#[test]
fn the_lead_that_was_alone_gets_back_what_it_had() {
    let mut before = lost(&["FRA"]);
    before.settings = Settings {
        number: 4,
        shards: Some(2),
        ttl: Some(Ttl {
            seconds: 7_200,
            mode: TtlMode::Sliding,
            set_at_ms: CREATED_MS,
        }),
        floor: None,
        unique_hash: tally_core::counter::settings::UniqueHash::Redis,
        seconds_kept: Some(3_600),
    };
    let fra = datacenter("FRA");
    // It was set to 100 when FRA had counted 30: what FRA adds to the value is in its grant.
    let seen = vec![(fra.clone(), Some(counted(30)))];
    before.set(Value::new(100, 0), seen, NOW_MS - 5);
    let held = before.grant(&fra);
    let again = Root::adopt(&held, &fra, NOW_MS);
    assert_eq!(again.generation, before.generation);
    assert_eq!(again.settings, before.settings);
    assert_eq!(again.created_at_ms, CREATED_MS);
    assert_eq!(again.operations.number(), 1);
    assert!(!again.may_lack);
    let granted = again.grant(&fra);
    assert!(
        granted.revision > held.revision,
        "what is granted now holds"
    );
    assert!(granted.alone);
    assert_eq!(granted.rest, held.rest);
    // 42 counted by FRA are 112 still.
    let value = (again.operations.base()).plus(again.operations.beyond(&fra, &counted(42)));
    assert_eq!(value.to_string(), "112");
}

#[test]
fn a_lead_that_was_not_alone_is_not_called_alone_again() {
    let names = ["FRA", "IAD", "SYD"];
    let before = lost(&names);
    for first in names {
        let held = before.grant(&datacenter(first));
        assert!(!held.alone);
        let mut again = Root::adopt(&held, &datacenter(first), NOW_MS);
        assert!(again.may_lack);
        assert!(
            !again.grant(&datacenter(first)).alone,
            "others may count still"
        );
        // The others come as they push, and are not newcomers to another generation.
        again.datacenters.extend(names.map(datacenter));
        assert_eq!(again.datacenters, before.datacenters);
        assert_eq!(again.generation, before.generation);
        for name in names {
            assert!(!again.grant(&datacenter(name)).alone);
        }
    }
}

#[test]
fn a_home_is_home_again() {
    let mut before = lost(&["FRA", "IAD"]);
    before.move_home(
        Some(datacenter("IAD")),
        vec![(datacenter("FRA"), counted(8))],
    );
    let held = before.grant(&datacenter("IAD"));
    assert!(held.is_home);
    let again = Root::adopt(&held, &datacenter("IAD"), NOW_MS);
    assert_eq!(again.home, Some(datacenter("IAD")));
    assert!(again.grant(&datacenter("IAD")).is_home);
    // What FRA held is in what home was granted, and FRA may not count.
    assert_eq!(again.operations.base(), Value::new(8, 0));
    assert_eq!(
        again.home_elsewhere(&datacenter("FRA")),
        Some(&datacenter("IAD"))
    );
    // Once it is known what FRA holds, its share is its own again, and home is granted the same.
    let mut again = again;
    again.hold(vec![(datacenter("FRA"), counted(8))]);
    assert!(!again.operations.has_base());
    assert_eq!(again.held, before.held);
    let rest = again.grant(&datacenter("IAD")).rest;
    assert_eq!(rest.to_string(), held.rest.to_string());
}

#[test]
fn a_rebuilt_root_lives_as_long_as_the_lost_one() {
    let fra = datacenter("FRA");
    let mut before = lost(&["FRA"]);
    before.settings.ttl = Some(Ttl {
        seconds: 60,
        mode: TtlMode::Fixed,
        set_at_ms: CREATED_MS,
    });
    let again = Root::adopt(&before.grant(&fra), &fra, NOW_MS);
    assert!(
        again.is_due(NOW_MS),
        "its end had come before the row was lost"
    );
}

#[test]
fn grants_of_generations_without_a_clock_have_a_creation_too() {
    let held = Grant {
        generation: u64::MAX,
        ..Grant::default()
    };
    let again = Root::adopt(&held, &datacenter("FRA"), NOW_MS);
    assert_eq!((again.generation, again.created_at_ms), (u64::MAX, NOW_MS));
}

#[test]
fn what_a_lead_says_of_the_future_is_not_taken() {
    let fra = datacenter("FRA");
    let state = |as_of_ms| {
        View::of(DatacenterState {
            generation: 1,
            datacenter: &fra,
            cells: &counted(5),
            as_of_ms,
            facts: CellFacts::written(NOW_MS - 1),
            uniques: Uniques::new(),
        })
    };
    for (said_ms, taken_ms) in [(NOW_MS - 3, NOW_MS - 3), (NOW_MS + 600_000, NOW_MS)] {
        let mut delta = Feed::new(state(said_ms), 7).since(&ReceiverState::Unknown);
        delta.not_after(NOW_MS);
        let part = delta.parts.first().and_then(|part| part.report);
        assert_eq!(part.map(|report| report.as_of_ms), Some(taken_ms));
        assert_eq!(
            part.map(|report| report.progress),
            Some(1),
            "what was counted stays"
        );
    }
}
