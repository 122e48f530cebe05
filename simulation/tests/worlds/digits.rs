//! Amounts that tell which writes a value holds.
//!
//! Invariant: the write of slot `n` adds or takes `4^n`, and the n-th set puts the value to `n · 4^33`. So a value
//! has one digit for each write: 0 where it is not counted, 1 where it is, and anything else where it is counted
//! twice, or was never sent.

use std::collections::BTreeSet;

/// Slots of a counter: 4^31 is the largest power of 4 that one write may add (2^63).
pub const SLOTS: usize = 32;

/// The base of the digits.
const BASE: i128 = 4;

/// What the first set puts a value to; the digit between it and the slots stays 0.
const SET: i128 = 1 << 66;

/// What the write of a slot adds or takes.
pub fn amount(slot: usize) -> u64 {
    1 << (2 * slot)
}

/// What the set of a number, from 1, puts the value to.
pub fn set_to(number: usize) -> i128 {
    i128::try_from(number).expect("few sets") * SET
}

/// What a value holds: the set that it was put to last, 0 for none, and the slots of what is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub set: usize,
    pub slots: BTreeSet<usize>,
}

/// What a value holds; `signs` says of each slot whether it adds.
///
/// # Errors
/// Where no set and no writes make this value.
pub fn decode(value: i128, signs: &[bool]) -> Result<Held, String> {
    let mut rest = value;
    let mut held = Held::default();
    for slot in 0..SLOTS {
        let digit = rest.rem_euclid(BASE);
        rest = rest.div_euclid(BASE);
        match (digit, signs.get(slot)) {
            (0, _) => {}
            (1, Some(true)) => drop(held.slots.insert(slot)),
            (3, Some(false)) => {
                held.slots.insert(slot);
                rest += 1;
            }
            (digit, sign) => {
                return Err(format!(
                    "slot {slot} of {value} has the digit {digit}, and adds: {sign:?}"
                ));
            }
        }
    }
    held.set = usize::try_from(rest / BASE).map_err(|_| format!("{value} is below 0"))?;
    match rest % BASE {
        0 => Ok(held),
        digit => Err(format!("{value} has the digit {digit} above its slots")),
    }
}

#[test]
fn a_value_tells_its_writes() {
    let signs = [true, false, true, false];
    let value = set_to(3) + 1 - 4 - 64;
    let held = decode(value, &signs).expect("a value");
    assert_eq!((held.set, held.slots), (3, BTreeSet::from([0, 1, 3])));
    assert!(decode(2, &signs).is_err(), "counted twice");
    assert!(decode(-2 * 4, &signs).is_err(), "taken twice");
    assert!(decode(256, &signs).is_err(), "never sent");
    assert_eq!(decode(-4, &signs).map(|held| held.set), Ok(0));
}
