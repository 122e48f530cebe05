//! The sketch beside other implementations, all with 2^14 registers of a byte, on the same elements:
//! what an insert into a full sketch costs, and a merge of two full ones.
//!
//! `hash_and_insert` takes each with the hash that it comes with; `insert` hands all the same hash, so that
//! it is of registers alone. What each estimates is compared with what was inserted.

use std::hash::{BuildHasher, Hasher};

use datasketches::hll::{HllSketch, HllType, HllUnion};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use hyperloglockless::HyperLogLog as Lockless;
use hyperloglogplus::{HyperLogLog, HyperLogLogPlus};
use tally_core::sketch::{HashKey, Sketch, Token, hash};

use crate::{Chance, THOUSAND};

const PRECISION: u8 = 14;

/// Six elements for each register: nearly all are above 0.
const FULL: usize = 100_000;

/// Makes a sketch, fills it, adds to it, merges it, counts it.
trait Peer: Clone {
    fn new() -> Self;
    fn insert(&mut self, hash: u64);
    fn hash_and_insert(&mut self, element: &[u8]);
    fn merge(&mut self, other: &Self);
    fn estimate(&mut self) -> f64;

    fn full(seed: u64) -> Self {
        let mut sketch = Self::new();
        Chance(seed).take(FULL).for_each(|hash| sketch.insert(hash));
        let ratio = sketch.estimate() / 100_000.0;
        // Four standard errors.
        assert!((0.967..1.033).contains(&ratio), "{ratio}");
        sketch
    }
}

#[derive(Clone)]
struct Tally(Sketch, HashKey);

impl Peer for Tally {
    fn new() -> Self {
        Self(Sketch::new(), HashKey::from(*b"a key of a bench"))
    }
    fn insert(&mut self, hash: u64) {
        self.0.insert(Token::from_hash(hash));
    }
    fn hash_and_insert(&mut self, element: &[u8]) {
        self.0.insert(Token::from_hash(hash(&self.1, element)));
    }
    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
    fn estimate(&mut self) -> f64 {
        self.0.estimate()
    }
}

/// Of `datasketches`. It takes values only, and merges into a union.
#[derive(Clone)]
struct Datasketches(HllUnion);

impl Peer for Datasketches {
    fn new() -> Self {
        Self(HllUnion::new(PRECISION).unwrap())
    }
    fn insert(&mut self, hash: u64) {
        self.0.update_value(hash);
    }
    fn hash_and_insert(&mut self, element: &[u8]) {
        self.0.update_value(element);
    }
    fn merge(&mut self, _: &Self) {
        unreachable!("a union merges sketches, see merge_datasketches");
    }
    fn estimate(&mut self) -> f64 {
        self.0.estimate()
    }
}

impl Peer for Lockless {
    fn new() -> Self {
        Lockless::seeded(PRECISION, 1)
    }
    fn insert(&mut self, hash: u64) {
        self.insert_hash(hash);
    }
    fn hash_and_insert(&mut self, element: &[u8]) {
        self.insert(element);
    }
    fn merge(&mut self, other: &Self) {
        self.union(other).unwrap();
    }
    fn estimate(&mut self) -> f64 {
        self.raw_count()
    }
}

/// Of `hyperloglogplus`, whose hash is whatever it is given: here the element's own.
struct Plus(HyperLogLogPlus<u64, Identity>);

#[derive(Clone, Copy)]
struct Identity;

impl BuildHasher for Identity {
    type Hasher = Held;
    fn build_hasher(&self) -> Held {
        Held(0)
    }
}

struct Held(u64);

impl Hasher for Held {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// 1,000 new elements into a full sketch, by their hash.
#[divan::bench(types = [Tally, Lockless])]
fn insert_1000<P: Peer>(bencher: Bencher) {
    let sketch = P::full(1);
    let hashes: Vec<u64> = Chance(2).take(1_000).collect();
    bencher
        .counter(ItemsCount::new(THOUSAND))
        .with_inputs(|| sketch.clone())
        .bench_local_refs(|sketch| {
            for hash in &hashes {
                sketch.insert(*black_box(hash));
            }
        });
}

/// The same of `hyperloglogplus`, which cannot be cloned: the first iteration adds, the others repeat.
#[divan::bench]
fn insert_1000_hyperloglogplus(bencher: Bencher) {
    let mut sketch = plus(1);
    let hashes: Vec<u64> = Chance(2).take(1_000).collect();
    bencher.counter(ItemsCount::new(THOUSAND)).bench_local(|| {
        for hash in &hashes {
            sketch.0.insert(black_box(hash));
        }
    });
}

/// 1,000 new elements of 12 bytes, hashed by each in its own way.
#[divan::bench(types = [Tally, Datasketches, Lockless])]
fn hash_and_insert_1000<P: Peer>(bencher: Bencher) {
    let sketch = P::full(1);
    let elements: Vec<String> = Chance(8)
        .take(1_000)
        .map(|number| format!("{number:0>20}").split_off(8))
        .collect();
    bencher
        .counter(ItemsCount::new(THOUSAND))
        .with_inputs(|| sketch.clone())
        .bench_local_refs(|sketch| {
            for element in &elements {
                sketch.hash_and_insert(black_box(element.as_bytes()));
            }
        });
}

/// A full sketch into another.
#[divan::bench(types = [Tally, Lockless])]
fn merge<P: Peer>(bencher: Bencher) {
    let (mine, theirs) = (P::full(3), P::full(4));
    bencher
        .with_inputs(|| mine.clone())
        .bench_local_refs(|mine| mine.merge(black_box(&theirs)));
}

#[divan::bench]
fn merge_datasketches(bencher: Bencher) {
    let sketch = |seed| {
        let mut sketch = HllSketch::new(PRECISION, HllType::Hll8).unwrap();
        Chance(seed)
            .take(FULL)
            .for_each(|value| sketch.update(value));
        sketch
    };
    let (mine, theirs) = (Datasketches::full(3), sketch(4));
    bencher
        .with_inputs(|| mine.clone())
        .bench_local_refs(|mine| mine.0.update(black_box(&theirs)));
}

/// It cannot be cloned: the first iteration merges, the others repeat.
#[divan::bench]
fn merge_hyperloglogplus(bencher: Bencher) {
    let (mut mine, theirs) = (plus(3), plus(4));
    bencher.bench_local(|| mine.0.merge(black_box(&theirs.0)).unwrap());
}

fn plus(seed: u64) -> Plus {
    let mut sketch = Plus(HyperLogLogPlus::new(PRECISION, Identity).unwrap());
    Chance(seed)
        .take(FULL)
        .for_each(|hash| sketch.0.insert(&hash));
    let ratio = sketch.0.count() / 100_000.0;
    assert!((0.967..1.033).contains(&ratio), "{ratio}");
    sketch
}
