//! Requests of clients as they arrive, and responses as they leave.

use std::borrow::Cow;
use std::future::Future;
use std::rc::Rc;

use super::{Later, Stream};

/// Headers of one response, in order.
pub type HeaderList = Vec<(&'static str, String)>;

const LENGTH: &str = "content-length";

/// Headers that are passed along with a request that may have a body, in this order.
pub const OF_WRITES: [&str; 7] = [
    LENGTH,
    "authorization",
    "origin",
    "sec-fetch-site",
    "idempotency-key",
    "if-match",
    "if-none-match",
];

/// Those of [`OF_WRITES`] that calls about rate limits read.
pub const OF_LIMITS: [&str; 4] = [LENGTH, "authorization", "origin", "sec-fetch-site"];

/// The text that the URL of such a call contains. Other URLs may contain it too; their calls then ask for each missing
/// header.
pub const LIMITS: &str = "/limits/";

/// Headers that are passed along with a request without a body.
pub const OF_READS: [&str; 5] = [
    "authorization",
    "origin",
    "sec-fetch-site",
    "if-none-match",
    "accept",
];

/// The headers that are passed along with a request of this method and URL. Other headers are asked for one by one.
pub fn headers_taken_along(method: &str, url: &str) -> &'static [&'static str] {
    match method {
        "GET" | "HEAD" => &OF_READS,
        _ if url.contains(LIMITS) => &OF_LIMITS,
        _ => &OF_WRITES,
    }
}

/// A client's request, in the platform's form.
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

    /// The colo where the request entered, if the platform says it.
    fn colo(&self) -> Option<String>;

    /// The country of the client, two capital letters, if the platform says it.
    fn country(&self) -> Option<String>;

    /// The client's address according to the platform's connection, if the platform says it.
    fn client_address(&self) -> Option<String>;

    /// Whether there is a body, read or not. `GET` and `HEAD` have none here.
    fn has_body(&self) -> bool;

    /// Reads the whole body.
    fn whole(&self) -> Later<Result<Vec<u8>, String>>;

    /// The body in pieces of so many bytes, except the last. `None` if there is no body, or it was taken already.
    fn pieces(&self, bytes: u32) -> Option<Box<dyn Pieces>>;
}

/// A body that is read piece by piece.
pub trait Pieces {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> Later<Result<Option<Vec<u8>>, String>>;
}

/// The part of a platform that lets work continue after a request was answered.
pub trait Background {
    /// Lets the work continue, even if the client is gone.
    fn wait_until(&self, work: Later<()>);
}

/// The request's own part of its platform. A copy costs a reference count.
#[derive(Clone)]
pub struct Context(Rc<dyn Background>);

impl Context {
    /// The context of a request on this platform.
    pub fn new(platform: Rc<dyn Background>) -> Self {
        Self(platform)
    }

    /// Lets work continue after the answer, even if the client is gone.
    pub fn wait_until(&self, work: impl Future<Output = ()> + 'static) {
        self.0.wait_until(Box::pin(work));
    }
}

/// The body of a response.
pub enum Body {
    /// Nothing.
    Empty,
    /// Text.
    Text(Rc<str>),
    /// Bytes.
    Bytes(Cow<'static, [u8]>),
    /// Bytes that are produced while they are sent. If a piece cannot be produced, the body is aborted.
    Pieces(Box<dyn Pieces>),
    /// A stream from an object, with the headers of this response.
    Stream(Stream),
    /// A socket from an object. The answer is the object's own.
    Socket(Stream),
}

/// Status and headers that many responses share. The platform may keep what it has made of them.
pub struct StaticHead {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderList,
}

/// A response. No header value has several lines.
pub struct Response {
    /// Its status and headers.
    pub head: Rc<StaticHead>,
    /// Headers whose value differs from that in the head.
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
