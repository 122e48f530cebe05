//! Visitors, distinguished for one day and not recognisable afterwards.
//!
//! Invariant: a client's address and user agent exist in the memory of one request only. What leaves it is a keyed hash
//! of them under the salt of the day, which is hashed again like every element. Once the salt is deleted, nobody can
//! compare the counts with an address, not even with the deployment's key and all rows.
//!
//! Life of a salt: the directory makes it when the first edge asks for it, hands it to edges, and deletes it
//! [`SALT_KEPT_MS`] after its day has ended: until then late writes need it.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use tally_core::sketch::{HashKey, hash};

/// The prefix of the IPv6 addresses under which IPv4 clients reach servers that have IPv6 only. Source: RFC 6052,
/// section 2.1.
const TRANSLATED: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// How many bytes of a user agent are used: browsers send 80 to 300.
pub const USER_AGENT_BYTES_MAX: usize = 1_024;

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

/// A client's address, reduced to what distinguishes visitors; never printed.
///
/// Of an IPv6 address, these are the first 64 bits, which are those of a household. Devices change the rest several
/// times a day (RFC 8981), so whole addresses would count one visitor repeatedly. IPv4 within IPv6 is treated as IPv4.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClientAddress {
    /// All of it.
    V4([u8; 4]),
    /// The network.
    V6([u8; 8]),
}

impl fmt::Debug for ClientAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Address(not shown)")
    }
}

impl ClientAddress {
    /// Returns the address of a text such as `203.0.113.9`, `203.0.113.9:8080`, `2001:db8::1` or `[2001:db8::1]:8080`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let host = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?.0,
            None => text,
        };
        let without_zone = host.split('%').next().unwrap_or_default();
        if let Ok(address) = without_zone.parse::<Ipv6Addr>() {
            if let Some(v4) = address.to_ipv4_mapped() {
                return Some(Self::V4(v4.octets()));
            }
            let [a, b, c, d, e, f, g, h, .., i, j, k, l] = address.octets();
            // Otherwise all IPv4 clients of a server with IPv6 only would be one network.
            if address.segments().starts_with(&TRANSLATED) {
                return Some(Self::V4([i, j, k, l]));
            }
            return Some(Self::V6([a, b, c, d, e, f, g, h]));
        }
        let host = host.split_once(':').map_or(host, |(host, _port)| host);
        let address = host.parse::<Ipv4Addr>().ok()?;
        Some(Self::V4(address.octets()))
    }

    /// Returns its bytes: 4 or 8, which is also its family.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::V4(octets) => octets,
            Self::V6(network) => network,
        }
    }

    /// Returns whether it is an address of the machine itself, such as that of a proxy beside the server.
    pub fn is_loopback(self) -> bool {
        match self {
            Self::V4([first, ..]) => first == 127,
            // `::1`: no client is in its network, because ::/64 is reserved (RFC 4291, 2.5).
            Self::V6(network) => network == [0; 8],
        }
    }

    /// Returns the address that a proxy wrote into a header: the last one of a list. Those before it came with the
    /// request, and anybody can write them.
    pub fn of_header(value: &str) -> Option<Self> {
        Self::parse(value.rsplit(',').next().unwrap_or_default())
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
