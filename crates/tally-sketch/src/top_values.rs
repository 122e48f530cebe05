//! Which values were counted most often, in bounded memory.
//!
//! Invariants: a value that is held was counted at least `count` and at most `count + error` times. A value that is not
//! held was counted at most [`TopValues::absent_max`] times. The counts held and [`TopValues::rest`] add up exactly to
//! all that was counted. While nothing was left out, all of it is exact. If `n` was counted in all and pruned to `k`
//! values, no count is off by more than `n / (k + 1)`, however the counts were split and merged.
//!
//! The values that may have been counted least are left out, as in Space-Saving. Beyond that, each value also keeps its
//! lower bound, and what is left out is summed in a row of its own. Sources: Metwally et al. 2005, "Efficient
//! computation of frequent and top-k elements in data streams"; Agarwal et al. 2012, "Mergeable summaries", section 2.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use serde::{Deserialize, Serialize};

/// The most values of one summary at rest.
pub const VALUES_MAX: usize = 1_000;

/// What is known of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueCount {
    /// How much was counted at least.
    pub count: u128,
    /// How much more it may be.
    pub error: u128,
}

impl ValueCount {
    /// How much was counted at most.
    pub fn count_max(self) -> u128 {
        self.count.saturating_add(self.error)
    }
}

/// Values with what was counted of each. A stored format.
///
/// ```
/// use tally_sketch::TopValues;
///
/// let mut countries = TopValues::default();
/// for country in ["NO", "SE", "DE", "NO", "SE", "NO"] {
///     countries.add(country, 1);
/// }
/// countries.prune(2);
/// let top = countries.top();
/// assert_eq!((top[0].0, top[0].1.count), ("NO", 3));
/// assert_eq!((top[1].0, top[1].1.count), ("SE", 2));
/// assert_eq!((countries.rest(), countries.absent_max()), (1, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopValues {
    values: BTreeMap<String, ValueCount>,
    rest: u128,
    absent_max: u128,
}

impl TopValues {
    /// The summary of these values. `rest` is what was counted of all others, and `absent_max` the most of any one of
    /// those.
    pub fn of(values: BTreeMap<String, ValueCount>, rest: u128, absent_max: u128) -> Self {
        Self {
            values,
            rest,
            absent_max,
        }
    }

    /// Counts a value. What is held grows: see [`TopValues::prune`].
    pub fn add(&mut self, value: &str, amount: u128) {
        let counted = ValueCount {
            count: amount,
            error: 0,
        };
        if let Some(held) = self.values.get_mut(value) {
            held.count = held.count.saturating_add(amount);
        } else {
            self.insert(value.to_owned(), counted, self.absent_max);
        }
    }

    /// Adds what another summary holds of other writes. What is held grows: see [`TopValues::prune`].
    pub fn merge(&mut self, other: Self) {
        let own_absent_max = self.absent_max;
        for (value, held) in &mut self.values {
            if !other.values.contains_key(value) {
                held.error = held.error.saturating_add(other.absent_max);
            }
        }
        for (value, counted) in other.values {
            self.insert(value, counted, own_absent_max);
        }
        self.add_rest(other.rest, other.absent_max);
    }

    /// Adds to a value. If the value is not held, at most `absent_max` of it was counted before.
    fn insert(&mut self, value: String, more: ValueCount, absent_max: u128) {
        match self.values.entry(value) {
            Entry::Occupied(mut held) => {
                let held = held.get_mut();
                held.count = held.count.saturating_add(more.count);
                held.error = held.error.saturating_add(more.error);
            }
            Entry::Vacant(vacant) => {
                vacant.insert(ValueCount {
                    count: more.count,
                    error: more.error.saturating_add(absent_max),
                });
            }
        }
    }

    /// Adds counts of unnamed values, at most `each_max` of any one of them.
    pub fn add_rest(&mut self, amount: u128, each_max: u128) {
        self.rest = self.rest.saturating_add(amount);
        self.absent_max = self.absent_max.saturating_add(each_max);
    }

    /// Keeps the `limit` values that may have been counted most, and leaves out the others. Cost: O(n log n) where
    /// there are more.
    pub fn prune(&mut self, limit: usize) {
        if self.values.len() <= limit {
            return;
        }
        let mut sizes: Vec<u128> = self.values.values().map(|held| held.count_max()).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let cut = sizes.get(limit).copied().unwrap_or(0);
        // Among values with the same upper bound, the first by name stay.
        let mut room = limit - sizes.iter().filter(|size| **size > cut).count();
        let mut left_out = 0_u128;
        self.values.retain(|_, held| {
            let is_kept = match held.count_max() {
                size if size > cut => true,
                size if size == cut && room > 0 => {
                    room -= 1;
                    true
                }
                _ => false,
            };
            if !is_kept {
                left_out = left_out.saturating_add(held.count);
            }
            is_kept
        });
        self.rest = self.rest.saturating_add(left_out);
        self.absent_max = self.absent_max.max(cut);
    }

    /// The values that are held, in order of their names.
    pub fn values(&self) -> impl Iterator<Item = (&str, ValueCount)> {
        let values = self.values.iter();
        values.map(|(value, counted)| (value.as_str(), *counted))
    }

    /// The values that are held, those with the largest count first, equal ones in order of their names. Cost:
    /// O(n log n).
    pub fn top(&self) -> Vec<(&str, ValueCount)> {
        let mut top: Vec<(&str, ValueCount)> = self.values().collect();
        // A stable sort: values come in order of their names.
        top.sort_by_key(|(_, counted)| Reverse(counted.count));
        top
    }

    /// How many values are held.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.rest == 0
    }

    /// What is known of a value, held or not.
    pub fn get(&self, value: &str) -> ValueCount {
        let absent = || ValueCount {
            count: 0,
            error: self.absent_max,
        };
        self.values.get(value).copied().unwrap_or_else(absent)
    }

    /// What was counted of values that are not held, and of values before they were held.
    pub fn rest(&self) -> u128 {
        self.rest
    }

    /// The most that was counted of any value that is not held.
    pub fn absent_max(&self) -> u128 {
        self.absent_max
    }

    /// All that was counted.
    pub fn sum(&self) -> u128 {
        let counts = self.values.values().map(|held| held.count);
        counts.fold(self.rest, u128::saturating_add)
    }
}
