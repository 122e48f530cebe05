//! Law: the unique elements of a counter of 16 shards err by no more than 0.3 %, through cells, leads, the root and a
//! view, however its shards came to be, and wherever else the same elements were seen. All seeds are fixed, and none
//! was picked: they count up from 0.

use crate::common::following::nothing;
use tally_core::cluster::delta::feed::Feed;
use tally_core::cluster::delta::{Marks, ViewReceiver};
use tally_core::cluster::view::{DatacenterState, View};
use tally_core::counter::autoscale::shard_of_element;
use tally_core::counter::cell::CellState;
use tally_core::counter::flush::{Element, Load};
use tally_core::counter::grant::Grant;
use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::{CellFacts, Part, Question};
use tally_core::counter::nonces::Nonce;
use tally_core::sketch::{HashKey, STANDARD_ERROR, UniqueEstimate};
use tally_testing::chance::Chance;
use tally_testing::errors::{Errors, errors};

const NOW_MS: i64 = 1_777_593_630_000;

/// Writes that join in one flush.
const BATCH: usize = 50_000;

/// The cells of a datacenter.
struct Place {
    name: Datacenter,
    cells: Vec<CellState>,
    flushes: u64,
}

impl Place {
    fn new(name: &str) -> Self {
        let cell = || {
            let mut cell = CellState::default();
            let grant = Grant {
                generation: 1,
                ..Grant::default()
            };
            cell.take_grant(grant, NOW_MS);
            cell
        };
        Self {
            name: Datacenter::parse(name).unwrap(),
            cells: (0..16).map(|_| cell()).collect(),
            flushes: 0,
        }
    }

    /// Counts elements by their hashes, spread over so many shards.
    fn count(&mut self, hashes: &[u64], shards: u8) {
        let hash = HashKey::from([1; 16]).id();
        for some in hashes.chunks(BATCH) {
            let mut tokens = vec![Vec::new(); usize::from(shards)];
            for hashed in some {
                let shard = shard_of_element(*hashed, shards);
                tokens[usize::from(shard)].push((NOW_MS / 1_000, Element::of(*hashed)));
            }
            for (tokens, cell) in tokens.into_iter().zip(&mut self.cells) {
                cell.set_spread(shards);
                let load = Load {
                    added: 1,
                    tokens,
                    hash,
                    ..Load::default()
                };
                self.flushes += 1;
                let nonce = Nonce {
                    lane: 1,
                    number: self.flushes,
                };
                cell.apply(nonce, &load, NOW_MS).unwrap();
            }
        }
    }

    /// As the lead sums it.
    fn view(&self) -> View {
        let mut sum = Part::default();
        for (shard, cell) in (0..).zip(&self.cells) {
            let part = cell.answer(&Question::plain(1)).unwrap();
            sum.add(part.of_shard(shard));
        }
        View::of(DatacenterState {
            generation: 1,
            datacenter: &self.name,
            cells: &sum.cells,
            as_of_ms: NOW_MS,
            facts: CellFacts::written(NOW_MS),
            uniques: sum.uniques,
        })
    }
}

/// The estimate that a reader far away gets.
fn remote_estimate(places: &[Place]) -> UniqueEstimate {
    let mut root = ViewReceiver::new(View::new(1), Marks::new());
    for place in places {
        let feed = Feed::new(place.view(), 9);
        root.take(&place.name, &feed.since(&nothing()));
    }
    root.view().uniques().estimate()
}

fn hashes(seed: u64, count: usize) -> Vec<u64> {
    let mut random = Chance::of_run(seed);
    (0..count).map(|_| random.bits()).collect()
}

/// The error found is that stated, as far as so many runs tell.
fn is_stated(found: &Errors, stated: f64) {
    assert!(
        found.root_mean_square <= 1.4 * stated,
        "{} of {stated}",
        found.root_mean_square
    );
    assert!(
        found.mean.abs() <= 0.8 * stated,
        "{} of {stated}",
        found.mean
    );
}

#[test]
fn sixteen_shards_in_two_datacenters_err_by_no_more_than_three_in_a_thousand() {
    const ELEMENTS: usize = 120_000;
    let found = errors("16 shards, twice", 120_000.0, 16, |seed| {
        let all = hashes(seed, ELEMENTS);
        let mut places = [Place::new("FRA"), Place::new("IAD")];
        // A third of the elements comes to both.
        places[0].count(&all[..ELEMENTS * 2 / 3], 16);
        places[1].count(&all[ELEMENTS / 3..], 16);
        let estimate = remote_estimate(&places);
        assert!(
            estimate.standard_error <= 0.003 * estimate.estimate,
            "{estimate:?}"
        );
        estimate.estimate
    });
    assert!(
        found.root_mean_square <= 0.003,
        "{}",
        found.root_mean_square
    );
    is_stated(&found, STANDARD_ERROR / 4.0);
}

#[test]
fn a_counter_that_split_on_the_way_states_an_error_that_holds() {
    const ELEMENTS: usize = 120_000;
    let stated = std::cell::Cell::new(0.0);
    let found = errors("1, 2, 4, 8, 16 shards", 120_000.0, 16, |seed| {
        let all = hashes(seed, ELEMENTS);
        let mut places = [Place::new("FRA"), Place::new("IAD")];
        let mut begin = 0;
        for (shards, end) in [
            (1, 3_500),
            (2, 4_000),
            (4, 4_500),
            (8, 6_000),
            (16, ELEMENTS),
        ] {
            places[0].count(&all[begin..end], shards);
            begin = end;
        }
        // Another datacenter never split, and saw few.
        places[1].count(&all[..2_000], 1);
        let estimate = remote_estimate(&places);
        stated.set(estimate.standard_error / estimate.estimate);
        estimate.estimate
    });
    println!("stated: {}", stated.get());
    assert!(stated.get() <= 0.003, "{}", stated.get());
    is_stated(&found, stated.get());
}
