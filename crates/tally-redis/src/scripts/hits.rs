//! Scripts of `rate-limit-redis` and `rate-limiter-flexible`: windows that begin with their first request.
//!
//! A counter that other calls have made is added to, and never replaced or made to expire.

use super::call::{ScriptCall, end_in, increase, reply_of};
use super::table::Hits;
use crate::options::Unit;
use crate::space::{Space, StoredValue};
use tally_wire::redis::{CommandResult, Reply};

fn is_counter(space: &Space, key: &str) -> bool {
    space.get(key).is_some_and(|entry| entry.is_counter)
}

/// The time that a key has left, milliseconds: as `PTTL`.
fn left_ms(space: &Space, key: &str) -> i64 {
    match space.get(key).map(|entry| entry.expires_ms) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => at_ms - space.now_ms(),
    }
}

fn both(value: i64, left: Reply) -> Reply {
    Reply::Array(vec![Reply::Integer(value), left])
}

/// Adds a request to a window. Replies with how many there are, and how long it still lasts.
pub(super) fn hit(space: &mut Space, call: &ScriptCall<'_>, form: Hits) -> CommandResult {
    let key = call.key(0)?;
    let window = call.number(usize::from(form.may_restart))?;
    let restarts = form.may_restart && call.word(0)? == "1";
    let left = left_ms(space, key);
    let begins = left <= 0;
    if begins && form.sets && !is_counter(space, key) {
        space.put_value(key, StoredValue::Text("1".to_owned()))?;
        end_in(space, key, window);
        return Ok(both(1, reply_of(window)));
    }
    let value = increase(space, key, "1")?;
    if begins || restarts {
        end_in(space, key, window);
        return Ok(both(value, reply_of(window)));
    }
    Ok(both(value, Reply::Integer(left)))
}

/// Reads a window.
pub(super) fn hits(space: &Space, call: &ScriptCall<'_>) -> CommandResult {
    let key = call.key(0)?;
    let text = Reply::text_or_nil(space.text(key)?);
    Ok(Reply::Array(vec![
        text,
        Reply::Integer(left_ms(space, key)),
    ]))
}

/// Adds points to a window. Replies with how many there are, and how long it still lasts.
pub(super) fn points(space: &mut Space, call: &ScriptCall<'_>) -> CommandResult {
    let (key, by, seconds) = (call.key(0)?, call.word(0)?, call.word(1)?);
    let end_ms = Unit::Seconds.end(seconds, space.now_ms(), "set")?;
    let had = left_ms(space, key);
    let value = increase(space, key, by)?;
    if had < 0 && !is_counter(space, key) {
        space.expire(key, Some(end_ms));
    }
    let left = match had {
        0.. => had,
        _ => end_ms - space.now_ms(),
    };
    Ok(both(value, Reply::Integer(left)))
}
