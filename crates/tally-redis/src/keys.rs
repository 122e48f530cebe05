//! Commands of any key.

use crate::error;
use crate::options::{Unit, number};
use crate::space::Space;
use tally_wire::redis::{CommandResult, Reply};

/// `DEL` and `UNLINK`.
pub fn del(space: &mut Space, args: &[String]) -> CommandResult {
    let mut removed = 0;
    for key in &args[1..] {
        removed += i64::from(space.remove(key));
    }
    Ok(Reply::Integer(removed))
}

/// `EXISTS` and `TOUCH`: a key that is named twice counts twice.
pub fn exists(space: &mut Space, args: &[String]) -> CommandResult {
    let known = args[1..].iter().filter(|key| space.get(key).is_some());
    Ok(Reply::count(known.count()))
}

/// `TYPE`.
pub fn type_of(space: &mut Space, args: &[String]) -> CommandResult {
    let entry = space.get(&args[1]);
    Ok(Reply::text(
        entry.map_or("none", |entry| entry.value.type_name()),
    ))
}

/// The condition of a change of expiry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Never,
    Ever,
    Later,
    Earlier,
}

/// `EXPIRE`, `PEXPIRE`, `EXPIREAT`, `PEXPIREAT`.
pub fn expire(space: &mut Space, args: &[String]) -> CommandResult {
    let unit = match args[0].to_ascii_uppercase().as_str() {
        "EXPIRE" => Unit::Seconds,
        "PEXPIRE" => Unit::Milliseconds,
        "EXPIREAT" => Unit::AtSeconds,
        _ => Unit::AtMilliseconds,
    };
    let mut conditions = Vec::new();
    for word in &args[3..] {
        conditions.push(match word.to_ascii_uppercase().as_str() {
            "NX" => When::Never,
            "XX" => When::Ever,
            "GT" => When::Later,
            "LT" => When::Earlier,
            _ => return Err(Reply::err(format!("Unsupported option {word}"))),
        });
    }
    let has = |when| conditions.contains(&when);
    if has(When::Never) && conditions.iter().any(|when| *when != When::Never) {
        return Err(Reply::err(
            "NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if has(When::Later) && has(When::Earlier) {
        return Err(Reply::err(
            "GT and LT options at the same time are not compatible",
        ));
    }
    let moment = unit.moment(number(&args[2])?, space.now_ms());
    let moment = moment.ok_or_else(|| error::expire_time(&args[0]))?;
    let Some(entry) = space.get(&args[1]) else {
        return Ok(Reply::flag(false));
    };
    // A key without expiry counts as expiring later than any other.
    let before = entry.expires_ms;
    let is_refused = (has(When::Never) && before.is_some())
        || (has(When::Ever) && before.is_none())
        || (has(When::Later) && before.is_none_or(|before| moment <= before))
        || (has(When::Earlier) && before.is_some_and(|before| moment >= before));
    if is_refused {
        return Ok(Reply::flag(false));
    }
    space.expire(&args[1], Some(moment));
    Ok(Reply::flag(true))
}

/// `TTL`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME`.
pub fn ttl(space: &mut Space, args: &[String]) -> CommandResult {
    let Some(entry) = space.get(&args[1]) else {
        return Ok(Reply::Integer(-2));
    };
    let Some(at_ms) = entry.expires_ms else {
        return Ok(Reply::Integer(-1));
    };
    let left_ms = at_ms - space.now_ms();
    Ok(Reply::Integer(
        match args[0].to_ascii_uppercase().as_str() {
            "TTL" => left_ms.saturating_add(500) / 1_000,
            "PTTL" => left_ms,
            "EXPIRETIME" => at_ms.saturating_add(500) / 1_000,
            _ => at_ms,
        },
    ))
}

/// `PERSIST`.
pub fn persist(space: &mut Space, args: &[String]) -> CommandResult {
    let has_end = space
        .get(&args[1])
        .is_some_and(|entry| entry.expires_ms.is_some());
    if has_end {
        space.expire(&args[1], None);
    }
    Ok(Reply::flag(has_end))
}
