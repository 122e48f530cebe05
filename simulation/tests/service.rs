//! Whole services: clients speak HTTP to edges of two datacenters, and every object is the real one.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use tally_api::live::{LOOK_MAX, SNAPSHOTS_MAX};
use tally_core::counter::id::CounterId;
use tally_host::Target;
use tally_host::http::{Body, Response};
use tally_shared::call;
use tally_simulation::{
    Client, ClientRequest, Faults, Figures, Options, Site, Verdict, World, admin as client,
    deployed,
};
use tally_wire::live::snapshot::Shown;
use tally_wire::live::topic::Topic;
use tally_wire::messages::{Fault, Look, PROTOCOL, decode, path_in, protocol_of};
use tally_wire::names;

fn service(seed: u64) -> (World, [Site; 2]) {
    let world = deployed(seed, Options::default());
    let sites = [world.site("FRA", 2), world.site("SYD", 2)];
    (world, sites)
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
fn faulty(seed: u64, log: bool) -> ((u64, u64, u64), Vec<String>, Figures) {
    let (world, sites) = service(seed);
    if log {
        world.keep_log(false);
    }
    let clients = sites.map(|site| client(&world, site));
    let faults = Faults::SOME;
    world.set_faults(faults);
    let acknowledged = world.run(join_all((0..60_usize).map(|number| {
        let (client, world) = (&clients[number % 2], &world);
        async move {
            world.sleep_ms(world.chance().below(5_000)).await;
            let counter = number % 5;
            let path = format!("/counters/hits-{counter}/increment");
            for _ in 0..20 {
                let ask = ClientRequest::new("POST", &path)
                    .header("idempotency-key", format!("write-{seed}-{number}"));
                match client.ask(ask).await {
                    Ok(answer) if answer.status == 200 => return Some(counter),
                    _ => world.sleep_ms(500).await,
                }
            }
            None
        }
    })));
    world.set_faults(Faults::NONE);
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
    let mut last = None;
    for seed in 0..seeds {
        last = Some(faulty(seed, false).2);
    }
    eprintln!("{seeds} worlds; the last: {last:?}");
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

#[test]
fn a_watcher_sees_what_others_write() {
    let (world, sites) = service(11);
    let (near, far) = (client(&world, sites[0]), client(&world, sites[1]));
    let ask = ClientRequest::new("GET", "/live?id=hits").header("upgrade", "websocket");
    let answer = world.run(near.ask(ask)).expect("no fault");
    assert_eq!(answer.status, 101, "{}", answer.text());
    let live = answer.live.expect("a stream");
    let events = world.run(near.get("/live?id=hits")).expect("no fault");
    assert_eq!(events.status, 200);
    let events = events.live.expect("a stream");
    world.run(async {
        for _ in 0..3 {
            far.post("/counters/hits/increment", "")
                .await
                .expect("no fault");
            world.sleep_ms(1_500).await;
        }
        world.sleep_ms(5_000).await;
    });
    for live in [&live, &events] {
        let last = live.received().into_iter().rev();
        let found = last
            .map(|received| received.text)
            .find(|text| text.contains("hits"));
        assert!(
            found.as_ref().is_some_and(|text| text.contains('3')),
            "{:?}",
            live.received()
        );
    }
    live.close(1_000, "");
    world.run_for_ms(1_000);
    assert_eq!(live.closed().map(|(code, _)| code), Some(1_000));
}

/// Asks a live reader for counters that nobody has made, so many messages from a number on at once; returns of how many
/// it knows nothing.
fn unknown_to_a_lookout(world: &World, client: &Client, from: usize, messages: usize) -> usize {
    let unknown = Rc::new(Cell::new(0));
    let unknown_count = unknown.clone();
    world.set_edge(move |_, host, _| {
        let unknown_count = unknown_count.clone();
        let look = move |message: usize| Look {
            partition: 0,
            topics: (0..LOOK_MAX)
                .map(|number| format!("c{}", (from + message) * LOOK_MAX + number))
                .map(|id| Topic::from(CounterId::parse(id).expect("an id")))
                .collect(),
            age_ms_max: 500,
        };
        async move {
            let looks: Vec<Look> = (0..messages).map(look).collect();
            for seen in join_all(looks.iter().map(|look| call(&host, look))).await {
                let seen = seen.expect("the live reader answers");
                let pending = seen.iter().filter(|seen| seen.shown == Shown::Pending);
                unknown_count.set(unknown_count.get() + pending.count());
            }
            Response::new(200, vec![], Body::Empty)
        }
    });
    world.run(client.get("/")).expect("no fault");
    unknown.get()
}

#[test]
fn a_lookout_holds_so_many_counters_and_forgets_those_that_nobody_asks_for_any_more() {
    let (world, sites) = service(12);
    let client = client(&world, sites[0]);
    let full = SNAPSHOTS_MAX / LOOK_MAX;
    unknown_to_a_lookout(&world, &client, 0, full);
    world.run_for_ms(1_000);
    assert_eq!(unknown_to_a_lookout(&world, &client, 0, full), 0);
    // While all of these are asked for, there is no room for others.
    for _ in 0..2 {
        assert_eq!(unknown_to_a_lookout(&world, &client, full, 1), LOOK_MAX);
        world.run_for_ms(1_000);
        assert_eq!(unknown_to_a_lookout(&world, &client, 0, full), 0);
    }
    world.run_for_ms(5_000);
    unknown_to_a_lookout(&world, &client, full, 1);
    world.run_for_ms(1_000);
    assert_eq!(unknown_to_a_lookout(&world, &client, full, 1), 0);
}

/// Before, a hub whose clock was a minute ahead of the one that alarms ring by sent an update a minute.
#[test]
fn a_watcher_is_told_in_time_though_the_clock_of_its_hub_is_not_that_of_alarms() {
    for ahead_ms in [10_000, -60_000] {
        let (world, [near, _]) = service(7);
        let writer = client(&world, near);
        let write = || world.run(writer.post("/counters/hits/increment", ""));
        assert_eq!(write().expect("no fault").status, 200);
        let opened = world.run(client(&world, near).get("/live?id=hits"));
        let live = opened.expect("no fault").live.expect("a stream");
        world.set_clock(tally_simulation::Role::Objects, ahead_ms);
        world.run_for_ms(2 * ahead_ms.unsigned_abs());
        for _ in 0..5 {
            drop(live.take());
            assert_eq!(write().expect("no fault").status, 200);
            let written_ms = world.now_ms();
            let update = world.run(async {
                loop {
                    let received = live.next().await.expect("an update");
                    if received.text.contains("update") {
                        return received;
                    }
                }
            });
            let late_ms = update.at_ms - written_ms;
            assert!(
                late_ms <= 1_500,
                "{late_ms} ms, {ahead_ms} ms ahead: {}",
                update.text
            );
        }
        let looks = world.figures().messages["/look"];
        assert!(looks < 300, "{looks} looks in two minutes");
    }
}

#[test]
fn events_that_are_queued_are_counted_with_and_without_a_queue_of_the_platform() {
    for has_queue in [false, true] {
        for seed in 0..10 {
            let options = Options {
                has_queue,
                ..Options::default()
            };
            let world = deployed(seed, options);
            let site = world.site("FRA", 2);
            world.site("SYD", 1);
            let client = client(&world, site);
            world.set_faults(Faults::SOME);
            let mut accepted = 0;
            world.run(async {
                for number in 0..20 {
                    let body = r#"{"key":"likes","increment":1}"#;
                    let ask = ClientRequest::new("POST", "/api/event")
                        .header("idempotency-key", format!("event-{number}"))
                        .json(body);
                    for _ in 0..20 {
                        match client.ask(ask.clone()).await {
                            Ok(answer) if answer.status == 202 => {
                                accepted += 1;
                                break;
                            }
                            _ => world.sleep_ms(300).await,
                        }
                    }
                }
            });
            world.set_faults(Faults::NONE);
            world.run_for_ms(600_000);
            let read = world.run(client.get("/counters/likes")).expect("no fault");
            assert!(accepted > 0);
            assert_eq!(
                read.json()["value"],
                accepted,
                "seed {seed}, {has_queue}: {}",
                read.text()
            );
        }
    }
}

#[test]
fn reads_are_exact_again_soon_after_a_queue_of_the_platform_was_drained() {
    let options = Options {
        has_queue: true,
        ..Options::default()
    };
    let world = deployed(13, options);
    let sites = [world.site("FRA", 2), world.site("SYD", 1)];
    let clients = sites.map(|site| client(&world, site));
    let read = |query: &str| {
        let path = format!("/counters/likes{query}");
        let read = world.run(clients[0].get(&path)).expect("no fault").json();
        (read["value"].as_u64(), read["exact"] == true)
    };
    for number in 1..=3 {
        for (edge, client) in [(0, &clients[0]), (1, &clients[0]), (0, &clients[1])] {
            let body = r#"{"key":"likes","increment":2}"#;
            let event = ClientRequest::new("POST", "/api/event").json(body).at(edge);
            let answer = world.run(client.ask(event)).expect("no fault");
            assert_eq!(answer.status, 202, "{}", answer.text());
        }
        assert!(!read("?consistency=strong").1);
        // Until a batch is delivered, sessions are closed, and a read has asked for it.
        world.run_for_ms(30_000);
        assert_eq!(read("?consistency=strong"), (Some(6 * number), true));
        world.run_for_ms(1_000);
        assert_eq!(read(""), (Some(6 * number), true));
        let write = world.run(clients[1].post("/counters/dislikes/increment", ""));
        assert_eq!(write.expect("no fault").json()["exact"], true);
    }
    assert_eq!(world.queue(), (0, Vec::new()));
}

#[test]
fn a_counter_that_nobody_writes_has_one_shard_again_though_storage_was_out_when_its_alarm_rang() {
    for tablets in [None, Some("2")] {
        one_shard_again(tablets);
    }
}

fn one_shard_again(tablets: Option<&str>) {
    let (world, sites) = service(14);
    world.set(names::TABLET_COUNT, tablets);
    world.set(names::SPLIT_FLUSHES_PER_SECOND, Some("1"));
    world.set(names::QUIET_MS, Some("20000"));
    let client = client(&world, sites[0]);
    let shards = || {
        let read = client.get("/counters/hits?consistency=strong");
        let read = world.run(read).expect("no fault");
        read.json()["datacenters"][0]["shards"].as_u64()
    };
    for _ in 0..30 {
        let write = client.post("/counters/hits/increment", "");
        let answer = world.run(write).expect("no fault");
        assert_eq!(answer.status, 200, "{}", answer.text());
        world.run_for_ms(100);
    }
    assert!(shards() > Some(1), "{:?}", shards());
    world.run_for_ms(12_000);
    world.evict_objects();
    let before = world.figures().alarms;
    world.set_faults(Faults {
        storage_out_once_in: 1,
        storage_out_ms_max: 100,
        ..Faults::NONE
    });
    while world.figures().alarms == before {
        world.run_for_ms(100);
    }
    world.run_for_ms(1_000);
    world.set_faults(Faults::NONE);
    world.run_for_ms(300_000);
    assert_eq!(shards(), Some(1));
}

#[test]
fn a_limit_admits_what_it_says_and_no_more() {
    let (world, sites) = service(12);
    let client = client(&world, sites[0]);
    let policy =
        ClientRequest::new("PUT", "/limits/login").json(r#"{"limit":5,"window_seconds":60}"#);
    let made = world.run(client.ask(policy)).expect("no fault");
    assert_eq!(made.status, 201, "{}", made.text());
    let checks = (0..12).map(|_| client.post("/limits/login/somebody", ""));
    let answers = world.run(join_all(checks));
    let admitted = answers
        .into_iter()
        .filter(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 200));
    assert_eq!(admitted.count(), 5);
}

/// Several checks that begin in one window and are refused in the next: what others use of the next one stays used.
#[test]
fn what_is_given_back_after_the_end_of_a_fixed_window_is_taken_from_nobody() {
    let world = deployed(14, Options::default());
    let [near, far] = ["FRA", "SYD"].map(|name| world.site(name, 1));
    world.set_distance(near, far, 250, 260);
    let [near, far] = [near, far].map(|site| client(&world, site));
    let ask = |client: &Client, method: &str, path: &str, json: &str| {
        let answer = world.run(client.ask(ClientRequest::new(method, path).json(json)));
        answer.expect("no fault")
    };
    let watched = r#"{"limit":100,"window_seconds":10,"algorithm":"fixed-window","shadow":true}"#;
    ask(&near, "PUT", "/limits/watched", watched);
    let worlds = r#"{"limit":10,"window_seconds":3600,"scope":"global"}"#;
    ask(&near, "PUT", "/limits/worlds", worlds);
    // The limiter of the world is far away, and most of the limit is used there.
    ask(&far, "POST", "/limits/worlds/all", r#"{"cost":8}"#);
    ask(&near, "POST", "/limits/watched/other", "{}");
    ask(&near, "POST", "/limits/worlds/other", "{}");
    let ends_ms = (world.now_ms() / 10_000 + 1) * 10_000;
    world.run_for_ms(u64::try_from(ends_ms - 150 - world.now_ms()).expect("a time to come"));
    let both = r#"{"checks":[{"policy":"watched","key":"k","cost":50},{"policy":"worlds","key":"all","cost":5}]}"#;
    let (refused, used) = world.run(join(
        near.ask(ClientRequest::new("POST", "/limits").json(both)),
        async {
            world.sleep_ms(250).await;
            let all = ClientRequest::new("POST", "/limits/watched/k").json(r#"{"cost":100}"#);
            near.ask(all).await
        },
    ));
    let [refused, used] = [refused, used].map(|answer| answer.expect("no fault"));
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(world.now_ms() > ends_ms + 200, "it was refused after that");
    assert_eq!(used.json()["remaining"], 0, "{}", used.text());
    let left = world.run(near.get("/limits/watched/k")).expect("no fault");
    assert_eq!(left.json()["remaining"], 0, "{}", left.text());
}

#[test]
fn a_body_that_stops_is_refused_in_time_however_little_it_announces() {
    let (world, sites) = service(13);
    let client = client(&world, sites[0]);
    for announced in ["20", "16384", "20000", ""] {
        let mut ask = ClientRequest::new("POST", "/counters/slow/increment");
        if !announced.is_empty() {
            ask = ask.header("content-length", announced);
        }
        let ask = ask.part(0, b"{".to_vec()).part(3_600_000, b"}".to_vec());
        let begun_ms = world.now_ms();
        let answer = world.run(client.ask(ask)).expect("no fault");
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (408, &"body-too-slow".into()),
            "{announced}: {}",
            answer.text()
        );
        assert!(world.now_ms() - begun_ms < 15_000, "{announced}");
    }
    let read = world.run(client.get("/counters/slow")).expect("no fault");
    assert_eq!(read.status, 404, "{}", read.text());
}

/// How many fetches of a view are under way, at most at once, and in all.
#[derive(Default)]
struct Fetches {
    now: Cell<usize>,
    most: Cell<usize>,
    all: Cell<usize>,
}

fn at_one_edge(path: &str) -> ClientRequest {
    ClientRequest::new("GET", path).at(0)
}

/// Reads a counter for a while by readers of one isolate, each 20 ms after its last answer.
async fn read_for_ms(world: &World, reader: &Client, path: &str, milliseconds: i64) {
    let until_ms = world.now_ms() + milliseconds;
    let readers = (0..10).map(|_| async move {
        while world.now_ms() < until_ms {
            reader.ask(at_one_edge(path)).await.expect("no fault");
            world.sleep_ms(20).await;
        }
    });
    join_all(readers).await;
}

#[test]
fn only_a_view_that_changes_is_fetched_again_before_a_fetch_has_ended() {
    let (world, [near, far]) = service(1);
    // A fetch takes as long as it is held below.
    world.set_distance(near, far, 1, 2);
    let (writer, reader) = (client(&world, near), client(&world, far));
    let fetches = Rc::new(Fetches::default());
    let (world, counted) = (Rc::new(world), fetches.clone());
    let sleeping = Rc::downgrade(&world);
    world.set_judge(move |judged| {
        let (fetches, sleeping) = (counted.clone(), sleeping.clone());
        Box::pin(async move {
            if judged.path == "/read" {
                fetches.all.set(fetches.all.get() + 1);
                fetches.now.set(fetches.now.get() + 1);
                fetches.most.set(fetches.most.get().max(fetches.now.get()));
                let sleep = sleeping.upgrade().expect("a world").sleep_ms(600);
                sleep.await;
                fetches.now.set(fetches.now.get() - 1);
            }
            Verdict::Answered
        })
    });
    let write = || writer.post("/counters/hits/increment", "");
    world.run(write()).expect("no fault");
    for (path, status) in [("/counters/hits", 200), ("/counters/none", 404)] {
        fetches.all.set(0);
        let answers = world.run(join_all((0..20).map(|_| reader.ask(at_one_edge(path)))));
        assert!(
            answers
                .into_iter()
                .all(|answer| answer.expect("no fault").status == status)
        );
        assert_eq!(fetches.all.get(), 1, "{path}");
    }
    let writing = join_all((0..80).map(|number| {
        let (sleep, write) = (world.sleep_ms(number * 50), &write);
        async move {
            sleep.await;
            write().await.expect("no fault");
        }
    }));
    let reading = read_for_ms(&world, &reader, "/counters/hits", 4_000);
    world.run(join(writing, reading));
    let most = fetches.most.get();
    assert!((2..=4).contains(&most), "{most} at once while it changes");
    world.run(read_for_ms(&world, &reader, "/counters/hits", 3_000));
    fetches.most.set(0);
    world.run(read_for_ms(&world, &reader, "/counters/hits", 3_000));
    assert_eq!(fetches.most.get(), 1, "at rest");
}

#[test]
fn a_message_of_a_newer_protocol_is_not_done_and_its_sender_is_told_so() {
    for path in ["/0/flush", "/2/flush", "/3/policy-put", "/200/x"] {
        let (protocol, bare) = protocol_of(path);
        assert_eq!(path_in(protocol, bare), path);
    }
    assert_eq!(protocol_of("/2/flush"), (2, "/flush"));
    assert_eq!(protocol_of("/flush"), (0, "/flush"));
    let (world, sites) = service(3);
    let answers = Rc::new(std::cell::RefCell::new(Vec::new()));
    let answer_log = answers.clone();
    world.set_edge(move |request, host, context| {
        let answer_log = answer_log.clone();
        async move {
            let objects = [names::directory(0), names::keyspace()];
            let targets = objects.map(Target::Object).into_iter();
            for to in targets.chain([Target::Aggregator]) {
                let sent = host.platform().send(to, 200, "/flush", vec![1, 2, 3]);
                let answer = sent.await.expect("no fault");
                answer_log.borrow_mut().push(answer);
            }
            tally_edge::fetch(request, host, context).await
        }
    });
    world
        .run(client(&world, sites[0]).get("/healthz"))
        .expect("no fault");
    assert_eq!(answers.borrow().len(), 3);
    for answer in answers.borrow().iter() {
        let answer: Result<(), Fault> = decode(answer).expect("a result");
        assert_eq!(answer, Err(Fault::Later(PROTOCOL)));
    }
}
