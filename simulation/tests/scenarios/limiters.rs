//! Keys whose limiters change in number.

use serde_json::json;
use tally_simulation::{ClientRequest, Options, Role, World, admin, deployed};
use tally_wire::names;

const KEYS: u64 = 12;
const LIMIT: u64 = 10;

/// Longer than the window, milliseconds.
const WAIT_MS: u64 = 70_000;

fn set_limiters(world: &World, now: u32, before: Option<u32>) {
    world.set(names::LIMITER_COUNT, Some(&now.to_string()));
    let before = before.map(|before| before.to_string());
    for role in [Role::Objects, Role::Aggregator] {
        world.set_for(role, names::LIMITER_COUNT_BEFORE, before.as_deref());
    }
    world.crash_all_objects();
    world.crash_isolates(Role::Edge, world.site("FRA", 1));
}

/// The status of a check of a key.
fn check(world: &World, key: u64, cost: u64) -> u16 {
    let ask = ClientRequest::new("POST", format!("/limits/calls/{key}"));
    let ask = ask.json(json!({"cost": cost}).to_string());
    // A named call is remembered for an hour, longer than its use counts.
    let ask = ask.header("idempotency-key", format!("{key}/{}", world.now_ms()));
    let client = admin(world, world.site("FRA", 1));
    world.run(client.ask(ask)).expect("an answer").status
}

#[test]
fn a_key_has_its_limit_once_after_the_number_of_limiters_was_set_back() {
    let world = deployed(1, Options::default());
    world.site("FRA", 1);
    set_limiters(&world, 2, None);
    let policy =
        json!({"limit": LIMIT, "window_seconds": 60, "durability": "commit", "on_error": "closed"});
    let put = ClientRequest::new("PUT", "/limits/calls").json(policy.to_string());
    let made = world.run(admin(&world, world.site("FRA", 1)).ask(put));
    assert_eq!(made.expect("an answer").status, 201);
    for key in 0..KEYS {
        assert_eq!(check(&world, key, 1), 200, "{key}");
    }
    set_limiters(&world, 5, Some(2));
    world.run_for_ms(WAIT_MS);
    for key in 0..KEYS {
        assert_eq!(check(&world, key, LIMIT), 200, "{key} by five");
    }
    set_limiters(&world, 2, Some(5));
    for key in 0..KEYS {
        assert_eq!(check(&world, key, 1), 429, "{key} has used all");
    }
}
