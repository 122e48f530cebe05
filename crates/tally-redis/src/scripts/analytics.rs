//! The scripts that read analytics of rate limits: sorted sets of events, one for each hour.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::call::{ScriptCall, reply_of};
use super::table::Script;
use crate::sorted::Members;
use crate::sorted::ranges::reply_of as members_of;
use crate::sorted_sets::union;
use crate::words::script_words;
use tally_wire::redis::{CommandResult, Reply};

/// The most hours of one read: 41 days.
pub const SCRIPT_SETS_MAX: usize = 1_000;

/// The sets that a script reads; `None` for other scripts.
///
/// # Errors
/// Where arguments are missing, or no numbers.
pub fn sets_of(script: Script, args: &[String]) -> Result<Option<Vec<String>>, Reply> {
    let (keys, words) = script_words(args)?;
    let call = ScriptCall { keys, words };
    match script {
        Script::FieldSums => Ok(Some(vec![call.key(0)?.to_owned()])),
        Script::Union | Script::Tops => {
            let (first, step) = (call.number(0)?, call.number(1)?);
            let count = call.word(2)?.parse().ok();
            let count = count.filter(|count: &usize| (1..=SCRIPT_SETS_MAX).contains(count));
            let Some(count) = count else {
                let sets_max = SCRIPT_SETS_MAX;
                return Err(Reply::err(format!("a script reads 1 to {sets_max} sets")));
            };
            let key = call.key(0)?;
            let mut at = first;
            let mut sets = Vec::with_capacity(count);
            for _ in 0..count {
                sets.push(format!("{key}:{at:.0}"));
                at -= step;
            }
            Ok(Some(sets))
        }
        _ => Ok(None),
    }
}

/// The reply of a script, from the contents of its sets.
///
/// # Errors
/// As [`sets_of`], and where a member is not JSON.
pub fn answer(script: Script, args: &[String], sets: &[&Members]) -> CommandResult {
    let (keys, words) = script_words(args)?;
    let call = ScriptCall { keys, words };
    match script {
        Script::FieldSums => field_sums(call.word(0)?, sets),
        Script::Tops => tops(&call, &union(sets)),
        _ => Ok(members_of(union(sets), true)),
    }
}

/// A Lua value as Redis replies it: true is 1 and false is nil.
fn lua_reply(value: &Json) -> Reply {
    match value {
        Json::String(text) => Reply::text(text),
        Json::Bool(true) => Reply::Integer(1),
        Json::Number(number) => reply_of(number.as_f64().unwrap_or(0.0)),
        _ => Reply::Nil,
    }
}

fn field_sums(field: &str, sets: &[&Members]) -> CommandResult {
    let mut sums = BTreeMap::<String, (Reply, f64)>::new();
    for (member, score) in sets.iter().copied().flatten() {
        let event: Json = serde_json::from_slice(member)
            .map_err(|_| Reply::err("user_script: a member is no JSON object"))?;
        let Some(value) = event.get(field) else {
            return Err(Reply::err("user_script: table index is nil"));
        };
        let sum = sums.entry(value.to_string());
        let (_, sum) = sum.or_insert_with(|| (lua_reply(value), 0.0));
        *sum += score.number();
    }
    let pair = |(value, sum)| Reply::Array(vec![value, reply_of(sum)]);
    Ok(Reply::Array(sums.into_values().map(pair).collect()))
}

/// The events with the largest counts: admitted, refused, denied.
fn tops(call: &ScriptCall<'_>, members: &Members) -> CommandResult {
    let whole = |index| Ok::<_, Reply>(call.word(index)?.parse::<usize>().unwrap_or(0));
    let (rows_max, looked_at) = (whole(3)?, whole(4)?);
    let kinds = ["success\":true", "success\":false", "success\":\"denied"];
    let mut groups = [Vec::new(), Vec::new(), Vec::new()];
    for (member, score) in members.iter().rev().take(looked_at) {
        let text = String::from_utf8_lossy(member);
        let found = kinds.iter().zip(&mut groups);
        let mut found =
            found.filter(|(kind, group)| text.contains(**kind) && group.len() < rows_max);
        if score.number() > 0.0
            && let Some((_, group)) = found.next()
        {
            let score = reply_of(score.number());
            group.push(Reply::Array(vec![score, Reply::text(text)]));
        }
    }
    Ok(Reply::Array(groups.map(Reply::Array).into()))
}
