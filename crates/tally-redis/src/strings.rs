//! Commands of strings, which are counters where they are whole numbers.

use crate::error;
use crate::options::{Unit, number};
use crate::space::{Space, whole};
use tally_wire::redis::{CommandResult, Reply};

/// `GET`.
pub fn get(space: &mut Space, args: &[String]) -> CommandResult {
    space.text(&args[1]).map(Reply::text_or_nil)
}

/// `MGET`: keys of other types give nil.
pub fn mget(space: &mut Space, args: &[String]) -> CommandResult {
    Reply::texts_or_nils(args[1..].iter().map(|key| space.text(key).ok().flatten()))
}

/// The options of `SET`.
#[derive(Default)]
struct SetOptions {
    only_absent: bool,
    only_present: bool,
    returns_old: bool,
    keeps_end: bool,
    ends: Option<(Unit, String)>,
}

impl SetOptions {
    fn parse(words: &[String]) -> Result<Self, Reply> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some(unit) = Unit::parse(word) {
                let amount = words.next().ok_or_else(error::syntax)?;
                if options.ends.replace((unit, amount.clone())).is_some() {
                    return Err(error::syntax());
                }
                continue;
            }
            match word.to_ascii_uppercase().as_str() {
                "NX" => options.only_absent = true,
                "XX" => options.only_present = true,
                "GET" => options.returns_old = true,
                "KEEPTTL" => options.keeps_end = true,
                _ => return Err(error::syntax()),
            }
        }
        let both = options.only_absent && options.only_present;
        if both || (options.keeps_end && options.ends.is_some()) {
            return Err(error::syntax());
        }
        Ok(options)
    }
}

/// `SET`.
pub fn set(space: &mut Space, args: &[String]) -> CommandResult {
    let options = SetOptions::parse(&args[3..])?;
    let key = &args[1];
    let expires_ms = match &options.ends {
        Some((unit, amount)) => Some(unit.end(amount, space.now_ms(), "set")?),
        None if options.keeps_end => space.get(key).and_then(|entry| entry.expires_ms),
        None => None,
    };
    let old = if options.returns_old {
        Reply::text_or_nil(space.text(key)?)
    } else {
        Reply::Nil
    };
    let exists = space.get(key).is_some();
    if (exists && options.only_absent) || (!exists && options.only_present) {
        return Ok(old);
    }
    space.put_text(key, args[2].clone(), expires_ms)?;
    Ok(if options.returns_old {
        old
    } else {
        Reply::ok()
    })
}

/// `SETEX` and `PSETEX`.
pub fn setex(space: &mut Space, args: &[String]) -> CommandResult {
    let is_seconds = args[0].eq_ignore_ascii_case("SETEX");
    let unit = if is_seconds {
        Unit::Seconds
    } else {
        Unit::Milliseconds
    };
    let expires_ms = unit.end(&args[2], space.now_ms(), &args[0])?;
    space.put_text(&args[1], args[3].clone(), Some(expires_ms))?;
    Ok(Reply::ok())
}

/// `SETNX`.
pub fn setnx(space: &mut Space, args: &[String]) -> CommandResult {
    if space.get(&args[1]).is_some() {
        return Ok(Reply::flag(false));
    }
    space.put_text(&args[1], args[2].clone(), None)?;
    Ok(Reply::flag(true))
}

/// `MSET` and `MSETNX`.
pub fn mset(space: &mut Space, args: &[String]) -> CommandResult {
    let only_absent = args[0].eq_ignore_ascii_case("MSETNX");
    let pairs = args[1..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(error::arity(&args[0]));
    }
    if only_absent && pairs.clone().any(|pair| space.get(&pair[0]).is_some()) {
        return Ok(Reply::flag(false));
    }
    for pair in pairs {
        space.put_text(&pair[0], pair[1].clone(), None)?;
    }
    Ok(if only_absent {
        Reply::flag(true)
    } else {
        Reply::ok()
    })
}

/// `GETSET`.
pub fn getset(space: &mut Space, args: &[String]) -> CommandResult {
    let old = Reply::text_or_nil(space.text(&args[1])?);
    space.put_text(&args[1], args[2].clone(), None)?;
    Ok(old)
}

/// `GETDEL`.
pub fn getdel(space: &mut Space, args: &[String]) -> CommandResult {
    let old = Reply::text_or_nil(space.text(&args[1])?);
    space.remove(&args[1]);
    Ok(old)
}

/// `GETEX`.
pub fn getex(space: &mut Space, args: &[String]) -> CommandResult {
    let key = &args[1];
    let ends = match &args[2..] {
        [] => None,
        [word] if word.eq_ignore_ascii_case("PERSIST") => Some(None),
        [word, amount] => Some(Some((Unit::parse(word).ok_or_else(error::syntax)?, amount))),
        _ => return Err(error::syntax()),
    };
    let Some(text) = space.text(key)? else {
        return Ok(Reply::Nil);
    };
    let text = Reply::text(text);
    let end = |(unit, amount): (Unit, &String)| unit.end(amount, space.now_ms(), "getex");
    let expires_ms = ends.map(|ends| ends.map(end).transpose()).transpose()?;
    if let Some(expires_ms) = expires_ms {
        space.expire(key, expires_ms);
    }
    Ok(text)
}

/// The amount that a command adds; `None` for commands that do not add.
///
/// # Errors
/// As Redis.
pub fn delta_of(args: &[String]) -> Result<Option<i64>, Reply> {
    Ok(Some(match args[0].to_ascii_uppercase().as_str() {
        "INCR" => 1,
        "DECR" => -1,
        "INCRBY" => number(&args[2])?,
        "DECRBY" => number(&args[2])?
            .checked_neg()
            .ok_or_else(|| Reply::err("decrement would overflow"))?,
        "INCRBYFLOAT" => whole_float(&args[2])?,
        _ => return Ok(None),
    }))
}

/// A whole number in any form of a float.
pub(crate) fn whole_float(text: &str) -> Result<i64, Reply> {
    if let Some(number) = whole(text) {
        return Ok(number);
    }
    let float: f64 = text
        .parse()
        .ok()
        .filter(|float: &f64| !float.is_nan())
        .ok_or_else(|| Reply::err("value is not a valid float"))?;
    if float.is_infinite() {
        return Err(Reply::err("increment would produce NaN or Infinity"));
    }
    // A whole float below 2^63 prints without a point.
    let refused = |_| match float.fract() == 0.0 {
        true => error::overflow(),
        false => error::fraction(),
    };
    format!("{float}").parse().map_err(refused)
}

/// `INCR`, `INCRBY`, `DECR`, `DECRBY`, `INCRBYFLOAT`.
pub fn add(space: &mut Space, args: &[String]) -> CommandResult {
    let is_float = args[0].eq_ignore_ascii_case("INCRBYFLOAT");
    if is_float {
        // Redis looks at the key before the amount, in this command alone.
        space.text(&args[1])?;
    }
    let Some(delta) = delta_of(args)? else {
        return Err(error::syntax());
    };
    // `INCRBYFLOAT` accepts a whole number in any form of a float, also as the stored value.
    let read = if is_float { whole_float } else { number };
    let value = increase_as(space, &args[1], delta, read)?;
    Ok(added(args, value))
}

/// The reply to a command that added.
pub fn added(args: &[String], value: i64) -> Reply {
    if args[0].eq_ignore_ascii_case("INCRBYFLOAT") {
        Reply::Text(value.to_string())
    } else {
        Reply::Integer(value)
    }
}

/// Adds to a string, and returns the new value.
///
/// # Errors
/// `WRONGTYPE`, not a whole number, overflow.
pub fn increase(space: &mut Space, key: &str, delta: i64) -> Result<i64, Reply> {
    increase_as(space, key, delta, number)
}

fn increase_as(
    space: &mut Space,
    key: &str,
    delta: i64,
    read: fn(&str) -> Result<i64, Reply>,
) -> Result<i64, Reply> {
    let before = space.text(key)?.map_or(Ok(0), read)?;
    let value = before.checked_add(delta).ok_or_else(error::overflow)?;
    let expires_ms = space.get(key).and_then(|entry| entry.expires_ms);
    let is_other = space.get(key).is_some_and(|entry| !entry.is_counter);
    if is_other {
        // An increment does not make a string a counter.
        space.put_value(key, crate::space::StoredValue::Text(value.to_string()))?;
    } else {
        space.put_text(key, value.to_string(), expires_ms)?;
    }
    Ok(value)
}
