//! Status and headers of responses, as the platform takes them.
//!
//! Most responses repeat the head of another, but for a few values: heads are kept, as responses without a body, since
//! building one costs more than finding it. A value that has changed is set anew in the kept head: 8 µs where a new
//! head takes 18.

use std::cell::RefCell;
use std::rc::Rc;

use worker::js_sys::{Promise, Uint8Array};
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::wasm_bindgen_futures::future_to_promise;
use worker::web_sys::{Headers, Response};

use super::messages::carrier;
use tally_core::counter::bounded_map::BoundedMap;
use tally_host::http::{self, Body, Pieces};

/// Heads that are kept: about 1 KB each.
const HEADS_MAX: usize = 64;

/// Headers whose values identify a head. A value of any other header is set where it differs from that of the answer
/// before: a header that is missing here costs a call, and a header too many costs a head for each of its values.
const STEADY: [&str; 8] = [
    "content-type",
    "cache-control",
    "vary",
    "allow",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-expose-headers",
    "access-control-max-age",
];

// A head is one line for each header, `name:value`. A response has a copy of the headers of the one that it is made
// with, and leaves that as it is.
#[wasm_bindgen(inline_js = r#"
function lines(text, add) {
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) add(line.slice(0, colon), line.slice(colon + 1));
  }
}
export function make_head(status, text) {
  const headers = new Headers();
  lines(text, (name, value) => headers.append(name, value));
  return new Response(null, { status, headers });
}
export function set_lines(headers, text) {
  lines(text, (name, value) => headers.set(name, value));
}
export function stream_of(next) {
  return new ReadableStream({
    async pull(controller) {
      const piece = await next();
      if (piece === undefined) controller.close();
      else controller.enqueue(piece);
    },
  });
}
export function respond(head, body) {
  return new Response(body, head);
}
"#)]
extern "C" {
    #[wasm_bindgen(catch)]
    fn make_head(status: u16, text: &str) -> Result<Response, JsValue>;

    #[wasm_bindgen(catch)]
    fn set_lines(headers: &Headers, text: &str) -> Result<(), JsValue>;

    fn stream_of(next: &JsValue) -> JsValue;

    #[wasm_bindgen(catch)]
    fn respond(head: &Response, body: &JsValue) -> Result<Response, JsValue>;
}

/// A kept head.
struct Head {
    made: Response,
    headers: Headers,
    /// The values that it has now of the headers that are not [`STEADY`], in order; `None` where that is not known.
    values: Vec<Option<String>>,
}

impl Head {
    /// The head of a status, and of one line for each header: those that are not [`STEADY`] have no value yet.
    fn new((status, lines): &(u16, String)) -> Result<Self, JsValue> {
        let made = make_head(*status, lines)?;
        let headers = made.headers();
        let values = Vec::new();
        Ok(Self {
            made,
            headers,
            values,
        })
    }

    /// The response with this head, whose names are those of the response.
    fn make(&mut self, response: &http::Response, body: &JsValue) -> worker::Result<Response> {
        if let Err(error) = self.set(response) {
            // Nobody knows which were set.
            self.values.fill(None);
            return Err(error);
        }
        Ok(respond(&self.made, body)?)
    }

    /// Sets the values that differ.
    fn set(&mut self, response: &http::Response) -> worker::Result<()> {
        let mut lines = String::new();
        for (index, (name, value)) in varying(response).enumerate() {
            if index == self.values.len() {
                self.values.push(None);
            }
            if let Some(held) = self.values.get_mut(index)
                && held.as_deref() != Some(value)
            {
                add_line(&mut lines, name, value)?;
                *held = Some(value.to_owned());
            }
        }
        if !lines.is_empty() {
            set_lines(&self.headers, &lines)?;
        }
        Ok(())
    }
}

/// The headers of a response that are not [`STEADY`]. Each stands once.
fn varying(response: &http::Response) -> impl Iterator<Item = (&'static str, &str)> {
    response
        .headers()
        .filter(|(name, _)| !STEADY.contains(name))
}

thread_local! {
    /// By status and lines: those of headers that are not [`STEADY`] without their values.
    static HEADS: RefCell<BoundedMap<(u16, String), Head, HEADS_MAX>> = RefCell::default();
    /// Those that somebody gives again and again, by themselves.
    static SHARED: RefCell<Vec<(Rc<http::StaticHead>, Head)>> = RefCell::default();
    /// The last short body, and what JavaScript has of it: what is hot answers the same again and again.
    static LAST: RefCell<(String, JsValue)> = RefCell::default();
}

/// Longer bodies are not compared with the last one.
const LAST_BYTES_MAX: usize = 2_048;

/// A body as JavaScript has it.
fn body_of(body: &str) -> JsValue {
    if body.len() > LAST_BYTES_MAX {
        return JsValue::from_str(body);
    }
    LAST.with_borrow_mut(|(text, known)| {
        if text != body {
            body.clone_into(text);
            *known = JsValue::from_str(body);
        }
        known.clone()
    })
}

/// The lines of a head: those of headers that are not [`STEADY`] have no value.
fn lines_of(response: &http::Response) -> worker::Result<String> {
    let mut lines = String::with_capacity(256);
    for (name, value) in response.headers() {
        let steady = if STEADY.contains(&name) { value } else { "" };
        add_line(&mut lines, name, steady)?;
    }
    Ok(lines)
}

/// Adds a header. No value has several lines, which would be headers that nobody gave.
fn add_line(lines: &mut String, name: &str, value: &str) -> worker::Result<()> {
    if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return Err(format!("the header {name} has more than one line").into());
    }
    if !lines.is_empty() {
        lines.push('\n');
    }
    lines.push_str(name);
    lines.push(':');
    lines.push_str(value);
    Ok(())
}

/// A body as JavaScript asks for it, piece by piece.
fn streamed(pieces: Box<dyn Pieces>) -> JsValue {
    let pieces = RefCell::new(pieces);
    let next = Closure::<dyn FnMut() -> Promise>::new(move || {
        let piece = pieces.borrow_mut().next();
        future_to_promise(async move {
            match piece.await {
                Ok(Some(bytes)) => Ok(Uint8Array::from(bytes.as_slice()).into()),
                Ok(None) => Ok(JsValue::UNDEFINED),
                Err(error) => Err(JsValue::from_str(&error)),
            }
        })
    });
    stream_of(&next.into_js_value())
}

/// Makes a response.
///
/// # Errors
/// The platform's, and that of a header with more than one line.
pub(super) fn response(mut response: http::Response) -> worker::Result<Response> {
    let body = match std::mem::replace(&mut response.body, Body::Empty) {
        Body::Empty => JsValue::NULL,
        Body::Text(text) => body_of(&text),
        Body::Bytes(bytes) => Uint8Array::from(&*bytes).into(),
        Body::Pieces(pieces) => streamed(pieces),
        Body::Stream(stream) => carrier(&stream)?
            .body()
            .map_or(JsValue::NULL, JsValue::from),
        Body::Socket(stream) => return carrier(&stream).cloned(),
    };
    // Whoever else has the head gives it again.
    let is_shared = Rc::strong_count(&response.head) > 1;
    if is_shared && let Some(made) = again(&response, &body)? {
        return Ok(made);
    }
    let key = (response.head.status, lines_of(&response)?);
    if is_shared {
        let mut head = Head::new(&key)?;
        let made = head.make(&response, &body)?;
        SHARED.with_borrow_mut(|shared| {
            if shared.len() >= HEADS_MAX {
                shared.clear();
            }
            shared.push((response.head, head));
        });
        return Ok(made);
    }
    HEADS.with_borrow_mut(|heads| {
        if let Some(head) = heads.get_mut(&key) {
            return head.make(&response, &body);
        }
        let mut head = Head::new(&key)?;
        let made = head.make(&response, &body)?;
        heads.insert(key, head);
        Ok(made)
    })
}

/// The response, where its head is known by itself: nobody compares its lines then.
fn again(response: &http::Response, body: &JsValue) -> worker::Result<Option<Response>> {
    SHARED.with_borrow_mut(|shared| {
        let known = shared
            .iter_mut()
            .find(|(head, _)| Rc::ptr_eq(head, &response.head));
        known.map(|(_, head)| head.make(response, body)).transpose()
    })
}
