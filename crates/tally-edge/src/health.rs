//! `/healthz`: whether this edge can work.
//!
//! Invariant: for any rate of probes, an isolate asks the directory 16 times a second at most, and a probe once a
//! second asks one partition each time. It reports only what the operator must mend: settings of either Worker that are
//! not allowed, and stored data that this build cannot read. A part that does not answer is not reported: an edge works
//! without it.

use std::cell::RefCell;

use serde::Serialize;

use super::fleet_state::{self, FleetState};
use super::request_context::RequestContext;
use super::respond::Answer;
use tally_host::{Host, State};
use tally_protocol::health::{Ailment, Health};
use tally_protocol::messages::{CheckStorage, PROTOCOL};
use tally_protocol::problem::{Code, Problem};
use tally_protocol::stored::{self, SCHEMA_VERSION};
use tally_shared::concurrency::all_settled;
use tally_shared::{call_within, open_objects, partitions, unreadable};

/// How long a partition may take to answer, milliseconds. A slower one is not reported as unreadable.
const CHECK_MS_MAX: u64 = 1_000;

/// All partitions at once, if all are asked: a probe waits for one round trip.
const PARTITIONS_AT_ONCE: usize = 16;

/// What this isolate has found.
struct CachedHealth {
    /// They do not change while an isolate lives, and each is read by a call into JavaScript.
    settings: Result<(), Problem>,
    parts: RefCell<Health>,
}

impl State for CachedHealth {
    fn begin(host: &Host) -> Self {
        Self {
            settings: host.check_settings(),
            parts: RefCell::new(Health::new(partitions::count(host), host.random())),
        }
    }
}

/// 200, or why not.
///
/// # Errors
/// `not-configured` for unreadable keys and for invalid settings, `unavailable` for unreadable stored data.
pub async fn health(context: &RequestContext) -> Result<Answer, Problem> {
    context.access()?;
    context.host.state::<CachedHealth>().settings.clone()?;
    match ailment(context).await {
        None => Ok(Answer::json(well(fleet_state::known(context))?)),
        Some(ailment) => Err(ailment.into()),
    }
}

#[derive(Serialize)]
struct FormatsView {
    schema: i64,
    body: u8,
    protocol: u8,
}

#[derive(Serialize)]
struct WellView {
    status: &'static str,
    build: &'static str,
    formats: FormatsView,
    #[serde(flatten)]
    fleet: FleetState,
}

/// The answer of an edge that can work, with the state of the deployment.
fn well(fleet: FleetState) -> Result<String, Problem> {
    let view = WellView {
        status: "ok",
        build: env!("CARGO_PKG_VERSION"),
        formats: FormatsView {
            schema: SCHEMA_VERSION,
            body: stored::FIRST,
            protocol: PROTOCOL,
        },
        fleet,
    };
    serde_json::to_string(&view).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

fn with<T>(host: &Host, work: impl FnOnce(&mut Health) -> T) -> T {
    work(&mut host.state::<CachedHealth>().parts.borrow_mut())
}

async fn ailment(context: &RequestContext) -> Option<Ailment> {
    // A partition is near its first caller, and a call to it is paid for: one is asked each time. Neither is so where
    // one process runs all of them, and `serve` needs the state of all at its start.
    let has_all = open_objects::are_bounded(&context.host);
    let partitions = with(&context.host, |health| {
        health.next_checks(context.host.now_ms(), has_all)
    });
    let ask = |partition| async move {
        let check = CheckStorage { partition };
        (
            partition,
            call_within(&context.host, &check, CHECK_MS_MAX).await,
        )
    };
    let answers = all_settled(partitions.into_iter().map(ask), PARTITIONS_AT_ONCE).await;
    with(&context.host, |health| {
        for (partition, answer) in answers {
            if let Ok(ailment) = answer {
                health.record(partition, ailment);
            }
        }
        health.ailment().cloned()
    })
    .or_else(|| unreadable::ailment(&context.host))
}
