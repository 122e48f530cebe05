//! What tests of rate limits share: policies of all kinds, and when calls come.

use tally_limit::lease::{LeaseId, LeaseRequest};
use tally_limit::policy::{Algorithm, Policy};

/// Any time, not the beginning of a window.
pub const BEGIN_MS: i64 = 1_777_593_630_123;

pub use tally_testing::chance::Chance;

/// Milliseconds until what comes next: none, usual ones, or now and then many.
pub fn step_ms(chance: &mut Chance, typical_ms: u64) -> i64 {
    let ms = match chance.below(20) {
        0 => chance.below(40 * typical_ms),
        1..=4 => 0,
        _ => chance.below(2 * typical_ms),
    };
    i64::try_from(ms).unwrap()
}

pub fn policy(algorithm: Algorithm, limit: u64, window_seconds: u64) -> Policy {
    Policy {
        algorithm,
        ..Policy::sliding(limit, window_seconds)
    }
}

/// The first millisecond whose use counts at a time; `None` where use does not count for a window.
pub fn window_begins_ms(policy: &Policy, now_ms: i64) -> Option<i64> {
    match policy.algorithm {
        Algorithm::SlidingWindow => Some(now_ms - policy.window_ms + 1),
        Algorithm::FixedWindow => Some(now_ms - now_ms.rem_euclid(policy.window_ms)),
        Algorithm::TokenBucket | Algorithm::Concurrency => None,
    }
}

pub fn precise(limit: u64, window_seconds: u64) -> Policy {
    Policy {
        is_precise: true,
        ..Policy::sliding(limit, window_seconds)
    }
}

/// The kinds of policies.
pub const KINDS: u64 = 4;

/// Policies of all kinds, of a size that random traffic meets.
pub fn drawn(kind: u64, chance: &mut Chance) -> Policy {
    let (limit, window) = (1 + chance.below(60), 1 + chance.below(120));
    let drawn = match kind {
        0 => policy(Algorithm::SlidingWindow, limit, window),
        1 => precise(limit, window),
        2 => policy(Algorithm::FixedWindow, limit, window),
        _ => Policy {
            burst: 1 + chance.below(80),
            ..policy(Algorithm::TokenBucket, limit, window)
        },
    };
    drawn.check().unwrap();
    drawn
}

/// What a borrower asks for its first lease: so much, now.
pub fn request(name: &str, sequence: u64, want: u64) -> LeaseRequest {
    LeaseRequest {
        lease: LeaseId {
            borrower: name.to_owned(),
            incarnation: 1,
            number: 1,
        },
        sequence,
        spent: 0,
        recent: Vec::new(),
        returned: 0,
        refunded: 0,
        known_granted: 0,
        want,
        need: want,
        waiting: want,
    }
}
