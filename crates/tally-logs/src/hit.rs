//! What a line of a log says of one request.

use std::borrow::Cow;

use crate::{address, target};

/// Why a line cannot be read.
#[derive(Debug)]
pub enum Unread {
    /// A sentence that says what is missing.
    Why(&'static str),
    /// The target is not UTF-8.
    NotUtf8,
    /// There is no text.
    Empty,
    /// The line is JSON, but no object.
    NoObject,
    /// The line is no such JSON.
    Json(serde_json::Error),
}

impl Unread {
    /// Returns the sentence that says why.
    pub fn why(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Why(why) => why,
            Self::NotUtf8 => "the request target is not UTF-8",
            Self::Empty => "the line is empty",
            Self::NoObject => "the line is JSON, but no object",
            Self::Json(error) => return Cow::Owned(format!("the line is no such JSON: {error}")),
        })
    }
}

/// Why a request whose target is `*`, the host and port of CONNECT, or what no client of HTTP sends, has no path.
/// Source: RFC 9112, section 3.2.
const NO_PAGE: &str = "the request asks for no page: its target has no path";

/// A request, as a line describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit<'a> {
    /// The target with its query, not decoded; or why the line holds none: a client that connects and sends no request
    /// is logged with its status.
    pub target: Result<Cow<'a, str>, &'static str>,
    /// The path, where it is a separate field. Without a target, it is the name of an event.
    pub path: Option<Cow<'a, str>>,
    /// When the request came, unix milliseconds.
    pub at_ms: i64,
    /// Who sent it, in one spelling: an address, or a session.
    pub visitor: Option<Cow<'a, str>>,
    /// The method; empty where the line does not say it, as are the other texts.
    pub method: Cow<'a, str>,
    /// The status.
    pub status: Cow<'a, str>,
    /// The address of the page before.
    pub referrer: Cow<'a, str>,
    /// The user agent; `None` where the log does not have it.
    pub user_agent: Option<Cow<'a, str>>,
    /// The client's country.
    pub country: Cow<'a, str>,
}

impl<'a> Hit<'a> {
    /// Returns a request at this time, of which nothing else is known.
    pub fn at(at_ms: i64, target: Result<Cow<'a, str>, &'static str>) -> Self {
        Self {
            target: target.and_then(|target| match target::split(&target).0.starts_with('/') {
                true => Ok(target),
                false => Err(NO_PAGE),
            }),
            path: None,
            at_ms,
            visitor: None,
            method: Cow::Borrowed(""),
            status: Cow::Borrowed(""),
            referrer: Cow::Borrowed(""),
            user_agent: None,
            country: Cow::Borrowed(""),
        }
    }

    /// Returns the path, borrowed where the line's own text has it; empty without a request.
    pub fn path(&self) -> Cow<'a, str> {
        match (&self.path, &self.target) {
            (Some(Cow::Borrowed(path)), Ok(_)) => Cow::Borrowed(target::origin_form(path)),
            (None, Ok(Cow::Borrowed(target))) => Cow::Borrowed(target::split(target).0),
            _ => Cow::Owned(
                self.page()
                    .map_or_else(String::new, |(path, _)| path.to_owned()),
            ),
        }
    }

    /// Returns the path, and the query with its mark; `None` without a request. The name of an event has no query.
    pub fn page(&self) -> Option<(&str, &str)> {
        match (&self.target, &self.path) {
            (Ok(target), None) => Some(target::split(target)),
            (Ok(target), Some(path)) => Some((target::origin_form(path), target::split(target).1)),
            (Err(_), name) => name.as_deref().map(|name| (name, "")),
        }
    }
}

/// Reads a line as text. Clients send bytes that are no UTF-8 in any field: a mark stands for each. Only a target must
/// have none, because two targets would be one.
pub(crate) fn marked<'a>(
    line: &'a [u8],
    read: impl FnOnce(&str) -> Result<Option<Hit<'_>>, Unread>,
) -> Result<Option<Hit<'a>>, Unread> {
    let Ok(text) = std::str::from_utf8(line) else {
        let hit = read(&String::from_utf8_lossy(line))?.map(Hit::into_owned);
        let target = hit
            .as_ref()
            .and_then(|hit| hit.target.as_ref().ok().or(hit.path.as_ref()));
        return match target.is_some_and(|target| target.contains(char::REPLACEMENT_CHARACTER)) {
            true => Err(Unread::NotUtf8),
            false => Ok(hit),
        };
    };
    read(text)
}

/// Returns who sent a request from this address: its one spelling. A text that is no address is no visitor.
pub fn visitor(text: &str) -> Option<Cow<'static, str>> {
    address::parse(text).map(|address| Cow::Owned(address.to_string()))
}

/// Returns a text that a line has; nothing for the dash that stands for no text.
pub(crate) fn said<'a>(text: Cow<'a, str>) -> Cow<'a, str> {
    match &*text {
        "-" => Cow::Borrowed(""),
        _ => text,
    }
}

impl Hit<'_> {
    /// The same, without borrowing.
    pub(crate) fn into_owned(self) -> Hit<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Hit {
            target: self.target.map(owned),
            path: self.path.map(owned),
            at_ms: self.at_ms,
            visitor: self.visitor.map(owned),
            method: owned(self.method),
            status: owned(self.status),
            referrer: owned(self.referrer),
            user_agent: self.user_agent.map(owned),
            country: owned(self.country),
        }
    }
}
