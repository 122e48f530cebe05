//! What belongs to this machine: a deployment without keys answers nobody else.
//!
//! Invariant: a page of another site can neither read nor write an open instance, by whatever name it reaches it. A name of its own
//! that leads to 127.0.0.1 shows in `Host`; else the browser says in `Sec-Fetch-Site` that the page is another site's, and
//! pages can change neither.

use crate::protocol::problem::{Code, Problem};

/// Why a page of another machine may not use an open instance: its visitor did not ask for that.
pub(super) const OPEN_IS_LOCAL: &str = "without keys only pages of this machine may call; for pages of other \
    origins set TALLY_KEYS with a public entry that names them";

/// What browsers send where the page is this machine's or the user's own word. Hosts of loopback are told apart by name, so `same-site`
/// is one of them too. Any other value is another site's.
const OWN_SITES: [&str; 3] = ["same-origin", "same-site", "none"];

/// Nothing, if a request to an open deployment is of this machine: `host` is what its URL names, `site` what the browser sends as
/// `Sec-Fetch-Site`, `page` the origin of the page that asks, where it says so.
///
/// Source: Fetch Metadata Request Headers, section 2.1.
pub(super) fn check(
    host: &str,
    site: Option<&str>,
    page: impl FnOnce() -> Option<String>,
) -> Result<(), Problem> {
    if !is_loopback(host) {
        let detail = "without keys only localhost, 127.0.0.1 and [::1] are answered: call one of them, or set TALLY_KEYS";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let is_foreign = site.is_some_and(|site| !OWN_SITES.contains(&site));
    if is_foreign && !page().is_some_and(|page| is_loopback_origin(&page)) {
        return Err(Problem::new(Code::Forbidden, OPEN_IS_LOCAL));
    }
    Ok(())
}

/// Whether a browser's `Origin` is a page that this machine serves. A browser sends it with every
/// request of a page to another origin, and pages cannot change it.
pub(super) fn is_loopback_origin(origin: &str) -> bool {
    origin
        .split_once("://")
        .is_some_and(|(_, host)| is_loopback(host))
}

/// Whether a host, with or without a port, is this machine by name or address. What stands behind its name must be a port.
fn is_loopback(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(v6) => v6.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !rest.is_empty() && !rest.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    let address = name.parse::<std::net::IpAddr>();
    address.is_ok_and(|address| address.is_loopback()) || name.eq_ignore_ascii_case("localhost")
}
