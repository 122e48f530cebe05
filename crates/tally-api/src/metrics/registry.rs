//! The metrics of one isolate, and their text for Prometheus.
//!
//! Invariants: a counter never falls while its isolate lives. Every series is named in this file or is one of
//! [`Code::ALL`] or [`RouteName::ALL`], so no id, key or other text of a client becomes a label. Memory is one array of
//! fixed length.
//!
//! Each series has a number made of its name ([`series_id`]). Isolates report by it, so builds with different sets of
//! series agree on it.
//!
//! Life of a number: a shell calls [`Metrics::add`], [`Metrics::refuse`] or [`Metrics::observe`] in the isolate where
//! something happens. `GET /metrics` takes the registry of the edge isolate that answers, asks the aggregator for its
//! [`Snapshot`], and renders both: families of the edge from the first, families of objects from the second. Where the
//! aggregator does not answer, its families are omitted. In a process with several isolates of a Worker each of the two
//! is the sum of that Worker's.
//!
//! Source: prometheus.io/docs/instrumenting/exposition_formats, "Text-based format", version 0.0.4.

use std::collections::HashMap;

use super::fleet::FleetText;
use super::text::{Exposition, seconds};
use crate::routes::RouteName;
use tally_wire::fleet::{Fleet, Role, Snapshot};
use tally_wire::problem::Code;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Families whose labels are codes, and routes.
const REFUSED_NAME: &str = "tally_refused_total";
const REJECTED_NAME: &str = "tally_rejected_lines_total";
const LATENCY_NAME: &str = "tally_request_duration_seconds";

/// The prefix of all names, and of those of the deployment.
const PREFIX: &str = "tally_";
const FLEET_PREFIX: &str = "tally_fleet_";

/// Upper bounds of the latency buckets, in milliseconds, and as the text writes them, in seconds.
const BUCKETS: [(u64, &str); 12] = [
    (1, "0.001"),
    (2, "0.002"),
    (5, "0.005"),
    (10, "0.01"),
    (20, "0.02"),
    (50, "0.05"),
    (100, "0.1"),
    (200, "0.2"),
    (500, "0.5"),
    (1_000, "1"),
    (2_000, "2"),
    (5_000, "5"),
];

/// The Worker in which a family is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Edge,
    Objects,
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Summary,
    /// A summary of times: the sum is counted in milliseconds and shown in seconds, as usual for Prometheus.
    Seconds,
}

struct Family {
    part: Part,
    kind: Kind,
    name: &'static str,
    help: &'static str,
    /// The series: the metric, and the rest of its line after the family's name.
    series: &'static [(Metric, &'static str)],
}

macro_rules! families {
    ($($part:ident $kind:ident $name:literal $help:literal [$($metric:ident $suffix:literal),+];)*) => {
        /// The metrics: one series each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric {
            $($(#[doc = concat!("`", $name, $suffix, "`: ", $help)] $metric,)+)*
        }

        impl Metric {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Metric] = &[$($(Metric::$metric,)+)*];
        }

        const FAMILIES: &[Family] = &[$(Family {
            part: Part::$part,
            kind: Kind::$kind,
            name: $name,
            help: $help,
            series: &[$((Metric::$metric, $suffix)),+],
        },)*];
    };
}

families! {
    Edge Counter "tally_acknowledged_total"
        "Writes that were answered as done, by operation; of bulk bodies each accepted line." [
        AcknowledgedIncrement "{operation=\"increment\"}",
        AcknowledgedDecrement "{operation=\"decrement\"}",
        AcknowledgedEvent "{operation=\"event\"}",
        AcknowledgedQueued "{operation=\"queued\"}",
        AcknowledgedLog "{operation=\"ingest\"}",
        AcknowledgedPut "{operation=\"put\"}",
        AcknowledgedSet "{operation=\"set\"}",
        AcknowledgedDelete "{operation=\"delete\"}",
        AcknowledgedScore "{operation=\"score\"}",
        AcknowledgedRedis "{operation=\"redis\"}"
    ];
    Edge Counter "tally_replayed_total"
        "Writes that were answered with the first answer to the same idempotency key; of bulk bodies that were completely counted before, each accepted line." [Replayed ""];
    Edge Counter "tally_clock_skew_total"
        "Writes and lines that were refused because their own time was too far from the clock." [ClockSkew ""];
    Edge Counter "tally_bots_ignored_total"
        "Writes and lines that were left out because their user agent is a bot's." [BotIgnored ""];
    Edge Counter "tally_flushes_total"
        "Flushes that lanes sent to cells, by outcome; unknown is one that was not confirmed in time." [
        FlushCounted "{outcome=\"counted\"}",
        FlushRefused "{outcome=\"refused\"}",
        FlushUnknown "{outcome=\"unknown\"}"
    ];
    Edge Summary "tally_flush_writes"
        "Writes joined in each flush." [FlushWritesSum "_sum", FlushWritesCount "_count"];
    Edge Counter "tally_retries_total"
        "Flushes that were sent once more, under the same nonce, because the first got no answer, by what the second got." [
        RetryCounted "{outcome=\"counted\"}",
        RetryRefused "{outcome=\"refused\"}",
        RetryUnknown "{outcome=\"unknown\"}"
    ];
    Edge Counter "tally_read_cache_hits_total"
        "Default reads that shared a view with another." [ReadCacheHit ""];
    Edge Counter "tally_read_cache_misses_total"
        "Default reads that fetched a view." [ReadCacheMiss ""];
    Edge Counter "tally_unreadable_total"
        "Calls of this edge that were refused because stored data is damaged, or of a newer build." [UnreadableEdge ""];
    Edge Counter "tally_limit_checks_total"
        "Checks of rate limits, by what was answered: refused counts those of shadow policies too, error those that the \
         limiter did not judge." [
        LimitAllowed "{verdict=\"allowed\"}",
        LimitRefused "{verdict=\"refused\"}",
        LimitError "{verdict=\"error\"}"
    ];
    Edge Counter "tally_limit_denials_cached_total"
        "Checks that were refused from memory, without a call." [LimitDenialCached ""];
    Edge Counter "tally_limit_lent_total"
        "Checks that were admitted from the lease of their isolate, without a call." [LimitLocalQuota ""];
    Edge Counter "tally_limit_messages_total"
        "Messages to limiters: checks that were joined, and requests of isolates for a part of a hot key's limit." [LimitMessage ""];
    Edge Counter "tally_limit_remote_calls_total"
        "Calls of limiters to others while a check waits: to the global limiter for limits with the scope global, or to a key's old place while their number changes." [LimitRemoteCall ""];
    Objects Counter "tally_live_watcher_seconds_total"
        "Streams of live views, added up once a second: its rate is how many there are." [LiveWatcherSecond ""];
    Objects Counter "tally_live_reads_total"
        "Reads of counters for all who watch them." [LiveRead ""];
    Objects Counter "tally_live_updates_total"
        "Updates that watchers were sent, by how." [
        LiveUpdateEvents "{transport=\"sse\"}",
        LiveUpdateSocket "{transport=\"websocket\"}"
    ];
    Objects Counter "tally_commits_total"
        "Commits of cells, by outcome." [
        CommitWritten "{outcome=\"written\"}",
        CommitFailed "{outcome=\"failed\"}"
    ];
    Objects Summary "tally_commit_flushes"
        "Flushes joined in each commit that was written; a message of keyed writes is one." [CommitFlushesSum "_sum", CommitFlushesCount "_count"];
    Objects Counter "tally_dead_letters_total"
        "Sums of queued events that were given up." [DeadLetter ""];
    Objects Seconds "tally_queue_lag_seconds"
        "How old the oldest event of a batch of an inbox or a queue was, up to a second more, when the batch had been sent." [
        QueueLagSum "_sum",
        QueueLagCount "_count"
    ];
    Objects Counter "tally_pushes_total"
        "Messages in which leads reported the counts of their datacenters to roots: while somebody elsewhere watches, or as a checkpoint." [
        PushWatched "{reason=\"watched\"}",
        PushCheckpoint "{reason=\"checkpoint\"}"
    ];
    Objects Counter "tally_push_bytes_total"
        "Bytes of those messages, before they are packed for the way." [
        PushBytesWatched "{reason=\"watched\"}",
        PushBytesCheckpoint "{reason=\"checkpoint\"}"
    ];
    Objects Counter "tally_lookups_total"
        "Lookups of what roots remember of counters of several datacenters, by where that was found." [
        LookupMemory "{from=\"memory\"}",
        LookupStorage "{from=\"storage\"}"
    ];
    Objects Counter "tally_shard_splits_total"
        "Times that a lead doubled the shards of its datacenter." [ShardSplit ""];
    Objects Counter "tally_shard_seals_total"
        "Times that a shard was sealed, by its lead or because its counter ends." [ShardSeal ""];
    Objects Counter "tally_objects_unreadable_total"
        "Calls of the aggregator and of objects that were refused because stored data is damaged, or of a newer build." [
        UnreadableObjects ""
    ];
}

const COUNTERS: usize = Metric::ALL.len();
const CODES: usize = Code::ALL.len();
const ROUTES: usize = RouteName::ALL.len();
/// The counts of the buckets (not cumulative; the last is for times above all bounds), and the sum.
const PER_ROUTE: usize = BUCKETS.len() + 2;

/// The offsets of the parts of the array.
const REFUSED: usize = COUNTERS;
const REJECTED: usize = REFUSED + CODES;
const LATENCY: usize = REJECTED + CODES;
const SERIES: usize = LATENCY + ROUTES * PER_ROUTE;

// Enums without fields, numbered from 0 in the order of their `ALL`.
#[expect(clippy::as_conversions, reason = "the number of a variant")]
const fn index_of_metric(metric: Metric) -> usize {
    metric as usize
}

#[expect(clippy::as_conversions, reason = "the number of a variant")]
const fn index_of_code(code: Code) -> usize {
    code as usize
}

const fn index_of_route(route: RouteName) -> usize {
    LATENCY + route.index() * PER_ROUTE
}

/// The series at an index of the array.
enum SeriesKind {
    Metric(&'static Family, &'static str),
    Code(&'static str, Code),
    /// A route, and the index of its number: a bucket, the one above all bounds, or the sum.
    Latency(RouteName, usize),
}

fn series_at(at: usize) -> Option<SeriesKind> {
    if let Some(metric) = Metric::ALL.get(at) {
        let mut series = FAMILIES
            .iter()
            .flat_map(|family| family.series.iter().map(move |series| (family, series)));
        let (family, (_, suffix)) = series.find(|(_, (known, _))| known == metric)?;
        return Some(SeriesKind::Metric(family, suffix));
    }
    if at < LATENCY {
        let (name, code) = match at.checked_sub(REJECTED) {
            Some(code) => (REJECTED_NAME, code),
            None => (REFUSED_NAME, at - REFUSED),
        };
        return Some(SeriesKind::Code(name, *Code::ALL.get(code)?));
    }
    let route = RouteName::ALL.get((at - LATENCY) / PER_ROUTE)?;
    Some(SeriesKind::Latency(*route, (at - LATENCY) % PER_ROUTE))
}

/// The number of a series, made of its name (FNV-1a): it is the same in builds with other series. A test checks that no
/// two are equal.
fn series_id(at: usize) -> u32 {
    let parts = match series_at(at) {
        Some(SeriesKind::Metric(family, suffix)) => [family.name, suffix, ""],
        Some(SeriesKind::Code(name, code)) => [name, code.as_str(), ""],
        Some(SeriesKind::Latency(route, part)) => {
            let bound = BUCKETS.get(part).map(|(_, bound)| *bound);
            let rest = if part == BUCKETS.len() { "+Inf" } else { "sum" };
            [LATENCY_NAME, route.as_str(), bound.unwrap_or(rest)]
        }
        None => [""; 3],
    };
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// The numbers of all series, in the order of the array.
pub fn series_ids() -> impl Iterator<Item = u32> {
    (0..SERIES).map(series_id)
}

/// The role of the isolates that count a series.
fn role_of(at: usize) -> Role {
    match series_at(at) {
        Some(SeriesKind::Metric(family, _)) if family.part == Part::Objects => Role::Objects,
        _ => Role::Edge,
    }
}

/// The numbers of one isolate. 8 bytes a series: about 11 KB.
#[derive(Clone, Debug)]
pub struct Metrics {
    begun_seconds: i64,
    counts: [u64; SERIES],
    /// The number of changes so far.
    changes: u64,
}

/// A hash of the names of all counters in their order (FNV-1a).
fn layout() -> u64 {
    let names = FAMILIES.iter().flat_map(|family| {
        let suffixes = family.series.iter().flat_map(|(_, suffix)| suffix.bytes());
        family.name.bytes().chain(suffixes)
    });
    names.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Metrics {
    /// A registry without counts, begun at `begun_seconds`, unix seconds.
    pub const fn new(begun_seconds: i64) -> Self {
        Self {
            begun_seconds,
            counts: [0; SERIES],
            changes: 0,
        }
    }

    fn add_at(&mut self, index: usize, amount: u64) {
        if let Some(count) = self.counts.get_mut(index) {
            *count = count.saturating_add(amount);
            self.changes = self.changes.wrapping_add(1);
        }
    }

    /// Adds the numbers of another isolate of the same Worker. The sum begins with the first of them.
    pub fn join(&mut self, other: &Self) {
        self.begun_seconds = self.begun_seconds.min(other.begun_seconds);
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// The number of changes so far: without a change there is nothing to report.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// All numbers.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Adds to a counter.
    pub fn add(&mut self, metric: Metric, amount: u64) {
        self.add_at(index_of_metric(metric), amount);
    }

    /// Counts a request that was refused.
    pub fn refuse(&mut self, code: Code) {
        self.add_at(REFUSED + index_of_code(code), 1);
        self.count_skew(code, 1);
    }

    /// Counts rejected lines of a bulk body.
    pub fn reject_lines(&mut self, code: Code, lines: u64) {
        self.add_at(REJECTED + index_of_code(code), lines);
        self.count_skew(code, lines);
    }

    fn count_skew(&mut self, code: Code, amount: u64) {
        if code == Code::ClockSkew {
            self.add(Metric::ClockSkew, amount);
        }
    }

    /// Adds the duration of a request, in milliseconds. A clock that stepped back gives 0.
    pub fn observe(&mut self, route: RouteName, milliseconds: i64) {
        let milliseconds = u64::try_from(milliseconds).unwrap_or(0);
        let bucket = BUCKETS
            .iter()
            .position(|(bound, _)| milliseconds <= *bound)
            .unwrap_or(BUCKETS.len());
        let first = index_of_route(route);
        self.add_at(first + bucket, 1);
        self.add_at(first + BUCKETS.len() + 1, milliseconds);
    }

    /// The counters, for a message.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            layout: layout(),
            begun_seconds: self.begun_seconds,
            counts: self.counts.iter().take(COUNTERS).copied().collect(),
        }
    }

    /// The text: the edge's families from here, those of objects from the aggregator's snapshot. Without a snapshot, or
    /// with one of a build with other counters, those are omitted and `tally_aggregator_up` is 0. Routes without
    /// requests are omitted too. Up to 25 KB.
    pub fn render(&self, aggregator: Option<&Snapshot>) -> String {
        self.render_with(aggregator, None)
    }

    /// As [`Metrics::render`], and after that the families of the deployment, under `tally_fleet_`. Up to 50 KB.
    pub fn render_with(&self, aggregator: Option<&Snapshot>, fleet: Option<&Fleet>) -> String {
        let aggregator = aggregator.filter(|snapshot| snapshot.layout == layout());
        let mut text = Exposition::default();
        text.family(
            "tally_aggregator_up",
            "1 if the global aggregator gave its part of these numbers.",
            "gauge",
        );
        text.line(&["tally_aggregator_up"], u64::from(aggregator.is_some()));
        let name = "tally_start_time_seconds";
        let help = "When the isolate that counts began to, in unix seconds, by Worker.";
        text.family(name, help, "gauge");
        let begun = |seconds: i64| u64::try_from(seconds).unwrap_or(0);
        text.line(&[name, "{worker=\"edge\"}"], begun(self.begun_seconds));
        if let Some(snapshot) = aggregator {
            let at = begun(snapshot.begun_seconds);
            text.line(&[name, "{worker=\"aggregator\"}"], at);
        }
        let own = |at: usize| self.counts.get(at).copied().unwrap_or(0);
        let of_objects = |at: usize| {
            let counts = aggregator.map(|snapshot| snapshot.counts.as_slice());
            counts.and_then(|counts| counts.get(at)).copied()
        };
        let at = |at: usize| match role_of(at) {
            Role::Objects => of_objects(at).unwrap_or(0),
            Role::Edge => own(at),
        };
        render_all(&mut text, PREFIX, &at, |part| {
            part == Part::Edge || aggregator.is_some()
        });
        if let Some(fleet) = fleet {
            render_fleet(&mut text, fleet);
        }
        text.0
    }
}

fn render_fleet(text: &mut Exposition, fleet: &Fleet) {
    let sums = fleet.sums();
    let at = |at: usize| sums.get(&series_id(at)).copied().unwrap_or(0);
    if fleet.is_whole() {
        render_all(text, FLEET_PREFIX, &at, |_| true);
    }
    FleetText(fleet).render(text);
}

/// The families of the deployment alone, as in the text of `/metrics`. Up to 25 KB.
pub fn fleet_text(fleet: &Fleet) -> String {
    let mut text = Exposition::default();
    render_fleet(&mut text, fleet);
    text.0
}

/// The changes since the reported counts, of the series that isolates of this role count: the number of each series,
/// and its increase.
pub fn changed(counts: &[u64], reported: &[u64], role: Role) -> Vec<(u32, u64)> {
    let reported = reported.iter().copied().chain(std::iter::repeat(0));
    let changed = counts.iter().zip(reported).enumerate();
    let changed = changed.filter(|(at, (now, reported))| *now > reported && role_of(*at) == role);
    changed
        .map(|(at, (now, reported))| (series_id(at), now - reported))
        .collect()
}

/// Whether a series is counted in milliseconds and shown in seconds.
fn is_in_milliseconds(family: &Family, suffix: &str) -> bool {
    matches!(family.kind, Kind::Seconds) && suffix == "_sum"
}

/// The names of series with their values, as in the text; without the buckets of latencies.
#[expect(
    clippy::as_conversions,
    reason = "what an isolate counts in ten seconds is far below 2^53"
)]
pub fn named(rose: &[(u32, u64)]) -> Vec<(String, f64)> {
    let rose: HashMap<u32, u64> = rose.iter().copied().collect();
    let named = (0..SERIES).filter_map(|at| {
        let amount = *rose.get(&series_id(at))? as f64;
        match series_at(at)? {
            SeriesKind::Metric(family, suffix) => {
                let unit = match is_in_milliseconds(family, suffix) {
                    true => 1_000.0,
                    false => 1.0,
                };
                Some(([family.name, suffix].concat(), amount / unit))
            }
            SeriesKind::Code(name, code) => {
                let name = [name, "{code=\"", code.as_str(), "\"}"].concat();
                Some((name, amount))
            }
            SeriesKind::Latency(..) => None,
        }
    });
    named.collect()
}

/// Renders the families of some parts; `count` gives the number at each index of the array.
fn render_all(
    text: &mut Exposition,
    prefix: &str,
    at: &impl Fn(usize) -> u64,
    has: impl Fn(Part) -> bool,
) {
    for family in FAMILIES {
        if !has(family.part) {
            continue;
        }
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Summary | Kind::Seconds => "summary",
        };
        let name = renamed(family.name, prefix);
        text.family(&name, family.help, kind);
        for (metric, suffix) in family.series {
            let count = at(index_of_metric(*metric));
            match is_in_milliseconds(family, suffix) {
                true => text.line_of(&[&name, suffix], &seconds(count)),
                false => text.line(&[&name, suffix], count),
            }
        }
    }
    let refused = "Requests that were refused, by the code of the problem.";
    render_codes(text, &renamed(REFUSED_NAME, prefix), refused, REFUSED, at);
    let rejected = "Lines of bulk bodies that were rejected, by the code of the problem.";
    render_codes(
        text,
        &renamed(REJECTED_NAME, prefix),
        rejected,
        REJECTED,
        at,
    );
    render_latency(text, &renamed(LATENCY_NAME, prefix), at);
}

fn renamed(name: &str, prefix: &str) -> String {
    [prefix, name.strip_prefix(PREFIX).unwrap_or(name)].concat()
}

fn render_codes(
    text: &mut Exposition,
    name: &str,
    help: &str,
    first: usize,
    at: &impl Fn(usize) -> u64,
) {
    text.family(name, help, "counter");
    for code in Code::ALL {
        let label = ["{code=\"", code.as_str(), "\"}"].concat();
        text.line(&[name, &label], at(first + index_of_code(*code)));
    }
}

fn render_latency(text: &mut Exposition, name: &str, at: &impl Fn(usize) -> u64) {
    let help = "From a request's arrival to its answer, by route; in steps of a millisecond.";
    text.family(name, help, "histogram");
    for route in RouteName::ALL {
        let first = index_of_route(*route);
        let label = ["{route=\"", route.as_str(), "\""].concat();
        if (first..first + PER_ROUTE - 1).all(|index| at(index) == 0) {
            continue;
        }
        let bounds = BUCKETS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        let mut total = 0u64;
        for (bound, index) in bounds.zip(first..) {
            total = total.saturating_add(at(index));
            text.line(&[name, "_bucket", &label, ",le=\"", bound, "\"}"], total);
        }
        let sum_ms = at(first + BUCKETS.len() + 1);
        text.line_of(&[name, "_sum", &label, "}"], &seconds(sum_ms));
        text.line(&[name, "_count", &label, "}"], total);
    }
}
