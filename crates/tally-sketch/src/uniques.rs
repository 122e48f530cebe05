//! The unique elements of a counter: sketches by hash and by class.
//!
//! Invariants: sketches that are merged by registers have one hash, or are marked as of several. An element of one hash
//! is never counted twice. [`Uniques`] only grow by joins, so that lost, repeated and reordered messages do no harm.
//!
//! Sketches of one hash are an *epoch*. How many elements two epochs have in common cannot be computed, because an
//! element has other registers under another key. So the estimates of epochs are added. A visitor counts once in each
//! epoch that saw it, and the answer states the number of epochs.
//!
//! Bounds: classes are of at most [`CLASS_SHARDS_MAX`] shards, so 2 · 16 − 1 = 31 for each hash, and hashes are at most
//! [`EPOCHS_MAX`]: 4 · 31 · (12,290 + 7) + 1 = 1,524,829 bytes at rest, below the 2 MB of a row; 12,298 for a counter
//! of one shard and one hash. A hash that would be one too many is *folded* into a sketch with the registers of several
//! hashes, [`HashId::SEVERAL`]. That sketch estimates the sum of its epochs, because to it each pair of hash and
//! element is an element of its own. The smallest hash is folded, in whatever order the hashes came. So folding is a
//! join too: a hash that is among the largest of all is also among the largest of those that any part has seen, and no
//! part has folded it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::difference::{Digests, NewItems};
#[cfg(feature = "redis")]
use super::estimate::STANDARD_ERROR;
use super::family::{self, Class, Families, UniqueEstimate};
use super::hash_id::HashId;
use super::hyperloglog::Sketch;
#[cfg(feature = "redis")]
use super::redis::Hll;
use super::square_root::square_root;
use super::token::Token;

mod format;

/// The most shards whose unique elements are estimated one by one. 16 have an error of 0.2 %; 64 would be four times as
/// many bytes.
pub const CLASS_SHARDS_MAX: u8 = 16;

/// The most epochs of one counter's uniques: three hashes by themselves, and one sketch of each class for all others.
pub const EPOCHS_MAX: usize = 4;

/// The source of tokens: the hash of their elements, and the class that the elements are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The hash.
    pub hash: HashId,
    /// The class.
    pub class: Class,
}

impl Source {
    /// Returns the source of elements that may be any.
    pub const fn of_all(hash: HashId) -> Self {
        let class = Class::ALL;
        Self { hash, class }
    }
}

/// What was packed of one sketch.
pub type PackedSketch = (Source, Vec<u8>);

/// Sketches by hash and class, none of them empty.
///
/// Merging is commutative, associative and idempotent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uniques(BTreeMap<Source, Sketch>);

impl Uniques {
    /// Returns uniques that have seen nothing.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns uniques that have seen the elements of this sketch.
    pub fn of(source: Source, sketch: Sketch) -> Self {
        let mut uniques = Self::new();
        uniques.add(source, &sketch);
        uniques
    }

    /// Whether no element was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sketches, by hash, wider classes first.
    pub fn parts(&self) -> impl Iterator<Item = (Source, &Sketch)> {
        self.0.iter().map(|(source, sketch)| (*source, sketch))
    }

    /// Returns the hashes of which elements were seen, ascending.
    pub fn hashes(&self) -> Vec<HashId> {
        let mut hashes: Vec<HashId> = self.0.keys().map(|source| source.hash).collect();
        hashes.dedup();
        hashes
    }

    /// Adds one element, and returns whether something changed.
    pub fn insert(&mut self, source: Source, token: Token) -> bool {
        let (target, has_folded) = self.target_of(source);
        self.0.entry(target).or_default().insert(token) | has_folded
    }

    /// Adds all that a sketch has seen, and returns whether something changed.
    pub fn add(&mut self, source: Source, sketch: &Sketch) -> bool {
        if sketch.is_empty() {
            // Equal ones have equal parts.
            return false;
        }
        let (target, has_folded) = self.target_of(source);
        self.0.entry(target).or_default().merge(sketch) | has_folded
    }

    /// Adds all that `other` has seen, and returns whether something changed. Cost: a merge for each part.
    pub fn merge(&mut self, other: &Self) -> bool {
        // `|`, not `||`: every sketch has its effect.
        other.parts().fold(false, |changed, (source, sketch)| {
            self.add(source, sketch) | changed
        })
    }

    /// The source whose sketch receives the elements of this source, and whether a hash was folded to make room for
    /// them.
    fn target_of(&mut self, source: Source) -> (Source, bool) {
        let class = source.class.widened(CLASS_SHARDS_MAX);
        let target = Source { class, ..source };
        if self.0.contains_key(&target) || target.hash == HashId::SEVERAL {
            return (target, false);
        }
        let mut apart = self.hashes();
        apart.retain(|hash| *hash != HashId::SEVERAL);
        let is_full = apart.len() >= EPOCHS_MAX - 1;
        match apart.first() {
            Some(&smallest) if is_full && !apart.contains(&target.hash) => {
                let hash = HashId::SEVERAL;
                if target.hash < smallest {
                    return (Source { hash, ..target }, false);
                }
                self.fold(smallest);
                (target, true)
            }
            _ => (target, false),
        }
    }

    fn fold(&mut self, folded: HashId) {
        let parts = core::mem::take(&mut self.0);
        for (source, sketch) in parts {
            let hash = match source.hash {
                hash if hash == folded => HashId::SEVERAL,
                hash => hash,
            };
            let held = self.0.entry(Source { hash, ..source }).or_default();
            held.merge(&sketch);
        }
    }

    /// Returns the families of one hash. Cost: a copy of its sketches.
    pub fn families(&self, hash: HashId) -> Families {
        let mut families = Families::new();
        for (source, sketch) in self.parts().filter(|(source, _)| source.hash == hash) {
            families.add(source.class, sketch);
        }
        families
    }

    /// Returns the number of epochs in which elements were seen. [`EPOCHS_MAX`] stands for that number or more.
    pub fn epochs(&self) -> usize {
        self.hashes().len()
    }

    /// Returns the estimated number of distinct elements, with its error: the sum over all epochs, so that an
    /// element that several of them saw counts in each.
    ///
    /// Cost: for each sketch at most two merges and two estimates.
    pub fn estimate(&self) -> UniqueEstimate {
        let mut estimate = 0.0;
        let mut variance = 0.0;
        for hash in self.hashes() {
            let parts = self.parts().filter(|(source, _)| source.hash == hash);
            let parts: Vec<(Class, &Sketch)> = parts
                .map(|(source, sketch)| (source.class, sketch))
                .collect();
            let epoch = match hash {
                #[cfg(feature = "redis")]
                HashId::REDIS => as_redis(&merged(&parts)),
                _ => family::estimate(&parts),
            };
            estimate += epoch.estimate;
            variance += epoch.standard_error * epoch.standard_error;
        }
        UniqueEstimate {
            estimate,
            standard_error: square_root(variance),
        }
    }

    /// Adds all that `other` has seen, and returns what was new in which sketch.
    pub fn merge_new(&mut self, other: &Self) -> Vec<(Source, NewItems)> {
        let mut news = Vec::new();
        for (source, sketch) in other.parts() {
            let target = self.target_in(source, &mut news);
            let new_items = self.0.entry(target).or_default().merge_new(sketch);
            news.push((target, new_items));
        }
        news
    }

    /// Adds what [`Uniques::pack`] has packed, and returns what was new in which sketch. Bytes that cannot be read were
    /// written by no build of Tally, and add nothing. A comparison of digests then finds what is missing.
    pub fn merge_packed(&mut self, packed: &[PackedSketch]) -> Vec<(Source, NewItems)> {
        let mut news = Vec::new();
        for (source, bytes) in packed {
            let class = source.class.widened(CLASS_SHARDS_MAX);
            let held = Source { class, ..*source };
            if let Some(sketch) = self.0.get_mut(&held) {
                news.extend(
                    sketch
                        .merge_packed(bytes)
                        .map(|new_items| (held, new_items)),
                );
                continue;
            }
            let mut part = Sketch::new();
            // Checked first, so that no sketch is empty and no hash is folded for nothing.
            if part.merge_packed(bytes).is_none() || part.is_empty() {
                continue;
            }
            let target = self.target_in(*source, &mut news);
            let new_items = self.0.entry(target).or_default().merge_new(&part);
            news.push((target, new_items));
        }
        news
    }

    fn target_in(&mut self, source: Source, news: &mut Vec<(Source, NewItems)>) -> Source {
        let (target, has_folded) = self.target_of(source);
        if has_folded {
            // Folded items no longer have names of their own.
            news.push((target, NewItems::Form));
        }
        target
    }

    /// Returns the names of all items, see [`Sketch::items`].
    pub fn items(&self) -> Vec<(Source, u32)> {
        let mut items = Vec::new();
        for (source, sketch) in self.parts() {
            items.extend(sketch.items().into_iter().map(|item| (source, item)));
        }
        items
    }

    /// Returns the items of these names packed; names may be in any order.
    pub fn pack(&self, items: impl IntoIterator<Item = (Source, u32)>) -> Vec<PackedSketch> {
        let mut names: BTreeMap<Source, Vec<u32>> = BTreeMap::new();
        for (source, item) in items {
            names.entry(source).or_default().push(item);
        }
        let pack = |(source, names)| {
            let packed = self.0.get(&source)?.pack(names);
            (!packed.is_empty()).then_some((source, packed))
        };
        names.into_iter().filter_map(pack).collect()
    }

    /// Returns the digests of all sketches.
    pub fn digests(&self) -> Vec<(Source, Digests)> {
        self.parts()
            .map(|(source, sketch)| (source, sketch.digests()))
            .collect()
    }

    /// Returns the names of the items in blocks whose digests differ from these.
    pub fn items_unlike(&self, theirs: &[(Source, Digests)]) -> Vec<(Source, u32)> {
        let mut items = Vec::new();
        for (source, sketch) in self.parts() {
            let digests = theirs.iter().find(|(of, _)| *of == source);
            let digests = digests.map_or(&[][..], |(_, digests)| digests);
            let names = sketch.items_unlike(digests);
            items.extend(names.into_iter().map(|item| (source, item)));
        }
        items
    }
}

#[cfg(feature = "redis")]
impl Uniques {
    /// Returns what `hll` has seen, as elements of Redis's hash in the class of all.
    pub fn from_hll(hll: &Hll) -> Self {
        Self::of(Source::of_all(HashId::REDIS), Sketch::from(hll))
    }

    /// Returns all registers of elements by Redis's hash, merged. `None` if elements of another hash were seen: Redis
    /// could not continue to count those. Cost: a merge for each part.
    pub fn hll(&self) -> Option<Hll> {
        let parts: Vec<(Class, &Sketch)> = self
            .parts()
            .map(|(source, sketch)| {
                (source.hash == HashId::REDIS).then_some((source.class, sketch))
            })
            .collect::<Option<_>>()?;
        Some(merged(&parts))
    }
}

/// All registers merged into one sketch, as Redis has them.
#[cfg(feature = "redis")]
fn merged(parts: &[(Class, &Sketch)]) -> Hll {
    let mut union = Hll::new();
    for (_, sketch) in parts {
        union.merge(&Hll::from(*sketch));
    }
    union
}

/// As Redis estimates: from all registers merged.
#[cfg(feature = "redis")]
fn as_redis(union: &Hll) -> UniqueEstimate {
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "an estimate, which has no more digits than an f64"
    )]
    let estimate = union.estimate() as f64;
    UniqueEstimate {
        estimate,
        standard_error: estimate * STANDARD_ERROR,
    }
}
