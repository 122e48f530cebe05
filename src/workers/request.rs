//! A request of a client, taken apart by one call into JavaScript: method, URL and those headers that calls look at.
//!
//! Each of them by itself was a call, and asking for a header took 2 µs, five times an answer (BENCHMARKS.md,
//! what every request costs).

use std::cell::RefCell;
use std::rc::Rc;

use worker::Error;
use worker::js_sys::{Array, JsString, Object, Promise, Reflect, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{self, ReadableStream};

use tally_host::Later;
use tally_host::http::{
    LIMITS, OF_LIMITS, OF_READS, OF_WRITES, Pieces, Request, headers_taken_along,
};

/// Lines of what is taken apart: the body's, method, URL, and a header each.
const LINES_MAX: usize = 3 + OF_WRITES.len();

// One line each: whether there is a body, the method, the URL, and the headers of these names, `:` before those that
// are there. None of them can hold the end of a line (RFC 9110, 5.5). A body that says how long it is needs no look:
// that makes a stream of it. Plain workerd puts a client's `Host` into the URL as it is. A host with a part of a path
// would lead to another call than the one that a proxy checked (RFC 9112, 3.2). So such a request has no URL.
#[wasm_bindgen(inline_js = r#"
export function take_apart(request, of_reads, of_writes, of_limits, limits) {
  const { method, headers } = request;
  const url = /[/?#\\@]/.test(headers.get("host") ?? "") ? "" : request.url;
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
        request: &web_sys::Request,
        of_reads: &Array,
        of_writes: &Array,
        of_limits: &Array,
        limits: &JsString,
    ) -> String;

    /// A request as the platform gives it. The SDK's `Cf` panics where there is no colo, as on plain
    /// workerd. It is JSON that is parsed at the first look: 7 µs even where it holds no more than an address.
    type Located;

    #[wasm_bindgen(method, getter)]
    fn cf(this: &Located) -> Option<Facts>;

    type Facts;

    #[wasm_bindgen(method, getter)]
    fn colo(this: &Facts) -> Option<String>;

    #[wasm_bindgen(method, getter)]
    fn country(this: &Facts) -> Option<String>;

    #[wasm_bindgen(method, getter, js_name = clientIp)]
    fn client_ip(this: &Facts) -> Option<String>;

    /// A body as the platform reads it. Its `readAtLeast` is older than the standard's `min`.
    /// Source: developers.cloudflare.com/workers/runtime-apis/streams/readablestreambyobreader
    type Reader;

    #[wasm_bindgen(method, catch, js_name = readAtLeast)]
    fn read_at_least(this: &Reader, bytes: u32, into: &Uint8Array) -> Result<Promise, JsValue>;
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
pub(super) struct Incoming {
    /// The request as the platform gives it; its body can be read once.
    raw: web_sys::Request,
    text: String,
    /// Where each line begins.
    begins: [usize; LINES_MAX],
    /// Which headers were taken along.
    taken: &'static [&'static str],
}

impl Incoming {
    /// Takes a request apart.
    pub(super) fn new(raw: web_sys::Request) -> Self {
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
        incoming.taken = headers_taken_along(incoming.method(), incoming.url());
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

    fn facts(&self) -> Option<Facts> {
        self.raw.unchecked_ref::<Located>().cf()
    }
}

impl Request for Incoming {
    fn text(&self) -> &str {
        &self.text
    }

    fn method(&self) -> &str {
        self.line(1)
    }

    fn url(&self) -> &str {
        self.line(2)
    }

    fn header(&self, name: &str) -> Option<String> {
        match self.taken.iter().position(|known| *known == name) {
            Some(index) => self.line(index + 3).strip_prefix(':').map(str::to_owned),
            None => self.raw.headers().get(name).ok().flatten(),
        }
    }

    fn colo(&self) -> Option<String> {
        self.facts()?.colo()
    }

    fn country(&self) -> Option<String> {
        self.facts()?.country()
    }

    fn client_address(&self) -> Option<String> {
        self.facts()?.client_ip()
    }

    fn has_body(&self) -> bool {
        self.text.starts_with('+')
    }

    fn whole(&self) -> Later<Result<Vec<u8>, String>> {
        let promise = self.raw.array_buffer();
        Box::pin(async move {
            let buffer = JsFuture::from(promise.map_err(error_text)?).await;
            Ok(Uint8Array::new(&buffer.map_err(error_text)?).to_vec())
        })
    }

    fn pieces(&self, bytes: u32) -> Option<Box<dyn Pieces>> {
        if self.raw.body_used() {
            return None;
        }
        let body: ReadableStream = self.raw.body()?;
        // A second reader is an exception, and the request would never be answered.
        if body.locked() {
            return None;
        }
        let options = Object::new();
        Reflect::set(&options, &"mode".into(), &"byob".into()).ok()?;
        let reader = body.get_reader_with_options(options.unchecked_ref());
        Some(Box::new(Body {
            reader: reader.unchecked_into(),
            bytes,
            buffer: Rc::new(RefCell::new(Uint8Array::new_with_length(bytes))),
        }))
    }
}

fn error_text(error: JsValue) -> String {
    Error::from(error).to_string()
}

/// A body that is being read.
struct Body {
    reader: Reader,
    bytes: u32,
    /// The buffer that the next piece is read into. The platform takes it, and returns it with the piece.
    buffer: Rc<RefCell<Uint8Array>>,
}

impl Pieces for Body {
    fn next(&mut self) -> Later<Result<Option<Vec<u8>>, String>> {
        let buffer = self.buffer.clone();
        let promise = self.reader.read_at_least(self.bytes, &buffer.borrow());
        Box::pin(async move {
            let read = JsFuture::from(promise.map_err(error_text)?).await;
            let value =
                Reflect::get(&read.map_err(error_text)?, &"value".into()).map_err(error_text)?;
            let Some(piece) = value
                .dyn_ref::<Uint8Array>()
                .filter(|piece| piece.length() > 0)
            else {
                return Ok(None);
            };
            let bytes = piece.to_vec();
            *buffer.borrow_mut() = Uint8Array::new(&piece.buffer());
            Ok(Some(bytes))
        })
    }
}
