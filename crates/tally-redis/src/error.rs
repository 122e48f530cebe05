//! Error texts: those of Redis where it has the same error, because clients match them.

use crate::VALUE_BYTES_MAX;
use tally_wire::redis::Reply;
pub use tally_wire::redis::replies_too_large;

/// The key holds another type of value.
pub fn wrong_type() -> Reply {
    Reply::Error("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned())
}

/// The string is no HyperLogLog.
pub fn not_hll() -> Reply {
    Reply::Error("WRONGTYPE Key is not a valid HyperLogLog string value.".to_owned())
}

/// Options are unknown or contradict each other.
pub fn syntax() -> Reply {
    Reply::err("syntax error")
}

/// The text is no 64-bit whole number.
pub fn not_whole() -> Reply {
    Reply::err("value is not an integer or out of range")
}

/// The sum does not fit.
pub fn overflow() -> Reply {
    Reply::err("increment or decrement would overflow")
}

/// Too few arguments, or too many.
pub fn arity(name: &str) -> Reply {
    let name = name.to_ascii_lowercase();
    Reply::err(format!("wrong number of arguments for '{name}' command"))
}

/// The expiry time is invalid.
pub fn expire_time(name: &str) -> Reply {
    let name = name.to_ascii_lowercase();
    Reply::err(format!("invalid expire time in '{name}' command"))
}

/// Whose scripts are known.
pub const SCRIPTS_OF: &str =
    "@upstash/ratelimit, upstash-ratelimit, rate-limit-redis and rate-limiter-flexible";

/// The script is unknown. Clients send its text after this, or load it and try again.
pub fn no_script() -> Reply {
    Reply::Error(format!(
        "NOSCRIPT No matching script. Please use EVAL. Tally runs only the scripts of {SCRIPTS_OF}"
    ))
}

/// A counter with a setting of its own says when it ends.
pub fn own_end() -> Reply {
    let text = "the counter ends by its own ttl_seconds, which PUT /counters/{id} changes; SET it with KEEPTTL; nothing was changed";
    Reply::err(text)
}

/// The script writes, and the command may not.
pub fn read_only_script() -> Reply {
    Reply::err("Write commands are not allowed from read-only scripts.")
}

/// A command of Redis that Tally does not offer.
pub fn not_for(name: &str) -> Reply {
    let name = name.to_ascii_uppercase();
    Reply::err(format!("{name} is not what Tally is for"))
}

/// A command whose answer is a stream.
pub fn is_stream(name: &str) -> Reply {
    let name = name.to_ascii_lowercase();
    Reply::err(format!(
        "this is a stream of server-sent events here: GET /redis/{name}/__keyspace@0__:<key>"
    ))
}

/// The command belongs to a transaction, which is one request here.
pub fn is_transaction(name: &str) -> Reply {
    let name = name.to_ascii_uppercase();
    Reply::err(format!(
        "{name} needs a connection that stays: POST the commands of a transaction together to /multi-exec"
    ))
}

/// The key and its value are too large.
pub fn too_large() -> Reply {
    let kibibytes = VALUE_BYTES_MAX / 1024;
    Reply::err(format!(
        "a key and its value have at most {kibibytes} KiB together here"
    ))
}

/// A script would divide by this argument.
pub fn not_positive() -> Reply {
    Reply::err("user_script: a number above 0 is expected")
}

/// The amount is a fraction.
pub fn fraction() -> Reply {
    Reply::err("counters hold whole numbers: send INCRBYFLOAT a whole number, or scale the amount")
}

/// The refusal of a command under a key that names another request.
pub fn key_reused() -> Reply {
    Reply::err(
        "this idempotency key was used for another request on the same keys; nothing was done, send another key",
    )
}
