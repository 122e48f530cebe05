//! The URLs of messages on Cloudflare. No host resolves them: bindings alone carry them.
//!
//! Invariant: a URL names the jurisdiction of its sender, and a receiver of another jurisdiction does nothing. So if
//! the two Workers of a deployment have different jurisdictions, no object stores what others cannot find.

use super::fault::Fault;
use crate::names::JURISDICTION;

const SCHEME: &str = "http://";
const HOST: &str = "tally";

/// The URL of a message, without the path, from a sender within this jurisdiction.
pub fn origin(jurisdiction: Option<&str>) -> String {
    match jurisdiction {
        Some(name) => format!("{SCHEME}{name}.{HOST}"),
        None => [SCHEME, HOST].concat(),
    }
}

/// The path of a message by its URL.
///
/// # Errors
/// `Unreadable` if the sender's jurisdiction is not the receiver's `own`.
pub fn path_within<'a>(url: &'a str, own: Option<&str>) -> Result<&'a str, Fault> {
    let rest = url.strip_prefix(SCHEME).unwrap_or(url);
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let sender = host.strip_suffix(HOST).unwrap_or(host).strip_suffix('.');
    if sender == own {
        return Ok(path);
    }
    let named = |name: Option<&str>| name.map_or("not set".to_owned(), |name| format!("`{name}`"));
    Err(Fault::Unreadable(format!(
        "{JURISDICTION} is {} on the Worker that asks, and {} on the Worker of the objects: set it alike on both",
        named(sender),
        named(own)
    )))
}
