//! Redis's dialect: commands over HTTP, as clients of its REST form send them, below `/redis` or at the root.

use futures_util::future::LocalBoxFuture;

use super::work::{
    CommandRefusal, CommandWork, admit, check_subscription, may_write, refusal_of, subscribe,
};
use crate::deployment::api_keys;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::{self, Answer};
use tally_api::access::Caller;
use tally_api::routes;
use tally_api::routes::RouteName;
use tally_host::http::Response;
use tally_host::{Host, State, Stream};
use tally_redis::command::is_command;
use tally_redis::notifications::Subscription;
use tally_redis::request::{COMMAND_BYTES_MAX, PIPELINE_BYTES_MAX, RedisRequest, token_of};
use tally_wire::names::{REDIS, REDIS_ROOT};
use tally_wire::problem::Problem;
use tally_wire::redis::{Encoding, Reply};

/// Where the dialect is answered.
const MOUNT: &str = "/redis";

/// Where the dialect is answered in addition.
enum ExtraMount {
    Nowhere,
    /// At the root, where a path matches no other call.
    Root,
    /// Everywhere at this host.
    Host(String),
}

impl State for ExtraMount {
    fn begin(host: &Host) -> Self {
        match host.setting(REDIS).as_deref() {
            Some(REDIS_ROOT) => Self::Root,
            Some(name) if name.contains(['.', ':']) => Self::Host(name.to_ascii_lowercase()),
            _ => Self::Nowhere,
        }
    }
}

/// The rest of a request's path after the mount point; `None` for requests that are not of the dialect.
fn rest_of(context: &RequestContext) -> Option<&str> {
    let path = context.path();
    if let Some(rest) = path.strip_prefix(MOUNT)
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return Some(rest);
    }
    match &*context.host.state::<ExtraMount>() {
        ExtraMount::Nowhere => return None,
        ExtraMount::Root => {}
        ExtraMount::Host(name) => {
            let host_header = context.header("host").map(|host| host.to_ascii_lowercase());
            return (host_header.as_ref() == Some(name)).then_some(path);
        }
    }
    let first = path
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    let is_ours = match first {
        "" => matches!(context.method(), "POST" | "PUT" | "OPTIONS") && path == "/",
        "pipeline" | "multi-exec" => true,
        "subscribe" | "psubscribe" => path.len() > first.len() + 1,
        // The first part of other paths is no command. `/keys/{id}` is a call of Tally's own.
        name => is_command(name) && routes::allow_of(path).is_none(),
    };
    is_ours.then_some(path)
}

/// The methods of the dialect.
const ALLOWED: &str = "GET, HEAD, POST, PUT, OPTIONS";

/// The methods of the dialect, for a preflight of one of its paths.
pub fn allow_of(context: &RequestContext) -> Option<String> {
    rest_of(context).map(|_| ALLOWED.to_owned())
}

/// Answers a request of the dialect; `None` for others.
pub fn fetch(context: &RequestContext) -> Option<LocalBoxFuture<'_, Response>> {
    let rest = rest_of(context)?;
    Some(Box::pin(fetch_rest(context, rest)))
}

async fn fetch_rest(context: &RequestContext, rest: &str) -> Response {
    if let Some(subscription) = Subscription::of_path(rest) {
        return match listen(context, subscription).await {
            Ok(stream) => respond::events(context, RouteName::Redis, stream),
            Err(refusal) => refuse_as(context, refusal),
        };
    }
    let route = match rest.trim_matches('/') {
        "pipeline" => RouteName::RedisPipeline,
        "multi-exec" => RouteName::RedisTransaction,
        _ => RouteName::Redis,
    };
    let answer = match answer(context, rest).await {
        Ok(answer) => answer,
        Err(refusal) => {
            body::drain(context).await;
            answer_of(refusal)
        }
    };
    // Clients send the token back, as the position of the writes that they have seen.
    let token = format!("{:x}-{:x}", context.host.now_ms(), context.host.random());
    let answer = answer.with_header("upstash-sync-token", token);
    respond::respond(context, route, answer)
}

/// The refusal of a request of the dialect before it is read; `None` for others.
pub fn refuse(context: &RequestContext, problem: &Problem) -> Option<Response> {
    rest_of(context)?;
    Some(refuse_as(context, refusal_of(problem)))
}

fn refuse_as(context: &RequestContext, refusal: CommandRefusal) -> Response {
    respond::respond(context, RouteName::Redis, answer_of(refusal))
}

/// The answer of a refusal. That of a method lists the allowed ones. That of a request which may be sent again has the
/// time for it.
fn answer_of(refusal: CommandRefusal) -> Answer {
    let text = Reply::Error(refusal.text).to_json(Encoding::Plain);
    let answer = Answer::json(text).with_status(refusal.status);
    let answer = match refusal.retry_after_seconds {
        Some(seconds) => answer.with_header("retry-after", seconds.to_string()),
        None => answer,
    };
    match refusal.status {
        405 => answer.with_header("allow", ALLOWED.to_owned()),
        _ => answer,
    }
}

/// The stream of a listener; `None` for `HEAD`.
async fn listen(
    context: &RequestContext,
    subscription: Result<Subscription, String>,
) -> Result<Option<Stream>, CommandRefusal> {
    // Clients send an empty command as the body.
    body::drain(context).await;
    check_method(context)?;
    let caller = caller(context).await;
    let caller = caller.map_err(|problem| refusal_of(&problem))?;
    let subscription = subscription.map_err(|text| CommandRefusal::of_request(400, text))?;
    check_subscription(&caller, &subscription)?;
    if context.method() == "HEAD" {
        return Ok(None);
    }
    subscribe(context, &caller, subscription).await.map(Some)
}

fn check_method(context: &RequestContext) -> Result<(), CommandRefusal> {
    match context.method() {
        "GET" | "HEAD" | "POST" | "PUT" => Ok(()),
        _ => {
            let text = "ERR send GET, HEAD, POST or PUT".to_owned();
            Err(CommandRefusal::of_request(405, text))
        }
    }
}

async fn answer(context: &RequestContext, rest: &str) -> Result<Answer, CommandRefusal> {
    check_method(context)?;
    let caller = caller(context).await;
    let caller = caller.map_err(|problem| refusal_of(&problem))?;
    if matches!(context.method(), "POST" | "PUT") {
        let refused = context.refuse_preconditions();
        refused.map_err(|problem| refusal_of(&problem))?;
    }
    let bytes_max = match rest.trim_matches('/') {
        "pipeline" | "multi-exec" => PIPELINE_BYTES_MAX,
        _ => COMMAND_BYTES_MAX,
    };
    let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let body = body::read_up_to(context, bytes_max).await;
    let body = body.map_err(|problem| refusal_of(&problem))?;
    let wanted = context.header("upstash-encoding");
    let encoding = match wanted.as_deref() {
        Some(name) if name.eq_ignore_ascii_case("base64") => Encoding::Base64,
        _ => Encoding::Plain,
    };
    if context
        .header("upstash-response-format")
        .is_some_and(|format| format != "json")
    {
        let text = "ERR replies are JSON here: leave Upstash-Response-Format out".to_owned();
        return Err(CommandRefusal::of_request(400, text));
    }
    let request = RedisRequest::parse(rest, context.query(), &body)
        .map_err(|text| CommandRefusal::of_request(400, text))?;
    let work = CommandWork {
        context,
        caller: &caller,
        key: RequestKey::of(context, &caller)
            .await
            .map_err(|problem| refusal_of(&problem))?,
        path: rest,
        body: &body,
    };
    if context.method() == "HEAD" && request.commands().iter().any(may_write) {
        let text = "ERR HEAD reads and changes nothing; send POST, PUT or GET".to_owned();
        return Err(CommandRefusal::of_request(405, text));
    }
    match request {
        RedisRequest::One(args) => {
            let replies = work.run(vec![args], false).await?;
            let reply = replies.first().cloned().unwrap_or(Reply::Nil);
            match reply {
                Reply::Error(text) => Err(CommandRefusal::of_reply(text)),
                reply => Ok(Answer::json(reply.to_json(encoding))),
            }
        }
        RedisRequest::Pipeline(commands) => work
            .run(commands, false)
            .await
            .map(|replies| several(&replies, encoding)),
        RedisRequest::Transaction(commands) => {
            if work.aborts(&commands).await {
                return Err(CommandRefusal::aborted());
            }
            work.run(commands, true)
                .await
                .map(|replies| several(&replies, encoding))
        }
    }
}

fn several(replies: &[Reply], encoding: Encoding) -> Answer {
    let mut json = String::from("[");
    for (index, reply) in replies.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        reply.write_answer(&mut json, encoding);
    }
    json.push(']');
    Answer::json(json)
}

/// The caller: by the header, or by `_token` in the query. Without a key, or with a share, nothing is allowed, unless
/// the deployment is open.
async fn caller(context: &RequestContext) -> Result<Caller, Problem> {
    let caller = match token_of(context.query()) {
        Some(token) if context.header("authorization").is_none() => {
            api_keys::identify_by(context, &token).await?
        }
        _ => context.caller()?,
    };
    admit(caller)
}
