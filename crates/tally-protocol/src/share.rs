//! Shares: keys for reading one prefix, which an admin creates, lists and revokes.
//!
//! Invariants: a token is `share_`, the id and a tag of the id under the deployment's secret. So nobody can invent one,
//! and other texts are refused without a read of storage. Its rights are stored under its id, so that it can be
//! revoked.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::batch::json::{WholeNumber, read_object};
use super::fields::Moment;
use super::names::LIMIT_RIGHTS;
use super::problem::{Code, Problem};
use super::public::to_json;
use super::query::ListPage;
use tally_core::counter::id::COUNTER_ID_BYTES_MAX;
use tally_core::sketch::{HashKey, hash};

/// What a token begins with.
const TOKEN_START: &str = "share_";

/// The longest name of a share, in bytes.
pub const SHARE_NAME_BYTES_MAX: usize = 64;

/// The shortest life of a share, in seconds, where it has an end: edges may notice the end this late.
pub const SHARE_SECONDS_MIN: u64 = 60;

/// The longest life: ten years.
pub const SHARE_SECONDS_MAX: u64 = 3_650 * 86_400;

/// The most shares of a deployment: 1,000 of at most 700 bytes are in one answer.
pub const SHARES_MAX: u64 = 1_000;

/// Names a share: 16 hexadecimal digits. It is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShareId(pub u64);

impl fmt::Display for ShareId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl ShareId {
    /// Parses an id.
    pub fn parse(text: &str) -> Option<Self> {
        let is_written_so = text.len() == 16
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let id = u64::from_str_radix(text, 16).ok();
        id.filter(|_| is_written_so).map(Self)
    }
}

/// The stored part of a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Share+")]
pub struct Share {
    /// The prefix that may be read.
    pub prefix: String,
    /// A note for people.
    pub name: String,
    /// When it was made, unix milliseconds.
    pub created_ms: i64,
    /// Its end, if it has one.
    pub expires_ms: Option<i64>,
}

impl Share {
    /// Returns whether its end has passed.
    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|end_ms| end_ms <= now_ms)
    }
}

/// Returns the tag of a share's id: two 64-bit SipHashes, each of a different text, under a key used for shares only.
fn tag(names: &HashKey, id: ShareId) -> [u8; 16] {
    let pair = |key: &HashKey, text: &str| {
        let half = |number: u8| hash(key, format!("{text}/{number}").as_bytes()).to_le_bytes();
        let mut both = [0; 16];
        let halves = half(0).into_iter().chain(half(1));
        for (to, from) in both.iter_mut().zip(halves) {
            *to = from;
        }
        both
    };
    let key = HashKey::from(pair(names, "tally/shares"));
    pair(&key, &id.to_string())
}

fn hex(bytes: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Returns the token of a share. `names` is the secret under which idempotency keys are hashed; it never changes.
pub fn token(names: &HashKey, id: ShareId) -> String {
    format!("{TOKEN_START}{id}_{}", hex(tag(names, id)))
}

/// A bearer token in the form of a share's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareToken {
    id: ShareId,
    tag: String,
}

impl ShareToken {
    /// The token in an `Authorization`; `None` where there is no token of a share.
    pub fn of(authorization: &str) -> Option<Self> {
        let (scheme, token) = authorization.trim().split_once(' ')?;
        let (id, tag) = token
            .trim_start()
            .strip_prefix(TOKEN_START)?
            .split_once('_')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        let id = ShareId::parse(id).filter(|_| is_bearer)?;
        Some(Self {
            id,
            tag: tag.to_owned(),
        })
    }

    /// The share that it names, if this deployment signed it. Compares in constant time.
    pub fn signed(&self, names: &HashKey) -> Option<ShareId> {
        let expected = hex(tag(names, self.id));
        let is_equal = expected.as_bytes().ct_eq(self.tag.as_bytes());
        bool::from(is_equal).then_some(self.id)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    prefix: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    expires_in_seconds: Option<WholeNumber>,
}

/// Reads `{"prefix": "/blog/", "name"?: "for Ann", "expires_in_seconds"?: seconds}`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`.
pub fn parse_share(body: &[u8], now_ms: i64) -> Result<Share, Problem> {
    let wire: Wire = read_object(body)?;
    let refuse = |detail: String| Err(Problem::new(Code::InvalidBody, detail));
    let is_text = |text: &str| !text.chars().any(char::is_control);
    if wire.prefix.len() > COUNTER_ID_BYTES_MAX || !is_text(&wire.prefix) {
        return refuse(format!(
            "prefix begins no counter id: ids have at most {COUNTER_ID_BYTES_MAX} bytes and no control characters"
        ));
    }
    if wire.prefix.starts_with(LIMIT_RIGHTS) {
        return refuse(format!(
            "a share is of counters, and a prefix that begins with `{LIMIT_RIGHTS}` covers limits"
        ));
    }
    let name = wire.name.unwrap_or_default();
    if name.len() > SHARE_NAME_BYTES_MAX || !is_text(&name) {
        return refuse(format!(
            "name must have at most {SHARE_NAME_BYTES_MAX} bytes and no control characters"
        ));
    }
    let seconds = wire.expires_in_seconds.map(|WholeNumber(seconds)| seconds);
    if seconds.is_some_and(|seconds| !(SHARE_SECONDS_MIN..=SHARE_SECONDS_MAX).contains(&seconds)) {
        return refuse(format!(
            "expires_in_seconds must be seconds from {SHARE_SECONDS_MIN} to {SHARE_SECONDS_MAX}; leave it out for a share that lasts until it is revoked"
        ));
    }
    let lasts_ms =
        seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX / 1_000) * 1_000);
    Ok(Share {
        prefix: wire.prefix,
        name,
        created_ms: now_ms,
        expires_ms: lasts_ms.map(|lasts_ms| now_ms.saturating_add(lasts_ms)),
    })
}

#[derive(Serialize)]
struct ShareView<'a> {
    id: String,
    prefix: &'a str,
    name: &'a str,
    created_at: Moment,
    /// `null` where it lasts until it is revoked.
    expires_at: Option<Moment>,
    /// A bearer for reading. Whoever has it can read. `GET /shares` returns it, and `url`, to the key that made the
    /// share and to keys above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    /// Opens the dashboard with it, below this service's origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

fn view<'a>(id: ShareId, share: &'a Share, token: Option<&'a str>) -> ShareView<'a> {
    ShareView {
        id: id.to_string(),
        prefix: &share.prefix,
        name: &share.name,
        created_at: share.created_ms,
        expires_at: share.expires_ms,
        token,
        // A fragment: a server never sees the token in the address.
        url: token.map(|token| {
            format!(
                "/dashboard/#/share/{token}?prefix={}",
                form_urlencoded::byte_serialize(share.prefix.as_bytes()).collect::<String>()
            )
        }),
    }
}

/// The JSON of `POST /shares`.
pub fn share_json(names: &HashKey, id: ShareId, share: &Share) -> String {
    to_json(&view(id, share, Some(&token(names, id))))
}

/// The JSON of `GET /shares`. The last part of each says whether the caller gets its token.
pub fn shares_json(names: &HashKey, shares: &[(ShareId, Share, bool)], page: &ListPage) -> String {
    #[derive(Serialize)]
    struct SharesView<'a> {
        entries: Vec<ShareView<'a>>,
        /// Names the next page; `null` on the last.
        cursor: Option<String>,
    }
    let (shares, cursor) = page.cut(shares, |(id, share, _)| {
        format!("{:015}/{id}", share.created_ms.max(0))
    });
    let tokens = shares
        .iter()
        .map(|(id, _, has_token)| has_token.then(|| token(names, *id)));
    let tokens: Vec<Option<String>> = tokens.collect();
    let views = shares.iter().zip(&tokens);
    to_json(&SharesView {
        entries: views
            .map(|((id, share, _), token)| view(*id, share, token.as_deref()))
            .collect(),
        cursor,
    })
}
