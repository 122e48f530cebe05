//! Current values of the deployment in Prometheus's format. For counts see `registry`.

use super::text::{Exposition, seconds};
use tally_wire::fleet::{Clock, Fleet, Gauge, GaugeKind};

/// The most datacenters with a series of their own, by the largest numbers: the platform has some 330 locations.
const SERIES_MAX: usize = 400;

/// A family of one whole number.
fn whole(text: &mut Exposition, name: &str, help: &str, value: u64) {
    text.family(name, help, "gauge");
    text.line(&[name], value);
}

/// The current values of a deployment.
pub(super) struct FleetText<'a>(pub(super) &'a Fleet);

impl FleetText<'_> {
    /// Writes the gauges. Cardinality: at most 5 series a datacenter, 2 an inbox, 2 a kind of object, 13 besides.
    pub(super) fn render(&self, text: &mut Exposition) {
        let part = self.0.part();
        whole(
            text,
            "tally_fleet_up",
            "1 if all partitions of the directory answered; otherwise the counters of the deployment are missing.",
            u64::from(self.0.is_whole()),
        );
        whole(
            text,
            "tally_fleet_partitions",
            "Partitions of the directory that answered.",
            self.0.answered(),
        );
        let begun_ms = part.begun_ms.filter(|_| self.0.is_whole());
        if let Some(begun_ms) = begun_ms.and_then(|begun_ms| u64::try_from(begun_ms).ok()) {
            let name = "tally_fleet_start_time_seconds";
            let help = "When the first report came that is in these sums, in unix seconds.";
            text.family(name, help, "gauge");
            text.line_of(&[name], &seconds(begun_ms));
        }
        if let Some(age_ms) = part.age_ms {
            let name = "tally_fleet_age_seconds";
            let help = "How long ago the newest report of an isolate came. What was counted in the last ten seconds may be missing.";
            text.family(name, help, "gauge");
            text.line_of(&[name], &seconds(age_ms));
        }
        let name = "tally_fleet_isolates";
        let help = "Isolates that reported within a minute, by what they are for.";
        text.family(name, help, "gauge");
        let [edges, others] = part.isolates;
        text.line(&[name, "{role=\"edge\"}"], edges);
        text.line(&[name, "{role=\"objects\"}"], others);
        if self.0.is_whole() {
            self.render_counters(text);
            self.render_stored(text);
            self.render_clocks(text);
            self.render_gauges(text);
        }
    }

    fn render_counters(&self, text: &mut Exposition) {
        let part = self.0.part();
        whole(
            text,
            "tally_fleet_counters",
            "Counters that live.",
            part.counters.0,
        );
        let name = "tally_fleet_counters_age_seconds";
        text.family(name, "How long ago they were counted.", "gauge");
        text.line_of(&[name], &seconds(part.counters.1));
        whole(
            text,
            "tally_fleet_hot_counters",
            "Counters that GET /top?by=rate names: those written most.",
            u64::try_from(part.hot.len()).unwrap_or(u64::MAX),
        );
        whole(
            text,
            "tally_fleet_hot_shards",
            "Shards over which the counters are spread that GET /top?by=rate names.",
            part.hot.shards(),
        );
        whole(
            text,
            "tally_fleet_moving_partitions",
            "Partitions of the directory whose counters' leads move to other places.",
            part.moving.partitions,
        );
        whole(
            text,
            "tally_fleet_moving_counters",
            "Counters whose leads may be at an old place: they were not checked yet.",
            part.moving.waiting,
        );
        whole(
            text,
            "tally_fleet_moving_leads_left",
            "Leads that did not move when they were looked at last.",
            part.moving.left,
        );
    }

    fn render_stored(&self, text: &mut Exposition) {
        let stored = &self.0.part().stored;
        if stored.is_empty() {
            return;
        }
        let name = "tally_fleet_stored_bytes";
        let help = "Bytes of the databases of objects, by kind, by their last report; one cell in sixteen reports.";
        text.family(name, help, "gauge");
        for (kind, stored) in stored {
            text.line(&[name, "{kind=\"", kind, "\"}"], stored.bytes);
        }
        let name = "tally_fleet_stored_error_bytes";
        text.family(name, "Standard error of that.", "gauge");
        for (kind, stored) in stored {
            let error = u64::try_from(stored.variance.isqrt()).unwrap_or(u64::MAX);
            text.line(&[name, "{kind=\"", kind, "\"}"], error);
        }
    }

    fn render_clocks(&self, text: &mut Exposition) {
        let clocks = &self.0.part().clocks;
        if clocks.is_empty() {
            return;
        }
        let of = |clock: &Clock| {
            let name = clock.datacenter.as_str();
            ["{datacenter=\"", name, "\"}"].concat()
        };
        let name = "tally_fleet_clock_offset_seconds";
        let help = "How far the clock of a datacenter's edge is ahead of the middle one of those of the directory's partitions: the middle of what it may be.";
        text.family(name, help, "gauge");
        for clock in clocks.iter().take(SERIES_MAX) {
            let twice = clock.from_ms.saturating_add(clock.to_ms);
            let sign = if twice < 0 { "-" } else { "" };
            let value = [sign, &half_seconds(twice.unsigned_abs())].concat();
            text.line_of(&[name, &of(clock)], &value);
        }
        let name = "tally_fleet_clock_offset_error_seconds";
        text.family(name, "By how much more or less it may be off.", "gauge");
        for clock in clocks.iter().take(SERIES_MAX) {
            text.line_of(&[name, &of(clock)], &half_seconds(clock.width_ms()));
        }
    }

    fn render_gauges(&self, text: &mut Exposition) {
        let now_ms = self.0.part().now_ms;
        let of_kind = |kind: GaugeKind| -> Vec<&Gauge> {
            let gauges = self.0.part().gauges.iter();
            let gauges = gauges.filter(|gauge| gauge.kind == kind);
            gauges.take(SERIES_MAX).collect()
        };
        let waiting = of_kind(GaugeKind::Backlog);
        let rows = waiting.iter().map(|gauge| gauge.value).sum();
        let help = "Rows of all inboxes that are acknowledged and not counted yet, where they have waited for 5 s.";
        whole(text, "tally_fleet_backlog", help, rows);
        let oldest = of_kind(GaugeKind::OldestWaiting);
        let oldest = oldest.iter().map(|gauge| waited_ms(gauge, now_ms)).max();
        let name = "tally_fleet_oldest_waiting_seconds";
        text.family(
            name,
            "How long the oldest of them has waited; 0 where none waits.",
            "gauge",
        );
        text.line_of(&[name], &seconds(oldest.unwrap_or(0)));
        let mut family =
            |kind, name: &str, help: &str, label: &str, value: &dyn Fn(&Gauge) -> String| {
                let gauges = of_kind(kind);
                if gauges.is_empty() {
                    return;
                }
                text.family(name, help, "gauge");
                for gauge in gauges {
                    text.line_of(
                        &[name, "{", label, "=\"", &gauge.name, "\"}"],
                        &value(gauge),
                    );
                }
            };
        family(
            GaugeKind::Backlog,
            "tally_fleet_inbox_backlog",
            "Rows of an inbox that are acknowledged and not counted yet.",
            "inbox",
            &|gauge| gauge.value.to_string(),
        );
        family(
            GaugeKind::OldestWaiting,
            "tally_fleet_inbox_oldest_seconds",
            "How long the oldest of them has waited; 0 where none waits.",
            "inbox",
            &|gauge| seconds(waited_ms(gauge, now_ms)),
        );
        family(
            GaugeKind::Convergence,
            "tally_fleet_convergence_seconds",
            "How long a write of the canary took until the view of a datacenter had it: the slowest of the last minute.",
            "datacenter",
            &|gauge| seconds(gauge.value),
        );
        family(
            GaugeKind::Unreported,
            "tally_fleet_unreported_seconds",
            "How long the oldest change of a counter waited until its root had it: the longest of a minute, by the datacenter of the change.",
            "datacenter",
            &|gauge| seconds(gauge.value),
        );
        family(
            GaugeKind::EstimateError,
            "tally_fleet_estimate_error_ratio",
            "How far a datacenter's estimate of the canary's 4,096 unique elements is off.",
            "datacenter",
            &|gauge| format!("0.{:06}", gauge.value.min(999_999)),
        );
    }
}

/// Twice some milliseconds, as seconds.
fn half_seconds(twice_ms: u64) -> String {
    let tenths_of_ms = twice_ms.saturating_mul(5);
    format!("{}.{:04}", tenths_of_ms / 10_000, tenths_of_ms % 10_000)
}

/// How long the oldest waiting row has waited, milliseconds.
fn waited_ms(gauge: &Gauge, now_ms: i64) -> u64 {
    let since_ms = i64::try_from(gauge.value).unwrap_or(i64::MAX);
    match gauge.value {
        0 => 0,
        _ => u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0),
    }
}
