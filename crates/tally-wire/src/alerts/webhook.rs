//! Which addresses a webhook may have.
//!
//! Invariant: an address is read here as every HTTP client reads it, or refused. Refused are user names, escapes, any
//! form of an address that is not canonical, and names that a client takes for a number. An address is checked before a
//! connection is made, and again at each delivery. A public name that resolves to an inner address cannot be recognised
//! here: the platform must refuse the connection. Under `serve` it does: names that the operator allows are reached by
//! a network of their own ([`Reach`]), so that they open inner networks for no other name.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::names::ALERTS_ALLOW;
use crate::problem::{Code, Problem};

/// The longest address, in bytes.
pub const WEBHOOK_BYTES_MAX: usize = 2_048;

/// The longest host name, and the longest part of one. Source: RFC 1035, 2.3.4.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// The most entries of the setting. Each entry is compared at each delivery.
const ALLOWED_MAX: usize = 64;

/// Suffixes of names in inner networks. Sources: RFC 6761, 6762, 8375, and common use by routers and companies.
const INNER_NAMES: [&str; 14] = [
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "arpa",
    "onion",
    "test",
    "example",
    "invalid",
];

/// Networks that are not part of the public Internet. Source: IANA's registry of special-purpose addresses, and
/// multicast.
const INNER_V4: [(Ipv4Addr, u8); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The public part of IPv6, and the exceptions within it: translation to IPv4, tests and documentation.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
const INNER_V6: [(Ipv6Addr, u8); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Networks and addresses at which clouds tell a machine its secrets. An entry that is wider than one of them does not
/// allow it. Sources: the documents of AWS, Google Cloud, Azure, Oracle Cloud and Alibaba Cloud.
const METADATA: [(IpAddr, u8); 7] = [
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), 32),
    (IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), 32),
    (IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)), 32),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    (
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
        128,
    ),
    (
        IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
        128,
    ),
];

/// Names of such addresses. An ending does not allow them: only their whole name does.
const METADATA_NAMES: [&str; 6] = [
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// Public suffixes of names that resolve to the address that is written in them, or to this machine.
const RESOLVING_NAMES: [&str; 8] = [
    "nip.io",
    "sslip.io",
    "xip.io",
    "traefik.me",
    "localtest.me",
    "lvh.me",
    "vcap.me",
    "lacolhost.com",
];

/// How much of the metadata networks an entry must name to allow an address: the bits of the network that it lies in, 0
/// where it lies in none. One that a gateway translates to another is as that one, and no entry allows it.
fn metadata_bits(address: IpAddr) -> u8 {
    let bits_of = |address: IpAddr| {
        let holds = |(network, bits): &&(IpAddr, u8)| lies_in(address, *network, *bits);
        let bits = METADATA.iter().filter(holds).map(|(_, bits)| *bits);
        bits.max().unwrap_or(0)
    };
    match translated(address) {
        Some(inner) if bits_of(inner.into()) > 0 => u8::MAX,
        _ => bits_of(address),
    }
}

/// The address of version 4 to which gateways on the way translate one of version 6. Sources: RFC 6052, 2.1 and RFC
/// 8215 (NAT64), RFC 3056 (6to4), RFC 4291, 2.5.5.1 (compatible).
fn translated(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let [a, b, c, d, e, f, high, low] = address.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match [a, b, c, d, e, f] {
        [0x64, 0xff9b, 0, 0, 0, 0] | [0x64, 0xff9b, 1, ..] | [0, 0, 0, 0, 0, 0] => {
            Some(of(high, low))
        }
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

/// Returns whether an address lies in a network. An IPv4 address in IPv6 form counts as IPv4.
fn lies_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let prefix_of = |number: u128, width: u32| {
        let rest = width.saturating_sub(bits.into());
        number.checked_shr(rest).unwrap_or(0)
    };
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let number = |address: Ipv4Addr| u128::from(address.to_bits());
            prefix_of(number(one), u32::BITS) == prefix_of(number(other), u32::BITS)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            prefix_of(one.to_bits(), u128::BITS) == prefix_of(other.to_bits(), u128::BITS)
        }
        _ => false,
    }
}

/// Returns whether an address belongs to an inner network, or to none.
pub fn is_inner(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(_) => {
            let inner = |(network, bits): &(Ipv4Addr, u8)| {
                lies_in(address.to_canonical(), (*network).into(), *bits)
            };
            INNER_V4.iter().any(inner)
        }
        IpAddr::V6(_) => {
            let (global, bits) = GLOBAL_V6;
            let inner =
                |(network, bits): &(Ipv6Addr, u8)| lies_in(address, (*network).into(), *bits);
            !lies_in(address, global.into(), bits) || INNER_V6.iter().any(inner)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Network(IpAddr, u8),
    Host(String),
    /// All names that end so, with the dot before.
    Ending(String),
}

/// The exceptions: inner addresses that webhooks may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed(Vec<Entry>);

impl Allowed {
    /// Reads the setting: a JSON array of networks such as `10.0.0.0/8`, addresses, names, and endings such as
    /// `*.corp.example`.
    ///
    /// # Errors
    /// Says which entry is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries: Vec<String> = serde_json::from_str(text).map_err(|_| {
            r#"a JSON array of networks and names, such as ["10.0.0.0/8","localhost"]"#.to_owned()
        })?;
        if entries.len() > ALLOWED_MAX {
            return Err(format!("an array of at most {ALLOWED_MAX} entries"));
        }
        let read = |entry: &String| {
            Self::entry(entry).ok_or_else(|| {
                "networks such as 10.0.0.0/8, addresses, names, and endings such as *.corp.example"
                    .to_owned()
            })
        };
        entries.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// What the setting allows; nothing where it is not set or cannot be read.
    pub fn of(setting: Option<&str>) -> Self {
        setting
            .and_then(|text| Self::parse(text).ok())
            .unwrap_or_default()
    }

    fn entry(text: &str) -> Option<Entry> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        if let Ok(address) = address.parse::<IpAddr>() {
            let bits_max = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.unwrap_or(bits_max);
            return (bits <= bits_max).then_some(Entry::Network(address, bits));
        }
        let name = text.to_ascii_lowercase();
        let ending = name.strip_prefix('*').filter(|rest| rest.starts_with('.'));
        let is_name = |name: &str| bits.is_none() && name.split('.').all(is_label);
        match ending {
            Some(ending) => is_name(ending.get(1..)?).then(|| Entry::Ending(ending.to_owned())),
            None => is_name(&name).then_some(Entry::Host(name)),
        }
    }

    fn has_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let bits_min = metadata_bits(address);
        let has = |entry: &Entry| match entry {
            Entry::Network(network, bits) => *bits >= bits_min && lies_in(address, *network, *bits),
            Entry::Host(_) | Entry::Ending(_) => false,
        };
        self.0.iter().any(has)
    }

    /// Whether a connection to an address may be made, where the platform leaves that to the program: `address` is what
    /// the name of a webhook resolved to just now. This machine is reached by its own names alone.
    pub fn opens(&self, address: IpAddr, reach: Reach) -> bool {
        let address = address.to_canonical();
        if self.has_address(address) {
            return true;
        }
        let is_local = address.is_loopback() || address.is_unspecified();
        match reach {
            _ if metadata_bits(address) > 0 => false,
            Reach::Public => !is_inner(address),
            Reach::Named => !is_local || self.has_name("localhost"),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        let has = |entry: &Entry| match entry {
            Entry::Host(host) => host == name,
            Entry::Ending(ending) => name.ends_with(ending) && !METADATA_NAMES.contains(&name),
            Entry::Network(..) => false,
        };
        self.0.iter().any(has)
    }
}

fn is_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(is_part)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// The host of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    Name(String),
}

/// The refusal of an address.
fn refuse<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(Code::WebhookNotAllowed, detail))
}

fn host_of(text: &str) -> Result<Host, Problem> {
    if let Some(inside) = text.strip_prefix('[') {
        let address = inside
            .strip_suffix(']')
            .and_then(|text| text.parse::<Ipv6Addr>().ok());
        return match address {
            Some(address) => Ok(Host::Address(address.into())),
            None => refuse("webhook names no address of version 6 in its brackets"),
        };
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Address(address.into()));
    }
    let name = text.to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    // Clients read a name whose last part begins with a digit as an address: 2130706433, 0x7f.1 and 127.1 are all
    // 127.0.0.1.
    let is_number = last.starts_with(|first: char| first.is_ascii_digit());
    if name.len() > HOST_BYTES_MAX || !name.split('.').all(is_label) || is_number {
        return refuse(
            "webhook must name a host by letters, digits, `-` and dots, or an address in its usual form",
        );
    }
    Ok(Host::Name(name))
}

/// Returns the host of an address without its port, for logs: what follows it may be secret.
pub fn host_name(webhook: &str) -> &str {
    let rest = webhook.split_once("://").map_or(webhook, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// A request that leaves the deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The address.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(Cow<'static, str>, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// What it may connect to.
    pub reach: Reach,
}

/// What a delivery may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses, and those that the operator names.
    Public,
    /// Inner addresses too: the operator names the host.
    Named,
}

/// Whether a name ends in a suffix, or is one.
fn is_within(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether a name leads into an inner network.
fn is_inner_name(name: &str) -> bool {
    let mut parts = name.rsplit('.');
    let last = parts.next().unwrap_or_default();
    parts.next().is_none()
        || INNER_NAMES.contains(&last)
        || METADATA_NAMES.contains(&name)
        || RESOLVING_NAMES.iter().any(|suffix| is_within(name, suffix))
}

/// Returns what a delivery to a webhook of this address may connect to.
///
/// # Errors
/// `webhook-not-allowed` saying why it may not have this address.
pub fn check(webhook: &str, allowed: &Allowed) -> Result<Reach, Problem> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}#@".contains(&byte);
    if webhook.len() > WEBHOOK_BYTES_MAX || !webhook.bytes().all(is_plain) {
        return refuse(format!(
            "webhook must be an address of at most {WEBHOOK_BYTES_MAX} ASCII characters, without a user name, a fragment and characters \
             that must be escaped"
        ));
    }
    let Some((scheme, rest)) = webhook.split_once("://") else {
        return refuse("webhook must begin with https://");
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, _) = rest.split_at(end);
    let port_at = authority.rfind(':').filter(|at| {
        let after = authority.get(at + 1..).unwrap_or_default();
        !after.contains(']')
    });
    let (host, port) = match port_at {
        Some(at) => (
            authority.get(..at).unwrap_or_default(),
            authority.get(at + 1..),
        ),
        None => (authority, None),
    };
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    if !port.is_none_or(is_port) {
        return refuse("webhook has no port from 1 to 65535 after its host");
    }
    let host = host_of(host)?;
    let is_allowed = match &host {
        Host::Address(address) => allowed.has_address(*address),
        Host::Name(name) => allowed.has_name(name),
    };
    match scheme {
        "https" => {}
        "http" if is_allowed => {}
        "http" => {
            return refuse(format!(
                "webhook must begin with https://; the operator allows http:// for a host by {ALERTS_ALLOW}"
            ));
        }
        _ => return refuse("webhook must begin with https://"),
    }
    let is_refused = match &host {
        Host::Address(address) => is_inner(*address) || metadata_bits(address.to_canonical()) > 0,
        Host::Name(name) => is_inner_name(name),
    };
    if is_refused && !is_allowed {
        return refuse(format!(
            "webhook leads into an inner network; the operator allows a host by {ALERTS_ALLOW}"
        ));
    }
    Ok(match host {
        Host::Name(_) if is_allowed => Reach::Named,
        Host::Name(_) | Host::Address(_) => Reach::Public,
    })
}
