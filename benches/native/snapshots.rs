//! Snapshots: files of counters, from what a partition knows of them, and back. An iteration is of 100,000 counters.
//!
//! The sizes that are claimed are compared at each set-up: a full snapshot against the JSON of the export, and one of
//! which a hundredth has changed against a full one.

use std::collections::BTreeMap;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use tally_api::export::counter_line;
use tally_core::cluster::root::Root;
use tally_core::counter::contents::Contents;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_wire::messages::ExportedCounter;
use tally_wire::snapshot::{
    PART_ENTRIES_MAX, PartEntry, PartWriter, SnapshotCounter, SnapshotDatacenter, digest_of,
    read_part,
};

use crate::{BEGIN_MS, Chance};

const COUNTERS: usize = 100_000;

/// One of so many counters has changed since the day before.
const CHANGED: usize = 100;

/// How much smaller a full snapshot is than the JSON of the export, and a daily one than a full one, at least.
const SMALLER: usize = 10;

/// Pages of a site: 15 years of articles, read for a day each, within the last 300 days.
fn counters() -> BTreeMap<CounterId, SnapshotCounter> {
    let mut random = Chance(7);
    let mut below = |bound: u64| random.next().unwrap() % bound;
    let mut counters = BTreeMap::new();
    while counters.len() < COUNTERS {
        let name = format!("/blog/{}/{:05}", 2010 + below(15), below(90_000));
        let created_at_ms = BEGIN_MS - i64::try_from(below(300 * 86_400_000)).unwrap();
        let last_write_ms = created_at_ms + i64::try_from(below(86_400_000)).unwrap();
        let part = SnapshotDatacenter {
            datacenter: Datacenter::parse("FRA").unwrap(),
            added: u128::from(below(2_000)).into(),
            removed: 0.into(),
            last_write_ms,
        };
        let kept = SnapshotCounter {
            created_at_ms,
            datacenters: vec![part],
            as_of_ms: last_write_ms + 3_000,
            ..SnapshotCounter::default()
        };
        counters.insert(CounterId::parse(name).unwrap(), kept);
    }
    counters
}

fn json_bytes(counters: &BTreeMap<CounterId, SnapshotCounter>) -> usize {
    let lines = counters.iter().map(|(counter, kept)| {
        let mut root = Root::create(None, kept.created_at_ms);
        let parts = kept.datacenters.iter().map(|part| {
            root.datacenters.insert(part.datacenter.clone());
            let contents = Contents {
                added: part.added,
                last_write_ms: part.last_write_ms,
                ..Contents::default()
            };
            (part.datacenter.clone(), Some(contents))
        });
        let datacenters = parts.collect();
        let exported = ExportedCounter {
            counter: counter.clone(),
            root,
            datacenters,
            is_exact: true,
        };
        counter_line(&exported, false).len()
    });
    lines.sum()
}

/// The files of these counters. Each is compared with what is known of it, as a run does.
fn files_of<'a>(
    counters: impl Iterator<Item = (&'a CounterId, &'a SnapshotCounter)>,
) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    let mut writer = PartWriter::default();
    for (id, kept) in counters {
        black_box(digest_of(kept));
        writer.push(id, Some(kept));
        if writer.entries() == PART_ENTRIES_MAX {
            files.push(std::mem::take(&mut writer).finish());
        }
    }
    files.push(writer.finish());
    files
}

fn bytes_of(files: &[Vec<u8>]) -> usize {
    files.iter().map(Vec::len).sum()
}

#[divan::bench]
fn snapshots_full(bencher: Bencher<'_, '_>) {
    let counters = counters();
    let bytes = bytes_of(&files_of(counters.iter()));
    let json = json_bytes(&counters);
    assert!(
        json >= SMALLER * bytes,
        "{json} bytes of JSON, {bytes} of a snapshot"
    );
    eprintln!("{COUNTERS} counters: {json} bytes of JSON in an export, {bytes} in a full snapshot");
    bencher
        .counter(ItemsCount::new(COUNTERS))
        .counter(BytesCount::new(bytes))
        .bench_local(|| files_of(counters.iter()));
}

#[divan::bench]
fn snapshots_daily(bencher: Bencher<'_, '_>) {
    let counters = counters();
    let full = bytes_of(&files_of(counters.iter()));
    let daily = || {
        // All are looked at.
        for kept in counters.values() {
            black_box(digest_of(kept));
        }
        files_of(counters.iter().step_by(CHANGED))
    };
    let bytes = bytes_of(&daily());
    assert!(SMALLER * bytes <= full, "{bytes} of {full}");
    eprintln!("a daily snapshot of which 1 in {CHANGED} has changed: {bytes} bytes of {full}");
    bencher
        .counter(ItemsCount::new(COUNTERS))
        .counter(BytesCount::new(bytes))
        .bench_local(daily);
}

#[divan::bench]
fn snapshots_read(bencher: Bencher<'_, '_>) {
    let counters = counters();
    let files = files_of(counters.iter());
    bencher
        .counter(ItemsCount::new(COUNTERS))
        .counter(BytesCount::new(bytes_of(&files)))
        .bench_local(|| {
            let read = |file: &Vec<u8>| -> Vec<PartEntry> { read_part(file).unwrap() };
            let read: usize = files.iter().map(|file| read(file).len()).sum();
            assert_eq!(read, COUNTERS);
        });
}
