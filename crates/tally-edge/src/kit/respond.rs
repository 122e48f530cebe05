//! Responses: JSON, text and problems, with headers for their accuracy, and CORS.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use super::request_context::RequestContext;
use tally_api::limits::{LIMIT_HEADER, POLICY_HEADER};
use tally_api::live::client_message::EVENT_STREAM;
use tally_api::routes::{NoRoute, RouteName, allow_of};
use tally_host::http::{Body, HeaderList, Pieces, Response};
use tally_host::{Host, State, Stream};
use tally_shared::fleet;
use tally_shared::metrics;
use tally_wire::problem::{Code, Problem};

/// How long a browser may remember a preflight's answer.
const PREFLIGHT_SECONDS: &str = "600";

/// Headers that pages of other origins may send and read. `authorization` must be named: `*` does
/// not cover it (Fetch standard, "CORS non-wildcard request-header name").
const ALLOWED_HEADERS: &str = "authorization, cache-control, content-type, content-encoding, idempotency-key, if-match, if-none-match, upstash-encoding, \
     upstash-response-format, upstash-sync-token, upstash-telemetry-platform, upstash-telemetry-retry, \
     upstash-telemetry-runtime, upstash-telemetry-sdk";
const EXPOSED_HEADERS: &str = "request-id, etag, retry-after, tally-exact, tally-as-of, tally-staleness-ms, tally-cursor, tally-jurisdiction, server-timing, idempotency-replayed, ratelimit-policy, ratelimit, tally-on-error, upstash-sync-token";

/// Media type of a refusal.
const PROBLEM: &str = "application/problem+json";

/// Header of a repeated first answer to a key.
const REPLAYED: &str = "idempotency-replayed";

/// Header with the times of a request.
const SERVER_TIMING: &str = "server-timing";

/// Header with the id of the request, which the log names too.
pub const REQUEST_ID: &str = "request-id";

/// Header with the jurisdiction in which all data is stored, where one is set.
const JURISDICTION_HEADER: &str = "tally-jurisdiction";

/// Lines about answers of 5xx that an isolate logs within a second: a deployment that is overloaded must not be slowed
/// by its log as well.
const FAILURES_LOGGED_PER_SECOND: u32 = 10;

/// What this isolate logged of its failures within the current second.
#[derive(Default)]
struct FailureLog {
    second: Cell<i64>,
    lines: Cell<u32>,
}

impl State for FailureLog {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

/// Logs an answer of 5xx. The line has no text of the caller: ids and keys do not belong into logs.
fn log_failure(context: &RequestContext, route: RouteName, status: u16, refusal: Option<Code>) {
    let log = context.host.state::<FailureLog>();
    let second = context.host.now_ms().div_euclid(1_000);
    if log.second.replace(second) != second {
        log.lines.set(0);
    }
    let lines = log.lines.get();
    log.lines.set(lines.saturating_add(1));
    if lines < FAILURES_LOGGED_PER_SECOND {
        let (id, call) = (context.id(), route.call());
        let code = refusal.map_or("", Code::as_str);
        let text = format!("request {id}: {call} answered {status} {code}");
        context.host.warn(text.trim_end());
    }
}

/// What the body of an answer is made of.
#[derive(Clone)]
enum Content {
    Text(Rc<str>),
    Bytes(Cow<'static, [u8]>),
    /// Produced piece by piece while it is sent, once.
    Pieces(Rc<Cell<Option<Box<dyn Pieces>>>>),
}

/// The answer to a request.
#[derive(Clone)]
pub struct Answer {
    status: u16,
    content_type: &'static str,
    content: Content,
    /// `Cache-Control`, if it is not the usual one.
    cache: Option<String>,
    is_for_every_page: bool,
    headers: Vec<(&'static str, String)>,
    etag: Option<String>,
    refusal: Option<Code>,
    /// Who else has a use for the response.
    listener: Option<Rc<dyn Listener>>,
}

/// What has a use for the response to a request, before the client has it.
pub trait Listener {
    /// Looks at the response.
    fn look(&self, context: &RequestContext, response: &Response);
}

impl Answer {
    /// 200 with JSON.
    pub fn json(body: String) -> Self {
        Self {
            status: 200,
            content_type: "application/json",
            content: Content::Text(body.into()),
            cache: None,
            is_for_every_page: false,
            headers: Vec::new(),
            etag: None,
            refusal: None,
            listener: None,
        }
    }

    /// 200 with plain text.
    pub fn text(body: String) -> Self {
        Self {
            content_type: "text/plain; charset=utf-8",
            ..Self::json(body)
        }
    }

    /// 200 with bytes of that media type.
    #[cfg_attr(
        not(any(feature = "pages", feature = "redis")),
        expect(dead_code, reason = "files, and sketches of Redis")
    )]
    pub fn bytes(content_type: &'static str, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            content_type,
            content: Content::Bytes(bytes.into()),
            ..Self::json(String::new())
        }
    }

    /// 200 with a body of that media type that is produced while it is sent.
    #[cfg_attr(
        not(feature = "exports"),
        expect(dead_code, reason = "exports come in pieces")
    )]
    pub fn pieces(content_type: &'static str, pieces: Box<dyn Pieces>) -> Self {
        Self {
            content_type,
            content: Content::Pieces(Rc::new(Cell::new(Some(pieces)))),
            ..Self::json(String::new())
        }
    }

    /// With this `Cache-Control`.
    pub fn cached(self, cache: impl Into<String>) -> Self {
        Self {
            cache: Some(cache.into()),
            ..self
        }
    }

    /// For pages of any origin, whatever their other rights; browsers must not guess another media type.
    pub fn for_every_page(self) -> Self {
        Self {
            is_for_every_page: true,
            ..self.for_images()
        }
    }

    /// For elements of pages of other origins; browsers must not guess another media type.
    pub fn for_images(self) -> Self {
        self.with_header("cross-origin-resource-policy", "cross-origin".to_owned())
            .with_header("x-content-type-options", "nosniff".to_owned())
    }

    /// Another media type.
    pub fn of_type(self, content_type: &'static str) -> Self {
        Self {
            content_type,
            ..self
        }
    }

    /// Its status.
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// Another status.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// With another header.
    pub fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// A refusal with a finished problem.
    pub fn refused(code: Code, problem: String) -> Self {
        Self {
            content_type: PROBLEM,
            refusal: Some(code),
            ..Self::json(problem).with_status(code.status())
        }
    }

    /// The same refusal with another document. The metrics have its reasons already, line by line.
    pub fn reported(self, document: String) -> Self {
        Self {
            content: Content::Text(document.into()),
            refusal: None,
            ..self
        }
    }

    /// Shows the response to that listener.
    pub fn shown_to(self, listener: impl Listener + 'static) -> Self {
        Self {
            listener: Some(Rc::new(listener)),
            ..self
        }
    }

    /// Marks it as the repeated first answer to a key.
    pub fn replayed(mut self) -> Self {
        self.headers.push((REPLAYED, "true".to_owned()));
        self
    }

    /// Whether it is the repeated first answer to a key.
    pub fn is_replay(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == REPLAYED)
    }

    /// Adds headers with the accuracy of the answer, for readers of other formats than JSON.
    pub fn fresh(mut self, exact: bool, as_of_ms: i64, staleness_ms: i64) -> Self {
        self.headers.push(("tally-exact", exact.to_string()));
        self.headers.push(("tally-as-of", as_of_ms.to_string()));
        self.headers
            .push(("tally-staleness-ms", staleness_ms.to_string()));
        self
    }

    /// Adds the tag of the state in the answer; a reader that has the state gets 304.
    pub fn tagged(mut self, etag: String) -> Self {
        self.etag = Some(etag);
        self
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Self {
        let mut answer = Self::refused(problem.code(), problem.to_json());
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

/// Whether a reader's `If-None-Match` names this state. Weak comparison, see RFC 9110 13.1.2.
fn is_known(context: &RequestContext, etag: &str) -> bool {
    let strip = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    context.header("if-none-match").is_some_and(|known| {
        known
            .split(',')
            .any(|one| one.trim() == "*" || strip(one) == strip(etag))
    })
}

fn cors(context: &RequestContext, headers: &mut HeaderList) {
    headers.push(("vary", "Origin".to_owned()));
    // A request without an origin is not from a page of another site: it needs three headers less, and building each
    // takes longer than this check.
    let Some(origin) = context.header("origin") else {
        return;
    };
    let Ok(access) = context.access() else {
        return;
    };
    if let Some(allowed) = access.cors_origin(Some(&origin)) {
        if headers.iter().any(|(name, _)| *name == SERVER_TIMING) {
            headers.push(("timing-allow-origin", allowed.clone()));
        }
        headers.push(("access-control-allow-origin", allowed));
        headers.push(("access-control-expose-headers", EXPOSED_HEADERS.to_owned()));
    }
}

/// Counts the request, and makes sure that the count is reported.
fn count_request(context: &RequestContext, route: RouteName, total_ms: i64, refusal: Option<Code>) {
    let host = &context.host;
    metrics::answered(host, route, total_ms, refusal);
    let now_ms = context.arrived_ms().saturating_add(total_ms);
    if let Some(in_ms) = fleet::answered(host, route, now_ms) {
        let (host, here) = (host.clone(), context.datacenter());
        let after_report = context.after_report;
        context.wait_until(async move {
            fleet::report_later(&host, &here, in_ms).await;
            after_report(host, here).await;
        });
    }
}

/// Counts a request whose answer is no response, with the status that it would have by HTTP.
#[cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "calls of Redis are counted by themselves")
)]
pub fn count(context: &RequestContext, route: RouteName, status: u16) {
    if status >= 500 {
        log_failure(context, route, status, None);
    }
    count_request(context, route, context.age_ms(), None);
}

/// Measures the request, and adds its times: `total`, of which `cell` was waited for cells, roots and the aggregator,
/// both in whole milliseconds. An answer without any has no such header. Source: W3C Server Timing, section 3.
fn timing(
    context: &RequestContext,
    route: RouteName,
    refusal: Option<Code>,
    headers: &mut HeaderList,
) {
    let (total_ms, waited_ms) = (context.age_ms(), context.waited_ms());
    count_request(context, route, total_ms, refusal);
    if total_ms == 0 {
        return;
    }
    let mut text = format!("total;dur={total_ms}");
    if waited_ms > 0 {
        text.push_str(&format!(", cell;dur={waited_ms}"));
    }
    headers.push((SERVER_TIMING, text));
}

/// Builds the response.
pub fn respond(context: &RequestContext, route: RouteName, answer: Answer) -> Response {
    let mut headers = answer.headers;
    headers.push((REQUEST_ID, context.id().to_owned()));
    if let Some(name) = context.jurisdiction() {
        headers.push((JURISDICTION_HEADER, name.to_owned()));
    }
    if answer.status >= 500 {
        log_failure(context, route, answer.status, answer.refusal);
    }
    timing(context, route, answer.refusal, &mut headers);
    let has_policy = headers.iter().any(|(name, _)| *name == POLICY_HEADER);
    if let Some((policy, left)) = context.take_budget_headers().filter(|_| !has_policy) {
        headers.push((POLICY_HEADER, policy));
        headers.extend(left.map(|left| (LIMIT_HEADER, left)));
    }
    if answer.is_for_every_page {
        headers.push(("access-control-allow-origin", "*".to_owned()));
    } else {
        cors(context, &mut headers);
    }
    // Counts change all the time, and answers to a key are not for shared caches.
    let is_one_form = answer.cache.is_some();
    let usual = || match answer.etag {
        Some(_) => "private, no-cache".to_owned(),
        None => "no-store".to_owned(),
    };
    let cache = answer.cache.unwrap_or_else(usual);
    headers.push(("cache-control", cache));
    let mut status = answer.status;
    let mut body = match answer.content {
        Content::Text(text) => Body::Text(text),
        Content::Bytes(bytes) => Body::Bytes(bytes),
        Content::Pieces(pieces) => pieces.take().map_or(Body::Empty, Body::Pieces),
    };
    if let Some(etag) = answer.etag {
        if is_known(context, &etag) {
            status = 304;
            body = Body::Empty;
        }
        headers.push(("etag", etag));
        if !is_one_form {
            headers.push(("vary", "Accept".to_owned()));
        }
    }
    if status == 204 {
        // A response of the platform with this status may have no body, not even an empty one.
        body = Body::Empty;
    }
    if !matches!(body, Body::Empty) {
        headers.push(("content-type", answer.content_type.to_owned()));
    }
    if context.method() == "HEAD" {
        body = Body::Empty;
    }
    let response = Response::new(status, headers, body);
    if let Some(listener) = answer.listener {
        listener.look(context, &response);
    }
    response
}

/// Answers with a stream of server-sent events; `None` for `HEAD`.
#[cfg_attr(
    not(any(feature = "live", feature = "redis")),
    expect(dead_code, reason = "streams of events")
)]
pub fn events(context: &RequestContext, route: RouteName, stream: Option<Stream>) -> Response {
    let mut headers = vec![(REQUEST_ID, context.id().to_owned())];
    timing(context, route, None, &mut headers);
    cors(context, &mut headers);
    headers.push(("content-type", EVENT_STREAM.to_owned()));
    // Proxies must not compress or buffer the stream, because events must arrive at once.
    headers.push(("cache-control", "no-store, no-transform".to_owned()));
    headers.push(("x-accel-buffering", "no".to_owned()));
    Response::new(200, headers, stream.map_or(Body::Empty, Body::Stream))
}

/// Answers with a socket.
#[cfg_attr(
    not(feature = "live"),
    expect(dead_code, reason = "streams of sockets")
)]
pub fn socket(context: &RequestContext, route: RouteName, stream: Stream) -> Response {
    count_request(context, route, context.age_ms(), None);
    Response::new(stream.status, HeaderList::new(), Body::Socket(stream))
}

/// Answers a CORS preflight, and a plain `OPTIONS`. `allow`: the methods of a path that is no route.
pub fn preflight(context: &RequestContext, allow: Option<String>) -> Response {
    let Some(allow) = allow.or_else(|| allow_of(context.path())) else {
        let detail = "there is no such path; GET /openapi.json lists every call";
        let problem = Problem::new(Code::NotFound, detail);
        return respond(context, RouteName::Options, problem.into());
    };
    let mut headers = vec![(REQUEST_ID, context.id().to_owned())];
    timing(context, RouteName::Options, None, &mut headers);
    cors(context, &mut headers);
    headers.push(("allow", allow.clone()));
    headers.push(("access-control-allow-methods", allow));
    headers.push(("access-control-allow-headers", ALLOWED_HEADERS.to_owned()));
    headers.push(("access-control-max-age", PREFLIGHT_SECONDS.to_owned()));
    Response::new(204, headers, Body::Empty)
}
