//! A request of a client, taken apart by one call into JavaScript: method, URL and those headers that calls look at.
//!
//! Each of them by itself was a call, and asking for a header took 2 µs, five times an answer.

use worker::js_sys::Array;
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::web_sys::Request;

/// Headers that are taken along where there may be a body, in the order in which [`take_apart`] writes them.
const OF_WRITES: [&str; 5] = [
    LENGTH,
    "authorization",
    "origin",
    "idempotency-key",
    "if-match",
];

/// Those that are taken along where there is none.
const OF_READS: [&str; 4] = ["authorization", "origin", "if-none-match", "accept"];

const LENGTH: &str = "content-length";

// One line each: whether there is a body, the method, the URL, and the headers of these names, `:` before those that are
// there. None of them can hold the end of a line (RFC 9110, 5.5). A body that says how long it is needs no look: that
// makes a stream of it.
#[wasm_bindgen(inline_js = r#"
export function take_apart(request, of_reads, of_writes) {
  const { method, headers } = request;
  const is_read = method === "GET" || method === "HEAD";
  let text = "\n" + method + "\n" + request.url;
  for (const name of is_read ? of_reads : of_writes) {
    const value = headers.get(name);
    text += value === null ? "\n" : "\n:" + value;
  }
  if (is_read) return text;
  const length = headers.get("content-length");
  return (length === null ? request.body !== null : length !== "0") ? "+" + text : text;
}
"#)]
extern "C" {
    fn take_apart(request: &Request, of_reads: &Array, of_writes: &Array) -> String;
}

fn names(headers: &[&str]) -> Array {
    headers.iter().map(|name| JsValue::from_str(name)).collect()
}

thread_local! {
    /// [`OF_READS`] and [`OF_WRITES`] as JavaScript has them.
    static NAMES: (Array, Array) = (names(&OF_READS), names(&OF_WRITES));
}

/// A request, and what it says of itself.
pub struct Incoming {
    /// The request as the platform gives it; its body can be read once.
    pub raw: Request,
    text: String,
}

impl Incoming {
    /// Takes a request apart.
    pub fn new(raw: Request) -> Self {
        let text = NAMES.with(|(of_reads, of_writes)| take_apart(&raw, of_reads, of_writes));
        Self { raw, text }
    }

    fn line(&self, number: usize) -> &str {
        self.text.split('\n').nth(number).unwrap_or_default()
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
        let is_read = matches!(self.method(), "GET" | "HEAD");
        let taken: &[&str] = if is_read { &OF_READS } else { &OF_WRITES };
        match taken.iter().position(|known| *known == name) {
            Some(place) => self.line(place + 3).strip_prefix(':').map(str::to_owned),
            None => self.raw.headers().get(name).ok().flatten(),
        }
    }

    /// The length of the body that the client announced; the platform holds it to that.
    pub fn announced_length(&self) -> Option<u64> {
        self.header(LENGTH)?.parse().ok()
    }
}
