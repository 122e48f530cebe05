//! Redis's dialect: commands over HTTP, as clients of its REST form send them, below `/redis` or at the root.
//!
//! Invariant: the rights of the caller's key are checked for each command before any command is forwarded. A forwarded
//! command has the required number of words.

use std::collections::BTreeMap;
use std::fmt::Display;

use futures_util::future::LocalBoxFuture;

use crate::deployment::api_keys;
use crate::deployment::audit;
use crate::deployment::key_budget;
use crate::kit::body;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::{self, Answer};
use tally_api::access::Caller;
use tally_api::keys::{KeyKind, command_key};
use tally_api::routes;
use tally_api::routes::{RouteName, not_shared};
use tally_host::http::Response;
use tally_host::{Host, State, Stream};
use tally_redis::command::{Act, Command, KeyspaceCommand, is_command};
use tally_redis::error;
use tally_redis::glob::literal_prefix;
use tally_redis::kept_replies::check_reply;
use tally_redis::notifications::Subscription;
use tally_redis::request::{
    COMMAND_BYTES_MAX, PIPELINE_BYTES_MAX, RedisRequest, token_of, without_token,
};
use tally_redis::scripts::known as scripts;
use tally_redis::scripts::table::Script;
use tally_shared::{call, call_within};
use tally_wire::audit::CallOutcome;
use tally_wire::messages::{Arguments, Attempts, Fault, RunCommands, Subscribe};
use tally_wire::names::{REDIS, REDIS_ROOT};
use tally_wire::problem::{Code, Problem, RETRY_AFTER_SECONDS};
use tally_wire::redis::{Encoding, Reply, UNAVAILABLE};
use tally_wire::rights::Scope;
use tally_wire::shell_limits::OPERATE_MS_MAX;

/// Where the dialect is answered.
const MOUNT: &str = "/redis";

/// How long the owner of the keys may take, milliseconds: for a root's operation, after waiting for the keys.
const RUN_MS_MAX: u64 = OPERATE_MS_MAX + 4_000;

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

fn refuse_as(context: &RequestContext, refusal: Refusal) -> Response {
    respond::respond(context, RouteName::Redis, answer_of(refusal))
}

/// The answer of a refusal. That of a method lists the allowed ones. That of a request which may be sent again has the
/// time for it.
fn answer_of(refusal: Refusal) -> Answer {
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
) -> Result<Option<Stream>, Refusal> {
    // Clients send an empty command as the body.
    body::drain(context).await;
    check_method(context)?;
    let caller = caller(context).await;
    let caller = caller.map_err(|problem| refusal_of(&problem))?;
    let subscription = subscription.map_err(|text| Refusal::of_request(400, text))?;
    for prefix in subscription.prefixes() {
        let may = caller.may(Scope::Read, prefix);
        may.map_err(|problem| Refusal::of_request(400, format!("NOPERM {}", problem.detail())))?;
    }
    if context.method() == "HEAD" {
        return Ok(None);
    }
    let message = Subscribe {
        channels: subscription.into(),
        caller: caller.owner(),
    };
    let stream = call::stream(&context.host, &message, None).await;
    let stream =
        stream.map_err(|fault| Refusal::unavailable(format_args!("{fault}; subscribe again")))?;
    match stream.status {
        200 => Ok(Some(stream)),
        429 => {
            let text = "ERR this key has as many streams, channels or long patterns as it may have; close some".to_owned();
            Err(Refusal::of_request(429, text))
        }
        _ => Err(Refusal::unavailable(
            "no stream can be opened now; subscribe again later",
        )),
    }
}

fn check_method(context: &RequestContext) -> Result<(), Refusal> {
    match context.method() {
        "GET" | "HEAD" | "POST" | "PUT" => Ok(()),
        _ => {
            let text = "ERR send GET, HEAD, POST or PUT".to_owned();
            Err(Refusal::of_request(405, text))
        }
    }
}

/// A refusal of a whole request.
struct Refusal {
    status: u16,
    text: String,
    /// When the request may be sent again, for `Retry-After`; `None` where that does not help.
    retry_after_seconds: Option<u32>,
}

impl Refusal {
    /// The refusal of what the caller must change before sending it again.
    fn of_request(status: u16, text: String) -> Refusal {
        Refusal {
            status,
            text,
            retry_after_seconds: None,
        }
    }

    /// The refusal of a command that was run alone, or whose outcome is unknown.
    fn of_reply(text: String) -> Refusal {
        let is_away = text.starts_with(UNAVAILABLE);
        Refusal {
            status: if is_away { 503 } else { 400 },
            text,
            retry_after_seconds: is_away.then_some(RETRY_AFTER_SECONDS),
        }
    }

    /// The refusal of a command whose receiver does not answer.
    fn unavailable(text: impl Display) -> Refusal {
        Refusal::of_reply(format!("{UNAVAILABLE} {text}"))
    }
}

fn refusal_of(problem: &Problem) -> Refusal {
    let text = match problem.code() {
        Code::Unauthorized => format!(
            "WRONGPASS invalid or missing auth token: {}",
            problem.detail()
        ),
        Code::Forbidden => format!("NOPERM {}", problem.detail()),
        _ => format!("ERR {}", problem.detail()),
    };
    Refusal {
        status: problem.code().status(),
        text,
        retry_after_seconds: problem.retry_after_seconds(),
    }
}

async fn answer(context: &RequestContext, rest: &str) -> Result<Answer, Refusal> {
    check_method(context)?;
    let caller = caller(context).await;
    let caller = caller.map_err(|problem| refusal_of(&problem))?;
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
        return Err(Refusal::of_request(400, text));
    }
    let request = RedisRequest::parse(rest, context.query(), &body)
        .map_err(|text| Refusal::of_request(400, text))?;
    let work = Work {
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
        return Err(Refusal::of_request(405, text));
    }
    match request {
        RedisRequest::One(args) => {
            let replies = work.run(vec![args], false).await?;
            let reply = replies.first().cloned().unwrap_or(Reply::Nil);
            match reply {
                Reply::Error(text) => Err(Refusal::of_reply(text)),
                reply => Ok(Answer::json(reply.to_json(encoding))),
            }
        }
        RedisRequest::Pipeline(commands) => work
            .run(commands, false)
            .await
            .map(|replies| several(&replies, encoding)),
        RedisRequest::Transaction(commands) => {
            if commands.iter().any(|args| work.aborts(args)) {
                let text = "EXECABORT Transaction discarded because of previous errors.";
                return Err(Refusal::of_request(400, text.to_owned()));
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
    if caller.is_public() {
        return Err(Problem::new(
            Code::Unauthorized,
            "send a key as `Authorization: Bearer <key>`",
        ));
    }
    // Keys are texts, hashes and sets too, which shares are not for.
    if caller.is_share() {
        return Err(not_shared());
    }
    Ok(caller)
}

/// The commands of one request.
struct Work<'a> {
    context: &'a RequestContext,
    caller: &'a Caller,
    /// The idempotency key, if the client sent one.
    key: Option<RequestKey>,
    path: &'a str,
    body: &'a [u8],
}

impl Work<'_> {
    /// As [`Work::admit`], and checks the options of `FLUSHDB`, because that is written to the audit log before it is
    /// sent. Also checks that the reply to a command with a key may be stored.
    fn check(&self, args: &Arguments) -> Result<(&'static Command, usize), Reply> {
        let admitted = self.admit(args)?;
        if self.key.is_some() {
            check_reply(args)?;
        }
        if is_flush(args) && !takes_flush(&args[1..]) {
            return Err(error::syntax());
        }
        Ok(admitted)
    }

    /// The command, if it exists and the caller may run it, and its cost for the budget of the caller's key: one for
    /// each of its keys; a script costs one.
    fn admit(&self, args: &Arguments) -> Result<(&'static Command, usize), Reply> {
        let command = Command::find(args)?;
        let keys = command.keys_of(args)?;
        command.check_keys(keys.len())?;
        let may = |scope, target: &str| {
            let may = self.caller.may(scope, target);
            may.map_err(|problem| Reply::Error(format!("NOPERM {}", problem.detail())))
        };
        if let Act::All(whole) = command.act {
            may(command.scope, prefix_of(whole, args))?;
        }
        let is_script = matches!(command.act, Act::Script);
        let cost = if is_script { 1 } else { keys.len().max(1) };
        let script = is_script.then(|| scripts::named(args).ok()).flatten();
        for (index, key) in keys.into_iter().enumerate() {
            match script {
                Some(Script::Reset) => may(Scope::Admin, literal_prefix(key))?,
                // The names of the sets that the script reads begin with this one, which may be empty.
                Some(Script::Union | Script::Tops) => may(Scope::Read, key)?,
                // The limit of this script is in no key.
                _ if is_script && index > 0 && key.is_empty() => {}
                Some(script) if !script.writes() => may(Scope::Read, key)?,
                _ => may(command.scope, key)?,
            }
        }
        Ok((command, cost))
    }

    /// Whether a transaction with this command is discarded. An invalid count of keys, or an invalid option, is an
    /// error of this command only. As in Redis, it is found when the command runs.
    fn aborts(&self, args: &Arguments) -> bool {
        match Command::find(args) {
            Err(_) => true,
            Ok(command) => command.keys_of(args).is_ok() && self.admit(args).is_err(),
        }
    }

    /// Runs the commands: those without keys here, all others at the owner of the keys.
    async fn run(
        &self,
        commands: Vec<Arguments>,
        is_transaction: bool,
    ) -> Result<Vec<Reply>, Refusal> {
        let now_ms = self.context.host.now_ms();
        let mut cost = 0;
        let mut replies = Vec::with_capacity(commands.len());
        let mut sent = Vec::new();
        let mut indices = Vec::new();
        for args in commands {
            let checked = self.check(&args);
            cost += checked.as_ref().map_or(1, |(_, cost)| *cost);
            replies.push(match checked.map(|(command, _)| command.act) {
                Err(refused) => refused,
                Ok(Act::Alone(run)) => run(&args, now_ms).unwrap_or_else(|refused| refused),
                Ok(_) => {
                    indices.push(replies.len());
                    sent.push(args);
                    Reply::Nil
                }
            });
        }
        // Commands without an object have no effects, so they may run first.
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let spent = key_budget::spend_body(self.context, self.caller, cost).await;
        spent.map_err(|problem| refusal_of(&problem))?;
        if sent.is_empty() {
            return Ok(replies);
        }
        let message = RunCommands {
            datacenter: self.context.datacenter(),
            attempts: self.attempts(&sent),
            account: self.caller.writer_account(),
            commands: sent,
            is_transaction,
        };
        let flushes = message.commands.iter().any(is_flush);
        if flushes {
            let (context, caller) = (self.context, self.caller);
            audit::begin_named(context, caller, "POST /redis", "FLUSHALL", false).await;
        }
        let waiting = self.context.waiting();
        let answered = call_within(&self.context.host, &message, RUN_MS_MAX).await;
        drop(waiting);
        if flushes && answered.is_ok() {
            audit::end_as(self.context, CallOutcome::Done).await;
        }
        let answered = answered.map_err(|fault| unanswered(&fault))?;
        for (index, reply) in indices.into_iter().zip(answered) {
            if let Some(known) = replies.get_mut(index) {
                *known = reply;
            }
        }
        Ok(replies)
    }

    /// The names of the attempts, if the client sent a key for them. A command that reads has none: it is done again,
    /// and its reply is not stored. The name of a command contains its Redis keys, as that of a write contains its
    /// counter.
    fn attempts(&self, commands: &[Arguments]) -> Option<Attempts> {
        let key = self.key.as_ref()?;
        let hashed = |bytes: &[u8]| key.hash(bytes);
        let name = key.name(KeyKind::Command);
        let mut earlier = BTreeMap::<Vec<&[u8]>, u32>::new();
        let names = commands.iter().map(|args| {
            let command = Command::find(args).ok();
            let command = command.filter(|command| command.may_write(args))?;
            let redis_keys = command.keys_of(args).unwrap_or_default().into_iter();
            let redis_keys: Vec<&[u8]> = redis_keys.map(|key| key.as_bytes()).collect();
            let nth = earlier.entry(redis_keys.clone()).or_default();
            let name = command_key(&hashed, name, &redis_keys, *nth);
            *nth += 1;
            Some(name)
        });
        let query = without_token(self.context.query());
        let call = [b"redis", self.path.as_bytes(), query.as_bytes()];
        Some(Attempts {
            names: names.collect(),
            caller: key.account_hash(),
            request: key.request_hash(&call, self.body),
        })
    }
}

/// The prefix of the keys that a command over all keys is about.
fn prefix_of(whole: KeyspaceCommand, args: &Arguments) -> &str {
    match whole {
        KeyspaceCommand::Size | KeyspaceCommand::Flush => "",
        KeyspaceCommand::Keys => literal_prefix(&args[1]),
        KeyspaceCommand::Scan => {
            // The last pattern is used, and the value of an option may look like an option.
            let (mut words, mut pattern) = (args.iter().skip(2), "");
            while let Some(word) = words.next() {
                if word.eq_ignore_ascii_case("WITHTYPE") {
                    continue;
                }
                let value = words.next().map_or("", String::as_str);
                if word.eq_ignore_ascii_case("MATCH") {
                    pattern = value;
                }
            }
            literal_prefix(pattern)
        }
    }
}

/// Whether these words are a command that may have an effect.
fn may_write(args: &Arguments) -> bool {
    Command::find(args).is_ok_and(|command| command.may_write(args))
}

/// Whether these are options of `FLUSHDB`. They have no effect here.
fn takes_flush(options: &[String]) -> bool {
    match options {
        [] => true,
        [option] => option.eq_ignore_ascii_case("ASYNC") || option.eq_ignore_ascii_case("SYNC"),
        _ => false,
    }
}

/// Whether a command deletes all keys: that is written to the audit log.
fn is_flush(args: &Arguments) -> bool {
    let command = Command::find(args);
    command.is_ok_and(|command| matches!(command.act, Act::All(KeyspaceCommand::Flush)))
}

fn unanswered(fault: &Fault) -> Refusal {
    Refusal::unavailable(format_args!(
        "{fault}; commands may or may not have been carried out"
    ))
}
