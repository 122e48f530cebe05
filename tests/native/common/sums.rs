//! Sums of counters, as a read gives them, to be told in JSON.

use tally_api::public::Freshness;
use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{CellFacts, CellTotals, Part};
use tally_core::counter::settings::Settings;
use tally_core::sketch::{HashKey, Source, Token, Uniques, hash};
use tally_wire::messages::GlobalSum;

/// 1 May 2026, 00:00:30 UTC.
pub const NOW_MS: i64 = 1_777_593_630_000;

/// A sum that was begun for its reader, 20 ms ago.
pub const FRESH: Freshness = Freshness {
    as_of_ms: NOW_MS - 20,
    now_ms: NOW_MS,
    fresh: true,
};

/// A sum that was there before, 300 ms old.
pub const CACHED: Freshness = Freshness {
    as_of_ms: NOW_MS - 300,
    now_ms: NOW_MS,
    fresh: false,
};

/// The counter of that name.
pub fn id(text: &str) -> CounterId {
    CounterId::parse(text).expect("a counter id")
}

/// The datacenter of that name.
pub fn datacenter(name: &str) -> Datacenter {
    Datacenter::parse(name).expect("a datacenter")
}

/// These elements.
pub fn sketch(elements: std::ops::Range<u32>) -> Uniques {
    sketch_of(1, elements)
}

/// These elements, by another key.
pub fn sketch_of(key: u8, elements: std::ops::Range<u32>) -> Uniques {
    let key = HashKey::from([key; 16]);
    let mut uniques = Uniques::new();
    for element in elements {
        let hashed = hash(&key, &element.to_le_bytes());
        uniques.insert(Source::of_all(key.id()), Token::from_hash(hashed));
    }
    uniques
}

/// A datacenter with one cell of these totals.
pub fn part(added: u128, removed: u128) -> Part {
    Part {
        facts: CellFacts::written(NOW_MS - 1_000),
        cells: vec![(
            0,
            CellTotals {
                generation: 1,
                sequence: 9,
                added: added.into(),
                removed: removed.into(),
            },
        )],
        shards: 2,
        missing: Vec::new(),
        ..Part::default()
    }
}

/// A counter of these datacenters; `None` for one that does not answer.
pub fn sum(datacenters: Vec<(&str, Option<Part>)>) -> GlobalSum {
    GlobalSum {
        root: Root {
            generation: 1,
            created_at_ms: NOW_MS - 90_000,
            retry_end_ms: 0,
            inboxes: Default::default(),
            settings: Settings::default(),
            datacenters: datacenters
                .iter()
                .map(|(name, _)| datacenter(name))
                .collect(),
            last_write_ms: NOW_MS - 90_000,
            ..Root::create(None, 0)
        },
        datacenters: datacenters
            .into_iter()
            .map(|(name, part)| (datacenter(name), part))
            .collect(),
        is_whole: true,
        uniques: Uniques::new(),
        window_uniques: Uniques::new(),
        is_drained: true,
    }
}
