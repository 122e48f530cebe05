//! What a sketch costs in Wasm, as it ships: functions that `benches/sketch-wasm.mjs` calls with two numbers of rounds
//! each, so that what is made before the first round falls out of the difference.
//!
//! Built for wasm32 in the release profile, like the Worker itself.

#![expect(
    unsafe_code,
    reason = "an exported function needs a name of its own, which nothing else here has"
)]

use std::hint::black_box;

use tally_core::sketch::{Sketch, Token};
use tally_testing::chance::Chance;

/// Six for each register: a sketch of them is dense and full.
const ELEMENTS: usize = 100_000;

/// How many a round inserts.
const INSERTS: usize = 1_000;

fn tokens(seed: u64, count: usize) -> Vec<Token> {
    Chance(seed).take(count).map(Token::from_hash).collect()
}

fn full(seed: u64) -> Sketch {
    let mut sketch = Sketch::new();
    sketch.insert_many(&tokens(seed, ELEMENTS));
    sketch
}

/// Inserts 1,000 elements one by one into a dense sketch, so many times. Returns how many changed it.
#[unsafe(no_mangle)]
pub extern "C" fn insert_1000(rounds: u32) -> u32 {
    let (mut sketch, tokens) = (full(1), tokens(2, INSERTS));
    let mut changed = 0;
    for _ in 0..rounds {
        for token in black_box(&tokens) {
            changed += u32::from(sketch.insert(*token));
        }
    }
    changed
}

/// Inserts 1,000 elements at once into a dense sketch, so many times. Returns how many times it changed.
#[unsafe(no_mangle)]
pub extern "C" fn insert_many_1000(rounds: u32) -> u32 {
    let (mut sketch, tokens) = (full(1), tokens(2, INSERTS));
    let rounds = 0..rounds;
    let changes = rounds.map(|_| u32::from(sketch.insert_many(black_box(&tokens))));
    changes.sum()
}

/// Merges two dense sketches, so many times. Returns how many times it changed.
#[unsafe(no_mangle)]
pub extern "C" fn merge_dense(rounds: u32) -> u32 {
    let (mut sketch, other) = (full(1), full(3));
    let rounds = 0..rounds;
    let changes = rounds.map(|_| u32::from(sketch.merge(black_box(&other))));
    changes.sum()
}
