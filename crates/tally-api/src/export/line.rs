//! Lines of an export, as an import reads them: a line is read whole, or refused.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::bodies::parse_settings;
use crate::delta::{parse_sum, parse_value};
use crate::fields::moment_of;
use crate::json::{SentMoment, WholeNumber, read_object};
use tally_core::cluster::root::DATACENTERS_MAX;
use tally_core::counter::breakdown::DIMENSIONS_MAX;
use tally_core::counter::contents::{Contents, Points};
use tally_core::counter::dimensions::{DIMENSION_VALUE_BYTES_MAX, DimensionName};
use tally_core::counter::history::{DAYS_KEPT, HOURS_KEPT, Resolution};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::total::{Sum, Value};
use tally_core::order::map_of;
use tally_core::sketch::{Histogram, Hll, TopValues, Uniques, VALUES_MAX, ValueCount};
use tally_wire::messages::Put;
use tally_wire::problem::{Code, Problem};

/// How far the clocks of two deployments may be apart, milliseconds. Later times cannot be times of this counter.
const AHEAD_MS_MAX: i64 = 3_600_000;

/// Minutes of a day.
const MINUTES_MAX: usize = 1_440;

/// A counter to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterLine {
    /// Its id.
    pub id: CounterId,
    /// Its settings.
    pub settings: Put,
    /// When its fixed time to live was set, unix milliseconds, where the line has it.
    pub ttl_set_at_ms: Option<i64>,
    /// When it was created, where the line has it.
    pub created_at_ms: Option<i64>,
    /// The value of its last set, if there was one.
    pub base: Option<Value>,
    /// What each datacenter holds.
    pub datacenters: Vec<(Datacenter, Contents)>,
    /// Unique elements that belong to no datacenter.
    pub uniques: Uniques,
}

/// The content of the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEnd {
    /// Counters in the file.
    pub counters: u64,
    /// The sum of its bytes before this line.
    pub checksum: Option<String>,
    /// Whether the export was complete.
    pub is_whole: bool,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A counter.
    Counter(Box<CounterLine>),
    /// A policy: its name, and its body.
    Policy(String, String),
    /// An override: its policy, its pattern, and its body.
    Override(String, String, String),
    /// An alert: its name, and its body.
    Alert(String, String),
    /// A board: its id, and the body of its settings.
    Board(CounterId, String),
    /// A member of a board: the board's id, and its line.
    Member(CounterId, String),
    /// The last line.
    End(ExportEnd),
}

fn refuse<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidLine, detail))
}

#[derive(Deserialize)]
struct KindWire<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    r#override: Option<String>,
    #[serde(default)]
    alert: Option<String>,
    #[serde(default)]
    board: Option<String>,
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
    #[serde(borrow, default)]
    settings: Option<&'a RawValue>,
    #[serde(borrow, default)]
    member: Option<&'a RawValue>,
    #[serde(default)]
    end: Option<bool>,
    #[serde(default)]
    counters: Option<WholeNumber>,
    #[serde(default)]
    checksum: Option<String>,
    #[serde(default)]
    complete: Option<bool>,
}

/// The name in a refused line, as far as it can be read, and whether the line is that of a counter.
pub fn name_of(bytes: &[u8]) -> (Option<String>, bool) {
    let Ok(kind) = read_object::<KindWire<'_>>(bytes) else {
        return (None, false);
    };
    let id = kind.id.map(RawValue::get);
    let name = id.and_then(|text| serde_json::from_str::<String>(text).ok());
    let name = name.or(kind.policy).or(kind.alert).or(kind.board);
    (name, id.is_some())
}

/// Refuses a line with a field of another name.
fn only(bytes: &[u8], fields: &[&str]) -> Result<(), Problem> {
    let line: BTreeMap<String, IgnoredAny> = read_object(bytes)?;
    match line.keys().find(|name| !fields.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Problem::new(
            Code::UnknownField,
            format!("unknown field {name:?}, expected one of {fields:?}"),
        )),
    }
}

/// Reads a line; `now_ms` decides whether the counter has expired.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-line`, `invalid-id`.
pub fn parse_line(bytes: &[u8], now_ms: i64) -> Result<Line, Problem> {
    let kind: KindWire<'_> = read_object(bytes)?;
    if kind.id.is_some() {
        return Ok(Line::Counter(Box::new(counter_of(bytes, now_ms)?)));
    }
    let body = || kind.body.map_or("{}", RawValue::get).to_owned();
    if let (Some(policy), Some(pattern)) = (&kind.policy, kind.r#override) {
        only(bytes, &["policy", "override", "body"])?;
        return Ok(Line::Override(policy.clone(), pattern, body()));
    }
    if let Some(policy) = kind.policy {
        only(bytes, &["policy", "body"])?;
        return Ok(Line::Policy(policy, body()));
    }
    if let Some(alert) = kind.alert {
        only(bytes, &["alert", "body"])?;
        return Ok(Line::Alert(alert, body()));
    }
    if let Some(board) = kind.board {
        let board = CounterId::parse(board)?;
        let settings = kind.settings.map(RawValue::get).unwrap_or("{}");
        return match (kind.member, std::str::from_utf8(bytes)) {
            (Some(_), Ok(line)) => Ok(Line::Member(board, line.to_owned())),
            _ => {
                only(bytes, &["board", "settings"])?;
                Ok(Line::Board(board, settings.to_owned()))
            }
        };
    }
    if kind.end.is_some() {
        return Ok(Line::End(ExportEnd {
            counters: kind.counters.map_or(0, |WholeNumber(count)| count),
            checksum: kind.checksum,
            is_whole: kind.complete.unwrap_or(true),
        }));
    }
    refuse("a line has an `id`, a `policy`, an `alert`, a `board` or an `end`")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BreakdownWire {
    #[serde(default)]
    values: Vec<(String, Amount, Amount)>,
    #[serde(default)]
    rest: Amount,
    #[serde(default)]
    absent_max: Amount,
}

/// An amount, as a number or as a decimal string.
#[derive(Clone, Copy, Debug, Default)]
struct Amount(u128);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let amount = parse_value(text).and_then(Value::not_negative);
        amount.map(|amount| Self(amount.low_bits())).ok_or_else(|| {
            D::Error::custom(
                "an amount is a whole number from 0 to 2^128 - 1, or its decimal string",
            )
        })
    }
}

/// Buckets of a line.
type Buckets = Vec<(SentMoment, Amount)>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatacenterWire<'a> {
    id: String,
    #[serde(borrow, default)]
    added: Option<&'a RawValue>,
    #[serde(borrow, default)]
    removed: Option<&'a RawValue>,
    #[serde(default)]
    updated_at: Option<SentMoment>,
    #[serde(default)]
    minutes: Buckets,
    #[serde(default)]
    hours: Buckets,
    #[serde(default)]
    hours_kept_from_at: Option<SentMoment>,
    #[serde(default)]
    days: Buckets,
    #[serde(default)]
    days_kept_from_at: Option<SentMoment>,
    #[serde(default)]
    uniques: Option<String>,
    #[serde(default)]
    samples: Vec<(SentMoment, String)>,
    #[serde(default)]
    breakdowns: BTreeMap<String, BreakdownWire>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CounterWire<'a> {
    id: String,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    base: Option<&'a RawValue>,
    #[serde(default)]
    created_at: Option<SentMoment>,
    #[serde(borrow, default)]
    settings: Option<&'a RawValue>,
    #[serde(default)]
    ttl_set_at: Option<SentMoment>,
    /// A field of exports that imports ignore.
    #[serde(default, rename = "exact")]
    _exact: Option<bool>,
    #[serde(default, rename = "unreachable")]
    _unreachable: Vec<String>,
    #[serde(borrow, default)]
    datacenters: Option<Vec<DatacenterWire<'a>>>,
    #[serde(default)]
    uniques: Option<String>,
    #[serde(default)]
    hll: Option<String>,
}

fn value(name: &str, text: &str) -> Result<Value, Problem> {
    match parse_sum(text) {
        Some(value) => Ok(value),
        None => refuse(format!(
            "{name} must be a whole number, or its decimal string"
        )),
    }
}

fn amount(name: &str, text: Option<&RawValue>) -> Result<Sum, Problem> {
    let Some(text) = text else {
        return Ok(Sum::ZERO);
    };
    let value = value(name, text.get())?;
    match value.not_negative() {
        Some(sum) => Ok(sum),
        None => refuse(format!("{name} must not be negative")),
    }
}

fn bytes_of(name: &str, text: &str) -> Result<Vec<u8>, Problem> {
    match BASE64_STANDARD.decode(text) {
        Ok(bytes) => Ok(bytes),
        Err(_) => refuse(format!("{name} must be base64")),
    }
}

fn uniques_of(text: Option<&str>) -> Result<Uniques, Problem> {
    let Some(text) = text else {
        return Ok(Uniques::new());
    };
    let bytes = bytes_of("uniques", text)?;
    Uniques::from_bytes(&bytes).or_else(|error| refuse(format!("uniques: {error}")))
}

/// Whether a time is in the future, unix milliseconds.
fn is_ahead(at_ms: i64, now_ms: i64) -> bool {
    at_ms > now_ms.saturating_add(AHEAD_MS_MAX)
}

/// A time of a line, unix milliseconds. A future time becomes now.
fn no_later(SentMoment(at_ms): SentMoment, now_ms: i64) -> i64 {
    match is_ahead(at_ms, now_ms) {
        true => now_ms,
        false => at_ms,
    }
}

/// From when buckets are complete, unix seconds, limited as by [`no_later`]. If the line does not say it, they are
/// always complete.
fn kept_from(at: Option<SentMoment>, now_ms: i64) -> i64 {
    at.map_or(i64::MIN, |at| no_later(at, now_ms).div_euclid(1_000))
}

/// The bucket of a step that begins at a moment, as a unix second.
fn start_of(step: Resolution, SentMoment(at_ms): SentMoment, now_ms: i64) -> Option<i64> {
    let start = step.start_of(at_ms.div_euclid(1_000));
    (moment_of(start) == at_ms && !is_ahead(at_ms, now_ms)).then_some(start)
}

/// Checks that buckets are in order, each at the beginning of its interval.
fn points(
    name: &str,
    step: Resolution,
    (buckets, now_ms): (Buckets, i64),
    points_max: usize,
) -> Result<Points, Problem> {
    let named = buckets.len();
    let starts = buckets.into_iter();
    let points: Points = starts
        .filter_map(|(at, Amount(amount))| Some((start_of(step, at, now_ms)?, amount)))
        .collect();
    let is_ordered = points.windows(2).all(|pair| match pair {
        [one, other] => one.0 < other.0,
        _ => true,
    });
    if points.len() < named || !is_ordered || named > points_max {
        return refuse(format!(
            "{name} must be at most {points_max} pairs, ascending: the unix milliseconds at which one begins, not later than now, and an amount"
        ));
    }
    Ok(points)
}

fn breakdown(name: String, wire: BreakdownWire) -> Result<(String, TopValues), Problem> {
    if DimensionName::parse(&name).is_err() {
        return refuse("a name of `breakdowns` is none of a dimension");
    }
    let is_value = |value: &str| {
        (1..=DIMENSION_VALUE_BYTES_MAX).contains(&value.len())
            && !value.chars().any(char::is_control)
    };
    if wire.values.len() > VALUES_MAX || !wire.values.iter().all(|(text, ..)| is_value(text)) {
        return refuse(format!(
            "a breakdown has at most {VALUES_MAX} values of 1 to {DIMENSION_VALUE_BYTES_MAX} bytes"
        ));
    }
    let named = wire.values.len();
    let values = wire.values.into_iter();
    let values =
        values.map(|(value, Amount(count), Amount(error))| (value, ValueCount { count, error }));
    let values = map_of(values);
    if values.len() < named {
        return refuse(format!("the breakdown {name:?} names a value twice"));
    }
    let values = TopValues::of(values, wire.rest.0, wire.absent_max.0);
    Ok((name, values))
}

/// Reads the breakdowns of what was added. After a set or a reset (`is_set`) they may hold more: they include what was
/// counted before it, which what was added no longer includes.
fn breakdowns(
    wires: BTreeMap<String, BreakdownWire>,
    added: Sum,
    is_set: bool,
) -> Result<Vec<(String, TopValues)>, Problem> {
    let mut breakdowns = Vec::new();
    for (name, wire) in wires {
        let (name, values) = breakdown(name, wire)?;
        if !is_set && Sum::from(values.sum()) > added {
            return refuse(format!(
                "the values and the `rest` of the breakdown {name:?} come to more than `added`"
            ));
        }
        breakdowns.push((name, values));
    }
    Ok(breakdowns)
}

fn datacenter(
    wire: DatacenterWire<'_>,
    is_set: bool,
    now_ms: i64,
) -> Result<(Datacenter, Contents), Problem> {
    let Some(id) = Datacenter::parse(&wire.id) else {
        return refuse("a datacenter's id has 1 to 16 letters, digits or `-`");
    };
    let mut samples = Vec::new();
    for (at, text) in wire.samples {
        let body = bytes_of("samples", &text)?;
        let hour = start_of(Resolution::Hour, at, now_ms);
        match hour.filter(|_| Histogram::from_bytes(&body).is_ok()) {
            Some(hour) => samples.push((hour, body)),
            None => {
                return refuse(
                    "samples must be pairs: the unix milliseconds of an hour, not later than now, and a histogram in base64",
                );
            }
        }
    }
    if wire.breakdowns.len() > DIMENSIONS_MAX || samples.len() > HOURS_KEPT + 48 {
        return refuse("a datacenter has too many breakdowns or samples");
    }
    let added = amount("added", wire.added)?;
    let contents = Contents {
        added,
        removed: amount("removed", wire.removed)?,
        last_write_ms: wire
            .updated_at
            .map_or(i64::MIN, |at_ms| no_later(at_ms, now_ms)),
        minutes: points(
            "minutes",
            Resolution::Minute,
            (wire.minutes, now_ms),
            MINUTES_MAX,
        )?,
        hours: points("hours", Resolution::Hour, (wire.hours, now_ms), HOURS_KEPT)?,
        days: points("days", Resolution::Day, (wire.days, now_ms), DAYS_KEPT)?,
        hours_from: kept_from(wire.hours_kept_from_at, now_ms),
        days_from: kept_from(wire.days_kept_from_at, now_ms),
        uniques: uniques_of(wire.uniques.as_deref())?,
        samples,
        breakdowns: breakdowns(wire.breakdowns, added, is_set)?,
    };
    Ok((id, contents))
}

/// The union of a counter's sketches and of a string of Redis's.
fn uniques_and_hll(sketches: Option<&str>, hll: Option<&str>) -> Result<Uniques, Problem> {
    let mut uniques = uniques_of(sketches)?;
    if let Some(text) = hll {
        let bytes = bytes_of("hll", text)?;
        match Hll::from_bytes(&bytes) {
            Ok(hll) => {
                uniques.merge(&Uniques::from_hll(&hll));
            }
            Err(fault) => return refuse(format!("hll: {fault}")),
        }
    }
    Ok(uniques)
}

fn counter_of(bytes: &[u8], now_ms: i64) -> Result<CounterLine, Problem> {
    let wire: CounterWire<'_> = read_object(bytes)?;
    let id = CounterId::parse(wire.id)?;
    let settings = wire.settings.map(RawValue::get).unwrap_or("{}");
    let settings = parse_settings(settings.as_bytes())?;
    let mut datacenters = Vec::new();
    let mut sum = Value::default();
    let (is_by_datacenter, is_set) = (wire.datacenters.is_some(), wire.base.is_some());
    for wire in wire.datacenters.unwrap_or_default() {
        let (datacenter, contents) = datacenter(wire, is_set, now_ms)?;
        if datacenters.iter().any(|(known, _)| *known == datacenter) {
            return refuse(format!("the datacenter {datacenter} is there twice"));
        }
        sum = sum.plus(Value::new(contents.added, contents.removed));
        datacenters.push((datacenter, contents));
    }
    if datacenters.len() > DATACENTERS_MAX {
        return refuse(format!(
            "a counter has at most {DATACENTERS_MAX} datacenters"
        ));
    }
    if settings.floor.is_some() && settings.home.is_none() && datacenters.len() > 1 {
        let detail = "a counter with a floor counts in one datacenter: name its `home` in `settings`; nothing was changed";
        return Err(Problem::new(Code::NeedsHome, detail));
    }
    let mut base = wire
        .base
        .map(|text| value("base", text.get()))
        .transpose()?;
    if let Some(text) = wire.value {
        let whole = value("value", text.get())?;
        if base.is_none() && !is_by_datacenter {
            base = Some(whole);
        }
        let computed = sum.plus(base.unwrap_or_default());
        if computed.to_string() != whole.to_string() {
            return refuse(format!(
                "value is {whole}, but base and datacenters make {computed}"
            ));
        }
    }
    let total = sum.plus(base.unwrap_or_default());
    if let Some(floor) = settings.floor.filter(|floor| total.is_below(*floor)) {
        let detail =
            format!("value is {total}, below the line's own floor {floor}; nothing was changed");
        return Err(Problem::new(Code::BelowFloor, detail));
    }
    let uniques = uniques_and_hll(wire.uniques.as_deref(), wire.hll.as_deref())?;
    let ttl_set_at_ms = wire.ttl_set_at.map(|at_ms| no_later(at_ms, now_ms));
    let is_over = settings
        .ttl
        .zip(ttl_set_at_ms)
        .is_some_and(|((seconds, _), at_ms)| {
            let length_ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            at_ms.saturating_add(length_ms) <= now_ms
        });
    if is_over {
        return refuse("its time to live is over");
    }
    Ok(CounterLine {
        id,
        settings,
        ttl_set_at_ms,
        created_at_ms: wire.created_at.map(|at_ms| no_later(at_ms, now_ms)),
        base,
        datacenters,
        uniques,
    })
}
