//! The scripts of rate-limit clients, found by the SHA-1 of their text. Each runs natively, with the replies of its
//! version.
//!
//! Keys that scripts write are strings and hashes of the dialect itself, not counters: a window expires after minutes.
//! Numbers are Lua's: 64-bit floats, truncated in replies.

use sha1::{Digest, Sha1};

use super::collections::{field, flat, put_fields};
use super::command::script_words;
use super::error;
use super::reply::{CommandResult, Reply};
use super::script_table::{Bucket, FirstBucket, KNOWN, Script, Sliding, WindowTtl};
use super::scripts_of_regions::{
    deny_list, fixed_fields, fixed_members, sliding_fields, sliding_fields_left, sliding_members,
};
use super::space::{Space, StoredValue, whole};
use tally_core::sha256;

/// The digest by which Redis names a script, as 40 hexadecimal digits. It protects nothing.
pub fn sha1_of(text: &str) -> String {
    sha256::hex(&Sha1::digest(text))
}

/// The script with this SHA-1.
pub fn find(sha: &str) -> Option<Script> {
    let sha = sha.to_ascii_lowercase();
    let found = KNOWN.iter().find(|(known, _)| *known == sha);
    found.map(|(_, script)| *script)
}

/// `SCRIPT LOAD`, `EXISTS`, `FLUSH`.
///
/// # Errors
/// As Redis.
pub fn script(args: &[String], _now_ms: i64) -> CommandResult {
    match (args[1].to_ascii_uppercase().as_str(), &args[2..]) {
        ("LOAD", [text]) => Ok(Reply::Text(sha1_of(text))),
        ("EXISTS", shas @ [_, ..]) => {
            let known = shas.iter().map(|sha| Reply::flag(find(sha).is_some()));
            Ok(Reply::Array(known.collect()))
        }
        ("FLUSH", []) => Ok(Reply::ok()),
        ("FLUSH", [mode]) if ["SYNC", "ASYNC"].contains(&mode.to_ascii_uppercase().as_str()) => {
            Ok(Reply::ok())
        }
        ("FLUSH", _) => Err(Reply::err("SCRIPT FLUSH only support SYNC|ASYNC option")),
        ("LOAD" | "EXISTS", _) => Err(error::arity(&format!("script|{}", args[1]))),
        _ => Err(Reply::err(format!(
            "unknown subcommand '{}'. Try SCRIPT HELP.",
            args[1]
        ))),
    }
}

/// The script that `EVAL` or `EVALSHA` names.
///
/// # Errors
/// `NOSCRIPT`; that Tally runs only the scripts that it knows; or that a script writes where none may.
pub fn named(args: &[String]) -> Result<Script, Reply> {
    let name = args[0].to_ascii_uppercase();
    let script = if name.starts_with("EVALSHA") {
        find(&args[1]).ok_or_else(error::no_script)?
    } else {
        find(&sha1_of(&args[1])).ok_or_else(|| {
            Reply::err("Tally runs the scripts of @upstash/ratelimit and upstash-ratelimit alone; this one is not of a version that it knows")
        })?
    };
    if name.ends_with("_RO") && script.writes() {
        return Err(error::read_only_script());
    }
    Ok(script)
}

/// Runs a known script.
///
/// # Errors
/// As [`named`], and where an argument is no number.
pub fn run(space: &mut Space, args: &[String]) -> CommandResult {
    let (keys, words) = script_words(args)?;
    let script = named(args)?;
    let call = ScriptCall { keys, words };
    match script {
        Script::Fixed(ttl) => fixed(space, &call, ttl, None),
        Script::FixedLimit => {
            let limit = call.limit(space, 1)?;
            fixed(space, &call, WindowTtl::First, Some(limit))
        }
        Script::FixedLeft => {
            let limit = call.limit(space, 1)?;
            let used = used(space, call.key(0)?)?.unwrap_or(0.0);
            Ok(pair(limit - used, limit))
        }
        Script::Value => {
            let text = space.text(call.key(0)?)?;
            Ok(text.map_or(Reply::Integer(0), Reply::text))
        }
        Script::Sliding(form) => sliding(space, &call, form),
        Script::SlidingLeft { has_limit } => sliding_left(space, &call, has_limit),
        Script::Bucket(form) => bucket(space, &call, form),
        Script::FirstBucket(form) => first_bucket(space, &call, form),
        Script::BucketLeft { replies } => bucket_left(space, &call, replies),
        Script::Fields => flat(space, call.key(0)?),
        Script::FixedFields { sets_end } => fixed_fields(space, &call, sets_end),
        Script::SlidingFields { counts_own } => sliding_fields(space, &call, counts_own),
        Script::SlidingFieldsLeft => sliding_fields_left(space, &call),
        Script::FixedMembers => fixed_members(space, &call),
        Script::SlidingMembers { says_whether } => sliding_members(space, &call, says_whether),
        Script::DenyList => deny_list(space, &call),
        // These run over all keys, or over boards: the owner runs them.
        Script::Reset | Script::FieldSums | Script::Union | Script::Tops => Ok(Reply::Nil),
    }
}

/// The keys and the arguments of a call.
pub(super) struct ScriptCall<'a> {
    pub(super) keys: &'a [String],
    pub(super) words: &'a [String],
}

impl<'a> ScriptCall<'a> {
    pub(super) fn key(&self, index: usize) -> Result<&'a str, Reply> {
        let key = self.keys.get(index).map(String::as_str);
        key.ok_or_else(|| Reply::err("this script needs more keys"))
    }

    pub(super) fn word(&self, index: usize) -> Result<&'a str, Reply> {
        let word = self.words.get(index).map(String::as_str);
        word.ok_or_else(|| Reply::err("this script needs more arguments"))
    }

    pub(super) fn number(&self, index: usize) -> Result<f64, Reply> {
        lua_number(self.word(index)?)
    }

    /// A window, an interval or a refill: a script divides by it.
    pub(super) fn positive(&self, index: usize) -> Result<f64, Reply> {
        let number = self.number(index)?;
        if number > 0.0 {
            Ok(number)
        } else {
            Err(error::not_positive())
        }
    }

    /// The limit: the first argument, or the value of the key at that index.
    pub(super) fn limit(&self, space: &Space, index: usize) -> Result<f64, Reply> {
        let dynamic = self.keys.get(index).filter(|key| !key.is_empty());
        let text = match dynamic {
            Some(key) => space.text(key)?,
            None => None,
        };
        text.map_or_else(|| self.number(0), lua_number)
    }

    /// The elapsed share of the current window.
    pub(super) fn part(&self, now: usize, window: usize) -> Result<f64, Reply> {
        let (now, window) = (self.number(now)?, self.positive(window)?);
        Ok(now.rem_euclid(window) / window)
    }
}

pub(super) fn lua_number(text: &str) -> Result<f64, Reply> {
    let number = text
        .trim()
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite());
    number.ok_or_else(no_number)
}

fn no_number() -> Reply {
    Reply::err("user_script: a number is expected")
}

/// A number as Redis replies it: truncated. A number beyond 64 bits becomes the nearest that they hold. Not-a-number
/// becomes the least, as in C on x86-64.
pub(super) fn reply_of(number: f64) -> Reply {
    let beyond = if number > 0.0 { i64::MAX } else { i64::MIN };
    Reply::Integer(number.trunc().to_string().parse().unwrap_or(beyond))
}

fn pair(first: f64, second: f64) -> Reply {
    Reply::Array(vec![reply_of(first), reply_of(second)])
}

/// The number in a string.
fn used(space: &Space, key: &str) -> Result<Option<f64>, Reply> {
    space.text(key)?.map(lua_number).transpose()
}

/// Adds a text that must be a whole number, as `INCRBY` within a script does.
fn increase(space: &mut Space, key: &str, by: &str) -> Result<i64, Reply> {
    let delta = whole(by).ok_or_else(error::not_whole)?;
    let before = match space.text(key)? {
        Some(text) => whole(text).ok_or_else(error::not_whole)?,
        None => 0,
    };
    let value = before.checked_add(delta).ok_or_else(error::overflow)?;
    space.put_value(key, StoredValue::Text(value.to_string()))?;
    Ok(value)
}

/// Sets a key to expire in so many milliseconds. A script does not end a counter that other calls have made.
pub(super) fn end_in(space: &mut Space, key: &str, milliseconds: f64) {
    if space.get(key).is_some_and(|entry| entry.is_counter) {
        return;
    }
    let Reply::Integer(milliseconds) = reply_of(milliseconds) else {
        return;
    };
    let at_ms = space.now_ms().saturating_add(milliseconds);
    space.expire(key, Some(at_ms));
}

pub(super) fn float(number: i64) -> f64 {
    let digits = |_| number.to_string().parse().unwrap_or(0.0);
    i32::try_from(number).map_or_else(digits, f64::from)
}

/// Runs a fixed window: the window's number and the amount are arguments.
fn fixed(
    space: &mut Space,
    call: &ScriptCall<'_>,
    ttl: WindowTtl,
    limit: Option<f64>,
) -> CommandResult {
    let (key, first) = (call.key(0)?, usize::from(limit.is_some()));
    let window = call.number(first)?;
    let by = match ttl {
        WindowTtl::One => "1",
        WindowTtl::First | WindowTtl::Never => call.word(first + 1)?,
    };
    let value = increase(space, key, by)?;
    if ttl != WindowTtl::Never && whole(by) == Some(value) {
        end_in(space, key, window);
    }
    Ok(match limit {
        Some(limit) => pair(float(value), limit),
        None => Reply::Integer(value),
    })
}

fn sliding(space: &mut Space, call: &ScriptCall<'_>, form: Sliding) -> CommandResult {
    let (current, previous) = (call.key(0)?, call.key(1)?);
    let limit = if form.has_limit {
        call.limit(space, 2)?
    } else {
        call.number(0)?
    };
    let window = call.number(2)?;
    let left_part = 1.0 - call.part(1, 2)?;
    let now_used = used(space, current)?.unwrap_or(form.absent);
    let mut before = used(space, previous)?.unwrap_or(0.0) * left_part;
    if form.floors {
        before = before.floor();
    }
    let by = if form.ttl == WindowTtl::One {
        "1"
    } else {
        call.word(3)?
    };
    let is_checked = !form.lets_refunds || lua_number(by)? > 0.0;
    let answer = |left: f64| match form.has_limit {
        true => pair(left, limit),
        false => reply_of(left),
    };
    if is_checked && before + now_used >= limit {
        return Ok(answer(form.refused));
    }
    let value = increase(space, current, by)?;
    if form.ttl != WindowTtl::Never && whole(by) == Some(value) {
        end_in(space, current, window * 2.0 + 1_000.0);
    }
    let before = if form.floors { before } else { 0.0 };
    Ok(answer(limit - (float(value) + before)))
}

fn sliding_left(space: &Space, call: &ScriptCall<'_>, has_limit: bool) -> CommandResult {
    let first = usize::from(has_limit);
    let left_part = 1.0 - call.part(first, first + 1)?;
    let before = used(space, call.key(1)?)?.unwrap_or(0.0) * left_part;
    let all = before.floor() + used(space, call.key(0)?)?.unwrap_or(0.0);
    if !has_limit {
        return Ok(reply_of(all));
    }
    let limit = call.limit(space, 2)?;
    Ok(pair(limit - all, limit))
}

/// A number in the form in which Lua writes it into a hash.
///
/// # Errors
/// Where it is not finite: no later call could read it.
pub(super) fn lua_text(number: f64) -> Result<String, Reply> {
    if !number.is_finite() {
        return Err(no_number());
    }
    Ok(if number == number.trunc() && number.abs() < 1e15 {
        format!("{number:.0}")
    } else {
        number.to_string()
    })
}

fn bucket(space: &mut Space, call: &ScriptCall<'_>, form: Bucket) -> CommandResult {
    let key = call.key(0)?;
    let limit = if form.has_limit {
        call.limit(space, 1)?
    } else {
        call.number(0)?
    };
    let (interval, refill) = (call.positive(1)?, call.positive(2)?);
    let now = call.number(3)?;
    let by = if form.takes_one { 1.0 } else { call.number(4)? };
    let stored = |space: &Space, name: &str| -> Result<Option<f64>, Reply> {
        field(space, key, name)?
            .as_deref()
            .map(lua_number)
            .transpose()
    };
    let (mut refilled_at, mut tokens) = match stored(space, form.field)? {
        Some(at) => (at, stored(space, "tokens")?.unwrap_or(0.0)),
        None => (now, limit),
    };
    if now >= refilled_at + interval {
        let refills = ((now - refilled_at) / interval).floor();
        tokens = limit.min(tokens + refills * refill);
        refilled_at += refills * interval;
    }
    let answer = |left: f64| {
        let mut replies = vec![reply_of(left), reply_of(refilled_at + interval)];
        if form.has_limit {
            replies.push(reply_of(limit));
        }
        Reply::Array(replies)
    };
    let lacks = if form.compares_cost {
        tokens < by
    } else {
        tokens == 0.0
    };
    if lacks && (by > 0.0 || !form.lets_refunds) {
        return Ok(answer(-1.0));
    }
    let left = tokens - by;
    let full_in = ((limit - left) / refill).ceil() * interval;
    let fields = [
        (form.field.to_owned(), lua_text(refilled_at)?),
        ("tokens".to_owned(), lua_text(left)?),
    ];
    put_fields(space, key, &fields)?;
    if full_in > 0.0 || !form.lets_refunds {
        end_in(space, key, full_in);
    }
    Ok(answer(left))
}

fn first_bucket(space: &mut Space, call: &ScriptCall<'_>, form: FirstBucket) -> CommandResult {
    let key = call.key(0)?;
    let (limit, interval) = (call.number(0)?, call.number(1)?);
    let (refill, now) = (call.number(2)?, call.number(3)?);
    let stored = |name: &str| -> Result<Option<f64>, Reply> {
        field(space, key, name)?
            .as_deref()
            .map(lua_number)
            .transpose()
    };
    let known = stored(form.field)?;
    let tokens = stored("tokens")?.unwrap_or(0.0);
    let (left, at) = match known {
        None => (limit - 1.0, now),
        Some(at) => {
            if now >= at + interval {
                let tokens = if form.goes_below {
                    tokens.max(0.0)
                } else {
                    tokens
                };
                let (refills, at) = if form.counts_refills {
                    let refills = ((now - at) / interval).floor();
                    (refills, at + refills * interval)
                } else {
                    (1.0, now)
                };
                (limit.min(tokens + refills * refill) - 1.0, at)
            } else if form.goes_below {
                (tokens - 1.0, at)
            } else if tokens > 0.0 {
                let left = tokens - 1.0;
                put_bucket(space, key, (form.field, now), left)?;
                return Ok(pair(left, at + interval));
            } else {
                return Ok(pair(0.0, at + interval));
            }
        }
    };
    put_bucket(space, key, (form.field, at), left)?;
    if known.is_none() && !form.counts_refills {
        end_in(space, key, interval);
    }
    Ok(pair(left, at + interval))
}

fn put_bucket(
    space: &mut Space,
    key: &str,
    (field, at): (&str, f64),
    left: f64,
) -> Result<(), Reply> {
    let fields = [
        (field.to_owned(), lua_text(at)?),
        ("tokens".to_owned(), lua_text(left)?),
    ];
    put_fields(space, key, &fields).map(|_| ())
}

fn bucket_left(space: &Space, call: &ScriptCall<'_>, replies: usize) -> CommandResult {
    let key = call.key(0)?;
    let limit = if replies > 2 {
        call.limit(space, 1)?
    } else {
        call.number(0)?
    };
    let stored = |name: &str| -> Result<Option<f64>, Reply> {
        field(space, key, name)?
            .as_deref()
            .map(lua_number)
            .transpose()
    };
    let (tokens, at) = (stored("tokens")?, stored("refilledAt")?);
    let mut all = match (tokens, at) {
        (Some(tokens), at) => vec![reply_of(tokens), reply_of(at.unwrap_or(-1.0))],
        (None, _) => vec![reply_of(limit), Reply::Integer(-1)],
    };
    if replies == 1 {
        return Ok(all.swap_remove(0));
    }
    if replies > 2 {
        all.push(reply_of(limit));
    }
    Ok(Reply::Array(all))
}
