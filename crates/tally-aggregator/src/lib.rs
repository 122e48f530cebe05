//! The global aggregator Worker: it sums counters over all datacenters and lists them.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | the sum of one counter over its datacenters |
//! | [`read_options`] | how a read asks roots, leads and inboxes |
//! | [`explain`] | how a read was made |
//! | [`counters`] | the sum of counters whose roots are known |
//! | [`many`] | many counters at once, from the directory's partitions |
//! | [`largest`] | the counters that may have counted most in a range |
//! | [`first_rows`] | the first counters of each partition in an order |
//! | [`top`] | the first counters of all partitions, in order |
//! | [`fleet`] | the deployment's data from all partitions |
//! | [`alerts`] | measurements of alerts and digests, and their lists |
//! | [`export`] | one page of an export |
//! | [`snapshots`] | the list of snapshots, and former states of counters |
//! | [`mod@boards`] | the list of boards |
//! | [`consumer`] | the consumer of the deployment's queue |
//!
//! This file holds the dispatch of calls.
//!
//! It stores nothing. Requests reach it through the edge's service binding only: it has no public address (`workers_dev
//! = false`, no route).

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

mod alerts;
#[cfg(feature = "boards")]
mod boards;
pub mod consumer;
mod counters;
mod explain;
#[cfg(feature = "exports")]
mod export;
mod first_rows;
mod fleet;
mod largest;
mod many;
mod read;
mod read_options;
mod snapshots;
mod top;

pub use self::alerts::{MeasureTime, Measured, measure_alert, measure_digest};
pub use self::fleet::read_fleet;
pub use self::read::{read_now, read_sketches, read_watched};
use futures_util::future::LocalBoxFuture;

use self::read_options::ReadOptions;
use tally_host::Host;
use tally_host::dispatch;
use tally_host::http::Context;
use tally_host::object::{IncomingCall, Reply};
use tally_shared::fleet as counts;
use tally_shared::metrics;
use tally_wire::messages::{
    AllAlerts, AllDeliveries, AskFleet, AskRuns, AskTop, Explain, ListAll, ListAllPastStates, Read,
    ReadDrained, ReadEach, ReadMetrics, SumMany,
};

/// Answers one call of the edge.
pub fn answer<'a>(
    host: &'a Host,
    arrived: &'a IncomingCall,
    background: &'a Context,
) -> LocalBoxFuture<'a, Reply> {
    Box::pin(async move {
        let reply = reply_to(host, arrived).await;
        if counts::is_due(host) {
            let host = host.clone();
            background.wait_until(async move { counts::report(&host, None).await });
        }
        reply
    })
}

async fn reply_to(host: &Host, arrived: &IncomingCall) -> Reply {
    dispatch!(arrived, request, {
        Read => read::read_shared(host, request).await,
        Explain => explain::explain(host, request).await,
        ReadDrained => read::read_drained(host, request, ReadOptions::default()).await,
        ReadEach => many::read_each(host, request).await,
        SumMany => many::sum_many(host, request).await,
        ListAll => many::list_all(host, request).await,
        #[cfg(feature = "boards")]
        tally_wire::messages::ListAllBoards => boards::list(host, request).await,
        AskTop => top::top(host, request).await,
        AllAlerts => alerts::all(host, request).await,
        AllDeliveries => alerts::all_deliveries(host, request).await,
        #[cfg(feature = "exports")]
        tally_wire::messages::ExportPage => export::export_page(host, request).await,
        AskFleet => async { request?; read_fleet(host).await }.await,
        AskRuns => snapshots::runs(host, request).await,
        ListAllPastStates => snapshots::kept(host, request).await,
        ReadMetrics => request.map(|_| metrics::snapshot(host)),
    })
}
