//! A request of a client, taken apart by one call into JavaScript: method, URL and those headers that calls look at.
//!
//! Each of them by itself was a call, and asking for a header took 2 µs, five times an answer.

use worker::js_sys::{Array, JsString};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::web_sys::Request;

/// Headers that are taken along where there may be a body, in the order in which [`take_apart`] writes them.
const OF_WRITES: [&str; 6] = [
    LENGTH,
    "authorization",
    "origin",
    "sec-fetch-site",
    "idempotency-key",
    "if-match",
];

/// Those of them that calls about rate limits look at.
const OF_LIMITS: [&str; 4] = [LENGTH, "authorization", "origin", "sec-fetch-site"];

/// What the URL of such a call holds. Others may hold it too, and ask for each header that is missing then.
const LIMITS: &str = "/limits/";

/// Those that are taken along where there is none.
const OF_READS: [&str; 5] = [
    "authorization",
    "origin",
    "sec-fetch-site",
    "if-none-match",
    "accept",
];

/// Lines of what is taken apart: the body's, method, URL, and a header each.
const LINES_MAX: usize = 3 + OF_WRITES.len();

const LENGTH: &str = "content-length";

// One line each: whether there is a body, the method, the URL, and the headers of these names, `:` before those that are
// there. None of them can hold the end of a line (RFC 9110, 5.5). A body that says how long it is needs no look: that
// makes a stream of it.
#[wasm_bindgen(inline_js = r#"
export function take_apart(request, of_reads, of_writes, of_limits, limits) {
  const { method, headers, url } = request;
  const is_read = method === "GET" || method === "HEAD";
  const names = is_read ? of_reads : url.includes(limits) ? of_limits : of_writes;
  let text = "\n" + method + "\n" + url;
  let length = null;
  for (const name of names) {
    const value = headers.get(name);
    text += value === null ? "\n" : "\n:" + value;
    if (name === "content-length") length = value;
  }
  if (is_read) return text;
  return (length === null ? request.body !== null : length !== "0") ? "+" + text : text;
}
"#)]
extern "C" {
    fn take_apart(
        request: &Request,
        of_reads: &Array,
        of_writes: &Array,
        of_limits: &Array,
        limits: &JsString,
    ) -> String;
}

fn names(headers: &[&str]) -> Array {
    headers.iter().map(|name| JsValue::from_str(name)).collect()
}

thread_local! {
    /// [`OF_READS`], [`OF_WRITES`], [`OF_LIMITS`] and [`LIMITS`] as JavaScript has them.
    static NAMES: (Array, Array, Array, JsString) =
        (names(&OF_READS), names(&OF_WRITES), names(&OF_LIMITS), LIMITS.into());
}

/// A request, and what it says of itself.
pub struct Incoming {
    /// The request as the platform gives it; its body can be read once.
    pub raw: Request,
    text: String,
    /// Where each line begins.
    begins: [usize; LINES_MAX],
    /// Which headers were taken along.
    taken: &'static [&'static str],
}

impl Incoming {
    /// Takes a request apart.
    pub fn new(raw: Request) -> Self {
        let text = NAMES.with(|(of_reads, of_writes, of_limits, limits)| {
            take_apart(&raw, of_reads, of_writes, of_limits, limits)
        });
        let mut begins = [text.len(); LINES_MAX];
        let mut from = 0;
        for begin in &mut begins {
            *begin = from;
            from = match text.get(from..).and_then(|rest| rest.find('\n')) {
                Some(length) => from + length + 1,
                None => text.len() + 1,
            };
        }
        let mut incoming = Self {
            raw,
            text,
            begins,
            taken: &OF_WRITES,
        };
        incoming.taken = match incoming.method() {
            "GET" | "HEAD" => &OF_READS,
            _ if incoming.url().contains(LIMITS) => &OF_LIMITS,
            _ => &OF_WRITES,
        };
        incoming
    }

    fn line(&self, number: usize) -> &str {
        let begin = self.begins.get(number).copied();
        let next = self.begins.get(number + 1).copied();
        let end = next.unwrap_or(self.text.len() + 1).saturating_sub(1);
        begin
            .and_then(|begin| self.text.get(begin..end))
            .unwrap_or_default()
    }

    /// All that is known of it, which tells it from any other.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is a body, read or not. `GET` and `HEAD` have none here.
    pub fn has_body(&self) -> bool {
        self.text.starts_with('+')
    }

    /// The method, upper case.
    pub fn method(&self) -> &str {
        self.line(1)
    }

    /// The URL, absolute.
    pub fn url(&self) -> &str {
        self.line(2)
    }

    /// A header's value; the name in lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        match self.taken.iter().position(|known| *known == name) {
            Some(place) => self.line(place + 3).strip_prefix(':').map(str::to_owned),
            None => self.raw.headers().get(name).ok().flatten(),
        }
    }

    /// The length of the body that the client announced; the platform holds it to that.
    pub fn announced_length(&self) -> Option<u64> {
        self.header(LENGTH)?.parse().ok()
    }
}
