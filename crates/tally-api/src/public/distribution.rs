//! The distribution of a counter's samples, in answers.

use serde::Serialize;

use super::counter_view::{SummedCounter, Truth, step_name};
use crate::fields::{CountValue, Exactness, Moment, Staleness, end_of, moment_of};
use crate::json::to_json;
use crate::number::Exact;
use crate::query::SamplesWindow;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{Part, Range};
use tally_core::counter::samples::samples_at;
use tally_core::counter::total::Value;
use tally_core::sketch::{Histogram, MAX_RELATIVE_ERROR};

#[derive(Serialize)]
struct SampledSpanView {
    /// As in the request.
    seconds: u64,
    /// Where the minute of the first second begins, or its hour if that was a day ago.
    starts_at: Moment,
    /// Where the last minute or hour ends, or this second.
    ends_at: Moment,
}

#[derive(Serialize)]
struct DatacenterSamplesView<'a> {
    id: &'a Datacenter,
    count: CountValue,
    /// Whether it reported all its samples.
    reachable: bool,
}

#[derive(Serialize)]
struct DistributionView<'a> {
    id: &'a CounterId,
    window: SampledSpanView,
    count: CountValue,
    /// The least sample.
    min: Option<f64>,
    /// The greatest sample.
    max: Option<f64>,
    mean: Option<f64>,
    /// The sample that 50 % do not exceed.
    p50: Option<f64>,
    /// The sample that 90 % do not exceed.
    p90: Option<f64>,
    /// The sample that 99 % do not exceed.
    p99: Option<f64>,
    /// The sample that 99.9 % do not exceed.
    p999: Option<f64>,
    /// How far a percentile may be off, relative to the sample that it estimates: 1/128.
    max_relative_error: f64,
    exact: Exactness,
    as_of: Moment,
    staleness_ms: Staleness,
    datacenters: Vec<DatacenterSamplesView<'a>>,
}

impl SummedCounter<'_> {
    /// The JSON of `GET /counters/{id}/distribution`. The answer names the window that was counted: whole minutes, or
    /// hours.
    pub fn distribution_json(&self, window: SamplesWindow, strings: bool) -> String {
        let samples = samples_at(&self.total.samples, 0);
        let exact = |count: u64| Exact::new(Value::new(u128::from(count), 0), strings);
        let (from, to) = window.whole;
        let view = |(datacenter, part): &'_ (Datacenter, Option<Part>)| {
            let own = part.as_ref();
            let own = own.map(|part| samples_at(&part.samples, 0));
            (
                own.map_or(0, |own| own.count()),
                self.sum.is_reported(datacenter, part.as_ref()),
            )
        };
        let datacenters = self.sum.datacenters.iter().map(|one| {
            let (count, reachable) = view(one);
            DatacenterSamplesView {
                id: &one.0,
                count: exact(count),
                reachable,
            }
        });
        to_json(&DistributionView {
            id: self.id,
            window: SampledSpanView {
                seconds: window.seconds,
                starts_at: moment_of(from),
                ends_at: end_of(to.min(window.now)),
            },
            count: exact(samples.count()),
            min: samples.min(),
            max: samples.max(),
            mean: samples.mean(),
            p50: samples.quantile_per_mille(500),
            p90: samples.quantile_per_mille(900),
            p99: samples.quantile_per_mille(990),
            p999: samples.quantile_per_mille(999),
            max_relative_error: MAX_RELATIVE_ERROR,
            exact: self.is_exact(),
            as_of: self.as_of_ms(),
            staleness_ms: self.staleness_ms(),
            datacenters: datacenters.collect(),
        })
    }
}

/// The samples of one step.
#[derive(Serialize)]
pub struct SampledStep {
    starts_at: Moment,
    /// `null` before `kept_from_at`.
    count: Option<CountValue>,
    mean: Option<f64>,
    /// The sample that 50 % do not exceed.
    p50: Option<f64>,
    /// The sample that 95 % do not exceed.
    p95: Option<f64>,
    /// The sample that 99 % do not exceed.
    p99: Option<f64>,
}

impl SummedCounter<'_> {
    /// Adds the samples of each step of a range that was read by steps.
    pub fn add_sampled_steps(
        &self,
        points: &mut Vec<SampledStep>,
        range: Range,
        (kept_from, strings): (i64, bool),
    ) {
        let width = range.step.seconds();
        points.extend((0..=(range.to - range.from) / width).map(|step| {
            let at = range.from + step * width;
            let samples = match at >= kept_from {
                true => samples_at(&self.total.samples, at),
                false => Histogram::new(),
            };
            let count = || Exact::new(Value::new(u128::from(samples.count()), 0), strings);
            SampledStep {
                starts_at: moment_of(at),
                count: (at >= kept_from).then(count),
                mean: samples.mean(),
                p50: samples.quantile_per_mille(500),
                p95: samples.quantile_per_mille(950),
                p99: samples.quantile_per_mille(990),
            }
        }));
    }

    /// The JSON of `GET /counters/{id}/distribution?step=`.
    pub fn series_json(
        id: &CounterId,
        (range, kept_from): (Range, i64),
        points: &[SampledStep],
        truth: Truth,
    ) -> String {
        #[derive(Serialize)]
        struct DistributionSeriesView<'a> {
            id: &'a CounterId,
            step: &'static str,
            /// From when on steps are complete.
            kept_from_at: Moment,
            /// How far a percentile may be off, relative to the sample that it estimates: 1/128.
            max_relative_error: f64,
            exact: Exactness,
            as_of: Moment,
            staleness_ms: Staleness,
            points: &'a [SampledStep],
        }
        to_json(&DistributionSeriesView {
            id,
            step: step_name(range),
            kept_from_at: moment_of(kept_from),
            max_relative_error: MAX_RELATIVE_ERROR,
            exact: truth.exact,
            as_of: truth.as_of_ms,
            staleness_ms: truth.staleness_ms,
            points,
        })
    }
}
