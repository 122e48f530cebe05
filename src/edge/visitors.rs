//! The limit on what visitors without a key may write.
//!
//! Invariant: an address is held no longer than its request: what stays in memory is a hash of it by a key of this isolate.

use super::isolate::with_visitors;
use super::visit::Visit;
use crate::limit::visitors::WRITES_PER_MINUTE;
use crate::platform::clock::now_ms;
use crate::protocol::access::Caller;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::visitor::Address;

/// Who asks, if what they write is limited.
pub struct Visitor(Option<Address>);

impl Visitor {
    /// Who asks. Whoever holds a key is not limited, nor anybody where it is not said who asks: all would share one limit.
    pub fn of(visit: &Visit, caller: &Caller) -> Self {
        Self(caller.is_public().then(|| visit.address().ok()).flatten())
    }

    /// Nothing where one more write to a counter is let in, which is then used.
    ///
    /// # Errors
    /// `quota-exceeded`, with how long to wait.
    pub fn admit(&self, counter: &str) -> Result<(), Problem> {
        let Some(visitor) = &self.0 else {
            return Ok(());
        };
        // The length tells the two families apart, so no two subjects are alike.
        let bytes = visitor.as_bytes();
        let family: &[u8] = if bytes.len() == 4 { b"4" } else { b"6" };
        let subject = [family, bytes, counter.as_bytes()].concat();
        let admitted = with_visitors(|visitors, hashed| visitors.write(hashed(&subject), now_ms()));
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
