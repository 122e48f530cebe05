//! The rights that calls need.

use super::caller::Caller;
use super::grant::Permission;
use tally_core::counter::id::CounterId;
use tally_wire::names::limit_right;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::Problem;
use tally_wire::rights::Scope;

/// What a caller must have the right to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right<'a> {
    /// Nothing is needed: everybody may.
    Everybody,
    /// This scope on what the query or the body names; the code that reads those checks it.
    Named(Scope),
    /// This scope on any counter at all. It is checked before a body that names counters is read. A public entry needs
    /// these permissions too.
    Somewhere(Scope, &'a [Permission]),
    /// This scope on the counter of that id, or on all whose ids begin with that text.
    Counter(Scope, &'a str),
    /// As [`Right::Counter`], for an image, which browsers request without an `Origin`.
    Image(Scope, &'a str),
    /// To write to a counter in a way that needs this permission where no key is sent.
    Write(&'a str, Permission),
    /// This scope on a policy, or on a key of it.
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
    /// Succeeds if the caller has the right, as far as that is known before the query and the body are read.
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
