//! The public JSON of snapshots, and of former states of counters.

use std::collections::BTreeMap;

use serde::Serialize;

use super::days::Days;
use crate::fields::{MissingPartitions, Moment, Total};
use crate::number::{Estimate, Exact};
use crate::public::Rounding;
use crate::query::{ListPage, newest_first};
use tally_core::cluster::top_order::KnownUniques;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::total::Value;
use tally_core::order::map_of;
use tally_wire::messages::{AllRuns, PartitionRuns, PastState, PastStateList};
use tally_wire::snapshot::{RunOf, date_of};

/// The snapshot of a day, of all partitions.
#[derive(Serialize)]
struct DayView {
    /// The day of UTC on which it began.
    date: String,
    began_at: Moment,
    ended_at: Moment,
    /// Whether it needs no earlier one.
    full: bool,
    /// Counters that there were.
    counters: u64,
    /// Counters in its files: of a full one all.
    changed: u64,
    /// Length of its files.
    bytes: u64,
    /// Partitions that have one.
    partitions: usize,
    /// Whether all have that should.
    complete: bool,
    /// The runs of its partitions; left out in a list of all days.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<Vec<RunView>>,
}

#[derive(Serialize)]
struct RunView {
    partition: u32,
    run: u64,
    began_at: Moment,
    ended_at: Moment,
    full: bool,
    counters: u64,
    changed: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct InProgressView<'a> {
    partition: u32,
    began_at: Moment,
    changed: u64,
    /// Why it does not go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// The last run of each partition on each day.
fn days_of(all: &AllRuns) -> BTreeMap<i64, Vec<(u32, RunOf)>> {
    let mut days: BTreeMap<i64, BTreeMap<u32, RunOf>> = BTreeMap::new();
    for (partition, answer) in &all.partitions {
        for run in &answer.runs {
            days.entry(run.day).or_default().insert(*partition, *run);
        }
    }
    let days = days.into_iter();
    map_of(days.map(|(day, runs)| (day, runs.into_iter().collect())))
}

/// Whether a partition should have a run of a day, but has none.
fn lacks(answer: &PartitionRuns, day: i64) -> bool {
    let is_of = |run: &RunOf| run.day == day;
    if answer.runs.iter().any(is_of) {
        return false;
    }
    match answer.runs.first() {
        Some(first) => first.day < day,
        None => answer.has_counters,
    }
}

/// The partitions that should have a run of a day, and have none or do not answer.
pub fn lacking(all: &AllRuns, day: i64) -> Vec<u32> {
    let lacks =
        |(partition, answer): &(u32, PartitionRuns)| lacks(answer, day).then_some(*partition);
    let mut partitions: Vec<u32> = all.partitions.iter().filter_map(lacks).collect();
    partitions.extend(&all.missing_partitions);
    partitions.sort_unstable();
    partitions
}

fn day_view(all: &AllRuns, day: i64, runs: &[(u32, RunOf)], has_runs: bool) -> DayView {
    let sum = |of: fn(&RunOf) -> u64| runs.iter().map(|(_, run)| of(run)).sum();
    let begun = runs.iter().map(|(_, run)| run.begun_ms);
    let ended = runs.iter().map(|(_, run)| run.ended_ms);
    DayView {
        date: date_of(day),
        began_at: begun.min().unwrap_or(0),
        ended_at: ended.max().unwrap_or(0),
        full: runs.iter().all(|(_, run)| run.before.is_none()),
        counters: sum(|run| run.counters),
        changed: sum(|run| run.entries),
        bytes: sum(|run| run.bytes),
        partitions: runs.len(),
        complete: lacking(all, day).is_empty(),
        runs: has_runs.then(|| runs.iter().map(run_view).collect()),
    }
}

fn run_view((partition, run): &(u32, RunOf)) -> RunView {
    RunView {
        partition: *partition,
        run: run.run,
        began_at: run.begun_ms,
        ended_at: run.ended_ms,
        full: run.before.is_none(),
        counters: run.counters,
        changed: run.entries,
        bytes: run.bytes,
    }
}

fn runs_in_progress(all: &AllRuns) -> Vec<InProgressView<'_>> {
    let partitions = all.partitions.iter();
    let views = partitions.filter_map(|(partition, answer)| {
        let run = answer.in_progress.as_ref()?;
        Some(InProgressView {
            partition: *partition,
            began_at: run.begun_ms,
            changed: run.entries,
            why: run.why.as_deref(),
        })
    });
    views.collect()
}

/// The JSON of `GET /snapshots`, the newest day first. Of one day that is asked for, with the runs of its partitions.
pub fn snapshots_json(all: &AllRuns, day: Option<i64>, page: &ListPage) -> String {
    #[derive(Serialize)]
    struct SnapshotsView<'a> {
        entries: Vec<DayView>,
        /// Names the next page; `null` on the last.
        cursor: Option<String>,
        in_progress: Vec<InProgressView<'a>>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        missing_partitions: MissingPartitions<'a>,
    }
    let mut days = days_of(all);
    days.retain(|other, _| day.is_none_or(|day| day == *other));
    let (shown, cursor) = page.cut(days.iter().rev(), |(day, _)| newest_first(**day));
    to_json(&SnapshotsView {
        entries: (shown.into_iter())
            .map(|(other, runs)| day_view(all, *other, runs, day.is_some()))
            .collect(),
        cursor,
        in_progress: runs_in_progress(all),
        missing_partitions: &all.missing_partitions,
    })
}

/// The JSON of `POST /snapshots`; `None` where no partition has a snapshot of that day.
pub fn snapshot_json(all: &AllRuns, day: i64) -> Option<String> {
    #[derive(Serialize)]
    struct SnapshotView<'a> {
        #[serde(flatten)]
        day: DayView,
        in_progress: Vec<InProgressView<'a>>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        missing_partitions: MissingPartitions<'a>,
    }
    let days = days_of(all);
    let runs = days.get(&day)?;
    Some(to_json(&SnapshotView {
        day: day_view(all, day, runs, true),
        in_progress: runs_in_progress(all),
        missing_partitions: &all.missing_partitions,
    }))
}

#[derive(Serialize)]
struct PartView<'a> {
    id: &'a Datacenter,
    value: Total,
}

/// A counter's state then.
#[derive(Serialize)]
struct ThenView<'a> {
    /// The day of the snapshot.
    date: String,
    /// `null` where it did not exist.
    value: Option<Total>,
    /// Every write that was acknowledged before is in it.
    as_of: Option<Moment>,
    /// No write after it is.
    taken_at: Moment,
    /// The newest write in it, where one is known.
    updated_at: Option<Moment>,
    uniques: Option<Estimate>,
    datacenters: Vec<PartView<'a>>,
}

fn estimate(known: Option<KnownUniques>, rounding: Rounding) -> Option<Estimate> {
    known.map(|known| rounding.apply(Estimate::of_known(known)))
}

fn then_view(then: &PastState, rounding: Rounding, strings: bool) -> ThenView<'_> {
    let kept = then.kept.as_ref();
    let parts = kept.into_iter().flat_map(|kept| &kept.datacenters);
    ThenView {
        date: date_of(then.run.day),
        value: kept.map(|kept| Exact::new(kept.value(), strings)),
        as_of: kept.map(|kept| kept.as_of_ms),
        taken_at: then.run.ended_ms,
        updated_at: kept.and_then(|kept| kept.last_write_ms()),
        uniques: estimate(then.uniques, rounding),
        datacenters: parts
            .map(|part| PartView {
                id: &part.datacenter,
                value: Exact::new(Value::new(part.added, part.removed), strings),
            })
            .collect(),
    }
}

/// The JSON of `GET /counters/{id}?on=` a day; `None` where the counter did not exist.
pub fn on_json(
    id: &CounterId,
    then: &PastState,
    rounding: Rounding,
    strings: bool,
) -> Option<String> {
    /// A counter as a snapshot has it, with `on`.
    #[derive(Serialize)]
    struct CounterOnView<'a> {
        id: &'a CounterId,
        #[serde(flatten)]
        then: ThenView<'a>,
    }
    then.kept.as_ref()?;
    Some(to_json(&CounterOnView {
        id,
        then: then_view(then, rounding, strings),
    }))
}

/// The JSON of `GET /counters/{id}?on=` some days.
pub fn days_json(
    id: &CounterId,
    days: Days,
    states: &[PastState],
    rounding: Rounding,
    strings: bool,
) -> String {
    /// A counter as the snapshots of some days have it, with `on=<day>..<day>`.
    #[derive(Serialize)]
    struct CounterDaysView<'a> {
        id: &'a CounterId,
        first_date: String,
        last_date: String,
        days: Vec<ThenView<'a>>,
    }
    let views = states.iter().map(|then| then_view(then, rounding, strings));
    to_json(&CounterDaysView {
        id,
        first_date: date_of(days.first),
        last_date: date_of(days.last),
        days: views.collect(),
    })
}

/// The JSON of `GET /counters?on=`.
pub fn list_on_json(
    listed: &PastStateList,
    cursor: Option<&str>,
    rounding: Rounding,
    strings: bool,
) -> String {
    #[derive(Serialize)]
    struct RowView<'a> {
        id: &'a CounterId,
        value: Exact,
        uniques: Option<Estimate>,
        as_of: Moment,
        updated_at: Option<Moment>,
    }
    #[derive(Serialize)]
    struct CountersOnView<'a> {
        /// The oldest and the newest day of the runs that the list is from.
        dates: Option<[String; 2]>,
        taken_at: Option<Moment>,
        entries: Vec<RowView<'a>>,
        cursor: Option<&'a str>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        missing_partitions: &'a [u32],
    }
    let days = || listed.runs.iter().map(|(_, run)| run.day);
    let dates = days().min().zip(days().max());
    let rows = listed.rows.iter().map(|row| RowView {
        id: &row.counter,
        value: Exact::new(row.kept.value(), strings),
        uniques: estimate(row.uniques, rounding),
        as_of: row.kept.as_of_ms,
        updated_at: row.kept.last_write_ms(),
    });
    to_json(&CountersOnView {
        dates: dates.map(|(first, last)| [date_of(first), date_of(last)]),
        taken_at: listed.runs.iter().map(|(_, run)| run.ended_ms).max(),
        entries: rows.collect(),
        cursor,
        missing_partitions: &listed.missing_partitions,
    })
}

fn to_json(view: &impl Serialize) -> String {
    serde_json::to_string(view).unwrap_or_default()
}
