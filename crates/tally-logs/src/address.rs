//! Addresses of clients, in whatever form a server, a proxy or a caller writes them.
//!
//! Invariant: one client has one address. Ports, brackets, zones and further proxies are no part of it, IPv4 within
//! IPv6 is IPv4, and an IPv6 address has one spelling. A text that is no address is none.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefix of the IPv6 addresses under which IPv4 clients reach servers that have IPv6 only. Source: RFC 6052,
/// section 2.1.
const TRANSLATED: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Returns the address of a text such as `203.0.113.9`, `203.0.113.9:8080`, `2001:db8::1%eth0`, `[2001:db8::1]:8080`,
/// or of the first of a list, `203.0.113.9, 10.0.0.5`: proxies append theirs behind the client's. Its `Display` is
/// the one spelling, for IPv6 that of RFC 5952.
pub fn parse(text: &str) -> Option<IpAddr> {
    let first = text.split(',').next().unwrap_or_default().trim();
    if let Some(rest) = first.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return is_port(after).then(|| v6(host)).flatten();
    }
    v6(first).or_else(|| {
        let colon = first.find(':').unwrap_or(first.len());
        let (host, port) = first.split_at(colon);
        let host = host.parse::<Ipv4Addr>().ok()?;
        is_port(port).then_some(IpAddr::V4(host))
    })
}

/// Returns whether an address has no route on the internet: private, unique local, loopback, link local, or shared by
/// a carrier. Sources: RFC 1918, RFC 3927, RFC 4193, RFC 4291 and RFC 6598.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            let is_link_local = address.is_unicast_link_local();
            address.is_unique_local() || address.is_loopback() || is_link_local
        }
    }
}

/// Returns whether a text is nothing, or a colon and the number of a port.
fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(number) => {
            number.bytes().all(|byte| byte.is_ascii_digit()) && number.parse::<u16>().is_ok()
        }
        None => text.is_empty(),
    }
}

fn v6(text: &str) -> Option<IpAddr> {
    let without_zone = text.split('%').next().unwrap_or_default();
    let address = without_zone.parse::<Ipv6Addr>().ok()?;
    let [.., i, j, k, l] = address.octets();
    // Otherwise all IPv4 clients of a server with IPv6 only would be one network.
    let is_v4 = address.to_ipv4_mapped().is_some() || address.segments().starts_with(&TRANSLATED);
    Some(match is_v4 {
        true => IpAddr::V4(Ipv4Addr::from([i, j, k, l])),
        false => IpAddr::V6(address),
    })
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
    /// Returns the address of a text, as [`parse`].
    pub fn parse(text: &str) -> Option<Self> {
        Some(match parse(text)? {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        })
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
