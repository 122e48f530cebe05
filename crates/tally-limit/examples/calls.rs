//! Limits calls in a Worker of another program, whose JavaScript calls `calls_wait_ms` with `Date.now()`:
//! `cargo build -p tally-limit --example calls --target wasm32-unknown-unknown`.

#![expect(
    unsafe_code,
    reason = "an exported function needs a name of its own, which nothing else here has"
)]

use std::cell::RefCell;
use std::num::NonZeroU32;

use tally_limit::{Quota, RateLimiter};

/// Calls that an isolate admits in any second.
const CALLS: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);

thread_local! {
    static LIMITER: RefCell<RateLimiter> = RefCell::new(RateLimiter::direct(Quota::per_second(CALLS)));
}

/// Milliseconds until the caller may call again: 0 where it may now. now_ms: unix milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn calls_wait_ms(now_ms: i64) -> u64 {
    LIMITER.with_borrow_mut(|limiter| match limiter.check_at(now_ms) {
        Ok(_) => 0,
        Err(refused) => refused.retry_after_ms,
    })
}
