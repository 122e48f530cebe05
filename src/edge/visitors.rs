//! The limit on what visitors without a key may write.
//!
//! Invariant: an address is held no longer than its request: what stays in memory is a hash of it by a key of this isolate.

use super::isolate::with_visitors;
use super::visit::Visit;
use crate::limit::visitors::{WRITES_PER_MINUTE, visitor_of};
use crate::platform::clock::now_ms;
use crate::protocol::access::Caller;
use crate::protocol::problem::{Code, Problem};

/// Where the platform says who asks. Cloudflare sets it and lets no client do so; a proxy in front of plain workerd has to.
const ADDRESS: &str = "cf-connecting-ip";

/// Nothing where the caller may write to `target` now: it holds a key, or its visitor has not written too often. One write is
/// then used. Where nobody says who the visitor is, nothing is limited: all would share one limit.
///
/// # Errors
/// `quota-exceeded`, with how long to wait.
pub fn admit(visit: &Visit, caller: &Caller, target: &str) -> Result<(), Problem> {
    if !caller.is_public() {
        return Ok(());
    }
    let Some(address) = visit.header(ADDRESS) else {
        return Ok(());
    };
    let mut subject = visitor_of(&address);
    subject.push('\0');
    subject.push_str(target);
    with_visitors(|visitors, hashed| visitors.write(hashed(subject.as_bytes()), now_ms())).map_err(
        |wait_ms| {
            let seconds = u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
            let detail = format!(
                "without a key a visitor may write {WRITES_PER_MINUTE} times a minute to one counter; \
                 nothing was counted, try again in {seconds} s"
            );
            Problem::new(Code::QuotaExceeded, detail).with_retry_after(seconds)
        },
    )
}
