//! How long a world takes: 60 objects, 300 messages, 300 writes.

mod common;

use common::world;
use futures_util::future::join_all;
use tally_simulation::{Faults, Options};

#[test]
#[ignore = "a measurement: its time is what counts"]
fn five_hundred_worlds() {
    for seed in 0..500 {
        let (world, near, far) = world(seed, Options::default());
        world.set_faults(Faults::NONE);
        let clients = [world.client(near), world.client(far)];
        let asks = (0..300).map(|number| {
            let client = &clients[number % 2];
            async move { client.post(&format!("/till-{}/add", number % 60), "").await }
        });
        world.run(join_all(asks));
        assert!(world.figures().rows_written >= 300);
    }
}
