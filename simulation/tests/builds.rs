//! Deployments of two builds at once: some isolates and objects speak the protocol before, and are upgraded one by one.

use futures_util::future::join_all;
use tally_simulation::{
    Client, ClientRequest, Housing, Live, Options, Role, Site, World, admin, deployed,
};
use tally_wire::names;

/// A world where who begins is of the build before, once in so many times.
fn world(seed: u64, before_once_in: u64, tablets: Option<&str>) -> (World, Vec<Site>) {
    let options = Options {
        housing: Housing::Alone,
        aggregators: 2,
        ..Options::default()
    };
    let world = deployed(seed, options);
    world.set(names::TABLET_COUNT, tablets);
    world.set_before_once_in(before_once_in);
    let sites = ["FRA", "SYD"].map(|name| world.site(name, 2));
    (world, sites.to_vec())
}

async fn add(client: &Client, id: &str) -> u16 {
    let answer = client.post(&format!("/counters/{id}/increment"), "").await;
    answer.expect("no fault").status
}

async fn value(client: &Client, id: &str) -> (i64, bool) {
    let path = format!("/counters/{id}?consistency=strong");
    let answer = client.get(&path).await.expect("no fault").json();
    let value = answer["value"].as_i64().expect("a number");
    (value, answer["exact"] == true)
}

#[test]
fn edges_of_this_build_are_understood_by_objects_of_the_build_before() {
    let (world, sites) = world(1, 0, None);
    // Edges are there; who begins now is older.
    world.set_before_once_in(1);
    let client = admin(&world, sites[0]);
    world.run(async {
        for _ in 0..3 {
            assert_eq!(add(&client, "hits").await, 200);
        }
        assert_eq!(value(&client, "hits").await, (3, true));
    });
    assert!(
        world.before_count() > 2,
        "objects and aggregators are older"
    );
}

#[test]
fn edges_of_the_build_before_are_understood_by_objects_of_this_one() {
    let (world, sites) = world(2, 1, None);
    world.set_before_once_in(0);
    let clients = sites.iter().map(|site| admin(&world, *site));
    let clients: Vec<Client> = clients.collect();
    world.run(async {
        for client in &clients {
            assert_eq!(add(client, "hits").await, 200);
        }
        assert_eq!(value(&clients[0], "hits").await, (2, true));
    });
    assert_eq!(world.before_count(), 4, "the edges alone are older");
}

/// How often an older receiver was asked in a newer protocol: each such message was sent twice.
fn sent(world: &World) -> u64 {
    let messages = world.figures().messages;
    messages.values().sum()
}

#[test]
fn an_isolate_speaks_the_protocol_before_for_a_while_once_somebody_knows_no_newer() {
    let (world, sites) = world(3, 0, None);
    world.set_before_once_in(1);
    let client = admin(&world, sites[0]);
    let edges = |count: usize| join_all((0..count).map(|_| add(&client, "hits")));
    world.run(edges(1));
    let first = sent(&world);
    world.run(async {
        for _ in 0..20 {
            assert_eq!(add(&client, "hits").await, 200);
        }
    });
    // One flush each; that of the other edge is said twice.
    let after = sent(&world) - first;
    assert!(
        after <= 24,
        "{after} messages for 20 increments, {first} for the first"
    );
}

#[test]
fn a_deployment_is_upgraded_object_by_object_while_clients_go_on() {
    for (seed, tablets) in [(4, None), (5, Some("2")), (6, Some("7"))] {
        let (world, sites) = world(seed, 1, tablets);
        let clients: Vec<Client> = sites.iter().map(|site| admin(&world, *site)).collect();
        let mut counted = [0_i64; 4];
        let mut steps = 0;
        loop {
            world.run(async {
                for (number, counted) in counted.iter_mut().enumerate() {
                    let client = &clients[number % 2];
                    *counted += i64::from(add(client, &format!("c{number}")).await == 200);
                }
            });
            steps += 1;
            if !world.upgrade_one() {
                break;
            }
            // Who begins while it is changed over is of either build.
            world.set_before_once_in(if steps < 30 { 2 } else { 0 });
        }
        assert!(steps > 10, "{steps} steps");
        world.upgrade_all();
        world.run_for_ms(120_000);
        world.run(async {
            for (number, counted) in counted.iter().enumerate() {
                for client in &clients {
                    let total = value(client, &format!("c{number}")).await;
                    assert_eq!(
                        total,
                        (*counted, true),
                        "c{number} with {tablets:?} tablets"
                    );
                }
            }
        });
        assert_eq!(world.before_count(), 0);
    }
}

#[test]
fn leads_of_the_build_before_move_to_where_a_new_number_of_tablets_puts_them() {
    let (world, sites) = world(8, 0, Some("2"));
    let clients: Vec<Client> = sites.iter().map(|site| admin(&world, *site)).collect();
    let round = async |client: &Client| {
        for number in 0..6 {
            assert_eq!(add(client, &format!("c{number}")).await, 200);
        }
    };
    world.run(round(&clients[0]));
    // Partitions are there; the tablets that begin now are older, and ask them where leads live.
    world.set_before_once_in(1);
    world.set(names::TABLET_COUNT, Some("5"));
    world.crash_all_objects();
    for client in &clients {
        world.run(round(client));
    }
    assert!(world.before_count() > 2, "tablets are older");
    world.upgrade_all();
    world.run(async {
        for number in 0..6 {
            let total = value(&clients[0], &format!("c{number}")).await;
            assert_eq!(total, (3, true), "c{number}");
        }
    });
}

#[test]
fn a_board_of_the_build_before_tells_all_who_watch_its_members() {
    let (world, sites) = world(9, 0, None);
    // Who watches is of this build; the board begins as one of before.
    let client = admin(&world, sites[0]);
    let lives: Vec<Live> = world.run(async {
        let mut lives = Vec::new();
        for member in ["ann", "bob"] {
            let path = format!("/live?board=game&top=1&member={member}");
            let mut answer = client.get(&path).await.expect("no fault");
            lives.push(answer.live.take().expect("a stream"));
        }
        lives
    });
    world.run_for_ms(3_000);
    world.set_before_once_in(1);
    for (member, score) in [("ann", 3), ("bob", 5)] {
        let path = format!("/boards/game/members/{member}");
        let body = format!(r#"{{"score":{score}}}"#);
        let put = world.run(client.post(&path, &body)).expect("no fault");
        assert_eq!(put.status, 200, "{}", put.text());
    }
    assert!(world.before_count() > 0, "the board is older");
    world.run_for_ms(5_000);
    for (live, score) in lives.iter().zip([3, 5]) {
        let texts: Vec<String> = live.take().into_iter().map(|one| one.text).collect();
        let expected = format!(r#""score":{score}"#);
        let last = texts.last().expect("it was told");
        assert!(last.contains(&expected), "{texts:?}");
    }
}

/// Checks of one key in the world, from all sites at once. Returns how many were allowed.
async fn checks(clients: &[Client], count: usize) -> usize {
    let check = |number: usize| {
        let client = &clients[number % clients.len()];
        let ask = ClientRequest::new("POST", "/limits/calls/bob").json(r#"{"cost":1}"#);
        async move { client.ask(ask).await.expect("no fault").status }
    };
    let statuses = join_all((0..count).map(check)).await;
    statuses.into_iter().filter(|status| *status == 200).count()
}

#[test]
fn no_limit_of_the_world_is_lent_by_two_places_at_once_while_limiters_and_builds_change() {
    // A replaced isolate loses its leases for the window. How much that is differs by seed.
    let (mut lowest, mut all) = (100, 0);
    for seed in 0..12 {
        let (world, sites) = world(100 + seed, 1 + seed % 3, None);
        world.set(names::LIMITER_COUNT, Some("2"));
        let clients: Vec<Client> = sites.iter().map(|site| admin(&world, *site)).collect();
        let policy = r#"{"limit":100,"window_seconds":3600,"scope":"global","on_error":"closed","durability":"commit"}"#;
        let put = ClientRequest::new("PUT", "/limits/calls").json(policy);
        let put = world.run(clients[0].ask(put)).expect("no fault");
        assert_eq!(put.status, 201, "{}", put.text());
        let mut allowed = world.run(checks(&clients, 24));
        // As the page on upgrades says: who starts from now on has the new number, and knows the one before.
        world.set(names::LIMITER_COUNT, Some("5"));
        world.set_for(Role::Objects, names::LIMITER_COUNT_BEFORE, Some("2"));
        world.set_for(Role::Aggregator, names::LIMITER_COUNT_BEFORE, Some("2"));
        for _ in 0..40 {
            let is_one = world.upgrade_one();
            allowed += world.run(checks(&clients, 8));
            if !is_one {
                break;
            }
        }
        world.upgrade_all();
        for _ in 0..10 {
            world.run_for_ms(20_000);
            allowed += world.run(checks(&clients, 30));
        }
        assert!(allowed <= 100, "{allowed} of 100, seed {seed}");
        (lowest, all) = (allowed.min(lowest), all + allowed);
    }
    assert!(
        lowest > 24,
        "{lowest} of 100: nothing was lent after the change"
    );
    assert!(all >= 12 * 60, "{all} of 1,200");
}
