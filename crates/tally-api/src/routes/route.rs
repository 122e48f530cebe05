//! The route of a request: method and path in, route or refusal out. Only the [`table`](super::table) holds paths.

use std::array;

use super::unknown_query::UnknownQuery;
use crate::access::{Permission, Right};
use crate::features::all_left_out;
use crate::limits::HoldId;
use crate::route_table;
use tally_core::counter::id::CounterId;
use tally_wire::names::alert::{AlertName, AlertNames};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{KeyId, Scope, ShareId};
use tally_wire::segment::decode_segment;

/// The most parameters of a template.
const PARAMETERS_MAX: usize = 3;

/// The end of a template that also matches the paths below it.
const REST: &str = "{/file}";

/// The template whose id may contain unescaped slashes: counters of CountAPI and Abacus are `{namespace}/{key}`.
const WITH_SLASHES: &str = "/hit/{id}";

/// The template that also matches the paths below it, by any method: a proxy sends its client's.
const GATE: &str = "/gate/{policies}";
const GATE_FOLDER: &str = "/gate/";

macro_rules! types {
    (($visit:ident, $caller:ident)
        $(#[$built:meta] {
            $($variant:ident $(($($parameter:ident: $type:ty),+))? $method:literal $template:literal
                $metric:literal $right:expr $(, $unknown:expr)? => $handler:expr;)*
        })*
    ) => {
        /// A call of the public API.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Route {
            $($(#[$built] #[doc = concat!("`", $method, " ", $template, "`")] $variant $(($($type),+))?,)*)*
        }

        /// The name under which requests are counted: one for each call, whatever its id, and two for all other
        /// requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RouteName {
            $($(#[doc = concat!("`", $method, " ", $template, "`")] $variant,)*)*
            /// `OPTIONS`, of any path.
            Options,
            /// A request that is no call, see [`NoRoute`].
            Other,
        }

        impl RouteName {
            /// All names, in the order of the table.
            pub const ALL: &'static [RouteName] =
                &[$($(RouteName::$variant,)*)* RouteName::Options, RouteName::Other];

            /// Its index in [`RouteName::ALL`].
            #[expect(clippy::as_conversions, reason = "the number of a variant")]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The method and the template of the call.
            pub const fn call(self) -> &'static str {
                match self {
                    $($(RouteName::$variant => concat!($method, " ", $template),)*)*
                    RouteName::Options => "OPTIONS",
                    RouteName::Other => "",
                }
            }

            /// The name in metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(RouteName::$variant => $metric,)*)*
                    RouteName::Options => "options",
                    RouteName::Other => "other",
                }
            }

            /// Whether the call changes something.
            pub const fn is_write(self) -> bool {
                !matches!(self.call().as_bytes(), [b'G', b'E', b'T', b' ', ..])
            }

            /// What the call does with a parameter of its query that it does not know.
            pub const fn unknown_query(self) -> UnknownQuery {
                match self {
                    $($($(RouteName::$variant => $unknown,)?)*)*
                    _ => UnknownQuery::Refused,
                }
            }
        }

        impl Route {
            /// The name under which the call is counted.
            pub const fn name(&self) -> RouteName {
                match self {
                    $($(#[$built] Self::$variant { .. } => RouteName::$variant,)*)*
                }
            }

            /// The right that its caller needs.
            #[expect(unused_variables, reason = "not every right is about all parameters")]
            pub fn right(&self) -> Right<'_> {
                match self {
                    $($(#[$built] Self::$variant $(($($parameter),+))? => $right,)*)*
                }
            }
        }

        /// All calls, and the pages.
        #[expect(unused_variables, reason = "not every call has parameters")]
        pub const ROUTES: &[RouteRow] = &[
            $($(#[$built] RouteRow {
                name: RouteName::$variant,
                method: $method,
                template: $template,
                read: |segments| Ok(Route::$variant $(($(segments.read::<$type>(stringify!($parameter))?),+))?),
            },)*)*
        ];
    };
}

route_table!(types);

/// A row of the table.
pub struct RouteRow {
    name: RouteName,
    /// The method; `GET` answers `HEAD` too.
    pub method: &'static str,
    /// The path, with its parameters in braces.
    pub template: &'static str,
    read: fn(&mut Segments<'_>) -> Result<Route, Problem>,
}

/// The parameters of a path, as they are in the URL.
struct Segments<'a>(array::IntoIter<&'a str, PARAMETERS_MAX>);

impl<'a> Segments<'a> {
    /// The parameters of a path; `None` where it does not match the template.
    fn of(template: &str, path: &'a str) -> Option<Self> {
        // Of most templates nothing else needs to be looked at.
        let fixed = template.bytes().take_while(|byte| *byte != b'{');
        if fixed.zip(path.bytes()).any(|(part, byte)| part != byte) {
            return None;
        }
        let mut found = [""; PARAMETERS_MAX];
        if let Some(folder) = template.strip_suffix(REST) {
            let rest = path.strip_prefix(folder)?;
            found[0] = rest;
            return (rest.is_empty() || rest.starts_with('/')).then(|| Self(found.into_iter()));
        }
        if template == GATE {
            found[0] = path.strip_prefix(GATE_FOLDER)?.split('/').next()?;
            return Some(Self(found.into_iter()));
        }
        if template == WITH_SLASHES {
            found[0] = path.strip_prefix("/hit/")?;
            return Some(Self(found.into_iter()));
        }
        let mut parameters = found.iter_mut();
        let (mut parts, mut segments) = (Some(template), Some(path));
        while let Some(part) = next_part(&mut parts) {
            let segment = next_part(&mut segments)?;
            if !part.starts_with('{') {
                if part != segment {
                    return None;
                }
                continue;
            }
            let (_, ending) = part.split_once('}')?;
            *parameters.next()? = segment.strip_suffix(ending)?;
        }
        segments.is_none().then(|| Self(found.into_iter()))
    }

    /// Reads the next parameter, whose name in the template is `name`.
    fn read<T: Parameter>(&mut self, name: &str) -> Result<T, Problem> {
        let read = T::read(self.0.next().unwrap_or_default());
        read.map_err(|problem| problem.of_id(name))
    }
}

/// Takes what is before the next slash. By bytes: a search by `char` takes three times as long, once for each row.
fn next_part<'a>(rest: &mut Option<&'a str>) -> Option<&'a str> {
    let text = rest.take()?;
    let Some(at) = text.bytes().position(|byte| byte == b'/') else {
        return Some(text);
    };
    *rest = text.get(at + 1..);
    text.get(..at)
}

/// The parsed part of a path.
trait Parameter: Sized {
    /// Reads it as it stands in the URL.
    fn read(segment: &str) -> Result<Self, Problem>;
}

impl Parameter for CounterId {
    fn read(segment: &str) -> Result<Self, Problem> {
        decode_segment(segment).and_then(|text| Self::parse(text).map_err(Problem::from))
    }
}

impl Parameter for ShareId {
    fn read(segment: &str) -> Result<Self, Problem> {
        let detail = "the id of a share is 16 hexadecimal digits; GET /shares lists them";
        Self::parse(segment).ok_or_else(|| Problem::new(Code::ShareNotFound, detail))
    }
}

impl Parameter for KeyId {
    fn read(segment: &str) -> Result<Self, Problem> {
        let detail = "the id of a key is 16 hexadecimal digits; GET /keys lists them";
        Self::parse(segment).ok_or_else(|| Problem::new(Code::KeyNotFound, detail))
    }
}

impl Parameter for HoldId {
    fn read(segment: &str) -> Result<Self, Problem> {
        let detail = "the id of a hold is 32 hexadecimal digits, of the answer that gave it";
        Self::parse(segment).ok_or_else(|| Problem::new(Code::HoldNotFound, detail))
    }
}

impl Parameter for OverridePattern {
    fn read(segment: &str) -> Result<Self, Problem> {
        decode_segment(segment).and_then(Self::parse)
    }
}

impl Parameter for AlertName {
    fn read(segment: &str) -> Result<Self, Problem> {
        decode_segment(segment).and_then(Self::parse)
    }
}

impl Parameter for AlertNames {
    fn read(segment: &str) -> Result<Self, Problem> {
        decode_segment(segment).and_then(Self::parse)
    }
}

impl Parameter for PolicyName {
    fn read(segment: &str) -> Result<Self, Problem> {
        decode_segment(segment).and_then(Self::parse)
    }
}

/// A prefix of ids.
impl Parameter for String {
    fn read(segment: &str) -> Result<Self, Problem> {
        decode_segment(segment)
    }
}

/// The name of a file; `None` for the folder itself.
impl Parameter for Option<String> {
    fn read(rest: &str) -> Result<Self, Problem> {
        Ok(rest.strip_prefix('/').map(str::to_owned))
    }
}

/// Why a request is no call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRoute {
    /// The answer to the client.
    pub problem: Problem,
    /// The `Allow` header: the methods of the path.
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

/// Finds the call of a request. `path` is as in the URL, percent-encoded.
///
/// # Errors
/// `not-found`, `method-not-allowed` (with `Allow`), `invalid-id`.
pub fn resolve(method: &str, path: &str) -> Result<Route, NoRoute> {
    let template = match row_of(method, path) {
        Ok((row, mut segments)) => return (row.read)(&mut segments).map_err(NoRoute::from),
        Err(template) => template,
    };
    let (Some(template), Some(allow)) = (template, allow_of(path)) else {
        let left_out = all_left_out();
        let slashes = if has_slashes_of_id(path) { SLASHES } else { "" };
        let detail =
            format!("there is no {path:?}; GET /openapi.json lists every call{left_out}{slashes}");
        return Err(Problem::new(Code::NotFound, detail).into());
    };
    let detail = format!("{template} knows {allow}, not {method}");
    Err(NoRoute {
        problem: Problem::new(Code::MethodNotAllowed, detail),
        allow: Some(allow),
    })
}

/// Whether a path is of the gate, by whichever method.
pub fn is_gate(path: &str) -> bool {
    path.starts_with(GATE_FOLDER)
}

/// The name under which a request is counted, whether or not its parameters can be read.
pub fn name_of(method: &str, path: &str) -> RouteName {
    row_of(method, path).map_or(RouteName::Other, |(row, _)| row.name)
}

/// The row of a request, with the parameters of its path.
///
/// # Errors
/// A template that matches the path, but not by this method, if there is one.
fn row_of<'a>(
    method: &str,
    path: &'a str,
) -> Result<(&'static RouteRow, Segments<'a>), Option<&'static str>> {
    let meant = if is_gate(path) || method == "HEAD" {
        "GET"
    } else {
        method
    };
    let of_method = ROUTES.iter().filter(|row| row.method == meant);
    for row in of_method {
        if let Some(segments) = Segments::of(row.template, path) {
            return Ok((row, segments));
        }
    }
    let mut others = ROUTES.iter().map(|row| row.template).rev();
    Err(others.find(|template| Segments::of(template, path).is_some()))
}

/// What a caller reads whose id seems to have slashes of its own.
const SLASHES: &str = ". Send each slash of an id as %2F, as in /counters/blog%2F2026, and let no proxy in front decode \
    it (docs/operate/machine.md)";

/// Whether a path has more parts than the template of a parameter that its beginning is.
fn has_slashes_of_id(path: &str) -> bool {
    let parts = path.split('/').count();
    ROUTES.iter().any(|row| {
        let begins = |(folder, _): (&str, &str)| path.starts_with(folder);
        row.template.split_once('{').is_some_and(begins) && parts > row.template.split('/').count()
    })
}

/// The `Allow` header of a path, if a template matches.
pub fn allow_of(path: &str) -> Option<String> {
    let rows = ROUTES.iter();
    let known = rows.filter(|row| Segments::of(row.template, path).is_some());
    let mut methods: Vec<&str> = Vec::new();
    // A key may have the name of a list beside it.
    known.for_each(|row| {
        if !methods.contains(&row.method) {
            methods.push(row.method);
        }
    });
    if methods.is_empty() {
        return None;
    }
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    Some(methods.join(", "))
}
