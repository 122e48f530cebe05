//! Lists in order are what a stable sort makes of them.

use proptest::prelude::*;
use tally_core::order::in_order;

proptest! {
    #[test]
    fn a_list_in_order_is_the_list_stably_sorted(items in prop::collection::vec((0u8..20, any::<u32>()), 0..200)) {
        let mut sorted = items.clone();
        sorted.sort_by_key(|item| item.0);
        prop_assert_eq!(in_order(items, |one, other| one.0.cmp(&other.0)), sorted);
    }
}
