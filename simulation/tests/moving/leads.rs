//! Whole services whose leads move: from objects of their own into tablets, among tablets, and back, while clients
//! write.
//!
//! Laws: an acknowledged write is counted once, also under a key that is sent again from anywhere; what was deleted
//! stays deleted; what was acknowledged is found; where the number of tablets was never changed, nobody asks where a
//! lead lives.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use tally_simulation::{Chance, ClientRequest, Faults, Role, Verdict};
use tally_wire::names::{CELLS, DIRECTORY, Placement, TABLET_COUNT};

use super::service::{Deployment, each_failure};

/// Numbers of tablets, one after the other: on, more, off, fewer, the first again.
const NUMBERS: [Option<&str>; 5] = [Some("64"), Some("128"), None, Some("3"), Some("64")];

/// How long a datacenter is away, milliseconds: two hours longer than the end of a counter is remembered at least.
const AWAY_MS: u64 = 27 * 3_600_000;

#[test]
fn tablets_are_switched_on_changed_and_switched_off_while_counters_are_written() {
    let all = Deployment::new(1, TABLET_COUNT, None);
    let counters = ["page-a", "page-b", "page-c"];
    all.write_each(&counters, 0);
    assert!(all.moved.borrow().is_empty());
    all.write_gone();
    for (round, number) in (1..).zip(NUMBERS) {
        // Edges of before go on as they are.
        let restarted: &[Role] = if round % 2 == 0 { &[Role::Edge] } else { &[] };
        all.change(number, restarted);
        if round == 2 {
            let delete = ClientRequest::new("DELETE", "/counters/gone");
            let deleted = all.world.run(all.client(1).ask(delete)).expect("an answer");
            assert_eq!(deleted.status, 200, "{}", deleted.text());
        }
        all.write_each(&counters, round);
        // Again, from the other datacenter: it was counted.
        all.world
            .run(all.write(1, "page-a", &format!("key-{}", round - 1)));
        for counter in counters {
            assert_eq!(
                all.value(counter),
                Some(round + 1),
                "{counter} in round {round}"
            );
        }
    }
    let gives = |path: &&String| path.as_str() == "/give-lead";
    assert!(all.moved.borrow().iter().filter(gives).count() >= counters.len() * 4);
    all.world.run_for_ms(120_000);
    assert_eq!(all.value("gone"), None);
    for counter in counters {
        assert_eq!(all.value(counter), Some(6));
    }
}

#[test]
fn leads_that_nobody_asks_for_move_by_themselves_and_leave_nothing_behind() {
    let all = Deployment::new(3, TABLET_COUNT, None);
    let counter = |number: usize| format!("cold-{number}");
    for number in 0..40 {
        all.world
            .run(all.write(number % 2, &counter(number), "key"));
    }
    let moved = |call: &str| {
        let moved = all.moved.borrow();
        moved.iter().filter(|path| path.as_str() == call).count()
    };
    all.change(Some("4"), &[Role::Edge]);
    // Partitions start anew when they are asked for something.
    let list = all.world.run(all.client(0).get("/counters?limit=100"));
    let list = list.expect("an answer").json();
    assert_eq!(list["entries"].as_array().map(Vec::len), Some(40), "{list}");
    for _ in 0..60 {
        all.world.run_for_ms(1_000);
    }
    assert_eq!(moved("/lead-taken"), 40);
    for (binding, name, ..) in all.world.objects() {
        if binding == CELLS {
            let placement = Placement {
                binding,
                name: name.clone(),
                location_hint: None,
            };
            let tables = all.world.look(&placement, "SELECT name FROM sqlite_master");
            assert_eq!(tables.map(|rows| rows.len()), Some(0), "{name}");
        }
    }
    let (give_count, values) = (moved("/give-lead"), 0..40);
    for number in values {
        assert_eq!(all.value(&counter(number)), Some(1));
    }
    assert_eq!(moved("/give-lead"), give_count, "all had moved");
}

#[test]
fn where_the_number_of_tablets_never_changed_nobody_asks_where_a_lead_lives() {
    for tablets in [None, Some("4")] {
        let all = Deployment::new(2, TABLET_COUNT, tablets);
        for round in 0..4 {
            for counter in ["a", "b"] {
                let writes = [0, 1].map(|site| {
                    let key = format!("key-{round}-{site}");
                    let all = &all;
                    async move { all.write(site, counter, &key).await }
                });
                all.world.run(join_all(writes));
            }
            let plain = all
                .world
                .run(all.client(0).post("/counters/plain/increment", "{}"));
            assert_eq!(plain.expect("an answer").status, 200);
            all.world.crash_all_objects();
        }
        assert_eq!(all.value("a"), Some(8));
        let delete = ClientRequest::new("DELETE", "/counters/a");
        let deleted = all.world.run(all.client(1).ask(delete)).expect("an answer");
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        all.world.run_for_ms(90_000);
        assert_eq!((all.value("a"), all.value("plain")), (None, Some(4)));
        assert!(all.moved.borrow().is_empty(), "{:?}", all.moved.borrow());
    }
}

#[test]
fn a_lead_moves_whatever_call_fails_and_whenever_objects_crash() {
    let paths = [
        "/register",
        "/locate-lead",
        "/give-lead",
        "/lead-taken",
        "/call-lead",
    ];
    each_failure(&paths, fails_once);
}

/// A counter moves twice while one call fails, or, where that is answered, while all objects crash right after.
fn fails_once(seed: u64, path: &str, fate: Verdict, nth: u32) {
    let all = Deployment::new(seed, TABLET_COUNT, Some("4"));
    all.write_while_objects_crash(0, &["hits"]);
    *all.fails.borrow_mut() = Some((path.to_owned(), nth, fate));
    all.change(None, &[]);
    all.write_while_objects_crash(1, &["hits"]);
    all.change(Some("9"), &[Role::Edge]);
    all.write_while_objects_crash(2, &["hits"]);
    let what = format!("{path} {fate:?} {nth}, seed {seed}");
    assert_eq!(all.value("hits"), Some(6), "{what}");
    all.world.run_for_ms(70_000);
    assert_eq!(all.value("hits"), Some(6), "{what}");
    assert_eq!(all.listed_values("hits"), (Some(6), Some(6)), "{what}");
}

/// With and without a reader that watches the counter: what a watched lead pushes, a root keeps in memory alone.
#[test]
fn what_a_lead_has_counted_is_told_after_it_has_moved_though_all_objects_crash() {
    for seed in 0..12 {
        for is_watched in [false, true] {
            let all = Deployment::new(200 + seed, TABLET_COUNT, None);
            all.world.run(all.write(0, "hits", "first"));
            all.world.run(all.write(1, "hits", "second"));
            all.world.run_for_ms(500 * (seed % 6));
            all.change(Some("4"), &[Role::Edge]);
            // Whoever reads has the leads move.
            assert_eq!(all.value("hits"), Some(2), "seed {seed}");
            all.world.run(async {
                for _ in 0..seed * 3 {
                    if is_watched {
                        let _ = all.client(1).get("/counters/hits").await;
                    }
                    all.world.sleep_ms(200).await;
                }
                all.write(0, "hits", "third").await;
                for _ in 0..seed * 3 {
                    if is_watched {
                        let _ = all.client(1).get("/counters/hits").await;
                    }
                    all.world.sleep_ms(200).await;
                }
            });
            all.world.crash_all_objects();
            all.world.run_for_ms(70_000);
            let what = format!("seed {seed}, watched: {is_watched}");
            assert_eq!(all.listed_values("hits"), (Some(3), Some(3)), "{what}");
        }
    }
}

#[test]
fn writes_of_several_edges_count_once_while_leads_move_and_much_goes_wrong() {
    for seed in 0..6 {
        storm(seed);
    }
}

fn storm(seed: u64) {
    let all = Deployment::new(seed, TABLET_COUNT, None);
    let chance = Chance::new(seed.wrapping_add(1_000));
    all.world.set_faults(Faults {
        slow_ms_max: 1_000,
        ..Faults::SOME
    });
    let counters = 3_u64;
    let written: Vec<Cell<u64>> = (0..counters).map(|_| Cell::new(0)).collect();
    let clients = join_all((0..4).map(|client: usize| {
        let (all, chance, written) = (&all, &chance, &written);
        async move {
            for number in 0..12 {
                let counter = chance.pick(3);
                written[counter].set(written[counter].get() + 1);
                let key = format!("key-{client}-{number}");
                all.write(client % 2, &format!("hits-{counter}"), &key)
                    .await;
                if chance.once_in(3) {
                    all.write(chance.pick(2), &format!("hits-{counter}"), &key)
                        .await;
                }
                all.world.sleep_ms(chance.below(2_000)).await;
            }
        }
    }));
    let changes = async {
        for _ in 0..6 {
            all.world.sleep_ms(chance.below(5_000)).await;
            let roles: &[Role] = if chance.once_in(2) {
                &[Role::Edge]
            } else {
                &[]
            };
            all.change(NUMBERS[chance.pick(NUMBERS.len())], roles);
        }
    };
    all.world.run(join(clients, changes));
    all.world.set_faults(Faults::NONE);
    all.world.run_for_ms(30_000);
    for (number, written) in written.iter().enumerate() {
        let counter = format!("hits-{number}");
        let expected = Some(written.get()).filter(|written| *written > 0);
        assert_eq!(all.value(&counter), expected, "{counter}, seed {seed}");
    }
}

#[test]
fn a_new_number_of_tablets_is_noted_whole_or_not_at_all() {
    let mut refused = 0;
    for statements in 0..24 {
        let all = Deployment::new(7, TABLET_COUNT, None);
        let counters = ["page-a", "page-b"];
        all.write_each(&counters, 0);
        all.change(Some("1"), &[Role::Edge]);
        // Each partition is out for a while, from so many statements after its start.
        for (binding, name, ..) in all.world.objects() {
            if binding == DIRECTORY {
                let placement = Placement {
                    binding,
                    name,
                    location_hint: None,
                };
                assert!(all.world.fail_storage(&placement, statements, 300));
            }
        }
        let list = all.world.run(all.client(0).get("/counters?limit=10"));
        refused += usize::from(list.expect("an answer").json()["exact"] != true);
        all.world.run_for_ms(1_000);
        all.write_each(&counters, 1);
        for counter in counters {
            assert_eq!(all.value(counter), Some(2), "{counter}, {statements}");
        }
    }
    assert!(refused > 4, "few partitions were out: {refused}");
}

/// The former place does not answer, so the new one refuses: it has not counted the write, and nobody else has.
#[test]
fn a_client_learns_that_a_write_to_a_lead_that_cannot_move_was_not_counted() {
    let all = Deployment::new(6, TABLET_COUNT, None);
    all.write_each(&["hits"], 0);
    all.change(Some("4"), &[Role::Edge]);
    let is_away = Rc::new(Cell::new(true));
    let away = is_away.clone();
    all.world.set_judge(move |judged| {
        let verdict = match away.get() && judged.path == "/give-lead" {
            true => Verdict::Unreached,
            false => Verdict::Answered,
        };
        Box::pin(async move { verdict })
    });
    let add = |key: Option<&str>| {
        let mut write = ClientRequest::new("POST", "/counters/hits/increment").json("{}");
        if let Some(key) = key {
            write = write.header("idempotency-key", key);
        }
        all.world.run(all.client(0).ask(write)).expect("an answer")
    };
    for key in [None, Some("key")] {
        let refused = add(key);
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert!(
            refused.text().contains("nothing was counted"),
            "{}",
            refused.text()
        );
    }
    is_away.set(false);
    for key in [None, Some("key")] {
        assert_eq!(add(key).status, 200);
    }
    assert_eq!(all.value("hits"), Some(3));
}

/// A lead has rows of a counter that has ended, and does not answer for longer than the end is remembered at least.
#[test]
fn a_lead_that_was_away_when_its_counter_ended_counts_the_next_one_at_one_place() {
    let all = Deployment::new(5, TABLET_COUNT, None);
    // Without keys, whose claims would have the end remembered for longer.
    let add = |site: usize, body: &str| {
        let client = all.client(site);
        let write = client.post("/counters/hits/increment", body);
        let answer = all.world.run(write).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    add(0, "{}");
    add(1, "{}");
    let put = ClientRequest::new("PUT", "/counters/hits").json(r#"{"ttl_seconds":10}"#);
    let answer = all
        .world
        .run(all.client(0).ask(put))
        .expect("an answer")
        .json();
    assert_eq!(
        answer["pending_datacenters"].as_array().map(Vec::len),
        Some(0),
        "{answer}"
    );
    all.world.cut(all.sites[0], all.sites[1], AWAY_MS);
    all.world.run_for_ms(60_000);
    all.change(Some("4"), &[Role::Edge]);
    all.world.run_for_ms(AWAY_MS);
    add(1, r#"{"delta":7}"#);
    // The lead is told of the end by now.
    all.world.run_for_ms(600_000);
    all.change(None, &[Role::Edge]);
    add(1, r#"{"delta":1}"#);
    assert_eq!(all.value("hits"), Some(8));
    all.world.run_for_ms(600_000);
    assert_eq!(all.value("hits"), Some(8));
}
