//! Measurements of alerts, made as by a reader; and the lists of all partitions' alerts.
//!
//! Invariant: partitions and datacenters that did not answer are named, and the bound of the measured value tells the
//! effect of the missing part: see [`Bound`]. In a digest, a number in which something is missing is a lower bound.

use futures_util::future::LocalBoxFuture;

use super::read::read_view;
use super::read_options::ReadOptions;
use tally_api::public::{Freshness, SummedCounter};
use tally_api::query::Window;
use tally_core::alert::condition::{Bound, Measure, Reading};
use tally_core::alert::digest::DIGEST_TOP;
use tally_core::alert::samples::RateSamples;
use tally_core::cluster::top_order::{OrderBy, TopOrder, WindowStart};
use tally_core::counter::id::CounterId;
use tally_core::counter::total::{Sum, Value};
use tally_core::order::in_order;
use tally_host::Host;
use tally_shared::concurrency::all_settled;
use tally_shared::partitions::ask_some;
use tally_wire::alerts::{Alert, CountDigest, DELIVERIES_MAX, DigestCount, Watched};
use tally_wire::messages::{
    AlertDetails, AllAlerts, AllDeliveries, AskTop, DeliveriesListed, Fault, GlobalSum, ListAlerts,
    ListDeliveries, Read, ReadParts, Top,
};
use tally_wire::names::{DIRECTORY_PARTITIONS, VerdictKind, verdicts};

/// The time over which a rate is measured, milliseconds. For a single counter leads are asked, so a minute is enough.
/// The counters of a prefix push their totals once a minute.
const RATE_MS: i64 = 60_000;
const PREFIX_RATE_MS: i64 = 300_000;

/// The missing part of a total that fell.
const ENDED: &str = "counters have ended, with what they counted";

/// A measured amount.
enum Amount {
    /// The number.
    Number(i64),
    /// There is nothing to measure.
    Nothing,
    /// A running total, whose change is the number.
    Counted(u128),
}

/// A measurement, with its time and accuracy.
pub struct Measured {
    amount: Amount,
    as_of_ms: Option<i64>,
    is_exact: bool,
    /// Names of partitions and datacenters that did not answer.
    missing: Vec<String>,
}

impl Measured {
    /// The reading that the alert is judged by. `samples` are earlier running totals.
    pub fn reading(self, alert: &Alert, samples: &mut RateSamples, now_ms: i64) -> Reading {
        let measure = alert.condition.measure;
        let mut missing = match self.missing.as_slice() {
            [] => String::new(),
            names => format!("no answer of {}", names.join(", ")),
        };
        let mut bound = match measure {
            _ if missing.is_empty() => Bound::Whole,
            Measure::Silence => Bound::AtMost,
            Measure::Value | Measure::AllowedPercentIn(_) | Measure::Digest(_) => Bound::Unknown,
            // Former totals may have been of more datacenters.
            Measure::RatePerMinute => Bound::Unknown,
            Measure::CountIn(_) | Measure::UniquesIn(_) | Measure::RefusedIn(_) => Bound::AtLeast,
        };
        let value = match self.amount {
            Amount::Number(number) => Some(number),
            Amount::Nothing => None,
            // A part of a running total is not a sample of it.
            Amount::Counted(_) if !missing.is_empty() => {
                bound = Bound::Unknown;
                None
            }
            Amount::Counted(counted) if measure == Measure::Silence => {
                let (seconds, has_fallen) = samples.silent_seconds(now_ms, counted);
                if has_fallen {
                    (bound, missing) = (Bound::AtMost, ENDED.to_owned());
                }
                Some(seconds)
            }
            Amount::Counted(counted) => {
                let (span_ms, many) = match alert.watched {
                    Watched::Prefix(_) => (PREFIX_RATE_MS, true),
                    Watched::Counter(_) | Watched::Policy(_) => (RATE_MS, false),
                };
                samples.record(now_ms, counted, many);
                let rate = samples.rate_per_minute(span_ms);
                if rate.is_none() {
                    bound = Bound::Unknown;
                    missing = format!("a rate is known after {} s", span_ms / 1_000);
                } else if samples.has_fallen() {
                    (bound, missing) = (Bound::AtLeast, ENDED.to_owned());
                }
                rate
            }
        };
        Reading {
            value,
            bound,
            as_of_ms: self.as_of_ms,
            is_exact: self.is_exact,
            missing,
        }
    }
}

/// When a measurement began, unix milliseconds, and the last second of its window, unix seconds.
#[derive(Clone, Copy)]
pub struct MeasureTime {
    /// When it began.
    pub begun_ms: i64,
    /// The last second of its window.
    pub window_end: i64,
}

impl MeasureTime {
    fn window(self, measure: Measure) -> Option<Window> {
        let seconds = measure.window_seconds()?;
        Some(Window {
            seconds: u64::try_from(seconds).unwrap_or_default(),
            at: self.window_end,
            now: self.begun_ms.div_euclid(1_000),
        })
    }

    /// The moment that its number is of, unix milliseconds.
    fn as_of_ms(self, measure: Measure) -> i64 {
        match measure.window_seconds() {
            Some(_) => (self.window_end + 1) * 1_000,
            None => self.begun_ms,
        }
    }
}

/// Measures the subject of an alert.
///
/// # Errors
/// `Unavailable` where a root does not answer.
pub fn measure_alert<'a>(
    host: &'a Host,
    alert: &'a Alert,
    time: MeasureTime,
) -> LocalBoxFuture<'a, Result<Measured, Fault>> {
    Box::pin(async move {
        let measure = alert.condition.measure;
        match &alert.watched {
            Watched::Counter(counter) => {
                let sums = [read(host, counter, measure, time).await?];
                Ok(of_counters(&sums, measure, time))
            }
            Watched::Policy(policy) => {
                let kinds: &[VerdictKind] = match measure {
                    Measure::RefusedIn(_) => &[VerdictKind::Refused],
                    _ => &[VerdictKind::Allowed, VerdictKind::Refused],
                };
                let mut sums = Vec::new();
                for kind in kinds {
                    let counter = verdicts(policy, *kind)
                        .ok_or_else(|| Fault::Broken("no such policy".to_owned()))?;
                    sums.push(read(host, &counter, measure, time).await?);
                }
                Ok(of_counters(&sums, measure, time))
            }
            Watched::Prefix(prefix) => of_prefix(host, prefix, measure, time.begun_ms).await,
        }
    })
}

/// A counter and its sum; `None` where there is no such counter.
type Summed = (CounterId, Option<GlobalSum>);

/// Reads a counter as for an alert: leads need not push changes for it.
async fn read(
    host: &Host,
    counter: &CounterId,
    measure: Measure,
    time: MeasureTime,
) -> Result<Summed, Fault> {
    let window = time.window(measure);
    let wanted = ReadParts {
        totals_only: !matches!(measure, Measure::UniquesIn(_)),
        is_passing: true,
        ..Window::wanted(window)
    };
    let request = Read {
        counter: counter.clone(),
        datacenter: None,
        wanted,
    };
    let sum = read_view(host, Ok(request), ReadOptions::default()).await?;
    Ok((counter.clone(), sum))
}

/// The measure over several counters together. One that does not exist has counted nothing.
fn of_counters(sums: &[Summed], measure: Measure, time: MeasureTime) -> Measured {
    let freshness = Freshness {
        as_of_ms: time.begun_ms,
        now_ms: time.begun_ms,
        fresh: true,
    };
    let counters: Vec<SummedCounter<'_>> = sums
        .iter()
        .filter_map(|(id, sum)| Some(SummedCounter::new(id, sum.as_ref()?, freshness)))
        .collect();
    let there = || sums.iter().filter_map(|(_, sum)| sum.as_ref());
    let missing = there().flat_map(|sum| {
        let parts = sum.datacenters.iter();
        let silent = parts.filter(|(datacenter, part)| !sum.is_reported(datacenter, part.as_ref()));
        silent.map(|(datacenter, _)| datacenter.as_str().to_owned())
    });
    let mut missing: Vec<String> = missing.collect();
    missing.dedup();
    let in_window =
        |counter: &SummedCounter<'_>| i64::try_from(counter.window_count()).unwrap_or(i64::MAX);
    let mut is_clamped = false;
    let amount = match measure {
        Measure::Value | Measure::Digest(_) => {
            let values = counters.iter().map(SummedCounter::value);
            let value = values.fold(Value::default(), Value::plus);
            is_clamped = value.is_beyond_62_bits();
            Amount::Number(value.within_62_bits())
        }
        Measure::RatePerMinute => {
            let counted = there().map(GlobalSum::added);
            Amount::Counted(counted.fold(0, u128::saturating_add))
        }
        Measure::CountIn(_) | Measure::RefusedIn(_) => {
            let counted = counters.iter().map(in_window);
            Amount::Number(counted.fold(0, i64::saturating_add))
        }
        Measure::UniquesIn(_) => {
            let window = time.window(measure);
            let estimate = counters.first().and_then(|counter| counter.uniques(window));
            let estimate = estimate.map_or(0, |estimate| estimate.estimate);
            Amount::Number(i64::try_from(estimate).unwrap_or(i64::MAX))
        }
        Measure::AllowedPercentIn(_) => {
            let allowed = match sums.first() {
                Some((_, Some(_))) => counters.first().map_or(0, in_window),
                _ => 0,
            };
            let all = counters.iter().map(in_window).fold(0, i64::saturating_add);
            match all {
                0 => Amount::Nothing,
                _ => Amount::Number(percent(allowed, all)),
            }
        }
        Measure::Silence => match there().map(last_write_ms).max() {
            Some(last_ms) if last_ms > i64::MIN => {
                Amount::Number(time.begun_ms.saturating_sub(last_ms).max(0) / 1_000)
            }
            // Nothing was ever written; the time since then is unknown, so it counts from the first measurement.
            _ => Amount::Counted(0),
        },
    };
    Measured {
        amount,
        as_of_ms: Some(time.as_of_ms(measure)).filter(|_| missing.is_empty()),
        is_exact: counters.iter().all(SummedCounter::is_exact)
            && !is_clamped
            && !matches!(measure, Measure::UniquesIn(_)),
        missing,
    }
}

fn percent(part: i64, all: i64) -> i64 {
    let percent = i128::from(part) * 100 / i128::from(all.max(1));
    i64::try_from(percent).unwrap_or(100)
}

fn last_write_ms(sum: &GlobalSum) -> i64 {
    let times_ms = sum.parts().map(|part| part.facts.last_write_ms);
    times_ms.max().unwrap_or(i64::MIN)
}

/// The measure over all counters of a prefix, from the pushes that partitions have stored.
async fn of_prefix(
    host: &Host,
    prefix: &str,
    measure: Measure,
    begun_ms: i64,
) -> Result<Measured, Fault> {
    let hour = begun_ms.div_euclid(3_600_000);
    let (by, since) = match measure {
        Measure::Value => (OrderBy::Value, None),
        Measure::CountIn(seconds) => {
            let hours = i64::from(seconds).div_euclid(3_600);
            (OrderBy::Count, Some(WindowStart::Hour(hour - hours)))
        }
        _ => (OrderBy::Count, None),
    };
    let request = AskTop {
        order: TopOrder::new(prefix, by, since),
        limit: 0,
        counter: None,
        range: None,
    };
    let top = super::top::top(host, Ok(request)).await?;
    let total = top.sums.total;
    let missing = top.missing_partitions.iter();
    let missing = missing.map(|partition| format!("partition {partition} of the directory"));
    Ok(Measured {
        amount: match measure {
            Measure::Value | Measure::CountIn(_) => Amount::Number(total.within_62_bits()),
            _ => Amount::Counted(total.not_negative().map_or(0, Sum::low_bits)),
        },
        as_of_ms: top.sums.as_of_ms.or(Some(begun_ms)),
        is_exact: false,
        missing: missing.collect(),
    })
}

/// The counters that are read at once.
const COUNTERS_AT_ONCE: usize = 4;

/// Seconds: the first, and the last.
type Range = (i64, i64);

/// What is read, and what did not answer.
struct DigestReader<'a> {
    host: &'a Host,
    now: i64,
    missing: Vec<String>,
    is_exact: bool,
}

impl DigestReader<'_> {
    /// What a counter counted; 0 where there is none.
    async fn counted(&mut self, counter: &CounterId, range: Range) -> Result<i64, Fault> {
        let (count, missing) = counted(self.host, counter, range, self.now).await?;
        self.missing.extend(missing);
        Ok(count)
    }

    /// What a counter counted in both times.
    async fn both(
        &mut self,
        counter: &CounterId,
        ranges: [Range; 2],
    ) -> Result<DigestCount, Fault> {
        let count = self.counted(counter, ranges[0]).await?;
        let before = self.counted(counter, ranges[1]).await?;
        Ok(DigestCount { count, before })
    }

    /// The counters of a prefix that counted most.
    async fn top(&mut self, prefix: &str, range: Range) -> Result<Top, Fault> {
        let since = WindowStart::reaching(range.0, self.now);
        let request = AskTop {
            order: TopOrder::new(prefix, OrderBy::Count, Some(since)),
            limit: DIGEST_TOP,
            counter: None,
            range: Some(range),
        };
        let top = super::top::top(self.host, Ok(request)).await?;
        let missing = top.missing_partitions.iter();
        let missing = missing.map(|partition| format!("partition {partition} of the directory"));
        self.missing.extend(missing);
        self.is_exact &= top.omitted.is_none();
        Ok(top)
    }

    /// Adds what a counter counted before, by itself: it may not have been among the first then.
    async fn with_before(
        &mut self,
        top: Top,
        range: Range,
    ) -> Result<Vec<(String, DigestCount)>, Fault> {
        let (host, now) = (self.host, self.now);
        let read = |(index, counter): (usize, CounterId)| async move {
            (
                index,
                counter.clone(),
                counted(host, &counter, range, now).await,
            )
        };
        let counters = top.rows.iter().map(|row| row.counter.clone());
        let mut read = all_settled(counters.enumerate().map(read), COUNTERS_AT_ONCE).await;
        read.sort_unstable_by_key(|(index, ..)| *index);
        let mut rows = Vec::new();
        for (row, (_, counter, before)) in top.rows.into_iter().zip(read) {
            let (before, missing) = before?;
            self.missing.extend(missing);
            let count = row.amount.within_62_bits();
            rows.push((counter.as_str().to_owned(), DigestCount { count, before }));
        }
        Ok(rows)
    }
}

/// What a counter counted, and the datacenters that did not answer.
async fn counted(
    host: &Host,
    counter: &CounterId,
    (first, last): Range,
    now: i64,
) -> Result<(i64, Vec<String>), Fault> {
    let window = Window {
        seconds: u64::try_from(last - first + 1).unwrap_or(1),
        at: last,
        now,
    };
    let request = Read {
        counter: counter.clone(),
        datacenter: None,
        wanted: ReadParts {
            totals_only: true,
            is_passing: true,
            ..Window::wanted(Some(window))
        },
    };
    let sum = read_view(host, Ok(request), ReadOptions::default()).await?;
    let Some(sum) = sum else {
        return Ok((0, Vec::new()));
    };
    let parts = sum.datacenters.iter();
    let silent = parts.filter(|(datacenter, part)| !sum.is_reported(datacenter, part.as_ref()));
    let silent = silent.map(|(datacenter, _)| datacenter.as_str().to_owned());
    let count = sum
        .parts()
        .map(|part| part.window.count)
        .fold(0, u128::saturating_add);
    Ok((i64::try_from(count).unwrap_or(i64::MAX), silent.collect()))
}

/// What was counted in a day or a week, its beginning and its end in unix milliseconds, and in the one before.
///
/// # Errors
/// `Unavailable` where a root does not answer.
pub fn measure_digest<'a>(
    host: &'a Host,
    watched: &'a Watched,
    period_ms: (i64, i64),
) -> LocalBoxFuture<'a, Result<(CountDigest, Reading), Fault>> {
    Box::pin(measure_both(host, watched, period_ms))
}

async fn measure_both(
    host: &Host,
    watched: &Watched,
    (from_ms, to_ms): (i64, i64),
) -> Result<(CountDigest, Reading), Fault> {
    let (from, to) = (from_ms.div_euclid(1_000), to_ms.div_euclid(1_000));
    let ranges = [(from, to - 1), (from - (to - from), from - 1)];
    let mut reader = DigestReader {
        host,
        now: host.now_ms().div_euclid(1_000),
        missing: Vec::new(),
        is_exact: true,
    };
    let mut digest = CountDigest {
        from_ms,
        to_ms,
        ..CountDigest::default()
    };
    match watched {
        Watched::Counter(counter) => digest.all = reader.both(counter, ranges).await?,
        Watched::Policy(policy) => {
            let counter = |kind| {
                let known = verdicts(policy, kind);
                known.ok_or_else(|| Fault::Broken("no such policy".to_owned()))
            };
            let allowed = reader.both(&counter(VerdictKind::Allowed)?, ranges).await?;
            let refused = reader.both(&counter(VerdictKind::Refused)?, ranges).await?;
            digest.all = DigestCount {
                count: allowed.count.saturating_add(refused.count),
                before: allowed.before.saturating_add(refused.before),
            };
            digest.refused = Some(refused);
        }
        Watched::Prefix(prefix) => {
            let top = reader.top(prefix, ranges[0]).await?;
            let before = reader.top(prefix, ranges[1]).await?;
            digest.all = DigestCount {
                count: top.sums.total.within_62_bits(),
                before: before.sums.total.within_62_bits(),
            };
            digest.top = reader.with_before(top, ranges[1]).await?;
        }
    }
    let DigestReader {
        mut missing,
        is_exact,
        ..
    } = reader;
    missing.sort_unstable();
    missing.dedup();
    let reading = Reading {
        value: Some(digest.all.count),
        bound: if missing.is_empty() {
            Bound::Whole
        } else {
            Bound::AtLeast
        },
        as_of_ms: Some(to_ms),
        is_exact: is_exact && missing.is_empty(),
        missing: match missing.as_slice() {
            [] => String::new(),
            names => format!("no answer of {}", names.join(", ")),
        },
    };
    Ok((digest, reading))
}

/// The alerts of all partitions, in order of their names, and the partitions that did not answer.
pub(super) async fn all(
    host: &Host,
    request: Result<AllAlerts, Fault>,
) -> Result<(Vec<AlertDetails>, Vec<u32>), Fault> {
    let AllAlerts {} = request?;
    let (answered, missing) = ask_some(host, 0..DIRECTORY_PARTITIONS, |partition| ListAlerts {
        partition,
    })
    .await
    .by_any()?;
    let alerts = answered.into_iter().flat_map(|(_, alerts)| alerts);
    let alerts = in_order(alerts.collect(), |one: &AlertDetails, other| {
        one.name.cmp(&other.name)
    });
    Ok((alerts, missing))
}

/// The last deliveries of all partitions that a caller may see, newest first, and the partitions that did not answer.
pub(super) async fn all_deliveries(
    host: &Host,
    request: Result<AllDeliveries, Fault>,
) -> Result<DeliveriesListed, Fault> {
    let AllDeliveries { of } = request?;
    let (answered, missing) = ask_some(host, 0..DIRECTORY_PARTITIONS, |partition| ListDeliveries {
        partition,
        of: of.clone(),
    })
    .await
    .by_any()?;
    let all = answered.into_iter().flat_map(|(_, deliveries)| deliveries);
    let mut all = in_order(all.collect(), |(one, _), (other, _)| {
        other.created_ms.cmp(&one.created_ms)
    });
    all.truncate(DELIVERIES_MAX);
    Ok((all, missing))
}
