//! The stored form of a key that was refused.
//!
//! Invariant: no whole address is stored. The caller chooses the key, so addresses are searched for in it; each is
//! replaced by its network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::counter::dimensions::DIMENSION_VALUE_BYTES_MAX;

/// The longest text of an address: one of IPv6 that ends in one of IPv4.
const ADDRESS_BYTES_MAX: usize = 45;

/// The key with networks in place of addresses, cut to 256 bytes: `ip:203.0.113.9` is stored as `ip:203.0.113.0/24`,
/// and `2001:db8:1:2::3` as `2001:db8:1::/48`.
pub fn kept_of_key(key: &str) -> String {
    let mut kept = String::with_capacity(key.len());
    let mut rest = key;
    while !rest.is_empty() {
        let run = rest.find(|sign| !is_of_address(sign)).unwrap_or(rest.len());
        let (address, after) = rest.split_at(run);
        push_without_addresses(&mut kept, address);
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

/// Appends a text of digits, colons and points, with networks in place of addresses. If a part of the text could belong
/// to several addresses, as when a number stands before an IPv6 address, the network of the first stands for all of
/// them. Otherwise the end of one address would be kept.
fn push_without_addresses(kept: &mut String, run: &str) {
    let mut rest = 0;
    let has_none = run.matches(':').nth(1).is_none() && run.matches('.').nth(2).is_none();
    for begin in 0..if has_none { 0 } else { run.len() } {
        if begin < rest {
            continue;
        }
        let Some((address, mut end)) = address_at(run, begin, begin) else {
            continue;
        };
        kept.push_str(run.get(rest..begin).unwrap_or_default());
        kept.push_str(&network(address));
        let mut inner = begin;
        while inner < end {
            end = address_at(run, inner, end).map_or(end, |(_, end)| end);
            inner += 1;
        }
        rest = end;
    }
    kept.push_str(run.get(rest..).unwrap_or_default());
}

/// The longest address that begins at `begin` and ends after `after`, whatever stands beside it, and where it ends. An
/// address of no host, such as `::`, does not count.
fn address_at(run: &str, begin: usize, after: usize) -> Option<(IpAddr, usize)> {
    let text = run.get(begin..)?;
    // It has at most eight colons and three points.
    let ends = [
        text.match_indices(':').nth(8),
        text.match_indices('.').nth(3),
    ];
    let ends = ends.into_iter().flatten().map(|(index, _)| index);
    let longest = ends.fold(text.len().min(ADDRESS_BYTES_MAX), usize::min);
    let found = (after + 1 - begin..=longest).rev().find_map(|length| {
        let address = text.get(..length)?.parse::<IpAddr>().ok()?;
        Some((address, begin + length))
    });
    found.filter(|(address, _)| !address.is_unspecified())
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
