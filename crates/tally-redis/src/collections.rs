//! Commands of hashes and sets, as far as rate-limit clients need them.

use std::collections::{BTreeMap, BTreeSet};

use crate::error;
use crate::options::number;
use crate::sorted::drawn::{drawn_indices, draws_of};
use crate::space::{Space, StoredValue};
use tally_core::order::set_of;
use tally_wire::redis::{CommandResult, Reply};

/// Sets fields of a hash, and returns how many are new. They do not expire any more.
///
/// # Errors
/// `WRONGTYPE`, too large.
pub fn put_fields(
    space: &mut Space,
    key: &str,
    pairs: &[(String, String)],
) -> Result<usize, Reply> {
    let mut ends = space.field_ends(key);
    for (name, _) in pairs {
        ends.remove(name);
    }
    put_fields_until(space, key, pairs, ends)
}

/// As [`put_fields`], with the expiries that fields have afterwards.
fn put_fields_until(
    space: &mut Space,
    key: &str,
    pairs: &[(String, String)],
    ends: BTreeMap<String, i64>,
) -> Result<usize, Reply> {
    let mut fields = space.hash(key)?.to_vec();
    let before = fields.len();
    // A field that is named twice gets its last value. Cost: O((fields + pairs) log pairs).
    let mut left = BTreeMap::<String, &str>::new();
    for (name, value) in pairs {
        left.insert(name.clone(), value);
    }
    for (name, known) in &mut fields {
        if let Some(value) = left.remove(name) {
            value.clone_into(known);
        }
    }
    for (name, _) in pairs {
        if let Some(value) = left.remove(name) {
            fields.push((name.clone(), value.to_owned()));
        }
    }
    let added = fields.len() - before;
    space.put_hash(key, fields, ends)?;
    Ok(added)
}

/// A field of a hash.
///
/// # Errors
/// `WRONGTYPE`.
pub fn field(space: &Space, key: &str, name: &str) -> Result<Option<String>, Reply> {
    let mut fields = space.hash(key)?.iter();
    let found = fields.find(|(known, _)| known == name);
    Ok(found.map(|(_, value)| value.clone()))
}

/// `HSET` and `HMSET`.
pub fn hset(space: &mut Space, args: &[String]) -> CommandResult {
    let pairs = args[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(error::arity(&args[0]));
    }
    let pairs: Vec<_> = pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    let added = put_fields(space, &args[1], &pairs)?;
    let is_old = args[0].eq_ignore_ascii_case("HMSET");
    Ok(if is_old {
        Reply::ok()
    } else {
        Reply::count(added)
    })
}

/// `HGET`.
pub fn hget(space: &mut Space, args: &[String]) -> CommandResult {
    field(space, &args[1], &args[2]).map(Reply::text_or_nil)
}

/// `HMGET`.
pub fn hmget(space: &mut Space, args: &[String]) -> CommandResult {
    let mut fields = BTreeMap::<String, &str>::new();
    for (name, value) in space.hash(&args[1])? {
        fields.insert(name.clone(), value);
    }
    Reply::texts_or_nils(args[2..].iter().map(|name| fields.get(name).copied()))
}

/// All fields and their values, one after the other.
///
/// # Errors
/// `WRONGTYPE`.
pub fn flat(space: &Space, key: &str) -> CommandResult {
    let pairs = space.hash(key)?.iter().cloned();
    Ok(Reply::texts(pairs.flat_map(|(name, value)| [name, value])))
}

/// `HGETALL`.
pub fn hgetall(space: &mut Space, args: &[String]) -> CommandResult {
    flat(space, &args[1])
}

/// `HDEL`.
pub fn hdel(space: &mut Space, args: &[String]) -> CommandResult {
    let mut fields = space.hash(&args[1])?.to_vec();
    let before = fields.len();
    let named = set_of(&args[2..]);
    fields.retain(|(name, _)| !named.contains(name));
    let removed = before - fields.len();
    if removed > 0 {
        let ends = space.field_ends(&args[1]);
        space.put_hash(&args[1], fields, ends)?;
    }
    Ok(Reply::count(removed))
}

/// `HINCRBY`.
pub fn hincrby(space: &mut Space, args: &[String]) -> CommandResult {
    let delta = number(&args[3])?;
    let known = field(space, &args[1], &args[2])?;
    let before = match &known {
        Some(text) => number(text).map_err(|_| Reply::err("hash value is not an integer"))?,
        None => 0,
    };
    let value = before.checked_add(delta).ok_or_else(error::overflow)?;
    let ends = space.field_ends(&args[1]);
    let pair = (args[2].clone(), value.to_string());
    put_fields_until(space, &args[1], &[pair], ends)?;
    Ok(Reply::Integer(value))
}

/// Replaces a set, and returns how many members it has.
///
/// # Errors
/// If it is too large.
fn put_set(space: &mut Space, key: &str, members: BTreeSet<String>) -> Result<usize, Reply> {
    let count = members.len();
    if members.is_empty() {
        space.remove(key);
    } else {
        space.put_value(key, StoredValue::Set(members))?;
    }
    Ok(count)
}

/// `SADD`.
pub fn sadd(space: &mut Space, args: &[String]) -> CommandResult {
    let mut members = space.set(&args[1])?;
    let before = members.len();
    members.extend(args[2..].iter().cloned());
    let after = put_set(space, &args[1], members)?;
    Ok(Reply::count(after - before))
}

/// `SREM`.
pub fn srem(space: &mut Space, args: &[String]) -> CommandResult {
    let mut members = space.set(&args[1])?;
    let before = members.len();
    for member in &args[2..] {
        members.remove(member);
    }
    let removed = before - members.len();
    if removed > 0 {
        put_set(space, &args[1], members)?;
    }
    Ok(Reply::count(removed))
}

/// `SMEMBERS`.
pub fn smembers(space: &mut Space, args: &[String]) -> CommandResult {
    space.set(&args[1]).map(Reply::texts)
}

/// `SRANDMEMBER`.
pub fn srandmember(space: &mut Space, args: &[String]) -> CommandResult {
    let wanted = match &args[2..] {
        [] => None,
        [word] => Some(draws_of(word)?),
        _ => return Err(error::syntax()),
    };
    let members = Vec::from_iter(space.set(&args[1])?);
    let total = u64::try_from(members.len()).unwrap_or(0);
    let indices = drawn_indices(total, wanted.unwrap_or(1), space.random())?;
    let member = |index: &u64| Some(members.get(usize::try_from(*index).ok()?)?.as_str());
    let mut drawn = indices.iter().map(member);
    match wanted {
        None => Ok(Reply::text_or_nil(drawn.next().flatten())),
        Some(_) => Reply::texts_or_nils(drawn),
    }
}

/// `SCARD`.
pub fn scard(space: &mut Space, args: &[String]) -> CommandResult {
    space
        .set(&args[1])
        .map(|members| Reply::count(members.len()))
}

/// `SISMEMBER`.
pub fn sismember(space: &mut Space, args: &[String]) -> CommandResult {
    space
        .set(&args[1])
        .map(|members| Reply::flag(members.contains(&args[2])))
}

/// `SMISMEMBER`.
pub fn smismember(space: &mut Space, args: &[String]) -> CommandResult {
    let members = space.set(&args[1])?;
    let flags = args[2..]
        .iter()
        .map(|member| Reply::flag(members.contains(member)));
    Ok(Reply::Array(flags.collect()))
}

/// `SUNIONSTORE` and `SDIFFSTORE`.
pub fn sstore(space: &mut Space, args: &[String]) -> CommandResult {
    let is_union = args[0].eq_ignore_ascii_case("SUNIONSTORE");
    let mut members = space.set(&args[2])?;
    for key in &args[3..] {
        let other = space.set(key)?;
        if is_union {
            members.extend(other);
        } else {
            members.retain(|member| !other.contains(member));
        }
    }
    // The former value and its expiry are removed.
    space.remove(&args[1]);
    put_set(space, &args[1], members).map(Reply::count)
}
