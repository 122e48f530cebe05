//! The laws of differences between sketches: what is learnt is the union, in few bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use tally_sketch::{BLOCKS, HashKey, NewItems, Sketch, Token, hash};
use tally_testing::config;

/// The form, the count, the parameter of 5 bits, then distances.
const GOLDEN_TOKENS: [u8; 15] = [0, 3, 29, 16, 0, 0, 240, 251, 255, 0, 254, 0, 0, 222, 63];
const GOLDEN_REGISTER: [u8; 4] = [1, 1, 160, 25];

/// The sketch of the elements `from..to`.
fn sketch(from: u32, to: u32) -> Sketch {
    let key = HashKey::from([7; 16]);
    let tokens = (from..to).map(|element| Token::from_hash(hash(&key, &element.to_le_bytes())));
    let mut sketch = Sketch::new();
    sketch.insert_many(&tokens.collect::<Vec<_>>());
    sketch
}

fn union(one: &Sketch, other: &Sketch) -> Sketch {
    let mut both = one.clone();
    both.merge(other);
    both
}

/// Ranges that make small and dense sketches, overlapping or not.
fn range() -> impl Strategy<Value = (u32, u32)> {
    let ends = prop_oneof![0..40_u32, 2_990..3_100_u32, 5_000..40_000_u32];
    (0..6_000_u32, ends).prop_map(|(from, count)| (from, from + count))
}

proptest! {
    #![proptest_config(config(61, 48))]

    #[test]
    fn learning_a_sketch_is_merging_and_names_what_is_new(a in range(), b in range()) {
        let (a, b) = (sketch(a.0, a.1), sketch(b.0, b.1));
        let mut receiver = a.clone();
        let new_items = receiver.merge_new(&b);
        prop_assert_eq!(&receiver, &union(&a, &b));
        match new_items {
            NewItems::Items(items) => {
                prop_assert!(items.is_sorted());
                prop_assert_eq!(items.is_empty(), receiver == a);
                // What is named is enough to bring another up to date.
                let mut other = a.clone();
                prop_assert!(other.merge_packed(&receiver.pack(items)).is_some());
                prop_assert_eq!(&other, &receiver);
            }
            NewItems::Form => prop_assert_ne!(&receiver, &a),
        }
    }

    #[test]
    fn what_is_packed_is_learnt(a in range(), b in range()) {
        let (a, b) = (sketch(a.0, a.1), sketch(b.0, b.1));
        let mut receiver = a.clone();
        prop_assert!(receiver.merge_packed(&b.pack(b.items())).is_some());
        prop_assert_eq!(&receiver, &union(&a, &b));
    }

    #[test]
    fn digests_find_all_that_is_missing(a in range(), b in range()) {
        let (a, b) = (sketch(a.0, a.1), sketch(b.0, b.1));
        let mut receiver = a.clone();
        let names = b.items_unlike(&a.digests());
        prop_assert!(receiver.merge_packed(&b.pack(names)).is_some());
        prop_assert_eq!(&receiver, &union(&a, &b));
    }

    #[test]
    fn bytes_that_are_nothing_change_nothing(bytes in vec(any::<u8>(), 0..60), a in range()) {
        let a = sketch(a.0, a.1);
        let mut receiver = a.clone();
        match receiver.merge_packed(&bytes) {
            None => prop_assert_eq!(&receiver, &a),
            // What can be read is a sketch: adding it again is no news.
            Some(_) => {
                let known = receiver.clone();
                prop_assert_eq!(receiver.merge_packed(&bytes), Some(NewItems::Items(Vec::new())));
                prop_assert_eq!(&receiver, &known);
                prop_assert_eq!(Sketch::from_bytes(&receiver.to_bytes()), Ok(known));
            }
        }
    }
}

#[test]
fn equal_sketches_lack_nothing_and_have_a_digest_for_each_block() {
    for count in [0, 10, 3_000, 20_000] {
        let sketch = sketch(0, count);
        let digests = sketch.digests();
        assert_eq!(digests.len(), BLOCKS);
        assert_eq!(sketch.items_unlike(&digests), Vec::<u32>::new(), "{count}");
        assert_eq!(sketch.items_unlike(&[]), sketch.items(), "{count}");
    }
}

#[test]
fn one_new_element_makes_one_block_differ() {
    let before = sketch(0, 2_000);
    let after = sketch(0, 2_001);
    let names = after.items_unlike(&before.digests());
    let block = names[0] >> 26;
    assert!(names.iter().all(|name| name >> 26 == block), "{names:?}");
    assert!((1..150).contains(&names.len()), "{}", names.len());
}

/// Bytes as the changes of a dense sketch are packed, for each of these numbers of new elements.
#[test]
fn a_changed_register_takes_at_most_two_and_a_half_bytes() {
    // 20,000 elements are seen; then the next ones come. A quarter of new elements changes a register
    // at first, less later.
    for (seen, new) in [
        (20_000, 60),
        (20_000, 100),
        (20_000, 1_000),
        (20_000, 10_000),
        (4_000, 50),
        (300_000, 2_000),
    ] {
        let mut known = sketch(0, seen);
        let NewItems::Items(items) = known.merge_new(&sketch(seen, seen + new)) else {
            unreachable!("both forms are dense or tokens into dense");
        };
        let changed = items.len();
        let bytes = known.pack(items).len();
        let hundredths = 100 * bytes / changed;
        println!(
            "{seen} seen, {new} new: {changed} registers changed, {bytes} bytes, 0.01 × {hundredths} each"
        );
        assert!(changed >= 10, "{changed} changed");
        assert!(hundredths <= 250, "{hundredths} hundredths of a byte");
    }
}

/// Two builds exchange these bytes during a deploy.
#[test]
fn packed_bytes_are_pinned() {
    let token = |bits| Token::from_bits(bits).expect("a token");
    let mut small = Sketch::new();
    small.insert_many(&[token(0x0000_0040), token(0x0010_0000), token(0xffff_0001)]);
    assert_eq!(small.pack(small.items()), GOLDEN_TOKENS);
    let mut dense = sketch(0, 4_000);
    dense.insert(token(0x0004_0026));
    assert_eq!(dense.pack(vec![1]), GOLDEN_REGISTER);
    assert_eq!(dense.pack(Vec::new()), Vec::<u8>::new());
}
