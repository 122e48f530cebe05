//! How long requests take, by the machine's monotonic clock, in microseconds. Workers have no such clock: theirs has
//! steps of 1 ms, and stands still between two calls.
//!
//! Invariant: a time is from the head of a request to the head of its answer, so it has the commit of a write, and not
//! the network.

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tally_api::routes::RouteName;

/// The family in the text of `/metrics`.
const NAME: &str = "tally_server_request_duration_seconds";

/// Upper bounds of the buckets, microseconds, and as the text writes them, in seconds.
const BOUNDS: [(u64, &str); 12] = [
    (50, "0.00005"),
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_000, "0.002"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (50_000, "0.05"),
    (250_000, "0.25"),
    (1_000_000, "1"),
    (5_000_000, "5"),
];

/// The times of one call.
#[derive(Default)]
struct Times {
    /// Requests in each bucket and in no lower one; the last are beyond all bounds.
    counts: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

/// The times of all calls of this process, of all its threads. No thread waits for another.
pub(crate) struct RequestTimes(Vec<Times>);

impl Default for RequestTimes {
    fn default() -> Self {
        Self(RouteName::ALL.iter().map(|_| Times::default()).collect())
    }
}

impl RequestTimes {
    /// Adds the time of a request.
    pub(crate) fn observe(&self, route: RouteName, took: Duration) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS
            .iter()
            .take_while(|(bound, _)| *bound < microseconds)
            .count();
        if let Some(times) = self.0.get(route.index()) {
            if let Some(count) = times.counts.get(bucket) {
                count.fetch_add(1, Relaxed);
            }
            times.sum_us.fetch_add(microseconds, Relaxed);
        }
    }

    /// The family in Prometheus's format; nothing before the first request.
    pub(crate) fn text(&self) -> String {
        let mut lines = String::new();
        for (times, route) in self.0.iter().zip(RouteName::ALL) {
            let route = route.as_str();
            let bounds = BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
            let mut all = 0;
            let mut buckets = String::new();
            for (count, bound) in times.counts.iter().zip(bounds) {
                all += count.load(Relaxed);
                let _ = writeln!(
                    buckets,
                    "{NAME}_bucket{{route=\"{route}\",le=\"{bound}\"}} {all}"
                );
            }
            if all == 0 {
                continue;
            }
            let sum_us = times.sum_us.load(Relaxed);
            let (seconds, rest) = (sum_us / 1_000_000, sum_us % 1_000_000);
            lines.push_str(&buckets);
            let _ = writeln!(lines, "{NAME}_sum{{route=\"{route}\"}} {seconds}.{rest:06}");
            let _ = writeln!(lines, "{NAME}_count{{route=\"{route}\"}} {all}");
        }
        if lines.is_empty() {
            return lines;
        }
        let help = "How long the native server took from the head of a request to the head of its answer, by the machine's clock.";
        format!("# HELP {NAME} {help}\n# TYPE {NAME} histogram\n{lines}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_below_a_millisecond_have_buckets() {
        let times = RequestTimes::default();
        assert_eq!(times.text(), "");
        for microseconds in [40, 500, 501, 6_000_000] {
            let took = Duration::from_micros(microseconds);
            times.observe(RouteName::Increment, took);
        }
        let text = times.text();
        for line in [
            "_bucket{route=\"increment\",le=\"0.00005\"} 1",
            "_bucket{route=\"increment\",le=\"0.0005\"} 2",
            "_bucket{route=\"increment\",le=\"0.001\"} 3",
            "_bucket{route=\"increment\",le=\"5\"} 3",
            "_bucket{route=\"increment\",le=\"+Inf\"} 4",
            "_sum{route=\"increment\"} 6.001041",
            "_count{route=\"increment\"} 4",
        ] {
            assert!(text.contains(&format!("{NAME}{line}\n")), "{line}\n{text}");
        }
    }
}
