//! The law of deltas: whatever is lost, repeated, reordered or forgotten, the root comes to
//! hold the merge of all states, and a mark never claims more than its holder has.

use crate::common;
use crate::common::following;

use common::config;
use following::World;
use proptest::collection::vec;
use proptest::prelude::*;
use tally_core::cluster::view::View;

proptest! {
    #![proptest_config(config(52, 64))]

    #[test]
    fn lost_repeated_reordered_and_forgotten_deltas_converge(
        events in vec((0..21_u8, 0..8_usize, 0..10_000_u32), 0..120)
    ) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.run_until_quiet();
        let mut all = View::default();
        for (number, lead) in world.leads.iter().enumerate() {
            all.merge(&lead.state(number));
        }
        prop_assert_eq!(world.root.view(), &all);
    }
}
