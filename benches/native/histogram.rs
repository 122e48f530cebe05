//! Histograms of samples: insert, merge, quantile and the form at rest.
//!
//! Samples are times as services have them: spread evenly over the powers from 2^1 to 2^8, which fills 448 buckets,
//! or from 2^3 to 2^6.3, a factor of ten, 213 of them.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use tally_core::sketch::{Histogram, Sample};

use crate::{Chance, THOUSAND};

/// Iterations of a sample where every one needs a histogram of its own.
const SAMPLE: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum Spread {
    Tenfold,
    Wide,
}

const SPREADS: [Spread; 2] = [Spread::Tenfold, Spread::Wide];

impl Spread {
    fn samples(self, seed: u64, count: usize) -> Vec<Sample> {
        let (from, to) = match self {
            Self::Tenfold => (3.0, 3.0 + 10_f64.log2()),
            Self::Wide => (1.0, 8.0),
        };
        let part = |number: u64| f64::from(u32::try_from(number >> 32).unwrap()) / 2_f64.powi(32);
        let numbers = Chance(seed).take(count);
        let powers = numbers.map(|number| from + (to - from) * part(number));
        powers
            .map(|power| Sample::new(power.exp2()).unwrap())
            .collect()
    }

    fn histogram(self, seed: u64) -> Histogram {
        let mut histogram = Histogram::new();
        for sample in self.samples(seed, 20_000) {
            histogram.insert(sample);
        }
        assert_eq!(histogram.count(), 20_000);
        histogram
    }
}

/// 1,000 samples, one by one, of a histogram that has most of their buckets.
#[divan::bench(args = SPREADS, sample_size = SAMPLE)]
fn insert_1000(bencher: Bencher, spread: Spread) {
    let histogram = spread.histogram(1);
    let samples = spread.samples(2, 1_000);
    bencher
        .counter(ItemsCount::new(THOUSAND))
        .with_inputs(|| histogram.clone())
        .bench_refs(|histogram| {
            for sample in &samples {
                histogram.insert(*black_box(sample));
            }
        });
}

/// Two full ones.
#[divan::bench(args = SPREADS, sample_size = SAMPLE)]
fn merge(bencher: Bencher, spread: Spread) {
    let (one, other) = (spread.histogram(1), spread.histogram(2));
    bencher
        .with_inputs(|| one.clone())
        .bench_refs(|one| one.merge(black_box(&other)));
}

/// What a cell does for a flush of one sample: reads its minute's row, adds to it, writes it.
#[divan::bench(args = SPREADS)]
fn add_to_a_row(bencher: Bencher, spread: Spread) {
    let row = spread.histogram(1).to_bytes();
    let one = Histogram::of(Sample::new(20.5).unwrap());
    bencher.bench(|| {
        let mut histogram = Histogram::from_bytes(black_box(&row)).unwrap();
        histogram.merge(black_box(&one));
        histogram.to_bytes()
    });
}

/// What a cell does for a window of an hour: 60 rows, decoded and merged.
#[divan::bench(args = SPREADS)]
fn merge_60_rows(bencher: Bencher, spread: Spread) {
    let rows: Vec<Vec<u8>> = (0..60)
        .map(|seed| spread.histogram(seed).to_bytes())
        .collect();
    bencher.bench(|| {
        let mut all = Histogram::new();
        for row in black_box(&rows) {
            all.merge(&Histogram::from_bytes(row).unwrap());
        }
        all
    });
}

#[divan::bench(args = SPREADS)]
fn quantile(bencher: Bencher, spread: Spread) {
    let histogram = spread.histogram(1);
    bencher.bench(|| black_box(&histogram).quantile_per_mille(black_box(990)));
}
