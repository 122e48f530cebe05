//! What cells of a datacenter hold, as exports carry it and imports bring it back.
//!
//! Invariant: contents that are installed in an empty cell and read again are the same. Minutes
//! are included only where they were asked for. Unique elements are those of all time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::samples::join_samples;
use super::total::Sum;
use crate::order::put_in_order;
use crate::sketch::{TopValues, Uniques, VALUES_MAX};

/// Buckets: first second, and what was counted.
pub type Points = Vec<(i64, u128)>;

/// What is read of a cell in addition to its totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentsWanted {
    /// Its hours and days, and its breakdowns of all time.
    pub history: bool,
    /// Its minutes that begin at this unix second or later.
    pub minutes_from: Option<i64>,
    /// Its unique elements of all time.
    pub uniques: bool,
    /// Its samples by the hour.
    pub samples: bool,
}

/// What cells hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Sum of increments.
    pub added: Sum,
    /// Sum of decrements.
    pub removed: Sum,
    /// Their newest write, unix milliseconds; `i64::MIN` for none.
    pub last_write_ms: i64,
    /// Minutes that were asked for.
    pub minutes: Points,
    /// Hours that are kept.
    pub hours: Points,
    /// Days that are kept.
    pub days: Points,
    /// From when the hours are complete, unix seconds; `i64::MIN` where nothing was let go.
    pub hours_from: i64,
    /// From when the days are.
    pub days_from: i64,
    /// Unique elements of all time.
    pub uniques: Uniques,
    /// Histograms at rest of the samples of hours, by their first seconds.
    pub samples: Vec<(i64, Vec<u8>)>,
    /// What was counted of the values of each dimension, of all time.
    pub breakdowns: Vec<(String, TopValues)>,
}

impl Default for Contents {
    fn default() -> Self {
        Self {
            added: Sum::ZERO,
            removed: Sum::ZERO,
            last_write_ms: i64::MIN,
            minutes: Points::new(),
            hours: Points::new(),
            days: Points::new(),
            hours_from: i64::MIN,
            days_from: i64::MIN,
            uniques: Uniques::new(),
            samples: Vec::new(),
            breakdowns: Vec::new(),
        }
    }
}

fn join_points(into: &mut Points, other: Points) {
    if into.is_empty() {
        *into = other;
        return;
    }
    let mut joined = BTreeMap::new();
    for (start, count) in std::mem::take(into).into_iter().chain(other) {
        let held: &mut u128 = joined.entry(start).or_default();
        *held = held.saturating_add(count);
    }
    into.extend(joined);
}

impl Contents {
    /// Adds what other cells hold.
    pub fn join(&mut self, other: Self) {
        self.added = self.added.plus(other.added);
        self.removed = self.removed.plus(other.removed);
        self.last_write_ms = self.last_write_ms.max(other.last_write_ms);
        join_points(&mut self.minutes, other.minutes);
        join_points(&mut self.hours, other.hours);
        join_points(&mut self.days, other.days);
        self.hours_from = self.hours_from.max(other.hours_from);
        self.days_from = self.days_from.max(other.days_from);
        self.uniques.merge(&other.uniques);
        for (hour, samples) in other.samples {
            match self.samples.iter_mut().find(|(known, _)| *known == hour) {
                Some((_, held)) => join_samples(held, samples),
                None => self.samples.push((hour, samples)),
            }
        }
        put_in_order(&mut self.samples, |(one, _), (other, _)| one.cmp(other));
        for (name, values) in other.breakdowns {
            match self.breakdowns.iter_mut().find(|(known, _)| *known == name) {
                Some((_, held)) => {
                    held.merge(values);
                    held.prune(VALUES_MAX);
                }
                None => self.breakdowns.push((name, values)),
            }
        }
        put_in_order(&mut self.breakdowns, |(one, _), (other, _)| one.cmp(other));
    }

    /// Whether they hold nothing that a cell could be sent.
    pub fn is_empty(&self) -> bool {
        let default = Self {
            last_write_ms: self.last_write_ms,
            ..Self::default()
        };
        *self == default
    }
}
