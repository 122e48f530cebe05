//! Whole services: clients speak HTTP to edges of two datacenters, and every object is the real one.

use futures_util::future::join_all;
use tally::protocol::names;
use tally_simulation::{Client, Options, Site, World};

fn service(seed: u64) -> (World, [Site; 2]) {
    let world = World::new(seed, Options::default());
    if std::env::var_os("SEED").is_some() {
        world.keep_log(true);
    }
    world.register::<tally::node::objects::Cell>(names::CELLS);
    world.register::<tally::node::objects::Directory>(names::DIRECTORY);
    world.register::<tally::node::objects::Inbox>(names::INBOXES);
    world.register::<tally::node::objects::Limiter>(names::LIMITERS);
    world.register::<tally::node::objects::Watcher>(names::WATCHERS);
    world.set_aggregator(|host, arrived, _| async move {
        tally::node::aggregator::answer(&host, &arrived).await
    });
    world.set_edge(tally::node::edge::fetch);
    let keys = r#"{"keys":[{"key":"simulated-key-of-32-characters--","scopes":["admin"]}]}"#;
    world.set(names::KEYS, Some(keys));
    let sites = [world.site("FRA", 2), world.site("SYD", 2)];
    (world, sites)
}

fn client(world: &World, site: Site) -> Client {
    world
        .client(site)
        .with_key("simulated-key-of-32-characters--")
}

#[test]
fn increments_of_two_datacenters_are_summed() {
    let (world, sites) = service(1);
    let clients = sites.map(|site| client(&world, site));
    let answers = world.run(join_all((0..40).map(|number| {
        let client = &clients[number % 2];
        async move {
            client
                .post("/counters/hits/increment", "")
                .await
                .expect("no fault")
        }
    })));
    for answer in &answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    world.run_for_ms(5_000);
    let read = world
        .run(clients[0].get("/counters/hits"))
        .expect("no fault");
    assert_eq!(read.json()["value"], 40, "{}", read.text());
    eprintln!("{:?}", world.figures());
}

/// What one world with faults came to: its fingerprint and its log.
fn faulty(seed: u64, log: bool) -> ((u64, u64, u64), Vec<String>, tally_simulation::Figures) {
    let (world, sites) = service(seed);
    if log {
        world.keep_log(false);
    }
    let clients = sites.map(|site| client(&world, site));
    let faults = tally_simulation::Faults::SOME;
    world.set_faults(faults);
    let acknowledged = world.run(join_all((0..60_usize).map(|number| {
        let (client, world) = (&clients[number % 2], &world);
        async move {
            world.sleep_ms(world.chance().below(5_000)).await;
            let counter = number % 5;
            let path = format!("/counters/hits-{counter}/increment");
            for _ in 0..20 {
                let ask = tally_simulation::Ask::new("POST", &path)
                    .header("idempotency-key", format!("write-{seed}-{number}"));
                match client.ask(ask).await {
                    Ok(answer) if answer.status == 200 => return Some(counter),
                    _ => world.sleep_ms(500).await,
                }
            }
            None
        }
    })));
    world.set_faults(tally_simulation::Faults::NONE);
    world.run_for_ms(120_000);
    let mut sums = [0_u64; 5];
    let mut unsure = 0;
    for counter in acknowledged {
        match counter {
            Some(counter) => sums[counter] += 1,
            None => unsure += 1,
        }
    }
    for (counter, sum) in sums.iter().enumerate() {
        let path = format!("/counters/hits-{counter}");
        let read = world.run(clients[0].get(&path)).expect("no fault");
        let value = read.json()["value"].as_u64().unwrap_or(0);
        assert!(
            (*sum..=*sum + unsure).contains(&value),
            "seed {seed}: {value} of {sum}, {unsure} unsure: {}",
            read.text()
        );
    }
    assert_eq!(world.crossed(), 0, "seed {seed}");
    (world.fingerprint(), world.log(), world.figures())
}

#[test]
fn with_faults_no_acknowledged_increment_is_lost_or_counted_twice() {
    let seeds: u64 = std::env::var("WORLDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    let begun = std::time::Instant::now();
    let mut last = None;
    for seed in 0..seeds {
        last = Some(faulty(seed, false).2);
    }
    eprintln!(
        "{seeds} worlds in {:?}; the last: {last:?}",
        begun.elapsed()
    );
}

#[test]
fn the_same_seed_is_the_same_service() {
    for seed in 0..5 {
        let (one, other) = (faulty(seed, true), faulty(seed, true));
        for (one, other) in one.1.iter().zip(&other.1) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(one.0, other.0, "seed {seed}");
    }
}
