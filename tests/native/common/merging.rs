//! The laws of a state-based CRDT, for whatever is merged out of messages.

use tally_core::counter::id::Datacenter;
use tally_core::counter::merge::CellTotals;

/// The datacenter of that number.
pub fn datacenter(number: u8) -> Datacenter {
    Datacenter::parse(&format!("DC{number}")).expect("a datacenter")
}

/// What a cell's totals are follows from who it is and when: one cell never says two things of one moment. Totals grow
/// with the sequence.
pub fn totals(place: u8, shard: u8, generation: u64, sequence: u64) -> CellTotals {
    let step = 1 + u128::from(place) * 5 + u128::from(shard) + u128::from(generation) * 100;
    CellTotals {
        generation,
        sequence,
        added: (u128::from(sequence) * step).into(),
        removed: (u128::from(sequence) * (step % 7)).into(),
    }
}

/// Makes `merged`, and a test of each law. `$messages` gives a strategy of lists of messages, `$of` puts a list of them
/// together into a `$state`, which has `merge`; `$seed` is the seed of the tests.
macro_rules! laws_of_merging {
    ($state:ty, $messages:ident, $of:ident, $seed:literal) => {
        fn merged(left: &$state, right: &$state) -> $state {
            let mut both = left.clone();
            both.merge(right);
            both
        }

        proptest! {
            #![proptest_config(config($seed, 256))]

            #[test]
            fn merge_is_commutative(a in $messages(), b in $messages()) {
                let (a, b) = ($of(&a), $of(&b));
                prop_assert_eq!(merged(&a, &b), merged(&b, &a));
            }

            #[test]
            fn merge_is_associative(a in $messages(), b in $messages(), c in $messages()) {
                let (a, b, c) = ($of(&a), $of(&b), $of(&c));
                prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
            }

            #[test]
            fn merge_is_idempotent(a in $messages(), b in $messages()) {
                let (a, b) = ($of(&a), $of(&b));
                let both = merged(&a, &b);
                prop_assert_eq!(&merged(&both, &b), &both);
                prop_assert_eq!(&merged(&both, &both), &both);
                prop_assert_eq!(merged(&<$state>::default(), &a), a);
            }

            #[test]
            fn lost_order_and_repeats_do_not_matter(
                messages in $messages().prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
                repeats in 0..20_usize,
            ) {
                let (list, mut other) = messages;
                other.extend_from_within(..repeats.min(other.len()));
                prop_assert_eq!($of(&list), $of(&other));
            }
        }
    };
}

pub(crate) use laws_of_merging;
