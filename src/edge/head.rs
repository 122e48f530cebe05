//! Status and headers of responses, as the platform takes them.
//!
//! Most responses repeat the head of another: those are kept, since building one costs more than finding it. A head that
//! was not met before is built and sent in one call into JavaScript, and not kept: it may never come again.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};

use worker::js_sys::Uint8Array;
use worker::wasm_bindgen;
use worker::wasm_bindgen::prelude::*;
use worker::web_sys::{ReadableStream, Response, ResponseInit};

/// Headers of one response.
pub type HeaderList = Vec<(&'static str, String)>;

/// Heads that are kept: about 1 KB each.
const INITS_MAX: usize = 64;

/// Heads of which it is known that they were met: 16 bytes each.
const MET_MAX: usize = 1_024;

// A head is one line for each header, `name:value`.
#[wasm_bindgen(inline_js = r#"
export function make_init(status, head) {
  const headers = new Headers();
  for (const line of head.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1));
  }
  return { status, headers };
}
export function respond(init, body) {
  return new Response(body, init);
}
export function respond_once(status, head, body) {
  return new Response(body, make_init(status, head));
}
"#)]
extern "C" {
    #[wasm_bindgen(catch)]
    fn make_init(status: u16, head: &str) -> Result<ResponseInit, JsValue>;

    #[wasm_bindgen(catch)]
    fn respond(init: &ResponseInit, body: &JsValue) -> Result<Response, JsValue>;

    #[wasm_bindgen(catch)]
    fn respond_once(status: u16, head: &str, body: &JsValue) -> Result<Response, JsValue>;
}

#[derive(Default)]
struct Heads {
    inits: HashMap<(u16, String), ResponseInit>,
    met: HashSet<u64>,
}

thread_local! {
    static HEADS: RefCell<Heads> = RefCell::default();
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

impl Heads {
    /// Whether such a head was met before, as far as is remembered.
    fn was_met(&mut self, status: u16, head: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        hasher.write_u16(status);
        hasher.write(head.as_bytes());
        if self.met.len() >= MET_MAX {
            self.met.clear();
        }
        !self.met.insert(hasher.finish())
    }
}

/// What a response holds.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A body, or none, as JavaScript takes it.
fn given(body: Option<Body<'_>>) -> JsValue {
    match body {
        None => JsValue::NULL,
        Some(Body::Text(text)) => body_of(text),
        Some(Body::Bytes(bytes)) => Uint8Array::from(bytes).into(),
    }
}

/// The lines of a head. None has a value of several lines, which would be headers that nobody gave.
fn lines_of(headers: &HeaderList) -> worker::Result<String> {
    let mut head = String::with_capacity(256);
    for (name, value) in headers {
        if value.contains(['\r', '\n']) {
            return Err(format!("the header {name} has more than one line").into());
        }
        let between = if head.is_empty() { "" } else { "\n" };
        head.extend([between, name, ":", value]);
    }
    Ok(head)
}

/// Makes a response.
///
/// # Errors
/// The platform's, and that of a header with more than one line.
pub fn response(
    status: u16,
    headers: &HeaderList,
    body: Option<Body<'_>>,
) -> worker::Result<Response> {
    let key = (status, lines_of(headers)?);
    let known = HEADS.with_borrow(|heads| heads.inits.get(&key).cloned());
    let init = match known {
        Some(init) => init,
        None if HEADS.with_borrow_mut(|heads| heads.was_met(status, &key.1)) => {
            let made = make_init(status, &key.1)?;
            HEADS.with_borrow_mut(|heads| {
                if heads.inits.len() >= INITS_MAX {
                    heads.inits.clear();
                }
                heads.inits.insert(key, made.clone());
            });
            made
        }
        None => return Ok(respond_once(status, &key.1, &given(body))?),
    };
    Ok(respond(&init, &given(body))?)
}

/// Makes a response of 200 whose body is a stream; `None` for none.
///
/// # Errors
/// As [`response`].
pub fn streamed(headers: &HeaderList, stream: Option<&ReadableStream>) -> worker::Result<Response> {
    let init = make_init(200, &lines_of(headers)?)?;
    Ok(Response::new_with_opt_readable_stream_and_init(
        stream, &init,
    )?)
}
