//! `/healthz`: whether this edge can work.
//!
//! Invariant: for any rate of probes, an isolate asks the directory 16 times a second at most, and a probe once a
//! second asks one partition each time. It reports only what the operator must mend: settings of either Worker that are
//! not allowed, and stored data that this build cannot read. A part that does not answer is not reported: an edge works
//! without it.
//!
//! Where one process has all objects, a probe also has one of them write to storage, durably, once a second at most: a
//! disk that is full or read-only takes reads, and refuses what a client wants. A write elsewhere costs money, and its
//! platform keeps storage writable.

use std::cell::RefCell;

use futures_util::future::join;
use serde::Serialize;

use super::fleet_state::{self, FleetState};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::fields::Moment;
use tally_host::{Host, State};
use tally_shared::concurrency::all_settled;
use tally_shared::{call_within, open_objects, partitions, unreadable};
use tally_wire::health::{Ailment, Health, WriteHealth};
use tally_wire::messages::{CheckStorage, PROTOCOL, WriteProof};
use tally_wire::names::STARTED_AT;
use tally_wire::problem::{Code, Problem};
use tally_wire::stored;
use tally_wire::stored::SCHEMA_VERSION;

/// How long a partition may take to answer, milliseconds. A slower one is not reported as unreadable.
const CHECK_MS_MAX: u64 = 1_000;

/// How long a write may take, milliseconds: a thousand times the usual, and shorter than probes wait.
const WRITE_MS_MAX: u64 = 3_000;

/// The partition that writes.
const WRITING_PARTITION: u32 = 0;

/// All partitions at once, if all are asked: a probe waits for one round trip.
const PARTITIONS_AT_ONCE: usize = 16;

/// What this isolate has found.
struct CachedHealth {
    /// They do not change while an isolate lives, and each is read by a call into JavaScript.
    settings: Result<(), Problem>,
    /// When the process began, or this isolate where the platform names no process, unix milliseconds.
    started_ms: i64,
    parts: RefCell<Health>,
    writes: RefCell<WriteHealth>,
}

impl State for CachedHealth {
    fn begin(host: &Host) -> Self {
        Self {
            settings: host.check_settings(),
            started_ms: host
                .setting(STARTED_AT)
                .and_then(|text| text.parse().ok())
                .unwrap_or_else(|| host.now_ms()),
            parts: RefCell::new(Health::new(partitions::count(host), host.random())),
            writes: RefCell::default(),
        }
    }
}

/// 200, or why not.
///
/// # Errors
/// `not-configured` for unreadable keys and for invalid settings, `unavailable` for unreadable stored data.
pub async fn health(context: &RequestContext) -> Result<Answer, Problem> {
    context.access()?;
    let cached = context.host.state::<CachedHealth>();
    cached.settings.clone()?;
    match ailment(context).await {
        None => Ok(Answer::json(well(context, cached.started_ms)?)),
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
    /// The version of this build.
    build: &'static str,
    /// The newest forms that this build writes: the schema of objects, the version of stored bodies, the protocol of
    /// messages.
    formats: FormatsView,
    /// When the process of the server began; on Cloudflare when the isolate that answers did. It
    /// names the process: another one has another.
    started_at: Moment,
    /// The jurisdiction in which all data is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    jurisdiction: Option<String>,
    #[serde(flatten)]
    fleet: FleetState,
}

/// The answer of an edge that can work, with the state of the deployment.
fn well(context: &RequestContext, started_at: i64) -> Result<String, Problem> {
    let view = WellView {
        status: "ok",
        build: env!("CARGO_PKG_VERSION"),
        formats: FormatsView {
            schema: SCHEMA_VERSION,
            body: stored::FIRST,
            protocol: PROTOCOL,
        },
        started_at,
        jurisdiction: context.jurisdiction().map(str::to_owned),
        fleet: fleet_state::known(context),
    };
    serde_json::to_string(&view).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

fn with<T>(host: &Host, work: impl FnOnce(&mut Health) -> T) -> T {
    work(&mut host.state::<CachedHealth>().parts.borrow_mut())
}

/// Why storage takes no writes, if it takes none.
async fn write_ailment(context: &RequestContext) -> Option<Ailment> {
    let host = &context.host;
    if !open_objects::are_bounded(host) {
        return None;
    }
    let cached = host.state::<CachedHealth>();
    let is_due = cached.writes.borrow_mut().begin(host.now_ms());
    if is_due {
        let proof = WriteProof {
            partition: WRITING_PARTITION,
        };
        let written = call_within(host, &proof, WRITE_MS_MAX).await;
        let outcome = written.map_err(|fault| fault.to_string());
        cached.writes.borrow_mut().record(outcome);
    }
    cached.writes.borrow().ailment()
}

async fn ailment(context: &RequestContext) -> Option<Ailment> {
    let (unreadable, unwritable) = join(read_ailment(context), write_ailment(context)).await;
    unreadable.or(unwritable)
}

async fn read_ailment(context: &RequestContext) -> Option<Ailment> {
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
