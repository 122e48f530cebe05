//! HyperLogLog: insert, merge, estimate and the form at rest, in both forms; and the keyed hash.
//!
//! Inserts and merges begin from the same sketch every time, so that each meets something new.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use tally_core::sketch::{HashKey, Sketch, Token, hash};

use crate::{Chance, THOUSAND};

/// Iterations of a sample where every one needs a sketch of its own. Fixed: making it can take longer
/// than what is measured, and the number would then grow without bound.
const SAMPLE: u32 = 8;

#[derive(Clone, Copy, Debug)]
enum Form {
    Sparse,
    Dense,
}

impl Form {
    /// Half of the 3,072 tokens that a sparse sketch holds; six per register of a dense one.
    fn sketch(self, seed: u64) -> Sketch {
        let elements = match self {
            Self::Sparse => 1_500,
            Self::Dense => 100_000,
        };
        let mut sketch = Sketch::new();
        sketch.insert_many(&tokens(seed, elements));
        sketch
    }
}

const FORMS: [Form; 2] = [Form::Sparse, Form::Dense];

fn tokens(seed: u64, count: usize) -> Vec<Token> {
    let hashes = Chance(seed).take(count);
    hashes.map(Token::from_hash).collect()
}

/// 1,000 new elements, one by one. A sparse sketch grows to 2,500 tokens and stays sparse.
#[divan::bench(args = FORMS, sample_size = SAMPLE)]
fn insert_1000(bencher: Bencher, form: Form) {
    let sketch = form.sketch(1);
    let tokens = tokens(2, 1_000);
    bencher
        .counter(ItemsCount::new(THOUSAND))
        .with_inputs(|| sketch.clone())
        .bench_refs(|sketch| {
            for token in &tokens {
                black_box(sketch.insert(*black_box(token)));
            }
        });
}

/// The same, all at once.
#[divan::bench(args = FORMS, sample_size = SAMPLE)]
fn insert_many_1000(bencher: Bencher, form: Form) {
    let sketch = form.sketch(1);
    let tokens = tokens(2, 1_000);
    bencher
        .counter(ItemsCount::new(THOUSAND))
        .with_inputs(|| sketch.clone())
        .bench_refs(|sketch| sketch.insert_many(black_box(&tokens)));
}

#[divan::bench(args = FORMS, sample_size = SAMPLE)]
fn merge_sparse_into(bencher: Bencher, mine: Form) {
    merge(bencher, mine, Form::Sparse);
}

#[divan::bench(args = FORMS, sample_size = SAMPLE)]
fn merge_dense_into(bencher: Bencher, mine: Form) {
    merge(bencher, mine, Form::Dense);
}

fn merge(bencher: Bencher, mine: Form, theirs: Form) {
    let (mine, theirs) = (mine.sketch(3), theirs.sketch(4));
    bencher
        .with_inputs(|| mine.clone())
        .bench_refs(|mine| mine.merge(black_box(&theirs)));
}

#[divan::bench(args = FORMS)]
fn estimate(bencher: Bencher, form: Form) {
    let sketch = form.sketch(5);
    bencher.bench(|| black_box(&sketch).estimate());
}

#[divan::bench(args = FORMS)]
fn to_bytes(bencher: Bencher, form: Form) {
    let sketch = form.sketch(6);
    bencher.bench(|| black_box(&sketch).to_bytes());
}

#[divan::bench(args = FORMS)]
fn from_bytes(bencher: Bencher, form: Form) {
    let bytes = form.sketch(7).to_bytes();
    bencher.bench(|| Sketch::from_bytes(black_box(&bytes)).unwrap());
}

/// 1,000 elements into tokens, each of so many bytes: 12 as of an address, 36 as of a UUID.
#[divan::bench(args = [12, 36])]
fn siphash_1000(bencher: Bencher, bytes: usize) {
    let key = HashKey::from(*b"a key of a bench");
    let text = |number: u64| format!("{number:0>36}").into_bytes();
    let elements: Vec<Vec<u8>> = Chance(8)
        .take(1_000)
        .map(|number| text(number).split_off(36 - bytes))
        .collect();
    bencher.counter(ItemsCount::new(THOUSAND)).bench(|| {
        for element in &elements {
            black_box(Token::from_hash(hash(&key, black_box(element))));
        }
    });
}
