//! What clients see of sets and resets, beside other operations and where what leads have pushed is older.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join;
use tally_simulation::{Client, ClientRequest, Options, Verdict, World, admin as client, deployed};

fn value(client: &Client, world: &World, edge: usize) -> u64 {
    let ask = ClientRequest::new("GET", "/counters/hits").at(edge);
    let read = world.run(client.ask(ask)).expect("no fault");
    read.json()["value"].as_u64().expect("a value")
}

fn put_to_100() -> ClientRequest {
    ClientRequest::new("PUT", "/counters/hits/value").json(r#"{"value":100}"#)
}

/// The deletion is done between the set and the read that the set is answered by. A world of seed 1465 had 404 for it.
#[test]
fn a_set_that_was_done_is_told_so_though_the_counter_has_ended_since() {
    let world = Rc::new(deployed(1, Options::default()));
    let client = client(&world, world.site("FRA", 2));
    let made = world.run(client.post("/counters/hits/increment", ""));
    assert_eq!(made.expect("no fault").status, 200);
    let (reads, sleeping) = (Cell::new(0), Rc::downgrade(&world));
    world.set_judge(move |judged| {
        reads.set(reads.get() + u64::from(judged.path == "/read-drained"));
        let is_held = judged.path == "/read-drained" && reads.get() == 2;
        let held_ms = if is_held { 1_000 } else { 0 };
        let held = sleeping.upgrade().expect("a world").sleep_ms(held_ms);
        Box::pin(async move {
            held.await;
            Verdict::Answered
        })
    });
    let deletion = async {
        world.sleep_ms(300).await;
        let ask = ClientRequest::new("DELETE", "/counters/hits");
        client.ask(ask).await.expect("no fault")
    };
    let (set, deleted) = world.run(join(client.ask(put_to_100()), deletion));
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    let set = set.expect("no fault");
    assert_eq!(set.status, 200, "{}", set.text());
    let answer = set.json();
    assert_eq!(
        (&answer["value"], &answer["exact"]),
        (&100.into(), &false.into())
    );
}

/// A set observes what leads have not pushed yet. What the root remembers of them is older, and takes nothing away
/// from what was set.
#[test]
fn a_default_read_after_a_set_is_old_or_what_was_set_and_never_less() {
    let world = deployed(2, Options::default());
    let sites = [world.site("FRA", 2), world.site("SYD", 2)];
    let [near, far] = sites.map(|site| client(&world, site));
    for client in [&near, &far] {
        let made = world.run(client.post("/counters/hits/increment", ""));
        assert_eq!(made.expect("no fault").status, 200);
    }
    // Readers have leads push what changes.
    for _ in 0..16 {
        value(&near, &world, 0);
        value(&far, &world, 1);
        world.run_for_ms(250);
    }
    world.set_judge(|judged| {
        let verdict = match judged.path.as_str() {
            "/push" => Verdict::Unreached,
            _ => Verdict::Answered,
        };
        Box::pin(async move { verdict })
    });
    for _ in 0..5 {
        let written = world.run(far.post("/counters/hits/increment", ""));
        assert_eq!(written.expect("no fault").status, 200);
    }
    let set = world.run(near.ask(put_to_100())).expect("no fault");
    assert_eq!(set.json()["value"], 100, "{}", set.text());
    for round in 0..40 {
        for client in [&near, &far] {
            for edge in 0..2 {
                let value = value(client, &world, edge);
                let is_old = value <= 7 && round < 10;
                assert!(value == 100 || is_old, "{value} in round {round}");
            }
        }
        world.run_for_ms(100);
    }
}
