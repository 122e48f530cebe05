//! Every refusal that a client can get: a stable code, its HTTP status, and a sentence that says who must do what.
//! Source: RFC 9457 (problem details).

use serde::Serialize;

macro_rules! codes {
    ($($variant:ident $text:literal $status:literal $title:literal $remedy:literal;)*) => {
        /// The stable code of a refusal. Codes are never renamed: clients branch on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// All codes, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The code as clients see it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// The HTTP status that goes with the code.
            pub const fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)* }
            }

            /// A short summary, the same for every occurrence.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }

            /// What to do about it, for people: a sentence without its full stop.
            pub const fn remedy(self) -> &'static str {
                match self { $(Code::$variant => $remedy,)* }
            }

            /// The code with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name)
            }
        }
    };
}

codes! {
    InvalidJson "invalid-json" 400 "The body is not JSON"
        "Send valid JSON; `detail` names the place of the mistake";
    InvalidBody "invalid-body" 400 "The body does not have the expected shape"
        "Send a body of the shape in OpenAPI";
    UnknownField "unknown-field" 400 "The body has a field that this call does not know"
        "Leave out the field that `detail` names";
    NoClientAddress "no-client-address" 400 "The client's address is not known here"
        "Set `TALLY_CLIENT_ADDRESS_HEADER`, or send `ip` and `user_agent`: see Unique visitors";
    InvalidDelta "invalid-delta" 400 "A delta is a positive whole number"
        "Send a positive whole number";
    InvalidId "invalid-id" 400 "An id or a name is not valid"
        "Send an id of 1 to 512 bytes of UTF-8, percent-encoded";
    InvalidLine "invalid-line" 400 "The line cannot be read"
        "Correct the line of a bulk body";
    InvalidQuery "invalid-query" 400 "A query parameter is not valid"
        "Correct the parameter that `detail` names, or leave it out";
    InvalidUpgrade "invalid-upgrade" 400 "The connection cannot be upgraded to this"
        "Open `/live` as a WebSocket of version 13, or without `Upgrade`";
    RangeTooLarge "range-too-large" 400 "The range has too many points"
        "Ask for fewer points: a coarser `step`, or less time";
    ClockSkew "clock-skew" 400 "The given time is too far from the server's clock"
        "Leave `at` out, or set your clock";
    InvalidIdempotencyKey "invalid-idempotency-key" 400 "The idempotency key is not valid"
        "Send one header line of 1 to 255 visible ASCII characters, no space after a comma";
    InvalidPrecondition "invalid-precondition" 400 "The precondition cannot be read"
        "Send `If-Match` with one version in quotes, or `*`. Leave it out of writes that take none";
    InvalidPolicy "invalid-policy" 400 "The policy is not valid"
        "Correct the name or the field of the policy that `detail` names";
    InvalidPattern "invalid-pattern" 400 "The pattern of an override is not valid"
        "Send a key, or the beginning of keys with one star at its end, as `acme-*`";
    InvalidOverride "invalid-override" 400 "The override is not valid"
        "Correct the field of the override that `detail` names";
    InvalidCost "invalid-cost" 400 "A cost is a positive whole number"
        "Send a positive whole number";
    NeedsHold "needs-hold" 400 "The policy takes holds, not checks"
        "Store the policy, `POST` a hold instead of a check, and release it";
    CostExceedsLimit "cost-exceeds-limit" 400 "The cost could never be admitted"
        "Send a cost up to the policy's limit. Split a body that is larger than the budget of your key, or of \
         your address";
    InvalidScore "invalid-score" 400 "The score is not valid"
        "Send a number in the range of a double; to a board of integers, a whole number up to 2^53 − 1";
    InvalidHll "invalid-hll" 400 "The body is no HyperLogLog of Redis"
        "Send the string as Redis stores it, without a line feed";
    InvalidGzip "invalid-gzip" 400 "The body is not valid gzip"
        "Send the complete gzip stream";
    Unauthorized "unauthorized" 401 "A key is needed"
        "Send `Authorization: Bearer <key>`: see Keys";
    Forbidden "forbidden" 403 "The key does not allow this"
        "Use a key whose scopes and prefix cover the call";
    WebhookNotAllowed "webhook-not-allowed" 400 "The webhook may not have this address"
        "Give a webhook an `https` address outside of your network, or have the operator allow it";
    NotFound "not-found" 404 "There is no such route"
        "See the calls. Send each slash of an id as `%2F`. If you do, look at the proxy";
    CounterNotFound "counter-not-found" 404 "There is no such counter"
        "Write to the counter first";
    ShareNotFound "share-not-found" 404 "There is no such share"
        "`GET /shares` lists the shares that exist";
    KeyNotFound "key-not-found" 404 "There is no such key"
        "`GET /keys` lists the keys that exist";
    PolicyNotFound "policy-not-found" 404 "There is no such policy"
        "Make the policy with `PUT` first, or send it with the check";
    OverrideNotFound "override-not-found" 404 "There is no such override"
        "`GET /limits/{policy}/overrides` lists the overrides that exist";
    HoldNotFound "hold-not-found" 404 "There is no such hold"
        "Send the id of the hold to the policy, key and datacenter that gave it";
    BoardNotFound "board-not-found" 404 "There is no such board"
        "Write to the board, or `PUT` it, first";
    AlertNotFound "alert-not-found" 404 "There is no such alert"
        "`GET /alerts` lists the alerts that exist";
    MemberNotFound "member-not-found" 404 "There is no such member"
        "Write its score first. The member has no score, expired, was removed or is hidden";
    SnapshotNotFound "snapshot-not-found" 404 "There is no such snapshot"
        "`GET /snapshots` lists the snapshots that exist";
    PeriodNotFound "period-not-found" 404 "There is no such period"
        "`GET /boards/{board}?include=periods` lists the periods that the board keeps";
    MethodNotAllowed "method-not-allowed" 405 "The route does not know this method"
        "Use a method of the `Allow` header";
    AlreadyExists "already-exists" 409 "There is such a counter, policy or board already"
        "A line of an import names something that exists: send it with `mode=replace` or \
         `mode=add`, or leave it out";
    CounterEnded "counter-ended" 409 "The counter has been deleted since"
        "Send the write with a new key: somebody deleted the counter after the first write";
    BoardEnded "board-ended" 409 "The board has been deleted since"
        "Somebody deleted the board. Use another key to write to a new board of that name";
    BoardFull "board-full" 409 "The board has no room"
        "Raise `members_max`, or remove members";
    BoardSettingsFixed "board-settings-fixed" 409 "The board has members"
        "Delete the board first, or take another name";
    BoardsDiffer "boards-differ" 409 "The boards have different orders"
        "Name boards with the same `order`";
    NeedsHome "needs-home" 409 "The counter needs a home for this"
        "Name a home: several datacenters count this counter";
    HashMismatch "hash-mismatch" 409 "Unique elements were hashed with different keys"
        "Compare counters with the same `unique_hash` and the same hash key";
    BelowFloor "below-floor" 409 "The value would be below the counter's floor"
        "Decrement by less, or not at all";
    HashKeySet "hash-key-set" 409 "The hash key is a setting of the deployment"
        "Set another `TALLY_HASH_KEY` instead of rotating";
    BodyTooSlow "body-too-slow" 408 "The body took too long to arrive"
        "Send it again over a faster connection, or in smaller parts. Nothing counted, unless `detail` names \
         lines";
    PreconditionFailed "precondition-failed" 412 "The counter or board has changed since"
        "The value has changed. Read it again, then decide again";
    BodyTooLarge "body-too-large" 413 "The body is too large"
        "Send less in one call";
    UnsupportedEncoding "unsupported-encoding" 415 "The body has a content encoding that this call does not read"
        "Send the body uncompressed, or as gzip";
    IdempotencyKeyReused "idempotency-key-reused" 422 "The idempotency key was used for another write"
        "Use a new key for another write";
    QuotaExceeded "quota-exceeded" 429 "Request quota exceeded"
        "Wait for `Retry-After`";
    TooManyShares "too-many-shares" 409 "The deployment has too many shares"
        "Revoke shares that nobody uses any more";
    TooManyKeys "too-many-keys" 409 "The deployment has too many keys"
        "Revoke keys that nobody uses any more";
    TooManyAlerts "too-many-alerts" 409 "The deployment has too many alerts"
        "Delete alerts that nobody needs any more";
    TooManyPolicies "too-many-policies" 409 "The deployment has too many policies"
        "Delete policies, or send them with the checks";
    TooManyOverrides "too-many-overrides" 409 "There are too many overrides"
        "Delete overrides that nobody needs any more, or join several into one prefix";
    MeterShared "meter-shared" 409 "The key shares a meter with others, and nothing of that is given back"
        "Wait: Tally gave nothing back, because the key shares a meter with others";
    HoldSettled "hold-settled" 409 "The hold was settled before"
        "Do nothing: the hold was settled before";
    HoldEnded "hold-ended" 409 "The time of the hold is over"
        "Settle in time, or send a larger `ttl_seconds`";
    TooManyCounters "too-many-counters" 400 "The call names too many counters"
        "Name fewer counters. If it is the code of a line, send the line in another body";
    Internal "internal" 500 "Internal error"
        "Report it to the operator with the `Request-Id`; it is logged";
    NotConfigured "not-configured" 503 "A setting of this deployment is missing or wrong"
        "Set `TALLY_KEYS`, or correct the variable that `detail` names";
    Unavailable "unavailable" 503 "A needed part of the service did not answer"
        "Repeat a read; repeat a write with its `Idempotency-Key`";
    LimiterUnavailable "limiter-unavailable" 503 "The limiter did not answer, and the policy refuses then"
        "Wait for `Retry-After`. The limiter is unreachable, and the policy has `\"on_error\":\"closed\"`";
    Overloaded "overloaded" 503 "Too many requests are in progress here"
        "Wait for `Retry-After`; nothing was counted";
    VersionNotReached "version-not-reached" 504 "The requested version was not reached in time"
        "Read again; `seen` is the version of the value that Tally read instead";
}

/// A refusal: the code and what to do about this occurrence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", .code.as_str())]
pub struct Problem {
    code: Code,
    detail: String,
    retry_after_seconds: Option<u32>,
    seen: Option<String>,
}

/// The earliest retry where nothing better is known.
pub const RETRY_AFTER_SECONDS: u32 = 1;

impl Problem {
    /// A problem of this code; `detail` says who must do what. Codes of status 503 and 504 carry a `Retry-After` of one
    /// second, except `not-configured`, which no retry can solve.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let retry = matches!(code.status(), 503 | 504) && code != Code::NotConfigured;
        Self {
            code,
            detail: detail.into(),
            retry_after_seconds: retry.then_some(RETRY_AFTER_SECONDS),
            seen: None,
        }
    }

    /// The same, with the name of the parameter or field in the detail of an invalid id.
    #[must_use]
    pub fn of_id(self, name: &str) -> Self {
        match self.detail.strip_prefix("an id") {
            Some(rest) if self.code == Code::InvalidId => {
                Self::new(self.code, ["`", name, "`", rest].concat())
            }
            _ => self,
        }
    }

    /// The same, with the version that was read as its member `seen`.
    #[must_use]
    pub fn with_seen(self, version: String) -> Self {
        Self {
            seen: Some(version),
            ..self
        }
    }

    /// The same, with the time before a retry can help.
    #[must_use]
    pub fn with_retry_after(self, seconds: u32) -> Self {
        Self {
            retry_after_seconds: Some(seconds),
            ..self
        }
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The sentence for this occurrence.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Seconds for the `Retry-After` header, where a retry can help.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.retry_after_seconds
    }

    /// The `application/problem+json` body.
    pub fn to_json(&self) -> String {
        /// RFC 9457. Routes that do not exist are `not-found`; methods that a route does not know are
        /// `method-not-allowed`, with `Allow`.
        #[derive(Serialize)]
        struct Body<'a> {
            /// The page of the code, `/problems/{code}` of this deployment; of `quota-exceeded` the page of the HTTP
            /// problem types registry.
            r#type: String,
            title: &'static str,
            status: u16,
            /// Who must do what.
            detail: &'a str,
            code: &'static str,
            /// With `version-not-reached`: the version of what was read instead, of a counter or a board.
            #[serde(skip_serializing_if = "Option::is_none")]
            seen: Option<&'a str>,
        }
        let body = Body {
            r#type: ["/problems/", self.code.as_str()].concat(),
            title: self.code.title(),
            status: self.code.status(),
            detail: &self.detail,
            code: self.code.as_str(),
            seen: self.seen.as_deref(),
        };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

impl Code {
    /// The body of the page about this code.
    pub fn page_json(self) -> String {
        #[derive(Serialize)]
        struct Page {
            code: &'static str,
            status: u16,
            title: &'static str,
            /// What to do, for people.
            remedy: &'static str,
        }
        let page = Page {
            code: self.as_str(),
            status: self.status(),
            title: self.title(),
            remedy: self.remedy(),
        };
        serde_json::to_string(&page).unwrap_or_default()
    }

    /// The page about this code, as HTML. No text in it comes from a caller.
    pub fn page_html(self) -> String {
        let (code, title, status) = (self.as_str(), self.title(), self.status());
        let remedy = self.remedy().replace('&', "&amp;").replace('<', "&lt;");
        format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{code}</title><h1>{code}</h1>\
             <p>{title} (HTTP status {status}).<p>What to do: {remedy}.</html>\n"
        )
    }
}

impl From<tally_core::counter::dimensions::DimensionFault> for Problem {
    fn from(fault: tally_core::counter::dimensions::DimensionFault) -> Self {
        Problem::new(Code::InvalidBody, fault.to_string())
    }
}

impl From<tally_core::counter::id::IdError> for Problem {
    fn from(error: tally_core::counter::id::IdError) -> Self {
        Self::new(Code::InvalidId, error.to_string())
    }
}
