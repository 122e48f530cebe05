//! The numbers of this isolate: counted wherever something happens, read by `/metrics`.
//!
//! All that runs in one isolate counts here together: every request of an edge isolate, or the aggregator
//! and those objects that the platform put beside it. Nothing is lost or shared beyond that: an isolate
//! that ends takes its numbers with it, and Prometheus sees the next one begin at 0.

use std::cell::RefCell;

use crate::host::{Host, State};
use crate::protocol::batch::report::BatchReport;
use crate::protocol::fleet::Fleet;
use crate::protocol::metrics::{Metric, Metrics, Snapshot};
use crate::protocol::problem::Code;
use crate::protocol::routes::RouteName;

/// The numbers of an isolate.
struct Numbers(RefCell<Metrics>);

impl State for Numbers {
    fn begin(host: &Host) -> Self {
        Self(RefCell::new(Metrics::new(host.now_ms().div_euclid(1_000))))
    }
}

fn with<T>(host: &Host, work: impl FnOnce(&mut Metrics) -> T) -> T {
    work(&mut host.state::<Numbers>().0.borrow_mut())
}

/// Counts one.
pub fn count(host: &Host, metric: Metric) {
    add(host, metric, 1);
}

/// Counts several.
pub fn add(host: &Host, metric: Metric, amount: u64) {
    with(host, |metrics| metrics.add(metric, amount));
}

/// Notes the answer to a request: its route, how long it took in milliseconds, and why it was refused
/// if it was.
pub fn answered(host: &Host, route: RouteName, milliseconds: i64, refusal: Option<Code>) {
    with(host, |metrics| {
        metrics.observe(route, milliseconds);
        if let Some(code) = refusal {
            metrics.refuse(code);
        }
    });
}

/// Notes what became of the lines of a bulk body that is answered; `accepted` is what they are
/// acknowledged as.
pub fn reported(host: &Host, report: &BatchReport, accepted: Metric) {
    with(host, |metrics| {
        metrics.add(accepted, report.accepted);
        metrics.add(Metric::BotIgnored, report.bots_ignored);
        for rejected in &report.rejected_lines {
            metrics.reject_lines(rejected.code, rejected.count);
        }
    });
}

/// Notes a flush that has ended: how, and how many writes it carried.
pub fn flush_ended(host: &Host, outcome: Metric, writes: u32) {
    with(host, |metrics| {
        metrics.add(outcome, 1);
        metrics.add(Metric::FlushWritesSum, writes.into());
        metrics.add(Metric::FlushWritesCount, 1);
    });
}

/// Notes a commit that was written, of so many flushes.
pub fn committed(host: &Host, flushes: usize) {
    with(host, |metrics| {
        let flushes = u64::try_from(flushes).unwrap_or(u64::MAX);
        metrics.add(Metric::CommitWritten, 1);
        metrics.add(Metric::CommitFlushesSum, flushes);
        metrics.add(Metric::CommitFlushesCount, 1);
    });
}

/// The counters of this isolate, to be sent.
pub fn snapshot(host: &Host) -> Snapshot {
    with(host, |metrics| metrics.snapshot())
}

/// All numbers of this isolate, and how often any of them changed.
pub fn counts(host: &Host) -> (Vec<u64>, u64) {
    with(host, |metrics| {
        (metrics.counts().to_vec(), metrics.changes())
    })
}

/// How often any of them changed.
pub fn changes(host: &Host) -> u64 {
    with(host, |metrics| metrics.changes())
}

/// The text of `/metrics`, see [`Metrics::render_with`].
pub fn render(host: &Host, aggregator: Option<&Snapshot>, fleet: Option<&Fleet>) -> String {
    with(host, |metrics| metrics.render_with(aggregator, fleet))
}

/// The names of series, see [`crate::protocol::metrics::named`].
pub fn named(rose: &[(u32, u64)]) -> Vec<(String, f64)> {
    crate::protocol::metrics::named(rose)
}
