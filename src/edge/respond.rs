//! Responses: JSON, text and problems, with the headers that say how true they are, and CORS.

use worker::{Headers, Response, ResponseBuilder};

use super::isolate;
use super::visit::Visit;
use crate::protocol::problem::{Code, Problem};
use crate::protocol::routes::{NoRoute, allow_header, methods_of};

/// How long a browser may remember a preflight's answer.
const PREFLIGHT_SECONDS: &str = "600";

/// Headers that pages of other origins may send and read. `authorization` must be named: `*` does
/// not cover it (Fetch standard, "CORS non-wildcard request-header name").
const ALLOWED_HEADERS: &str =
    "authorization, content-type, content-encoding, idempotency-key, if-match, if-none-match";
const EXPOSED_HEADERS: &str = "etag, retry-after, tally-exact, tally-as-of, tally-staleness-ms";

/// What a request is answered with.
pub struct Answer {
    status: u16,
    content_type: &'static str,
    body: String,
    headers: Vec<(&'static str, String)>,
    etag: Option<String>,
}

impl Answer {
    /// 200 with JSON.
    pub fn json(body: String) -> Self {
        Self {
            status: 200,
            content_type: "application/json",
            body,
            headers: Vec::new(),
            etag: None,
        }
    }

    /// 200 with plain text.
    pub fn text(body: String) -> Self {
        Self {
            content_type: "text/plain; charset=utf-8",
            ..Self::json(body)
        }
    }

    /// Another status.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Says how true the answer is, for readers that see no JSON.
    pub fn fresh(mut self, exact: bool, as_of_ms: i64, staleness_ms: i64) -> Self {
        self.headers.push(("tally-exact", exact.to_string()));
        self.headers.push(("tally-as-of", as_of_ms.to_string()));
        self.headers
            .push(("tally-staleness-ms", staleness_ms.to_string()));
        self
    }

    /// Names the state that the answer shows; a reader that has it gets 304.
    pub fn tagged(mut self, etag: String) -> Self {
        self.etag = Some(etag);
        self
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        let mut answer = Self {
            content_type: "application/problem+json",
            ..Self::json(problem.to_json()).with_status(problem.code().status())
        };
        if let Some(seconds) = problem.retry_after_seconds() {
            answer.headers.push(("retry-after", seconds.to_string()));
        }
        if problem.code() == Code::Unauthorized {
            answer
                .headers
                .push(("www-authenticate", "Bearer".to_owned()));
        }
        answer
    }
}

impl From<NoRoute> for Answer {
    fn from(no_route: NoRoute) -> Self {
        let mut answer = Self::from(no_route.problem);
        answer
            .headers
            .extend(no_route.allow.map(|allow| ("allow", allow)));
        answer
    }
}

/// Whether a reader's `If-None-Match` names this state. Weak comparison, as RFC 9110 13.1.2 says.
fn is_known(visit: &Visit, etag: &str) -> bool {
    let strip = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    visit.header("if-none-match").is_some_and(|known| {
        known
            .split(',')
            .any(|one| one.trim() == "*" || strip(one) == strip(etag))
    })
}

fn cors(visit: &Visit, headers: &Headers) -> worker::Result<()> {
    headers.append("vary", "Origin")?;
    let origin = visit.header("origin");
    let allowed = isolate::access(&visit.env)
        .ok()
        .and_then(|access| access.cors_origin(origin.as_deref()));
    if let Some(allowed) = allowed {
        headers.set("access-control-allow-origin", &allowed)?;
        headers.set("access-control-expose-headers", EXPOSED_HEADERS)?;
    }
    Ok(())
}

/// Makes the response.
///
/// # Errors
/// The platform's.
pub fn respond(visit: &Visit, answer: Answer) -> worker::Result<Response> {
    let headers = Headers::new();
    cors(visit, &headers)?;
    for (name, value) in &answer.headers {
        headers.set(name, value)?;
    }
    // Counts change all the time, and what a key may see is not for shared caches.
    headers.set(
        "cache-control",
        if answer.etag.is_some() {
            "private, no-cache"
        } else {
            "no-store"
        },
    )?;
    if let Some(etag) = &answer.etag {
        headers.set("etag", etag)?;
        headers.append("vary", "Accept")?;
        if is_known(visit, etag) {
            return Ok(ResponseBuilder::new()
                .with_status(304)
                .with_headers(headers)
                .empty());
        }
    }
    headers.set("content-type", answer.content_type)?;
    let builder = ResponseBuilder::new()
        .with_status(answer.status)
        .with_headers(headers);
    if visit.method() == "HEAD" {
        return Ok(builder.empty());
    }
    Ok(builder.fixed(answer.body.into_bytes()))
}

/// Answers a CORS preflight, and a plain `OPTIONS`.
///
/// # Errors
/// The platform's.
pub fn preflight(visit: &Visit) -> worker::Result<Response> {
    let Some(methods) = methods_of(visit.path()) else {
        let problem = Problem::new(
            Code::NotFound,
            "there is no such path; GET /openapi.json lists every call",
        );
        return respond(visit, problem.into());
    };
    let headers = Headers::new();
    cors(visit, &headers)?;
    let allow = allow_header(methods);
    headers.set("allow", &allow)?;
    headers.set("access-control-allow-methods", &allow)?;
    headers.set("access-control-allow-headers", ALLOWED_HEADERS)?;
    headers.set("access-control-max-age", PREFLIGHT_SECONDS)?;
    Ok(ResponseBuilder::new()
        .with_status(204)
        .with_headers(headers)
        .empty())
}
