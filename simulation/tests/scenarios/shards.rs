//! Shards that are let count and sealed while their messages are late: each counts into every sum once.

use std::rc::Rc;

use super::scene::{Held, Scene, add, delete, put, set};

/// A counter of two shards, and the edges whose writes go to the lead and to the other. One of each has written.
struct Sharded {
    scene: Scene,
    leads: Vec<usize>,
    others: Vec<usize>,
}

const SHARD: &str = "FRA/1/hits";
const LEAD: &str = "FRA/0/hits";

impl Sharded {
    fn new() -> Self {
        let scene = Scene::new(&["FRA"]);
        let [leads, others] = scene.edges_by_shard();
        let sharded = Self {
            scene,
            leads,
            others,
        };
        sharded.spread(2);
        // Each learns that there are two.
        for edge in [sharded.leads[0], sharded.others[0], sharded.others[1]] {
            sharded.scene.done(0, add(1).at(edge));
        }
        sharded
    }

    /// As [`Sharded::new`], and the other shard has counted 2.
    fn counted() -> Self {
        let sharded = Self::new();
        sharded.scene.done(0, add(2).at(sharded.others[0]));
        assert_eq!(sharded.scene.count("/flush", SHARD), 1);
        sharded
    }

    fn spread(&self, shards: u8) {
        let settings = format!(r#"{{"shards":{shards}}}"#);
        self.scene.done(0, put(&settings));
    }

    /// Has the lead seal the other shard: it looks with each write.
    fn seal(&self) {
        self.spread(1);
        self.scene.done(0, add(1).at(self.leads[0]));
    }

    /// The other shard, sealed and let count again, has counted 64 more. Its answer to the seal is still held.
    fn sealed_and_spread(&self) -> Rc<Held> {
        let sealed = self.scene.hold_answer("/seal", SHARD);
        self.seal();
        self.scene.wait_for(&sealed);
        self.spread(2);
        self.scene.done(0, add(64).at(self.others[0]));
        sealed
    }

    /// The other shard is sealed once more, and then the late answer comes: each write is in the sum once.
    fn counts_each_once(&self, sealed: &Held) {
        self.spread(1);
        sealed.let_go();
        self.scene.world.run_for_ms(100);
        self.scene.done(0, add(1).at(self.leads[0]));
        assert_eq!(self.scene.value(), 3 + 2 + 1 + 64 + 1);
    }
}

#[test]
fn a_part_from_before_a_shard_was_let_count_again_is_not_kept() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    let sealed = sharded.sealed_and_spread();
    assert_eq!(scene.count("/flush", SHARD), 2);
    sharded.counts_each_once(&sealed);
}

#[test]
fn a_write_that_storage_refused_makes_no_late_part_current() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    assert!(scene.world.crash(&scene.cell("FRA", 0)));
    let sealed = sharded.sealed_and_spread();
    assert!(scene.world.fail_storage(&scene.cell("FRA", 0), 0, 100));
    let refused = scene.ask(0, add(9).at(sharded.leads[0]));
    assert_eq!(refused.status, 503, "{}", refused.text());
    scene.world.run_for_ms(100);
    sharded.counts_each_once(&sealed);
}

#[test]
fn a_shard_that_was_silent_when_it_was_sealed_takes_no_grant_from_before() {
    let sharded = Sharded::new();
    let scene = &sharded.scene;
    let grant = scene.hold_answer("/hello", LEAD);
    let pending = scene.begin(0, add(64).at(sharded.others[0]));
    scene.wait_for(&grant);
    sharded.seal();
    scene.world.run_for_ms(100);
    assert_eq!(scene.count("/seal", SHARD), 1);
    grant.let_go();
    assert_eq!(scene.end(pending).status, 200);
    assert_eq!(scene.value(), 3 + 1 + 64);
}

#[test]
fn a_write_whose_first_attempt_is_late_is_not_sent_elsewhere() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    let first = scene.hold("/flush", SHARD);
    let pending = scene.begin(0, add(64).at(sharded.others[0]));
    scene.wait_for(&first);
    sharded.seal();
    // The second attempt finds it sealed, and the first might yet be counted by an object that has begun anew.
    assert_eq!(scene.end(pending).status, 503);
    sharded.spread(2);
    scene.done(0, add(1).at(sharded.others[1]));
    first.let_go();
    // This one has refused the flush, so it refuses its copy too.
    assert_eq!(scene.value(), 3 + 2 + 1 + 1);
}

#[test]
fn a_repeated_flush_calls_no_value_exact_that_never_was() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    let first = scene.hold_answer("/flush", LEAD);
    let pending = scene.begin(0, add(3).at(sharded.leads[0]));
    scene.wait_for(&first);
    let again = scene.hold("/flush", LEAD);
    scene.wait_for(&again);
    // The value was 8 when it was counted first.
    scene.done(0, add(200).at(sharded.leads[1]));
    scene.done(0, add(70).at(sharded.others[0]));
    sharded.spread(1);
    scene.done(0, add(1).at(sharded.leads[1]));
    scene.world.run_for_ms(100);
    again.let_go();
    let answer = scene.end(pending).json();
    let is_true = [8, 279].iter().any(|value| answer["value"] == *value);
    assert!(answer["exact"] == false || is_true, "{answer}");
    assert_eq!(scene.value(), 8 + 200 + 70 + 1);
}

#[test]
fn a_value_that_was_set_since_a_batch_lacks_none_of_its_writes() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    // No view is young enough for an answer.
    scene.settle();
    let edge = sharded.leads[0];
    let flush = scene.hold("/flush", LEAD);
    let first = scene.begin(0, add(1).at(edge));
    scene.wait_for(&flush);
    let joined = [64, 200].map(|delta| {
        let pending = scene.begin(0, add(delta).at(edge));
        scene.world.run_for_ms(100);
        pending
    });
    // All three wait for the same view. It is of a moment after the set, which has seen all of them.
    let view = scene.hold("/read", "");
    flush.let_go();
    scene.wait_for(&view);
    scene.world.run_for_ms(50);
    scene.done(0, set(1_000).at(sharded.others[0]));
    view.let_go();
    for pending in std::iter::once(first).chain(joined) {
        assert_eq!(scene.end(pending).json()["value"], 1_000);
    }
}

#[test]
fn a_write_that_storage_refused_makes_no_late_grant_current() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    sharded.seal();
    scene.world.run_for_ms(100);
    assert!(scene.world.crash(&scene.cell("FRA", 1)));
    sharded.spread(2);
    let grant = scene.hold_answer("/hello", LEAD);
    let pending = scene.begin(0, add(64).at(sharded.others[0]));
    scene.wait_for(&grant);
    sharded.seal();
    scene.world.run_for_ms(100);
    assert_eq!(scene.count("/seal", SHARD), 2);
    // The settings do not become durable at the shard.
    assert!(scene.world.fail_storage(&scene.cell("FRA", 1), 0, 100));
    sharded.spread(1);
    scene.world.run_for_ms(100);
    grant.let_go();
    assert_eq!(scene.end(pending).status, 200);
    assert_eq!(scene.value(), 3 + 2 + 1 + 1 + 64);
}

#[test]
fn a_sealed_shard_counts_nothing_after_a_crash_either() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    sharded.seal();
    scene.world.run_for_ms(100);
    assert!(scene.world.crash(&scene.cell("FRA", 1)));
    scene.done(0, add(64).at(sharded.others[0]));
    assert_eq!(scene.count("/flush", SHARD), 2);
    assert_eq!(scene.value(), 3 + 2 + 1 + 64);
}

#[test]
fn a_shard_that_counts_again_is_asked_again() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    sharded.seal();
    scene.world.run_for_ms(100);
    sharded.spread(2);
    scene.done(0, add(64).at(sharded.others[0]));
    assert_eq!(scene.count("/flush", SHARD), 2);
    assert_eq!(scene.value(), 3 + 2 + 1 + 64);
}

#[test]
fn shards_of_a_deleted_counter_are_emptied_though_their_lead_learns_of_the_end_by_its_next_grant() {
    let sharded = Sharded::counted();
    let scene = &sharded.scene;
    let ends = [scene.hold("/close", LEAD), scene.hold("/close", LEAD)];
    let deletion = scene.begin(0, delete());
    scene.wait_for(&ends[0]);
    ends[0].lose();
    let answer = scene.end(deletion).json();
    assert_eq!(answer["pending_datacenters"][0], "FRA", "{answer}");
    // The lead is granted the next generation before it learns that this one has ended.
    scene.wait_for(&ends[1]);
    scene.done(0, add(5).at(sharded.leads[0]));
    assert_ne!(
        scene.tables("FRA", 1),
        Some(0),
        "its lead is still to tell it"
    );
    ends[1].let_go();
    scene.settle();
    assert_eq!(scene.count("/close", SHARD), 1);
    assert_eq!(scene.tables("FRA", 1), Some(0));
    assert_eq!(scene.value(), 5);
}

/// How many cells of `hits` have counted after this many writes that reach one isolate at once, and their sum.
fn cells_of_one_isolate(writes: u64) -> (usize, i64) {
    let scene = Scene::new(&["FRA"]);
    scene.done(0, put(r#"{"shards":8}"#));
    // The isolate learns the number of shards.
    scene.done(0, add(1).at(0));
    let flushes = |shard| scene.count("/flush", &format!("FRA/{shard}/hits"));
    let before: Vec<usize> = (0..8).map(flushes).collect();
    let pending: Vec<_> = (0..writes).map(|_| scene.begin(0, add(1).at(0))).collect();
    let mut last = 0;
    for pending in pending {
        let answer = scene.end(pending);
        assert_eq!(answer.status, 200, "{}", answer.text());
        last = answer.json()["value"].as_i64().expect("a value").max(last);
    }
    let next = scene.done(0, add(1).at(0));
    assert!(
        next["value"].as_i64() > Some(last),
        "an answer contains what this isolate knows: {next}, {last}"
    );
    let cells = before.iter().zip(0..);
    let cells = cells.filter(|(before, shard)| flushes(*shard) > **before);
    (cells.count(), scene.value())
}

#[test]
fn one_isolate_uses_more_shards_as_its_rate_grows_and_loses_nothing() {
    assert_eq!(cells_of_one_isolate(16), (1, 16 + 2));
    let (some, sum) = cells_of_one_isolate(300);
    assert!((2..=4).contains(&some) && sum == 300 + 2, "{some} {sum}");
    let (many, sum) = cells_of_one_isolate(1_200);
    assert!(many > some && sum == 1_200 + 2, "{many} {sum}");
}

#[test]
fn writes_beyond_a_lane_that_lags_are_answered_by_another_shard_and_each_counts_once() {
    let sharded = Sharded::new();
    let scene = &sharded.scene;
    let edge = sharded.leads[0];
    let first = scene.hold_answer("/flush", LEAD);
    let held = scene.begin(0, add(1).at(edge));
    scene.wait_for(&first);
    let before = scene.count("/flush", SHARD);
    let pending: Vec<_> = (0..200).map(|_| scene.begin(0, add(1).at(edge))).collect();
    scene.wait_until(|| scene.count("/flush", SHARD) > before, "the other shard");
    // The flush whose answer is lost goes to the same cell again, under the same nonce.
    first.lose();
    for pending in pending.into_iter().chain([held]) {
        let answer = scene.end(pending);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(scene.value(), 3 + 1 + 200);
}
