//! What happens to the calls of a body.

use proptest::collection::vec;
use proptest::prelude::*;

/// What happens to the calls of a body, by their number.
#[derive(Clone, Debug)]
pub struct Weather {
    pub elements_fail: Vec<bool>,
    pub late_fail: Vec<bool>,
    pub amounts_fail: Vec<bool>,
    /// Whether it fails, and if so whether it was counted all the same.
    pub keyed_fail: Vec<(bool, bool)>,
}

impl Weather {
    pub fn fine() -> Self {
        Self {
            elements_fail: vec![false],
            late_fail: vec![false],
            amounts_fail: vec![false],
            keyed_fail: vec![(false, false)],
        }
    }
}

pub fn weather() -> impl Strategy<Value = Weather> {
    let keyed = (any::<bool>(), any::<bool>());
    (
        vec(prop::bool::weighted(0.2), 1..6),
        vec(prop::bool::weighted(0.2), 1..6),
        vec(any::<bool>(), 1..4),
        vec(keyed, 1..4),
    )
        .prop_map(
            |(elements_fail, late_fail, amounts_fail, keyed_fail)| Weather {
                elements_fail,
                late_fail,
                amounts_fail,
                keyed_fail,
            },
        )
}
