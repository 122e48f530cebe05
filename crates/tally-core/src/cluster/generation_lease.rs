//! Leases of generations: how long an isolate may treat a generation as living without asking its root again.
//!
//! Invariant: no isolate treats an ended generation as living. An isolate relies on the root's answer for [`LEASE_MS`],
//! counted from before it asked. The root waits for longer than that after its last such answer before it ends the
//! generation. Only lengths of time are compared, each by one clock.

use crate::counter::bounded_map::BoundedMap;
use crate::counter::id::CounterId;

/// How long an answer of the root is valid, milliseconds. It costs one call a second for each busy counter and isolate.
/// The end of a counter waits for at most this and [`MARGIN_MS`].
pub const LEASE_MS: i64 = 2_000;

/// How much longer the root waits, milliseconds: clocks of Workers stand still while they compute.
pub const MARGIN_MS: i64 = 250;

/// The most counters whose leases a root, or a lead, remembers: about 100 bytes each. Forgetting costs a call, or a
/// wait.
pub const LEASES_MAX: usize = 10_000;

/// The last answer about a counter, and its time.
#[derive(Debug)]
struct Lease {
    generation: u64,
    at_ms: i64,
    is_renewing: bool,
}

/// Both sides use the same map, so that its code exists once.
type Leases = BoundedMap<CounterId, Lease, LEASES_MAX>;

/// Stores a lease. Returns the time of the one that was evicted for it.
fn put(leases: &mut Leases, counter: &CounterId, generation: u64, at_ms: i64) -> Option<i64> {
    let lease = Lease {
        generation,
        at_ms,
        is_renewing: false,
    };
    let evicted = match leases.has_room(counter) {
        true => None,
        false => leases.evict(),
    };
    leases.insert(counter.clone(), lease);
    evicted.map(|evicted| evicted.at_ms)
}

/// The root's side: the times of its last answers that a counter's generation lives.
#[derive(Debug)]
pub struct RootLeases {
    /// Answers up to this time may be unknown.
    since_ms: i64,
    leases: Leases,
}

impl RootLeases {
    /// Empty leases from now on, unix milliseconds.
    pub fn new(now_ms: i64) -> Self {
        Self {
            since_ms: now_ms,
            leases: Leases::default(),
        }
    }

    /// Records that a lease of a generation is granted.
    pub fn grant(&mut self, counter: &CounterId, generation: u64, now_ms: i64) {
        if let Some(evicted_ms) = put(&mut self.leases, counter, generation, now_ms) {
            self.since_ms = self.since_ms.max(evicted_ms);
        }
    }

    /// The time until the last lease that was granted has ended, milliseconds.
    pub fn wait_ms(&self, counter: &CounterId, now_ms: i64) -> i64 {
        let granted_ms = self.leases.peek(counter).map(|lease| lease.at_ms);
        let granted_ms = granted_ms.unwrap_or(i64::MIN).max(self.since_ms);
        let whole_ms = LEASE_MS + MARGIN_MS;
        granted_ms
            .saturating_add(whole_ms)
            .saturating_sub(now_ms)
            .clamp(0, whole_ms)
    }
}

/// The result of a look-up of the living generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseCheck {
    /// It is this one.
    Known(u64),
    /// The root must be asked.
    Ask,
}

/// An isolate's side: the answers of roots.
#[derive(Debug, Default)]
pub struct HeldGenerations {
    leases: Leases,
}

impl HeldGenerations {
    /// Looks up a counter. In the second half of a lease one caller gets [`LeaseCheck::Ask`]; the others continue with
    /// the known generation.
    pub fn look(&mut self, counter: &CounterId, now_ms: i64) -> LeaseCheck {
        let Some(lease) = self.leases.get_mut(counter) else {
            return LeaseCheck::Ask;
        };
        let age_ms = now_ms.saturating_sub(lease.at_ms);
        if !(0..=LEASE_MS).contains(&age_ms) {
            return LeaseCheck::Ask;
        }
        if age_ms > LEASE_MS / 2 && !lease.is_renewing {
            lease.is_renewing = true;
            return LeaseCheck::Ask;
        }
        LeaseCheck::Known(lease.generation)
    }

    /// Stores the root's answer to a request of that time, unless a newer one is known.
    pub fn keep(&mut self, counter: &CounterId, generation: u64, requested_ms: i64) {
        let known = self.leases.peek(counter);
        let is_older =
            known.is_some_and(|known| known.generation >= generation && known.at_ms > requested_ms);
        if !is_older {
            put(&mut self.leases, counter, generation, requested_ms);
        }
    }
}
