//! Requests of clients as they arrive, and responses as they leave.

use std::borrow::Cow;
use std::future::Future;
use std::rc::Rc;

use super::{Later, Stream};

/// Headers of one response, in order.
pub type HeaderList = Vec<(&'static str, String)>;

const LENGTH: &str = "content-length";

/// Headers that are taken along where there may be a body, in this order.
pub const OF_WRITES: [&str; 6] = [
    LENGTH,
    "authorization",
    "origin",
    "sec-fetch-site",
    "idempotency-key",
    "if-match",
];

/// Those of them that calls about rate limits look at.
pub const OF_LIMITS: [&str; 4] = [LENGTH, "authorization", "origin", "sec-fetch-site"];

/// What the URL of such a call holds. Others may hold it too, and ask for each header that is missing then.
pub const LIMITS: &str = "/limits/";

/// Those that are taken along where there is no body.
pub const OF_READS: [&str; 5] = [
    "authorization",
    "origin",
    "sec-fetch-site",
    "if-none-match",
    "accept",
];

/// Headers that a request of this method and URL is taken apart with: others are asked for one by one.
pub fn headers_taken_along(method: &str, url: &str) -> &'static [&'static str] {
    match method {
        "GET" | "HEAD" => &OF_READS,
        _ if url.contains(LIMITS) => &OF_LIMITS,
        _ => &OF_WRITES,
    }
}

/// A client's request, as the platform has it.
pub trait Request {
    /// Returns a text that identifies the request and needs no further call to the platform. It has a line each: `+` if
    /// there is a body, the method, the URL, and each of [`headers_taken_along`], `:` before those that are there.
    fn text(&self) -> &str;

    /// The method, upper case.
    fn method(&self) -> &str;

    /// The URL, absolute.
    fn url(&self) -> &str;

    /// A header's value; the name in lower case.
    fn header(&self, name: &str) -> Option<String>;

    /// The colo that the request entered at, where the platform says it.
    fn colo(&self) -> Option<String>;

    /// The country of the client, two capital letters, where the platform says it.
    fn country(&self) -> Option<String>;

    /// The client's address as the platform's connection has it, where it says that.
    fn client_address(&self) -> Option<String>;

    /// Whether there is a body, read or not. `GET` and `HEAD` have none here.
    fn has_body(&self) -> bool;

    /// Reads the body whole.
    fn whole(&self) -> Later<Result<Vec<u8>, String>>;

    /// The body in pieces of so many bytes, but for the last; `None` where there is none, or it was taken already.
    fn pieces(&self, bytes: u32) -> Option<Box<dyn Pieces>>;
}

/// A body that is read piece by piece.
pub trait Pieces {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Later<Result<Option<Vec<u8>>, String>>;
}

/// What lets work go on after a request was answered.
pub trait Background {
    /// Lets it go on, even if the client is gone.
    fn wait_until(&self, work: Later<()>);
}

/// The request's own part of its platform. A copy costs a count.
#[derive(Clone)]
pub struct Context(Rc<dyn Background>);

impl Context {
    /// What this platform carries.
    pub fn new(platform: Rc<dyn Background>) -> Self {
        Self(platform)
    }

    /// Lets work go on after the answer, even if the client is gone.
    pub fn wait_until(&self, work: impl Future<Output = ()> + 'static) {
        self.0.wait_until(Box::pin(work));
    }
}

/// What a response holds.
pub enum Body {
    /// Nothing.
    Empty,
    /// Text.
    Text(Rc<str>),
    /// Bytes.
    Bytes(Cow<'static, [u8]>),
    /// Bytes that are made while they are sent. A piece that cannot be made breaks the body off.
    Pieces(Box<dyn Pieces>),
    /// A stream of an object's, with the headers of this response.
    Stream(Stream),
    /// A socket of an object's: the answer is the object's own.
    Socket(Stream),
}

/// Status and headers that are given again and again: the platform may keep what it has made of them.
pub struct StaticHead {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderList,
}

/// A response. No value of its headers has several lines.
pub struct Response {
    /// Its status and headers.
    pub head: Rc<StaticHead>,
    /// Headers with another value than in the head, which has them too.
    pub changed: HeaderList,
    /// Its body.
    pub body: Body,
}

impl Response {
    /// A response with a head of its own.
    pub fn new(status: u16, headers: HeaderList, body: Body) -> Self {
        Self {
            head: Rc::new(StaticHead { status, headers }),
            changed: HeaderList::new(),
            body,
        }
    }

    /// All its headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let value = |name: &str| self.changed.iter().find(|(changed, _)| *changed == name);
        self.head.headers.iter().map(move |(name, first)| {
            let value = value(name).map_or(first, |(_, value)| value);
            (*name, value.as_str())
        })
    }
}
