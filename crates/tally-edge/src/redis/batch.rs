//! Commands that arrive together over a connection of Redis's protocol. A platform with such connections reads and
//! encodes them.
//!
//! Invariant: they run as a request by HTTP with the same key does: with its rights, budgets, metrics and audit log.

use futures_util::future::LocalBoxFuture;

use super::work::{CommandRefusal, CommandWork, admit, check_subscription, refusal_of, subscribe};
use crate::deployment::callers::identify;
use crate::deployment::canary;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::{self, Answer};
use tally_api::access::Caller;
use tally_api::routes::RouteName;
use tally_host::http::{Context, Request};
use tally_host::{Host, Stream};
use tally_redis::notifications::Subscription;
use tally_redis::request::CommandBatch;
use tally_wire::problem::{Code, Problem};
use tally_wire::redis::Reply;

/// Runs commands that arrived together over a connection of Redis's protocol. `request`: who sent them, with the key of
/// the connection as its `Authorization`. Returns a reply for each command, or the error of Redis for all of them.
pub fn run_commands(
    request: Box<dyn Request>,
    host: Host,
    background: Context,
    batch: CommandBatch,
) -> LocalBoxFuture<'static, Result<Vec<Reply>, String>> {
    Box::pin(async move {
        let context = RequestContext::new(request, host, background, canary::look);
        let identified = identify_connection(&context).await;
        run(&context, identified, batch).await
    })
}

/// Opens the stream of a subscription that arrived over a connection of Redis's protocol. Returns the error of Redis
/// where there is none.
pub fn open_subscription(
    request: Box<dyn Request>,
    host: Host,
    background: Context,
    subscription: Subscription,
) -> LocalBoxFuture<'static, Result<Stream, String>> {
    Box::pin(async move {
        let context = RequestContext::new(request, host, background, canary::look);
        let identified = identify_connection(&context).await;
        listen(&context, identified, subscription).await
    })
}

/// Identifies the caller of a connection.
async fn identify_connection(context: &RequestContext) -> Result<(), Problem> {
    context.check_local()?;
    match context.header("authorization") {
        Some(authorization) => identify(context, &authorization).await,
        None => Ok(()),
    }
}

/// Runs them. `identified`: what came of looking for the caller. Without commands, only the key is checked.
///
/// # Errors
/// The error of Redis for all of them.
async fn run(
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
async fn listen(
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
