//! Alarms, evictions, streams, and the queue.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::common::{till, world};
use tally_host::{Delivered, MessageOutcome, Target};
use tally_simulation::{BROKEN, ClientRequest, Faults, Live, Options, World};
use tally_wire::messages::PROTOCOL;

fn texts(live: &Live) -> Vec<String> {
    live.received()
        .into_iter()
        .map(|received| received.text)
        .collect()
}

fn watch(world: &World, site: tally_simulation::Site, is_socket: bool) -> Live {
    let client = world.client(site);
    let ask = ClientRequest::new("GET", "/one/watch");
    let ask = if is_socket {
        ask.header("upgrade", "websocket")
    } else {
        ask
    };
    let answer = world.run(client.ask(ask)).expect("no fault");
    assert_eq!(answer.status, if is_socket { 101 } else { 200 });
    answer.live.expect("a stream")
}

#[test]
fn an_alarm_rings_once_though_the_object_was_evicted() {
    let (world, near, _) = world(1, Options::default());
    let client = world.client(near);
    world.run(client.post("/one/arm", "")).expect("no fault");
    assert!(world.evict(&till("one")));
    world.run_for_ms(30_000);
    assert_eq!(
        world.run(client.get("/one/read")).expect("no fault").text(),
        "100"
    );
    assert_eq!(
        world
            .run(client.get("/one/armed"))
            .expect("no fault")
            .text(),
        "None"
    );
    assert_eq!(world.figures().alarms, 1);
}

#[test]
fn an_alarm_that_fails_rings_again_a_few_times() {
    let (world, near, _) = world(2, Options::default());
    let client = world.client(near);
    world.set("FAILS", Some("1"));
    world.run(client.post("/one/arm", "")).expect("no fault");
    world.run_for_ms(1_000_000);
    assert_eq!(world.figures().alarms, 7);
    assert_eq!(
        world.run(client.get("/one/read")).expect("no fault").text(),
        "700"
    );
}

#[test]
fn an_alarm_survives_crashes_at_any_moment() {
    for seed in 0..100 {
        let (world, near, _) = world(seed, Options::default());
        let client = world.client(near);
        let armed = world.run(client.post("/one/arm", "")).expect("no fault");
        assert_eq!(armed.status, 200);
        let most_ms = world.chance().below(1_100);
        world.run_for_ms(most_ms);
        world.crash(&till("one"));
        world.run_for_ms(30_000);
        let sum = world.run(client.get("/one/read")).expect("no fault").text();
        let sum: i64 = sum.parse().expect("a number");
        assert!((1..=2).contains(&(sum / 100)), "seed {seed}: {sum}");
        assert_eq!(
            world
                .run(client.get("/one/armed"))
                .expect("no fault")
                .text(),
            "None"
        );
    }
}

#[test]
fn a_socket_outlives_an_eviction_and_keeps_its_text() {
    let (world, near, _) = world(3, Options::default());
    let live = watch(&world, near, true);
    world.run_for_ms(100);
    assert!(world.evict(&till("one")));
    live.send("hello");
    world.run_for_ms(100);
    assert_eq!(texts(&live), ["welcome", "7 kept heard hello"]);
    live.close(4_000, "enough");
    world.run_for_ms(100);
    assert_eq!(live.closed(), Some((4_000, "enough".to_owned())));
}

#[test]
fn a_socket_breaks_where_its_object_crashes() {
    let (world, near, _) = world(4, Options::default());
    let live = watch(&world, near, true);
    world.crash(&till("one"));
    world.run_for_ms(100);
    assert_eq!(live.closed().map(|(code, _)| code), Some(BROKEN));
    let answer = world
        .run(world.client(near).post("/one/tell", "x"))
        .expect("no fault");
    assert_eq!(answer.text(), "0 []");
}

#[test]
fn an_object_is_told_of_a_socket_whose_client_has_gone() {
    let (world, near, _) = world(5, Options::default());
    world.keep_log(false);
    drop(watch(&world, near, true));
    world.run_for_ms(100);
    assert!(world.log().iter().any(|line| line.contains("closed None")));
}

#[test]
fn texts_keep_their_order() {
    let (world, near, far) = world(6, Options::default());
    let live = watch(&world, near, true);
    let teller = world.client(far);
    world.run(async {
        for number in 0..50 {
            teller
                .post("/one/tell", &number.to_string())
                .await
                .expect("no fault");
        }
    });
    world.run_for_ms(1_000);
    let expected: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(texts(&live)[1..], expected);
}

#[test]
fn events_show_whether_they_were_taken_and_keep_their_object_awake() {
    let (world, near, _) = world(7, Options::default());
    let live = watch(&world, near, false);
    let client = world.client(near);
    let tell = |text: &str| {
        world
            .run(client.post("/one/tell", text))
            .expect("no fault")
            .text()
    };
    live.pause(true);
    world.run_for_ms(100);
    assert!(!world.evict(&till("one")));
    assert_eq!(tell("two"), "0 [Slow]");
    live.pause(false);
    world.run_for_ms(100);
    tell("three");
    world.run_for_ms(100);
    assert_eq!(texts(&live), ["data: first\n\n", "two", "three"]);
    drop(live);
    world.run_for_ms(100);
    assert_eq!(tell("four"), "0 [Gone]");
    assert!(world.evict(&till("one")));
}

#[test]
fn the_queue_delivers_again_what_is_not_done_and_gives_up_at_last() {
    for seed in 0..20 {
        let options = Options {
            has_queue: true,
            queue_retries_max: 5,
            ..Options::default()
        };
        let (world, near, _) = world(seed, options);
        world.set_faults(Faults::SOME);
        world.register_enqueuing_edge();
        let seen: Rc<RefCell<BTreeMap<u8, u32>>> = Rc::default();
        let noted = seen.clone();
        world.set_consumer(move |host, batch: Vec<Delivered>| {
            let noted = noted.clone();
            async move {
                host.sleep_ms(20).await;
                let mut noted = noted.borrow_mut();
                let fates = batch.iter().map(|message| {
                    let number = message.body.as_ref().expect("bytes")[0];
                    *noted.entry(number).or_default() += 1;
                    match number {
                        0 => MessageOutcome::Again { seconds: 1 },
                        _ if message.attempts < 2 => MessageOutcome::Again { seconds: 3 },
                        _ => MessageOutcome::Acknowledged,
                    }
                });
                fates.collect()
            }
        });
        let client = world.client(near);
        let accepted = world.run(async {
            let mut accepted = Vec::new();
            for number in 0..30_u8 {
                let answer = client
                    .ask(ClientRequest::new("POST", "/").body(vec![number]))
                    .await;
                if answer.is_ok_and(|answer| answer.status == 200) {
                    accepted.push(number);
                }
            }
            accepted
        });
        world.run_for_ms(600_000);
        let (left, dead) = world.queue();
        assert_eq!(left, 0, "seed {seed}");
        let seen = seen.borrow();
        for number in accepted {
            assert!(seen.contains_key(&number), "seed {seed}: {number}");
            assert!(number != 0 || dead == [[0]], "seed {seed}: {dead:?}");
        }
    }
}

trait Enqueuing {
    fn register_enqueuing_edge(&self);
}

impl Enqueuing for World {
    fn register_enqueuing_edge(&self) {
        self.set_edge(|request, host, _| async move {
            let body = request.whole().await.expect("no fault");
            let put = host.platform().enqueue(vec![body].into()).await;
            tally_host::http::Response::new(
                if put.is_ok() { 200 } else { 503 },
                vec![],
                tally_host::http::Body::Empty,
            )
        });
    }
}

#[test]
fn an_object_may_call_itself_and_others_only_once_its_writes_are_durable() {
    let (world, near, _) = world(8, Options::default());
    world.set_edge(|_, host, _| async move {
        let calls = (0..3).map(|_| {
            host.platform()
                .send(Target::Object(till("one")), PROTOCOL, "/add", vec![])
        });
        let answers = futures_util::future::join_all(calls).await;
        tally_host::http::Response::new(
            if answers.iter().all(Result::is_ok) {
                200
            } else {
                503
            },
            vec![],
            tally_host::http::Body::Empty,
        )
    });
    assert_eq!(
        world
            .run(world.client(near).get("/"))
            .expect("no fault")
            .status,
        200
    );
    assert!(world.figures().commits >= 1);
}
