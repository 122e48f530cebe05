//! Status and headers of responses, as the platform takes them.
//!
//! Most responses repeat the head of another, but for a few headers: heads are kept, as responses without a body,
//! since building one costs more than finding it. Where a header has changed it is set anew in the kept head: 8 µs
//! where a new head takes 18.

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

/// Headers whose values change from answer to answer. Each stands once in a head.
const CHANGING: [&str; 8] = [
    "ratelimit",
    "retry-after",
    "server-timing",
    "etag",
    "tally-as-of",
    "tally-staleness-ms",
    "access-control-allow-origin",
    "timing-allow-origin",
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

/// A kept head, and the lines of [`CHANGING`] headers that it has now.
struct Head {
    made: Response,
    headers: Headers,
    changing: String,
}

impl Head {
    fn new((status, lines): &(u16, String), changing: &str) -> Result<Self, JsValue> {
        let made = make_head(*status, lines)?;
        let mut head = Self {
            headers: made.headers(),
            made,
            changing: String::new(),
        };
        head.change(changing)?;
        Ok(head)
    }

    /// As this response has it.
    fn copy(response: &Response) -> Result<Self, JsValue> {
        let made = respond(response, &JsValue::NULL)?;
        Ok(Self {
            headers: made.headers(),
            made,
            changing: String::new(),
        })
    }

    fn change(&mut self, changing: &str) -> Result<(), JsValue> {
        if self.changing != changing {
            // Where one cannot be set, nobody knows which were.
            self.changing.clear();
            set_lines(&self.headers, changing)?;
            self.changing.push_str(changing);
        }
        Ok(())
    }

    fn make(&mut self, changing: &str, body: &JsValue) -> Result<Response, JsValue> {
        self.change(changing)?;
        respond(&self.made, body)
    }
}

thread_local! {
    /// By status and lines: those of [`CHANGING`] headers without their values.
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

/// The lines of a head, and those of [`CHANGING`] headers: their names alone stand in the first.
fn lines_of<'a>(
    headers: impl Iterator<Item = (&'static str, &'a str)>,
) -> worker::Result<(String, String)> {
    let (mut head, mut changing) = (String::with_capacity(256), String::with_capacity(64));
    for (name, value) in headers {
        if CHANGING.contains(&name) {
            add_line(&mut head, name, "")?;
            add_line(&mut changing, name, value)?;
        } else {
            add_line(&mut head, name, value)?;
        }
    }
    Ok((head, changing))
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
    let (lines, changing) = lines_of(response.headers())?;
    let key = (response.head.status, lines);
    let made = HEADS.with_borrow_mut(|heads| {
        if let Some(head) = heads.get_mut(&key) {
            return head.make(&changing, &body);
        }
        let mut head = Head::new(&key, &changing)?;
        let made = head.make(&changing, &body)?;
        heads.insert(key, head);
        Ok(made)
    })?;
    if is_shared {
        let head = Head::copy(&made)?;
        SHARED.with_borrow_mut(|shared| {
            if shared.len() >= HEADS_MAX {
                shared.clear();
            }
            shared.push((response.head, head));
        });
    }
    Ok(made)
}

/// The response, where its head is known by itself: nobody compares its lines then.
fn again(response: &http::Response, body: &JsValue) -> worker::Result<Option<Response>> {
    SHARED.with_borrow_mut(|shared| {
        let known = shared
            .iter_mut()
            .find(|(head, _)| Rc::ptr_eq(head, &response.head));
        let Some((_, head)) = known else {
            return Ok(None);
        };
        if response.changed.is_empty() && !head.changing.is_empty() {
            return Ok(None);
        }
        let mut changing = String::new();
        for (name, value) in &response.changed {
            add_line(&mut changing, name, value)?;
        }
        Ok(Some(head.make(&changing, body)?))
    })
}
