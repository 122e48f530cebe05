//! How long requests take, by the machine's monotonic clock, in microseconds. Workers have no such clock: theirs has
//! steps of 1 ms, and stands still between two calls.
//!
//! Invariant: a time is from the head of a request to the head of its answer, so it has the commit of a write, and not
//! the network.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tally_api::routes::RouteName;

/// The family in the text of `/metrics`.
const NAME: &str = "tally_server_request_duration_seconds";

/// Upper bounds of the buckets, microseconds, and as the text writes them, in seconds.
const BOUNDS: [(u128, &str); 12] = [
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
    /// Requests up to each bound, and all of them.
    up_to: [u64; BOUNDS.len()],
    all: u64,
    sum_us: u128,
}

/// The times of all calls of this process, of all its threads.
#[derive(Default)]
pub(crate) struct RequestTimes(Mutex<BTreeMap<&'static str, Times>>);

impl RequestTimes {
    /// Adds the time of a request.
    pub(crate) fn observe(&self, route: RouteName, took: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = known.entry(route.as_str()).or_default();
        let microseconds = took.as_micros();
        for (count, (bound, _)) in times.up_to.iter_mut().zip(BOUNDS) {
            *count += u64::from(microseconds <= bound);
        }
        times.all += 1;
        times.sum_us += microseconds;
    }

    /// The family in Prometheus's format; nothing before the first request.
    pub(crate) fn text(&self) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if known.is_empty() {
            return text;
        }
        let help = "How long the native server took from the head of a request to the head of its answer, by the machine's clock.";
        let _ = write!(text, "# HELP {NAME} {help}\n# TYPE {NAME} histogram\n");
        for (route, times) in known.iter() {
            let bounds = times.up_to.iter().zip(BOUNDS);
            let bounds = bounds.map(|(count, (_, bound))| (*count, bound));
            for (count, bound) in bounds.chain([(times.all, "+Inf")]) {
                let _ = writeln!(
                    text,
                    "{NAME}_bucket{{route=\"{route}\",le=\"{bound}\"}} {count}"
                );
            }
            let (seconds, rest) = (times.sum_us / 1_000_000, times.sum_us % 1_000_000);
            let _ = writeln!(text, "{NAME}_sum{{route=\"{route}\"}} {seconds}.{rest:06}");
            let _ = writeln!(text, "{NAME}_count{{route=\"{route}\"}} {}", times.all);
        }
        text
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
