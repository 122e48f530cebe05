//! Laws of exports and imports.

use std::cell::Cell;
use std::rc::Rc;

use serde_json::Value;
use tally_simulation::{Faults, Verdict};

use super::service::Service;

const ALL: &str = "?history=minutes&uniques=1&samples=1&alerts=1";

fn lines(file: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).expect("a line of JSON");
    file.lines().map(line).collect()
}

fn check_same(seed: u64, one: &str, other: &str) {
    for (one, other) in one.lines().zip(other.lines()) {
        assert_eq!(one, other, "seed {seed}");
    }
    assert_eq!(one, other, "seed {seed}");
}

/// Strong reads at both sites tell what the file tells.
fn check_read(seed: u64, file: &str, service: &Service) {
    for line in lines(file) {
        let Some(id) = line["id"].as_str() else {
            continue;
        };
        let path = format!("/counters/{}?consistency=strong", id.replace('/', "%2F"));
        for site in 0..2 {
            let read = service.well(site, "GET", &path, "");
            assert_eq!(read["value"], line["value"], "seed {seed}: {line}");
        }
    }
}

#[test]
fn a_value_below_the_floor_of_its_own_line_changes_nothing() {
    let service = Service::new(2, None);
    for (id, mode) in [("known", "replace"), ("known", "add"), ("new", "create")] {
        service.import("?mode=replace", "{\"id\":\"known\",\"value\":7}\n", None);
        let line = format!("{{\"id\":\"{id}\",\"value\":-5,\"settings\":{{\"floor\":0}}}}\n");
        let report = service.import(&format!("?mode={mode}"), &line, None);
        assert_eq!(
            report["refused"][0]["code"], "below-floor",
            "{mode}: {report}"
        );
        let left = service.export("?format=csv");
        assert!(
            left.contains("known,7,") && !left.contains("-5"),
            "{mode}: {left}"
        );
    }
}

#[test]
fn a_key_counts_each_line_once_and_only_in_its_mode() {
    let service = Service::new(3, None);
    let twice =
        "{\"id\":\"a\",\"value\":5}\n{\"id\":\"a\",\"value\":5}\n{\"id\":\"a\",\"value\":1}\n";
    for _ in 0..2 {
        let report = service.import("?mode=add", twice, Some("one"));
        assert_eq!(report["counters"], 3, "{report}");
        assert!(service.export("?format=csv").contains("\na,11,"));
    }
    let report = service.import("?mode=replace", twice, Some("one"));
    assert_eq!(
        report["refused"][0]["code"], "idempotency-key-reused",
        "{report}"
    );
    assert!(service.export("?format=csv").contains("\na,11,"));
}

#[test]
fn a_cursor_opens_only_what_the_query_asks_for_and_csv_says_what_it_lacks() {
    let service = Service::new(4, None);
    service.import(
        "",
        "{\"id\":\"b/a\",\"value\":5}\n{\"id\":\"b/c\",\"value\":6}\n",
        None,
    );
    for query in [
        "?prefix=b/&cursor=policies/",
        "?prefix=b/&alerts=1&cursor=alerts/",
        "?cursor=alerts/",
        "?format=csv&cursor=policies/",
        "?format=csv&cursor=boards/",
    ] {
        let answer = service.ask(0, "GET", &format!("/export{query}"), "", None);
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
    let part = service.export("?format=csv&limit=1");
    let last = part.lines().next_back();
    assert_eq!(
        last,
        Some("# not complete: continue with cursor=counters/b/a,,,,")
    );
    let rest = service.export("?format=csv&cursor=counters/b/a");
    assert_eq!(rest.lines().count(), 2, "{rest}");
    assert!(!rest.contains("not complete"));
}

#[test]
fn what_was_created_and_added_to_comes_back_as_their_sum() {
    const LIST: &str = "{\"id\":\"mysite/likes\",\"value\":5}\n";
    let from = Service::new(0, None);
    from.import("", LIST, Some("created"));
    for _ in 0..2 {
        from.import("?mode=add", LIST, Some("added"));
    }
    let file = from.export("");
    let line = lines(&file).swap_remove(0);
    assert_eq!(
        (
            &line["value"],
            &line["base"],
            &line["datacenters"][0]["added"]
        ),
        (&10.into(), &5.into(), &5.into()),
        "{line}"
    );
    check_read(0, &file, &from);

    let to = Service::new(100, None);
    to.import("", &file, Some("once"));
    check_read(0, &file, &to);
    check_same(0, &file, &to.export(""));
}

/// The most cells that an export asks at once, and the most counters with sketches that are in memory at once.
const AT_ONCE_MAX: usize = 64;

/// So many counters are exported, more than are asked at once.
const COUNTERS: usize = 200;

/// How long a cell takes to answer: as many of them as are asked wait together.
const ANSWER_MS: u64 = 200;

#[test]
fn an_export_asks_and_holds_a_bounded_number_of_counters_at_once() {
    let service = Service::new(3, None);
    let list = |name: usize| format!("{{\"id\":\"c{name:03}\",\"value\":5}}\n");
    service.import("", &(0..COUNTERS).map(list).collect::<String>(), None);
    // An export reads cells, so each counter counts something first.
    for name in 0..COUNTERS {
        let path = format!("/counters/c{name:03}/increment");
        service.well(0, "POST", &path, "{}");
    }
    for (options, pages_min) in [("", 1), ("?uniques=1", COUNTERS.div_ceil(AT_ONCE_MAX))] {
        let [in_flight, most, cells, pages] = [const { Cell::new(0_usize) }; 4].map(Rc::new);
        let (world, sleep) = (&service.world, service.world.sleeper());
        let (sleep, counts) = (Rc::new(sleep), (most.clone(), cells.clone(), pages.clone()));
        world.set_judge(move |judged| {
            let (most, cells, pages) = counts.clone();
            let (in_flight, sleep) = (in_flight.clone(), sleep.clone());
            Box::pin(async move {
                pages.set(pages.get() + usize::from(judged.path.ends_with("/export-page")));
                if judged.path.ends_with("/read-contents") {
                    cells.set(cells.get() + 1);
                    in_flight.set(in_flight.get() + 1);
                    most.set(most.get().max(in_flight.get()));
                    sleep(ANSWER_MS).await;
                    in_flight.set(in_flight.get() - 1);
                }
                Verdict::Answered
            })
        });
        let file = service.export(options);
        assert_eq!(lines(&file).len(), COUNTERS + 1, "with the last line");
        assert!(cells.get() >= COUNTERS, "{} cells were asked", cells.get());
        assert!(most.get() <= AT_ONCE_MAX, "{} at once", most.get());
        assert!(most.get() > AT_ONCE_MAX / 4, "{} at once", most.get());
        assert!(pages.get() >= pages_min, "{} pages", pages.get());
    }
}

#[test]
fn what_is_exported_imported_and_exported_again_is_the_same_file() {
    for seed in 0..4 {
        let from = Service::new(seed, (seed % 2 == 1).then_some(4));
        from.fill(12, Faults::NONE);
        let file = from.export(ALL);
        let last = lines(&file).pop().expect("a last line");
        assert_eq!(
            (&last["end"], &last["complete"]),
            (&true.into(), &true.into()),
            "{last}"
        );
        assert_eq!(last["counters"], 18, "{last}");
        assert_eq!(last["alerts"], 2, "{last}");
        assert!(!file.contains("secret"), "no secret leaves");
        let all = lines(&file);
        let hidden: Vec<&Value> = all.iter().filter(|line| line["hidden"] == true).collect();
        assert_eq!(hidden.len(), 1, "seed {seed}: who is hidden is not lost");
        assert_eq!(hidden[0]["member"], "bob", "seed {seed}");
        check_read(seed, &file, &from);

        let to = Service::new(seed + 100, (seed % 2 == 0).then_some(4));
        to.world
            .run_for_ms(u64::try_from(from.world.now_ms() - to.world.now_ms()).unwrap_or(0));
        let (report, is_replay) = to.import_again("", &file, Some("once"));
        assert!(!is_replay, "seed {seed}: nothing was there before");
        assert_eq!(report["rejected"], 0, "seed {seed}: {report}");
        assert_eq!(
            (&report["alerts"], &report["alerts_without_secret"]),
            (&2.into(), &serde_json::json!(["busy", "refused"])),
            "{report}"
        );
        assert_eq!(
            (&report["counters"], &report["complete"]),
            (&18.into(), &true.into()),
            "{report}"
        );
        check_same(seed, &file, &to.export(ALL));
        check_read(seed, &file, &to);

        // The same file under the same key changes nothing, and says the same.
        let (again, is_replay) = to.import_again("", &file, Some("once"));
        assert_eq!((&report, true), (&again, is_replay), "seed {seed}");
        check_same(seed, &file, &to.export(ALL));
        // What is there is not created once more.
        let (refused, is_replay) = to.import_again("", &file, None);
        assert_eq!(
            (&refused["counters"], is_replay),
            (&0.into(), false),
            "{refused}"
        );
        assert_eq!(refused["refused"][0]["code"], "already-exists", "{refused}");
        check_same(seed, &file, &to.export(ALL));

        to.well(0, "POST", "/counters/page%2F0/increment", r#"{"delta":1}"#);
        to.import("?mode=replace", &file, Some("anew"));
        check_same(seed, &file, &to.export(ALL));
    }
}
