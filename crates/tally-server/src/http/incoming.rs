//! Requests of clients, as hyper has them.
//!
//! Invariant: a body that is read in pieces is a part of the memory that clients fill together. Where that has no room,
//! the client is not read further: its body takes longer than it may.

use std::cell::{OnceCell, RefCell};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;

use bytes::{Buf, Bytes};
use hyper::Method;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use tally_host::Later;
use tally_host::http::{Pieces, Request, headers_taken_along};

use crate::clients::held_bytes::HeldBytes;
use crate::ground::Ground;

/// The largest body that is read at once. Larger ones are read in pieces.
const WHOLE_BYTES_MAX: usize = 1_024 * 1_024;

/// What a proxy of the deployment's owner says of a request, in the header of `--cf-blob-header`.
struct Facts {
    colo: Option<String>,
    country: Option<String>,
    address: Option<String>,
}

/// A request.
pub(crate) struct ClientCall {
    /// Made for those few who ask.
    text: OnceCell<String>,
    method: Method,
    url: String,
    headers: HeaderMap,
    peer: IpAddr,
    /// `None` where no proxy says anything.
    facts: Option<Box<Facts>>,
    has_body: bool,
    body: RefCell<Option<Incoming>>,
    ground: Rc<Ground>,
    /// What the body takes of the memory of all clients, as long as the request lasts.
    held: RefCell<Option<Rc<RefCell<HeldBytes>>>>,
}

/// A header's value; several of one name are joined as in browsers. Bytes that are no ASCII are characters of Latin-1.
fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    // A request has few headers, and a look for each name costs more than a comparison with all of them.
    let is_it = |known: &HeaderName| known.as_str().eq_ignore_ascii_case(name);
    let named = headers.iter().filter(|(known, _)| is_it(known));
    let mut values = named.map(|(_, value)| value);
    let text = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| char::from(*byte))
            .collect::<String>()
    };
    let first = values.next()?;
    let first = match first.to_str() {
        Ok(plain) => plain.to_owned(),
        Err(_) => text(first.as_bytes()),
    };
    Some(values.fold(first, |before, value| {
        before + ", " + &text(value.as_bytes())
    }))
}

impl ClientCall {
    /// Takes a request apart. `blob`: the header that says where it entered.
    pub(crate) fn new(
        parts: Parts,
        body: Incoming,
        peer: IpAddr,
        blob: Option<&str>,
        ground: &Rc<Ground>,
    ) -> Self {
        let url = match (parts.uri.authority(), parts.uri.path_and_query()) {
            (None, Some(path)) => {
                let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
                ["http://", host.unwrap_or_default(), path.as_str()].concat()
            }
            _ => parts.uri.to_string(),
        };
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        let is_empty = parts
            .headers
            .get(CONTENT_LENGTH)
            .is_some_and(|length| length == "0");
        let is_announced = parts.headers.contains_key(CONTENT_LENGTH)
            || parts.headers.contains_key(TRANSFER_ENCODING);
        Self {
            text: OnceCell::new(),
            facts: facts_of(&parts.headers, blob),
            peer,
            has_body: !is_read && is_announced && !is_empty,
            method: parts.method,
            url,
            headers: parts.headers,
            body: RefCell::new(Some(body)),
            ground: ground.clone(),
            held: RefCell::default(),
        }
    }

    fn lines(&self) -> String {
        let mut text = String::with_capacity(self.url.len() + 128);
        if self.has_body {
            text.push('+');
        }
        for line in [self.method.as_str(), &self.url] {
            text.push('\n');
            text.push_str(line);
        }
        for name in headers_taken_along(self.method.as_str(), &self.url) {
            text.push('\n');
            if let Some(value) = joined(&self.headers, name) {
                text.push(':');
                text.push_str(&value);
            }
        }
        text
    }
}

fn facts_of(headers: &HeaderMap, blob: Option<&str>) -> Option<Box<Facts>> {
    let blob = headers.get(blob?)?;
    let facts: serde_json::Value = serde_json::from_slice(blob.as_bytes()).unwrap_or_default();
    let text = |name: &str| {
        facts
            .get(name)
            .and_then(|fact| fact.as_str())
            .map(str::to_owned)
    };
    Some(Box::new(Facts {
        colo: text("colo"),
        country: text("country"),
        address: text("clientIp"),
    }))
}

impl Request for ClientCall {
    fn text(&self) -> &str {
        self.text.get_or_init(|| self.lines())
    }

    fn method(&self) -> &str {
        self.method.as_str()
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn header(&self, name: &str) -> Option<String> {
        joined(&self.headers, name)
    }

    fn colo(&self) -> Option<String> {
        self.facts.as_ref()?.colo.clone()
    }

    fn country(&self) -> Option<String> {
        self.facts.as_ref()?.country.clone()
    }

    fn client_address(&self) -> Option<String> {
        match &self.facts {
            Some(facts) => facts.address.clone(),
            None => Some(self.peer.to_canonical().to_string()),
        }
    }

    fn has_body(&self) -> bool {
        self.has_body
    }

    fn whole(&self) -> Later<Result<Vec<u8>, String>> {
        let body = self.body.borrow_mut().take().filter(|_| self.has_body);
        let has_body = self.has_body;
        Box::pin(async move {
            match body {
                Some(body) => whole_of(body).await,
                None if has_body => Err("the body was read already".to_owned()),
                None => Ok(Vec::new()),
            }
        })
    }

    fn pieces(&self, bytes: u32) -> Option<Box<dyn Pieces>> {
        let body = self.body.borrow_mut().take().filter(|_| self.has_body)?;
        let held = Rc::new(RefCell::new(HeldBytes::new(&self.ground.held)));
        self.held.replace(Some(held.clone()));
        let reader = Reader {
            body,
            held,
            seen: 0,
            ahead: Vec::new(),
            bytes: usize::try_from(bytes.max(1)).unwrap_or(usize::MAX),
        };
        Some(Box::new(Cut(Rc::new(RefCell::new(Some(reader))))))
    }
}

/// The next bytes of a body; `None` at its end.
async fn next_of(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| error.to_string())?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

async fn whole_of(mut body: Incoming) -> Result<Vec<u8>, String> {
    let Some(first) = next_of(&mut body).await? else {
        return Ok(Vec::new());
    };
    let mut whole = Vec::from(first);
    while let Some(more) = next_of(&mut body).await? {
        if whole.len() + more.len() > WHOLE_BYTES_MAX {
            return Err("the body is longer than it said".to_owned());
        }
        whole.extend_from_slice(&more);
    }
    Ok(whole)
}

struct Reader {
    body: Incoming,
    held: Rc<RefCell<HeldBytes>>,
    /// Bytes of the body that have arrived.
    seen: usize,
    ahead: Vec<u8>,
    bytes: usize,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        while self.ahead.len() < self.bytes {
            match next_of(&mut self.body).await? {
                Some(more) => {
                    self.seen = self.seen.saturating_add(more.len());
                    self.ahead.extend_from_slice(more.chunk());
                    // Nobody keeps more of a body.
                    HeldBytes::wait(&self.held, self.seen.min(WHOLE_BYTES_MAX)).await;
                }
                None => break,
            }
        }
        if self.ahead.is_empty() {
            return Ok(None);
        }
        let rest = self.ahead.split_off(self.bytes.min(self.ahead.len()));
        Ok(Some(std::mem::replace(&mut self.ahead, rest)))
    }
}

/// A body, cut into pieces of one length. The reader is away while a piece is read. A piece that is given up, and is
/// asked for again, is lost: its body is broken off.
struct Cut(Rc<RefCell<Option<Reader>>>);

impl Pieces for Cut {
    fn next(&mut self) -> Later<Result<Option<Vec<u8>>, String>> {
        let shared = self.0.clone();
        Box::pin(async move {
            let reader = shared.borrow_mut().take();
            let Some(mut reader) = reader else {
                return Err("the piece before was not read to its end".to_owned());
            };
            let piece = reader.next().await;
            *shared.borrow_mut() = Some(reader);
            piece
        })
    }
}
