//! Which call a request is: method and path in, route or refusal out. The only place that knows paths.

mod segment;

pub use segment::decode_segment;

use super::limits::PolicyName;
use super::problem::{Code, Problem};
use crate::counter::id::CounterId;

/// A call of the public API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /counters/{id}/increment`
    Increment(CounterId),
    /// `POST /counters/{id}/decrement`
    Decrement(CounterId),
    /// `GET /counters/{id}`
    Read(CounterId),
    /// `PUT /counters/{id}`
    Put(CounterId),
    /// `DELETE /counters/{id}`
    Delete(CounterId),
    /// `PUT /counters/{id}/value`
    Set(CounterId),
    /// `POST /counters/{id}/reset`
    Reset(CounterId),
    /// `GET /counters/{id}/history`
    History(CounterId),
    /// `GET /counters/{id}/distribution`
    Distribution(CounterId),
    /// `GET /counters`
    List,
    /// `GET /counters/{prefix}*/aggregate`
    Aggregate(String),
    /// `GET /counters/{id}/uniques/hyll`
    ExportHyll(CounterId),
    /// `PUT /counters/{id}/uniques/hyll`
    ImportHyll(CounterId),
    /// `GET /uniques`
    Uniques,
    /// `POST /uniques/rotate`
    Rotate,
    /// `GET /live`
    Live,
    /// `POST /events`
    Events,
    /// `POST /ingest`
    Ingest,
    /// `POST /api/event`
    Event,
    /// `GET /api/counter`
    Count,
    /// `GET /api/dead-letters`
    DeadLetters,
    /// `GET /limits`
    ListPolicies,
    /// `POST /limits`
    CheckMany,
    /// `GET /limits/{policy}`
    GetPolicy(PolicyName),
    /// `PUT /limits/{policy}`
    PutPolicy(PolicyName),
    /// `DELETE /limits/{policy}`
    DeletePolicy(PolicyName),
    /// `POST /limits/{policy}/{key}`
    Check(PolicyName, CounterId),
    /// `GET /limits/{policy}/{key}`
    Peek(PolicyName, CounterId),
    /// `DELETE /limits/{policy}/{key}`
    Forget(PolicyName, CounterId),
    /// `POST /limits/{policy}/{key}/refund`
    Refund(PolicyName, CounterId),
    /// `GET /pixel/{id}.gif`
    Pixel(CounterId),
    /// `GET /badge/{id}.svg`
    Badge(CounterId),
    /// `GET /tally.js`
    Script,
    /// `GET /`
    Index,
    /// `GET /metrics`
    Metrics,
    /// `GET /dashboard`, `GET /dashboard/{file}`: a file of the dashboard by its name, none for the folder itself
    Dashboard(Option<String>),
    /// `GET /healthz`
    Health,
    /// `GET /openapi.json`
    OpenApi,
}

macro_rules! names {
    ($($variant:ident $text:literal $what:literal;)*) => {
        /// What a request is counted as: one name for each call, whatever its id, and two for the rest.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RouteName {
            $(#[doc = $what] $variant,)*
        }

        impl RouteName {
            /// All names, in the order of the table.
            pub const ALL: &'static [RouteName] = &[$(RouteName::$variant,)*];

            /// The name as metrics write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(RouteName::$variant => $text,)* }
            }
        }
    };
}

names! {
    Increment "increment" "[`Route::Increment`]";
    Decrement "decrement" "[`Route::Decrement`]";
    Read "read" "[`Route::Read`]";
    Put "put" "[`Route::Put`]";
    Delete "delete" "[`Route::Delete`]";
    Set "set" "[`Route::Set`]";
    Reset "reset" "[`Route::Reset`]";
    History "history" "[`Route::History`]";
    Distribution "distribution" "[`Route::Distribution`]";
    List "list" "[`Route::List`]";
    Aggregate "aggregate" "[`Route::Aggregate`]";
    ExportHyll "hyll_export" "[`Route::ExportHyll`]";
    ImportHyll "hyll_import" "[`Route::ImportHyll`]";
    Uniques "uniques" "[`Route::Uniques`]";
    Rotate "uniques_rotate" "[`Route::Rotate`]";
    Live "live" "[`Route::Live`]";
    Events "events" "[`Route::Events`]";
    Ingest "ingest" "[`Route::Ingest`]";
    Event "api_event" "[`Route::Event`]";
    Count "api_counter" "[`Route::Count`]";
    DeadLetters "api_dead_letters" "[`Route::DeadLetters`]";
    ListPolicies "limit_policies" "[`Route::ListPolicies`]";
    CheckMany "limit_checks" "[`Route::CheckMany`]";
    GetPolicy "limit_policy_get" "[`Route::GetPolicy`]";
    PutPolicy "limit_policy_put" "[`Route::PutPolicy`]";
    DeletePolicy "limit_policy_delete" "[`Route::DeletePolicy`]";
    Check "limit_check" "[`Route::Check`]";
    Peek "limit_peek" "[`Route::Peek`]";
    Forget "limit_forget" "[`Route::Forget`]";
    Refund "limit_refund" "[`Route::Refund`]";
    Pixel "pixel" "[`Route::Pixel`]";
    Badge "badge" "[`Route::Badge`]";
    Script "script" "[`Route::Script`]";
    Index "index" "[`Route::Index`]";
    Metrics "metrics" "[`Route::Metrics`]";
    Dashboard "dashboard" "[`Route::Dashboard`]";
    Health "healthz" "[`Route::Health`]";
    OpenApi "openapi" "[`Route::OpenApi`]";
    Options "options" "`OPTIONS`, of any path";
    Other "other" "What is no call: see [`NoRoute`]";
}

impl Route {
    /// The name that the call is counted as.
    pub const fn name(&self) -> RouteName {
        match self {
            Self::Increment(_) => RouteName::Increment,
            Self::Decrement(_) => RouteName::Decrement,
            Self::Read(_) => RouteName::Read,
            Self::Put(_) => RouteName::Put,
            Self::Delete(_) => RouteName::Delete,
            Self::Set(_) => RouteName::Set,
            Self::Reset(_) => RouteName::Reset,
            Self::History(_) => RouteName::History,
            Self::Distribution(_) => RouteName::Distribution,
            Self::List => RouteName::List,
            Self::Aggregate(_) => RouteName::Aggregate,
            Self::ExportHyll(_) => RouteName::ExportHyll,
            Self::ImportHyll(_) => RouteName::ImportHyll,
            Self::Uniques => RouteName::Uniques,
            Self::Rotate => RouteName::Rotate,
            Self::Live => RouteName::Live,
            Self::Events => RouteName::Events,
            Self::Ingest => RouteName::Ingest,
            Self::Event => RouteName::Event,
            Self::Count => RouteName::Count,
            Self::DeadLetters => RouteName::DeadLetters,
            Self::ListPolicies => RouteName::ListPolicies,
            Self::CheckMany => RouteName::CheckMany,
            Self::GetPolicy(_) => RouteName::GetPolicy,
            Self::PutPolicy(_) => RouteName::PutPolicy,
            Self::DeletePolicy(_) => RouteName::DeletePolicy,
            Self::Check(..) => RouteName::Check,
            Self::Peek(..) => RouteName::Peek,
            Self::Forget(..) => RouteName::Forget,
            Self::Refund(..) => RouteName::Refund,
            Self::Pixel(_) => RouteName::Pixel,
            Self::Badge(_) => RouteName::Badge,
            Self::Script => RouteName::Script,
            Self::Index => RouteName::Index,
            Self::Metrics => RouteName::Metrics,
            Self::Dashboard(_) => RouteName::Dashboard,
            Self::Health => RouteName::Health,
            Self::OpenApi => RouteName::OpenApi,
        }
    }
}

/// A path with the methods it knows, for OpenAPI and for `Allow`.
type Known = &'static [&'static str];

/// Every path template with its methods: what `/openapi.json` must describe, no more and no less.
pub const PATHS: &[(&str, Known)] = &[
    ("/counters", &["GET"]),
    ("/counters/{id}", &["GET", "PUT", "DELETE"]),
    ("/counters/{id}/increment", &["POST"]),
    ("/counters/{id}/decrement", &["POST"]),
    ("/counters/{id}/value", &["PUT"]),
    ("/counters/{id}/reset", &["POST"]),
    ("/counters/{id}/history", &["GET"]),
    ("/counters/{id}/distribution", &["GET"]),
    ("/counters/{id}/uniques/hyll", &["GET", "PUT"]),
    ("/counters/{prefix}*/aggregate", &["GET"]),
    ("/uniques", &["GET"]),
    ("/uniques/rotate", &["POST"]),
    ("/live", &["GET"]),
    ("/events", &["POST"]),
    ("/ingest", &["POST"]),
    ("/api/event", &["POST"]),
    ("/api/counter", &["GET"]),
    ("/api/dead-letters", &["GET"]),
    ("/limits", &["GET", "POST"]),
    ("/limits/{policy}", &["GET", "PUT", "DELETE"]),
    ("/limits/{policy}/{key}", &["GET", "POST", "DELETE"]),
    ("/limits/{policy}/{key}/refund", &["POST"]),
    ("/pixel/{id}.gif", &["GET"]),
    ("/badge/{id}.svg", &["GET"]),
    ("/tally.js", &["GET"]),
    ("/metrics", &["GET"]),
    ("/healthz", &["GET"]),
    ("/openapi.json", &["GET"]),
];

/// Paths that are pages and no calls: `/openapi.json` does not describe them.
const PAGES: &[(&str, Known)] = &[("/", &["GET"]), ("/dashboard", &["GET"])];

/// Why a request is no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoute {
    /// What the client is told.
    pub problem: Problem,
    /// The `Allow` header: the methods that the path knows.
    pub allow: Option<String>,
}

impl From<Problem> for NoRoute {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            allow: None,
        }
    }
}

/// The methods of a path, if there is such a path. `GET` answers `HEAD` too.
pub fn methods_of(path: &str) -> Option<Known> {
    let template = template_of(path)?;
    let mut known = PATHS.iter().chain(PAGES);
    let found = known.find(|(path, _)| *path == template);
    found.map(|(_, methods)| *methods)
}

fn template_of(path: &str) -> Option<&'static str> {
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    Some(match segments.as_slice() {
        [""] => "/",
        ["counters"] => "/counters",
        ["counters", _] => "/counters/{id}",
        ["counters", _, "increment"] => "/counters/{id}/increment",
        ["counters", _, "decrement"] => "/counters/{id}/decrement",
        ["counters", _, "value"] => "/counters/{id}/value",
        ["counters", _, "reset"] => "/counters/{id}/reset",
        ["counters", _, "history"] => "/counters/{id}/history",
        ["counters", _, "distribution"] => "/counters/{id}/distribution",
        ["counters", _, "uniques", "hyll"] => "/counters/{id}/uniques/hyll",
        ["counters", prefix, "aggregate"] if prefix.ends_with('*') => {
            "/counters/{prefix}*/aggregate"
        }
        ["uniques"] => "/uniques",
        ["uniques", "rotate"] => "/uniques/rotate",
        ["live"] => "/live",
        ["events"] => "/events",
        ["ingest"] => "/ingest",
        ["api", "event"] => "/api/event",
        ["api", "counter"] => "/api/counter",
        ["api", "dead-letters"] => "/api/dead-letters",
        ["limits"] => "/limits",
        ["limits", _] => "/limits/{policy}",
        ["limits", _, _] => "/limits/{policy}/{key}",
        ["limits", _, _, "refund"] => "/limits/{policy}/{key}/refund",
        ["pixel", name] if name.ends_with(".gif") => "/pixel/{id}.gif",
        ["badge", name] if name.ends_with(".svg") => "/badge/{id}.svg",
        ["tally.js"] => "/tally.js",
        ["metrics"] => "/metrics",
        ["dashboard", ..] => "/dashboard",
        ["healthz"] => "/healthz",
        ["openapi.json"] => "/openapi.json",
        _ => return None,
    })
}

/// Finds the call of a request. `path` is as it stands in the URL, percent-encoded.
///
/// # Errors
/// `not-found`, `method-not-allowed` (with `Allow`), `invalid-id`.
pub fn resolve(method: &str, path: &str) -> Result<Route, NoRoute> {
    let Some(template) = template_of(path) else {
        let detail = format!("there is no {path:?}; GET /openapi.json lists every call");
        return Err(Problem::new(Code::NotFound, detail).into());
    };
    let methods = methods_of(path).unwrap_or_default();
    let sent = method;
    let method = if sent == "HEAD" { "GET" } else { sent };
    if !methods.contains(&method) {
        let allow = allow_header(methods);
        let detail = format!("{template} knows {allow}, not {sent}");
        return Err(NoRoute {
            problem: Problem::new(Code::MethodNotAllowed, detail),
            allow: Some(allow),
        });
    }
    let mut segments = path.split('/').skip(2);
    let segment = segments.next().unwrap_or_default();
    let id_of = |segment: &str| {
        decode_segment(segment).and_then(|text| CounterId::parse(text).map_err(Problem::from))
    };
    let id = || id_of(segment);
    let id_before = |ending| id_of(segment.strip_suffix(ending).unwrap_or_default());
    let policy = || decode_segment(segment).and_then(PolicyName::parse);
    let key_segment = segments.next().unwrap_or_default();
    let key = || id_of(key_segment);
    Ok(match (template, method) {
        ("/counters", _) => Route::List,
        ("/counters/{id}", "PUT") => Route::Put(id()?),
        ("/counters/{id}", "DELETE") => Route::Delete(id()?),
        ("/counters/{id}", _) => Route::Read(id()?),
        ("/counters/{id}/increment", _) => Route::Increment(id()?),
        ("/counters/{id}/decrement", _) => Route::Decrement(id()?),
        ("/counters/{id}/value", _) => Route::Set(id()?),
        ("/counters/{id}/reset", _) => Route::Reset(id()?),
        ("/counters/{id}/history", _) => Route::History(id()?),
        ("/counters/{id}/distribution", _) => Route::Distribution(id()?),
        ("/counters/{id}/uniques/hyll", "PUT") => Route::ImportHyll(id()?),
        ("/counters/{id}/uniques/hyll", _) => Route::ExportHyll(id()?),
        ("/counters/{prefix}*/aggregate", _) => Route::Aggregate(decode_segment(
            segment.strip_suffix('*').unwrap_or_default(),
        )?),
        ("/uniques", _) => Route::Uniques,
        ("/uniques/rotate", _) => Route::Rotate,
        ("/live", _) => Route::Live,
        ("/events", _) => Route::Events,
        ("/ingest", _) => Route::Ingest,
        ("/api/event", _) => Route::Event,
        ("/api/counter", _) => Route::Count,
        ("/api/dead-letters", _) => Route::DeadLetters,
        ("/limits", "POST") => Route::CheckMany,
        ("/limits", _) => Route::ListPolicies,
        ("/limits/{policy}", "PUT") => Route::PutPolicy(policy()?),
        ("/limits/{policy}", "DELETE") => Route::DeletePolicy(policy()?),
        ("/limits/{policy}", _) => Route::GetPolicy(policy()?),
        ("/limits/{policy}/{key}", "POST") => Route::Check(policy()?, key()?),
        ("/limits/{policy}/{key}", "DELETE") => Route::Forget(policy()?, key()?),
        ("/limits/{policy}/{key}", _) => Route::Peek(policy()?, key()?),
        ("/limits/{policy}/{key}/refund", _) => Route::Refund(policy()?, key()?),
        ("/pixel/{id}.gif", _) => Route::Pixel(id_before(".gif")?),
        ("/badge/{id}.svg", _) => Route::Badge(id_before(".svg")?),
        ("/tally.js", _) => Route::Script,
        ("/", _) => Route::Index,
        ("/metrics", _) => Route::Metrics,
        ("/dashboard", _) => Route::Dashboard(path.strip_prefix("/dashboard/").map(str::to_owned)),
        ("/healthz", _) => Route::Health,
        _ => Route::OpenApi,
    })
}

/// The `Allow` header of a path with these methods.
pub fn allow_header(methods: &[&str]) -> String {
    let mut all: Vec<&str> = methods.to_vec();
    if methods.contains(&"GET") {
        all.push("HEAD");
    }
    all.push("OPTIONS");
    all.join(", ")
}
