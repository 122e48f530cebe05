//! Whole services: clients speak HTTP to edges of two datacenters, and every object is the real one.

use futures_util::future::join_all;
use tally::protocol::names;
use tally_simulation::{Client, Options, Site, World};

fn service(seed: u64) -> (World, [Site; 2]) {
    let world = World::new(seed, Options::default());
    if std::env::var_os("SEED").is_some() {
        world.keep_log(true);
    }
    world.register::<tally::objects::Cell>(names::CELLS);
    world.register::<tally::objects::Directory>(names::DIRECTORY);
    world.register::<tally::objects::Inbox>(names::INBOXES);
    world.register::<tally::objects::Limiter>(names::LIMITERS);
    world.register::<tally::objects::Watcher>(names::WATCHERS);
    world.set_aggregator(|host, arrived, _| async move {
        tally::aggregator::answer(&host, &arrived).await
    });
    world.set_edge(tally::edge::fetch);
    let keys = r#"{"keys":[{"key":"simulated-key-of-32-characters--","scopes":["admin"]}]}"#;
    world.set(names::KEYS, Some(keys));
    let sites = [world.site("FRA", 2), world.site("SYD", 2)];
    (world, sites)
}

fn client(world: &World, site: Site) -> Client {
    world.client(site).with_key("simulated-key-of-32-characters--")
}

#[test]
fn increments_of_two_datacenters_are_summed() {
    let (world, sites) = service(1);
    let clients = sites.map(|site| client(&world, site));
    let answers = world.run(join_all((0..40).map(|number| {
        let client = &clients[number % 2];
        async move { client.post("/counters/hits/increment", "").await.expect("no fault") }
    })));
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    world.run_for_ms(5_000);
    let read = world.run(clients[0].get("/counters/hits")).expect("no fault");
    assert_eq!(read.json()["value"], 40, "{}", read.text());
    eprintln!("{:?}", world.figures());
}
