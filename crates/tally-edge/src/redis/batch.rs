//! Commands that arrive together over a connection of Redis's protocol. A platform with such connections reads and
//! encodes them.
//!
//! Invariant: they run as a request by HTTP with the same key does: with its rights, budgets, metrics and audit log.

use futures_util::future::{LocalBoxFuture, join_all};

use super::work::{CommandRefusal, CommandWork, admit, check_subscription, refusal_of, subscribe};
use crate::deployment::callers::identify;
use crate::deployment::canary;
use crate::deployment::key_budget;
use crate::kit::request_context::RequestContext;
use crate::kit::respond;
use tally_api::access::Caller;
use tally_api::routes::RouteName;
use tally_host::http::{Context, Request};
use tally_host::{Host, Stream};
use tally_redis::notifications::Subscription;
use tally_redis::request::CommandBatch;
use tally_redis::together::divide;
use tally_wire::messages::Arguments;
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
        let (context, identified) = begin(request, host, background).await;
        run(&context, identified, batch).await
    })
}

/// As [`run_commands`], for commands that several connections of one client sent at once. Returns the outcome of each
/// part: of the commands of one connection.
pub fn run_parts(
    request: Box<dyn Request>,
    host: Host,
    background: Context,
    parts: Vec<Vec<Arguments>>,
) -> LocalBoxFuture<'static, Vec<Result<Vec<Reply>, String>>> {
    Box::pin(async move {
        let (context, identified) = begin(request, host, background).await;
        run_together(&context, identified, parts).await
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
        let (context, identified) = begin(request, host, background).await;
        listen(&context, identified, subscription).await
    })
}

/// The request of a connection, and whether its caller is known.
async fn begin(
    request: Box<dyn Request>,
    host: Host,
    background: Context,
) -> (RequestContext, Result<(), Problem>) {
    let context = RequestContext::new(request, host, background, canary::look);
    let identified = identify_connection(&context).await;
    (context, identified)
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

/// Runs parts as one batch, unless the client's key has a budget, because a batch that exceeds a budget is refused as a
/// whole.
async fn run_together(
    context: &RequestContext,
    identified: Result<(), Problem>,
    parts: Vec<Vec<Arguments>>,
) -> Vec<Result<Vec<Reply>, String>> {
    let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
    let divided = |outcome| {
        for _ in &lengths {
            respond::count(context, RouteName::RedisPipeline, status_of(&outcome));
        }
        divide(&lengths, outcome.map_err(|refusal| refusal.text))
    };
    let caller = match caller_of(context, identified) {
        Ok(caller) => caller,
        Err(refusal) => return divided(Err(refusal)),
    };
    let run = async |commands| work_of(context, &caller).run(commands, false).await;
    if caller.budgets().next().is_none() {
        return divided(run(parts.into_iter().flatten().collect()).await);
    }
    let run_part = async |(index, commands)| {
        let ran = match spend_as_request(context, &caller, index).await {
            Ok(()) => run(commands).await,
            Err(problem) => Err(refusal_of(&problem)),
        };
        count(context, RouteName::RedisPipeline, ran)
    };
    join_all(parts.into_iter().enumerate().map(run_part)).await
}

/// Uses what each request uses of a key's budget. The first part's was used when the caller was identified.
async fn spend_as_request(
    context: &RequestContext,
    caller: &Caller,
    index: usize,
) -> Result<(), Problem> {
    match index {
        0 => Ok(()),
        _ => key_budget::spend(context, caller, 1).await,
    }
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
    let work = work_of(context, &caller);
    if batch.is_transaction && work.aborts(&batch.commands).await {
        return Err(CommandRefusal::aborted());
    }
    work.run(batch.commands, batch.is_transaction).await
}

fn work_of<'a>(context: &'a RequestContext, caller: &'a Caller) -> CommandWork<'a> {
    CommandWork {
        context,
        caller,
        key: None,
        path: "",
        body: b"",
    }
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
    respond::count(context, route, status_of(&outcome));
    outcome.map_err(|refusal| refusal.text)
}

fn status_of<T>(outcome: &Result<T, CommandRefusal>) -> u16 {
    outcome
        .as_ref()
        .map_or_else(|refusal| refusal.status, |_| 200)
}
