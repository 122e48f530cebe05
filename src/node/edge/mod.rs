//! The Worker that clients talk to: parse, authenticate, join a lane or read through a cache, answer.
//!
//! | module | holds |
//! |---|---|
//! | [`request_context`] | one request and what is known of it |
//! | [`isolate`] | what requests of one isolate share: lanes, cached reads, keys |
//! | [`body`] | bodies, bounded, drained where they are refused |
//! | [`keyed`] | writes that count once however often they come |
//! | [`lanes`] | how what clients send joins into messages to objects |
//! | [`flush_sender`] | how writes reach their cells by them |
//! | [`bulk_sender`] | how a bulk body reaches many cells |
//! | [`increment`] | one write as it is asked for |
//! | [`mod@write`] | increments and decrements |
//! | [`bulk`], [`bulk_counting`] | `/events` and `/ingest`: how bodies are read, and then counted |
//! | [`mod@fetch`] | sums, fetched now or shared |
//! | [`read`] | reads, cached or strong |
//! | [`distribution`], [`breakdown`] | how samples are distributed, and what was counted of the values of a dimension |
//! | [`hash_keys`], [`unique_elements`] | keys and salts of hashes; what uniques of one write are counted by |
//! | [`uniques`] | unions of unique elements |
//! | [`health`] | whether this edge can do its work |
//! | [`mod@hot`] | which counters are written most now |
//! | [`fleet_state`] | what an operator should know of the deployment |
//! | [`hyll`] | unique elements from and for Redis |
//! | [`last_seen`] | what is told where a root does not answer, and that a counter does not exist |
//! | [`read_cache`] | what default reads share |
//! | [`mod@aggregate`] | sums and histories of all counters whose names begin alike |
//! | [`mod@top`] | which counters have most |
//! | [`gathered`] | how those that ask for such share what takes many calls |
//! | [`administration`] | settings, endings |
//! | [`export`], [`import`] | what the deployment holds, as a file |
//! | [`repair`] | what is damaged, put back from what others remember |
//! | [`listing`] | counters by their names |
//! | [`live`] | streams of what is watched |
//! | [`metrics`] | what is counted of the service itself |
//! | [`canary`] | how fast datacenters agree |
//! | [`queue`] | events that are acknowledged at once and counted soon |
//! | [`producer`] | how they reach the deployment's queue, where it has one |
//! | [`boards`] | members with scores |
//! | [`board_lanes`] | the line to boards |
//! | [`board_summary`] | boards that live elsewhere, as they are told at once |
//! | [`board_lines`] | lines of `/events` that write to boards |
//! | [`limits`], [`limit_checks`] | rate limits: policies and checks, one by one and several together |
//! | [`limiters`] | how checks reach limiters, and what is remembered of limits |
//! | [`local_quota`] | what an isolate is lent of the limits of hot keys |
//! | [`repeated_checks`] | checks that are asked again at once |
//! | [`embeds`] | what pages embed: the pixel, badges |
//! | [`visitors`] | how much visitors without a key may have done |
//! | [`redis`] | Redis's dialect |
//! | [`files`] | the dashboard, the script for pages and the API's description, as they stand |
//! | [`api_keys`], [`key_budget`] | keys that calls make, who comes with one, and how much a key may do |
//! | [`audit`] | what admins do is noted |
//! | [`alerts`] | alerts, and what was delivered of them |
//! | [`shares`] | keys for reading one prefix, and who comes with one |
//! | [`respond`] | responses, problems, CORS |
//!
//! A request may read memory that another wrote, but none ever wakes another: the platform would
//! resume it in the wrong background. Each waits by its own timer.

mod administration;
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

use crate::host::Host;
use crate::host::http::{Context, Request, Response};
use crate::protocol::problem::Problem;
use crate::protocol::routes::{Route, RouteName, resolve, route_table};
use request_context::RequestContext;
use respond::Answer;

/// Answers one request of a client.
pub async fn fetch(request: Box<dyn Request>, host: Host, background: Context) -> Response {
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
    // A client that is refused before its body was read would see a reset connection instead.
    context.drain().await;
    respond::respond(&context, name, answer)
}

/// Notes who asks, where that takes more than the configuration.
async fn identify(context: &RequestContext) -> Result<(), Problem> {
    // It is looked for once: a header is a call into JavaScript.
    let Some(authorization) = context.header("authorization") else {
        return Ok(());
    };
    shares::identify(context, &authorization).await?;
    api_keys::identify(context, &authorization).await
}

macro_rules! handlers {
    (($context:ident, $caller:ident)
        $($(#[$built:meta])* $variant:ident $(($($parameter:ident: $type:ty),+))? $method:literal $template:literal
            $metric:literal $right:expr => $handler:expr;)*
    ) => {
        async fn handle($context: &RequestContext, route: Route) -> Result<Answer, Problem> {
            let $caller = $context.caller_with(&route.right())?;
            audit::begin($context, &$caller, &route).await;
            let answer = match route { $($(#[$built])* Route::$variant $(($($parameter),+))? => $handler,)* };
            audit::end($context, &answer).await;
            answer
        }
    };
}

route_table!(handlers);
