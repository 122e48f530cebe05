//! Storage that goes out in the middle of what an object writes: what was acknowledged is there afterwards.

use tally_core::counter::id::{CounterId, Datacenter};
use tally_simulation::{ADMIN_KEY, Faults, Options, World, deploy};
use tally_wire::names;
use tally_wire::names::{CellAddress, TabletAddress};

/// How long storage is out, milliseconds.
const OUT_MS: u64 = 1_500;

/// A world whose only increment is counted as storage goes out, so many statements after the cell asked whether it
/// may count. Every message comes twice, so the increment waits twice for that.
fn acknowledged_and_read(seed: u64, statements: u64) -> (bool, u64) {
    let world = World::new(seed, Options::default());
    deploy(&world);
    let (near, far) = (world.site("FRA", 1), world.site("SYD", 1));
    let client = |site| world.client(site).with_key(ADMIN_KEY);
    // The root is far away, which takes the grant a while.
    world.set_distance(near, far, 500, 600);
    let made = world.run(client(far).post("/counters/hits/increment", ""));
    assert_eq!(made.expect("no fault").status, 200);
    world.set_faults(Faults {
        repeats_once_in: 1,
        ..Faults::NONE
    });
    let (near_client, far_client) = (client(near), client(far));
    let write = near_client.post("/counters/hits/increment", "");
    let outage = async {
        world.sleep_ms(300).await;
        let datacenter = Datacenter::parse("FRA").expect("a name");
        let lead = CellAddress::lead(&CounterId::parse("hits").expect("an id"), &datacenter);
        assert!(world.fail_storage(&names::cell(&lead), statements, OUT_MS));
    };
    let (answer, ()) = world.run(futures_util::future::join(write, outage));
    world.set_faults(Faults::NONE);
    world.run_for_ms(30_000);
    let read = world.run(far_client.get("/counters/hits?consistency=strong"));
    let read = read.expect("no fault");
    assert_eq!(read.json()["exact"], true, "{}", read.text());
    let value = read.json()["value"].as_u64().expect("a value");
    (answer.is_ok_and(|answer| answer.status == 200), value)
}

#[test]
fn healthz_is_503_while_storage_takes_no_writes_where_one_process_has_all_objects() {
    for has_all in [true, false] {
        let world = World::new(7, Options::default());
        deploy(&world);
        let site = world.site("FRA", 1);
        if has_all {
            world.set(names::OPEN_OBJECTS_MAX, Some("1000"));
        }
        let client = world.client(site).with_key(ADMIN_KEY);
        let health = || {
            world.run_for_ms(1_500);
            let answer = world.run(client.get("/healthz")).expect("no fault");
            (answer.status, answer.text())
        };
        assert_eq!(health().0, 200);
        assert!(world.fail_storage(&names::directory(0), 0, 10_000) || !has_all);
        let (status, text) = health();
        assert_eq!(status, if has_all { 503 } else { 200 }, "{text}");
        assert_eq!(text.contains("storage takes no writes"), has_all, "{text}");
        world.run_for_ms(20_000);
        assert_eq!(health().0, 200);
    }
}

#[test]
fn an_increment_is_acknowledged_only_once_it_is_stored() {
    let mut acknowledged = 0;
    for statements in 0..12 {
        for seed in 0..6 {
            let (is_acknowledged, value) = acknowledged_and_read(seed, statements);
            assert!(
                !is_acknowledged || value == 2,
                "seed {seed}, {statements} statements: it was acknowledged, and {value} is counted"
            );
            acknowledged += u64::from(is_acknowledged);
        }
    }
    assert!(acknowledged > 6, "few writes were acknowledged");
}

/// A flush that asks for a report is one turn of its tablet: the report is made before the turn is stored.
#[test]
fn nobody_reads_the_counts_of_a_report_that_was_made_before_its_turn_failed() {
    let world = World::new(5, Options::default());
    deploy(&world);
    world.set("TALLY_TABLETS", Some("2"));
    let (near, far) = (world.site("FRA", 1), world.site("SYD", 1));
    let client = |site| world.client(site).with_key(ADMIN_KEY);
    let event = |site, delta: u64| {
        let body = format!(r#"{{"id":"hits","delta":{delta}}}"#);
        let answer = world.run(client(site).post("/events", &body));
        answer.expect("no fault").json()["accepted"].clone()
    };
    // Counts of two datacenters are read from their reports.
    assert_eq!((event(near, 1), event(far, 1)), (1.into(), 1.into()));
    world.run_for_ms(5_000);
    let datacenter = Datacenter::parse("FRA").expect("a name");
    let tablets = (0..2).map(|number| TabletAddress {
        datacenter: datacenter.clone(),
        number,
    });
    let out = tablets.filter(|of| world.fail_storage(&names::tablet(of), 0, OUT_MS));
    assert_eq!(out.count(), 1, "one tablet has the counter");
    assert_eq!(event(near, 5), 0);
    world.run_for_ms(OUT_MS + 500);
    // A push is due after this one, of all that the cell wanted to report.
    assert_eq!(event(near, 1), 1);
    for second in 0..20 {
        for site in [near, far] {
            let read = world.run(client(site).get("/counters/hits"));
            let read = read.expect("no fault");
            let value = read.json()["value"].as_u64().expect("a value");
            assert!(value == 3 || value == 2 && second < 10, "{}", read.text());
        }
        world.run_for_ms(1_000);
    }
}
