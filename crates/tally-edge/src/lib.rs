//! The Worker that clients talk to: parse, authenticate, join a lane or read through a cache, answer.
//!
//! | module | holds |
//! |---|---|
//! | [`aged_cache`] | cached values of the directory, and their ages |
//! | [`request_context`] | one request, its caller and its times |
//! | [`isolate`] | what requests of one isolate share: lanes, cached reads, keys |
//! | [`body`] | bodies, bounded, drained where they are refused |
//! | [`keyed`], [`request_key`] | writes that count once for any number of repeats, and the keys that name them |
//! | [`lanes`] | lanes, in which clients' requests join into messages to objects |
//! | [`flush_sender`] | the lanes of writes to cells |
//! | [`bulk_sender`] | sending of a bulk body to many cells |
//! | [`increment`] | one write of a client |
//! | [`mod@write`] | increments and decrements |
//! | [`bulk`], [`bulk_reader`], [`bulk_counting`] | `/events` and `/ingest`: reading of bodies, and counting |
//! | [`mod@fetch`] | sums, fetched now or shared |
//! | [`read`] | reads, cached or strong |
//! | [`distribution`], [`breakdown`] | the distribution of samples, and the counts of a dimension's values |
//! | [`hash_keys`], [`unique_elements`] | keys and salts of hashes; the element of one write |
//! | [`uniques`] | unions of unique elements |
//! | [`health`] | whether this edge can work |
//! | [`mod@hot`] | the counters that are written most now |
//! | [`fleet_state`] | the state of the deployment for operators |
//! | [`hyll`] | unique elements from and for Redis |
//! | [`last_seen`] | answers without the root, and absent counters |
//! | [`read_cache`] | the views that default reads share |
//! | [`mod@aggregate`] | sums and histories of all counters with a prefix |
//! | [`mod@top`] | the counters that have most |
//! | [`gathered`] | shared answers to such reads |
//! | [`administration`] | settings, endings |
//! | [`export`], [`import`] | the deployment's data as a file |
//! | [`repair`], [`repair_objects`] | repairs of damaged data; damage in objects that hold more than one counter |
//! | [`snapshots`], [`restore`] | snapshots, and counters that are restored from one |
//! | [`listing`] | counters by their names |
//! | [`live`] | streams of watched counters |
//! | [`metrics`] | metrics of the service |
//! | [`canary`] | measurement of convergence |
//! | [`queue`] | events that are acknowledged at once and counted soon after |
//! | [`producer`] | sending of events to the deployment's queue |
//! | [`boards`] | members with scores |
//! | [`board_lanes`] | the lanes of writes to boards |
//! | [`board_summary`] | cached summaries of boards in other datacenters |
//! | [`board_lines`] | lines of `/events` that write to boards |
//! | [`limits`], [`limit_checks`] | rate limits: policies and checks, one by one and several together |
//! | [`resolved_check`] | a check of a limit with its policy and its limiter |
//! | [`verdicts`], [`verdict_reads`] | the numbers of allowed and refused checks of each policy, and reads of them |
//! | [`limiters`] | the lanes of checks to limiters, and cached policies and refusals |
//! | [`local_quota`] | the isolate's part of the limits of hot keys |
//! | [`repeated_checks`] | checks that are repeated at once |
//! | [`embeds`] | elements of pages: the pixel, badges |
//! | [`visitors`] | the limits of visitors without keys and of holders of shares |
//! | [`redis`] | Redis's dialect |
//! | [`files`] | static files: the dashboard, the script for pages, the API's description |
//! | [`api_keys`], [`key_budget`] | keys that calls make, their holders, and their budgets |
//! | [`audit`] | the audit log |
//! | [`alerts`] | alerts, and their deliveries |
//! | [`shares`] | keys for reading one prefix, and their holders |
//! | [`respond`] | responses, problems, CORS |
//!
//! A request may read memory that another wrote, but none ever wakes another: the platform would resume it in the wrong
//! request's context. Each waits by its own timer.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]
#![cfg_attr(
    not(feature = "default"),
    allow(unused, reason = "code of what was left out is not linked")
)]

mod administration;
mod aged_cache;
mod aggregate;
mod alerts;
mod api_keys;
mod audit;
mod board_lanes;
mod board_lines;
mod board_summary;
mod boards;
mod body;
mod breakdown;
mod bulk;
mod bulk_counting;
mod bulk_reader;
mod bulk_sender;
mod canary;
mod distribution;
mod embeds;
mod export;
mod fetch;
mod files;
mod fleet_state;
mod flush_sender;
mod gathered;
mod hash_keys;
mod health;
mod hot;
mod hyll;
mod import;
mod increment;
mod isolate;
mod key_budget;
mod keyed;
mod lanes;
mod last_seen;
mod limit_checks;
mod limiters;
mod limits;
mod listing;
mod live;
mod local_quota;
mod metrics;
mod producer;
mod queue;
mod read;
mod read_cache;
mod redis;
mod repair;
mod repair_objects;
mod repeated_checks;
mod request_context;
mod request_key;
mod resolved_check;
mod respond;
mod restore;
mod shares;
mod snapshots;
mod top;
mod unique_elements;
mod uniques;
mod verdict_reads;
mod verdicts;
mod visitors;
mod write;

use futures_util::future::LocalBoxFuture;

use request_context::RequestContext;
use respond::Answer;
use tally_host::Host;
use tally_host::http::{Context, Request, Response};
use tally_protocol::problem::Problem;
use tally_protocol::routes::{Route, RouteName, resolve, route_table};

/// Answers one request of a client.
pub fn fetch(
    request: Box<dyn Request>,
    host: Host,
    background: Context,
) -> LocalBoxFuture<'static, Response> {
    Box::pin(async move {
        let context = RequestContext::new(request, host, background);
        #[cfg(feature = "limits")]
        if let Some(known) = repeated_checks::again(&context) {
            return known;
        }
        if let Err(problem) = context.check_local() {
            context.drain().await;
            return respond::respond(&context, RouteName::Other, Answer::from(problem));
        }
        if context.method() == "OPTIONS" {
            return respond::preflight(&context);
        }
        if let Err(problem) = identify(&context).await {
            context.drain().await;
            #[cfg(feature = "redis")]
            if let Some(refused) = redis::refuse(&context, &problem) {
                return refused;
            }
            return respond::respond(&context, RouteName::Other, Answer::from(problem));
        }
        #[cfg(feature = "queue")]
        producer::close_later(&context);
        #[cfg(feature = "redis")]
        if let Some(answered) = redis::fetch(&context).await {
            return answered;
        }
        let (name, answer) = match resolve(context.method(), context.path()) {
            Ok(route) => {
                let name = route.name();
                #[cfg(feature = "live")]
                if route == Route::Live {
                    return live::fetch(&context).await;
                }
                let answer = handle(&context, route).await;
                (name, answer.unwrap_or_else(Answer::from))
            }
            Err(no_route) => (RouteName::Other, Answer::from(no_route)),
        };
        // Otherwise a client that is refused before its body was read would see a reset connection.
        context.drain().await;
        respond::respond(&context, name, answer)
    })
}

/// Identifies the caller, if that takes more than the configuration.
async fn identify(context: &RequestContext) -> Result<(), Problem> {
    // It is read once: a header is a call into JavaScript.
    let Some(authorization) = context.header("authorization") else {
        return Ok(());
    };
    if shares::identify(context, &authorization).await? {
        return Ok(());
    }
    api_keys::identify(context, &authorization).await
}

macro_rules! handlers {
    (($context:ident, $caller:ident)
        $($(#[$built:meta])* $variant:ident $(($($parameter:ident: $type:ty),+))? $method:literal $template:literal
            $metric:literal $right:expr $(, $unknown:expr)? => $handler:expr;)*
    ) => {
        async fn handle($context: &RequestContext, route: Route) -> Result<Answer, Problem> {
            let $caller = $context.caller_with(&route)?;
            audit::begin($context, &$caller, &route).await;
            let answer = match route { $($(#[$built])* Route::$variant $(($($parameter),+))? => $handler,)* };
            audit::end($context, &answer).await;
            answer
        }
    };
}

route_table!(handlers);
