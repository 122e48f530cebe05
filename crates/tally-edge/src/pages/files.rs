//! The answer at `/`, and static files: those of the dashboard, at `/dashboard/`, the script for pages (without its
//! comments), and the API's description.
//!
//! Invariant: no file is in the Wasm, whose size determines its start-up time. `scripts/dashboard.mjs` appends them as
//! text to the module around it, with a function that finds one by its name: every platform loads a module in the same
//! way. They are public; the dashboard's own calls need a key like any other call.

use crate::kit::media_ranges::prefers_html;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_host::{File, Host};
use tally_wire::problem::{Code, Problem};

/// What the page may do: load its own files, call its own origin, and nothing else. The page itself holds no script and
/// no style, so injected text would not run.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A changed script reaches pages within the hour.
const SCRIPT_CACHE: &str = "public, max-age=3600";

/// The addresses of the service; a build without pages has no dashboard.
const ADDRESSES: &str = match HAS_PAGES {
    true => {
        r#"{"service":"tally","dashboard":"/dashboard/","description":"/openapi.json","health":"/healthz"}"#
    }
    false => r#"{"service":"tally","description":"/openapi.json","health":"/healthz"}"#,
};

const HAS_PAGES: bool = cfg!(feature = "pages");

/// The page itself.
const INDEX: &str = "index.html";

/// `GET /`: browsers are redirected to the dashboard, others get the addresses.
pub fn index(context: &RequestContext) -> Answer {
    let accepts = context.header("accept").unwrap_or_default();
    let answer = match HAS_PAGES && prefers_html(&accepts) {
        true => Answer::text(String::new())
            .with_status(303)
            .with_header("location", "/dashboard/".to_owned()),
        false => Answer::json(ADDRESSES.to_owned()),
    };
    answer.with_header("vary", "Accept".to_owned())
}

/// `GET /problems/{code}`: what a code means and what to do about it. Browsers get a page, others JSON.
///
/// # Errors
/// `not-found`.
pub fn problem(context: &RequestContext, code: &str) -> Result<Answer, Problem> {
    let code = Code::named(code).ok_or_else(|| {
        let detail =
            "there is no such code of a problem; GET /openapi.json lists all in its schema Code";
        Problem::new(Code::NotFound, detail)
    })?;
    let accepts = context.header("accept").unwrap_or_default();
    let answer = match prefers_html(&accepts) {
        true => Answer::text(code.page_html())
            .of_type(media_type("page.html"))
            .with_header("content-security-policy", POLICY.to_owned()),
        false => Answer::json(code.page_json()),
    };
    Ok(answer.with_header("vary", "Accept".to_owned()))
}

/// A file of the dashboard, the page for an empty name, and a redirect to the page for none.
///
/// # Errors
/// `not-found`, `internal`.
#[cfg_attr(
    not(feature = "pages"),
    expect(dead_code, reason = "the dashboard is a page")
)]
pub fn dashboard(host: &Host, name: Option<&str>) -> Result<Answer, Problem> {
    let Some(name) = name else {
        let location = "/dashboard/".to_owned();
        let answer = Answer::text(String::new()).with_status(308);
        return Ok(answer.with_header("location", location));
    };
    let name = if name.is_empty() { INDEX } else { name };
    let file = file(host, &format!("dashboard/{name}"))?.ok_or_else(|| {
        let detail = "the dashboard has no such file; it begins at /dashboard/";
        Problem::new(Code::NotFound, detail)
    })?;
    Ok(Answer::text(file.text)
        .of_type(media_type(name))
        .tagged(file.etag)
        .with_header("content-security-policy", POLICY.to_owned())
        .with_header("referrer-policy", "no-referrer".to_owned())
        .with_header("x-content-type-options", "nosniff".to_owned()))
}

/// The script for pages.
///
/// # Errors
/// `internal`.
#[cfg_attr(
    not(feature = "pages"),
    expect(dead_code, reason = "the script is for pages")
)]
pub fn script(host: &Host) -> Result<Answer, Problem> {
    let file = file(host, "tally.js")?.ok_or_else(missing)?;
    Ok(Answer::text(file.text)
        .of_type(media_type("tally.js"))
        .tagged(file.etag)
        .cached(SCRIPT_CACHE)
        .for_every_page())
}

/// The API's description.
///
/// # Errors
/// `internal`.
pub fn openapi(host: &Host) -> Result<Answer, Problem> {
    let file = file(host, "openapi.json")?.ok_or_else(missing)?;
    Ok(Answer::json(file.text))
}

fn file(host: &Host, name: &str) -> Result<Option<File>, Problem> {
    host.platform().file(name).map_err(|_| missing())
}

fn missing() -> Problem {
    let detail = "this module was built without its files; run make build and deploy again";
    Problem::new(Code::Internal, detail)
}

/// The media type of a file by its name.
fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, end)| end) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}
