//! Unique elements by hash and class: joins, folded hashes, and their bytes.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use common::config;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::counter::flush::Element;
use tally_core::sketch::{
    CLASS_SHARDS_MAX, Class, EPOCHS_MAX, HashId, HashKey, Hll, NewItems, Sketch, Source, Token,
    Uniques, hash, redis_hash,
};
use tally_wire::messages::{decode, encode};

/// An element, by the key that hashed it and the number of shards that it was spread over.
type Seen = (u8, u8, u16);

fn key(number: u8) -> HashKey {
    HashKey::from([number; 16])
}

fn seen((number, shards, element): Seen) -> (Source, Token) {
    let key = key(number);
    let element = Element::of(hash(&key, &element.to_le_bytes()));
    (element.source(key.id(), shards), element.token)
}

fn uniques(all: &[Seen]) -> Uniques {
    let mut uniques = Uniques::new();
    for one in all {
        let (source, token) = seen(*one);
        uniques.insert(source, token);
    }
    uniques
}

fn elements(keys: u8) -> impl Strategy<Value = Vec<Seen>> {
    let shards = prop_oneof![Just(1), Just(2), Just(8), Just(64)];
    vec((0..keys, shards, 0..500_u16), 0..60)
}

/// What each epoch has seen: the largest hashes by themselves, all others together.
fn by_epoch(all: &[Seen]) -> BTreeMap<HashId, BTreeSet<(HashId, Token)>> {
    let mut hashes: Vec<HashId> = all.iter().map(|one| seen(*one).0.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let apart = hashes.split_off(hashes.len().saturating_sub(EPOCHS_MAX - 1));
    let mut epochs: BTreeMap<HashId, BTreeSet<(HashId, Token)>> = BTreeMap::new();
    for one in all {
        let (source, token) = seen(*one);
        let epoch = if apart.contains(&source.hash) {
            source.hash
        } else {
            HashId::SEVERAL
        };
        epochs
            .entry(epoch)
            .or_default()
            .insert((source.hash, token));
    }
    epochs
}

proptest! {
    #![proptest_config(config(71, 300))]

    #[test]
    fn merging_is_a_join(a in elements(7), b in elements(7), c in elements(7)) {
        let [mine, theirs, others] = [&a, &b, &c].map(|all| uniques(all));
        let join = |one: &Uniques, other: &Uniques| {
            let mut both = one.clone();
            let changed = both.merge(other);
            assert_eq!(changed, both != *one, "it says whether something changed");
            both
        };
        let both = join(&mine, &theirs);
        prop_assert_eq!(&both, &join(&theirs, &mine));
        prop_assert_eq!(&both, &uniques(&[a.clone(), b.clone()].concat()), "as if one had seen all");
        prop_assert_eq!(join(&both, &others), join(&mine, &join(&theirs, &others)));
        prop_assert_eq!(join(&both, &mine), both.clone());
        prop_assert_eq!(join(&both, &both), both);
    }

    #[test]
    fn an_element_counts_once_in_its_epoch(all in elements(7)) {
        let uniques = uniques(&all);
        let epochs = by_epoch(&all);
        prop_assert_eq!(uniques.epochs(), epochs.len());
        prop_assert_eq!(uniques.hashes(), epochs.keys().copied().collect::<Vec<_>>());
        for (hash, elements) in &epochs {
            // Tokens of two hashes are two, unless by chance the same.
            let tokens: BTreeSet<Token> = elements.iter().map(|(_, token)| *token).collect();
            let mut union = Sketch::new();
            union.insert_many(&tokens.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(uniques.families(*hash).union(), union);
        }
        // Some elements came to shards of several numbers, which are families then.
        let count: usize = epochs.values().map(BTreeSet::len).sum();
        let found = uniques.estimate();
        prop_assert_eq!(found.estimate.round(), f64::from(u32::try_from(count).unwrap()));
    }

    #[test]
    fn bytes_are_read_back_and_are_as_many_as_told(all in elements(7)) {
        let uniques = uniques(&all);
        let bytes = uniques.to_bytes();
        prop_assert_eq!(bytes.len(), uniques.rest_bytes());
        prop_assert_eq!(Uniques::from_bytes(&bytes), Ok(uniques.clone()));
        let message = encode(&uniques).unwrap();
        prop_assert_eq!(&message, &encode(&bytes).unwrap());
        prop_assert_eq!(decode::<Uniques>(&message), Ok(uniques));
    }

    #[test]
    fn damaged_bytes_are_refused_or_are_other_elements(
        all in elements(7),
        at in any::<prop::sample::Index>(),
        bits in 1..=255_u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = uniques(&all).to_bytes();
        if !bytes.is_empty() {
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= bits;
            if let Ok(read) = Uniques::from_bytes(&damaged) {
                prop_assert_eq!(read.to_bytes(), damaged);
            }
            let cut = &bytes[..cut.index(bytes.len())];
            if let Ok(read) = Uniques::from_bytes(cut) {
                prop_assert_eq!(read.to_bytes(), cut);
            }
        }
    }

    #[test]
    fn learning_is_merging_and_names_what_is_new(a in elements(7), b in elements(7)) {
        let (mine, theirs) = (uniques(&a), uniques(&b));
        let mut both = mine.clone();
        both.merge(&theirs);
        let mut learner = mine.clone();
        let learnt = learner.merge_new(&theirs);
        prop_assert_eq!(&learner, &both);
        // Whoever followed is told the new items, unless names have been lost.
        let has_lost = learnt.iter().any(|(_, learnt)| *learnt == NewItems::Form);
        let items = learnt.into_iter().flat_map(|(source, learnt)| match learnt {
            NewItems::Items(items) => items.into_iter().map(|item| (source, item)).collect(),
            NewItems::Form => Vec::new(),
        });
        let packed = learner.pack(items);
        let mut follower = mine.clone();
        follower.merge_packed(&packed);
        if !has_lost {
            prop_assert_eq!(&follower, &both);
        }
        // Whoever did not follow tells its digests.
        let mut stranger = mine.clone();
        let lacking = both.items_unlike(&stranger.digests());
        stranger.merge_packed(&both.pack(lacking));
        prop_assert_eq!(&stranger, &both);
        let mut nobody = Uniques::new();
        nobody.merge_packed(&both.pack(both.items()));
        prop_assert_eq!(&nobody, &both);
        prop_assert_eq!(both.items_unlike(&both.digests()), vec![]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn uniques_at_rest_never_change() {
    assert!(Uniques::new().to_bytes().is_empty());
    let some = uniques(&[(1, 1, 1), (1, 64, 2), (2, 2, 3)]);
    assert_eq!(
        hex(&some.to_bytes()),
        "02b62530a4020600010080358f41576d63af010600010080a8683b576d63af1c06000100c0134070"
    );
    let refused = |bytes: &[u8]| Uniques::from_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        refused(&Sketch::new().to_bytes()),
        "a sketch of version 1; this program reads 2"
    );
    assert_eq!(refused(&[2]), "no sketch of this form has 1 bytes");
}

#[test]
fn sizes_at_rest_keep_their_limits() {
    let of = |count: u16| {
        uniques(
            &(0..count)
                .map(|element| (1, 1, element))
                .collect::<Vec<_>>(),
        )
    };
    for (count, bytes_max) in [
        (0, 0),
        (10, 60),
        (100, 450),
        (1_000, 4_096),
        (60_000, 12_304),
    ] {
        let bytes = of(count).to_bytes().len();
        assert!(bytes <= bytes_max, "{count} elements take {bytes} bytes");
    }
}

/// The arithmetic that the module opens with.
#[test]
fn the_most_that_uniques_can_hold_fits_into_a_row() {
    let tokens: Vec<Token> = (0..5_000_u64)
        .map(|number| Token::from_hash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let mut dense = Sketch::new();
    dense.insert_many(&tokens);
    let mut most = Uniques::new();
    for number in 0..6 {
        for class in (1..=127).map(|class| Class::try_from(class).unwrap()) {
            let hash = key(number).id();
            most.add(Source { hash, class }, &dense);
        }
    }
    let classes = 2 * usize::from(CLASS_SHARDS_MAX) - 1;
    assert_eq!(most.parts().count(), classes * EPOCHS_MAX);
    assert_eq!(most.to_bytes().len(), 1_524_829);
    assert_eq!(Uniques::from_bytes(&most.to_bytes()), Ok(most));
}

#[test]
fn a_sum_over_epochs_says_of_how_many_it_is() {
    let of = |number: u8| (0..200).map(move |element| (number, 1, element));
    let one: Vec<Seen> = of(1).collect();
    assert_eq!(uniques(&one).epochs(), 1);
    // The same visitors after a change of the key: nobody can tell that they are.
    let two: Vec<Seen> = of(1).chain(of(2)).collect();
    assert_eq!(uniques(&two).epochs(), 2);
    assert_eq!(uniques(&two).estimate().estimate.round(), 400.0);
}

#[test]
fn what_redis_hashed_is_estimated_as_redis_does() {
    let mut uniques = Uniques::new();
    let mut hll = Hll::new();
    for number in 0..10_000 {
        let hashed = redis_hash(format!("visitor {number}").as_bytes());
        let element = Element::by(HashId::REDIS, hashed);
        uniques.insert(element.source(HashId::REDIS, 16), element.token);
        hll.insert(element.token);
    }
    // What a real Redis 7.0 counts.
    assert_eq!(hll.estimate(), 9_988);
    assert_eq!(
        uniques.estimate().estimate,
        f64::from(u32::try_from(hll.estimate()).unwrap())
    );
    assert_eq!(uniques.parts().count(), 1, "one sketch of all shards");
}
