//! The text settings of a deployment, and the allowed values of each. The code, the start of `make serve` and `make
//! dev`, `/healthz` and docs/operate/variables.md share this table.
//!
//! Invariant: a number out of its range, or an unknown word, counts as not set, so that the deployment keeps running.
//! `/healthz` names the setting, and the local commands refuse to start. With a wrong setting that protects data, calls
//! are refused: see `access` of the API.

use std::fmt;

use crate::alerts::webhook::{self, Allowed, WEBHOOK_BYTES_MAX};
use crate::names::{
    ACCESS, ACCESS_OPEN, ALERTS_ALLOW, BODY_PIECE_MS, CANARY, CANARY_ON, CLIENT_ADDRESS_HEADER,
    DATACENTERS, DATACENTERS_ONE, DATACENTERS_REGION, DIRECTORY_COUNT, HASH_KEY, IDEMPOTENCY,
    IDEMPOTENCY_DATACENTER, IDEMPOTENCY_SECONDS, JURISDICTION, LEAVE_PER_SECOND, LIMITER_COUNT,
    LIMITER_COUNT_BEFORE, LIVE_WATCHERS, OPEN_OBJECTS_MAX, OTLP_ATTRIBUTES, OTLP_HEADERS, OTLP_URL,
    QUIET_MS, REDIS, REDIS_ROOT, SECONDS_KEPT, SNAPSHOTS, SPLIT_FLUSHES_PER_SECOND, SUBREQUESTS,
    TABLET_COUNT, UNIQUES_ROUNDING,
};
use crate::otlp;
use crate::problem::{Code, Problem};
use crate::shell_limits::ARRIVAL_MS_MAX;
use crate::snapshot::{SNAPSHOTS_OFF, SnapshotPlan};

/// The most limiters of a datacenter: about 4,096,000 messages a second.
pub const LIMITERS_MAX: u64 = 4_096;

/// The most partitions of the directory: as many as the ring allows.
pub const DIRECTORY_MAX: u64 = 4_096;

/// The most tablets of a datacenter: as many as a ring has partitions.
pub const TABLETS_MAX: u64 = 4_096;

/// The jurisdictions of Cloudflare. Source: `DurableObjectJurisdiction` in the types of its runtime.
const JURISDICTIONS: [&str; 4] = ["eu", "fedramp", "fedramp-high", "us"];

/// How many characters of a wrong value a refusal repeats.
const SHOWN_CHARACTERS_MAX: usize = 32;

/// The allowed values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedValues {
    /// A whole number in decimal digits, from the first to the second.
    Whole(u64, u64),
    /// One of these words.
    Words(&'static [&'static str]),
    /// One of these words, or the name of a host.
    WordsOrHost(&'static [&'static str]),
    /// 16 bytes as 32 hexadecimal digits. Secret: no refusal repeats it.
    Key,
    /// The name of a header.
    Header,
    /// The schedule of snapshots, as JSON, or `off`.
    Snapshots,
    /// A JSON array of networks and names, see [`Allowed`].
    Addresses,
    /// The address of a receiver. No refusal repeats it, because a query may be secret.
    Address,
    /// Headers of requests, see [`otlp::headers`]. Secret, as a key.
    Headers,
    /// Attributes of a resource, see [`otlp::attributes`].
    Attributes,
}

/// All text settings, except `TALLY_ROLE`, which is not for operators, and `TALLY_KEYS`, which the API reads.
pub const SETTINGS: [(&str, AllowedValues); 27] = [
    (ACCESS, AllowedValues::Words(&[ACCESS_OPEN, "closed"])),
    (HASH_KEY, AllowedValues::Key),
    (CLIENT_ADDRESS_HEADER, AllowedValues::Header),
    (
        UNIQUES_ROUNDING,
        AllowedValues::Words(&["off", "1", "2", "3"]),
    ),
    (
        DATACENTERS,
        AllowedValues::Words(&["colos", DATACENTERS_REGION, DATACENTERS_ONE]),
    ),
    (SPLIT_FLUSHES_PER_SECOND, AllowedValues::Whole(1, 1_000_000)),
    (QUIET_MS, AllowedValues::Whole(1, 86_400_000)),
    (LEAVE_PER_SECOND, AllowedValues::Whole(1, 1_000_000)),
    (
        BODY_PIECE_MS,
        AllowedValues::Whole(1, ARRIVAL_MS_MAX.cast_unsigned()),
    ),
    (IDEMPOTENCY_SECONDS, AllowedValues::Whole(60, 604_800)),
    // As SECONDS_KEPT_ALLOWED.
    (SECONDS_KEPT, AllowedValues::Whole(900, 86_400)),
    (
        IDEMPOTENCY,
        AllowedValues::Words(&["everywhere", IDEMPOTENCY_DATACENTER]),
    ),
    (LIMITER_COUNT, AllowedValues::Whole(1, LIMITERS_MAX)),
    (LIMITER_COUNT_BEFORE, AllowedValues::Whole(1, LIMITERS_MAX)),
    (TABLET_COUNT, AllowedValues::Whole(1, TABLETS_MAX)),
    (DIRECTORY_COUNT, AllowedValues::Whole(1, DIRECTORY_MAX)),
    // The platform accepts at most so many sockets for one object.
    (LIVE_WATCHERS, AllowedValues::Whole(1, 32_768)),
    (SUBREQUESTS, AllowedValues::Whole(1_000, 10_000_000)),
    (OPEN_OBJECTS_MAX, AllowedValues::Whole(1, 10_000_000)),
    (CANARY, AllowedValues::Words(&[CANARY_ON, "off"])),
    (ALERTS_ALLOW, AllowedValues::Addresses),
    (REDIS, AllowedValues::WordsOrHost(&["path", REDIS_ROOT])),
    (SNAPSHOTS, AllowedValues::Snapshots),
    (JURISDICTION, AllowedValues::Words(&JURISDICTIONS)),
    (OTLP_URL, AllowedValues::Address),
    (OTLP_HEADERS, AllowedValues::Headers),
    (OTLP_ATTRIBUTES, AllowedValues::Attributes),
];

impl AllowedValues {
    fn takes(self, text: &str) -> bool {
        match self {
            Self::Whole(min, max) => {
                whole_of(text).is_some_and(|whole| (min..=max).contains(&whole))
            }
            Self::Words(words) => words.contains(&text),
            Self::WordsOrHost(words) => words.contains(&text) || is_host(text),
            Self::Key => text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Self::Addresses => Allowed::parse(text).is_ok(),
            Self::Address => {
                let rest = text
                    .strip_prefix("https://")
                    .or_else(|| text.strip_prefix("http://"));
                rest.is_some_and(|rest| !rest.is_empty()) && text.len() <= WEBHOOK_BYTES_MAX
            }
            Self::Headers => otlp::headers(text).is_some(),
            Self::Attributes => otlp::attributes(text).is_some(),
            Self::Header => text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)),
            Self::Snapshots => text == SNAPSHOTS_OFF || SnapshotPlan::parse(text).is_some(),
        }
    }
}

impl fmt::Display for AllowedValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(min, max) => {
                write!(formatter, "a whole number from {min} to {max}")
            }
            Self::Words(words) => write!(formatter, "`{}`", words.join("`, `")),
            Self::WordsOrHost(words) => {
                write!(formatter, "`{}`, or the name of a host", words.join("`, `"))
            }
            Self::Key => formatter.write_str("32 hexadecimal digits"),
            Self::Header => formatter.write_str("the name of a header"),
            Self::Snapshots => formatter.write_str(
                r#"`off`, or JSON such as `{"hour":0,"full_every_days":7,"keep_days":400}`: an hour from 0 to 23, 1 to 31 days, 1 to 36,500 days"#,
            ),
            Self::Addresses => formatter.write_str(
                r#"a JSON array of networks, addresses and names, such as ["10.0.0.0/8","*.corp.example"]"#,
            ),
            Self::Address => {
                formatter.write_str("an address such as `https://otlp.example.com/v1/metrics`")
            }
            Self::Headers => formatter
                .write_str("up to 16 headers such as `authorization=Bearer%20abc,x-scope=1`"),
            Self::Attributes => formatter
                .write_str("up to 16 attributes such as `deployment.environment=production`"),
        }
    }
}

/// Whether it is a host name with a domain, as in requests: in any case, with or without a port.
fn is_host(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
    text.contains(['.', ':']) && text.bytes().all(is_part)
}

/// A number of decimal digits only: no sign, no point.
fn whole_of(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_digits)
}

/// Succeeds where a setting may have this value. Text is not empty and has no white space around it.
///
/// # Errors
/// `not-configured` with the setting, its allowed values and what to do.
pub fn check(name: &str, text: &str) -> Result<(), Problem> {
    let known = SETTINGS.iter().find(|(known, _)| *known == name);
    let Some((_, takes)) = known.filter(|(_, takes)| !takes.takes(text)) else {
        return Ok(());
    };
    let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    let rest = if shown.len() < text.len() { "…" } else { "" };
    let instead = match takes {
        AllowedValues::Key | AllowedValues::Address | AllowedValues::Headers => String::new(),
        _ => format!(", not `{shown}{rest}`"),
    };
    Err(Problem::new(
        Code::NotConfigured,
        format!("{name} must be {takes}{instead}: correct it, or leave it out"),
    ))
}

/// Succeeds where all settings, as read, have allowed values.
///
/// # Errors
/// `not-configured` about the first setting that has another value, as [`check`].
pub fn check_all(read: impl Fn(&str) -> Option<String>) -> Result<(), Problem> {
    SETTINGS
        .iter()
        .filter_map(|(name, _)| Some((name, read(name)?)))
        .try_for_each(|(name, text)| check(name, &text))?;
    let Some(url) = read(OTLP_URL) else {
        return Ok(());
    };
    let allowed = Allowed::of(read(ALERTS_ALLOW).as_deref());
    webhook::check(&url, &allowed).map(drop).map_err(|problem| {
        let why = problem.detail().trim_start_matches("webhook");
        Problem::new(Code::NotConfigured, [OTLP_URL, why].concat())
    })
}

/// The number of a setting, if it is allowed.
pub fn number(name: &str, text: &str) -> Option<u64> {
    check(name, text).ok()?;
    whole_of(text)
}
