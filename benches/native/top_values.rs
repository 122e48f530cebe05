//! Values that were counted most, merged over shards: whether the first twenty are the true ones, and what that costs.

use divan::{Bencher, black_box};
use tally_core::sketch::{TopValues, VALUES_MAX};

use crate::Chance;

const SHARDS: usize = 16;
const VALUES: u32 = 100_000;
const WRITES: usize = 200_000;
const STREAMS: u64 = 100;
const TOP: usize = 20;

/// The sums of the weights of Zipf's law with exponent 1.
fn sums() -> Vec<f64> {
    let mut sum = 0.0;
    let weights = (1..=VALUES).map(|rank| {
        sum += 1.0 / f64::from(rank);
        sum
    });
    weights.collect()
}

/// Whether the first twenty of a stream are the true ones; of several that were counted as often as the twentieth each
/// is as true.
///
/// Panics where a bound is broken.
fn is_true(seed: u64, sums: &[f64], names: &[String]) -> bool {
    let mut truth = vec![0_u128; names.len()];
    let mut shards: Vec<Vec<usize>> = vec![Vec::new(); SHARDS];
    let last = *sums.last().expect("values");
    // As often as rows are folded: a shard holds what it counted since, and its summary.
    let mut summaries = vec![TopValues::default(); SHARDS];
    for (number, random) in Chance(seed).take(WRITES).enumerate() {
        let unit = f64::from(u32::try_from(random >> 32).expect("32 bits")) / 4_294_967_296.0;
        let value = sums.partition_point(|sum| *sum < unit * last);
        truth[value] += 1;
        shards[number % SHARDS].push(value);
        let is_over = (number + 1) % (SHARDS * 1_000) == 0 || number + 1 == WRITES;
        for (shard, summary) in shards.iter_mut().zip(&mut summaries).filter(|_| is_over) {
            shard.sort_unstable();
            for equal in shard.chunk_by(usize::eq) {
                let amount = u128::try_from(equal.len()).expect("it is small");
                summary.add(&names[equal[0]], amount);
            }
            shard.clear();
            summary.prune(VALUES_MAX);
        }
    }
    let mut all = TopValues::default();
    for summary in summaries {
        all.merge(summary);
        all.prune(VALUES_MAX);
    }
    let mut rows: Vec<(usize, u128)> = Vec::new();
    for (name, row) in all.values() {
        let value: usize = name.parse().expect("a number");
        assert!(
            row.count <= truth[value] && row.count_max() >= truth[value],
            "seed {seed}: {name}"
        );
        rows.push((value, row.count));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.1));
    let mut sizes = truth.clone();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    rows.iter()
        .take(TOP)
        .all(|(value, _)| truth[*value] >= sizes[TOP - 1])
}

/// 100 streams of 200,000 writes with 100,000 values in 16 shards; how many of them have the true first twenty is
/// printed.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn hundred_zipf_streams(bencher: Bencher) {
    let sums = sums();
    let names: Vec<String> = (0..VALUES).map(|value| value.to_string()).collect();
    bencher.bench_local(|| {
        let right = (0..STREAMS)
            .filter(|seed| is_true(*seed, &sums, &names))
            .count();
        println!("the first {TOP} are the true ones in {right} of {STREAMS} streams");
        assert!(right >= 99, "{right} of {STREAMS}");
        black_box(right)
    });
}
