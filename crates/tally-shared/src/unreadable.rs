//! Records unreadable stored data that calls of this isolate have met, for the log, `/metrics` and `/healthz`.

use std::cell::RefCell;

use super::metrics;
use tally_api::metrics::Metric;
use tally_core::counter::bounded_map::BoundedMap;
use tally_host::{Host, State};
use tally_wire::health::Ailment;
use tally_wire::messages::Fault;

/// How long `/healthz` names unreadable data after it was last met, milliseconds. Data that was repaired is soon not
/// named any more; data that is still being read is always named.
const NAMED_MS: i64 = 600_000;

/// The most entries, some 200 bytes each; more are only counted and logged.
const NAMED_MAX: usize = 100;

/// The messages, and when each was last met, unix milliseconds.
struct RecentFaults(RefCell<BoundedMap<String, i64, NAMED_MAX>>);

impl State for RecentFaults {
    fn begin(_: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// Records the fault of a call; each is logged once.
pub fn record(host: &Host, path: &str, fault: &Fault) {
    let Fault::Unreadable(why) = fault else {
        return;
    };
    metrics::count(host, Metric::UnreadableEdge);
    metrics::count(host, Metric::UnreadableObjects);
    let (met, now_ms) = (host.state::<RecentFaults>(), host.now_ms());
    let mut met = met.0.borrow_mut();
    met.retain(|at_ms| now_ms - *at_ms < NAMED_MS);
    if !met.contains_key(why) {
        host.fail(&format!("stored data cannot be read ({path}): {why}"));
    }
    if met.has_room(why) {
        met.insert(why.clone(), now_ms);
    }
}

/// The unreadable data that was met lately, if any.
pub fn ailment(host: &Host) -> Option<Ailment> {
    let (met, now_ms) = (host.state::<RecentFaults>(), host.now_ms());
    let met = met.0.borrow();
    let is_recent = |at_ms: i64| now_ms - at_ms < NAMED_MS;
    let lately = || met.iter().filter(|(_, at_ms)| is_recent(**at_ms));
    // The first by name, so that the answer does not change from call to call.
    let (why, _) = lately().min_by_key(|(why, _)| *why)?;
    Some(Ailment::Unreadable(match lately().count() - 1 {
        0 => why.clone(),
        more => format!("{why}, and {more} more"),
    }))
}
