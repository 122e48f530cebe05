//! The stored form of a key that was refused.
//!
//! Invariant: no whole address is stored. The caller chooses the key, so addresses are searched for in it; each is
//! replaced by its network.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tally_core::counter::dimensions::DIMENSION_VALUE_BYTES_MAX;

/// The key with networks in place of addresses, cut to 256 bytes: `ip:203.0.113.9` is stored as `ip:203.0.113.0/24`,
/// and `2001:db8:1:2::3` as `2001:db8:1::/48`.
pub fn kept_of_key(key: &str) -> String {
    let mut kept = String::with_capacity(key.len());
    let mut rest = key;
    while !rest.is_empty() {
        let run = rest.find(|sign| !is_of_address(sign)).unwrap_or(rest.len());
        let (address, after) = rest.split_at(run);
        kept.push_str(&without_addresses(address));
        let other = after.find(is_of_address).unwrap_or(after.len());
        let (other, after) = after.split_at(other);
        kept.push_str(other);
        rest = after;
    }
    while kept.len() > DIMENSION_VALUE_BYTES_MAX {
        kept.pop();
    }
    kept
}

fn is_of_address(sign: char) -> bool {
    sign.is_ascii_hexdigit() || matches!(sign, ':' | '.')
}

/// A text of digits, colons and points, with networks in place of addresses.
fn without_addresses(text: &str) -> Cow<'_, str> {
    let inner = text.trim_matches(':');
    for whole in [text, inner] {
        if let Ok(address) = whole.parse::<IpAddr>() {
            return text.replacen(whole, &network(address), 1).into();
        }
    }
    // An address with a port, or after a word.
    let parts = text.split(':').map(|part| match part.parse::<Ipv4Addr>() {
        Ok(address) => Cow::from(network(address.into())),
        Err(_) => Cow::from(part),
    });
    parts.collect::<Vec<_>>().join(":").into()
}

/// The network of 24 bits, or of 48, in which an address is.
fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            format!("{}/24", Ipv4Addr::new(first, second, third, 0))
        }
        IpAddr::V6(address) => {
            let [first, second, third, ..] = address.segments();
            format!("{}/48", Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0))
        }
    }
}
