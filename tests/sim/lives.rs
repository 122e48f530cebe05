//! When counters may end by themselves, and when a reader may find none.
//!
//! Invariant: a counter with a sliding time to live ends only when that has passed since everything that was
//! counted, by the clocks of those who counted; clocks that differ may make it end so much earlier.

use tally::core::counter::settings::{Ttl, TtlMode};

use super::oracle::{Life, Oracle};

/// When a counter ends that was counted in up to a moment.
fn expires_at_ms(life: &Life, ttl: Ttl, upto: usize) -> i64 {
    let until = life.stamps.iter().filter(|(moment, _)| *moment <= upto);
    let last_ms = until.map(|(_, at_ms)| *at_ms).max();
    ttl.expires_at_ms(last_ms.unwrap_or(i64::MIN))
}

impl Oracle {
    /// A generation has just ended by itself, at that time by the latest clock there may be.
    pub fn check_expiry(&self, generation: u64, ttl: Ttl, now_ms: i64) {
        let life = &self.generations[&generation];
        let expires_ms = expires_at_ms(life, ttl, self.moment());
        assert!(
            now_ms >= expires_ms,
            "it ends {} ms too early: {life:?}",
            expires_ms - now_ms
        );
    }

    /// Whether the root may call a generation ended that is about to: its time to live is over, whatever is written.
    pub fn is_over(&self, generation: u64, now_ms: i64) -> bool {
        let ttl = self.generations[&generation].ttls.last();
        let fixed = ttl
            .and_then(|(_, ttl)| *ttl)
            .filter(|ttl| ttl.mode == TtlMode::Fixed);
        fixed.is_some_and(|ttl| ttl.expires_at_ms(i64::MIN) <= now_ms)
    }

    /// A read that began at that moment found no counter, at that time by the latest clock there may be.
    pub fn check_absent(&self, begun: usize, now_ms: i64) {
        for life in self.generations.values() {
            let is_whole = life.born <= begun && life.ended.is_none();
            // Settings make no moment: those of this one may be older than the read, or not.
            let in_force = life.ttls.iter().rposition(|(from, _)| *from < begun);
            let mut ttls = life.ttls[in_force.unwrap_or(0)..].iter();
            let is_over = |ttl: Ttl| expires_at_ms(life, ttl, begun) <= now_ms;
            let may_be = ttls.any(|(_, ttl)| ttl.is_some_and(is_over));
            assert!(
                !is_whole || may_be,
                "a counter that lives is not found: {life:?}"
            );
        }
    }
}
