//! The Worker that clients talk to: parse, authenticate, join a lane or read through a cache, answer.
//!
//! | module | holds |
//! |---|---|
//! | [`visit`] | one request and what is known of it |
//! | [`isolate`] | what requests of one isolate share: lanes, cached reads, keys |
//! | [`body`] | bodies, bounded, drained where they are refused |
//! | [`keyed`] | writes that count once however often they come |
//! | [`lanes`] | how what clients send joins into messages to objects |
//! | [`flight`] | how writes reach their cells by them |
//! | [`fleet`] | how a bulk body reaches many cells |
//! | [`increment`] | one write as it is asked for |
//! | [`mod@write`] | increments and decrements |
//! | [`bulk`], [`counting`] | `/events` and `/ingest`: how bodies are read, and then counted |
//! | [`mod@fetch`] | sums, fetched now or shared |
//! | [`read`] | reads, cached or strong |
//! | [`distribution`] | how samples are distributed |
//! | [`secrets`], [`elements`] | keys and salts of hashes; what uniques of one write are counted by |
//! | [`uniques`] | unions of unique elements |
//! | [`health`] | whether this edge can do its work |
//! | [`hyll`] | unique elements from and for Redis |
//! | [`views`] | what default reads share |
//! | [`mod@aggregate`] | sums of all counters whose names begin alike |
//! | [`manage`] | settings, endings, listings |
//! | [`live`] | streams of what is watched |
//! | [`metrics`] | what is counted of the service itself |
//! | [`queue`] | events that are acknowledged at once and counted soon |
//! | [`producer`] | how they reach the deployment's queue, where it has one |
//! | [`limits`], [`limit_checks`] | rate limits: policies and checks, one by one and several together |
//! | [`limiters`] | how checks reach limiters, and what is remembered of limits |
//! | [`lent`] | what an isolate is lent of the limits of hot keys |
//! | [`repeats`] | checks that are asked again at once |
//! | [`pages`] | what pages embed: the pixel, badges |
//! | [`visitors`] | how much visitors without a key may have done |
//! | [`files`] | the dashboard, the script for pages and the API's description, as they stand |
//! | [`respond`] | responses, problems, CORS |
//!
//! A request may read memory that another wrote, but none ever wakes another: the platform would
//! resume it in the wrong context. Each waits by its own timer.

mod aggregate;
mod asking;
mod body;
mod bulk;
mod counting;
mod distribution;
mod elements;
mod fetch;
mod files;
mod fleet;
mod flight;
mod health;
mod hyll;
mod increment;
mod isolate;
mod keyed;
mod lanes;
mod lent;
mod limit_checks;
mod limiters;
mod limits;
mod live;
mod manage;
mod metrics;
mod pages;
mod producer;
mod queue;
mod read;
mod repeats;
mod respond;
mod secrets;
mod uniques;
mod views;
mod visit;
mod visitors;
mod write;

use crate::host::Host;
use crate::host::http::{Context, Request, Response};
use crate::protocol::problem::Problem;
use crate::protocol::routes::{Route, RouteName, resolve, route_table};
use respond::Answer;
use visit::Visit;

/// Answers one request of a client.
pub async fn fetch(request: Box<dyn Request>, host: Host, context: Context) -> Response {
    let visit = Visit::new(request, host, context);
    if let Some(known) = repeats::again(&visit) {
        return known;
    }
    if let Err(problem) = visit.check_local() {
        visit.drain().await;
        return respond::respond(&visit, RouteName::Other, Answer::from(problem));
    }
    if visit.method() == "OPTIONS" {
        return respond::preflight(&visit);
    }
    let (name, answer) = match resolve(visit.method(), visit.path()) {
        Ok(route) => {
            let name = route.name();
            if route == Route::Live {
                return live::fetch(&visit).await;
            }
            let answer = handle(&visit, route).await;
            (name, answer.unwrap_or_else(Answer::from))
        }
        Err(no_route) => (RouteName::Other, Answer::from(no_route)),
    };
    // A client that is refused before its body was read would see a reset connection instead.
    visit.drain().await;
    respond::respond(&visit, name, answer)
}

macro_rules! handlers {
    (($visit:ident, $caller:ident)
        $($variant:ident $(($($parameter:ident: $type:ty),+))? $method:literal $template:literal $metric:literal
            $right:expr => $handler:expr;)*
    ) => {
        async fn handle($visit: &Visit, route: Route) -> Result<Answer, Problem> {
            let $caller = $visit.caller_with(&route.right())?;
            match route { $(Route::$variant $(($($parameter),+))? => $handler,)* }
        }
    };
}

route_table!(handlers);
