//! Whole services whose hot leads leave their tablets, and go back once they rest.
//!
//! Laws: those of [`super::leads`]; a lead that is not hot costs no call and no note; edges go straight to one that
//! lives apart.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::{join, join_all};
use tally_simulation::{Chance, ClientRequest, Faults, OneShot, PendingCall, Role, Verdict};
use tally_wire::names::{
    CELLS, DIRECTORY, DIRECTORY_COUNT, LEAVE_PER_SECOND, Placement, QUIET_MS, TABLET_COUNT,
    directory,
};

use super::service::Deployment;

/// Long enough for a lead to rest: ten times the quiet time, looked at that often.
const REST_MS: u64 = 150_000;

/// A service with tablets whose leads leave with three messages a second for a second, and rest after a minute.
fn service(seed: u64) -> Deployment {
    let all = Deployment::new(seed, TABLET_COUNT, Some("4"));
    all.world.set(LEAVE_PER_SECOND, Some("3"));
    all.world.set(QUIET_MS, Some("6000"));
    all
}

impl Deployment {
    /// Writes under keys, several at once for some seconds. Returns how many.
    async fn heat(&self, site: usize, counter: &str, round: u64) -> u64 {
        let writes = (0..6).map(|client| async move {
            for number in 0..8 {
                let key = format!("{counter}-{round}-{client}-{number}");
                self.write(site, counter, &key).await;
                self.world.sleep_ms(300).await;
            }
        });
        join_all(writes).await;
        48
    }

    /// The tables of the objects that cells have of their own, by their names.
    fn tables(&self) -> Vec<(String, usize)> {
        let own = self.world.objects().into_iter();
        let own = own.filter(|(binding, ..)| *binding == CELLS);
        own.map(|(binding, name, ..)| {
            let placement = Placement {
                binding,
                name: name.clone(),
                location_hint: None,
            };
            let tables = self
                .world
                .look(&placement, "SELECT name FROM sqlite_master");
            (name, tables.map_or(0, |tables| tables.len()))
        })
        .collect()
    }

    /// How many partitions have notes of leads that live apart.
    fn notes(&self) -> usize {
        self.partitions_with("SELECT 1 FROM deployment WHERE name = 'apart'")
    }

    /// How many partitions have rows of a query.
    fn partitions_with(&self, query: &str) -> usize {
        let has_notes = |partition: &u32| {
            let noted = self.world.look(&directory(*partition), query);
            noted.is_some_and(|rows| !rows.is_empty())
        };
        let known = self.world.objects();
        let partitions = known.iter().filter(|(binding, ..)| *binding == DIRECTORY);
        let number = |name: &str| name.strip_prefix("d1/")?.parse().ok();
        let partitions = partitions.filter_map(|(_, name, ..)| number(name));
        partitions.filter(has_notes).count()
    }
}

#[test]
fn a_hot_lead_leaves_its_tablet_and_goes_back_once_it_rests() {
    let all = service(1);
    let mut written = all.world.run(all.heat(0, "hot", 0));
    all.world.run_for_ms(2_000);
    assert_eq!(all.calls("/place-lead"), 1);
    assert_eq!((all.calls("/give-lead"), all.calls("/lead-taken")), (1, 1));
    assert_eq!(all.tables().len(), 1, "{:?}", all.tables());
    let located = all.calls("/locate-lead");
    assert_eq!(all.value("hot"), Some(written));
    assert_eq!(
        all.calls("/locate-lead"),
        located,
        "its tablet knows where it is"
    );
    // Edges have heard where it is. One that has not is sent on, and hears it then.
    let sent_on = all.calls("/call-lead");
    written += all.world.run(all.heat(0, "hot", 1));
    assert!(all.calls("/call-lead") <= sent_on + 2);
    // A key that was counted at the tablet is known.
    all.world.run(all.write(0, "hot", "hot-0-0-0"));
    assert_eq!(all.value("hot"), Some(written));
    assert_eq!(all.calls("/place-lead"), 1, "it has left");
    all.world.run_for_ms(REST_MS);
    assert_eq!((all.calls("/place-lead"), all.calls("/lead-taken")), (2, 2));
    assert!(all.tables().iter().all(|(_, tables)| *tables == 0));
    assert_eq!(all.value("hot"), Some(written));
    assert_eq!(all.listed_values("hot"), (Some(written), Some(written)));
    // Edges that still ask its object are sent on.
    written += all.world.run(all.heat(0, "hot", 2));
    all.world.run(all.write(0, "hot", "hot-1-0-0"));
    assert_eq!(all.value("hot"), Some(written));
}

#[test]
fn a_lead_that_is_written_slowly_and_one_that_splits_cost_no_call_and_no_note() {
    let all = service(2);
    all.world.run(async {
        for number in 0..20 {
            all.write(0, "slow", &format!("key-{number}")).await;
            all.world.sleep_ms(1_500).await;
        }
        // Without keys it is split where it is hot.
        let writes = (0..6).map(|_| async {
            for _ in 0..20 {
                let answer = all
                    .client(1)
                    .post("/counters/plain/increment", "{}")
                    .await
                    .expect("an answer");
                assert_eq!(answer.status, 200, "{}", answer.text());
                all.world.sleep_ms(100).await;
            }
        });
        join_all(writes).await;
    });
    all.world.run_for_ms(REST_MS);
    assert_eq!(
        (all.value("slow"), all.value("plain")),
        (Some(20), Some(120))
    );
    assert!(all.moved.borrow().is_empty(), "{:?}", all.moved.borrow());
    assert_eq!(all.notes(), 0);
}

#[test]
fn without_tablets_no_lead_asks_whether_it_may_leave() {
    let all = Deployment::new(3, TABLET_COUNT, None);
    all.world.set(LEAVE_PER_SECOND, Some("1"));
    all.world.set(QUIET_MS, Some("600"));
    let written = all.world.run(all.heat(0, "hot", 0));
    all.world.run_for_ms(REST_MS);
    assert_eq!(all.value("hot"), Some(written));
    assert!(all.moved.borrow().is_empty(), "{:?}", all.moved.borrow());
    assert_eq!(all.notes(), 0);
}

#[test]
fn a_counter_that_is_deleted_while_its_lead_lives_apart_begins_in_its_tablet() {
    let all = service(4);
    all.world.run(all.heat(0, "hot", 0));
    all.world.run_for_ms(2_000);
    assert_eq!(all.calls("/lead-taken"), 1);
    let delete = ClientRequest::new("DELETE", "/counters/hot");
    let deleted = all.world.run(all.client(1).ask(delete)).expect("an answer");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    all.world.run_for_ms(5_000);
    assert!(all.tables().iter().all(|(_, tables)| *tables == 0));
    all.world.run(all.write(0, "hot", "again"));
    all.world.run(all.write(1, "hot", "again-elsewhere"));
    assert_eq!(all.value("hot"), Some(2));
    all.world.run_for_ms(70_000);
    assert!(all.tables().iter().all(|(_, tables)| *tables == 0));
    assert_eq!(all.value("hot"), Some(2));
}

/// The partition that a root leaves forgets the root and what it has noted of its leads together, or neither.
#[test]
fn a_note_of_a_lead_leaves_with_its_root_whenever_storage_fails() {
    let mut refused = 0;
    for statements in 0..16 {
        let all = service(40 + statements);
        all.world.run(all.heat(0, "hot", 0));
        all.world.run_for_ms(2_000);
        assert_eq!(all.calls("/lead-taken"), 1);
        let (taken, comes) = (Rc::new(RefCell::new(None)), OneShot::new());
        let (seen, verdict) = (taken.clone(), comes.clone());
        all.world.set_judge(move |judged: PendingCall| {
            let is_first = judged.path == "/root-taken" && seen.borrow().is_none();
            let verdict = verdict.clone();
            if is_first {
                seen.replace(Some(judged.name));
            }
            Box::pin(async move {
                match is_first {
                    true => verdict.wait().await,
                    false => Verdict::Answered,
                }
            })
        });
        all.world.set(DIRECTORY_COUNT, Some("61"));
        all.world.crash_all_objects();
        all.world.run(all.write(1, "hot", "moved"));
        let giver = taken.take().expect("its root has moved");
        let giver = Placement {
            binding: DIRECTORY,
            name: giver,
            location_hint: None,
        };
        assert!(all.world.fail_storage(&giver, statements, 100));
        let failed = all.world.figures().failed_statements;
        comes.fill(Verdict::Answered);
        all.world.run_for_ms(90);
        refused += u32::from(all.world.figures().failed_statements > failed);
        all.world.run_for_ms(30_000);
        let noted =
            "SELECT 1 FROM deployment WHERE name = 'apart' AND instr(body, CAST('hot' AS BLOB))";
        assert_eq!(all.partitions_with(noted), 1, "{statements}");
    }
    assert!(refused > 8, "storage was seldom out: {refused}");
}

#[test]
fn a_hot_lead_leaves_and_comes_back_whatever_call_fails_and_whenever_objects_crash() {
    let fates = [Verdict::Unreached, Verdict::AnswerLost, Verdict::Answered];
    let paths = [
        "/place-lead",
        "/locate-lead",
        "/give-lead",
        "/lead-taken",
        "/call-lead",
        "/count",
        "/register",
    ];
    let mut seed = 10;
    for path in paths {
        for fate in fates {
            for nth in 1..=2 {
                seed += 1;
                fails_once(seed, path, fate, nth);
            }
        }
    }
}

/// A lead leaves, comes back and leaves again while one call fails, or, where that is answered, while all objects
/// crash right after.
fn fails_once(seed: u64, path: &str, fate: Verdict, nth: u32) {
    let all = service(seed);
    let what = format!("{path} {fate:?} {nth}, seed {seed}");
    all.world.run(all.write(0, "hot", "first"));
    *all.fails.borrow_mut() = Some((path.to_owned(), nth, fate));
    let mut written = 1;
    for round in 0..2 {
        let is_over = Cell::new(false);
        let heat = async {
            let written = all.heat(0, "hot", round).await;
            is_over.set(true);
            written
        };
        written += all.world.run(join(heat, all.crash_when_asked(&is_over))).0;
        assert_eq!(all.value("hot"), Some(written), "{what}");
        let is_over = Cell::new(false);
        let rest = async {
            all.world.sleep_ms(REST_MS).await;
            is_over.set(true);
        };
        all.world.run(join(rest, all.crash_when_asked(&is_over)));
        assert_eq!(all.value("hot"), Some(written), "{what}");
    }
    assert!(all.calls("/lead-taken") >= 2, "{what}: it moved");
    all.world.run_for_ms(70_000);
    assert_eq!(
        all.listed_values("hot"),
        (Some(written), Some(written)),
        "{what}"
    );
}

#[test]
fn writes_count_once_while_leads_leave_and_much_goes_wrong() {
    for seed in 0..6 {
        storm(seed);
    }
}

fn storm(seed: u64) {
    let all = service(100 + seed);
    all.world.set(LEAVE_PER_SECOND, Some("1"));
    all.world.set(QUIET_MS, Some("1200"));
    let chance = Chance::new(seed.wrapping_add(2_000));
    all.world.set_faults(Faults {
        slow_ms_max: 1_000,
        ..Faults::SOME
    });
    let written: Vec<Cell<u64>> = (0..2).map(|_| Cell::new(0)).collect();
    let clients = join_all((0..6).map(|client: usize| {
        let (all, chance, written) = (&all, &chance, &written);
        async move {
            for number in 0..20 {
                let counter = chance.pick(2);
                written[counter].set(written[counter].get() + 1);
                let (name, key) = (format!("hits-{counter}"), format!("key-{client}-{number}"));
                all.write(client % 2, &name, &key).await;
                if chance.once_in(3) {
                    all.write(chance.pick(2), &name, &key).await;
                }
                // Hot for a while, and then none of them.
                let pause_ms = if number % 7 == 6 { 20_000 } else { 600 };
                all.world.sleep_ms(chance.below(pause_ms)).await;
            }
        }
    }));
    let changes = async {
        for number in ["9", "4", "2"] {
            all.world.sleep_ms(chance.below(20_000)).await;
            let roles: &[Role] = if chance.once_in(2) {
                &[Role::Edge]
            } else {
                &[]
            };
            all.change(Some(number), roles);
        }
    };
    all.world.run(join(clients, changes));
    all.world.set_faults(Faults::NONE);
    all.world.run_for_ms(60_000);
    assert!(all.calls("/place-lead") > 0, "seed {seed}");
    for (number, written) in written.iter().enumerate() {
        let counter = format!("hits-{number}");
        let expected = Some(written.get()).filter(|written| *written > 0);
        assert_eq!(all.value(&counter), expected, "{counter}, seed {seed}");
    }
}
