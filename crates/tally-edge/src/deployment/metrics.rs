//! `/metrics`: the metrics of the answering edge isolate, with those of the aggregator, and those of the deployment.
//! Where one process has several isolates of each, they are sums.

use futures_util::future::join;

use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::metrics::CONTENT_TYPE;
use tally_core::counter::id::Datacenter;
use tally_host::Host;
use tally_shared::{call_within, fleet, metrics};
use tally_wire::fleet::Fleet;
use tally_wire::messages::{AskFleet, Fault, ReadMetrics};

/// How long the aggregator may take; a scraper waits 10 s by default, and must get the edge's own numbers.
const AGGREGATOR_MS_MAX: u64 = 2_000;

/// How long all partitions of the directory may take.
const FLEET_MS_MAX: u64 = 4_000;

/// `GET /metrics`.
pub async fn metrics(context: &RequestContext) -> Answer {
    let host = &context.host;
    let (snapshot, fleet) = {
        let _waiting = context.waiting();
        let snapshot = call_within(host, &ReadMetrics {}, AGGREGATOR_MS_MAX);
        join(snapshot, ask_fleet(host, context.datacenter())).await
    };
    let text = metrics::render(host, snapshot.ok().as_ref(), fleet.ok().as_ref());
    Answer::text(text).of_type(CONTENT_TYPE)
}

/// The deployment's data from all partitions of the directory, after this isolate's counts were reported.
///
/// # Errors
/// `Unavailable` where none answers.
pub async fn ask_fleet(host: &Host, here: Datacenter) -> Result<Fleet, Fault> {
    fleet::report_now(host, here).await;
    call_within(host, &AskFleet {}, FLEET_MS_MAX).await
}
