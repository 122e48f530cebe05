//! Whole services whose counters lie in tablets.

use futures_util::future::join_all;
use tally_simulation::{Client, Faults, Options, Site, World, admin as client, deployed};

fn service(seed: u64, settings: &[(&str, &str)]) -> (World, Site) {
    let world = deployed(seed, Options::default());
    for (name, value) in settings {
        world.set(name, Some(value));
    }
    let site = world.site("FRA", 4);
    (world, site)
}

#[test]
fn a_hot_counter_splits_out_of_its_tablet_and_comes_back() {
    let settings = [
        ("TALLY_TABLETS", "2"),
        ("TALLY_SPLIT_FLUSHES_PER_SECOND", "10"),
        ("TALLY_QUIET_MS", "1000"),
    ];
    let (world, site) = service(1, &settings);
    let clients: Vec<Client> = (0..16).map(|_| client(&world, site)).collect();
    let shards = || {
        let read = world.run(clients[0].get("/counters/hot?consistency=strong"));
        let read = read.expect("no fault").json();
        assert_eq!(read["exact"], true, "{read}");
        (
            read["value"].as_u64(),
            read["datacenters"][0]["shards"].as_u64(),
        )
    };
    world.run(join_all(clients.iter().map(|client| async {
        for _ in 0..300 {
            let answer = client.post("/counters/hot/increment", "").await;
            assert_eq!(answer.expect("no fault").status, 200);
            world.sleep_ms(5).await;
        }
    })));
    let (value, loaded) = shards();
    assert_eq!(value, Some(4_800));
    assert!(loaded >= Some(4), "{loaded:?} shards");
    for second in 0..60 {
        world.run_for_ms(1_000);
        if shards().1 == Some(1) {
            eprintln!("one shard again after {second} s");
            return;
        }
    }
    panic!("still {:?} shards after a minute of rest", shards().1);
}

/// Statements that all objects of these kinds have run.
fn statements(world: &World) -> u64 {
    let objects = world.objects();
    objects.iter().map(|(_, _, statements, _)| statements).sum()
}

#[test]
fn many_counters_are_begun_told_of_and_found_again_by_few_statements() {
    const COUNTERS: u64 = 4_000;
    let (world, site) = service(5, &[("TALLY_TABLETS", "16")]);
    world.set_faults(Faults::NONE);
    let client = client(&world, site);
    let body: String = (0..COUNTERS)
        .map(|number| format!("{{\"key\":\"c{number}\"}}\n"))
        .collect();
    let count = || {
        let answer = world.run(client.post("/events", &body)).expect("no fault");
        assert_eq!(answer.json()["accepted"], COUNTERS);
    };
    let mut before = statements(&world);
    let mut since = || {
        let now = statements(&world);
        let run = now - std::mem::replace(&mut before, now);
        run * 100 / COUNTERS
    };
    count();
    let begun = since();
    world.run_for_ms(20_000);
    let told = since();
    world.restart(100);
    world.run_for_ms(200);
    let restarted = since();
    count();
    let again = since();
    eprintln!("of 100: {begun} begun, {told} told of, {restarted} with the restart, {again} again");
    // A root each; its total and its view; nothing but what reads and writes many.
    assert!(begun <= 125, "{begun} statements for 100 new counters");
    assert!(told <= 220, "{told} statements for 100 totals");
    assert!(again <= 10, "{again} statements for 100 known counters");
}
