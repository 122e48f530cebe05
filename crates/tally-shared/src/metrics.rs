//! The metrics of this isolate: counted in all modules, read by `/metrics`.
//!
//! Everything in one isolate counts here: all requests of an edge isolate, or the aggregator and the objects that the
//! platform put into its isolate. An isolate that ends takes its counts with it, and Prometheus sees the next one begin
//! at 0. Where a process has several isolates of a Worker, `/metrics` shows their sum.

use tally_api::batch::report::BatchReport;
use tally_api::metrics::{Metric, Metrics};
use tally_api::routes::RouteName;
use tally_host::metrics::{ProcessMetrics, SharedMetrics};
use tally_host::{Host, State};
use tally_wire::fleet::{Fleet, Snapshot};
use tally_wire::problem::Code;

/// The metrics of an isolate.
struct Numbers(SharedMetrics);

impl State for Numbers {
    fn begin(host: &Host) -> Self {
        let metrics = SharedMetrics::new(host.now_ms().div_euclid(1_000));
        if let Some(all) = host.platform().metrics() {
            all.join(metrics.clone());
        }
        Self(metrics)
    }
}

fn with<T>(host: &Host, work: impl FnOnce(&mut Metrics) -> T) -> T {
    work(&mut host.state::<Numbers>().0.lock())
}

/// The metrics of all isolates that this Worker has in this process.
fn sum(host: &Host) -> Metrics {
    let own = with(host, |metrics| metrics.clone());
    host.platform().metrics().map_or(own, ProcessMetrics::sum)
}

/// Counts one.
pub fn count(host: &Host, metric: Metric) {
    add(host, metric, 1);
}

/// Counts several.
pub fn add(host: &Host, metric: Metric, amount: u64) {
    with(host, |metrics| metrics.add(metric, amount));
}

/// Records the answer to a request: its route, its time in milliseconds, and the code if it was refused.
pub fn answered(host: &Host, route: RouteName, milliseconds: i64, refusal: Option<Code>) {
    with(host, |metrics| {
        metrics.observe(route, milliseconds);
        if let Some(code) = refusal {
            metrics.refuse(code);
        }
    });
}

/// Records the outcomes of the lines of an answered bulk body; `accepted` is the metric of its accepted lines.
pub fn reported(host: &Host, report: &BatchReport, accepted: Metric) {
    with(host, |metrics| {
        metrics.add(accepted, report.accepted);
        metrics.add(Metric::BotIgnored, report.bots_ignored);
        for rejected in &report.rejected_lines {
            metrics.reject_lines(rejected.code, rejected.count);
        }
    });
}

/// Records the outcome of a flush, and the number of its writes.
pub fn flush_ended(host: &Host, outcome: Metric, writes: u32) {
    with(host, |metrics| {
        metrics.add(outcome, 1);
        metrics.add(Metric::FlushWritesSum, writes.into());
        metrics.add(Metric::FlushWritesCount, 1);
    });
}

/// Records a commit, and the number of its flushes.
pub fn committed(host: &Host, flushes: usize) {
    with(host, |metrics| {
        let flushes = u64::try_from(flushes).unwrap_or(u64::MAX);
        metrics.add(Metric::CommitWritten, 1);
        metrics.add(Metric::CommitFlushesSum, flushes);
        metrics.add(Metric::CommitFlushesCount, 1);
    });
}

/// The counters of this Worker, to be sent.
pub fn snapshot(host: &Host) -> Snapshot {
    sum(host).snapshot()
}

/// All metrics of this isolate, and the number of changes to them.
pub fn counts(host: &Host) -> (Vec<u64>, u64) {
    with(host, |metrics| {
        (metrics.counts().to_vec(), metrics.changes())
    })
}

/// The number of changes to the metrics.
pub fn changes(host: &Host) -> u64 {
    with(host, |metrics| metrics.changes())
}

/// The text of `/metrics`, see [`Metrics::render_with`].
pub fn render(host: &Host, aggregator: Option<&Snapshot>, fleet: Option<&Fleet>) -> String {
    sum(host).render_with(aggregator, fleet)
}

/// The names of series, see [`tally_api::metrics::named`].
pub fn named(rose: &[(u32, u64)]) -> Vec<(String, f64)> {
    tally_api::metrics::named(rose)
}
