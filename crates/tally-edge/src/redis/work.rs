//! The commands of one request, by whichever door they arrive: their rights, their cost, and the call to the owner of
//! their keys.
//!
//! Invariant: the rights of the caller's key are checked for each command before any command is forwarded. A forwarded
//! command has the required number of words.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::deployment::audit;
use crate::deployment::key_budget;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use tally_api::access::Caller;
use tally_api::idempotency_keys::{KeyKind, command_key};
use tally_api::metrics::Metric;
use tally_api::routes::not_shared;
use tally_host::Stream;
use tally_redis::command::{Act, Command, KeyspaceCommand};
use tally_redis::error;
use tally_redis::glob::literal_prefix;
use tally_redis::kept_replies::check_reply;
use tally_redis::notifications::Subscription;
use tally_redis::request::without_token;
use tally_redis::scripts::known as scripts;
use tally_redis::scripts::table::Script;
use tally_shared::{call, call_within, metrics};
use tally_wire::audit::CallOutcome;
use tally_wire::messages::{Arguments, Attempts, Fault, RunCommands, Subscribe};
use tally_wire::problem::{Code, Problem, RETRY_AFTER_SECONDS};
use tally_wire::redis::{Reply, UNAVAILABLE};
use tally_wire::rights::Scope;
use tally_wire::shell_limits::OPERATE_MS_MAX;

/// The call in the audit log, by whichever door a command arrives.
const REDIS_CALL: &str = "POST /redis";

/// How long the owner of the keys may take, milliseconds: for a root's operation, after waiting for the keys.
const RUN_MS_MAX: u64 = OPERATE_MS_MAX + 4_000;

/// A refusal of a whole request.
pub struct CommandRefusal {
    /// The status of an answer by HTTP.
    pub status: u16,
    /// The error of Redis.
    pub text: String,
    /// When the request may be sent again, for `Retry-After`; `None` where that does not help.
    pub retry_after_seconds: Option<u32>,
}

impl CommandRefusal {
    /// The refusal of what the caller must change before sending it again.
    pub fn of_request(status: u16, text: String) -> CommandRefusal {
        CommandRefusal {
            status,
            text,
            retry_after_seconds: None,
        }
    }

    /// The refusal of a command that was run alone, or whose outcome is unknown.
    pub fn of_reply(text: String) -> CommandRefusal {
        let is_away = text.starts_with(UNAVAILABLE);
        CommandRefusal {
            status: if is_away { 503 } else { 400 },
            text,
            retry_after_seconds: is_away.then_some(RETRY_AFTER_SECONDS),
        }
    }

    /// The refusal of a transaction with a command that cannot run.
    pub fn aborted() -> CommandRefusal {
        let text = "EXECABORT Transaction discarded because of previous errors.";
        CommandRefusal::of_request(400, text.to_owned())
    }

    /// The refusal of a command whose receiver does not answer.
    pub fn unavailable(text: impl Display) -> CommandRefusal {
        CommandRefusal::of_reply(format!("{UNAVAILABLE} {text}"))
    }
}

/// A problem as an error of Redis.
pub fn refusal_of(problem: &Problem) -> CommandRefusal {
    let text = match problem.code() {
        Code::Unauthorized => format!(
            "WRONGPASS invalid or missing auth token: {}",
            problem.detail()
        ),
        Code::Forbidden => format!("NOPERM {}", problem.detail()),
        _ => format!("ERR {}", problem.detail()),
    };
    CommandRefusal {
        status: problem.code().status(),
        text,
        retry_after_seconds: problem.retry_after_seconds(),
    }
}

/// Succeeds for a caller that may run commands: one with a key that is no share, or anybody where the deployment is
/// open.
///
/// # Errors
/// `unauthorized`, `forbidden`.
pub fn admit(caller: Caller) -> Result<Caller, Problem> {
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

/// Succeeds where a caller may read what a subscription is about.
///
/// # Errors
/// `NOPERM`.
pub fn check_subscription(
    caller: &Caller,
    subscription: &Subscription,
) -> Result<(), CommandRefusal> {
    for prefix in subscription.prefixes() {
        let may = caller.may(Scope::Read, prefix);
        may.map_err(|problem| {
            CommandRefusal::of_request(400, format!("NOPERM {}", problem.detail()))
        })?;
    }
    Ok(())
}

/// Opens the stream of a subscription that its caller may have.
///
/// # Errors
/// If the caller has too many of them, or the owner of the keys does not answer.
pub async fn subscribe(
    context: &RequestContext,
    caller: &Caller,
    subscription: Subscription,
) -> Result<Stream, CommandRefusal> {
    let message = Subscribe {
        channels: subscription.into(),
        caller: caller.owner(),
    };
    let stream = call::stream(&context.host, &message, None).await;
    let stream = stream
        .map_err(|fault| CommandRefusal::unavailable(format_args!("{fault}; subscribe again")))?;
    match stream.status {
        200 => Ok(stream),
        429 => {
            let text = "ERR this key has as many streams, channels or long patterns as it may have; close some".to_owned();
            Err(CommandRefusal::of_request(429, text))
        }
        _ => Err(CommandRefusal::unavailable(
            "no stream can be opened now; subscribe again later",
        )),
    }
}

/// The commands of one request.
pub struct CommandWork<'a> {
    /// The request.
    pub context: &'a RequestContext,
    /// Its caller, who may run commands.
    pub caller: &'a Caller,
    /// The idempotency key, if the client sent one.
    pub key: Option<RequestKey>,
    /// The path of a request by HTTP, after the mount point.
    pub path: &'a str,
    /// The body of a request by HTTP.
    pub body: &'a [u8],
}

impl CommandWork<'_> {
    /// As [`CommandWork::admit`], and checks the options of `FLUSHDB`, because that is written to the audit log before
    /// it is sent. Also checks that the reply to a command with a key may be stored.
    fn check(&self, args: &Arguments) -> Result<(&'static Command, usize), Reply> {
        let admitted = self.admit(args)?;
        if self.key.is_some() {
            check_reply(args)?;
        }
        if flush_of(args).is_some() && !takes_flush(&args[1..]) {
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
                _ => may(command.scope_of(args), key)?,
            }
        }
        Ok((command, cost))
    }

    /// Whether a transaction with these commands is discarded.
    pub async fn aborts(&self, commands: &[Arguments]) -> bool {
        let aborts = commands.iter().any(|args| self.aborts_by(args));
        if aborts {
            for args in commands {
                if let Err(refused) = self.admit(args) {
                    self.log_refused_flush(args, &refused).await;
                }
            }
        }
        aborts
    }

    /// Whether this command discards its transaction. An invalid count of keys, or an invalid option, is an error of
    /// this command only. As in Redis, it is found when the command runs.
    fn aborts_by(&self, args: &Arguments) -> bool {
        match Command::find(args) {
            Err(_) => true,
            Ok(command) => command.keys_of(args).is_ok() && self.admit(args).is_err(),
        }
    }

    /// Writes a refused `FLUSHALL` or `FLUSHDB` of an admin to the audit log.
    async fn log_refused_flush(&self, args: &Arguments, refused: &Reply) {
        let is_admin = || self.caller.may_somewhere(Scope::Admin, &[]).is_ok();
        let Some(flush) = flush_of(args).filter(|_| is_admin()) else {
            return;
        };
        let status = match refused {
            Reply::Error(text) if text.starts_with("NOPERM") => 403,
            _ => 400,
        };
        audit::begin_named(self.context, self.caller, REDIS_CALL, &flush, true).await;
        audit::end_as(self.context, CallOutcome::Refused(status)).await;
    }

    /// Runs the commands: those without keys here, all others at the owner of the keys.
    ///
    /// # Errors
    /// If none of them was carried out, or that is unknown.
    pub async fn run(
        &self,
        commands: Vec<Arguments>,
        is_transaction: bool,
    ) -> Result<Vec<Reply>, CommandRefusal> {
        let now_ms = self.context.host.now_ms();
        let mut cost = 0;
        let mut replies = Vec::with_capacity(commands.len());
        let mut sent = Vec::new();
        let mut indices = Vec::new();
        for args in commands {
            let checked = self.check(&args);
            cost += checked.as_ref().map_or(1, |(_, cost)| *cost);
            if let Err(refused) = &checked {
                self.log_refused_flush(&args, refused).await;
            }
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
        let flush = message.commands.iter().find_map(flush_of);
        if let Some(flush) = &flush {
            audit::begin_named(self.context, self.caller, REDIS_CALL, flush, false).await;
        }
        let waiting = self.context.waiting();
        let answered = call_within(&self.context.host, &message, RUN_MS_MAX).await;
        drop(waiting);
        if flush.is_some() && answered.is_ok() {
            audit::end_as(self.context, CallOutcome::Done).await;
        }
        let answered = answered.map_err(|fault| unanswered(&fault))?;
        let done = message.commands.iter().zip(&answered);
        let done =
            done.filter(|(args, reply)| may_write(args) && !matches!(reply, Reply::Error(_)));
        let done = u64::try_from(done.count()).unwrap_or(u64::MAX);
        metrics::add(&self.context.host, Metric::AcknowledgedRedis, done);
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
pub fn may_write(args: &Arguments) -> bool {
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

/// The name of a command that deletes all keys: that is written to the audit log.
fn flush_of(args: &Arguments) -> Option<String> {
    let command = Command::find(args).ok()?;
    let is_flush = matches!(command.act, Act::All(KeyspaceCommand::Flush));
    args.first()
        .filter(|_| is_flush)
        .map(|name| name.to_ascii_uppercase())
}

fn unanswered(fault: &Fault) -> CommandRefusal {
    CommandRefusal::unavailable(format_args!(
        "{fault}; commands may or may not have been carried out"
    ))
}
