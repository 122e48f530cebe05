//! Law: an amount is a whole number from 1 to 2^63, as a JSON number or its decimal string,
//! and nothing else.

use crate::common;

use common::config;
use proptest::prelude::*;
use tally_api::delta::parse_delta;
use tally_core::counter::total::DELTA_MAX;
use tally_wire::problem::Code;

#[test]
fn whole_numbers_are_read_as_numbers_and_as_strings() {
    for (json, delta) in [
        ("1", 1),
        ("9007199254740993", (1 << 53) + 1),
        ("9223372036854775808", DELTA_MAX),
        ("\"5\"", 5),
        ("\"0009223372036854775808\"", DELTA_MAX),
        ("1.0", 1),
        ("1e3", 1_000),
        ("1E+3", 1_000),
        ("1.50e1", 15),
        ("0.01e2", 1),
        ("100e-2", 1),
        ("9223372036854775808.000", DELTA_MAX),
    ] {
        assert_eq!(parse_delta(json), Ok(delta), "{json}");
    }
}

#[test]
fn anything_else_is_refused_with_its_reason() {
    let huge = "9".repeat(10_000);
    for (json, reason) in [
        ("0", "counts nothing"),
        ("\"0\"", "counts nothing"),
        ("\"000\"", "counts nothing"),
        ("-1", "is negative"),
        ("\"-1\"", "is negative"),
        ("-0", "is negative"),
        ("1.5", "is not a whole number"),
        ("15e-1", "is not a whole number"),
        ("1e", "is not a whole number"),
        ("1e400", "is too large"),
        ("1e41", "is too large"),
        ("12e+400", "is too large"),
        ("1.5e400", "is too large"),
        ("1e999999999999999999999", "is too large"),
        ("1e-999999999999999999999", "is not a whole number"),
        ("1e-400", "is not a whole number"),
        ("1e+", "is not a whole number"),
        ("\"1.0\"", "is not a whole number"),
        ("0.0", "counts nothing"),
        ("-1.0", "is negative"),
        ("1e30", "is too large"),
        ("\"1e3\"", "is not a whole number"),
        ("\"\"", "is not a whole number"),
        ("\" 5\"", "is not a whole number"),
        ("\"5 \"", "is not a whole number"),
        ("\"+5\"", "is not a whole number"),
        ("\"0x10\"", "is not a whole number"),
        ("\"1_000\"", "is not a whole number"),
        ("\"٣\"", "is not a whole number"),
        ("\"\\u0035\"", "is not a whole number"),
        ("\"\"5\"\"", "is not a whole number"),
        ("\"", "is not a whole number"),
        ("", "is not a whole number"),
        ("null", "is not a whole number"),
        ("true", "is not a whole number"),
        ("[1]", "is not a whole number"),
        ("{\"delta\":1}", "is not a whole number"),
        ("9223372036854775809", "is too large"),
        ("340282366920938463463374607431768211455", "is too large"),
        ("\"9223372036854775809\"", "is too large"),
        (&huge, "is too large"),
    ] {
        let problem = parse_delta(json).expect_err(json);
        assert_eq!(problem.code(), Code::InvalidDelta, "{json}");
        assert!(
            problem.detail().ends_with(reason),
            "{json}: {}",
            problem.detail()
        );
        assert!(problem.detail().len() < 200, "what is quoted is bounded");
    }
}

proptest! {
    #![proptest_config(config(121, 512))]

    #[test]
    fn every_amount_is_read_exactly(delta in 1..=DELTA_MAX) {
        prop_assert_eq!(parse_delta(&delta.to_string()), Ok(delta));
        prop_assert_eq!(parse_delta(&format!("\"{delta}\"")), Ok(delta));
        // 19 digits are the most that 2^63 has.
        for wrong in [format!("-{delta}"), format!("{delta}.5"), format!("1{delta:019}")] {
            prop_assert!(parse_delta(&wrong).is_err(), "{}", wrong);
        }
    }

    #[test]
    fn no_text_breaks_it(text in "\\PC{0,60}") {
        let digits = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&text);
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        prop_assert!(is_plain || parse_delta(&text).is_err());
    }
}
