//! The distribution of a counter's samples, in answers.

use serde::Serialize;

use super::counter_view::SummedCounter;
use super::number::Exact;
use super::to_json;
use crate::messages::DatacenterSum;
use crate::query::SamplesWindow;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::samples::samples_from_rest;
use tally_core::counter::total::Value;
use tally_core::sketch::MAX_RELATIVE_ERROR;

#[derive(Serialize)]
struct SpanView {
    seconds: u64,
    from: i64,
    to: i64,
}

#[derive(Serialize)]
struct DatacenterSamplesView<'a> {
    id: &'a Datacenter,
    count: Exact,
    reachable: bool,
}

#[derive(Serialize)]
struct DistributionView<'a> {
    id: &'a CounterId,
    window: SpanView,
    count: Exact,
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max_relative_error: f64,
    exact: bool,
    as_of: i64,
    staleness_ms: i64,
    datacenters: Vec<DatacenterSamplesView<'a>>,
}

impl SummedCounter<'_> {
    /// The JSON of `GET /counters/{id}/distribution`. The answer names the window that was counted: whole minutes, or
    /// hours.
    pub fn distribution_json(&self, window: SamplesWindow, strings: bool) -> String {
        let samples = samples_from_rest(&self.total.samples);
        let exact = |count: u64| Exact::new(Value::new(u128::from(count), 0), strings);
        let (from, to) = window.whole;
        let view = |(datacenter, part): &'_ (Datacenter, Option<DatacenterSum>)| {
            let own = part
                .as_ref()
                .map(|part| samples_from_rest(&part.summary.samples));
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
            window: SpanView {
                seconds: window.seconds,
                from,
                to: to.min(window.now),
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
