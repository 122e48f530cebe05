//! The public JSON of reads and writes.

use std::collections::BTreeMap;

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::messages::{DatacenterSum, Flushed, GlobalSum};
use super::names::CellAddress;
use super::query::Window;
use super::version::{SeenCell, Version};
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::merge::{Range, Summary, from_rest, join_sketches};
use crate::counter::settings::{Settings, TtlMode};
use crate::counter::total::Value;
use crate::sketch::Sketch;

/// An exact number of any size: a JSON number, or a decimal string where the reader asked for
/// strings and a JavaScript number would not hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact {
    value: Value,
    as_string: bool,
}

impl Exact {
    /// This value, as a string above 2^53 − 1 if `as_string`.
    pub fn new(value: Value, as_string: bool) -> Self {
        Self { value, as_string }
    }
}

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = self.value.to_string();
        if self.as_string && !self.value.is_javascript_safe() {
            return serializer.serialize_str(&digits);
        }
        RawValue::from_string(digits)
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

/// An estimate of unique elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate, to the nearest whole element.
    pub estimate: u64,
    /// Its standard error, in elements: two thirds of such estimates are this near or nearer.
    pub standard_error: f64,
}

impl Estimate {
    /// The estimate of a sketch at rest; `None` for an empty one.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let sketch = from_rest(bytes);
        (!sketch.is_empty()).then(|| Self::of_sketch(&sketch))
    }

    fn of_sketch(sketch: &Sketch) -> Self {
        let estimate = sketch.estimate();
        let error = estimate * sketch.standard_error();
        Self {
            estimate: round(estimate),
            standard_error: (error * 100.0).ceil() / 100.0,
        }
    }
}

#[expect(
    clippy::as_conversions,
    reason = "estimates are finite and not negative; `as` saturates"
)]
fn round(estimate: f64) -> u64 {
    estimate.round() as u64
}

/// When and how a sum was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Every write acknowledged before this moment is included, unix milliseconds.
    pub as_of_ms: i64,
    /// Now, unix milliseconds.
    pub now_ms: i64,
    /// Whether the sum was begun after its reader had asked.
    pub fresh: bool,
}

impl Freshness {
    fn staleness_ms(self) -> i64 {
        self.now_ms.saturating_sub(self.as_of_ms).max(0)
    }
}

#[derive(Serialize)]
struct DatacenterView {
    id: Datacenter,
    value: Exact,
    shards: u8,
    as_of: i64,
    staleness_ms: i64,
    reachable: bool,
}

#[derive(Serialize)]
struct WindowView {
    seconds: u64,
    count: Exact,
    max_error: Exact,
    uniques: Option<Estimate>,
}

#[derive(Serialize)]
struct CounterView<'a> {
    id: &'a CounterId,
    value: Exact,
    exact: bool,
    updated_at: Option<i64>,
    expires_at: Option<i64>,
    version: String,
    as_of: i64,
    staleness_ms: i64,
    uniques: Option<Estimate>,
    datacenters: Vec<DatacenterView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<SettingsView>,
}

/// Settings as clients put and see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SettingsView {
    shards: ShardsView,
    ttl_seconds: Option<u64>,
    ttl_mode: Option<TtlMode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum ShardsView {
    Fixed(u8),
    Auto(&'static str),
}

impl From<Settings> for SettingsView {
    fn from(settings: Settings) -> Self {
        Self {
            shards: settings
                .shards
                .map_or(ShardsView::Auto("auto"), ShardsView::Fixed),
            ttl_seconds: settings.ttl.map(|ttl| ttl.seconds),
            ttl_mode: settings.ttl.map(|ttl| ttl.mode),
        }
    }
}

/// A counter's sum, ready to be told.
pub struct Told<'a> {
    id: &'a CounterId,
    sum: &'a GlobalSum,
    freshness: Freshness,
    total: Summary,
    version: Version,
}

impl<'a> Told<'a> {
    /// Adds up the datacenters of a sum.
    pub fn new(id: &'a CounterId, sum: &'a GlobalSum, freshness: Freshness) -> Self {
        let mut total = Summary::default();
        for part in sum.datacenters.iter().filter_map(|(_, part)| part.as_ref()) {
            total.add(part.summary.clone());
        }
        let version = Version::of(sum.datacenters.iter().flat_map(|(datacenter, part)| {
            part.iter()
                .flat_map(|part| &part.cells)
                .map(move |(shard, totals)| SeenCell {
                    datacenter: datacenter.clone(),
                    shard: *shard,
                    generation: totals.generation,
                    sequence: totals.sequence,
                })
        }));
        Self {
            id,
            sum,
            freshness,
            total,
            version,
        }
    }

    /// The counter's value.
    pub fn value(&self) -> Value {
        self.total.value()
    }

    /// Whether every write acknowledged before the read began is in the value, and none twice.
    pub fn is_exact(&self) -> bool {
        self.freshness.fresh && self.is_complete()
    }

    fn is_complete(&self) -> bool {
        self.sum
            .datacenters
            .iter()
            .all(|(_, part)| part.as_ref().is_some_and(|part| part.missing.is_empty()))
    }

    /// A weak entity tag: the same for the same counts, settings and reachability.
    pub fn etag(&self) -> String {
        let generation = self.sum.root.generation;
        let settings = self.sum.root.settings.number;
        let complete = if self.is_complete() { "" } else { "-partial" };
        format!(
            "W/\"{}-{generation}-{settings}{complete}\"",
            self.version.tag()
        )
    }

    /// How old the sum is, in milliseconds.
    pub fn staleness_ms(&self) -> i64 {
        self.freshness.staleness_ms()
    }

    /// The JSON of `GET /counters/{id}`; with settings after a `PUT`.
    pub fn to_json(&self, strings: bool, window: Option<Window>, with_settings: bool) -> String {
        let root = &self.sum.root;
        let exact = |value| Exact::new(value, strings);
        let written = (self.total.last_write_ms != i64::MIN).then_some(self.total.last_write_ms);
        let window = window.map(|window| WindowView {
            seconds: window.seconds,
            count: exact(Value::new(self.total.window.count, 0)),
            max_error: exact(Value::new(self.total.window.max_error, 0)),
            uniques: Estimate::of(&self.total.window_uniques).filter(|_| window.has_uniques()),
        });
        let last_write_ms = self.total.last_write_ms.max(root.last_write_ms);
        to_json(&CounterView {
            id: self.id,
            value: exact(self.value()),
            exact: self.is_exact(),
            updated_at: written,
            expires_at: root
                .settings
                .ttl
                .map(|ttl| ttl.expires_at_ms(last_write_ms)),
            version: self.version.encode(),
            as_of: self.freshness.as_of_ms,
            staleness_ms: self.staleness_ms(),
            uniques: Estimate::of(&self.total.uniques),
            datacenters: self.datacenters(strings),
            window,
            settings: with_settings.then(|| root.settings.into()),
        })
    }

    fn datacenters(&self, strings: bool) -> Vec<DatacenterView> {
        let view = |(datacenter, part): &(Datacenter, Option<DatacenterSum>)| DatacenterView {
            id: datacenter.clone(),
            value: Exact::new(
                part.as_ref()
                    .map_or_else(Value::default, |part| part.summary.value()),
                strings,
            ),
            shards: part.as_ref().map_or(0, |part| part.shards),
            as_of: self.freshness.as_of_ms,
            staleness_ms: self.staleness_ms(),
            reachable: part.as_ref().is_some_and(|part| part.missing.is_empty()),
        };
        self.sum.datacenters.iter().map(view).collect()
    }

    /// The JSON of `GET /counters/{id}/history`.
    pub fn history_json(&self, range: Range, strings: bool) -> String {
        let width = range.step.seconds();
        let kept_from = self.total.kept_from;
        let step = match width {
            1 => "1s",
            60 => "1m",
            3_600 => "1h",
            _ => "1d",
        };
        let mut points = Vec::new();
        let mut start = range.from;
        while start <= range.to {
            let count = self.total.points.get(&start).copied().unwrap_or(0);
            let known = start >= kept_from;
            points.push((
                start,
                known.then(|| Exact::new(Value::new(count, 0), strings)),
            ));
            start += width;
        }
        #[derive(Serialize)]
        struct HistoryView<'a> {
            id: &'a CounterId,
            step: &'static str,
            kept_from: Option<i64>,
            exact: bool,
            as_of: i64,
            staleness_ms: i64,
            points: Vec<(i64, Option<Exact>)>,
        }
        to_json(&HistoryView {
            id: self.id,
            step,
            kept_from: (kept_from != i64::MIN).then_some(kept_from),
            exact: self.is_exact(),
            as_of: self.freshness.as_of_ms,
            staleness_ms: self.staleness_ms(),
            points,
        })
    }
}

/// The JSON of `GET /uniques`: the union of several counters.
pub fn union_json(ids: &[CounterId], told: &[Told<'_>], window: Option<Window>) -> String {
    let mut union = Vec::new();
    for one in told {
        let sketch = if window.is_some() {
            &one.total.window_uniques
        } else {
            &one.total.uniques
        };
        join_sketches(&mut union, sketch.clone());
    }
    let nothing = Estimate {
        estimate: 0,
        standard_error: 0.0,
    };
    #[derive(Serialize)]
    struct UnionView<'a> {
        ids: &'a [CounterId],
        #[serde(flatten)]
        union: Estimate,
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
        exact: bool,
        as_of: i64,
        staleness_ms: i64,
    }
    to_json(&UnionView {
        ids,
        union: Estimate::of(&union).unwrap_or(nothing),
        window: window.map(|window| window.seconds),
        exact: told.iter().all(Told::is_exact),
        as_of: told
            .iter()
            .map(|one| one.freshness.as_of_ms)
            .min()
            .unwrap_or(0),
        staleness_ms: told.iter().map(Told::staleness_ms).max().unwrap_or(0),
    })
}

/// The JSON of an increment or decrement.
pub fn write_json(
    cell: &CellAddress,
    delta: u128,
    value: Value,
    exact: bool,
    flushed: &Flushed,
    strings: bool,
) -> String {
    #[derive(Serialize)]
    struct WriteView<'a> {
        id: &'a CounterId,
        delta: Exact,
        value: Exact,
        exact: bool,
        status: &'static str,
        datacenter: &'a Datacenter,
        version: String,
    }
    to_json(&WriteView {
        id: &cell.counter,
        delta: Exact::new(Value::new(delta, 0), strings),
        value: Exact::new(value, strings),
        exact,
        status: "ok",
        datacenter: &cell.datacenter,
        version: Version::of_write(cell, flushed).encode(),
    })
}

/// The JSON of `DELETE /counters/{id}`.
pub fn deleted_json(id: &CounterId, pending: &[Datacenter]) -> String {
    #[derive(Serialize)]
    struct DeletedView<'a> {
        id: &'a CounterId,
        status: &'static str,
        pending_datacenters: &'a [Datacenter],
    }
    to_json(&DeletedView {
        id,
        status: "deleted",
        pending_datacenters: pending,
    })
}

/// The JSON of `GET /counters`.
pub fn list_json(counters: &[CounterId], cursor: Option<&str>) -> String {
    #[derive(Serialize)]
    struct Item<'a> {
        id: &'a CounterId,
    }
    #[derive(Serialize)]
    struct ListView<'a> {
        counters: Vec<Item<'a>>,
        cursor: Option<&'a str>,
    }
    let counters = counters.iter().map(|id| Item { id }).collect();
    to_json(&ListView { counters, cursor })
}

/// The JSON of `GET /counters/{prefix}*/aggregate`.
pub fn aggregate_json(
    prefix: &str,
    sums: &BTreeMap<CounterId, GlobalSum>,
    freshness: Freshness,
    strings: bool,
) -> String {
    let told: Vec<Told<'_>> = sums
        .iter()
        .map(|(id, sum)| Told::new(id, sum, freshness))
        .collect();
    let value = told
        .iter()
        .fold(Value::default(), |sum, one| sum.plus(one.value()));
    #[derive(Serialize)]
    struct AggregateView<'a> {
        prefix: &'a str,
        counters: u64,
        value: Exact,
        exact: bool,
        as_of: i64,
        staleness_ms: i64,
    }
    to_json(&AggregateView {
        prefix,
        counters: u64::try_from(told.len()).unwrap_or(u64::MAX),
        value: Exact::new(value, strings),
        exact: told.iter().all(Told::is_exact),
        as_of: freshness.as_of_ms,
        staleness_ms: freshness.staleness_ms(),
    })
}

/// None of the types above can fail to be written; an empty object would only show in a test.
fn to_json<T: Serialize>(view: &T) -> String {
    serde_json::to_string(view).unwrap_or_else(|_| "{}".to_owned())
}
