//! Whole services whose counters lie in tablets.

use futures_util::future::join_all;
use tally_simulation::{
    Client, ClientRequest, Faults, Figures, Options, Site, World, admin as client, deployed,
};

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
        ("TALLY_MERGE_AFTER_MS", "1000"),
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
        .map(|number| format!("{{\"id\":\"c{number}\"}}\n"))
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
    let pushes = since();
    world.restart(100);
    world.run_for_ms(200);
    let restarted = since();
    count();
    let again = since();
    eprintln!(
        "of 100: {begun} begun, {pushes} told of, {restarted} with the restart, {again} again"
    );
    // Nothing but what reads and writes many, and what each of 16 new partitions does once. A body is answered once its
    // counters are in lists and tops.
    assert!(begun <= 36, "{begun} statements for 100 new counters");
    assert!(pushes <= 10, "{pushes} statements after their reports");
    assert!(again <= 24, "{again} statements for 100 known counters");
}

/// Rows that all tablets have written, and all partitions.
fn rows(world: &World) -> [u64; 2] {
    ["TABLETS", "DIRECTORY"].map(|of| {
        let objects = world.objects();
        let own = objects.iter().filter(|(binding, ..)| *binding == of);
        own.map(|(.., rows)| rows).sum()
    })
}

#[test]
fn an_increment_of_a_cold_counter_by_itself_is_one_row_and_two_once_it_is_told() {
    const COUNTERS: u64 = 200;
    let (world, site) = service(11, &[("TALLY_TABLETS", "16")]);
    world.set_faults(Faults::NONE);
    let client = client(&world, site);
    let increment = |number| {
        let path = format!("/counters/c{number}/increment");
        assert_eq!(
            world.run(client.post(&path, "")).expect("no fault").status,
            200
        );
    };
    (0..COUNTERS).for_each(increment);
    // Leads push to the directory, and tablets fold their logs.
    world.run_for_ms(130_000);
    let mut before = rows(&world);
    let mut since = || {
        let now = rows(&world);
        let [tablets, partitions] = std::mem::replace(&mut before, now);
        [now[0] - tablets, now[1] - partitions]
    };
    (0..COUNTERS).for_each(increment);
    let [counted, partition_rows] = since();
    eprintln!(
        "{counted} rows of tablets and {partition_rows} of partitions for {COUNTERS} increments"
    );
    assert_eq!(partition_rows, 0);
    assert!(
        counted <= COUNTERS,
        "{counted} rows of tablets for {COUNTERS} increments"
    );
    world.run_for_ms(10_000);
    let [alarm_rows, partition_rows] = since();
    eprintln!("{alarm_rows} and {partition_rows} once they are told");
    // Alarms that ring together, and set the next, are a row of each tablet.
    assert!(
        alarm_rows <= 16 * 4,
        "{alarm_rows} rows of tablets for alarms"
    );
    // What leads push, and the total of it; besides, what isolates report of themselves.
    assert!(
        partition_rows <= 2 * COUNTERS + 40,
        "{partition_rows} rows of partitions for {COUNTERS} pushes"
    );
    world.run_for_ms(120_000);
    let [folded, _] = since();
    eprintln!("{folded} once they are folded");
    // The totals and three pages of each counter. The log costs none.
    assert!(
        folded <= 4 * COUNTERS,
        "{folded} rows for a fold of {COUNTERS} counters"
    );
}

const MANY: usize = 160;

/// So many counters with one visitor each, in four tablets, and how many messages something to them takes.
fn many_counters(seed: u64, ttl: Option<&str>) -> (World, Client) {
    let (world, site) = service(seed, &[("TALLY_TABLETS", "4")]);
    world.set_faults(Faults::NONE);
    let client = client(&world, site);
    let body: String = (0..MANY)
        .map(|number| format!("{{\"id\":\"c{number}\",\"unique\":\"visitor {number}\"}}\n"))
        .collect();
    if let Some(ttl) = ttl {
        let put = |number| ClientRequest::new("PUT", format!("/counters/c{number}")).json(ttl);
        let put = (0..MANY).map(|number| client.ask(put(number)));
        for answer in world.run(join_all(put)) {
            assert_eq!(answer.expect("no fault").status, 201);
        }
    }
    let answer = world.run(client.post("/events", &body)).expect("no fault");
    assert_eq!(answer.json()["accepted"], MANY);
    (world, client)
}

fn messages(world: &World) -> u64 {
    world.figures().all_messages()
}

#[test]
fn a_union_asks_partitions_and_tablets_and_not_each_counter() {
    let (world, client) = many_counters(7, None);
    world.run_for_ms(20_000);
    let ids: String = (0..100).map(|number| format!("&id=c{number}")).collect();
    for consistency in ["consistency=strong", ""] {
        let before = messages(&world);
        let path = format!("/uniques?{consistency}{ids}");
        let answer = world.run(client.get(&path)).expect("no fault").json();
        assert_eq!(answer["exact"], true, "{answer}");
        let estimate = answer["estimate"].as_u64();
        assert!(
            estimate.is_some_and(|estimate| (95..=105).contains(&estimate)),
            "{answer}"
        );
        let message_count = messages(&world) - before;
        eprintln!("{message_count} messages, {consistency:?}");
        // The aggregator, 16 partitions, four tablets.
        assert!(
            message_count <= 40,
            "{message_count} messages for a union of 100 counters"
        );
    }
}

#[test]
fn counters_that_expire_together_are_ended_by_few_messages() {
    for mode in ["fixed", "sliding"] {
        let ttl = format!(r#"{{"ttl_seconds":100,"ttl_mode":"{mode}"}}"#);
        let (world, client) = many_counters(8, Some(&ttl));
        world.run_for_ms(80_000);
        let before = messages(&world);
        world.run_for_ms(60_000);
        let ended = messages(&world) - before;
        eprintln!("{mode}: {ended} messages");
        for number in [0, MANY - 1] {
            let path = format!("/counters/c{number}?consistency=strong");
            let answer = world.run(client.get(&path)).expect("no fault");
            assert_eq!(answer.status, 404, "{}", answer.text());
        }
        // They were created within a second; each by itself was told to stop and of its end, and before was asked for
        // its last write.
        let most = if mode == "sliding" { 240 } else { 160 };
        assert!(ended <= most, "{ended} messages for {MANY} ends");
    }
}

#[test]
fn deletions_at_the_same_time_share_what_tablets_are_told() {
    let (world, client) = many_counters(9, None);
    world.run_for_ms(20_000);
    let before = world.figures();
    let delete = |number| ClientRequest::new("DELETE", format!("/counters/c{number}"));
    let deletions = (0..MANY).map(|number| client.ask(delete(number)));
    for answer in world.run(join_all(deletions)) {
        assert_eq!(answer.expect("no fault").status, 200);
    }
    let after = world.figures();
    let message_counts = ["/suspend", "/close", "/batch"].map(|path| {
        let of = |figures: &Figures| figures.messages.get(path).copied();
        of(&after).unwrap_or(0) - of(&before).unwrap_or(0)
    });
    eprintln!("{message_counts:?} messages of suspend, close, batch");
    let message_count: u64 = message_counts.iter().sum();
    assert!(
        message_count <= 200,
        "{message_count} messages for {MANY} deletions"
    );
}
