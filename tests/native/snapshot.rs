//! Laws of snapshots' files: what was written is read, a changed bit is refused, and how large they are.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use tally_api::export::counter_line;
use tally_api::snapshot::{Days, Restore, RestoreResult, lacking, parse_date};
use tally_core::cluster::root::Root;
use tally_core::counter::contents::Contents;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::settings::{Settings, Ttl, TtlMode};
use tally_core::counter::total::{CellTotal, Value};
use tally_wire::messages::{AllRuns, ExportedCounter, PartitionRuns};
use tally_wire::settings;
use tally_wire::snapshot::{
    DAY_MS, PART_ENTRIES_MAX, PartEntry, PartWriter, RunOf, SnapshotCounter, SnapshotDatacenter,
    SnapshotPlan, chain_of, date_of, day_of_ms, digest_of, read_part, thinned,
};

use crate::common::config;

/// 2026-11-01T00:00:00Z.
const NOW_MS: i64 = 1_793_491_200_000;

fn id(name: &str) -> CounterId {
    CounterId::parse(name).expect("a name")
}

fn place(name: &str) -> Datacenter {
    Datacenter::parse(name).expect("a datacenter")
}

fn kept(created_at_ms: i64, added: u128, last_write_ms: i64) -> SnapshotCounter {
    SnapshotCounter {
        created_at_ms,
        datacenters: vec![SnapshotDatacenter {
            datacenter: place("FRA"),
            added: added.into(),
            removed: 0.into(),
            last_write_ms,
        }],
        as_of_ms: last_write_ms + 3_000,
        ..SnapshotCounter::default()
    }
}

fn file_of<'a>(entries: impl IntoIterator<Item = &'a PartEntry>) -> Vec<u8> {
    let mut writer = PartWriter::default();
    for (id, kept) in entries {
        writer.push(id, kept.as_ref());
    }
    writer.finish()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every later build reads this file.
const GOLDEN: &str = "81005713dfc4720000000172008dff050103465241030006050306010108706167652f3130320301000308b093bec6b268c03e020101020000162900ffffffffffffffffffffffffffffffffffff030003a11f000cf02e80ddc1b9cd97ffffff011c0000013c0180a0bfc6b268010000000500000103535944010000004d020000";

fn golden() -> Vec<PartEntry> {
    let rare = SnapshotCounter {
        settings: Settings {
            floor: Some(Value::new(0, 5)),
            ttl: Some(Ttl {
                seconds: 60,
                mode: TtlMode::Sliding,
                set_at_ms: NOW_MS,
            }),
            ..Settings::default()
        },
        home: Some(place("SYD")),
        base: Some(Value::new(0, 77)),
        ..kept(NOW_MS - 5_000, u128::MAX, i64::MIN)
    };
    vec![
        (id("page/1"), Some(kept(NOW_MS - 9_000, 41, NOW_MS - 7_000))),
        (id("page/10"), None),
        (id("page/2"), Some(rare)),
    ]
}

#[test]
fn golden_bytes_of_a_part() {
    let bytes: Vec<u8> = (0..GOLDEN.len() / 2)
        .map(|at| u8::from_str_radix(&GOLDEN[2 * at..2 * at + 2], 16).expect("hex"))
        .collect();
    assert_eq!(
        read_part(&bytes),
        Ok(golden()),
        "{}",
        hex(&file_of(&golden()))
    );
}

/// A deployment of plain counters as they are met: pages of a site, some of them busy.
fn plain(count: usize) -> (Vec<PartEntry>, usize) {
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut entries = BTreeMap::new();
    while entries.len() < count {
        let name = format!("/blog/{}/{:05}", 2015 + random(12), random(90_000));
        let created_ms = NOW_MS - i64::try_from(random(300 * 86_400_000)).expect("small");
        let write_ms = created_ms + i64::try_from(random(86_400_000)).expect("small");
        entries.insert(id(&name), kept(created_ms, random(2_000).into(), write_ms));
    }
    let json = entries.iter().map(|(counter, kept)| {
        let mut root = Root::create(None, kept.created_at_ms);
        root.datacenters = BTreeSet::from([place("FRA")]);
        let part = &kept.datacenters[0];
        let contents = Contents {
            added: part.added,
            last_write_ms: part.last_write_ms,
            ..Contents::default()
        };
        let exported = ExportedCounter {
            counter: counter.clone(),
            root,
            datacenters: vec![(place("FRA"), Some(contents))],
            is_exact: true,
        };
        counter_line(&exported, false).len()
    });
    let json = json.sum();
    (
        entries
            .into_iter()
            .map(|(id, kept)| (id, Some(kept)))
            .collect(),
        json,
    )
}

#[test]
fn a_full_one_is_a_tenth_of_the_json_of_the_export_and_one_of_a_hundredth_a_tenth_of_that() {
    let (entries, json) = plain(3 * PART_ENTRIES_MAX);
    let full: usize = entries
        .chunks(PART_ENTRIES_MAX)
        .map(|some| file_of(some).len())
        .sum();
    let ratio = json / full;
    assert!(
        ratio >= 10,
        "{json} bytes of JSON, {full} of a full snapshot: {ratio}:1"
    );
    let daily = file_of(entries.iter().step_by(100)).len();
    assert!(10 * daily <= full, "{daily} of {full}");
}

#[test]
fn what_changed_has_another_digest_and_the_moment_up_to_which_all_is_in_it_says_nothing() {
    let one = kept(NOW_MS, 5, NOW_MS);
    let later = SnapshotCounter {
        as_of_ms: NOW_MS + 9,
        ..one.clone()
    };
    assert_eq!(digest_of(&one), digest_of(&later));
    assert_ne!(digest_of(&one), digest_of(&kept(NOW_MS, 6, NOW_MS)));
    assert_ne!(
        digest_of(&one),
        digest_of(&SnapshotCounter {
            home: Some(place("FRA")),
            ..one.clone()
        })
    );
    assert!((0..1 << 53).contains(&digest_of(&one)));
}

fn any_kept() -> impl Strategy<Value = SnapshotCounter> {
    let part = (
        any::<bool>(),
        any::<u128>(),
        any::<u128>(),
        any::<Option<u32>>(),
    );
    let times = (0..NOW_MS, 0_i64..9_000_000);
    (
        times,
        vec(part, 0..3),
        any::<Option<u8>>(),
        any::<Option<u64>>(),
    )
        .prop_map(|((created_at_ms, later), parts, shards, base)| {
            let parts =
                parts
                    .into_iter()
                    .enumerate()
                    .map(|(at, (is_wide, added, removed, write))| {
                        let total = |amount: u128| match is_wide {
                            true => CellTotal::from(amount).plus(u128::MAX).into(),
                            false => amount.into(),
                        };
                        SnapshotDatacenter {
                            datacenter: place(["FRA", "SYD", "eu-west"][at]),
                            added: total(added),
                            removed: total(removed),
                            last_write_ms: write
                                .map_or(i64::MIN, |write| created_at_ms + i64::from(write)),
                        }
                    });
            SnapshotCounter {
                created_at_ms,
                settings: Settings {
                    shards,
                    ..Settings::default()
                },
                base: base.map(|base| Value::new(u128::from(base), 3)),
                datacenters: parts.collect(),
                as_of_ms: created_at_ms + later,
                ..SnapshotCounter::default()
            }
        })
}

proptest! {
    #![proptest_config(config(72, 200))]

    #[test]
    fn what_was_written_is_read(
        entries in proptest::collection::btree_map("[a-c/é]{1,6}", proptest::option::of(any_kept()), 0..20),
    ) {
        let entries: Vec<PartEntry> = entries.into_iter().map(|(name, kept)| (id(&name), kept)).collect();
        let file = file_of(&entries);
        prop_assert_eq!(read_part(&file), Ok(entries));
    }

    #[test]
    fn a_changed_bit_and_a_cut_file_are_refused(
        bit in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let file = file_of(&golden());
        let mut changed = file.clone();
        let bit = bit.index(8 * file.len());
        changed[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(read_part(&changed).is_err());
        prop_assert!(read_part(&file[..cut.index(file.len())]).is_err());
    }
}

#[test]
fn dates_are_days_that_there_are() {
    assert_eq!(parse_date("2026-11-01"), Ok(day_of_ms(NOW_MS)));
    for day in (0..60_000).step_by(17) {
        assert_eq!(parse_date(&date_of(day)), Ok(day));
    }
    for wrong in [
        "",
        "2026-11-1",
        "2026-11-31",
        "2026-13-01",
        "monday",
        "1969-12-31",
        "2026-11-01T00:00",
    ] {
        assert!(parse_date(wrong).is_err(), "{wrong}");
    }
    let days = |text: &str| Days::parse(text, NOW_MS);
    assert_eq!(
        days("2026-10-30..2026-11-01").map(|days| days.last - days.first),
        Ok(2)
    );
    for wrong in [
        "2026-11-02",
        "2026-11-01..2026-10-01",
        "2026-01-01..2026-11-01",
        "..",
        "2026-10-01..",
        "0000-01-01",
    ] {
        assert!(days(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn partitions_share_the_hour() {
    let plan = SnapshotPlan::parse(r#"{"hour":3}"#).expect("a plan");
    assert_eq!((plan.full_every_days, plan.keep_days), (7, 400));
    let of_day = |partition: u32| plan.next_ms(partition, NOW_MS) - NOW_MS;
    assert_eq!(
        (of_day(0), of_day(15)),
        (3 * 3_600_000, 3 * 3_600_000 + 15 * 225_000)
    );
    // The next is a day later, however often it is asked for.
    let first = plan.next_ms(4, NOW_MS);
    assert_eq!(plan.next_ms(4, first), first + DAY_MS);
    assert_eq!(plan.next_ms(4, first - 1), first);
}

#[test]
fn the_setting_is_json_or_off() {
    let name = "TALLY_SNAPSHOTS";
    for good in [
        "{}",
        "off",
        r#"{"hour":0,"full_every_days":7,"keep_days":400}"#,
    ] {
        assert_eq!(settings::check(name, good), Ok(()), "{good}");
    }
    for wrong in [
        "on",
        "{",
        r#"{"hour":24}"#,
        r#"{"full_every_days":0}"#,
        r#"{"keep":9}"#,
        r#"{"keep_days":0}"#,
        r#"{"hour":"3"}"#,
    ] {
        let problem = settings::check(name, wrong).expect_err(wrong);
        assert!(
            problem.detail().starts_with("TALLY_SNAPSHOTS must be "),
            "{problem}"
        );
    }
}

#[test]
fn what_is_thinned_leaves_a_full_one_a_month_and_whole_chains() {
    let today = day_of_ms(NOW_MS);
    let runs: BTreeMap<u64, RunOf> = (0..800_u64)
        .map(|run| {
            let day = today - 799 + i64::try_from(run).expect("small");
            let before = (run % 7 != 0).then(|| run - 1);
            let run_of = RunOf {
                run,
                before,
                day,
                begun_ms: 0,
                ended_ms: 0,
                counters: 0,
                entries: 0,
                bytes: 0,
            };
            (run, run_of)
        })
        .collect();
    let removals: BTreeSet<u64> = thinned(&runs, today, 400).into_iter().collect();
    let left: BTreeMap<u64, RunOf> = runs
        .into_iter()
        .filter(|(run, _)| !removals.contains(run))
        .collect();
    let young = left.values().filter(|run| run.day > today - 400).count();
    assert_eq!(young, 400);
    for run in left.keys() {
        assert!(chain_of(&left, *run).is_some(), "{run}");
    }
    // 13 months and some days before, and the chain that reaches into the 400 days.
    let old = left.len() - young;
    assert!((13..=13 + 8).contains(&old), "{old}");
    let again = thinned(&left, today, 400);
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn a_month_without_a_full_run_keeps_its_first_one() {
    let begin = parse_date("2026-01-03").expect("a date");
    let runs: BTreeMap<u64, RunOf> = (0..150_u64)
        .map(|run| {
            let run_of = RunOf {
                run,
                before: (run % 31 != 0).then(|| run - 1),
                day: begin + i64::try_from(run).expect("small"),
                begun_ms: 0,
                ended_ms: 0,
                counters: 0,
                entries: 0,
                bytes: 0,
            };
            (run, run_of)
        })
        .collect();
    let removals = thinned(&runs, begin + 150, 1);
    let left = runs.keys().filter(|run| !removals.contains(run));
    let months: BTreeSet<String> = left
        .map(|run| date_of(runs[run].day)[..7].to_owned())
        .collect();
    let all: BTreeSet<String> = runs
        .values()
        .map(|run| date_of(run.day)[..7].to_owned())
        .collect();
    assert_eq!(months, all);
}

#[test]
fn partitions_without_a_run_of_a_day_are_named() {
    let run_of = |day: i64| RunOf {
        run: 1,
        before: None,
        day,
        begun_ms: 0,
        ended_ms: 0,
        counters: 1,
        entries: 1,
        bytes: 1,
    };
    let partition_runs = |days: &[i64], has_counters: bool| PartitionRuns {
        runs: days.iter().map(|day| run_of(*day)).collect(),
        in_progress: None,
        has_files: true,
        has_counters,
        ever: 0,
    };
    let all = AllRuns {
        partitions: vec![
            (0, partition_runs(&[4, 5], true)),
            (1, partition_runs(&[4, 6], true)),
            (2, partition_runs(&[], true)),
            (3, partition_runs(&[], false)),
            (4, partition_runs(&[6], true)),
        ],
        missing_partitions: vec![5],
    };
    assert_eq!(lacking(&all, 5), [1, 2, 5]);
}

#[test]
fn a_restore_names_its_day_in_one_form() {
    let restore = Restore::parse(br#"{"prefix":"zz","dry_run":true}"#).expect("a restore");
    for text in ["1795910000", "2026-11-28", "2026-11-28T23:59:59Z"] {
        let day = parse_date(text).expect("a day");
        let answer = RestoreResult::default().to_json(day, &restore, false);
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["date"], "2026-11-28", "{text}");
    }
}
