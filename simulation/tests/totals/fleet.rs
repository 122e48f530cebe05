//! What the whole deployment has counted, against what clients were told.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{client, get, service};
use tally_host::object::SqlValue;
use tally_simulation::{Client, ClientRequest, Faults, Options, Role, Verdict, World, deployed};
use tally_wire::names::{Placement, directory};

const TELL: &str = "/tell-counts";
const ACKNOWLEDGED: &str = "tally_fleet_acknowledged_total{operation=\"increment\"}";
const COMMITS: &str = "tally_fleet_commits_total{outcome=\"written\"}";

/// How long until every edge has reported what it counted, and has repeated lost reports.
const PROPAGATION_MS: u64 = 20_000;

fn scrape(world: &World, client: &Client) -> BTreeMap<String, f64> {
    let answer = world.run(client.get("/metrics")).expect("no fault");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().expect("a number")))
    });
    samples.collect()
}

fn add(world: &World, client: &Client, counter: &str) {
    let path = format!("/counters/{counter}/increment");
    let answer = world.run(client.post(&path, "")).expect("no fault");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn reports(world: &World) -> u64 {
    world.figures().messages.get(TELL).copied().unwrap_or(0)
}

/// Loses reports, and answers to them, each once in so many.
fn lose_reports(world: &World, once_in: u64) {
    let chance = Rc::new(Cell::new(1_u64));
    world.set_judge(move |judged| {
        let mut verdict = Verdict::Answered;
        if judged.path == TELL {
            let next = chance.get().wrapping_mul(6_364_136_223_846_793_005);
            chance.set(next.wrapping_add(1_442_695_040_888_963_407));
            verdict = match (chance.get() >> 33) % once_in {
                0 => Verdict::Unreached,
                1 => Verdict::AnswerLost,
                _ => Verdict::Answered,
            };
        }
        Box::pin(async move { verdict })
    });
}

/// The most rounds until each isolate has told what it counted: of three reports one does not arrive, and one is not
/// known to have.
const ROUNDS_MAX: usize = 60;

#[test]
fn what_all_isolates_acknowledged_is_in_the_totals_once_though_reports_are_lost_and_repeated() {
    for seed in 0..8 {
        let (world, sites) = service(seed, Options::default());
        world.set_faults(Faults {
            repeats_once_in: 3,
            ..Faults::NONE
        });
        lose_reports(&world, 3);
        let clients = sites.map(|site| client(&world, site));
        let mut increments = 0_u32;
        let mut last = 0.0;
        for round in 0..120 {
            let client = &clients[world.chance().pick(2)];
            add(&world, client, &format!("c{}", world.chance().below(9)));
            increments += 1;
            world.run_for_ms(world.chance().below(3_000));
            if round % 20 == 19 {
                let now = scrape(&world, &clients[world.chance().pick(2)])[ACKNOWLEDGED];
                assert!(
                    now >= last && now <= f64::from(increments),
                    "{last} {now} {increments}"
                );
                last = now;
            }
        }
        // Whoever has something that was not confirmed tells it with its next request.
        let mut all = scrape(&world, &clients[0]);
        for _ in 0..ROUNDS_MAX {
            for client in &clients {
                for _ in 0..8 {
                    get(&world, client, "/counters/c1");
                }
            }
            world.run_for_ms(PROPAGATION_MS);
            all = scrape(&world, &clients[0]);
            if all[ACKNOWLEDGED] >= f64::from(increments) {
                break;
            }
        }
        assert_eq!(all[ACKNOWLEDGED], f64::from(increments), "seed {seed}");
        assert!(all["tally_acknowledged_total{operation=\"increment\"}"] < f64::from(increments));
        assert!(all[COMMITS] > 0.0, "objects report too");
        assert_eq!(all["tally_fleet_up"], 1.0);
        assert!(all["tally_fleet_age_seconds"] < 60.0);
        assert!(all["tally_fleet_isolates{role=\"edge\"}"] >= 1.0);
    }
}

#[test]
fn where_a_data_set_is_bound_what_rose_is_written_there_once_though_reports_are_lost() {
    let (world, sites) = service(30, Options::default());
    world.bind_points();
    lose_reports(&world, 3);
    let clients = sites.map(|site| client(&world, site));
    for number in 0..40 {
        add(&world, &clients[number % 2], "c");
        world.run_for_ms(2_000);
    }
    let sum = |role: &str, place: &str, series: &str| -> f64 {
        let points = world.points().into_iter();
        let points = points.filter(|point| point.texts == [series, role, place]);
        points.map(|point| point.number).sum()
    };
    let increments = || {
        let series = "tally_acknowledged_total{operation=\"increment\"}";
        [sum("edge", "FRA", series), sum("edge", "SYD", series)]
    };
    for _ in 0..ROUNDS_MAX {
        if increments() == [20.0, 20.0] {
            break;
        }
        for client in &clients {
            for _ in 0..8 {
                get(&world, client, "/counters/c");
            }
        }
        world.run_for_ms(PROPAGATION_MS);
    }
    assert_eq!(increments(), [20.0, 20.0]);
    let points = world.points();
    assert!(sum("objects", "", "tally_commits_total{outcome=\"written\"}") > 0.0);
    for point in &points {
        assert!(point.texts[0].starts_with(&point.index) && !point.index.contains('{'));
        assert!(point.number > 0.0, "{point:?}");
    }
}

#[test]
fn a_deployment_that_rests_reports_nothing_also_where_its_numbers_are_looked_at() {
    let (world, sites) = service(5, Options::default());
    let client = client(&world, sites[0]);
    for _ in 0..40 {
        add(&world, &client, "once");
        world.run_for_ms(500);
    }
    world.run_for_ms(120_000);
    let (before, rows) = (reports(&world), world.figures().rows_written);
    assert!(before > 0);
    for _ in 0..40 {
        scrape(&world, &client);
        world.run_for_ms(15_000);
    }
    // Objects may have had a tail that no call came after: the look at them is such a call.
    let tail = reports(&world) - before;
    assert!(tail <= 24, "{tail}");
    let (before, rows) = (reports(&world), rows.max(world.figures().rows_written));
    for _ in 0..40 {
        scrape(&world, &client);
        world.run_for_ms(15_000);
    }
    assert_eq!(
        (reports(&world), world.figures().rows_written),
        (before, rows)
    );
}

#[test]
fn an_isolate_reports_at_most_every_ten_seconds() {
    let (world, sites) = service(6, Options::default());
    let client = client(&world, sites[0]);
    for _ in 0..600 {
        add(&world, &client, "busy");
        world.run_for_ms(100);
    }
    // 2 edges and the isolates of objects, 60 s and what writes took.
    let seconds = 120;
    let isolates = 2 + u64::try_from(world.objects().len()).expect("few");
    assert!(
        reports(&world) <= isolates * (seconds / 10 + 1),
        "{}",
        reports(&world)
    );
}

#[test]
fn totals_never_fall_while_partitions_crash_and_are_left_out_while_one_is_away() {
    let (world, sites) = service(7, Options::default());
    let client = client(&world, sites[0]);
    let (mut last, mut increments, mut gaps) = (0.0, 0_u32, 0);
    for round in 0..60_u32 {
        add(&world, &client, "steady");
        increments += 1;
        world.run_for_ms(4_000);
        let partition = round % 16;
        world.crash(&directory(partition));
        let is_away = round % 3 == 0;
        world.set_judge(move |judged| {
            let is_lost =
                is_away && judged.name == directory(partition).name && judged.path == "/fleet-of";
            let verdict = if is_lost {
                Verdict::Unreached
            } else {
                Verdict::Answered
            };
            Box::pin(async move { verdict })
        });
        let all = scrape(&world, &client);
        match all.get(ACKNOWLEDGED) {
            Some(now) => {
                assert_eq!(all["tally_fleet_up"], 1.0);
                assert!(
                    *now >= last && *now <= f64::from(increments),
                    "{last} {now} {increments}"
                );
                last = *now;
            }
            None => {
                assert_eq!(
                    (all["tally_fleet_up"], all["tally_fleet_partitions"]),
                    (0.0, 15.0)
                );
                gaps += 1;
            }
        }
    }
    assert!(gaps >= 15 && last >= 50.0, "{gaps} {last}");
}

#[test]
fn lookups_are_answered_from_memory_until_the_root_ends() {
    let (world, sites) = service(31, Options::default());
    let clients = sites.map(|site| client(&world, site));
    for client in &clients {
        add(&world, client, "looked-at");
    }
    let read = || {
        for _ in 0..6 {
            get(&world, &clients[0], "/counters/looked-at");
            world.run_for_ms(2_000);
        }
        world.run_for_ms(PROPAGATION_MS);
        get(&world, &clients[0], "/counters/looked-at");
        world.run_for_ms(PROPAGATION_MS);
        let all = scrape(&world, &clients[0]);
        ["memory", "storage"]
            .map(|from| all[&format!("tally_fleet_lookups_total{{from=\"{from}\"}}")])
    };
    let [memory, storage] = read();
    assert!(memory >= 4.0 && memory > storage, "{memory} and {storage}");
    world.crash_all_objects();
    let [_, again] = read();
    assert!(again > storage, "{again}, {storage} before the root ended");
}

#[test]
fn what_an_edge_had_not_told_when_it_ended_is_missing_and_no_more() {
    let (world, sites) = service(8, Options::default());
    let client = client(&world, sites[0]);
    for _ in 0..10 {
        add(&world, &client, "short");
    }
    world.run_for_ms(PROPAGATION_MS);
    for _ in 0..5 {
        add(&world, &client, "short");
    }
    world.crash_isolates(Role::Edge, sites[0]);
    world.run_for_ms(PROPAGATION_MS);
    assert_eq!(scrape(&world, &client)[ACKNOWLEDGED], 10.0);
    for _ in 0..3 {
        add(&world, &client, "short");
    }
    world.run_for_ms(PROPAGATION_MS);
    assert_eq!(scrape(&world, &client)[ACKNOWLEDGED], 13.0);
}

#[test]
fn rows_of_isolates_that_are_gone_are_folded_and_their_counts_stay() {
    let (world, sites) = service(90, Options::default());
    let client = client(&world, sites[0]);
    let rows = |world: &World| -> usize {
        let of = |partition| world.look(&directory(partition), "SELECT incarnation FROM fleet");
        (0..16).filter_map(of).map(|rows| rows.len()).sum()
    };
    let began_s = |world: &World| scrape(world, &client)["tally_fleet_start_time_seconds"];
    let first_s = f64::from(u32::try_from(world.now_ms() / 1_000).expect("before 2106"));
    for _ in 0..40 {
        add(&world, &client, "many");
        world.run_for_ms(PROPAGATION_MS);
        world.crash_isolates(Role::Edge, sites[0]);
    }
    let before = rows(&world);
    assert!(before >= 30, "{before}");
    let began = began_s(&world);
    assert!(
        (first_s..first_s + 20.0).contains(&began),
        "{first_s} {began}"
    );
    world.run_for_ms(3 * 3_600_000);
    // New incarnations make room.
    for _ in 0..40 {
        add(&world, &client, "many");
        world.run_for_ms(PROPAGATION_MS);
        world.crash_isolates(Role::Edge, sites[0]);
    }
    assert!(rows(&world) <= before + 30, "{before} {}", rows(&world));
    assert_eq!(scrape(&world, &client)[ACKNOWLEDGED], 80.0);
    // Since when it was counted stays, though the rows of then are folded and the partitions begin anew.
    world.crash_all_objects();
    assert_eq!(began_s(&world), began);
}

#[test]
fn hot_names_what_is_written_most_with_its_datacenters_and_shards() {
    let (world, sites) = service(10, Options::default());
    let clients = sites.map(|site| client(&world, site));
    for round in 0..400 {
        add(&world, &clients[round % 2], "hot");
        if round % 10 == 0 {
            add(&world, &clients[0], "warm");
        }
        world.run_for_ms(30);
    }
    for client in &clients {
        get(&world, client, "/counters/hot?consistency=strong");
        get(&world, client, "/counters/warm?consistency=strong");
    }
    let hot = get(&world, &clients[1], "/top?by=rate&limit=2");
    assert_eq!(hot["exact"], false, "{hot}");
    let rows = hot["entries"].as_array().expect("rows");
    let ids: Vec<_> = rows
        .iter()
        .map(|row| row["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids, ["hot", "warm"], "{hot}");
    let rate = |row: &serde_json::Value| row["rate_per_second"].as_f64().expect("a rate");
    assert!(rate(&rows[0]) > 4.0 * rate(&rows[1]), "{hot}");
    assert_eq!(
        rows[0]["datacenters"].as_array().map(Vec::len),
        Some(2),
        "{hot}"
    );
    assert_eq!(rows[0]["shards"], 2, "{hot}");
    assert_eq!(rows[0]["error_per_second"], 0.0, "{hot}");
    world.run_for_ms(120_000);
    let hot = get(&world, &clients[1], "/top?by=rate");
    assert_eq!(
        hot["entries"].as_array().map(Vec::len),
        Some(0),
        "what rests is not hot: {hot}"
    );
}

#[test]
fn a_clock_that_is_off_is_told_with_how_far_that_is_known() {
    let world = deployed(11, Options::default());
    let sites = [world.site("FRA", 1), world.site("SYD", 1)];
    world.set_clock(sites[1], -5_000);
    let clients = sites.map(|site| client(&world, site));
    for _ in 0..6 {
        for client in &clients {
            add(&world, client, "ticks");
        }
        world.run_for_ms(11_000);
    }
    let all = scrape(&world, &clients[0]);
    let off =
        |name: &str| all[&format!("tally_fleet_clock_offset_seconds{{datacenter=\"{name}\"}}")];
    let error = |name: &str| {
        all[&format!("tally_fleet_clock_offset_error_seconds{{datacenter=\"{name}\"}}")]
    };
    let between = off("SYD") - off("FRA");
    assert!(
        (between + 5.0).abs() <= error("SYD") + error("FRA") + 0.2,
        "{between}"
    );
    assert!(error("SYD") < 0.5 && error("FRA") < 0.5);
}

#[test]
fn what_waits_in_inboxes_is_told_while_it_waits_and_when_it_is_over() {
    let (world, sites) = service(12, Options::default());
    let client = client(&world, sites[0]);
    let event = || {
        let ask = ClientRequest::new("POST", "/api/event").json(r#"{"key":"queued"}"#);
        let answer = world.run(client.ask(ask)).expect("no fault");
        assert_eq!(answer.status, 202, "{}", answer.text());
    };
    event();
    world.run_for_ms(10_000);
    let all = scrape(&world, &client);
    assert_eq!(
        (
            all["tally_fleet_backlog"],
            all["tally_fleet_oldest_waiting_seconds"]
        ),
        (0.0, 0.0)
    );
    world.set_judge(|judged| {
        let is_lost = judged.path == "/count";
        let verdict = if is_lost {
            Verdict::Unreached
        } else {
            Verdict::Answered
        };
        Box::pin(async move { verdict })
    });
    for _ in 0..5 {
        event();
        world.run_for_ms(10_000);
    }
    let all = scrape(&world, &client);
    assert!(all["tally_fleet_backlog"] >= 1.0);
    let oldest = all["tally_fleet_oldest_waiting_seconds"];
    assert!((40.0..80.0).contains(&oldest), "{oldest}");
    assert!(
        all.keys()
            .any(|name| name.starts_with("tally_fleet_inbox_backlog{inbox=\"FRA/"))
    );
    world.set_judge(|_| Box::pin(async { Verdict::Answered }));
    world.run_for_ms(60_000);
    let all = scrape(&world, &client);
    assert_eq!(
        (
            all["tally_fleet_backlog"],
            all["tally_fleet_oldest_waiting_seconds"]
        ),
        (0.0, 0.0)
    );
}

#[test]
fn what_objects_store_is_told_by_kind() {
    let world = deployed(13, Options::default());
    world.set("TALLY_TABLETS", Some("4"));
    let site = world.site("FRA", 2);
    let client = client(&world, site);
    let body: String = (0..2_000)
        .map(|number| format!("{{\"id\":\"k{number}\"}}\n"))
        .collect();
    for _ in 0..4 {
        world.run(client.post("/events", &body)).expect("no fault");
        world.run_for_ms(15_000);
    }
    world.run_for_ms(70_000);
    let all = scrape(&world, &client);
    assert_eq!(all["tally_fleet_counters"], 2_000.0);
    for (kind, binding) in [("tablet", "TABLETS"), ("directory", "DIRECTORY")] {
        let stored_bytes = all[&format!("tally_fleet_stored_bytes{{kind=\"{kind}\"}}")];
        let truth: f64 = (world.objects().iter())
            .filter(|(known, ..)| *known == binding)
            .filter_map(|(_, name, ..)| {
                let placement = Placement {
                    binding,
                    name: name.clone(),
                    location_hint: None,
                };
                let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
                match world.look(&placement, sql)?.first()?.first()? {
                    SqlValue::Integer(bytes) => u32::try_from(*bytes).ok().map(f64::from),
                    _ => None,
                }
            })
            .sum();
        assert!(
            (stored_bytes - truth).abs() <= 0.25 * truth,
            "{kind}: {stored_bytes} of {truth}"
        );
    }
    assert_eq!(all["tally_fleet_stored_error_bytes{kind=\"tablet\"}"], 0.0);
}

#[test]
fn what_cells_of_their_own_store_is_estimated_with_its_error() {
    let world = deployed(14, Options::default());
    let client = client(&world, world.site("FRA", 1));
    let body: String = (0..1_500)
        .map(|number| format!("{{\"id\":\"k{number}\"}}\n"))
        .collect();
    for _ in 0..3 {
        world.run(client.post("/events", &body)).expect("no fault");
        world.run_for_ms(15_000);
    }
    world.run_for_ms(70_000);
    let all = scrape(&world, &client);
    let stored_bytes = all["tally_fleet_stored_bytes{kind=\"cell\"}"];
    let error = all["tally_fleet_stored_error_bytes{kind=\"cell\"}"];
    let one = Placement {
        binding: "CELLS",
        name: "c1/FRA/0/k7".to_owned(),
        location_hint: None,
    };
    let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let rows = world.look(&one, sql).expect("a cell");
    let Some(SqlValue::Integer(bytes)) = rows.first().and_then(|row| row.first()) else {
        panic!("a size");
    };
    let truth = 1_500.0 * f64::from(u32::try_from(*bytes).expect("a small size"));
    assert!(error > 0.0 && error < truth / 4.0, "{error} of {truth}");
    assert!(
        (stored_bytes - truth).abs() < 4.0 * error,
        "{stored_bytes} ± {error} of {truth}"
    );
}

#[test]
fn a_move_is_told_until_it_is_over_also_by_healthz() {
    let (world, sites) = service(15, Options::default());
    let client = client(&world, sites[0]);
    for number in 0..60 {
        add(&world, &client, &format!("moves{number}"));
    }
    world.set("TALLY_TABLETS", Some("4"));
    world.restart(100);
    world.run_for_ms(5_000);
    get(&world, &client, "/counters/moves0");
    let all = scrape(&world, &client);
    assert!(
        all["tally_fleet_moving_counters"] > 30.0 && all["tally_fleet_moving_partitions"] > 8.0
    );
    let moving = |at: &str| {
        for _ in 0..16 {
            get(&world, &client, "/healthz");
            world.run_for_ms(1_000);
        }
        let health = get(&world, &client, "/healthz");
        assert_eq!(health["status"], "ok", "{at}");
        health["moving"]["counters"].as_u64()
    };
    assert!(moving("at first").is_some_and(|counters| counters > 30));
    world.run_for_ms(700_000);
    assert_eq!(moving("at last"), None);
    let all = scrape(&world, &client);
    assert_eq!(
        (
            all["tally_fleet_moving_counters"],
            all["tally_fleet_moving_partitions"]
        ),
        (0.0, 0.0)
    );
}

#[test]
fn healthz_names_a_clock_that_is_off_by_a_tenth_of_a_second() {
    let world = deployed(16, Options::default());
    let sites = [world.site("FRA", 1), world.site("SYD", 1)];
    let clients = sites.map(|site| client(&world, site));
    // So that most partitions lie where the clock is right.
    for number in 0..60 {
        add(&world, &clients[0], &format!("first{number}"));
    }
    world.set_clock(sites[1], 5_000);
    for _ in 0..6 {
        for client in &clients {
            add(&world, client, "ticks");
        }
        world.run_for_ms(11_000);
    }
    get(&world, &clients[0], "/healthz");
    world.run_for_ms(2_000);
    let health = get(&world, &clients[0], "/healthz");
    let clocks = health["clocks"].as_array().expect("clocks that are off");
    assert_eq!(clocks.len(), 1, "{health}");
    assert_eq!(clocks[0]["datacenter"], "SYD", "{health}");
    let (offset, error) = (
        clocks[0]["offset_ms"].as_i64().unwrap(),
        clocks[0]["error_ms"].as_i64().unwrap(),
    );
    assert!((offset - 5_000).abs() <= error + 100, "{health}");
}

/// Lets clients of all sites read and write as people do, for so many minutes.
fn traffic(world: &World, clients: &[Client], minutes: u64) {
    for _ in 0..minutes * 20 {
        for client in clients {
            add(world, client, "traffic");
        }
        world.run_for_ms(3_000);
    }
}

#[test]
fn the_canary_tells_how_long_a_write_takes_until_all_see_it() {
    let world = deployed(17, Options::default());
    world.set("TALLY_CANARY", Some("on"));
    let sites = [
        world.site("FRA", 2),
        world.site("SYD", 1),
        world.site("IAD", 1),
    ];
    world.set_clock(sites[1], 30_000);
    let clients = sites.map(|site| client(&world, site));
    traffic(&world, &clients, 5);
    let all = scrape(&world, &clients[0]);
    for name in ["FRA", "SYD", "IAD"] {
        let seconds = all[&format!("tally_fleet_convergence_seconds{{datacenter=\"{name}\"}}")];
        assert!(seconds > 0.05 && seconds < 2.0, "{name}: {seconds}");
        // The same 4,096 elements, however often and wherever they were written.
        let error = all[&format!("tally_fleet_estimate_error_ratio{{datacenter=\"{name}\"}}")];
        assert!(error < 0.03, "{name}: {error}");
        let waited = all[&format!("tally_fleet_unreported_seconds{{datacenter=\"{name}\"}}")];
        assert!(waited < 75.0, "{name}: {waited}");
    }
    // Nobody can name it, and it is in no list.
    assert_eq!(
        get(&world, &clients[0], "/counters")["entries"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(all["tally_fleet_counters"], 1.0);
    let flushes = |world: &World| world.figures().messages.get("/flush").copied().unwrap_or(0);
    world.run_for_ms(60_000);
    let before = flushes(&world);
    world.run_for_ms(600_000);
    assert_eq!(
        flushes(&world),
        before,
        "a deployment that rests writes no canary"
    );
}

#[test]
fn without_its_setting_there_is_no_canary() {
    let (world, sites) = service(18, Options::default());
    let clients = sites.map(|site| client(&world, site));
    traffic(&world, &clients, 3);
    let all = scrape(&world, &clients[0]);
    assert!(!all.keys().any(|name| name.contains("convergence")));
}

#[test]
fn each_name_that_the_dashboard_and_the_rules_speak_of_is_told() {
    let world = deployed(19, Options::default());
    world.set("TALLY_CANARY", Some("on"));
    let sites = [world.site("FRA", 1), world.site("SYD", 1)];
    let clients = sites.map(|site| client(&world, site));
    traffic(&world, &clients, 4);
    let ask = ClientRequest::new("POST", "/api/event").json(r#"{"key":"queued"}"#);
    world.set_judge(|judged| {
        let verdict = if judged.path == "/count" {
            Verdict::Unreached
        } else {
            Verdict::Answered
        };
        Box::pin(async move { verdict })
    });
    world.run(clients[0].ask(ask)).expect("no fault");
    traffic(&world, &clients, 1);
    let series: BTreeSet<String> = (scrape(&world, &clients[0]).into_keys())
        .map(|name| name.split('{').next().expect("a name").to_owned())
        .collect();
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");
    let mut spoken = BTreeSet::new();
    for file in ["grafana/tally.json", "prometheus/rules.yml"] {
        let text = std::fs::read_to_string(format!("{deploy}/{file}")).expect("a file of deploy/");
        let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        for (at, _) in text.match_indices("tally_") {
            let name: String = text[at..]
                .chars()
                .take_while(|letter| is_of_name(*letter))
                .collect();
            spoken.insert(name);
        }
    }
    spoken.remove("tally_fleet_");
    assert!(spoken.len() > 30, "{spoken:?}");
    let missing: Vec<_> = spoken.difference(&series).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
