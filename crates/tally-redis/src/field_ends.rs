//! Expiries of single fields of a hash. Source: "HEXPIRE", "HTTL", "HPERSIST" of Redis 7.4, "HGETEX" of Redis 8.0.

use std::collections::BTreeSet;

use crate::error;
use crate::options::{Unit, number};
use crate::space::Space;
use tally_core::order::set_of;
use tally_wire::redis::{CommandResult, Reply};

/// The latest expiry of a field, unix milliseconds, as in Redis.
const FIELD_END_MS_MAX: i64 = ((1 << 48) - 2) >> 2;

/// The reply for a field that does not exist.
const NO_FIELD: i64 = -2;
/// The reply for a field that does not expire.
const NO_END: i64 = -1;
/// The reply for a field that an expiry in the past has deleted.
const DELETED: i64 = 2;

/// The fields that these words name: `FIELDS`, their count, and the names.
fn named<'a>(words: &'a [String], no_count: &str) -> Result<&'a [String], Reply> {
    let Some(([fields, count], names)) = words.split_first_chunk() else {
        return Err(error::syntax());
    };
    if !fields.eq_ignore_ascii_case("FIELDS") {
        return Err(Reply::err(
            "Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = number(count).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| Reply::err(no_count))?;
    match usize::try_from(count) == Ok(names.len()) {
        true => Ok(names),
        false => Err(Reply::err(
            "The `numfields` parameter must match the number of arguments",
        )),
    }
}

const NO_COUNT: &str = "Number of fields must be a positive integer";

/// The names of all fields of a hash.
fn known(space: &Space, key: &str) -> Result<BTreeSet<String>, Reply> {
    let names = space.hash(key)?.iter().map(|(name, _)| name.clone());
    Ok(set_of(names))
}

fn integers(numbers: impl Iterator<Item = i64>) -> Reply {
    Reply::Array(numbers.map(Reply::Integer).collect())
}

/// The moment that an amount names, unix milliseconds.
fn moment(unit: Unit, amount: &str, now_ms: i64, command: &str) -> Result<i64, Reply> {
    let amount = number(amount)?;
    if amount < 0 {
        return Err(Reply::err("invalid expire time, must be >= 0"));
    }
    let at_ms = unit.moment(amount, now_ms);
    at_ms
        .filter(|at_ms| *at_ms <= FIELD_END_MS_MAX)
        .ok_or_else(|| error::expire_time(command))
}

/// Sets the expiries of fields, and deletes the fields that have expired by now. `None`: they do not expire.
fn put_ends(
    space: &mut Space,
    key: &str,
    names: &BTreeSet<&String>,
    at_ms: Option<i64>,
) -> Result<(), Reply> {
    let (mut fields, mut ends) = (space.hash(key)?.to_vec(), space.field_ends(key));
    match at_ms {
        Some(at_ms) if at_ms <= space.now_ms() => fields.retain(|(name, _)| !names.contains(name)),
        Some(at_ms) => ends.extend(names.iter().map(|name| ((*name).clone(), at_ms))),
        None => ends.retain(|name, _| !names.contains(name)),
    }
    space.put_hash(key, fields, ends)
}

/// `HEXPIRE`, `HPEXPIRE`, `HEXPIREAT`, `HPEXPIREAT`.
pub fn hexpire(space: &mut Space, args: &[String]) -> CommandResult {
    let key = &args[1];
    let mut known = known(space, key)?;
    let unit = match args[0].to_ascii_uppercase().as_str() {
        "HEXPIRE" => Unit::Seconds,
        "HPEXPIRE" => Unit::Milliseconds,
        "HEXPIREAT" => Unit::AtSeconds,
        _ => Unit::AtMilliseconds,
    };
    let at_ms = moment(unit, &args[2], space.now_ms(), &args[0])?;
    let condition = args[3].to_ascii_uppercase();
    let has_condition = matches!(condition.as_str(), "NX" | "XX" | "GT" | "LT");
    let words = &args[3 + usize::from(has_condition)..];
    let names = named(words, "Parameter `numFields` should be greater than 0")?;
    let mut ends = space.field_ends(key);
    let is_past = at_ms <= space.now_ms();
    let mut set = BTreeSet::new();
    let replies = names.iter().map(|name| {
        if !known.contains(name) {
            return NO_FIELD;
        }
        // A field that does not expire counts as expiring later than any other.
        let is_met = match (condition.as_str(), ends.get(name)) {
            ("NX", end) => end.is_none(),
            ("XX", end) => end.is_some(),
            ("GT", end) => end.is_some_and(|end| at_ms > *end),
            ("LT", end) => end.is_none_or(|end| at_ms < *end),
            _ => true,
        };
        if !is_met {
            return 0;
        }
        set.insert(name);
        match is_past {
            true => {
                known.remove(name);
                DELETED
            }
            false => {
                ends.insert(name.clone(), at_ms);
                1
            }
        }
    });
    let replies = integers(replies);
    if !set.is_empty() {
        put_ends(space, key, &set, Some(at_ms))?;
    }
    Ok(replies)
}

/// `HTTL`, `HPTTL`, `HEXPIRETIME`, `HPEXPIRETIME`.
pub fn httl(space: &mut Space, args: &[String]) -> CommandResult {
    let known = known(space, &args[1])?;
    let names = named(&args[2..], NO_COUNT)?;
    let ends = space.field_ends(&args[1]);
    let in_seconds = |milliseconds: i64| (milliseconds + 999) / 1_000;
    let name = args[0].to_ascii_uppercase();
    let replies = names.iter().map(|field| match ends.get(field) {
        Some(at_ms) => match name.as_str() {
            "HTTL" => in_seconds(at_ms - space.now_ms()),
            "HPTTL" => at_ms - space.now_ms(),
            "HEXPIRETIME" => in_seconds(*at_ms),
            _ => *at_ms,
        },
        None if known.contains(field) => NO_END,
        None => NO_FIELD,
    });
    Ok(integers(replies))
}

/// `HPERSIST`.
pub fn hpersist(space: &mut Space, args: &[String]) -> CommandResult {
    let known = known(space, &args[1])?;
    let names = named(&args[2..], NO_COUNT)?;
    let mut ends = space.field_ends(&args[1]);
    let mut kept = BTreeSet::new();
    let replies = names.iter().map(|name| {
        if ends.remove(name).is_some() {
            kept.insert(name);
            return 1;
        }
        match known.contains(name) {
            true => NO_END,
            false => NO_FIELD,
        }
    });
    let replies = integers(replies);
    if !kept.is_empty() {
        put_ends(space, &args[1], &kept, None)?;
    }
    Ok(replies)
}

/// `HGETEX`.
pub fn hgetex(space: &mut Space, args: &[String]) -> CommandResult {
    let key = &args[1];
    let mut known = std::collections::BTreeMap::<String, String>::new();
    known.extend(space.hash(key)?.iter().cloned());
    let unit = Unit::parse(&args[2]);
    let persists = args[2].eq_ignore_ascii_case("PERSIST");
    let options = match (unit, persists) {
        (Some(_), _) => 2,
        (None, true) => 1,
        (None, false) => 0,
    };
    let names = named(&args[2 + options..], NO_COUNT)?;
    let end = |unit| moment(unit, &args[3], space.now_ms(), &args[0]);
    let at_ms = unit.map(end).transpose()?;
    let values = names.iter().map(|name| known.get(name).map(String::as_str));
    let reply = Reply::texts_or_nils(values)?;
    let ends = space.field_ends(key);
    let has_it = |name: &&String| match at_ms {
        Some(_) => known.contains_key(*name),
        None => ends.contains_key(*name),
    };
    let set: BTreeSet<&String> = set_of(names.iter().filter(has_it));
    if (at_ms.is_some() || persists) && !set.is_empty() {
        put_ends(space, key, &set, at_ms)?;
    }
    Ok(reply)
}
