//! Requests of clients, as they are made here and as an edge sees them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tally_host::Later;
use tally_host::http::{Pieces, Request, headers_taken_along};

use crate::executor::Executor;

/// Where the deployment is.
pub const ORIGIN: &str = "https://tally.test";

/// A part of a body, and how long it comes after the one before, microseconds.
type Part = (u64, Result<Vec<u8>, String>);

/// A request that a client makes.
#[derive(Clone, Debug, Default)]
pub struct ClientRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) parts: Option<Vec<Part>>,
    pub(crate) edge: Option<usize>,
    pub(crate) colo: Option<Option<String>>,
    pub(crate) address: Option<Option<String>>,
    pub(crate) country: Option<String>,
}

impl ClientRequest {
    /// A method and a path with its query; or a whole URL, where the deployment is called by another name than
    /// [`ORIGIN`].
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self {
            method: method.to_owned(),
            path: path.into(),
            ..Self::default()
        }
    }

    /// Adds a header; the name in lower case.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// A body, with its length.
    pub fn body(self, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let length = bytes.len().to_string();
        self.header("content-length", length).part(0, bytes)
    }

    /// A body of JSON.
    pub fn json(self, text: impl Into<String>) -> Self {
        self.header("content-type", "application/json")
            .body(text.into())
    }

    /// Another part of a body, which comes so long after the one before.
    pub fn part(mut self, after_ms: u64, bytes: Vec<u8>) -> Self {
        self.parts
            .get_or_insert_default()
            .push((after_ms * 1_000, Ok(bytes)));
        self
    }

    /// The client goes away here, in the middle of the body.
    pub fn breaks(mut self, after_ms: u64) -> Self {
        let broken = Err("the client has gone away".to_owned());
        self.parts
            .get_or_insert_default()
            .push((after_ms * 1_000, broken));
        self
    }

    /// Goes to this edge of the site, instead of any.
    pub fn at(mut self, edge: usize) -> Self {
        self.edge = Some(edge);
        self
    }

    /// The platform says this of where it enters, instead of the site's name; or nothing.
    pub fn colo(mut self, colo: Option<&str>) -> Self {
        self.colo = Some(colo.map(str::to_owned));
        self
    }

    /// The platform says this of the client's country; nothing where this is not called.
    pub fn country(mut self, country: Option<&str>) -> Self {
        self.country = country.map(str::to_owned);
        self
    }

    /// The platform says this of the client's address, instead of the client's own; or nothing.
    pub fn address(mut self, address: Option<&str>) -> Self {
        self.address = Some(address.map(str::to_owned));
        self
    }
}

/// A request as an edge sees it.
pub(crate) struct Incoming {
    text: String,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    colo: Option<String>,
    address: Option<String>,
    country: Option<String>,
    has_body: bool,
    parts: RefCell<Option<VecDeque<Part>>>,
    executor: Rc<Executor>,
}

impl Incoming {
    pub(crate) fn new(
        ask: ClientRequest,
        site: String,
        address: &str,
        executor: &Rc<Executor>,
    ) -> Self {
        let url = match ask.path.starts_with('/') {
            true => format!("{ORIGIN}{}", ask.path),
            false => ask.path,
        };
        let is_read = matches!(ask.method.as_str(), "GET" | "HEAD");
        let is_empty = |(name, value): &(String, String)| name == "content-length" && value == "0";
        let has_none = is_read || ask.headers.iter().any(is_empty);
        let parts = ask.parts.filter(|_| !has_none);
        let mut incoming = Self {
            text: String::new(),
            method: ask.method,
            url,
            headers: ask.headers,
            colo: ask.colo.unwrap_or(Some(site)),
            address: ask.address.unwrap_or_else(|| Some(address.to_owned())),
            country: ask.country,
            has_body: parts.is_some(),
            parts: RefCell::new(parts.map(VecDeque::from)),
            executor: executor.clone(),
        };
        let mut text = match incoming.has_body {
            true => "+".to_owned(),
            false => String::new(),
        };
        text.push_str(&format!("\n{}\n{}", incoming.method, incoming.url));
        for name in headers_taken_along(&incoming.method, &incoming.url) {
            let value = incoming.header(name);
            text.push_str(&value.map_or("\n".to_owned(), |value| format!("\n:{value}")));
        }
        incoming.text = text;
        incoming
    }
}

impl Request for Incoming {
    fn text(&self) -> &str {
        &self.text
    }

    fn method(&self) -> &str {
        &self.method
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn header(&self, name: &str) -> Option<String> {
        let mut values = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let first = values.next()?.1.clone();
        Some(values.fold(first, |joined, (_, value)| joined + ", " + value))
    }

    fn colo(&self) -> Option<String> {
        self.colo.clone()
    }

    fn country(&self) -> Option<String> {
        self.country.clone()
    }

    fn client_address(&self) -> Option<String> {
        self.address.clone()
    }

    fn has_body(&self) -> bool {
        self.has_body
    }

    fn whole(&self) -> Later<Result<Vec<u8>, String>> {
        let parts = self.parts.borrow_mut().take();
        let executor = self.executor.clone();
        let has_body = self.has_body;
        Box::pin(async move {
            let Some(parts) = parts else {
                return match has_body {
                    true => Err("the body was read already".to_owned()),
                    false => Ok(Vec::new()),
                };
            };
            let mut whole = Vec::new();
            for (after_us, part) in parts {
                if after_us > 0 {
                    executor.sleep(after_us).await;
                }
                whole.extend(part?);
            }
            Ok(whole)
        })
    }

    fn pieces(&self, bytes: u32) -> Option<Box<dyn Pieces>> {
        let parts = self.parts.borrow_mut().take()?;
        let bytes = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        let reader = Reader {
            parts,
            ahead: Vec::new(),
            executor: self.executor.clone(),
        };
        let reader = Rc::new(RefCell::new(Some(reader)));
        Some(Box::new(Cut { reader, bytes }))
    }
}

struct Reader {
    parts: VecDeque<Part>,
    ahead: Vec<u8>,
    executor: Rc<Executor>,
}

impl Reader {
    async fn next(&mut self, bytes: usize) -> Result<Option<Vec<u8>>, String> {
        while self.ahead.len() < bytes {
            let Some((after_us, part)) = self.parts.pop_front() else {
                break;
            };
            if after_us > 0 {
                self.executor.sleep(after_us).await;
            }
            self.ahead.extend(part?);
        }
        if self.ahead.is_empty() {
            return Ok(None);
        }
        let rest = self.ahead.split_off(bytes.min(self.ahead.len()));
        Ok(Some(std::mem::replace(&mut self.ahead, rest)))
    }
}

/// A body, cut into pieces of one length. The reader is away while a piece is read.
struct Cut {
    reader: Rc<RefCell<Option<Reader>>>,
    bytes: usize,
}

impl Pieces for Cut {
    fn next(&mut self) -> Later<Result<Option<Vec<u8>>, String>> {
        let (shared, bytes) = (self.reader.clone(), self.bytes);
        Box::pin(async move {
            let reader = shared.borrow_mut().take();
            let Some(mut reader) = reader else {
                return Err("the piece before was not read to its end".to_owned());
            };
            let piece = reader.next(bytes).await;
            *shared.borrow_mut() = Some(reader);
            piece
        })
    }
}
