//! Laws of the values that were counted most: bounds hold however a stream is split, merged and pruned; nothing is
//! lost; the first of many are the true ones.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tally_sketch::{TopValues, VALUES_MAX};
use tally_testing::chance::Chance;
use tally_testing::config;

/// Values with amounts.
type Stream = Vec<(u16, u128)>;

fn counted(streams: &[Stream]) -> BTreeMap<String, u128> {
    let mut counted = BTreeMap::new();
    for (value, amount) in streams.iter().flatten() {
        *counted.entry(value.to_string()).or_default() += amount;
    }
    counted
}

fn check(
    top: &TopValues,
    truth: &BTreeMap<String, u128>,
    limit: u128,
) -> Result<(), TestCaseError> {
    let total: u128 = truth.values().sum();
    prop_assert_eq!(top.sum(), total);
    for (value, count) in truth {
        let known = top.get(value);
        prop_assert!(known.count <= *count, "{}: {:?} of {}", value, known, count);
        prop_assert!(
            known.count_max() >= *count,
            "{}: {:?} of {}",
            value,
            known,
            count
        );
    }
    prop_assert!(top.absent_max() <= total / (limit + 1));
    for (value, known) in top.values() {
        prop_assert!(known.error <= total / (limit + 1), "{}: {:?}", value, known);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(190, 256))]

    #[test]
    fn bounds_hold_however_a_stream_is_split_merged_and_pruned(
        streams in vec(vec((prop_oneof![0..8_u16, 0..400_u16], 1..20_u128), 0..120), 1..8),
        limit in 1..30_usize,
        prune_every in 1..40_usize,
        as_a_chain in any::<bool>(),
    ) {
        let truth = counted(&streams);
        let limit_wide = u128::try_from(limit).expect("it is small");
        let mut parts = Vec::new();
        for stream in &streams {
            let mut part = TopValues::default();
            for some in stream.chunks(prune_every) {
                for (value, amount) in some {
                    part.add(&value.to_string(), *amount);
                }
                part.prune(limit);
            }
            check(&part, &counted(std::slice::from_ref(stream)), limit_wide)?;
            prop_assert!(part.len() <= limit);
            parts.push(part);
        }
        // One after the other, or by twos.
        while parts.len() > 1 {
            let (one, other) = match as_a_chain {
                true => (parts.remove(0), parts.remove(0)),
                false => (parts.pop().expect("two"), parts.remove(0)),
            };
            let mut joined = one;
            joined.merge(other);
            joined.prune(limit);
            match as_a_chain {
                true => parts.insert(0, joined),
                false => parts.push(joined),
            }
        }
        check(&parts[0], &truth, limit_wide)?;
    }

    #[test]
    fn few_values_are_known_exactly_and_stay_so_at_rest(streams in vec(vec((0..30_u16, 1..9_u128), 0..60), 1..4)) {
        let truth = counted(&streams);
        let mut top = TopValues::default();
        for stream in &streams {
            let mut part = TopValues::default();
            for (value, amount) in stream {
                part.add(&value.to_string(), *amount);
            }
            part.prune(30);
            top.merge(part);
        }
        top.prune(30);
        let known: BTreeMap<String, u128> = top.values().map(|(value, row)| (value.to_owned(), row.count)).collect();
        prop_assert_eq!(known, truth);
        prop_assert!(top.values().all(|(_, row)| row.error == 0));
        prop_assert_eq!((top.rest(), top.absent_max()), (0, 0));
        let bytes = postcard::to_allocvec(&top).expect("bytes");
        prop_assert_eq!(postcard::from_bytes::<TopValues>(&bytes), Ok(top));
    }
}

/// Values by Zipf's law with exponent 1, drawn from their sums.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(values: u32) -> Self {
        let mut sum = 0.0;
        let weights = (1..=values).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Self(weights.collect())
    }

    fn draw(&self, chance: &mut Chance) -> usize {
        let unit = chance.bits() as f64 / u64::MAX as f64;
        let point = unit * self.0.last().expect("values");
        self.0.partition_point(|sum| *sum < point)
    }
}

#[test]
fn the_first_twenty_of_many_values_in_16_shards_are_the_true_ones() {
    const SHARDS: usize = 16;
    const VALUES: u32 = 100_000;
    // `make bench` runs 100 streams of twice as many writes, and ends where fewer than 99 have the true first twenty.
    const WRITES: usize = 100_000;
    let zipf = Zipf::new(VALUES);
    let streams = 8;
    for seed in 0..streams {
        let mut chance = Chance(seed);
        let mut truth = vec![0_u128; VALUES as usize];
        let mut shards = vec![TopValues::default(); SHARDS];
        for number in 0..WRITES {
            let value = zipf.draw(&mut chance);
            truth[value] += 1;
            let shard = &mut shards[number % SHARDS];
            shard.add(&value.to_string(), 1);
            // As often as rows are folded.
            if number % (SHARDS * 1_000) < SHARDS {
                shard.prune(VALUES_MAX);
            }
        }
        let mut all = TopValues::default();
        for mut shard in shards {
            shard.prune(VALUES_MAX);
            all.merge(shard);
            all.prune(VALUES_MAX);
        }
        let mut rows: Vec<(usize, u128)> = all
            .values()
            .map(|(value, row)| (value.parse().expect("a number"), row.count))
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.1));
        let mut sizes = truth.clone();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        // Of several that were counted as often as the twentieth each is as true.
        let is_true = |(value, _): &(usize, u128)| truth[*value] >= sizes[19];
        assert!(rows.iter().take(20).all(is_true), "seed {seed}");
        for (value, count) in &rows {
            let known = all.get(&value.to_string());
            assert!(
                *count <= truth[*value] && known.count_max() >= truth[*value],
                "seed {seed}: {value}"
            );
        }
    }
}

#[test]
fn the_top_are_those_with_the_largest_counts_and_equal_ones_go_by_name() {
    let mut top = TopValues::default();
    for (value, amount) in [("c", 2), ("d", 9), ("a", 2), ("b", 3)] {
        top.add(value, amount);
    }
    let names: Vec<&str> = top.top().iter().map(|(value, _)| *value).collect();
    assert_eq!(names, ["d", "b", "a", "c"]);
}
