//! Histograms: quantiles beside a sort of the samples, the laws of merging, and the form at rest.

use proptest::collection::vec;
use proptest::prelude::*;
use tally_sketch::{Histogram, MAX_RELATIVE_ERROR, SAMPLE_LIMIT, SAMPLE_MIN, Sample};
use tally_testing::config;

fn sample(value: f64) -> Sample {
    Sample::new(value).unwrap()
}

fn histogram(values: &[f64]) -> Histogram {
    let mut histogram = Histogram::new();
    for value in values {
        histogram.insert(sample(*value));
    }
    histogram
}

fn merged(one: &Histogram, other: &Histogram) -> Histogram {
    let mut merged = one.clone();
    merged.merge(other);
    merged
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refusal(bytes: &[u8]) -> String {
    match Histogram::from_bytes(bytes) {
        Ok(histogram) => format!("accepted as {histogram:?}"),
        Err(error) => error.to_string(),
    }
}

/// The smallest of the sorted values that `per_mille` of 1,000 do not exceed.
fn nearest_rank(sorted: &[f64], per_mille: usize) -> f64 {
    let rank = (sorted.len() * per_mille).div_ceil(1_000).max(1);
    sorted[rank - 1]
}

/// Values as they come (a few octaves), at the ends of buckets and of what can be a sample, and alike.
fn value() -> impl Strategy<Value = f64> {
    let anywhere = (SAMPLE_MIN.log2()..SAMPLE_LIMIT.log2()).prop_map(|power| power.exp2());
    let edge = (-30_i32..44, 0_u32..64, 0_u64..3).prop_map(|(power, part, beside)| {
        let start = f64::from(power).exp2() * (1.0 + f64::from(part) / 64.0);
        f64::from_bits(start.to_bits() - 1 + beside)
    });
    prop_oneof![
        4 => 1.0..1_000.0,
        2 => anywhere,
        2 => edge,
        1 => Just(0.0),
        1 => Just(12.5),
    ]
    .prop_map(|value: f64| match value {
        value if value < SAMPLE_MIN => 0.0,
        value => value.min(f64::from_bits(SAMPLE_LIMIT.to_bits() - 1)),
    })
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![vec(value(), 0..40), vec(value(), 40..400)]
}

proptest! {
    #![proptest_config(config(8, 256))]

    #[test]
    fn quantiles_are_within_the_bound(values in values(), per_mille in 0_u16..=1_000) {
        let histogram = histogram(&values);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        for quantile in [per_mille, 500, 900, 990, 999] {
            let Some(answer) = histogram.quantile_per_mille(quantile) else {
                prop_assert!(values.is_empty());
                continue;
            };
            let truth = nearest_rank(&sorted, usize::from(quantile));
            // Exactly: the bound needs no slack for rounding.
            prop_assert!((answer - truth).abs() <= MAX_RELATIVE_ERROR * truth, "{quantile}: {answer} for {truth}");
        }
    }

    #[test]
    fn count_and_extent_are_exact_and_the_mean_nearly(values in values()) {
        let histogram = histogram(&values);
        prop_assert_eq!(histogram.count(), u64::try_from(values.len()).unwrap());
        prop_assert_eq!(histogram.min(), values.iter().copied().min_by(f64::total_cmp));
        prop_assert_eq!(histogram.max(), values.iter().copied().max_by(f64::total_cmp));
        let count = f64::from(u32::try_from(values.len()).unwrap());
        let truth = values.iter().map(|value| value / count).sum::<f64>();
        let answer = histogram.mean().unwrap_or(0.0);
        prop_assert!((answer - truth).abs() <= 1e-12 * truth + 2_f64.powi(-45), "{answer} for {truth}");
    }

    #[test]
    fn merging_is_commutative_and_associative(one in values(), two in values(), three in values()) {
        let (one, two, three) = (histogram(&one), histogram(&two), histogram(&three));
        prop_assert_eq!(merged(&one, &two), merged(&two, &one));
        prop_assert_eq!(merged(&merged(&one, &two), &three), merged(&one, &merged(&two, &three)));
        prop_assert_eq!(merged(&one, &Histogram::new()), one);
    }

    #[test]
    fn merging_is_seeing_all(values in values(), split in any::<prop::sample::Index>()) {
        let (some, others) = values.split_at(split.index(values.len() + 1));
        let whole = histogram(&values);
        prop_assert_eq!(&merged(&histogram(some), &histogram(others)), &whole);
        let one_by_one = values.iter().fold(Histogram::new(), |sum, value| {
            merged(&sum, &Histogram::of(sample(*value)))
        });
        prop_assert_eq!(one_by_one, whole);
    }

    #[test]
    fn bytes_come_back(values in values()) {
        let histogram = histogram(&values);
        prop_assert_eq!(Histogram::from_bytes(&histogram.to_bytes()), Ok(histogram));
    }

    #[test]
    fn what_is_read_is_what_would_be_written(
        values in vec(value(), 0..6),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = histogram(&values).to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = Histogram::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..60)) {
        if let Ok(read) = Histogram::from_bytes(&[&[1], bytes.as_slice()].concat()) {
            prop_assert_eq!(read.to_bytes()[1..].to_vec(), bytes);
        }
    }
}

#[test]
fn the_bound_is_met_and_not_beaten() {
    // The worst samples: at the lower end of the widest bucket of an octave, with others on either side.
    let histogram = histogram(&[0.5, 1.0, 1.0, 4.0]);
    assert_eq!(histogram.quantile_per_mille(500), Some(1.0 + 1.0 / 128.0));
    assert_eq!(MAX_RELATIVE_ERROR, 0.007_812_5);
}

#[test]
fn an_empty_histogram_tells_nothing() {
    let empty = Histogram::new();
    assert_eq!((empty.count(), empty.is_empty()), (0, true));
    assert_eq!((empty.min(), empty.max(), empty.mean()), (None, None, None));
    assert_eq!(empty.quantile_per_mille(500), None);
}

#[test]
fn few_samples_are_told_exactly() {
    let one = histogram(&[12.3]);
    for per_mille in [0, 500, 999, 1_000] {
        assert_eq!(one.quantile_per_mille(per_mille), Some(12.3));
    }
    assert_eq!(one.mean(), Some(12.3));
    let two = histogram(&[0.0, 100.0]);
    assert_eq!(
        (two.quantile_per_mille(500), two.quantile_per_mille(501)),
        (Some(0.0), Some(100.0))
    );
    assert_eq!(two.mean(), Some(50.0));
}

#[test]
fn what_can_be_no_sample_is_refused() {
    let below = f64::from_bits(SAMPLE_LIMIT.to_bits() - 1);
    for value in [0.0, -0.0, SAMPLE_MIN, 1.0, 1e13, below] {
        assert_eq!(sample(value).value(), value);
        assert_eq!(histogram(&[value]).max(), Some(value));
    }
    assert_eq!(sample(-0.0), sample(0.0));
    let tiny = f64::from_bits(SAMPLE_MIN.to_bits() - 1);
    for (value, why) in [
        (-1.0, "this one is negative"),
        (f64::NEG_INFINITY, "this one is negative"),
        (f64::NAN, "this is none"),
        (tiny, "too small"),
        (f64::MIN_POSITIVE, "too small"),
        (5e-324, "too small"),
        (SAMPLE_LIMIT, "too large"),
        (f64::INFINITY, "too large"),
    ] {
        let refused = Sample::new(value).unwrap_err().to_string();
        assert!(refused.contains(why), "{value}: {refused}");
    }
}

#[test]
fn the_sum_does_not_depend_on_the_order() {
    // Added as floating-point numbers these are 0 or 0.4, by their order.
    let values = [1e13, 0.1, 0.1, 0.1, 0.1];
    let turned: Vec<f64> = values.iter().rev().copied().collect();
    assert_eq!(histogram(&values), histogram(&turned));
    assert_eq!(histogram(&values).to_bytes(), histogram(&turned).to_bytes());
}

#[test]
fn bytes_never_change() {
    assert_eq!(hex(&Histogram::new().to_bytes()), "0100");
    assert_eq!(hex(&histogram(&[12.3]).to_bytes()), GOLDEN_ONE);
    let many: Vec<f64> = (0..1_000).map(|number| f64::from(number) / 8.0).collect();
    let bytes = histogram(&many).to_bytes();
    assert_eq!(hex(&bytes[..24]), GOLDEN_MANY_START);
    assert_eq!(hex(&bytes[bytes.len() - 24..]), GOLDEN_MANY_END);
    assert_eq!(bytes.len(), 663);
}

const GOLDEN_ONE: &str = "0101e310019a999999999928409a99999999992840cd99b3e6cc9931";
const GOLDEN_MANY_START: &str = "01bd020001c00d013f011f011f010f010f010f010f010701";
const GOLDEN_MANY_END: &str = "000000000000000000000000385f40808080808080969f0f";

#[test]
fn the_largest_histogram_keeps_its_limit() {
    let mut all = Histogram::of(sample(0.0));
    for power in -30_i32..44 {
        for part in 0..64 {
            let value = f64::from(power).exp2() * (1.0 + f64::from(part) / 64.0);
            all.insert(sample(value));
        }
    }
    assert_eq!(all.buckets(), 4_737);
    let mut doubled = all.clone();
    for _ in 0..63 {
        doubled = merged(&doubled, &doubled);
    }
    assert!(doubled.to_bytes().len() <= 56_882);
    assert_eq!(doubled.count(), u64::MAX, "it stays there");
    assert_eq!(
        Histogram::from_bytes(&doubled.to_bytes()),
        Ok(doubled.clone())
    );
    assert!(doubled.mean() <= doubled.max());
    // Past what a count can hold the laws hold too.
    assert_eq!(
        merged(&merged(&doubled, &doubled), &all),
        merged(&doubled, &merged(&doubled, &all))
    );
}

#[test]
fn malformed_bytes_are_refused() {
    let good = histogram(&[1.0, 2.0]).to_bytes();
    assert!(Histogram::from_bytes(&good).is_ok());
    for length in 0..good.len() {
        assert!(
            refusal(&good[..length]).contains("ends too early"),
            "{length}"
        );
    }
    let with = |index: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed.splice(index..index + 1, bytes.iter().copied());
        refusal(&changed)
    };
    assert_eq!(with(0, &[2]), "histogram version 2 is not known");
    assert!(with(1, &[0x82, 0]).contains("a number that is too long"));
    assert!(with(1, &[0xff, 0x7f]).contains("a bucket that there is not"));
    assert!(with(4, &[0]).contains("is empty"));
    let longer = [good.as_slice(), &[0]].concat();
    assert!(refusal(&longer).contains("bytes after its end"));
    // 1.0 and 2.0 the other way round; then a sum that is not 3.
    let bounds = good.len() - 16 - 7;
    let mut turned = good.clone();
    turned[bounds..bounds + 16].rotate_left(8);
    assert!(refusal(&turned).contains("bounds that do not fit"));
    assert!(with(good.len() - 1, &[0]).contains("too long"));
    let mut less = good.clone();
    less[good.len() - 1] -= 1;
    assert!(
        refusal(&less).contains("a sum that does not fit"),
        "{}",
        refusal(&less)
    );
}

#[test]
fn debug_output_tells_samples_and_no_buckets() {
    assert_eq!(format!("{:?}", Histogram::new()), "Histogram(0 samples)");
    let of_three = histogram(&[2.5, 1.0, 2_000.0]);
    assert_eq!(
        format!("{of_three:?}"),
        "Histogram(3 samples from 1.0 to 2000.0)"
    );
    assert_eq!(format!("{:?}", sample(2.5)), "Sample(2.5)");
}
