//! Scripts that record each request under a name of its own, in a hash or a set, so that several regions can be joined;
//! and the deny list.

use std::collections::BTreeSet;

use super::call::{ScriptCall, end_in, float, lua_number, lua_text, reply_of};
use crate::collections::{flat, put_fields};
use crate::keys;
use crate::space::{Space, StoredValue};
use tally_wire::redis::{CommandResult, Reply};

fn sum(space: &Space, key: &str) -> Result<f64, Reply> {
    let fields = space.hash(key)?.iter();
    fields.map(|(_, value)| lua_number(value)).sum()
}

pub(super) fn fixed_fields(
    space: &mut Space,
    call: &ScriptCall<'_>,
    sets_end: bool,
) -> CommandResult {
    let (key, by) = (call.key(0)?, call.number(2)?);
    put_fields(space, key, &[(call.word(0)?.to_owned(), lua_text(by)?)])?;
    if sets_end && space.hash(key)?.len() == 1 {
        end_in(space, key, call.number(1)?);
    }
    flat(space, key)
}

pub(super) fn sliding_fields(
    space: &mut Space,
    call: &ScriptCall<'_>,
    counts_own: bool,
) -> CommandResult {
    let (current, previous) = (call.key(0)?, call.key(1)?);
    let (limit, by) = (call.number(0)?, call.number(4)?);
    let now_used = sum(space, current)?;
    let all = sum(space, previous)? * (1.0 - call.part(1, 2)?) + now_used;
    let (now, before) = (flat(space, current)?, flat(space, previous)?);
    let is_refused = if counts_own {
        by > 0.0 && all + by > limit
    } else {
        all >= limit
    };
    if is_refused {
        return Ok(Reply::Array(vec![now, before, Reply::Nil]));
    }
    put_fields(space, current, &[(call.word(3)?.to_owned(), lua_text(by)?)])?;
    if now_used == 0.0 {
        end_in(space, current, call.number(2)? * 2.0 + 1_000.0);
    }
    Ok(Reply::Array(vec![now, before, Reply::Integer(1)]))
}

pub(super) fn sliding_fields_left(space: &Space, call: &ScriptCall<'_>) -> CommandResult {
    let before = sum(space, call.key(1)?)? * (1.0 - call.part(0, 1)?);
    Ok(reply_of(sum(space, call.key(0)?)? + before.floor()))
}

pub(super) fn fixed_members(space: &mut Space, call: &ScriptCall<'_>) -> CommandResult {
    let key = call.key(0)?;
    let mut members = space.set(key)?;
    members.insert(call.word(0)?.to_owned());
    let is_first = members.len() == 1;
    space.put_value(key, StoredValue::Set(members.clone()))?;
    if is_first {
        end_in(space, key, call.number(1)?);
    }
    Ok(Reply::texts(members))
}

pub(super) fn sliding_members(
    space: &mut Space,
    call: &ScriptCall<'_>,
    says_whether: bool,
) -> CommandResult {
    let (current, previous) = (call.key(0)?, call.key(1)?);
    let (mut now, before) = (space.set(current)?, space.set(previous)?);
    let count = |set: &BTreeSet<String>| match Reply::count(set.len()) {
        Reply::Integer(count) => float(count),
        _ => 0.0,
    };
    let all = count(&before) * (1.0 - call.part(1, 2)?) + count(&now);
    let is_admitted = all < call.number(0)?;
    if is_admitted {
        let is_first = now.is_empty();
        now.insert(call.word(3)?.to_owned());
        space.put_value(current, StoredValue::Set(now.clone()))?;
        if is_first {
            end_in(space, current, call.number(2)? * 2.0 + 1_000.0);
        }
    }
    let mut replies = vec![Reply::texts(now), Reply::texts(before)];
    if says_whether {
        replies.push(if is_admitted {
            Reply::Integer(1)
        } else {
            Reply::Nil
        });
    }
    Ok(Reply::Array(replies))
}

/// How long the status `pending` is valid, milliseconds: as in the script.
const PENDING_MS: f64 = 30_000.0;

pub(super) fn deny_list(space: &mut Space, call: &ScriptCall<'_>) -> CommandResult {
    let (list, status) = (call.key(0)?, call.key(1)?);
    let members = space.set(list)?;
    let flags = call
        .words
        .iter()
        .map(|word| Reply::flag(members.contains(word)));
    let flags = Reply::Array(flags.collect());
    let ttl = keys::ttl(space, &["TTL".to_owned(), status.to_owned()])?;
    if ttl == Reply::Integer(-2) {
        space.put_value(status, StoredValue::Text("pending".to_owned()))?;
        end_in(space, status, PENDING_MS);
    }
    Ok(Reply::Array(vec![flags, ttl]))
}
