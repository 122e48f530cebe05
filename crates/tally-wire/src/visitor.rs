//! Visitors, distinguished for one day and not recognisable afterwards.
//!
//! Invariant: a client's address and user agent exist in the memory of one request only. What leaves it is a keyed hash
//! of them under the salt of the day, which is hashed again like every element. Once the salt is deleted, nobody can
//! compare the counts with an address, not even with the deployment's key and all rows.
//!
//! Life of a salt: the directory makes it when the first edge asks for it, hands it to edges, and deletes it
//! [`SALT_KEPT_MS`] after its day has ended: until then late writes need it.

use std::fmt;

use serde::{Deserialize, Serialize};

use tally_core::sketch::{HashKey, hash};
pub use tally_logs::address::ClientAddress;
pub use tally_logs::bots::USER_AGENT_BYTES_MAX;

/// How long a salt is kept after its day, milliseconds: for retries of keyed writes, which belong to the day in which
/// they were counted, and for clocks that are off.
pub const SALT_KEPT_MS: i64 = 48 * 3_600_000;

const DAY_MS: i64 = 86_400_000;

/// Returns the UTC day of a moment: days since 1970.
pub const fn day_of(unix_ms: i64) -> i64 {
    unix_ms.div_euclid(DAY_MS)
}

/// Returns when the salt of a day must be deleted, unix milliseconds.
pub const fn forgotten_ms(day: i64) -> i64 {
    day.saturating_add(1)
        .saturating_mul(DAY_MS)
        .saturating_add(SALT_KEPT_MS)
}

/// Returns whether a salt of that day may be made now, where there is none: at most one day off, because an edge's
/// clock may be on the other side of midnight.
pub const fn may_make(day: i64, now_ms: i64) -> bool {
    day_of(now_ms).abs_diff(day) <= 1
}

/// The secret of one day: 16 random bytes, never printed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Salt([u8; 16]);

impl From<[u8; 16]> for Salt {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Salt(secret)")
    }
}

/// Returns the element of a visitor on the day of this salt: equal for the same address and user agent, and otherwise
/// equal only with probability 2⁻¹²⁸. Only the first [`USER_AGENT_BYTES_MAX`] bytes of a user agent count.
///
/// **Source**: two SipHash-1-3 under one key, of messages that differ in their first byte.
pub fn visitor(salt: Salt, address: ClientAddress, user_agent: &str) -> [u8; 16] {
    let key = HashKey::from(salt.0);
    let agent = user_agent.trim().as_bytes();
    let agent = agent.get(..USER_AGENT_BYTES_MAX).unwrap_or(agent);
    let network = address.as_bytes();
    let family = match &address {
        ClientAddress::V4(_) => 4,
        ClientAddress::V6(_) => 6,
    };
    // The family determines the length of the address, so no two visitors have the same message.
    let half = |part: u8| hash(&key, &[&[part, family], network, agent].concat()).to_le_bytes();
    let mut element = [0; 16];
    element[..8].copy_from_slice(&half(0));
    element[8..].copy_from_slice(&half(1));
    element
}
