//! The scripts of rate-limit clients, found by the SHA-1 of their text. Each runs natively, with the replies of its
//! version.
//!
//! Keys that scripts write are strings and hashes of the dialect itself, not counters: a window expires after minutes.
//! Numbers are Lua's: 64-bit floats, truncated in replies.

use sha1::{Digest, Sha1};

use super::call::{
    ScriptCall, end_in, float, increase, lua_number, lua_text, pair, reply_of, used,
};
use super::hits::{hit, hits, points};
use super::regions::{
    deny_list, fixed_fields, fixed_members, sliding_fields, sliding_fields_left, sliding_members,
};
use super::table::{Bucket, FirstBucket, KNOWN, Script, Sliding, WindowTtl};
use crate::collections::{field, flat, put_fields};
use crate::error::{self, SCRIPTS_OF};
use crate::space::{Space, whole};
use crate::words::script_words;
use tally_core::sha256;
use tally_wire::redis::{CommandResult, Reply};

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
        ("HELP", []) => {
            let lines = [
                "LOAD <script>",
                "EXISTS <sha1> [<sha1> ...]",
                "FLUSH [ASYNC|SYNC]",
            ];
            let lines = lines.iter().map(|line| Reply::Text((*line).to_owned()));
            Ok(Reply::Array(lines.collect()))
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
            Reply::err(format!(
                "Tally runs only the scripts of {SCRIPTS_OF}, and this one is of no version that it knows; for a window of your own send INCREX key EX seconds ENX"
            ))
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
        Script::Hit(form) => hit(space, &call, form),
        Script::Hits => hits(space, &call),
        Script::Points => points(space, &call),
        Script::DenyList => deny_list(space, &call),
        // These run over all keys, or over boards: the owner runs them.
        Script::Reset | Script::FieldSums | Script::Union | Script::Tops => Ok(Reply::Nil),
    }
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
