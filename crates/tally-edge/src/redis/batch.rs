//! Commands that arrive together over a connection of Redis's protocol. A platform with such connections reads and
//! encodes them.
//!
//! Invariant: they run as a request by HTTP with the same key does: with its rights, budgets, metrics and audit log.

use super::work::{CommandRefusal, CommandWork, admit, check_subscription, refusal_of, subscribe};
use crate::kit::request_context::RequestContext;
use crate::kit::respond::{self, Answer};
use tally_api::access::Caller;
use tally_api::routes::RouteName;
use tally_host::Stream;
use tally_redis::notifications::Subscription;
use tally_redis::request::CommandBatch;
use tally_wire::problem::{Code, Problem};
use tally_wire::redis::Reply;

/// Runs them. `identified`: what came of looking for the caller. Without commands, only the key is checked.
///
/// # Errors
/// The error of Redis for all of them.
pub(crate) async fn run(
    context: &RequestContext,
    identified: Result<(), Problem>,
    batch: CommandBatch,
) -> Result<Vec<Reply>, String> {
    let route = match batch.is_transaction {
        true => RouteName::RedisTransaction,
        false => RouteName::RedisPipeline,
    };
    let ran = run_as_caller(context, identified, batch).await;
    count(context, route, ran)
}

/// Opens the stream of a subscription.
///
/// # Errors
/// The error of Redis.
pub(crate) async fn listen(
    context: &RequestContext,
    identified: Result<(), Problem>,
    subscription: Subscription,
) -> Result<Stream, String> {
    let opened = listen_as_caller(context, identified, subscription).await;
    count(context, RouteName::Redis, opened)
}

async fn run_as_caller(
    context: &RequestContext,
    identified: Result<(), Problem>,
    batch: CommandBatch,
) -> Result<Vec<Reply>, CommandRefusal> {
    let caller = caller_of(context, identified)?;
    let work = CommandWork {
        context,
        caller: &caller,
        key: None,
        path: "",
        body: b"",
    };
    if batch.is_transaction && batch.commands.iter().any(|args| work.aborts(args)) {
        return Err(CommandRefusal::aborted());
    }
    work.run(batch.commands, batch.is_transaction).await
}

async fn listen_as_caller(
    context: &RequestContext,
    identified: Result<(), Problem>,
    subscription: Subscription,
) -> Result<Stream, CommandRefusal> {
    let caller = caller_of(context, identified)?;
    check_subscription(&caller, &subscription)?;
    subscribe(context, &caller, subscription).await
}

fn caller_of(
    context: &RequestContext,
    identified: Result<(), Problem>,
) -> Result<Caller, CommandRefusal> {
    let caller = identified.and_then(|()| admit(context.caller()?));
    caller.map_err(|problem| match problem.code() {
        Code::Unauthorized if context.header("authorization").is_none() => {
            CommandRefusal::of_request(401, "NOAUTH Authentication required.".to_owned())
        }
        _ => refusal_of(&problem),
    })
}

/// Counts the request in the metrics.
fn count<T>(
    context: &RequestContext,
    route: RouteName,
    outcome: Result<T, CommandRefusal>,
) -> Result<T, String> {
    let status = outcome
        .as_ref()
        .map_or_else(|refusal| refusal.status, |_| 200);
    drop(respond::respond(
        context,
        route,
        Answer::json(String::new()).with_status(status),
    ));
    outcome.map_err(|refusal| refusal.text)
}
