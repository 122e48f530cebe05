//! Requests and answers about shares.

use serde::{Deserialize, Serialize};

use crate::fields::Moment;
use crate::json::{WholeNumber, read_object, to_json};
use crate::query::ListPage;
use tally_core::counter::id::COUNTER_ID_BYTES_MAX;
use tally_core::sketch::HashKey;
use tally_wire::names::LIMIT_RIGHTS;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{Share, ShareId, share_token};

/// The longest name of a share, in bytes.
pub const SHARE_NAME_BYTES_MAX: usize = 64;

/// The shortest life of a share, in seconds, where it has an end: edges may notice the end this late.
pub const SHARE_SECONDS_MIN: u64 = 60;

/// The longest life: ten years.
pub const SHARE_SECONDS_MAX: u64 = 3_650 * 86_400;

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
    to_json(&view(id, share, Some(&share_token(names, id))))
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
        .map(|(id, _, has_token)| has_token.then(|| share_token(names, *id)));
    let tokens: Vec<Option<String>> = tokens.collect();
    let views = shares.iter().zip(&tokens);
    to_json(&SharesView {
        entries: views
            .map(|((id, share, _), token)| view(*id, share, token.as_deref()))
            .collect(),
        cursor,
    })
}
