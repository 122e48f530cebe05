//! Laws of exports and imports.

use serde_json::Value;
use tally_simulation::Faults;

use crate::service::Service;

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

#[test]
fn what_is_exported_imported_and_exported_again_is_the_same_file() {
    for seed in 0..4 {
        let from = Service::new(seed, (seed % 2 == 1).then_some(4));
        from.fill(12, Faults::NONE);
        let file = from.export(ALL);
        let last = lines(&file).pop().expect("a last line");
        assert_eq!(
            (&last["end"], &last["whole"]),
            (&true.into(), &true.into()),
            "{last}"
        );
        assert_eq!(last["counters"], 18, "{last}");
        assert_eq!(last["alerts"], 2, "{last}");
        assert!(!file.contains("secret"), "no secret leaves");
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
            (&report["counters"], &report["whole"]),
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
        assert_eq!(refused["refused"][0]["code"], "counter-exists", "{refused}");
        check_same(seed, &file, &to.export(ALL));

        to.well(0, "POST", "/counters/page%2F0/increment", r#"{"delta":1}"#);
        to.import("?mode=replace", &file, Some("anew"));
        check_same(seed, &file, &to.export(ALL));
    }
}
