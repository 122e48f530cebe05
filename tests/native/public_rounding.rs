//! Laws of rounding: off it is nothing; on, what is told depends on what was rounded to and on nothing finer, errs by
//! half a step at most, says so, and keeps the order of estimates.

use crate::common;

use common::config;
use proptest::prelude::*;
use tally_api::number::Estimate;
use tally_api::public::{DIGITS_MAX, Rounding};

fn digits(digits: u8) -> Rounding {
    Rounding::parse(Some(&digits.to_string())).unwrap()
}

fn of(estimate: u64, relative_error: f64) -> Estimate {
    Estimate {
        estimate,
        standard_error: float(estimate) * relative_error,
        epochs: 1,
    }
}

#[expect(clippy::as_conversions, reason = "a test's own numbers")]
fn float(number: u64) -> f64 {
    number as f64
}

fn significant_digits(mut number: u64) -> usize {
    while number > 0 && number.is_multiple_of(10) {
        number /= 10;
    }
    number.to_string().len()
}

proptest! {
    #![proptest_config(config(7, 1_000))]

    #[test]
    fn off_it_changes_nothing(estimate: u64, error in 0.0..1e9) {
        let exact = Estimate { estimate, standard_error: error, epochs: 1 };
        prop_assert_eq!(Rounding::OFF.apply(exact), exact);
    }

    #[test]
    fn it_has_so_few_digits_is_near_and_says_how_near(
        estimate in prop_oneof![0..2_000u64, 0..10_000_000u64, 0..1u64 << 60],
        relative in 0.0..0.009,
        kept in 1..=DIGITS_MAX,
    ) {
        let exact = of(estimate, relative);
        let result = digits(kept).apply(exact);
        if result.estimate < u64::MAX / 2 {
            prop_assert!(significant_digits(result.estimate) <= kept.into(), "{result:?}");
        }
        prop_assert!(result.standard_error >= exact.standard_error, "{result:?} {exact:?}");
        let off = float(result.estimate.abs_diff(estimate));
        // Half a step. The stated error has a step over the square root of 12: half a step is less than twice that.
        prop_assert!(off <= 1.8 * result.standard_error, "{result:?} {exact:?}");
        prop_assert_eq!(digits(kept).apply(Estimate { estimate: result.estimate, ..exact }).estimate, result.estimate);
    }

    #[test]
    fn two_that_look_alike_look_quite_alike(
        estimate in 1_000..10_000_000u64,
        more in 0..1_000u64,
        kept in 1..=DIGITS_MAX,
    ) {
        let [one, other] = [estimate, estimate + more].map(|estimate| digits(kept).apply(of(estimate, 0.008_1)));
        prop_assert!(one.estimate <= other.estimate);
        if one.estimate == other.estimate {
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn what_errs_by_more_than_itself_is_rounded_as_its_error_is(
        estimate in 0..1_000u64,
        error in 1_000.0..1e7,
        kept in 1..=DIGITS_MAX,
    ) {
        let result = digits(kept).apply(Estimate { estimate, standard_error: error, epochs: 1 });
        prop_assert!(result.standard_error >= error);
        let again = digits(kept).apply(Estimate { estimate, standard_error: error * 1.000_1, epochs: 1 });
        prop_assert_eq!(result.estimate, again.estimate);
    }
}

#[test]
fn an_example() {
    let exact = Estimate {
        estimate: 12_345,
        standard_error: 99.4,
        epochs: 2,
    };
    let result = digits(2).apply(exact);
    assert_eq!((result.estimate, result.epochs), (12_000, 2));
    // A step of 1,000: sqrt((0.009 * 12,500)^2 + 1,000^2 / 12), for an own error of 0.81 %.
    assert_eq!(result.standard_error, 309.83);
    let small = Estimate {
        estimate: 42,
        standard_error: 0.01,
        epochs: 1,
    };
    assert_eq!(digits(2).apply(small), small);
}

#[test]
fn only_settings_that_can_be_read_are_taken() {
    for off in [None, Some("off")] {
        assert!(Rounding::parse(off).unwrap().is_off());
    }
    for bad in ["0", "4", "-1", "2.5", "two", "10%", "256"] {
        let refused = Rounding::parse(Some(bad)).unwrap_err();
        assert_eq!(refused.code().as_str(), "not-configured", "{bad}");
        assert!(refused.detail().contains("TALLY_UNIQUES_ROUNDING"));
    }
}
