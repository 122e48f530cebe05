//! Unique elements of many shards: which estimates may be added, and which sketches must be merged.
//!
//! Invariants: an element is never counted twice, whichever shards and datacenters have seen it; and
//! [`Families`] only grow by joins of sketches, so that lost, repeated and reordered ones do no harm.
//!
//! An element goes to the shard that its *lot* names, a number drawn from its hash: the shard of N is the lot modulo N,
//! and N is a power of two. So the elements that a shard has seen are of one [`Class`]. Classes form a binary tree: the
//! classes of 2N are the halves of those of N.
//!
//! ```text
//! N = 1                 all
//! N = 2          0               1
//! N = 4      0       2       1       3
//! ```
//!
//! Two classes either have no element in common, or one contains the other. So
//!
//! - sketches of one class, of whatever datacenters and times, are merged by registers;
//! - a class and all that it contains are a *family*, which is estimated from all its sketches merged;
//! - families are disjoint, and their estimates are added. Their errors are independent: of 16 families
//!   alike the sum has 0.8125 % / √16 = 0.20 %, where all merged would have 0.8125 %.
//!
//! A sketch is reported with the widest class that it may hold: the class of the smallest N by which any of its
//! elements came to it ([`Class::joined`]). After N → 2N a shard's sketch still holds the class of N, and the sketch of
//! the new shard is of a half of that class: both are one family. After 2N → N the shard's class is that of N, and the
//! sketch of the sealed shard is of a half of it: again one family.
//!
//! If the halves of a family have seen most of its elements, there is a better estimate than that of all sketches
//! merged. It is the sum of the estimates of the halves, and of what the widest sketch adds to them. The latter is the
//! difference of the estimates of two merged sketches. Registers that the two have in common err alike. So with u
//! elements in all and c in the halves, the difference has the variance σ² · (u² − c²), and its error is independent of
//! that of the halves. (In simulations the variance was 0.93 to 1.11 of this, over 600 runs each with c from 0.5 u to
//! 0.995 u.) Of the two estimates the one with the smaller error is used. So a counter that was split early does not
//! keep the error of one sketch for ever: 16 shards that have seen all but 2 % of its elements give an error of 0.26 %.

use super::error::SketchError;
use super::estimate::STANDARD_ERROR;
use super::hyperloglog::Sketch;
use super::square_root::square_root;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The most shards among which a class is one: there are 2 · 64 − 1 = 127 classes.
const SHARDS_MAX: u8 = 64;

/// The elements whose lot leaves one residue modulo a power of two, 1 to 64.
///
/// Ordered so that a class comes before all that it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Class {
    shards: u8,
    shard: u8,
}

impl Class {
    /// The class of all elements: the class of a single shard, and of elements that came to a shard that their lot does
    /// not name.
    pub const ALL: Self = Self {
        shards: 1,
        shard: 0,
    };

    /// Returns the class of the elements that go to `shard` of so many; `None` where there is no such
    /// shard, or `shards` is no power of two up to 64.
    pub fn of_shard(shard: u8, shards: u8) -> Option<Self> {
        let is_class = shards.is_power_of_two() && shards <= SHARDS_MAX && shard < shards;
        is_class.then_some(Self { shards, shard })
    }

    /// Returns whether each element of `other` is of this class.
    pub fn contains(self, other: Self) -> bool {
        self.shards <= other.shards && other.shard % self.shards == self.shard
    }

    /// Returns the class of at most so many shards that contains this one. It is used in messages: sketches of 64
    /// shards would be 64 · 12,290 bytes, and those of 16 shards have an error of 0.2 % already.
    pub fn widened(self, shards_max: u8) -> Self {
        let mut shards = self.shards;
        while shards > shards_max.max(1) {
            shards /= 2;
        }
        Self {
            shards,
            shard: self.shard % shards,
        }
    }

    /// Returns the smallest class that contains both.
    pub fn joined(self, other: Self) -> Self {
        let mut shards = self.shards.min(other.shards);
        while shards > 1 && self.shard % shards != other.shard % shards {
            shards /= 2;
        }
        Self {
            shards,
            shard: self.shard % shards,
        }
    }
}

impl From<Class> for u8 {
    /// Returns the number of the class, 1 to 127, a stored format: its shards plus its shard, which
    /// numbers the tree from the root, row by row.
    fn from(class: Class) -> Self {
        class.shards + class.shard
    }
}

impl TryFrom<u8> for Class {
    type Error = SketchError;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        let row = number.checked_ilog2().map(|row| 1 << row);
        row.and_then(|shards| Self::of_shard(number - shards, shards))
            .ok_or(SketchError::of_class(number))
    }
}

/// An estimated number of unique elements, and its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UniqueEstimate {
    /// The number, finite and not negative, not rounded.
    pub estimate: f64,
    /// Its standard error, in elements.
    pub standard_error: f64,
}

/// The elements that were seen, by class: at most 127 sketches.
///
/// Merging is commutative, associative and idempotent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Families(BTreeMap<Class, Sketch>);

impl Families {
    /// Returns families that have seen nothing.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds what a shard has seen, all of this class, and returns whether something changed.
    pub fn add(&mut self, class: Class, sketch: &Sketch) -> bool {
        if sketch.is_empty() {
            // Equal families have equal parts.
            return false;
        }
        self.0.entry(class).or_default().merge(sketch)
    }

    /// Adds all that `other` has seen, and returns whether something changed.
    pub fn merge(&mut self, other: &Self) -> bool {
        // `|`, not `||`: every sketch has its effect.
        other.parts().fold(false, |changed, (class, sketch)| {
            self.add(class, sketch) | changed
        })
    }

    /// Returns the sketches, one for each class with elements, wider classes first.
    pub fn parts(&self) -> impl Iterator<Item = (Class, &Sketch)> {
        self.0.iter().map(|(class, sketch)| (*class, sketch))
    }

    /// Returns one sketch of all elements.
    pub fn union(&self) -> Sketch {
        let mut union = Sketch::new();
        for sketch in self.0.values() {
            union.merge(sketch);
        }
        union
    }

    /// Returns the estimated number of distinct elements, with its error.
    ///
    /// Cost: for each sketch at most two merges and two estimates.
    pub fn estimate(&self) -> UniqueEstimate {
        let parts: Vec<(Class, &Sketch)> = self.parts().collect();
        estimate(&parts)
    }
}

/// The estimate of sketches of distinct classes, wider ones first: see [`Families::estimate`].
pub(super) fn estimate(parts: &[(Class, &Sketch)]) -> UniqueEstimate {
    let seen = Joint::of(parts);
    UniqueEstimate {
        estimate: seen.estimate,
        standard_error: square_root(seen.variance),
    }
}

/// The elements that some sketches have seen together.
struct Joint {
    union: Sketch,
    estimate: f64,
    variance: f64,
}

impl Joint {
    fn nothing() -> Self {
        Self {
            union: Sketch::new(),
            estimate: 0.0,
            variance: 0.0,
        }
    }

    fn of_sketch(union: Sketch) -> Self {
        let estimate = union.estimate();
        let error = estimate * union.standard_error();
        Self {
            union,
            estimate,
            variance: error * error,
        }
    }

    /// The elements of sketches of distinct classes, wider ones first. A class contains itself, so each step takes at
    /// least one sketch. The recursion is no deeper than the seven rows of the tree.
    fn of(parts: &[(Class, &Sketch)]) -> Self {
        let mut sum = Self::nothing();
        let mut rest = parts.to_vec();
        while let Some(&(widest, sketch)) = rest.first() {
            let (mut family, others): (Vec<_>, Vec<_>) = rest
                .into_iter()
                .partition(|(class, _)| widest.contains(*class));
            family.remove(0);
            rest = others;
            let family = Self::of(&family).within(sketch);
            sum.union.merge(&family.union);
            sum.estimate += family.estimate;
            sum.variance += family.variance;
        }
        sum
    }

    /// The elements of these halves, and of a sketch of the class that contains them.
    fn within(self, wider: &Sketch) -> Self {
        let mut union = wider.clone();
        union.merge(&self.union);
        let merged = Self::of_sketch(union);
        let halves = Self::of_sketch(self.union);
        if !halves.union.is_dense() {
            return merged;
        }
        let added = merged.estimate - halves.estimate;
        let common = merged.estimate + halves.estimate;
        let variance = self.variance + STANDARD_ERROR * STANDARD_ERROR * added * common;
        if variance >= merged.variance {
            return merged;
        }
        Self {
            union: merged.union,
            estimate: self.estimate + added,
            variance,
        }
    }
}
