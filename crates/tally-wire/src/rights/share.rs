//! Shares: keys for reading one prefix, which an admin creates, lists and revokes.
//!
//! Invariants: a token is `share_`, the id and a tag of the id under the deployment's secret. So nobody can invent one,
//! and other texts are refused without a read of storage. Its rights are stored under its id, so that it can be
//! revoked.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use tally_core::sketch::{HashKey, hash};

/// What a token begins with.
const TOKEN_START: &str = "share_";

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
pub fn share_token(names: &HashKey, id: ShareId) -> String {
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
