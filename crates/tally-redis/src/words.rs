//! Words of commands that say how many others follow.

use crate::error;
use tally_wire::redis::Reply;

/// The keys and the arguments of a script.
///
/// # Errors
/// As Redis.
pub fn script_words(args: &[String]) -> Result<(&[String], &[String]), Reply> {
    let count: i64 = crate::options::number(&args[2])?;
    if count < 0 {
        return Err(Reply::err("Number of keys can't be negative"));
    }
    // A count above 2^32 does not fit on wasm32, and is above any number of words.
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let rest = &args[3..];
    if count > rest.len() {
        return Err(Reply::err(
            "Number of keys can't be greater than number of args",
        ));
    }
    Ok(rest.split_at(count))
}

/// The keys after a count at a position.
///
/// # Errors
/// As Redis.
pub fn counted_words(args: &[String], position: usize) -> Result<&[String], Reply> {
    let count = crate::options::number(&args[position])?;
    if count <= 0 {
        let name = args[0].to_ascii_lowercase();
        return Err(Reply::err(format!(
            "at least 1 input key is needed for '{name}' command"
        )));
    }
    // As above.
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let keys = args[position + 1..].get(..count);
    keys.ok_or_else(error::syntax)
}
