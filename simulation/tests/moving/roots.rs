//! Whole services whose roots move: the directory grows and shrinks while clients write and others list.
//!
//! Laws: an acknowledged write is counted once, also under a key that is sent again from anywhere; what was deleted
//! stays deleted; lists and sums of many tell each counter once, whenever they are asked; where the number of
//! partitions was never changed, no call is made for it.

use std::cell::Cell;
use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use serde_json::Value;
use tally_simulation::{Chance, ClientRequest, Faults, Role, Verdict};
use tally_wire::names::{DIRECTORY, DIRECTORY_COUNT, IDEMPOTENCY_SECONDS, Placement, TABLET_COUNT};

use super::service::{Deployment, each_failure};

/// Numbers of partitions, one after the other: more, fewer than at first, as at first, and others.
const NUMBERS: [Option<&str>; 5] = [Some("64"), Some("5"), None, Some("17"), Some("64")];

/// How long all roots take to move, and the numbers of before to be forgotten, where nothing fails, milliseconds.
const SETTLED_MS: u64 = 30_000;

/// An hour, milliseconds.
const HOUR_MS: u64 = 3_600_000;

/// By when every lead has told its root of a write, milliseconds.
const TOLD_AGAIN_MS: u64 = 90_000;

impl Deployment {
    /// Makes a request to a counter under a key. Returns the status of its answer.
    fn keyed(&self, site: usize, method: &'static str, path: &str, key: &str) -> u16 {
        let ask = ClientRequest::new(method, format!("/counters/{path}"));
        let ask = ask.header("idempotency-key", key);
        let ask = if method == "POST" {
            ask.json("{}")
        } else {
            ask
        };
        let answer = self.world.run(self.client(site).ask(ask));
        answer.expect("an answer").status
    }

    /// What a path answers, once it is answered in full.
    fn whole(&self, path: &str) -> Value {
        let mut last = String::new();
        for _ in 0..30 {
            let read = self.world.run(self.client(0).get(path)).expect("an answer");
            last = read.text();
            if read.status == 200
                && read.json()["missing_partitions"]
                    .as_array()
                    .is_none_or(Vec::is_empty)
            {
                return read.json();
            }
            self.world.run_for_ms(1_000);
        }
        panic!("{path} is not told in full: {last}");
    }

    /// The names of all counters, each as often as it is told, page by page.
    fn names(&self, limit: usize) -> Vec<String> {
        let (mut names, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let after = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
            let page = self.whole(&format!("/counters?limit={limit}{after}"));
            let counters = page["entries"].as_array().expect("counters").clone();
            let name = |counter: &Value| counter["id"].as_str().expect("a name").to_owned();
            names.extend(counters.iter().map(name));
            match page["cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return names,
            }
        }
    }

    fn sums(&self) -> (Value, Value, Value) {
        let top = self.whole("/top?by=value&limit=100");
        let aggregate = self.whole("/counters/*/aggregate");
        (
            top["counters"].clone(),
            top["total"].clone(),
            aggregate["value"].clone(),
        )
    }
}

#[test]
fn the_directory_grows_and_shrinks_while_counters_are_written() {
    let all = Deployment::new(1, DIRECTORY_COUNT, None);
    let counters: Vec<String> = (0..12).map(|number| format!("page-{number}")).collect();
    all.write_each(&counters, 0);
    assert!(all.moved.borrow().is_empty());
    all.write_gone();
    for (round, number) in (1..).zip(NUMBERS) {
        // Edges of before go on as they are.
        let roles: [&[Role]; 3] = [&[], &[Role::Edge], &[Role::Edge, Role::Aggregator]];
        all.change(
            number,
            roles[usize::try_from(round % 3).expect("it is small")],
        );
        if round == 2 {
            let delete = ClientRequest::new("DELETE", "/counters/gone");
            let deleted = all.world.run(all.client(1).ask(delete)).expect("an answer");
            assert_eq!(deleted.status, 200, "{}", deleted.text());
        }
        all.write_each(&counters, round);
        // Again, from the other datacenter: it was counted.
        all.world
            .run(all.write(1, "page-0", &format!("key-{}", round - 1)));
        for counter in &counters {
            assert_eq!(
                all.value(counter),
                Some(round + 1),
                "{counter} in round {round}"
            );
        }
        let mut expected: BTreeSet<String> = counters.iter().cloned().collect();
        if round < 2 {
            expected.insert("gone".to_owned());
        }
        for limit in [100, 5] {
            let names = all.names(limit);
            assert_eq!(
                names,
                Vec::from_iter(expected.clone()),
                "round {round}, by {limit}"
            );
        }
        if round % 2 == 0 {
            all.world.run_for_ms(SETTLED_MS);
        }
    }
    all.world.run_for_ms(SETTLED_MS);
    assert!(
        all.calls("/give-root") >= counters.len(),
        "{}",
        all.calls("/give-root")
    );
    assert_eq!(all.value("gone"), None);
    let total = u64::try_from(counters.len()).expect("it is small") * 6;
    assert_eq!(all.sums(), (12.into(), total.into(), total.into()));
}

#[test]
fn roots_that_nobody_asks_for_move_by_themselves_and_leave_nothing_behind() {
    let all = Deployment::new(3, DIRECTORY_COUNT, None);
    for number in 0..60 {
        all.world
            .run(all.write(number % 2, &format!("cold-{number}"), "key"));
    }
    all.change(Some("64"), &[Role::Edge, Role::Aggregator]);
    assert_eq!(all.names(100).len(), 60);
    all.world.run_for_ms(SETTLED_MS);
    let moved = all.calls("/root-taken");
    assert!(
        (30..=60).contains(&moved),
        "three of four are moved: {moved}"
    );
    all.moved.borrow_mut().clear();
    for number in 0..60 {
        assert_eq!(all.value(&format!("cold-{number}")), Some(1));
    }
    assert_eq!(all.names(100).len(), 60);
    all.world.run(all.write(0, "new", "key"));
    all.world.run_for_ms(SETTLED_MS);
    assert!(all.moved.borrow().is_empty(), "{:?}", all.moved.borrow());
    for (binding, name, ..) in all.world.objects() {
        if binding == DIRECTORY {
            let placement = Placement {
                binding,
                name: name.clone(),
                location_hint: None,
            };
            let left = "SELECT 1 FROM leaving UNION ALL SELECT 1 FROM leaving_rows UNION ALL SELECT 1 FROM arrived";
            if let Some(rows) = all.world.look(&placement, left) {
                assert_eq!(rows.len(), 0, "{name}");
            }
        }
    }
}

#[test]
fn where_the_number_of_partitions_never_changed_no_call_is_made_for_it() {
    for number in [None, Some("16")] {
        let all = Deployment::new(2, DIRECTORY_COUNT, number);
        for round in 0..4 {
            for counter in ["a", "b"] {
                all.world
                    .run(all.write(round % 2, counter, &format!("key-{round}")));
            }
            all.world.crash_all_objects();
        }
        assert_eq!((all.value("a"), all.names(10).len()), (Some(4), 2));
        all.sums();
        all.world.run_for_ms(90_000);
        assert!(all.moved.borrow().is_empty(), "{:?}", all.moved.borrow());
    }
}

/// Keys are kept for a week, and roots move two days after the counters were deleted.
#[test]
fn keys_of_deleted_counters_are_known_after_the_directory_has_grown() {
    let all = Deployment::new(8, DIRECTORY_COUNT, None);
    all.world.set(IDEMPOTENCY_SECONDS, Some("604800"));
    let counters: Vec<String> = (0..8).map(|number| format!("page-{number}")).collect();
    all.write_each(&counters, 0);
    for counter in &counters {
        assert_eq!(all.keyed(1, "DELETE", counter, "key-of-end"), 200);
    }
    // Long enough for all memory of them to go that no key needs.
    all.world.run_for_ms(48 * HOUR_MS);
    all.change(Some("64"), &[Role::Edge, Role::Aggregator]);
    assert!(all.names(100).is_empty());
    all.world.run_for_ms(SETTLED_MS);
    for counter in &counters {
        let path = format!("{counter}/increment");
        assert_eq!(all.keyed(0, "POST", &path, "key-0"), 409, "{counter}");
        assert_eq!(all.keyed(0, "POST", &path, "key-1"), 200, "{counter}");
        // It was done, to the counter of before.
        assert_eq!(all.keyed(1, "DELETE", counter, "key-of-end"), 200);
        assert_eq!(all.value(counter), Some(1), "{counter}");
        assert_eq!(all.keyed(1, "DELETE", counter, "key-of-next"), 200);
    }
    // A quarter longer than a week and an hour: no row of the counters is left.
    all.world.run_for_ms(212 * HOUR_MS);
    let partitions = all.world.objects().into_iter();
    for (binding, name, ..) in partitions.filter(|(binding, ..)| *binding == DIRECTORY) {
        let placement = Placement {
            binding,
            name: name.clone(),
            location_hint: None,
        };
        let left = "SELECT id FROM roots UNION ALL SELECT id FROM claims UNION ALL SELECT id FROM operations";
        let left = all.world.look(&placement, left).unwrap_or_default();
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

#[test]
fn a_deployment_begins_with_any_number() {
    for number in ["1", "3", "100"] {
        let all = Deployment::new(7, DIRECTORY_COUNT, Some(number));
        for counter in 0..20 {
            all.world
                .run(all.write(counter % 2, &format!("a-{counter}"), "key"));
        }
        assert_eq!(all.names(100).len(), 20);
        all.world.run_for_ms(SETTLED_MS);
        all.moved.borrow_mut().clear();
        for counter in 0..20 {
            all.world
                .run(all.write(counter % 2, &format!("b-{counter}"), "key"));
        }
        assert_eq!(all.names(7).len(), 40);
        assert!(all.moved.borrow().is_empty(), "{:?}", all.moved.borrow());
        all.world.run_for_ms(SETTLED_MS);
        assert_eq!(all.sums(), (40.into(), 40.into(), 40.into()));
    }
}

#[test]
fn a_root_moves_whatever_call_fails_and_whenever_objects_crash() {
    let paths = [
        "/register",
        "/claim",
        "/push",
        "/give-root",
        "/root-taken",
        "/call-root",
        "/directory-swept",
        "/directory-sizes",
    ];
    each_failure(&paths, fails_once);
}

/// A root moves twice while one call fails, or, where that is answered, while all objects crash right after.
fn fails_once(seed: u64, path: &str, fate: Verdict, nth: u32) {
    const COUNTERS: [&str; 2] = ["hits", "clicks"];
    let all = Deployment::new(seed, DIRECTORY_COUNT, Some("4"));
    all.write_while_objects_crash(0, &COUNTERS);
    *all.fails.borrow_mut() = Some((path.to_owned(), nth, fate));
    all.change(Some("37"), &[]);
    all.write_while_objects_crash(1, &COUNTERS);
    all.change(Some("2"), &[Role::Edge]);
    all.write_while_objects_crash(2, &COUNTERS);
    let what = format!("{path} {fate:?} {nth}, seed {seed}");
    for counter in COUNTERS {
        assert_eq!(all.value(counter), Some(6), "{what}");
    }
    assert_eq!(all.names(10), ["clicks", "hits"], "{what}");
    all.world.run_for_ms(70_000);
    assert_eq!(all.value("hits"), Some(6), "{what}");
    assert_eq!(all.sums(), (2.into(), 12.into(), 12.into()), "{what}");
    all.moved.borrow_mut().clear();
    all.world.run_for_ms(30_000);
    assert!(
        all.moved.borrow().is_empty(),
        "{what}: {:?}",
        all.moved.borrow()
    );
}

#[test]
fn writes_count_once_and_lists_tell_each_counter_once_while_roots_move_and_much_goes_wrong() {
    for seed in 0..6 {
        storm(seed, Faults::SOME);
    }
}

#[test]
fn lists_tell_each_counter_once_while_roots_move_and_calls_are_slow() {
    for seed in 10..14 {
        let whole = storm(seed, Faults::NONE);
        assert!(whole > 15, "{whole} lists were whole, seed {seed}");
    }
}

const STORM_COUNTERS: usize = 6;

fn storm_name(counter: usize) -> String {
    format!("hits-{counter}")
}

/// Writes the counters of a storm, some of them twice under one key, and counts them.
async fn write_often(all: &Deployment, chance: &Chance, client: usize, written: &[Cell<u64>]) {
    for number in 0..12 {
        let counter = chance.pick(STORM_COUNTERS);
        written[counter].set(written[counter].get() + 1);
        let (name, key) = (storm_name(counter), format!("key-{client}-{number}"));
        all.write(client % 2, &name, &key).await;
        if chance.once_in(3) {
            all.write(chance.pick(2), &name, &key).await;
        }
        all.world.sleep_ms(chance.below(2_000)).await;
    }
}

async fn change_numbers(all: &Deployment, chance: &Chance) {
    for _ in 0..6 {
        all.world.sleep_ms(chance.below(8_000)).await;
        let roles: [&[Role]; 3] = [&[], &[Role::Edge], &[Role::Edge, Role::Aggregator]];
        let roles = roles[chance.pick(3)];
        if chance.once_in(3) {
            all.world
                .set(TABLET_COUNT, [None, Some("4")][chance.pick(2)]);
        }
        all.change(NUMBERS[chance.pick(NUMBERS.len())], roles);
    }
}

/// Lists until it is over. Returns how many lists were whole.
async fn list_often(seed: u64, all: &Deployment, chance: &Chance, is_over: &Cell<bool>) -> u32 {
    let mut whole = 0;
    while !is_over.get() {
        all.world.sleep_ms(chance.below(500)).await;
        let path = ["/counters?limit=100", "/top?by=value&limit=100"][chance.pick(2)];
        let Ok(answer) = all.client(chance.pick(2)).get(path).await else {
            continue;
        };
        let json = answer.json();
        let is_whole = json["missing_partitions"]
            .as_array()
            .is_none_or(Vec::is_empty);
        if answer.status != 200 || !is_whole {
            continue;
        }
        whole += 1;
        // A top says how many counters there are, of which it lists the first.
        let told = json["counters"].as_u64().map(usize::try_from);
        let row_count = told.map_or_else(
            || json["entries"].as_array().expect("entries").len(),
            |count| count.expect("it is small"),
        );
        assert_eq!(row_count, STORM_COUNTERS, "{path}, seed {seed}: {json}");
    }
    whole
}

/// Returns how many lists were whole.
fn storm(seed: u64, faults: Faults) -> u32 {
    let all = Deployment::new(seed, DIRECTORY_COUNT, None);
    let chance = Chance::new(seed.wrapping_add(2_000));
    for counter in 0..STORM_COUNTERS {
        let name = storm_name(counter);
        all.world.run(all.write(counter % 2, &name, "first"));
    }
    all.world.set_faults(Faults {
        slow_ms_max: 1_000,
        ..faults
    });
    let written: [Cell<u64>; STORM_COUNTERS] = std::array::from_fn(|_| Cell::new(1));
    let is_over = Cell::new(false);
    let clients = join_all((0..4).map(|client| write_often(&all, &chance, client, &written)));
    let works = async {
        join(clients, change_numbers(&all, &chance)).await;
        is_over.set(true);
    };
    let lists = list_often(seed, &all, &chance, &is_over);
    let ((), whole) = all.world.run(join(works, lists));
    all.world.set_faults(Faults::NONE);
    all.world.run_for_ms(60_000);
    let mut total = 0;
    for (counter, written) in written.iter().enumerate() {
        total += written.get();
        let name = storm_name(counter);
        let value = all.value(&name);
        assert_eq!(value, Some(written.get()), "{name}, seed {seed}");
    }
    assert_eq!(all.names(100).len(), STORM_COUNTERS, "seed {seed}");
    // A lead that moved and crashed tells its root of what it had with the next write.
    for counter in 0..STORM_COUNTERS {
        for site in 0..2 {
            let name = storm_name(counter);
            all.world
                .run(all.write(site, &name, &format!("last-{site}")));
            total += 1;
        }
    }
    all.world.run_for_ms(TOLD_AGAIN_MS);
    assert_eq!(all.sums().1, Value::from(total), "seed {seed}");
    whole
}
