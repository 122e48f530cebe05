//! Notes unreadable stored data that calls of this isolate have met, for the log, `/metrics` and `/healthz`.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::metrics;
use crate::host::{Host, State};
use crate::protocol::health::Ailment;
use crate::protocol::messages::Fault;
use crate::protocol::metrics::Metric;

/// How long `/healthz` names unreadable data after it was last met, milliseconds. Data that was repaired is soon not
/// named any more; data that is still being read is always named.
const NAMED_MS: i64 = 600_000;

/// The most entries, some 200 bytes each; more are only counted and logged.
const NAMED_MAX: usize = 100;

/// The messages, and when each was last met, unix milliseconds.
struct RecentFaults(RefCell<BTreeMap<String, i64>>);

impl State for RecentFaults {
    fn begin(_: &Host) -> Self {
        Self(RefCell::default())
    }
}

/// Notes the fault of a call; each is logged once.
pub fn note(host: &Host, path: &str, fault: &Fault) {
    let Fault::Unreadable(why) = fault else {
        return;
    };
    metrics::count(host, Metric::UnreadableEdge);
    metrics::count(host, Metric::UnreadableObjects);
    let (met, now_ms) = (host.state::<RecentFaults>(), host.now_ms());
    let mut met = met.0.borrow_mut();
    met.retain(|_, at_ms| now_ms - *at_ms < NAMED_MS);
    if let Some(at_ms) = met.get_mut(why) {
        *at_ms = now_ms;
        return;
    }
    host.fail(&format!("stored data cannot be read ({path}): {why}"));
    if met.len() < NAMED_MAX {
        met.insert(why.clone(), now_ms);
    }
}

/// The unreadable data that was met lately, if any.
pub fn ailment(host: &Host) -> Option<Ailment> {
    let (met, now_ms) = (host.state::<RecentFaults>(), host.now_ms());
    let met = met.0.borrow();
    let mut lately = met.iter().filter(|(_, at_ms)| now_ms - **at_ms < NAMED_MS);
    let (why, _) = lately.next()?;
    Some(Ailment::Unreadable(match lately.count() {
        0 => why.clone(),
        more => format!("{why}, and {more} more"),
    }))
}
