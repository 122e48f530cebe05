//! The call of a script, and Lua's numbers.

use crate::error;
use crate::space::{Space, StoredValue, whole};
use tally_wire::redis::Reply;

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

pub(super) fn pair(first: f64, second: f64) -> Reply {
    Reply::Array(vec![reply_of(first), reply_of(second)])
}

/// The number in a string.
pub(super) fn used(space: &Space, key: &str) -> Result<Option<f64>, Reply> {
    space.text(key)?.map(lua_number).transpose()
}

/// Adds a text that must be a whole number, as `INCRBY` within a script does.
pub(super) fn increase(space: &mut Space, key: &str, by: &str) -> Result<i64, Reply> {
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
