//! The Worker that clients talk to: parse, authenticate, join a lane or read through a cache, answer.
//!
//! Each folder is a room, and each room's first lines list its modules. [`dispatch`] gives each route its handler.
//!
//! | room | holds |
//! |---|---|
//! | [`mod@kit`] | what each call needs, whatever it asks for |
//! | [`mod@read`] | reads of counters, one or many, cached or strong |
//! | [`mod@write`] | writes to one counter, and what changes it as a whole |
//! | [`mod@bulk`] | `/events` and `/ingest`: many writes in one body |
//! | [`mod@queue`] | events that are acknowledged at once and counted soon after |
//! | [`mod@limits`] | rate limits |
//! | [`mod@boards`] | boards: members with scores |
//! | [`mod@redis`] | redis's dialect |
//! | [`mod@deployment`] | keys, shares, alerts, and the state of the deployment |
//! | [`mod@archive`] | the deployment's data as files: exports, imports, snapshots, repairs |
//! | [`mod@pages`] | what pages embed and show |
//!
//! On Workers a request may read memory that another wrote, but none ever wakes another: the platform would resume it
//! in the wrong request's context. Each waits by its own timer. Elsewhere a lane wakes its writes.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

mod archive;
mod boards;
mod bulk;
mod deployment;
mod dispatch;
mod kit;
#[cfg_attr(
    not(feature = "limits"),
    expect(dead_code, reason = "budgets of keys use a part of it")
)]
mod limits;
mod pages;
#[cfg(feature = "queue")]
mod queue;
mod read;
#[cfg(feature = "redis")]
mod redis;
mod write;

use futures_util::future::LocalBoxFuture;

use deployment::callers::identify;
use deployment::canary;
use dispatch::handle;
use kit::body;
use kit::request_context::RequestContext;
use kit::respond::{self, Answer};
#[cfg(feature = "limits")]
use limits::repeated_checks;
#[cfg(feature = "live")]
use pages::live;
#[cfg(feature = "queue")]
use queue::producer;
#[cfg(feature = "redis")]
pub use redis::batch::{open_subscription, run_commands, run_parts};
#[cfg(feature = "redis")]
use redis::calls as redis_calls;
use tally_api::access::Right;
use tally_api::routes::{NoRoute, Route, RouteName, is_gate, resolve};
use tally_host::Host;
use tally_host::http::{Context, Request, Response};

/// Answers one request of a client.
pub fn fetch(
    request: Box<dyn Request>,
    host: Host,
    background: Context,
) -> LocalBoxFuture<'static, Response> {
    Box::pin(async move {
        let context = RequestContext::new(request, host, background, canary::look);
        #[cfg(feature = "limits")]
        if let Some(known) = repeated_checks::again(&context) {
            return known;
        }
        if let Err(problem) = context.check_local() {
            body::drain(&context).await;
            return respond::respond(&context, RouteName::Other, Answer::from(problem));
        }
        if context.method() == "OPTIONS" && !is_gate(context.path()) {
            let of_redis = None;
            #[cfg(feature = "redis")]
            let of_redis = of_redis.or_else(|| redis_calls::allow_of(&context));
            return respond::preflight(&context, of_redis);
        }
        let route = resolve(context.method(), context.path());
        // Whatever few requests need is in a box: each request moves a future as large as all of this.
        if !is_open(&route)
            && let Some(authorization) = context.header("authorization")
            && let Err(problem) = Box::pin(identify(&context, &authorization)).await
        {
            body::drain(&context).await;
            #[cfg(feature = "redis")]
            if let Some(refused) = redis_calls::refuse(&context, &problem) {
                return refused;
            }
            return respond::respond(&context, RouteName::Other, Answer::from(problem));
        }
        #[cfg(feature = "queue")]
        producer::close_later(&context);
        #[cfg(feature = "redis")]
        if let Some(answered) = redis_calls::fetch(&context) {
            return answered.await;
        }
        let (name, answer) = match route {
            Ok(route) => {
                let name = route.name();
                #[cfg(feature = "live")]
                if route == Route::Live {
                    return Box::pin(live::fetch(&context)).await;
                }
                let answer = handle(&context, route).await;
                (name, answer.unwrap_or_else(Answer::from))
            }
            Err(no_route) => (RouteName::Other, Answer::from(no_route)),
        };
        // Otherwise a client that is refused before its body was read would see a reset connection.
        body::drain(&context).await;
        respond::respond(&context, name, answer)
    })
}

/// Returns whether everybody may make the call, so that it is answered whatever key was sent.
fn is_open(route: &Result<Route, NoRoute>) -> bool {
    matches!(route, Ok(route) if matches!(route.right(), Right::Everybody))
}
