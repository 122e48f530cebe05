//! The limit on what visitors without a key may write.
//!
//! Invariant: an address is held no longer than its request: what stays in memory is a hash of it by a key of this isolate.

use super::isolate::{address_header, with_visitors};
use super::visit::Visit;
use crate::limit::visitors::{WRITES_PER_MINUTE, visitor_of};
use crate::platform::clock::now_ms;
use crate::protocol::access::Caller;
use crate::protocol::problem::{Code, Problem};

/// Where the platform says who asks. Cloudflare sets it and lets no client do so; a proxy in front of plain workerd has to.
const ADDRESS: &str = "cf-connecting-ip";

/// Who asks, if what they write is limited.
pub struct Visitor(Option<String>);

impl Visitor {
    /// Who asks. Whoever holds a key is not limited, nor anybody where it is not said who asks: all would share one limit.
    pub fn of(visit: &Visit, caller: &Caller) -> Self {
        let told = || {
            let named = address_header(&visit.env);
            visit.header(named.as_deref().unwrap_or(ADDRESS))
        };
        let told = caller.is_public().then(told).flatten();
        // Of a list the last is what the proxy itself says.
        let address = told.as_deref().and_then(|told| told.rsplit(',').next());
        Self(address.map(visitor_of))
    }

    /// Nothing where one more write to a counter is let in, which is then used.
    ///
    /// # Errors
    /// `quota-exceeded`, with how long to wait.
    pub fn admit(&self, counter: &str) -> Result<(), Problem> {
        let Some(visitor) = &self.0 else {
            return Ok(());
        };
        let subject = [visitor, "\0", counter].concat();
        let admitted =
            with_visitors(|visitors, hashed| visitors.write(hashed(subject.as_bytes()), now_ms()));
        admitted.map_err(|wait_ms| {
            let seconds = u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
            let detail = format!(
                "without a key a visitor may write {WRITES_PER_MINUTE} times a minute to one counter; \
                 this was not counted, try again in {seconds} s"
            );
            Problem::new(Code::QuotaExceeded, detail).with_retry_after(seconds)
        })
    }
}
