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
use crate::protocol::access::{Permission, Scope};
use crate::protocol::names::limit_right;
use crate::protocol::problem::Problem;
use crate::protocol::routes::{Route, RouteName, resolve};
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

async fn handle(visit: &Visit, route: Route) -> Result<Answer, Problem> {
    match (route, visit.caller()) {
        (Route::Health, _) => health::health(visit).await,
        (Route::Index, _) => Ok(files::index(visit)),
        (Route::OpenApi, _) => files::openapi(&visit.host),
        (Route::Script, _) => files::script(&visit.host),
        (Route::Pixel(id), _) => pages::pixel(visit, &visit.caller_of_image()?, id).await,
        (Route::Badge(id), _) => pages::badge(visit, &visit.caller_of_image()?, id).await,
        (Route::Dashboard(name), _) => files::dashboard(&visit.host, name.as_deref()),
        (_, Err(problem)) => Err(problem),
        // It is answered by a stream.
        (Route::Live, _) => Ok(Answer::text(String::new())),
        // The numbers are of all counters, so a key for a prefix does not do.
        (Route::Metrics, Ok(caller)) => {
            caller.may(Scope::Admin, "")?;
            metrics::metrics(visit).await
        }
        (Route::Increment(id), Ok(caller)) => {
            caller.may(Scope::Write, id.as_str())?;
            write::increment(visit, &caller, id).await
        }
        (Route::Decrement(id), Ok(caller)) => {
            caller.may(Scope::Write, id.as_str())?;
            write::decrement(visit, &caller, id).await
        }
        (Route::Read(id), Ok(caller)) => {
            caller.may(Scope::Read, id.as_str())?;
            read::counter(visit, id).await
        }
        (Route::History(id), Ok(caller)) => {
            caller.may(Scope::Read, id.as_str())?;
            read::history(visit, id).await
        }
        (Route::Distribution(id), Ok(caller)) => {
            caller.may(Scope::Read, id.as_str())?;
            distribution::distribution(visit, id).await
        }
        (Route::ExportHyll(id), Ok(caller)) => {
            caller.may(Scope::Read, id.as_str())?;
            hyll::export(visit, id).await
        }
        (Route::ImportHyll(id), Ok(caller)) => {
            caller.may(Scope::Write, id.as_str())?;
            caller.may_write(id.as_str(), 0, &[Permission::Hyll])?;
            hyll::import(visit, id).await
        }
        (Route::Uniques, Ok(caller)) => uniques::uniques(visit, &caller).await,
        (Route::List, Ok(caller)) => manage::list(visit, &caller).await,
        (Route::Aggregate(prefix), Ok(caller)) => {
            caller.may_list(&prefix)?;
            aggregate::aggregate(visit, prefix).await
        }
        (Route::Put(id), Ok(caller)) => {
            caller.may(Scope::Admin, id.as_str())?;
            manage::put(visit, id).await
        }
        (Route::Set(id), Ok(caller)) => {
            caller.may(Scope::Admin, id.as_str())?;
            manage::set(visit, id).await
        }
        (Route::Reset(id), Ok(caller)) => {
            caller.may(Scope::Admin, id.as_str())?;
            manage::reset(visit, id).await
        }
        (Route::Delete(id), Ok(caller)) => {
            caller.may(Scope::Admin, id.as_str())?;
            manage::delete(visit, id).await
        }
        (Route::Rotate, Ok(caller)) => {
            caller.may(Scope::Admin, "")?;
            uniques::rotate(visit).await
        }
        (Route::Events, Ok(caller)) => {
            caller.may_somewhere(Scope::Write, &[])?;
            bulk::events(visit, &caller).await
        }
        (Route::Event, Ok(caller)) => {
            caller.may_somewhere(Scope::Write, &[])?;
            queue::event(visit, &caller).await
        }
        (Route::Count, Ok(caller)) => queue::counter(visit, &caller).await,
        (Route::DeadLetters, Ok(caller)) => {
            caller.may(Scope::Admin, "")?;
            queue::dead_letters(visit).await
        }
        (Route::ListPolicies, Ok(caller)) => limits::list_policies(visit, &caller).await,
        (Route::CheckMany, Ok(caller)) => limit_checks::check_many(visit, &caller).await,
        (Route::GetPolicy(name), Ok(caller)) => {
            caller.may_limit(Scope::Read, &limit_right(&name, None))?;
            limits::get_policy(visit, name).await
        }
        (Route::PutPolicy(name), Ok(caller)) => {
            caller.may_limit(Scope::Admin, &limit_right(&name, None))?;
            limits::put_policy(visit, name).await
        }
        (Route::DeletePolicy(name), Ok(caller)) => {
            caller.may_limit(Scope::Admin, &limit_right(&name, None))?;
            limits::delete_policy(visit, name).await
        }
        (Route::Check(name, key), Ok(caller)) => limits::check(visit, &caller, name, key).await,
        (Route::Peek(name, key), Ok(caller)) => {
            caller.may_limit(Scope::Read, &limit_right(&name, Some(&key)))?;
            limits::peek(visit, name, key).await
        }
        (Route::Forget(name, key), Ok(caller)) => {
            caller.may_limit(Scope::Admin, &limit_right(&name, Some(&key)))?;
            limits::forget(visit, name, key).await
        }
        (Route::Refund(name, key), Ok(caller)) => {
            caller.may_limit(Scope::Refund, &limit_right(&name, Some(&key)))?;
            limits::refund(visit, name, key).await
        }
        (Route::Ingest, Ok(caller)) => {
            caller.may_somewhere(Scope::Write, &[Permission::Ingest])?;
            bulk::ingest(visit, &caller).await
        }
    }
}
