//! Reads where the directory does not answer, and of counters that do not exist.

use tally_simulation::{ClientRequest, Options, Verdict, World, deployed};

use super::{PROPAGATION_MS, client, service};

/// Within what a write is answered while others are cut off, milliseconds: 400 for the value beside its answer, and its
/// own ways within its datacenter.
const WRITTEN_MS_MAX: i64 = 440;

/// The same where somebody has waited for that value before.
const WRITTEN_SOON_MS_MAX: i64 = 40;

/// No partition of the directory answers.
pub fn lose_directory(world: &World) {
    world.set_judge(|judged| {
        let is_missing = judged.binding == "DIRECTORY";
        let verdict = if is_missing {
            Verdict::Unreached
        } else {
            Verdict::Answered
        };
        Box::pin(async move { verdict })
    });
}

#[test]
fn a_read_whose_root_is_away_tells_what_was_last_seen_or_what_its_datacenter_has() {
    let (world, sites) = service(9, Options::default());
    let clients = sites.map(|site| client(&world, site));
    for client in &clients {
        world
            .run(client.post("/counters/hits/increment", r#"{"delta":5,"unique":"ann"}"#))
            .expect("no fault");
    }
    world.run_for_ms(PROPAGATION_MS);
    let at = |edge: usize, path: &str| {
        let read = ClientRequest::new("GET", path).at(edge);
        world.run(clients[0].ask(read)).expect("an answer").json()
    };
    let seen_ms = world.now_ms();
    assert_eq!(at(0, "/counters/hits")["value"], 10);
    world.run_for_ms(2_000);
    // Who writes sees the counter too, so nobody does here.
    let write = clients[1].post("/counters/hits/increment", r#"{"delta":5}"#);
    world.run(write).expect("no fault");
    world.run_for_ms(2_000);
    lose_directory(&world);
    let last = at(0, "/counters/hits");
    assert_eq!(
        (&last["value"], &last["exact"]),
        (&10.into(), &false.into()),
        "{last}"
    );
    let as_of = last["as_of"].as_i64().expect("as_of");
    assert!(
        (seen_ms - 1_000..=seen_ms + 1_000).contains(&as_of),
        "{seen_ms}: {last}"
    );
    assert_eq!(last["uniques"]["estimate"], 1, "{last}");
    // The other isolate has never read it.
    let local = at(1, "/counters/hits");
    assert_eq!(
        (&local["value"], &local["exact"]),
        (&5.into(), &false.into()),
        "{local}"
    );
    assert_eq!(local["datacenters"][0]["id"], "FRA", "{local}");
    assert!(
        local["as_of"]
            .as_i64()
            .is_some_and(|as_of| as_of < seen_ms - 60_000),
        "{local}"
    );
    for path in [
        "/counters/none",
        "/counters/hits?consistency=strong",
        "/counters/hits?window=60",
    ] {
        assert_eq!(at(0, path)["code"], "unavailable", "{path}");
    }
}

#[test]
fn a_counter_that_does_not_exist_is_asked_for_once_a_second_until_it_is_written_here() {
    let (world, sites) = service(10, Options::default());
    let client = client(&world, sites[0]);
    let questions = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = questions.clone();
    world.set_judge(move |judged| {
        if judged.path.ends_with("/view") || judged.path.ends_with("/look-up") {
            count.set(count.get() + 1);
        }
        Box::pin(async { Verdict::Answered })
    });
    let read = || {
        let read = ClientRequest::new("GET", "/counters/none").at(0);
        world.run(client.ask(read)).expect("an answer").status
    };
    for _ in 0..20 {
        assert_eq!(read(), 404);
        world.run_for_ms(10);
    }
    assert_eq!(questions.get(), 1);
    world.run_for_ms(1_100);
    assert_eq!((read(), questions.get()), (404, 2));
    let write = ClientRequest::new("POST", "/counters/none/increment").at(0);
    assert_eq!(world.run(client.ask(write)).expect("an answer").status, 200);
    assert_eq!(read(), 200);
}

#[test]
fn a_write_waits_for_no_datacenter_that_is_cut_off() {
    for seed in 0..12 {
        let world = deployed(seed, Options::default());
        let sites = ["FRA", "LHR", "SYD"].map(|name| world.site(name, 2));
        let clients = sites.map(|site| client(&world, site));
        world.set_distance(sites[0], sites[1], 5, 20);
        // The first who asks has the root near.
        for client in &clients {
            let write = client.post("/counters/hits/increment", r#"{"delta":10}"#);
            world.run(write).expect("no fault");
        }
        world.run_for_ms(PROPAGATION_MS);
        let known = 30;
        let read = ClientRequest::new("GET", "/counters/hits").at(0);
        assert_eq!(
            world.run(clients[2].ask(read)).expect("no fault").json()["value"],
            known
        );
        world.cut_off(sites[2], 60_000);
        let mut truth = known;
        // By whom, through which edge, within what, and at least so much is answered.
        let mut write = |by: usize, edge: usize, most_ms: i64, least: i64| {
            let ask = ClientRequest::new("POST", "/counters/hits/increment").at(edge);
            let begun_ms = world.now_ms();
            let answer = world.run(clients[by].ask(ask)).expect("no fault");
            let took_ms = world.now_ms() - begun_ms;
            truth += 1;
            let json = answer.json();
            assert_eq!((answer.status, &json["exact"]), (200, &false.into()));
            assert!(took_ms <= most_ms, "seed {seed}, {by}: {took_ms} ms");
            let value = json["value"].as_i64().expect("a value");
            let may_be = least..=truth;
            assert!(
                may_be.contains(&value),
                "seed {seed}, {by}: {may_be:?}, {json}"
            );
        };
        for _ in 0..4 {
            for edge in 0..2 {
                write(0, edge, WRITTEN_MS_MAX, known);
                write(1, edge, WRITTEN_MS_MAX, known);
            }
            // It is cut off from the root. One of its edges has seen the counter before, the other knows what its own
            // cell has.
            write(2, 0, WRITTEN_MS_MAX, known);
            write(2, 0, WRITTEN_SOON_MS_MAX, known);
            write(2, 1, WRITTEN_MS_MAX, 10);
            world.run_for_ms(6_000);
        }
        world.heal();
        for client in &clients {
            let read = client.get("/counters/hits?consistency=strong");
            let seen = world.run(read).expect("no fault").json();
            assert_eq!(
                (&seen["value"], &seen["exact"]),
                (&truth.into(), &true.into()),
                "seed {seed}: {seen}"
            );
        }
    }
}

/// Before, a read ended with the first question that failed, although the next one was on its way: of those that were
/// lost while the way was cut some failed just when it was healed.
#[test]
fn a_read_whose_first_question_fails_is_answered_by_the_next() {
    let (world, sites) = service(11, Options::default());
    let clients = sites.map(|site| client(&world, site));
    for client in &clients {
        let write = client.post("/counters/hits/increment", r#"{"delta":5}"#);
        world.run(write).expect("no fault");
    }
    world.run_for_ms(PROPAGATION_MS);
    let (questions, sleeper) = (std::cell::Cell::new(0), world.sleeper());
    world.set_judge(move |judged| {
        let is_question = judged.path == "/view";
        questions.set(questions.get() + u32::from(is_question));
        let verdict = match (is_question, questions.get()) {
            (true, 1) => Verdict::Unreached,
            _ => Verdict::Answered,
        };
        let held = sleeper(if is_question { 300 } else { 0 });
        Box::pin(async move {
            held.await;
            verdict
        })
    });
    // This isolate has not seen it, and would tell what its own datacenter has.
    let read = ClientRequest::new("GET", "/counters/hits").at(1);
    let answer = world.run(clients[0].ask(read)).expect("no fault").json();
    assert_eq!(answer["value"], 10, "{answer}");
}
