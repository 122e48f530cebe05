//! Who listens to keys of Redis's dialect: what was done is told, once, and a stream that lost its object ends.

use tally_simulation::{BROKEN, ClientRequest, Live};
use tally_wire::names::{KEYSPACES, Placement};

use super::scene::{Scene, keyed};

const CHANNEL: &str = "__keyspace@0__:hits";

fn listen(scene: &Scene) -> Live {
    let path = format!("/redis/subscribe/{CHANNEL}");
    let mut answer = scene.ask(0, ClientRequest::new("GET", path).at(0));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.live.take().expect("a stream")
}

fn command(words: &str) -> ClientRequest {
    let words: Vec<&str> = words.split(' ').collect();
    let json = serde_json::to_string(&words).expect("JSON");
    ClientRequest::new("POST", "/redis").at(0).json(&json)
}

/// The events that a stream has been told, in their order.
fn channel_events(live: &Live) -> Vec<String> {
    let text: String = live.received().into_iter().map(|one| one.text).collect();
    let message = format!("data: message,{CHANNEL},");
    let events = text.lines().filter_map(|line| line.strip_prefix(&message));
    events.map(str::to_owned).collect()
}

fn keyspace(scene: &Scene) -> Placement {
    scene.last_place(KEYSPACES, "/run-commands")
}

#[test]
fn a_try_that_is_sent_again_is_told_once() {
    let scene = Scene::new(&["FRA"]);
    let live = listen(&scene);
    let answer = scene.hold_answer("/run-commands", "");
    let pending = scene.begin(0, keyed(command("INCR hits")));
    scene.wait_until(|| !channel_events(&live).is_empty(), "the event");
    // The client never hears of it, and sends the same again.
    drop(pending);
    answer.let_go();
    let again = scene.done(0, keyed(command("INCR hits")));
    assert_eq!(again["result"], 1);
    assert_eq!(scene.done(0, command("DEL hits"))["result"], 1);
    scene.settle();
    assert_eq!(channel_events(&live), ["incrby", "del"]);
}

#[test]
fn a_stream_ends_with_the_memory_of_its_object_and_the_next_one_goes_on() {
    let scene = Scene::new(&["FRA"]);
    let live = listen(&scene);
    scene.done(0, command("INCR hits"));
    scene.settle();
    assert!(scene.world.crash(&keyspace(&scene)));
    scene.settle();
    assert_eq!(live.closed(), Some((BROKEN, String::new())));
    assert_eq!(channel_events(&live), ["incrby"]);
    let next = listen(&scene);
    scene.done(0, command("INCRBY hits 4"));
    scene.settle();
    assert_eq!(channel_events(&next), ["incrby"]);
    assert_eq!(scene.done(0, command("GET hits"))["result"], "5");
}

#[test]
fn what_was_not_done_is_not_told() {
    let scene = Scene::new(&["FRA"]);
    let live = listen(&scene);
    let count = scene.hold("/count", "");
    let pending = scene.begin(0, command("INCR hits"));
    scene.world.run_for_ms(100);
    assert!(channel_events(&live).is_empty(), "nothing was counted yet");
    count.let_go();
    assert_eq!(scene.end(pending).status, 200);
    for refused in [
        "ZADD hits 1 m",
        "SADD hits m",
        "PERSIST hits",
        "SET hits 5 NX",
        "GET hits",
    ] {
        scene.ask(0, command(refused));
    }
    scene.settle();
    assert_eq!(channel_events(&live), ["incrby"]);
}

#[test]
fn a_value_that_has_expired_when_it_is_set_is_told_as_redis_does() {
    let scene = Scene::new(&["FRA"]);
    let live = listen(&scene);
    scene.done(0, command("SET hits 1"));
    scene.done(0, command("SET hits 2 PXAT 1"));
    assert!(scene.done(0, command("GET hits"))["result"].is_null());
    scene.done(0, command("SET hits 3 EXAT 1"));
    scene.settle();
    let past = ["set", "expire", "expired"];
    assert_eq!(channel_events(&live), [&["set"][..], &past, &past].concat());
}

#[test]
fn patterns_of_a_key_are_bounded_in_what_an_event_costs() {
    let scene = Scene::new(&["FRA"]);
    let open = |pattern: &str| {
        let path = format!("/redis/psubscribe/__keyspace@0__:{pattern}");
        let mut answer = scene.ask(0, ClientRequest::new("GET", &path).at(0));
        (answer.status, answer.live.take())
    };
    let costly = |bytes: usize| format!("*{}", "b".repeat(bytes));
    assert_eq!(open(&costly(257)).0, 400);
    let mut lives: Vec<_> = (0..8).map(|_| open(&costly(256))).collect();
    assert!(lives.iter().all(|(status, _)| *status == 200));
    assert_eq!(open("*b").0, 429);
    // One that costs nothing more is taken, and is told of a name that is too long for the others.
    let live = open("h*").1.expect("a stream");
    let name = format!("h{}", "b".repeat(2_000));
    scene.done(0, command(&format!("SET {name} text")));
    scene.done(0, command(&format!("SET {} text", "b".repeat(300))));
    scene.settle();
    let received = |live: &Live| -> String {
        let texts = live.received().into_iter().map(|one| one.text);
        texts.collect()
    };
    assert!(received(&live).contains(&format!("{name},set")));
    let costly = lives.pop().and_then(|(_, live)| live).expect("a stream");
    let events = received(&costly).matches("pmessage").count();
    assert_eq!(events, 1);
}
