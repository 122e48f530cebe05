//! The laws of the sketch, each against a model that is too plain to be wrong: a set of tokens,
//! and a flag that something dense was merged in.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use tally_sketch::{HashKey, STANDARD_ERROR, Sketch, Token, hash};
use tally_testing::config;

const TOKENS_MAX: usize = 3_072;
const REGISTERS: usize = 16_384;

/// What a sketch should be, and its bytes at rest, written bit by bit.
#[derive(Clone, Default)]
struct Model {
    tokens: BTreeSet<Token>,
    dense: bool,
}

impl Model {
    fn add(&mut self, tokens: &[Token]) {
        self.tokens.extend(tokens);
        self.dense |= self.tokens.len() > TOKENS_MAX;
    }

    fn merge(&mut self, other: &Self) {
        self.dense |= other.dense;
        let tokens: Vec<Token> = other.tokens.iter().copied().collect();
        self.add(&tokens);
    }

    fn bytes(&self) -> Vec<u8> {
        if !self.dense {
            let tokens = self
                .tokens
                .iter()
                .flat_map(|token| token.bits().to_le_bytes());
            return [1, 0].into_iter().chain(tokens).collect();
        }
        let mut ranks = vec![0; REGISTERS];
        for token in &self.tokens {
            let rank = &mut ranks[usize::from(token.register())];
            *rank = token.rank().max(*rank);
        }
        let mut bytes = vec![0; REGISTERS * 6 / 8];
        for bit in 0..REGISTERS * 6 {
            let set = (ranks[bit / 6] >> (bit % 6)) & 1;
            bytes[bit / 8] |= set << (bit % 8);
        }
        [1, 1].into_iter().chain(bytes).collect()
    }
}

fn sketch_of(tokens: &[Token]) -> Sketch {
    let mut sketch = Sketch::new();
    for token in tokens {
        sketch.insert(*token);
    }
    sketch
}

fn merged(left: &Sketch, right: &Sketch) -> Sketch {
    let mut both = left.clone();
    both.merge(right);
    both
}

/// Consecutive elements of one universe, so that two draws often overlap.
fn elements(lengths: std::ops::Range<u32>) -> impl Strategy<Value = Vec<Token>> {
    (0..4_000_u32, lengths).prop_map(|(start, length)| {
        let key = HashKey::from([3; 16]);
        (start..start + length)
            .map(|number| Token::from_hash(hash(&key, &number.to_le_bytes())))
            .collect()
    })
}

/// Tokens of few registers and every rank, as no honest hash gives them.
fn crowded() -> impl Strategy<Value = Vec<Token>> {
    vec((0..4_u32, 0..64_u32, 0..=38_u32), 0..60).prop_map(|parts| {
        parts
            .iter()
            .filter_map(|(register, index, zeros)| {
                Token::from_bits((register << 18) | (index << 6) | zeros)
            })
            .collect()
    })
}

/// Small, near the bound of 3,072 from both sides, and large.
fn tokens() -> impl Strategy<Value = Vec<Token>> {
    prop_oneof![
        2 => crowded(),
        2 => elements(0..40),
        2 => elements(900..2_000),
        2 => elements(3_060..3_090),
        1 => elements(5_000..9_000),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<Token>),
    InsertMany(Vec<Token>),
    Merge(Vec<Token>),
    MergeTwice(Vec<Token>, Vec<Token>),
    Store,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        tokens().prop_map(Step::Insert),
        tokens().prop_map(Step::InsertMany),
        tokens().prop_map(Step::Merge),
        (tokens(), tokens()).prop_map(|(a, b)| Step::MergeTwice(a, b)),
        Just(Step::Store),
    ]
}

proptest! {
    #![proptest_config(config(2, 48))]

    #[test]
    fn merge_is_commutative(a in tokens(), b in tokens()) {
        let (a, b) = (sketch_of(&a), sketch_of(&b));
        prop_assert_eq!(merged(&a, &b).to_bytes(), merged(&b, &a).to_bytes());
    }

    #[test]
    fn merge_is_associative(a in tokens(), b in tokens(), c in tokens()) {
        let (a, b, c) = (sketch_of(&a), sketch_of(&b), sketch_of(&c));
        let left = merged(&merged(&a, &b), &c);
        let right = merged(&a, &merged(&b, &c));
        prop_assert_eq!(left.to_bytes(), right.to_bytes());
    }

    #[test]
    fn merge_is_idempotent(a in tokens(), b in tokens()) {
        let (a, b) = (sketch_of(&a), sketch_of(&b));
        let mut both = merged(&a, &b);
        let before = both.to_bytes();
        prop_assert!(!both.merge(&b) && !both.merge(&a) && !both.merge(&both.clone()));
        prop_assert_eq!(both.to_bytes(), before);
    }

    #[test]
    fn the_empty_sketch_is_neutral(a in tokens()) {
        let a = sketch_of(&a);
        prop_assert_eq!(merged(&Sketch::new(), &a).to_bytes(), a.to_bytes());
        prop_assert!(!a.clone().merge(&Sketch::new()));
    }

    #[test]
    fn merged_parts_are_the_whole(
        whole in tokens(),
        parts in 1..9_usize,
        seed in any::<[u8; 16]>(),
    ) {
        let key = HashKey::from(seed);
        let mut sketches = vec![Sketch::new(); parts];
        for token in &whole {
            // Every element goes to one or two parts.
            for salt in 0..2_u8 {
                let salted = [&token.bits().to_le_bytes()[..], &[salt]].concat();
                let [pick, ..] = hash(&key, &salted).to_le_bytes();
                sketches[usize::from(pick) % parts].insert(*token);
            }
        }
        let sum = sketches.iter().fold(Sketch::new(), |sum, part| merged(&sum, part));
        prop_assert_eq!(sum.to_bytes(), sketch_of(&whole).to_bytes());
    }

    #[test]
    fn order_and_repeats_do_not_matter(
        tokens in tokens(),
        turn in any::<u16>(),
        repeat in 0..20_usize,
    ) {
        let mut other = tokens.clone();
        other.reverse();
        other.rotate_left(usize::from(turn) % tokens.len().max(1));
        other.extend_from_within(..repeat.min(tokens.len()));
        prop_assert_eq!(sketch_of(&other).to_bytes(), sketch_of(&tokens).to_bytes());
        let mut at_once = Sketch::new();
        at_once.insert_many(&other);
        prop_assert_eq!(at_once.to_bytes(), sketch_of(&tokens).to_bytes());
    }

    #[test]
    fn bytes_and_changes_are_those_of_the_model(steps in vec(step(), 1..8)) {
        let (mut sketch, mut model) = (Sketch::new(), Model::default());
        for step in steps {
            let before = sketch.to_bytes();
            let changed = match &step {
                Step::Insert(tokens) => {
                    model.add(tokens);
                    tokens.iter().fold(false, |changed, token| sketch.insert(*token) | changed)
                }
                Step::InsertMany(tokens) => {
                    model.add(tokens);
                    sketch.insert_many(tokens)
                }
                Step::Merge(tokens) => {
                    let mut other = Model::default();
                    other.add(tokens);
                    model.merge(&other);
                    sketch.merge(&sketch_of(tokens))
                }
                Step::MergeTwice(one, two) => {
                    model.add(one);
                    model.add(two);
                    let first = sketch.merge(&sketch_of(one));
                    sketch.merge(&sketch_of(two)) | first
                }
                Step::Store => {
                    let stored = Sketch::from_bytes(&before);
                    sketch = stored.map_err(|error| TestCaseError::fail(error.to_string()))?;
                    false
                }
            };
            let after = sketch.to_bytes();
            prop_assert_eq!(changed, after != before);
            // `prop_assert_eq` would print 12,290 bytes.
            prop_assert!(after == model.bytes(), "{:?}, {} tokens", sketch, model.tokens.len());
            prop_assert_eq!(sketch.is_empty(), model.tokens.is_empty());
        }
    }

    #[test]
    fn each_insert_tells_whether_bytes_changed(
        tokens in prop_oneof![crowded(), elements(0..60)],
    ) {
        let dense: Vec<Token> = (0..3_073).filter_map(|n| Token::from_bits(n << 6)).collect();
        for mut sketch in [Sketch::new(), sketch_of(&dense)] {
            for token in &tokens {
                let before = sketch.to_bytes();
                let changed = sketch.insert(*token);
                prop_assert_eq!(changed, sketch.to_bytes() != before);
                prop_assert!(!sketch.insert(*token));
            }
        }
    }

    #[test]
    fn estimates_only_grow(a in tokens(), b in tokens()) {
        let (a, b) = (sketch_of(&a), sketch_of(&b));
        // Between a sparse and a dense sketch both estimates have their error.
        if a.standard_error() == merged(&a, &b).standard_error() {
            prop_assert!(merged(&a, &b).estimate() >= a.estimate());
        }
    }
}

#[test]
fn a_sketch_is_sparse_up_to_3072_tokens_and_dense_from_the_next() {
    let dense = |sketch: &Sketch| sketch.standard_error() == STANDARD_ERROR;
    let tokens: Vec<Token> = (0..3_073)
        .filter_map(|n| Token::from_bits(n << 6))
        .collect();
    let (last, all_but_last) = tokens.split_last().unwrap();
    let mut sketch = sketch_of(all_but_last);
    assert!(!dense(&sketch));
    let mut at_once = Sketch::new();
    at_once.insert_many(all_but_last);
    assert_eq!(at_once, sketch);
    assert_eq!(
        merged(
            &sketch_of(&all_but_last[..2_000]),
            &sketch_of(&all_but_last[1_000..])
        ),
        sketch
    );
    assert!(!sketch.insert(all_but_last[1_000]));
    assert!(!dense(&sketch), "a repeat adds no token");
    assert!(sketch.insert(*last));
    assert!(dense(&sketch));

    let mut few = sketch_of(&tokens[..2]);
    assert!(
        few.merge(&sketch),
        "merging a dense sketch changes the form"
    );
    assert!(dense(&few));
    assert_eq!(few.to_bytes(), sketch.to_bytes());
    let mut many = Sketch::new();
    many.insert_many(&tokens);
    assert_eq!(many.to_bytes(), sketch.to_bytes());
}
