//! Who caused a write: a visitor, identified by address and user agent, or perhaps a bot.
//!
//! Invariant: a body has both an address and a user agent, or neither. So a server that writes for its visitors is
//! never taken for a visitor itself.

use std::borrow::Cow;
use std::fmt;

use crate::json::Text;
use tally_logs::bots::is_bot;
use tally_wire::problem::{Code, Problem};
use tally_wire::visitor::ClientAddress;

/// The `unique` that stands for the visitor.
pub const AUTO: &str = "auto";

/// Who caused the write, as the body says; what is missing is taken from the request. Its `Debug` shows neither address
/// nor user agent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Actor<'a> {
    /// Whether the element is the visitor.
    pub is_auto: bool,
    /// Whether a bot's write is left out.
    ignores_bots: bool,
    /// The visitor's address.
    pub address: Option<ClientAddress>,
    /// The visitor's user agent.
    pub user_agent: Option<Cow<'a, str>>,
}

impl fmt::Debug for Actor<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("By")
            .field("is_auto", &self.is_auto)
            .field("ignores_bots", &self.ignores_bots)
            .finish_non_exhaustive()
    }
}

impl<'a> Actor<'a> {
    /// Returns what these fields say.
    ///
    /// # Errors
    /// `invalid-body` for `bots` that is neither `ignore` nor `count`, for an `ip` that is no address, for `ip` without
    /// `user_agent` or without `auto`, and for a `user_agent` that nothing needs.
    pub(super) fn read(
        unique: Option<&Text<'a>>,
        bots: Option<Text<'a>>,
        ip: Option<Text<'a>>,
        user_agent: Option<Text<'a>>,
    ) -> Result<Self, Problem> {
        let is_auto = unique.is_some_and(|unique| unique.0 == AUTO);
        let ignores_bots = match bots.as_ref().map(|bots| &*bots.0) {
            None => is_auto,
            Some("ignore") => true,
            Some("count") => false,
            Some(_) => return Err(unfit("`bots` is `ignore` or `count`")),
        };
        if ip.is_some() && !is_auto {
            return Err(unfit("`ip` goes with `\"unique\":\"auto\"`"));
        }
        if user_agent.is_some() && !is_auto && !ignores_bots {
            return Err(unfit(
                "`user_agent` goes with `\"unique\":\"auto\"` or `\"bots\":\"ignore\"`",
            ));
        }
        if is_auto && ip.is_some() != user_agent.is_some() {
            return Err(unfit(
                "give the visitor's `ip` and `user_agent`, both or neither",
            ));
        }
        let address = match ip {
            None => None,
            Some(ip) => match ClientAddress::parse(&ip.0) {
                Some(address) => Some(address),
                None => return Err(unfit("`ip` is an IPv4 or IPv6 address")),
            },
        };
        Ok(Self {
            is_auto,
            ignores_bots,
            address,
            user_agent: user_agent.map(|text| text.0),
        })
    }

    /// The actor of a write that names only an element, and whose request is the visitor's own.
    pub fn of_unique(unique: Option<&str>) -> Self {
        let is_auto = unique == Some(AUTO);
        Self {
            is_auto,
            ignores_bots: is_auto,
            ..Self::default()
        }
    }

    /// The actor of one line of many. The request of a batch comes from a server and says nothing of visitors.
    ///
    /// # Errors
    /// `invalid-body` where the line would need what only the visitor's own request contains.
    pub fn of_line(self) -> Result<Self, Problem> {
        if self.is_auto && self.address.is_none() {
            return Err(unfit(
                "`\"unique\":\"auto\"` in a batch needs the visitor's `ip` and `user_agent` in the line: the request is not the visitor's",
            ));
        }
        if self.ignores_bots && self.user_agent.is_none() {
            return Err(unfit(
                "`\"bots\":\"ignore\"` in a batch needs the visitor's `user_agent` in the line",
            ));
        }
        Ok(self)
    }

    /// Returns whether it is empty, so that a plain write needs no further checks.
    pub fn is_plain(&self) -> bool {
        !self.is_auto && !self.ignores_bots
    }

    /// Whether the write is to be left out; `header` gives the request's user agent.
    pub fn is_ignored(&self, header: impl FnOnce() -> Option<String>) -> bool {
        self.ignores_bots
            && match &self.user_agent {
                Some(own) => is_bot(own),
                None => is_bot(&header().unwrap_or_default()),
            }
    }

    /// The same, without borrowing.
    pub(super) fn into_owned(self) -> Actor<'static> {
        Actor {
            is_auto: self.is_auto,
            ignores_bots: self.ignores_bots,
            address: self.address,
            user_agent: self.user_agent.map(|text| Cow::Owned(text.into_owned())),
        }
    }
}

fn unfit(why: &str) -> Problem {
    Problem::new(Code::InvalidBody, why)
}
