//! How long a world takes: 60 objects, 300 messages, 300 writes.

mod common;

use common::world;
use futures_util::future::join_all;
use tally_simulation::{Faults, Options};

#[test]
#[ignore = "a measurement"]
fn worlds_a_second() {
    let worlds = 500;
    let begun = std::time::Instant::now();
    for seed in 0..worlds {
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
    let took = begun.elapsed();
    eprintln!(
        "{worlds} worlds in {took:?}, {:?} each",
        took / u32::try_from(worlds).expect("few")
    );
}
