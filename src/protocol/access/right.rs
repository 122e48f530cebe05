//! What a call needs of its caller.

use super::caller::Caller;
use super::grant::{Permission, Scope};
use crate::core::counter::id::CounterId;
use crate::protocol::limits::PolicyName;
use crate::protocol::names::limit_right;
use crate::protocol::problem::Problem;

/// What a caller must have the right to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right<'a> {
    /// Nothing: everybody may.
    Everybody,
    /// This with what the query or the body names: whoever reads that asks for it.
    Named(Scope),
    /// This with any counter at all, before a body that names some is read; of a public entry these permissions too.
    Somewhere(Scope, &'a [Permission]),
    /// This with the counter of that id, or with all whose ids begin with that text.
    Counter(Scope, &'a str),
    /// As [`Right::Counter`], for an image, which is asked for without an `Origin`.
    Image(Scope, &'a str),
    /// To write to a counter in a way that needs this permission where no key is sent.
    Write(&'a str, Permission),
    /// This with a policy, or with a key of it.
    Limit(Scope, &'a PolicyName, Option<&'a CounterId>),
}

impl Right<'_> {
    /// The scope that it needs; `None` where everybody may.
    pub const fn scope(&self) -> Option<Scope> {
        match self {
            Self::Everybody => None,
            Self::Write(..) => Some(Scope::Write),
            Self::Named(scope)
            | Self::Somewhere(scope, _)
            | Self::Counter(scope, _)
            | Self::Image(scope, _)
            | Self::Limit(scope, ..) => Some(*scope),
        }
    }
}

impl Caller {
    /// Nothing, if the caller has a right, as far as that can be said before the query and the body are read.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn has(&self, right: &Right<'_>) -> Result<(), Problem> {
        match *right {
            Right::Everybody | Right::Named(_) => Ok(()),
            Right::Somewhere(scope, needs) => self.may_somewhere(scope, needs),
            Right::Counter(scope, target) | Right::Image(scope, target) => self.may(scope, target),
            Right::Write(id, need) => self.may_write(id, 0, &[need]),
            Right::Limit(scope, policy, key) => self.may_limit(scope, &limit_right(policy, key)),
        }
    }
}
