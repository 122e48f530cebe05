//! The counters that are written most now, as JSON.

use serde::Serialize;

use crate::fields::Moment;
use crate::json::to_json;
use tally_core::cluster::hot::MilliRate;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_wire::fleet::Fleet;

/// Writes a second, to the thousandth.
fn per_second(rate: MilliRate) -> f64 {
    let whole = u32::try_from(rate / 1_000).unwrap_or(u32::MAX);
    let rest = u32::try_from(rate % 1_000).unwrap_or(0);
    f64::from(whole) + f64::from(rest) / 1_000.0
}

#[derive(Serialize)]
struct DatacenterRateView<'a> {
    datacenter: &'a Datacenter,
    rate_per_second: f64,
    shards: u8,
}

#[derive(Serialize)]
struct RowView<'a> {
    id: &'a CounterId,
    /// Writes a second, at least.
    rate_per_second: f64,
    /// How many more they may be.
    error_per_second: f64,
    /// Over how many cells they are spread, all datacenters together.
    shards: u64,
    datacenters: Vec<DatacenterRateView<'a>>,
}

#[derive(Serialize)]
struct HotView<'a> {
    exact: bool,
    /// When the newest report came.
    as_of: Moment,
    /// The most that is written a second of any counter that is not named.
    others_per_second_max: f64,
    /// Partitions of the directory that did not answer: what was reported there is missing.
    #[serde(skip_serializing_if = "<[u32]>::is_empty")]
    missing_partitions: &'a [u32],
    entries: Vec<RowView<'a>>,
    /// `null`: this list has one page.
    cursor: Option<&'a str>,
}

/// The counters that are written most, up to a limit, of those that `is_asked` for.
pub fn hot_json(fleet: &Fleet, limit: usize, is_asked: impl Fn(&CounterId) -> bool) -> String {
    let part = fleet.part();
    let hot = &part.hot;
    let hottest = hot.hottest(usize::MAX).into_iter();
    let hottest = hottest.filter(|(id, _)| is_asked(id)).take(limit);
    let rows = hottest.map(|(id, row)| RowView {
        id,
        rate_per_second: per_second(row.rate),
        error_per_second: per_second(hot.error(row)),
        shards: row
            .datacenters
            .values()
            .map(|own| u64::from(own.shards))
            .sum(),
        datacenters: (row.datacenters.iter())
            .map(|(datacenter, own)| DatacenterRateView {
                datacenter,
                rate_per_second: per_second(own.rate),
                shards: own.shards,
            })
            .collect(),
    });
    let age_ms = part.age_ms.and_then(|age_ms| i64::try_from(age_ms).ok());
    to_json(&HotView {
        exact: false,
        as_of: part.now_ms.saturating_sub(age_ms.unwrap_or(0)),
        others_per_second_max: per_second(hot.absent_max()),
        missing_partitions: fleet.missing(),
        entries: rows.collect(),
        cursor: None,
    })
}
