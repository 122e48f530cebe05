//! A run is decided by its seed, and time moves only where nothing else can happen.

use super::common::world;
use futures_util::future::join_all;
use tally_simulation::{ClientRequest, Faults, Options};

/// One run: its log, and what tells it from others.
fn run(seed: u64) -> (Vec<String>, (u64, u64, u64)) {
    let (world, near, far) = world(seed, Options::default());
    world.keep_log(false);
    world.set_faults(Faults::SOME);
    let clients = [world.client(near), world.client(far)];
    let asks = (0..60).map(|number| {
        let client = &clients[number % 2];
        async move { client.post(&format!("/till-{}/add", number % 7), "").await }
    });
    world.run(join_all(asks));
    world.run_for_ms(10_000);
    (world.log(), world.fingerprint())
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..20 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.0.len() > 300, "seed {seed}: {}", first.0.len());
    }
    assert_ne!(run(1).1, run(2).1);
}

#[test]
fn without_faults_everything_is_counted_once() {
    let (world, near, far) = world(3, Options::default());
    let clients = [world.client(near), world.client(far)];
    let asks = (0..40).map(|number| {
        let client = &clients[number % 2];
        async move { client.post("/one/add", "").await.expect("no fault").status }
    });
    assert_eq!(world.run(join_all(asks)), vec![200; 40]);
    let read = world.run(clients[0].get("/one/read")).expect("no fault");
    assert_eq!(read.text(), "40");
    assert_eq!(world.figures().messages["/add"], 40);
    assert_eq!(world.figures().rows_written, 40);
    assert_eq!(world.crossed(), 0);
}

#[test]
fn time_limits_fire_on_time() {
    let (world, near, _) = world(4, Options::default());
    let client = world.client(near);
    let begun_ms = world.now_ms();
    let answer = world
        .run(client.post("/one/never", ""))
        .expect("the edge answers");
    assert_eq!(answer.status, 504);
    assert!((5_000..5_100).contains(&(world.now_ms() - begun_ms)));
}

#[test]
fn a_client_that_hangs_up_ends_its_handler() {
    let (world, near, _) = world(5, Options::default());
    let client = world.client(near);
    let pending = client.ask(ClientRequest::new("POST", "/one/add").part(10_000, vec![1]));
    let hung_up = world.run(async {
        let answer = std::pin::pin!(pending);
        let sleep = std::pin::pin!(world.sleep_ms(100));
        matches!(
            futures_util::future::select(answer, sleep).await,
            futures_util::future::Either::Right(_)
        )
    });
    assert!(hung_up);
    world.run_for_ms(20_000);
    assert_eq!(world.figures().all_messages(), 0);
}

#[test]
fn sites_that_are_cut_do_not_reach_each_other() {
    let (world, near, far) = world(6, Options::default());
    let (here, there) = (world.client(near), world.client(far));
    assert_eq!(
        world
            .run(here.post("/one/add", ""))
            .expect("no fault")
            .status,
        200
    );
    world.cut(near, far, 60_000);
    assert_ne!(
        world
            .run(there.post("/one/add", ""))
            .expect("the edge answers")
            .status,
        200
    );
    assert_eq!(
        world
            .run(here.post("/one/add", ""))
            .expect("no fault")
            .text(),
        "2"
    );
    world.heal();
    assert_eq!(
        world
            .run(there.post("/one/add", ""))
            .expect("no fault")
            .text(),
        "3"
    );
}
