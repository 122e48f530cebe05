//! Law: sums and values are exact, however wide, and are written in decimal.

use crate::common;

use std::cmp::Ordering;

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::total::{CellTotal, JAVASCRIPT_SAFE_MAX, Sum, Value};

/// A whole number of any size, not negative: decimal digits, least significant first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Plain(Vec<u8>);

impl Plain {
    fn of(number: u128) -> Self {
        Self(
            number
                .to_string()
                .bytes()
                .rev()
                .map(|digit| digit - b'0')
                .collect(),
        )
    }

    fn plus(&self, other: &Self) -> Self {
        let mut digits = Vec::new();
        let mut carry = 0;
        for place in 0..self.0.len().max(other.0.len()) {
            let digit = |of: &Self| of.0.get(place).copied().unwrap_or(0);
            let sum = digit(self) + digit(other) + carry;
            digits.push(sum % 10);
            carry = sum / 10;
        }
        if carry > 0 {
            digits.push(carry);
        }
        Self(digits)
    }

    /// Takes away a number that is not larger.
    fn minus(&self, other: &Self) -> Self {
        let mut digits = Vec::new();
        let mut borrow = 0;
        for (place, &digit) in self.0.iter().enumerate() {
            let less = other.0.get(place).copied().unwrap_or(0) + borrow;
            borrow = u8::from(digit < less);
            digits.push(digit + 10 * borrow - less);
        }
        while digits.len() > 1 && digits.last() == Some(&0) {
            digits.pop();
        }
        Self(digits)
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn text(&self) -> String {
        self.0
            .iter()
            .rev()
            .map(|digit| char::from(digit + b'0'))
            .collect()
    }
}

fn total<'a>(numbers: impl IntoIterator<Item = &'a u128>) -> Plain {
    numbers
        .into_iter()
        .fold(Plain::of(0), |sum, number| sum.plus(&Plain::of(*number)))
}

/// Added minus removed as text, and whether a JavaScript number holds it.
fn difference_of(added: &Plain, removed: &Plain) -> (String, bool) {
    let (magnitude, sign) = match added.compare(removed) {
        Ordering::Less => (removed.minus(added), "-"),
        _ => (added.minus(removed), ""),
    };
    let is_safe = magnitude.compare(&Plain::of(JAVASCRIPT_SAFE_MAX)) != Ordering::Greater;
    (format!("{sign}{}", magnitude.text()), is_safe)
}

fn numbers() -> impl Strategy<Value = Vec<u128>> {
    let number = prop_oneof![
        3 => any::<u128>(),
        2 => (0..9_u128).prop_map(|below| u128::MAX - below),
        2 => (0..4_u128).prop_map(|above| JAVASCRIPT_SAFE_MAX - 1 + above),
        2 => (0..128_u32).prop_map(|bit| 1 << bit),
        1 => 0..9_u128,
    ];
    vec(number, 0..12)
}

proptest! {
    #![proptest_config(config(21, 512))]

    #[test]
    fn sums_are_exact(numbers in numbers()) {
        let sum: Sum = numbers.iter().copied().map(Sum::from).sum();
        prop_assert_eq!(sum.to_string(), total(&numbers).text());
    }

    #[test]
    fn sums_are_exact_up_to_192_bits(start in numbers(), doublings in 0..60, end in numbers()) {
        let sum_of = |numbers: &[u128]| numbers.iter().copied().map(Sum::from).sum::<Sum>();
        let (mut sum, mut plain) = (sum_of(&start), total(&start));
        for _ in 0..doublings {
            (sum, plain) = (sum.plus(sum), plain.plus(&plain));
        }
        prop_assert_eq!(sum.plus(sum_of(&end)).to_string(), plain.plus(&total(&end)).text());
        prop_assert_eq!(sum.plus(sum_of(&end)), sum_of(&end).plus(sum));
    }

    #[test]
    fn values_are_exact_and_know_what_javascript_holds(
        added in numbers(), removed in numbers(),
    ) {
        let value = added.iter().map(|number| Value::new(*number, 0))
            .chain(removed.iter().map(|number| Value::new(0, *number)))
            .fold(Value::default(), Value::plus);
        let (text, is_safe) = difference_of(&total(&added), &total(&removed));
        prop_assert_eq!(value.to_string(), text);
        prop_assert_eq!(value.is_javascript_safe(), is_safe);
    }

    #[test]
    fn sizes_and_what_62_bits_hold_stand_in_the_order_of_values(
        one in any::<(u128, u128)>(),
        other in any::<(u128, u128)>(),
        shifts in (0..128_u32, 0..128_u32),
    ) {
        let value = |(added, removed): (u128, u128), shift| Value::new(added >> shift, removed >> shift);
        let (one, other) = (value(one, shifts.0), value(other, shifts.1));
        let (least, most) = if one.is_below(other) { (one, other) } else { (other, one) };
        prop_assert!(least.size() <= most.size());
        prop_assert!(least.within_62_bits() <= most.within_62_bits());
        prop_assert_eq!(least.negated().size(), -least.size());
        let text = least.within_62_bits().to_string();
        prop_assert!(text == least.to_string() || least.within_62_bits().unsigned_abs() == 1 << 62);
        prop_assert_eq!(least.is_beyond_62_bits(), text != least.to_string());
    }

    #[test]
    fn without_takes_back_what_came_later(
        added in numbers(), removed in numbers(), later in (any::<u128>(), any::<u128>()),
    ) {
        let sum_of = |numbers: &[u128]| numbers.iter().copied().map(Sum::from).sum::<Sum>();
        let before = Value::new(sum_of(&added), sum_of(&removed));
        let after = before.plus(Value::new(later.0, later.1));
        let back = after.without(later.0, later.1);
        prop_assert_eq!(back.to_string(), before.to_string());
        prop_assert_eq!(back.is_javascript_safe(), before.is_javascript_safe());
        // The amount need not be included for the arithmetic to hold.
        let (text, _) = difference_of(
            &total(&added).plus(&Plain::of(later.1)),
            &total(&removed).plus(&Plain::of(later.0)),
        );
        prop_assert_eq!(before.without(later.0, later.1).to_string(), text);
    }
}

#[test]
fn javascript_holds_up_to_2_to_the_53rd_less_one_on_both_sides() {
    let edge = 9_007_199_254_740_991;
    assert_eq!(JAVASCRIPT_SAFE_MAX, edge);
    for (magnitude, is_safe) in [
        (0, true),
        (edge, true),
        (edge + 1, false),
        (edge + 2, false),
    ] {
        assert_eq!(
            Value::new(magnitude, 0).is_javascript_safe(),
            is_safe,
            "{magnitude}"
        );
        assert_eq!(
            Value::new(0, magnitude).is_javascript_safe(),
            is_safe,
            "-{magnitude}"
        );
        let both = Value::new(u128::MAX, u128::MAX - magnitude);
        assert_eq!(
            both.is_javascript_safe(),
            is_safe,
            "the difference {magnitude}"
        );
    }
    // A low half of zero beside a high one is not small.
    let wide = Value::new(u128::MAX, 0).plus(Value::new(1, 0));
    assert!(!wide.is_javascript_safe());
    assert_eq!(wide.to_string(), "340282366920938463463374607431768211456");
}

#[test]
fn the_widest_sums_are_written_in_full() {
    let widest = Sum::from(u128::MAX);
    let twice = widest.plus(widest);
    assert_eq!(twice.to_string(), "680564733841876926926749214863536422910");
    assert_eq!(
        Value::new(0, twice).to_string(),
        "-680564733841876926926749214863536422910"
    );
    assert_eq!(Value::new(twice, twice).to_string(), "0");
    assert_eq!(Sum::ZERO.to_string(), "0");
}

proptest! {
    #![proptest_config(config(47, 512))]

    #[test]
    fn a_total_that_128_bits_hold_has_the_stored_form_that_it_always_had(
        total in any::<u128>(), bits in 0..128_u32, more in any::<u64>(),
    ) {
        let total = total >> bits;
        let bytes = postcard::to_allocvec(&(total, more)).expect("encoded");
        prop_assert_eq!(&postcard::to_allocvec(&(CellTotal::from(total), more)).expect("encoded"), &bytes);
        let read: (CellTotal, u64) = postcard::from_bytes(&bytes).expect("decoded");
        prop_assert_eq!(read, (CellTotal::from(total), more));
    }

    #[test]
    fn a_wider_total_is_read_as_it_was_written(amounts in vec(any::<u128>(), 0..2_000), more in any::<u64>()) {
        let total = amounts.iter().fold(CellTotal::ZERO, |total, amount| total.plus(*amount));
        let bytes = postcard::to_allocvec(&(total, more)).expect("encoded");
        let read: (CellTotal, u64) = postcard::from_bytes(&bytes).expect("decoded");
        prop_assert_eq!(read, (total, more));
    }

    #[test]
    fn no_bytes_break_the_reading_of_a_total(bytes in vec(any::<u8>(), 0..40)) {
        if let Ok(total) = postcard::from_bytes::<CellTotal>(&bytes) {
            let written = postcard::to_allocvec(&total).expect("encoded");
            prop_assert_eq!(postcard::from_bytes::<CellTotal>(&written), Ok(total));
        }
    }
}
