//! Requests from this machine: a deployment without keys serves nobody else.
//!
//! Invariant: a page of another site can neither read nor write an open instance, by any name of it. A foreign name
//! that resolves to 127.0.0.1 shows in `Host`; otherwise the browser says in `Sec-Fetch-Site` that the page belongs to
//! another site. Pages can change neither header. Only the gate looks at neither `Sec-Fetch-Site` nor `Origin`,
//! because a proxy sends those of its own client: a page can use up the quota of the browser's address there.

use tally_wire::problem::{Code, Problem};

/// Why a page of another machine may not use an open instance: its visitor did not ask for it.
pub(super) const OPEN_IS_LOCAL: &str = "without keys only pages of this machine may call; for pages of other \
    origins set TALLY_KEYS with a public entry that names them";

/// Values of `Sec-Fetch-Site` where the page is of this machine, or where the user entered the address. Browsers treat
/// names of loopback hosts as different hosts, so `same-site` is accepted too. Any other value means another site.
const OWN_SITES: [&str; 3] = ["same-origin", "same-site", "none"];

/// Succeeds if a request to an open deployment comes from this machine: `host` is the host of its URL, `site` its
/// `Sec-Fetch-Site`, `page` the origin of the page that sends it, where known.
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

/// Returns whether a browser's `Origin` is a page that this machine serves. A browser sends it with every request of a
/// page to another origin, and pages cannot change it.
pub(super) fn is_loopback_origin(origin: &str) -> bool {
    origin
        .split_once("://")
        .is_some_and(|(_, host)| is_loopback(host))
}

/// Returns whether a host, with or without a port, is this machine by name or address. Text after its name must be a
/// port.
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
