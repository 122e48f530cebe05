//! The values in the answers to writes, where several cells count: each has the write itself, and what the isolate
//! knows.

use tally_simulation::ClientRequest;

use super::scene::{Scene, add, delete, put, reset, set, take};

/// What a write is answered at an edge of a datacenter.
fn answered(scene: &Scene, site: usize, ask: ClientRequest) -> i64 {
    let answer = scene.done(site, ask);
    answer["value"].as_i64().expect("a value")
}

/// A write under a key.
fn under(key: usize, ask: ClientRequest) -> ClientRequest {
    ask.header("idempotency-key", format!("key-{key}"))
}

/// Two datacenters that count: 4 in all, and both have been read lately.
fn two_datacenters() -> Scene {
    let scene = Scene::new(&["FRA", "SYD"]);
    for _ in 0..2 {
        scene.done(0, add(1));
        scene.done(1, add(1));
    }
    scene
}

#[test]
fn an_answer_has_its_own_write_where_two_datacenters_count() {
    let scene = two_datacenters();
    scene.settle();
    assert_eq!(answered(&scene, 0, add(1)), 5);
    assert_eq!(answered(&scene, 0, add(1)), 6);
    assert_eq!(answered(&scene, 0, take(2)), 4);
    assert_eq!(scene.value(), 4);
}

#[test]
fn an_answer_has_its_own_write_where_four_shards_count() {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"shards":4}"#));
    for edge in 0..8 {
        let likes = (1..=3).map(|_| answered(&scene, 0, add(1).at(edge)));
        let likes: Vec<i64> = likes.collect();
        assert!(
            likes.is_sorted_by(|one, other| one < other) && likes[0] >= 1,
            "edge {edge}: {likes:?}"
        );
    }
    assert_eq!(scene.value(), 24);
}

#[test]
fn writes_of_one_flush_have_distinct_answers() {
    let scene = two_datacenters();
    scene.settle();
    // The first is sent alone, and the others wait for it and then share a flush.
    let pending: Vec<_> = (0..4).map(|_| scene.begin(0, add(1))).collect();
    let answers = pending.into_iter().map(|one| scene.end(one).json());
    let mut values: Vec<_> = answers.map(|it| it["value"].as_i64()).collect();
    values.sort_unstable();
    assert_eq!(values, [Some(5), Some(6), Some(7), Some(8)]);
}

#[test]
fn answers_cost_no_read_more() {
    let scene = two_datacenters();
    scene.settle();
    let before = scene.count("/read", "");
    for number in 0..10 {
        assert_eq!(answered(&scene, 0, add(1)), 5 + number);
    }
    assert!(scene.count("/read", "") - before <= 2);
}

#[test]
fn writes_with_keys_are_in_the_answers_after_them() {
    let scene = two_datacenters();
    scene.settle();
    assert_eq!(answered(&scene, 0, under(1, add(1))), 5);
    assert_eq!(answered(&scene, 0, under(2, add(1))), 6);
    assert_eq!(answered(&scene, 0, add(1)), 7);
    assert_eq!(answered(&scene, 0, under(3, add(1))), 8);
    // A repeat says what was said, and is not counted again.
    assert_eq!(answered(&scene, 0, under(1, add(1))), 5);
    assert_eq!(answered(&scene, 0, add(1)), 9);
    assert_eq!(scene.value(), 9);
}

#[test]
fn a_view_that_has_the_writes_counts_them_once() {
    let scene = two_datacenters();
    for number in 0..12 {
        scene.world.run_for_ms(150);
        assert_eq!(answered(&scene, 0, add(1)), 5 + number);
    }
    assert_eq!(scene.value(), 16);
}

#[test]
fn a_set_a_reset_and_a_deletion_begin_anew() {
    let scene = two_datacenters();
    scene.settle();
    assert_eq!(answered(&scene, 0, add(1)), 5);
    scene.done(0, set(100));
    assert_eq!(answered(&scene, 0, add(1)), 101);
    assert_eq!(answered(&scene, 0, add(1)), 102);
    scene.done(0, reset());
    assert_eq!(answered(&scene, 0, add(1)), 1);
    assert_eq!(answered(&scene, 0, add(1)), 2);
    scene.done(0, delete());
    assert_eq!(answered(&scene, 0, add(1)), 1);
    // The other datacenter has read the generation before less than half a second ago.
    scene.settle();
    assert_eq!(answered(&scene, 1, add(1)), 2);
    scene.settle();
    assert_eq!(answered(&scene, 0, add(1)), 3);
    assert_eq!(scene.value(), 3);
}

#[test]
fn answers_do_not_fall_where_a_datacenter_becomes_unreachable() {
    let scene = two_datacenters();
    scene.settle();
    let mut last = answered(&scene, 0, add(1));
    scene.done(1, add(10));
    scene.world.run_for_ms(600);
    for round in 0..12 {
        let value = answered(&scene, 0, add(1));
        assert!(value > last, "round {round}: {value} after {last}");
        last = value;
        if round == 1 {
            scene.cut(0, 1, 8_000);
        }
        scene.world.run_for_ms(550);
    }
    assert_eq!(last, 4 + 10 + 13);
}

/// Clients that stay at their isolate: what each is answered never falls, and has all that it has written before.
fn answers_rise(seed: u64) {
    let scene = Scene::seeded(seed, &["FRA", "SYD", "IAD"]);
    let chance = scene.world.chance();
    let mut last = [[0_i64; 3]; 3];
    let mut written = 0;
    for number in 0..120 {
        let (site, edge) = (chance.pick(3), chance.pick(3));
        if chance.once_in(20) {
            let shards = 1 << chance.below(3);
            // It fails where a datacenter is cut off.
            scene.ask(site, put(&format!(r#"{{"shards":{shards}}}"#)).at(edge));
        }
        if chance.once_in(15) {
            scene.cut(site, chance.pick(3), chance.below(4_000));
        }
        scene.world.run_for_ms(chance.below(400));
        let delta = i64::try_from(chance.below(9)).expect("small") + 1;
        let ask = add(delta.unsigned_abs()).at(edge);
        let ask = if chance.once_in(4) {
            under(number, ask)
        } else {
            ask
        };
        let answer = scene.ask(site, ask);
        if answer.status != 200 {
            continue;
        }
        written += delta;
        let value = answer.json()["value"].as_i64().expect("a value");
        let before = last[site][edge];
        assert!(
            value >= before + delta,
            "seed {seed}, write {number}: {value} after {before} and {delta}"
        );
        last[site][edge] = value;
    }
    assert!(written > 0, "seed {seed}: nothing was counted");
}

#[test]
fn answers_to_one_client_through_one_isolate_rise_by_its_own_writes() {
    for seed in 1..=8 {
        answers_rise(seed);
    }
}
