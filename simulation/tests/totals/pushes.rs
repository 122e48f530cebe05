//! The push of the deployment's metrics by OTLP/HTTP, against the answers that clients got and `/metrics`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{client, service};
use tally_simulation::{Client, Faults, Options, World};
use tally_testing::otlp::{Export, read};
use tally_wire::alerts::Outgoing;

const URL: &str = "https://otlp.example.com/v1/metrics";
const ACKNOWLEDGED: &str = "tally_fleet_acknowledged_total";

/// How long from a count to the push that has it: the report, the period, and a little more.
const PUSHED_MS: u64 = 80_000;

/// A push as its receiver gets it.
struct Push {
    at_ms: i64,
    /// By metric and attributes: the time and the value of each point of a sum, or the count of another one.
    points: BTreeMap<String, (i64, u64)>,
    headers: Vec<(String, String)>,
    export: Export,
}

fn took(outgoing: &Outgoing, at_ms: i64) -> Push {
    assert_eq!(outgoing.url, URL);
    let export = read(&outgoing.body);
    let mut points = BTreeMap::new();
    for metric in export
        .metrics
        .iter()
        .filter(|metric| metric.kind != "gauge")
    {
        for point in &metric.points {
            let name = format!("{} {:?}", metric.name, point.attributes);
            let at_ms = i64::try_from(point.nanos / 1_000_000).expect("a time");
            points.insert(
                name,
                (
                    at_ms,
                    point.whole.or(point.double.map(|_| 0)).expect("a count"),
                ),
            );
        }
    }
    let headers = outgoing.headers.iter();
    Push {
        at_ms,
        points,
        headers: headers
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
        export,
    }
}

impl Push {
    fn increments(&self) -> Option<u64> {
        let mut points = self.points.iter();
        let found =
            points.find(|(name, _)| name.contains(ACKNOWLEDGED) && name.contains("increment"));
        found.map(|(_, (_, count))| *count)
    }
}

type Pushes = Rc<RefCell<Vec<Push>>>;

/// A receiver, which refuses `refused_of_ten` of ten pushes.
fn receiver(world: &World, refused_of_ten: usize) -> Pushes {
    let pushes = Pushes::default();
    let (known, clock) = (pushes.clone(), world.clock());
    world.set_receiver(move |outgoing| {
        known.borrow_mut().push(took(&outgoing, clock()));
        let status = if known.borrow().len() % 10 < refused_of_ten {
            503
        } else {
            200
        };
        async move { Ok(status) }
    });
    pushes
}

fn add(world: &World, client: &Client) -> bool {
    let answer = world.run(client.post("/counters/c/increment", ""));
    answer.is_ok_and(|answer| answer.status == 200)
}

/// What must hold of all pushes, in the order in which they arrived.
fn check(pushes: &[Push], seed: u64) {
    let mut last: BTreeMap<&String, (i64, u64)> = BTreeMap::new();
    let mut by_time: Vec<&Push> = pushes.iter().collect();
    let time = |push: &Push| push.points.values().next().map(|(at_ms, _)| *at_ms);
    by_time.sort_by_key(|push| time(push));
    for push in by_time {
        for (name, (at_ms, count)) in &push.points {
            if let Some((before_ms, before)) = last.insert(name, (*at_ms, *count)) {
                assert!(
                    before <= *count,
                    "seed {seed}: {name} fell from {before} to {count}"
                );
                assert!(
                    before_ms < *at_ms,
                    "seed {seed}: {name} has two points of {at_ms}"
                );
            }
        }
    }
}

#[test]
fn what_is_pushed_has_the_names_and_values_of_the_metrics() {
    let (world, sites) = service(60, Options::default());
    world.set("TALLY_OTLP_URL", Some(URL));
    world.set("TALLY_OTLP_HEADERS", Some("Authorization=Basic%20abc"));
    world.set("TALLY_OTLP_ATTRIBUTES", Some("deployment.environment=test"));
    let pushes = receiver(&world, 0);
    let client = client(&world, sites[0]);
    for _ in 0..30 {
        assert!(add(&world, &client));
        world.run_for_ms(3_000);
    }
    world.run_for_ms(PUSHED_MS);
    let text = world.run(client.get("/metrics")).expect("no fault").text();
    let pushes = pushes.borrow();
    let last = pushes.last().expect("a push");
    assert_eq!(last.increments(), Some(30));
    let has = |name: &str, value: &str| last.headers.contains(&(name.to_owned(), value.to_owned()));
    assert!(has("authorization", "Basic abc") && has("content-type", "application/x-protobuf"));
    let attribute = ("deployment.environment".to_owned(), "test".to_owned());
    assert!(
        last.export.resource.contains(&attribute),
        "{:?}",
        last.export.resource
    );
    let names: Vec<&str> = last
        .export
        .metrics
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let families = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE tally_fleet_"));
    let families: Vec<String> = families
        .filter(|family| !family.starts_with("stored_") && !family.starts_with("unreported"))
        .map(|family| format!("tally_fleet_{}", family.split(' ').next().expect("a name")))
        .collect();
    assert!(families.len() > 40, "{families:?}");
    for family in families {
        assert!(names.contains(&family.as_str()), "{family} is not pushed");
    }
}

#[test]
fn pushed_sums_never_fall_and_each_period_is_pushed_though_objects_crash_and_the_receiver_refuses()
{
    let mut crashes = 0;
    for seed in 0..12 {
        let (world, sites) = service(600 + seed, Options::default());
        world.set("TALLY_OTLP_URL", Some(URL));
        let pushes = receiver(&world, 3);
        let clients = sites.map(|site| client(&world, site));
        let mut increments = 0;
        for round in 0..60 {
            world.set_faults(Faults {
                crashes_object_once_in: 40 + seed * 10,
                evicts_once_in: 20,
                alarm_late_ms_max: 5_000,
                ..Faults::NONE
            });
            world.run_for_ms(world.chance().below(15_000));
            world.set_faults(Faults::NONE);
            increments += u64::from(add(&world, &clients[round % 2]));
        }
        world.run_for_ms(3 * PUSHED_MS);
        let pushes = pushes.borrow();
        check(&pushes, seed);
        let (times, last) = (pushes.iter().map(|push| push.at_ms), pushes.last());
        let times: Vec<i64> = times.collect();
        let widest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(
            widest.is_some_and(|ms| ms < 135_000),
            "seed {seed}: {times:?}"
        );
        assert!(
            last.is_some_and(|push| push.increments() >= Some(1)),
            "seed {seed}"
        );
        assert!(
            last.and_then(Push::increments) <= Some(increments),
            "seed {seed}"
        );
        crashes += world.figures().crashes;
    }
    assert!(crashes > 100, "{crashes} crashes");
}

#[test]
fn nothing_is_pushed_without_an_address_or_to_an_inner_one_and_pushes_begin_again_once_it_is_allowed()
 {
    let (world, sites) = service(61, Options::default());
    let pushes = receiver(&world, 0);
    let client = client(&world, sites[0]);
    let go_on = || {
        for _ in 0..10 {
            assert!(add(&world, &client));
            world.run_for_ms(20_000);
        }
        pushes.borrow().len()
    };
    assert_eq!(go_on(), 0);
    world.set("TALLY_OTLP_URL", Some("http://169.254.169.254/v1/metrics"));
    assert_eq!(go_on(), 0);
    let health = world.run(client.get("/healthz")).expect("no fault");
    assert_eq!(health.status, 503, "{}", health.text());
    assert!(
        health.text().contains("TALLY_OTLP_URL"),
        "{}",
        health.text()
    );
    world.set("TALLY_OTLP_URL", Some(URL));
    assert!(go_on() > 0);
    world.set("TALLY_OTLP_URL", None);
    world.run_for_ms(PUSHED_MS);
    let before = pushes.borrow().len();
    assert_eq!(go_on(), before);
}

#[test]
fn sums_are_left_out_where_a_partition_does_not_answer_and_come_soon_after_it_does() {
    let (world, sites) = service(62, Options::default());
    world.set("TALLY_OTLP_URL", Some(URL));
    let pushes = receiver(&world, 0);
    let client = client(&world, sites[0]);
    for _ in 0..8 {
        assert!(add(&world, &client));
        world.run_for_ms(20_000);
    }
    world.set_judge(|judged| {
        let is_away = judged.path == "/fleet-of" && judged.name.ends_with('3');
        let verdict = if is_away {
            tally_simulation::Verdict::Unreached
        } else {
            tally_simulation::Verdict::Answered
        };
        Box::pin(async move { verdict })
    });
    pushes.borrow_mut().clear();
    world.run_for_ms(130_000);
    assert!(!pushes.borrow().is_empty());
    assert!(
        pushes
            .borrow()
            .iter()
            .all(|push| push.increments().is_none())
    );
    world.set_judge(|_| Box::pin(async { tally_simulation::Verdict::Answered }));
    pushes.borrow_mut().clear();
    world.run_for_ms(65_000);
    assert!(
        pushes
            .borrow()
            .iter()
            .any(|push| push.increments() == Some(8))
    );
}
