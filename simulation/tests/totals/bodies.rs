//! What a bulk body has counted is in every list, sum and top that is asked for after its answer.

use super::{client, get, service};
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tally_simulation::{
    Client, ClientRequest, Faults, OneShot, Options, PendingCall, Role, Verdict, World,
};
use tally_wire::names::{self, DIRECTORY, DIRECTORY_PARTITIONS, SUBREQUESTS, TABLET_COUNT};

/// The counters of a body.
const COUNTERS: usize = 9;

fn id(counter: usize) -> String {
    format!("docs/{counter}")
}

/// A body that adds `counter + 1` to each counter, each with an element of its own.
fn body(path: &str, round: usize) -> ClientRequest {
    let line = |counter: usize| {
        let (id, delta) = (id(counter), counter + 1);
        json!({ "id": id, "delta": delta, "unique": format!("{round}-{counter}") })
    };
    let lines = (0..COUNTERS).map(|counter| format!("{}\n", line(counter)));
    ClientRequest::new("POST", path).body(lines.collect::<String>())
}

fn send(world: &World, client: &Client, ask: ClientRequest) {
    let answer = world.run(client.ask(ask)).expect("no fault");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["rejected"], 0, "{}", answer.text());
}

/// Holds a list, a sum and tops against `rounds` bodies.
fn check(world: &World, client: &Client, rounds: usize, what: &str) {
    let rounds = u64::try_from(rounds).expect("it is small");
    let value_of = |counter: usize| (u64::try_from(counter).expect("it is small") + 1) * rounds;
    let total: u64 = (0..COUNTERS).map(value_of).sum();

    let list = get(world, client, "/counters?prefix=docs%2F&values=1");
    let rows = list["entries"].as_array().expect("rows");
    let listed = |row: &Value| (row["id"].clone(), row["value"].clone());
    let listed: Vec<_> = rows.iter().map(listed).collect();
    let expected = (0..COUNTERS).map(|counter| (json!(id(counter)), json!(value_of(counter))));
    assert_eq!(listed, expected.collect::<Vec<_>>(), "{what}: {list}");

    for by in ["value", "count"] {
        let top = get(world, client, &format!("/top?prefix=docs%2F&by={by}"));
        assert_eq!(top["total"], total, "{what}, by {by}: {top}");
        let first = &top["entries"][0];
        let expected = (json!(id(COUNTERS - 1)), json!(value_of(COUNTERS - 1)));
        assert_eq!(
            (first["id"].clone(), first[by].clone()),
            expected,
            "{what}: {top}"
        );
    }
    let sum = get(world, client, "/counters/docs%2F*/aggregate");
    assert_eq!(sum["value"], total, "{what}: {sum}");
}

/// The places of leads: objects of their own, or tablets.
const TABLETS: [Option<&str>; 2] = [None, Some("3")];

fn one_edge(seed: u64, tablets: Option<&str>) -> (World, Client) {
    one_edge_with(seed, &[(TABLET_COUNT, tablets)])
}

fn one_edge_with(seed: u64, settings: &[(&str, Option<&str>)]) -> (World, Client) {
    let world = tally_simulation::deployed(seed, Options::default());
    for (name, value) in settings {
        world.set(name, *value);
    }
    let site = world.site("FRA", 1);
    let client = client(&world, site);
    (world, client)
}

#[test]
fn lists_sums_and_tops_contain_what_a_body_has_counted_before_them() {
    for (seed, tablets) in (0..).zip(TABLETS) {
        for key in [None, Some("k")] {
            let (world, client) = one_edge(seed, tablets);
            for round in 1..4 {
                let mut ask = body("/events", round);
                if let Some(key) = key {
                    ask = ask.header("idempotency-key", format!("{key}-{round}"));
                }
                send(&world, &client, ask);
                let what = format!("{tablets:?} tablets, key {key:?}, round {round}");
                check(&world, &client, round, &what);
                let top = get(&world, &client, "/top?prefix=docs%2F&by=uniques");
                let uniques = &top["entries"][0]["uniques"]["estimate"];
                assert_eq!(*uniques, round, "{what}: {top}");
            }
        }
    }
}

#[test]
fn watched_counters_are_reported_too() {
    for (seed, tablets) in (10..).zip(TABLETS) {
        let (world, sites) = service(seed, Options::default());
        world.set(TABLET_COUNT, tablets);
        let clients = sites.map(|site| client(&world, site));
        // Readers far away make leads push to the memory of the root.
        for number in 1..3 {
            for client in &clients {
                send(&world, client, body("/events", number));
            }
            for _ in 0..8 {
                for counter in 0..COUNTERS {
                    let path = format!("/counters/docs%2F{counter}");
                    for client in &clients {
                        get(&world, client, &path);
                    }
                }
                world.run_for_ms(500);
            }
            for client in &clients {
                send(&world, client, body("/events", number + 10));
            }
        }
        world.run_for_ms(1_500);
        for client in &clients {
            send(&world, client, body("/events", 1));
        }
        let top = get(&world, &clients[1], "/top?prefix=docs%2F");
        assert_eq!(top["total"], 10 * 45, "{tablets:?} tablets: {top}");
    }
}

/// The roots are lost, as if their rows could not be read: they take no report of a delta.
#[test]
fn a_top_says_how_old_it_is_where_roots_do_not_take_a_report() {
    for (seed, tablets) in (60..).zip(TABLETS) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body("/events", 1));
        world.run_for_ms(6_000);
        for number in 0..DIRECTORY_PARTITIONS {
            let partition = names::directory(number);
            for table in ["roots", "views", "totals"] {
                world.look(&partition, &format!("DELETE FROM {table}"));
            }
            world.evict(&partition);
        }
        let begun_ms = world.now_ms();
        send(&world, &client, body("/events", 2));
        let top = get(&world, &client, "/top?prefix=docs%2F");
        let is_complete = top["total"] == 2 * 45;
        let is_older = top["as_of"].as_i64().expect("a number") < begun_ms;
        assert!(is_complete || is_older, "{tablets:?} tablets: {top}");
    }
}

#[test]
fn an_import_is_in_lists_and_tops_at_once() {
    for (seed, tablets) in (20..).zip(TABLETS) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body("/events", 1));
        let export = world.run(client.get("/export")).expect("no fault");
        assert_eq!(export.status, 200, "{}", export.text());
        let (other, to) = one_edge(seed + 100, tablets);
        let ask = ClientRequest::new("POST", "/import").body(export.body);
        send(&other, &to, ask);
        check(&other, &to, 1, &format!("import, {tablets:?} tablets"));
    }
}

#[test]
fn a_top_says_how_old_it_is_when_a_report_is_lost() {
    for seed in 30..38 {
        let (world, client) = one_edge(seed, TABLETS[usize::from(seed % 2 == 0)]);
        let mut counted = 0;
        for round in 1..6 {
            world.set_faults(Faults::SOME);
            let answer = world.run(client.ask(body("/events", round))).ok();
            world.set_faults(Faults::NONE);
            let answered_ms = world.now_ms();
            let Some(answer) = answer.filter(|answer| answer.status == 200) else {
                return;
            };
            if answer.json()["rejected"] != 0 {
                return;
            }
            counted += 45;
            let top = get(&world, &client, "/top?prefix=docs%2F");
            let is_complete = top["total"].as_i64().expect("a number") >= counted;
            let is_older = top["as_of"].as_i64().expect("a number") < answered_ms;
            assert!(is_complete || is_older, "seed {seed}, round {round}: {top}");
        }
    }
}

/// A body that adds 1 to each of this many counters.
fn body_of(counters: u64) -> ClientRequest {
    let line = |counter: u64| format!("{}\n", json!({ "id": format!("docs/{counter}") }));
    ClientRequest::new("POST", "/events").body((0..counters).map(line).collect::<String>())
}

/// The messages with this path that a body causes until its answer.
fn messages_of(world: &World, path: &str, run: impl FnOnce()) -> u64 {
    let sent = || {
        let messages = world.figures().messages;
        let own = messages.iter().filter(|(of, _)| of.ends_with(path));
        own.map(|(_, count)| count).sum::<u64>()
    };
    let before = sent();
    run();
    sent() - before
}

#[test]
fn a_body_is_reported_by_one_message_a_partition() {
    const MANY: u64 = 320;
    let partitions = u64::from(DIRECTORY_PARTITIONS);
    let tablets = DIRECTORY_PARTITIONS.to_string();
    for (seed, tablets) in (40..).zip([None, Some(tablets.as_str())]) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body_of(MANY));
        world.run_for_ms(20_000);
        // All counters are known now, so nothing but flushes and reports is sent.
        let paths = ["/flush", "/report-lead", "/push", "/batch"];
        let sent =
            paths.map(|path| messages_of(&world, path, || send(&world, &client, body_of(MANY))));
        let most = match tablets {
            None => [MANY, 0, 0, partitions],
            // A tablet has leads of one partition, and answers its flushes with their pushes.
            Some(_) => [0, 0, 0, 2 * partitions],
        };
        assert_eq!(sent, most, "{tablets:?} tablets, {paths:?}");
    }
}

#[test]
fn a_body_with_a_key_is_reported_by_one_message_a_partition_and_one_a_counter() {
    const MANY: u64 = 160;
    let (world, client) = one_edge(45, None);
    send(&world, &client, body_of(MANY));
    world.run_for_ms(20_000);
    let paths = ["/flush", "/report-lead", "/push"];
    let body = |path: &str| body_of(MANY).header("idempotency-key", path);
    let sent = paths.map(|path| messages_of(&world, path, || send(&world, &client, body(path))));
    assert_eq!(sent, [0, MANY, 0], "{paths:?}");
    let top = get(&world, &client, "/top?prefix=docs%2F");
    assert_eq!(top["total"], 4 * MANY, "{top}");
}

/// Adds 1,000 to each counter, so that single hits hide no body.
fn body_of_thousands() -> ClientRequest {
    let line = |counter: usize| format!("{}\n", json!({ "id": id(counter), "delta": 1_000 }));
    ClientRequest::new("POST", "/events").body((0..COUNTERS).map(line).collect::<String>())
}

#[test]
fn bodies_that_share_flushes_are_in_tops_after_their_answers() {
    for (seed, tablets) in (70..78).zip(TABLETS.into_iter().cycle()) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body_of_thousands());
        let answered = Cell::new(1);
        let sender = |number: usize| {
            let (world, client, answered) = (&world, &client, &answered);
            async move {
                for round in 0..6 {
                    let wait_ms = u64::try_from(number * 7 + round).expect("it is small");
                    world.sleep_ms(wait_ms).await;
                    // Writes of others open the batches of a body, and bodies those of others.
                    let hit = client.post("/counters/docs%2F8/increment", "");
                    let (answer, hit) = join(client.ask(body_of_thousands()), hit).await;
                    let (answer, hit) = (answer.expect("no fault"), hit.expect("no fault"));
                    assert_eq!([answer.status, hit.status], [200; 2], "{}", answer.text());
                    answered.set(answered.get() + 1);
                    let least = answered.get();
                    let top = client.get("/top?prefix=docs%2F").await;
                    let top = top.expect("no fault").json();
                    let total = top["total"].as_u64().expect("a number");
                    let bodies = total / 1_000 / u64::try_from(COUNTERS).expect("it is small");
                    assert!(bodies >= least, "seed {seed}: {least}, {top}");
                }
            }
        };
        world.run(join_all((0..4).map(sender)));
        assert_eq!(answered.get(), 25);
    }
}

#[test]
fn a_body_of_all_its_calls_is_in_tops_at_once() {
    // Of 1,000 calls a body gets 400, so none is left for a report of a counter.
    const MANY: u64 = 400;
    let settings = [(TABLET_COUNT, None), (SUBREQUESTS, Some("1000"))];
    let (world, client) = one_edge_with(50, &settings);
    for round in 1..4 {
        send(&world, &client, body_of(MANY));
        let top = get(&world, &client, "/top?prefix=docs%2F");
        assert_eq!(top["total"], MANY * round, "round {round}: {top}");
        world.run_for_ms(super::PROPAGATION_MS);
        let top = get(&world, &client, "/top?prefix=docs%2F");
        assert_eq!(top["total"], MANY * round, "round {round}, later: {top}");
    }
}

#[test]
fn the_push_of_a_lead_after_its_report_writes_no_row_of_the_directory() {
    const MANY: u64 = 64;
    let (world, client) = one_edge(60, None);
    send(&world, &client, body_of(MANY));
    world.run_for_ms(70_000);
    send(&world, &client, body_of(MANY));
    let before = world.figures().rows_written;
    let pushes = messages_of(&world, "/push", || world.run_for_ms(20_000));
    assert_eq!(pushes, MANY);
    // The alarm of each lead is a row. The total and the view of a counter would be two more.
    let rows = world.figures().rows_written - before;
    assert!(rows < 2 * MANY, "{rows} rows");
}

#[test]
fn what_an_edge_has_not_reported_when_it_ends_its_leads_report_once() {
    const MANY: u64 = 64;
    for (seed, arrives) in (80..88).zip([false, true].into_iter().cycle()) {
        let world = tally_simulation::deployed(seed, Options::default());
        world.set(TABLET_COUNT, TABLETS[usize::from(seed >= 84)]);
        let site = world.site("FRA", 1);
        let client = client(&world, site);
        send(&world, &client, body_of(MANY));
        world.run_for_ms(20_000);
        // The first report to a partition waits while the edge ends. Then it arrives, or it is lost.
        let (has_come, verdict) = (Rc::new(Cell::new(false)), OneShot::new());
        let (seen, waits) = (has_come.clone(), verdict.clone());
        world.set_judge(move |judged: PendingCall| {
            let is_report = judged.binding == DIRECTORY && judged.path == "/batch";
            let is_first = is_report && !seen.replace(seen.get() || is_report);
            let waits = waits.clone();
            Box::pin(async move {
                match is_first {
                    true => waits.wait().await,
                    false => Verdict::Answered,
                }
            })
        });
        let ends = async {
            while !has_come.get() {
                world.sleep_ms(1).await;
            }
            world.crash_isolates(Role::Edge, site);
        };
        let (answer, ()) = world.run(join(client.ask(body_of(MANY)), ends));
        assert!(answer.is_err(), "seed {seed}");
        verdict.fill(match arrives {
            true => Verdict::Answered,
            false => Verdict::Unreached,
        });
        world.run_for_ms(super::PROPAGATION_MS);
        let top = get(&world, &client, "/top?prefix=docs%2F&limit=100");
        assert_eq!(top["total"], 2 * MANY, "seed {seed}: {top}");
        for entry in top["entries"].as_array().expect("entries") {
            assert_eq!(entry["value"], 2, "seed {seed}: {top}");
        }
    }
}

/// The value of a prefix's sum in a top.
async fn total_of(client: &Client) -> u64 {
    let top = client.get("/top?prefix=docs%2F").await;
    let top = top.expect("no fault").json();
    top["total"].as_u64().expect("a number")
}

#[test]
fn after_the_last_of_bodies_at_once_other_isolates_have_all() {
    for (seed, tablets) in (100..106).zip(TABLETS.into_iter().cycle()) {
        let (world, sites) = service(seed, Options::default());
        world.set(TABLET_COUNT, tablets);
        let [client, far] = sites.map(|site| client(&world, site));
        let mut bodies = 0;
        for round in 0..4 {
            // A top is shared for a second.
            world.run_for_ms(1_100);
            let sender = |number: u64| {
                let (world, client) = (&world, &client);
                async move {
                    world.sleep_ms(number * round).await;
                    let answer = client.ask(body_of_thousands()).await.expect("no fault");
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            };
            world.run(join_all((0..6).map(sender)));
            bodies += 6;
            let total = world.run(total_of(&far));
            let expected = bodies * 1_000 * u64::try_from(COUNTERS).expect("it is small");
            assert_eq!(total, expected, "seed {seed}, round {round}");
        }
    }
}

#[test]
fn bodies_at_once_share_their_reports() {
    const MANY: u64 = 160;
    const AT_ONCE: u64 = 8;
    let tablets = DIRECTORY_PARTITIONS.to_string();
    let (world, client) = one_edge(110, Some(tablets.as_str()));
    send(&world, &client, body_of(MANY));
    world.run_for_ms(20_000);
    let alone = messages_of(&world, "/batch", || {
        send(&world, &client, body_of(MANY));
    });
    let together = messages_of(&world, "/batch", || {
        let bodies = (0..AT_ONCE).map(|_| client.ask(body_of(MANY)));
        for answer in world.run(join_all(bodies)) {
            assert_eq!(answer.expect("no fault").status, 200);
        }
    });
    assert!(together <= 3 * alone, "{together} messages, {alone} of one");
    let top = get(&world, &client, "/top?prefix=docs%2F");
    assert_eq!(top["total"], (2 + AT_ONCE) * MANY, "{top}");
}

#[test]
fn while_a_body_is_counted_others_are_in_lists_and_tops_and_soon_elsewhere() {
    for (seed, tablets) in (120..124).zip(TABLETS.into_iter().cycle()) {
        let world = tally_simulation::deployed(seed, Options::default());
        world.set(TABLET_COUNT, tablets);
        let sites = [world.site("FRA", 1), world.site("SYD", 1)];
        let [client, far] = sites.map(|site| client(&world, site));
        send(&world, &client, body_of_thousands());
        let one = || ClientRequest::new("POST", "/events").body("{\"id\":\"slow\"}\n");
        send(&world, &client, one());
        world.run_for_ms(20_000);
        // The next flush is lost, and is sent again 2.5 s later.
        let is_lost = Rc::new(Cell::new(false));
        let lost = is_lost.clone();
        world.set_judge(move |judged: PendingCall| {
            let is_first = judged.path.ends_with("/flush") && !lost.replace(true);
            Box::pin(async move {
                match is_first {
                    true => Verdict::Unanswered,
                    false => Verdict::Answered,
                }
            })
        });
        let slow = async {
            let answer = client.ask(one()).await.expect("no fault");
            assert_eq!(answer.status, 200, "{}", answer.text());
            world.now_ms()
        };
        let others = async {
            let one = 1_000 * u64::try_from(COUNTERS).expect("it is small");
            while !is_lost.get() {
                world.sleep_ms(1).await;
            }
            for number in 2..5 {
                let began_ms = world.now_ms();
                let answer = client.ask(body_of_thousands()).await.expect("no fault");
                assert_eq!(answer.status, 200, "{}", answer.text());
                let took_ms = world.now_ms() - began_ms;
                assert!(took_ms < 300, "seed {seed}: {took_ms} ms");
                let total = match number {
                    3 => {
                        let list = client.get("/counters?prefix=docs%2F&values=1").await;
                        let list = list.expect("no fault").json();
                        let rows = list["entries"].as_array().expect("rows").iter();
                        rows.filter_map(|row| row["value"].as_u64()).sum()
                    }
                    _ => total_of(&client).await,
                };
                assert_eq!(total, number * one, "seed {seed}, body {number}");
            }
            let answer = client.ask(body_of_thousands()).await.expect("no fault");
            assert_eq!(answer.status, 200, "{}", answer.text());
            world.sleep_ms(1_200).await;
            assert_eq!(total_of(&far).await, 5 * one, "seed {seed}, elsewhere");
            world.now_ms()
        };
        let (slow_ms, others_ms) = world.run(join(slow, others));
        assert!(others_ms < slow_ms, "seed {seed}: {others_ms}, {slow_ms}");
    }
}

#[test]
fn a_body_that_ends_while_a_report_is_in_flight_is_in_the_next_one() {
    for (seed, tablets) in (130..134).zip(TABLETS.into_iter().cycle()) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body_of_thousands());
        world.run_for_ms(20_000);
        // The first report to a partition is late.
        let (has_come, verdict) = (Rc::new(Cell::new(false)), OneShot::new());
        let (seen, waits) = (has_come.clone(), verdict.clone());
        world.set_judge(move |judged: PendingCall| {
            let is_report =
                judged.binding == DIRECTORY && ["/batch", "/push"].contains(&&*judged.path);
            let is_first = is_report && !seen.replace(seen.get() || is_report);
            let waits = waits.clone();
            Box::pin(async move {
                match is_first {
                    true => waits.wait().await,
                    false => Verdict::Answered,
                }
            })
        });
        let second = async {
            while !has_come.get() {
                world.sleep_ms(1).await;
            }
            let late = async {
                world.sleep_ms(300).await;
                verdict.fill(Verdict::Answered);
            };
            let (answer, ()) = join(client.ask(body_of_thousands()), late).await;
            assert_eq!(answer.expect("no fault").status, 200);
            total_of(&client).await
        };
        let (answer, total) = world.run(join(client.ask(body_of_thousands()), second));
        assert_eq!(answer.expect("no fault").status, 200);
        let expected = 3_000 * u64::try_from(COUNTERS).expect("it is small");
        assert_eq!(total, expected, "seed {seed}");
    }
}

#[test]
fn a_silent_partition_holds_bodies_up_for_the_time_of_one_report() {
    for (seed, tablets) in (140..142).zip(TABLETS) {
        let (world, client) = one_edge(seed, tablets);
        send(&world, &client, body_of(64));
        world.run_for_ms(20_000);
        let silent = Rc::new(RefCell::new(None));
        world.set_judge(move |judged: PendingCall| {
            let is_report =
                judged.binding == DIRECTORY && ["/batch", "/push"].contains(&&*judged.path);
            let mut silent = silent.borrow_mut();
            let is_silent = is_report && *silent.get_or_insert(judged.name.clone()) == judged.name;
            Box::pin(async move {
                match is_silent {
                    true => Verdict::Unanswered,
                    false => Verdict::Answered,
                }
            })
        });
        let sender = |number: u64| {
            let (world, client) = (&world, &client);
            async move {
                world.sleep_ms(number * 1_000).await;
                let began_ms = world.now_ms();
                let answer = client.ask(body_of(64)).await.expect("no fault");
                assert_eq!(answer.status, 200, "{}", answer.text());
                world.now_ms() - began_ms
            }
        };
        let took_ms = world.run(join_all((0..3).map(sender)));
        let most = took_ms.iter().max().expect("there are some");
        assert!(*most < 5_500, "{tablets:?} tablets: {took_ms:?} ms");
    }
}
