//! The sum of one counter, in answers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::rounding::Rounding;
use super::trace::Tree;
use crate::fields::{
    CountValue, Exactness, Moment, Staleness, Total, UniquesCover, VersionText, moment_of,
};
use crate::json::to_json;
use crate::number::{Estimate, Exact};
use crate::query::{HistoryFormat, Window};
use tally_core::cluster::root::Root;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{Origin, Part, Range, join};
use tally_core::counter::settings::{TtlMode, UniqueHash};
use tally_core::counter::total::Value;
use tally_core::sketch::Uniques;
use tally_wire::messages::GlobalSum;
use tally_wire::version::Version;

/// When and how a sum was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Every write acknowledged before this moment is included, unix milliseconds.
    pub as_of_ms: i64,
    /// Now, unix milliseconds.
    pub now_ms: i64,
    /// Whether the read began after its caller had asked.
    pub fresh: bool,
}

impl Freshness {
    fn staleness_ms(self) -> i64 {
        self.now_ms.saturating_sub(self.as_of_ms).max(0)
    }

    /// The freshness of a part that did not answer, or not completely. The part is only sure to include what was
    /// acknowledged before the counter was created, which is nothing.
    fn of_missing(self, root: &Root) -> Self {
        Self {
            as_of_ms: self.as_of_ms.min(root.created_at_ms),
            ..self
        }
    }
}

#[derive(Serialize)]
struct DatacenterView {
    id: Datacenter,
    value: Total,
    shards: u8,
    as_of: Moment,
    staleness_ms: Staleness,
    /// Whether all of it answered, since the last set or reset too; `exact` is false otherwise.
    reachable: bool,
}

#[derive(Serialize)]
struct WindowView {
    seconds: u64,
    count: CountValue,
    /// `count` is at most this much too large: 0 up to 900 s, what the partial bucket holds beyond.
    max_error: CountValue,
    /// `null` too for windows that began more than 400 days ago, for which none are kept.
    uniques: Option<Estimate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uniques_cover: Option<UniquesCover>,
}

#[derive(Serialize)]
struct CounterView<'a> {
    id: &'a CounterId,
    value: Total,
    /// What it was last set to, 0 by a reset; `value` is this and what was counted since. Missing where it never was
    /// set. It grows by what a datacenter turns out to have counted since that did not answer then.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Total>,
    exact: Exactness,
    /// Newest write, set or reset; `null` before the first.
    updated_at: Option<Moment>,
    /// When it ends by itself; `null` for never.
    expires_at: Option<Moment>,
    version: VersionText,
    /// The moment that the value describes.
    as_of: Moment,
    staleness_ms: Staleness,
    uniques: Option<Estimate>,
    datacenters: Vec<DatacenterView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowView>,
    /// Present in answers to operations: settings, set and reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<SettingsView>,
    /// Present in answers to operations: datacenters that did not answer. They learn of settings later; what they hold
    /// is no part of the value until they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending_datacenters: Option<&'a [Datacenter]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Tree>,
}

/// Settings in requests and answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingsView {
    /// Objects that a datacenter spreads writes over.
    shards: ShardsView,
    /// Time to live; at most 10 years.
    ttl_seconds: Option<u64>,
    /// Needs `ttl_seconds`, and is `fixed` if not given with it. `fixed`: from this setting. `sliding`: from the last
    /// change, or from this setting where that is later.
    ttl_mode: Option<TtlMode>,
    /// What no decrement may take the value below: a whole number of up to 128 bits, or its decimal string. It needs a
    /// home; without `home` that is the present home, or the only datacenter that has written, or the first that will.
    floor: Option<Exact>,
    /// The datacenter that all writes are counted at, wherever they enter; `null` for each at its own. While it does
    /// not answer, writes are refused with `unavailable`.
    home: Option<Datacenter>,
    /// The hash of its unique elements; `null`, or left out, for the hash that the counter has: at first `keyed`, which
    /// has a secret key. `redis` is the hash of Redis's HyperLogLog: it is known to all, so whoever chooses elements
    /// can set the estimate at will. It cannot be changed once elements were counted.
    unique_hash: UniqueHash,
    /// How long the finest buckets are kept, 900 to 86,400; `null` for `TALLY_SECONDS_KEPT`.
    seconds_kept: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum ShardsView {
    Fixed(u8),
    Auto(&'static str),
}

impl SettingsView {
    /// The settings of a counter.
    pub fn of(root: &Root, strings: bool) -> Self {
        let settings = root.settings;
        Self {
            shards: settings
                .shards
                .map_or(ShardsView::Auto("auto"), ShardsView::Fixed),
            ttl_seconds: settings.ttl.map(|ttl| ttl.seconds),
            ttl_mode: settings.ttl.map(|ttl| ttl.mode),
            floor: settings.floor.map(|floor| Exact::new(floor, strings)),
            home: root.home.clone(),
            unique_hash: settings.unique_hash,
            seconds_kept: settings.seconds_kept,
        }
    }
}

/// A counter's sum, ready for an answer.
pub struct SummedCounter<'a> {
    pub(super) id: &'a CounterId,
    pub(super) sum: &'a GlobalSum,
    read: Freshness,
    rounding: Rounding,
    pub(super) total: Part,
    pub(super) version: Version,
}

impl<'a> SummedCounter<'a> {
    /// Adds the datacenters of a sum.
    pub fn new(id: &'a CounterId, sum: &'a GlobalSum, freshness: Freshness) -> Self {
        let mut total = Part::default();
        for part in sum.parts() {
            total.add(part.clone());
        }
        join(&mut total.uniques, sum.uniques.clone());
        join(&mut total.window_uniques, sum.window_uniques.clone());
        Self {
            id,
            sum,
            read: freshness,
            rounding: Rounding::OFF,
            total,
            version: Version::of_sum(sum),
        }
    }

    /// The same, with its uniques rounded.
    #[must_use]
    pub fn rounded(self, rounding: Rounding) -> Self {
        Self { rounding, ..self }
    }

    /// How its uniques are rounded.
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// The unique elements: of a window where one was asked for, otherwise of all time.
    pub(super) fn sketches(&self, window: Option<Window>) -> &Uniques {
        match window {
            Some(_) => &self.total.window_uniques,
            None => &self.total.uniques,
        }
    }

    /// The estimate of their number, if there are any.
    pub fn uniques(&self, window: Option<Window>) -> Option<Estimate> {
        let estimate = Estimate::of(self.sketches(window));
        estimate.map(|estimate| self.rounding.apply(estimate))
    }

    /// The counter's value.
    pub fn value(&self) -> Value {
        self.sum.value()
    }

    /// The count of the window that was asked for; 0 where none was.
    pub fn window_count(&self) -> u128 {
        self.total.window.count
    }

    /// Whether the value includes every write acknowledged before the read began, and none twice.
    pub fn is_exact(&self) -> bool {
        let may_lack_queued = !self.sum.is_drained && !self.sum.root.inboxes.is_empty();
        self.read.fresh
            && self.sum.is_queried()
            && self.is_complete()
            && !may_lack_queued
            && !self.sum.root.may_lack
    }

    fn is_complete(&self) -> bool {
        let mut parts = self.sum.datacenters.iter();
        parts.all(|(datacenter, part)| self.sum.is_reported(datacenter, part.as_ref()))
    }

    /// The freshness of the whole: that of its oldest part.
    fn freshness(&self) -> Freshness {
        let whole = if self.sum.root.may_lack {
            self.read.of_missing(&self.sum.root)
        } else {
            self.read
        };
        let parts = self.sum.datacenters.iter();
        parts.fold(whole, |oldest, (datacenter, part)| {
            let own = self.freshness_of(datacenter, part.as_ref());
            Freshness {
                as_of_ms: oldest.as_of_ms.min(own.as_of_ms),
                ..oldest
            }
        })
    }

    pub(super) fn freshness_of(&self, datacenter: &Datacenter, part: Option<&Part>) -> Freshness {
        let is_settled = self.sum.root.operations.is_reconciled(datacenter);
        let as_of_ms = match part.filter(|_| is_settled) {
            Some(part) => match part.origin {
                Origin::Queried if part.missing.is_empty() => return self.read,
                Origin::Queried => return self.read.of_missing(&self.sum.root),
                Origin::Pushed(at_ms) | Origin::Known(at_ms) => at_ms,
            },
            None => return self.read.of_missing(&self.sum.root),
        };
        Freshness {
            // By the reader's clock, the counter's creation may be in the future.
            as_of_ms: as_of_ms
                .max(self.sum.root.created_at_ms)
                .min(self.read.as_of_ms),
            ..self.read
        }
    }

    /// Every write acknowledged before this moment is included, unix milliseconds.
    pub fn as_of_ms(&self) -> i64 {
        self.freshness().as_of_ms
    }

    /// The entity tag. For a counter with a home, it is the version and the number of the settings; `If-Match` accepts
    /// it, and ignores the number. Otherwise it is a weak tag, equal for equal counts, settings and reachability. A
    /// rounded answer has a weak tag of its own, so that nobody takes it for the answer that readers with a key get.
    pub fn etag(&self) -> String {
        let generation = self.sum.root.generation;
        let settings = self.sum.root.settings.number;
        let is_rounded = !self.rounding.is_off();
        if let (Some(home), false) = (&self.sum.root.home, is_rounded) {
            return format!("\"{}.{settings}\"", self.version.of_home(home).encode());
        }
        let complete = if self.is_complete() { "" } else { "-partial" };
        let rounded = if is_rounded { "-rounded" } else { "" };
        format!(
            "W/\"{}-{generation}-{settings}{complete}{rounded}\"",
            self.version.tag()
        )
    }

    /// The age of the sum, in milliseconds.
    pub fn staleness_ms(&self) -> i64 {
        self.freshness().staleness_ms()
    }

    /// The JSON of `GET /counters/{id}`. After an operation it includes the settings, and the datacenters that the
    /// operation has not reached yet.
    pub fn to_json(
        &self,
        strings: bool,
        window: Option<Window>,
        operated: Option<&[Datacenter]>,
    ) -> String {
        self.json_with(strings, window, operated, None)
    }

    pub(super) fn json_with(
        &self,
        strings: bool,
        window: Option<Window>,
        operated: Option<&[Datacenter]>,
        explain: Option<Tree>,
    ) -> String {
        let root = &self.sum.root;
        let exact = |value| Exact::new(value, strings);
        let operations = &root.operations;
        let is_set = operations.has_base();
        let written_ms = self.total.facts.last_write_ms.max(operations.at_ms());
        // An imported counter may have no time of a write.
        let written = (written_ms > 0).then_some(written_ms);
        let window = window.map(|window| WindowView {
            seconds: window.seconds,
            count: exact(Value::new(self.total.window.count, 0)),
            max_error: exact(Value::new(self.total.window.max_error, 0)),
            uniques: self.uniques(Some(window)).filter(|_| window.has_uniques()),
            uniques_cover: window.uniques_cover().map(UniquesCover::of),
        });
        let last_write_ms = self.total.facts.last_write_ms.max(root.last_write_ms);
        to_json(&CounterView {
            id: self.id,
            value: exact(self.value()),
            base: is_set.then(|| exact(operations.base())),
            exact: self.is_exact(),
            updated_at: written,
            expires_at: root
                .settings
                .ttl
                .map(|ttl| ttl.expires_at_ms(last_write_ms)),
            version: self.version.encode(),
            as_of: self.as_of_ms(),
            staleness_ms: self.staleness_ms(),
            uniques: self.uniques(None),
            datacenters: self.datacenters(strings),
            window,
            settings: operated.map(|_| SettingsView::of(root, strings)),
            pending_datacenters: operated,
            explain,
        })
    }

    fn datacenters(&self, strings: bool) -> Vec<DatacenterView> {
        let view = |(datacenter, part): &(Datacenter, Option<Part>)| {
            let part = part.as_ref();
            let freshness = self.freshness_of(datacenter, part);
            DatacenterView {
                id: datacenter.clone(),
                value: Exact::new(self.sum.value_of(datacenter, part), strings),
                shards: part.map_or(0, |part| part.shards),
                as_of: freshness.as_of_ms,
                staleness_ms: freshness.staleness_ms(),
                reachable: self.sum.is_reported(datacenter, part),
            }
        };
        self.sum.datacenters.iter().map(view).collect()
    }

    /// Non-empty buckets, where they were asked for.
    pub fn points(&self) -> &BTreeMap<i64, u128> {
        &self.total.points
    }

    /// The second from which they are complete; `i64::MIN` where none were dropped.
    pub fn kept_from(&self) -> i64 {
        self.total.kept_from.unwrap_or(i64::MIN)
    }

    /// How true the sum is.
    pub fn truth(&self) -> Truth {
        Truth {
            generation: self.sum.root.generation,
            exact: self.is_exact(),
            as_of_ms: self.as_of_ms(),
            staleness_ms: self.staleness_ms(),
        }
    }
}

/// How true an answer is that one read or several made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// The generation of the counter.
    pub generation: u64,
    /// Whether every change acknowledged before the reads is included.
    pub exact: bool,
    /// The oldest moment that the answer describes, unix milliseconds.
    pub as_of_ms: i64,
    /// Its age, milliseconds.
    pub staleness_ms: i64,
}

impl Truth {
    /// The truth of two reads together; `None` if the counter was ended and created again between them.
    pub fn and(self, other: Self) -> Option<Self> {
        let joined = Self {
            generation: self.generation,
            exact: self.exact && other.exact,
            as_of_ms: self.as_of_ms.min(other.as_of_ms),
            staleness_ms: self.staleness_ms.max(other.staleness_ms),
        };
        (self.generation == other.generation).then_some(joined)
    }
}

/// The points of a history, in one piece or several.
#[derive(Default)]
pub struct HistoryPoints {
    points: Vec<Point>,
    kept_from: Option<i64>,
}

impl HistoryPoints {
    /// Adds the points of a later range.
    pub fn add(&mut self, view: &SummedCounter<'_>, range: Range, format: HistoryFormat) {
        self.kept_from = self.kept_from.max(view.total.kept_from);
        let points = points_of(view.points(), view.kept_from(), range, format);
        self.points.extend(points);
    }

    /// The JSON of `GET /counters/{id}/history`.
    pub fn json(self, id: &CounterId, range: Range, truth: Truth) -> String {
        #[derive(Serialize)]
        struct HistoryView<'a> {
            id: &'a CounterId,
            step: &'static str,
            /// Since when points of this step are complete; `null` where nothing was let go.
            kept_from_at: Option<Moment>,
            exact: Exactness,
            as_of: Moment,
            staleness_ms: Staleness,
            points: Vec<Point>,
        }
        to_json(&HistoryView {
            id,
            step: step_name(range),
            kept_from_at: self.kept_from.map(moment_of),
            exact: truth.exact,
            as_of: truth.as_of_ms,
            staleness_ms: truth.staleness_ms,
            points: self.points,
        })
    }

    /// The same as CSV: when each bucket begins, in unix milliseconds, and its count, if that is known.
    pub fn csv(&self) -> String {
        let mut text = "starts_at,count\n".to_owned();
        for (start, count) in &self.points {
            let count = count.as_ref().map(to_json).unwrap_or_default();
            text.push_str(&format!("{start},{}\n", count.trim_matches('"')));
        }
        text
    }
}

/// A bucket of a history: its beginning, and its count, if that is known.
pub(super) type Point = (Moment, Option<CountValue>);

/// The buckets of a range, from the non-empty ones: counts before `kept_from` are unknown.
pub(super) fn points_of(
    counted: &BTreeMap<i64, u128>,
    kept_from: i64,
    range: Range,
    format: HistoryFormat,
) -> Vec<Point> {
    let mut points = Vec::new();
    let mut start = range.from;
    while start <= range.to {
        let count = counted.get(&start).copied().unwrap_or(0);
        let exact = || Exact::new(Value::new(count, 0), format.strings);
        if format.zeros || count > 0 && start >= kept_from {
            points.push((moment_of(start), (start >= kept_from).then(exact)));
        }
        start += range.step.seconds();
    }
    points
}

/// The name of the width of a range's buckets in requests.
pub(super) fn step_name(range: Range) -> &'static str {
    match range.step.seconds() {
        1 => "1s",
        60 => "1m",
        3_600 => "1h",
        _ => "1d",
    }
}
