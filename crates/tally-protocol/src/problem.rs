//! Every refusal that a client can get: a stable code, its HTTP status, and a sentence that says who must do what.
//! Source: RFC 9457 (problem details).

use serde::Serialize;

macro_rules! codes {
    ($($variant:ident $text:literal $status:literal $title:literal;)*) => {
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
        }
    };
}

codes! {
    InvalidJson "invalid-json" 400 "The body is not JSON";
    InvalidBody "invalid-body" 400 "The body does not have the expected shape";
    UnknownField "unknown-field" 400 "The body has a field that this call does not know";
    NoClientAddress "no-client-address" 400 "The client's address is not known here";
    InvalidDelta "invalid-delta" 400 "A delta is a positive whole number";
    InvalidId "invalid-id" 400 "An id or a name is not valid";
    InvalidLine "invalid-line" 400 "The line cannot be read";
    InvalidQuery "invalid-query" 400 "A query parameter is not valid";
    InvalidUpgrade "invalid-upgrade" 400 "The connection cannot be upgraded to this";
    RangeTooLarge "range-too-large" 400 "The range has too many points";
    ClockSkew "clock-skew" 400 "The given time is too far from the server's clock";
    InvalidIdempotencyKey "invalid-idempotency-key" 400 "The idempotency key is not valid";
    InvalidPrecondition "invalid-precondition" 400 "The precondition cannot be read";
    InvalidPolicy "invalid-policy" 400 "The policy is not valid";
    InvalidCost "invalid-cost" 400 "A cost is a positive whole number";
    CostExceedsLimit "cost-exceeds-limit" 400 "The cost could never be admitted";
    InvalidScore "invalid-score" 400 "The score is not valid";
    InvalidHyll "invalid-hyll" 400 "The body is no HyperLogLog of Redis";
    InvalidGzip "invalid-gzip" 400 "The body is not valid gzip";
    Unauthorized "unauthorized" 401 "A key is needed";
    Forbidden "forbidden" 403 "The key does not allow this";
    WebhookNotAllowed "webhook-not-allowed" 400 "The webhook may not have this address";
    NotFound "not-found" 404 "There is no such route";
    CounterNotFound "counter-not-found" 404 "There is no such counter";
    ShareNotFound "share-not-found" 404 "There is no such share";
    KeyNotFound "key-not-found" 404 "There is no such key";
    PolicyNotFound "policy-not-found" 404 "There is no such policy";
    BoardNotFound "board-not-found" 404 "There is no such board";
    AlertNotFound "alert-not-found" 404 "There is no such alert";
    MemberNotFound "member-not-found" 404 "There is no such member";
    SnapshotNotFound "snapshot-not-found" 404 "There is no such snapshot";
    PeriodNotFound "period-not-found" 404 "There is no such period";
    MethodNotAllowed "method-not-allowed" 405 "The route does not know this method";
    CounterExists "counter-exists" 409 "There is such a counter already";
    CounterOverflow "counter-overflow" 409 "The counter cannot hold this much";
    CounterEnded "counter-ended" 409 "The counter has been deleted since";
    BoardEnded "board-ended" 409 "The board has been deleted since";
    BoardFull "board-full" 409 "The board has no room";
    BoardSettingsFixed "board-settings-fixed" 409 "The board has members";
    NeedsHome "needs-home" 409 "The counter needs a home for this";
    HashMismatch "hash-mismatch" 409 "Unique elements were hashed with different keys";
    BelowFloor "below-floor" 409 "The value would be below the counter's floor";
    HashKeySet "hash-key-set" 409 "The hash key is a setting of the deployment";
    BodyTooSlow "body-too-slow" 408 "The body took too long to arrive";
    PreconditionFailed "precondition-failed" 412 "The counter or board has changed since";
    BodyTooLarge "body-too-large" 413 "The body is too large";
    UnsupportedEncoding "unsupported-encoding" 415 "The body has a content encoding that this call does not read";
    IdempotencyKeyReused "idempotency-key-reused" 422 "The idempotency key was used for another write";
    QuotaExceeded "quota-exceeded" 429 "Request quota exceeded";
    TooManyShares "too-many-shares" 409 "The deployment has too many shares";
    TooManyKeys "too-many-keys" 409 "The deployment has too many keys";
    TooManyAlerts "too-many-alerts" 409 "The deployment has too many alerts";
    TooManyPolicies "too-many-policies" 409 "The deployment has too many policies";
    MeterShared "meter-shared" 409 "The key shares a meter with others, and nothing of that is given back";
    TooManyCounters "too-many-counters" 400 "The call names too many counters";
    Internal "internal" 500 "Internal error";
    NotConfigured "not-configured" 503 "A setting of this deployment is missing or wrong";
    Unavailable "unavailable" 503 "A needed part of the service did not answer";
    LimiterUnavailable "limiter-unavailable" 503 "The limiter did not answer, and the policy refuses then";
    Overloaded "overloaded" 503 "Too many requests are in progress here";
    VersionNotReached "version-not-reached" 504 "The version that was asked for was not reached in time";
}

/// A refusal: the code and what to do about this occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: String,
            title: &'static str,
            status: u16,
            detail: &'a str,
            code: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            seen: Option<&'a str>,
        }
        let body = Body {
            r#type: format!("urn:tally:problem:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status(),
            detail: &self.detail,
            code: self.code.as_str(),
            seen: self.seen.as_deref(),
        };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

impl std::error::Error for Problem {}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.code.as_str(), self.detail)
    }
}

impl From<tally_core::counter::id::IdError> for Problem {
    fn from(error: tally_core::counter::id::IdError) -> Self {
        Self::new(Code::InvalidId, error.to_string())
    }
}
