//! The decision whether a call is allowed: a function of the caller, the route, and what the query or the body names.
//!
//! Invariant: a call whose right is [`Right::Named`] is decided in two steps, before and after its query and body are
//! read. Each handler of such a call asks [`Caller::may_name`].

use super::route::{Route, RouteName};
use crate::access::{Caller, Right};
use tally_wire::alerts::Watched;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{ApiKey, PrefixKind, Scope};

/// What the query or the body of a call names.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The counters and boards whose ids begin with this, for this scope.
    Prefix(Scope, &'a str),
    /// Limits, by their name for access, for this scope: see [`limit_right`](tally_wire::names::limit_right).
    Limits(Scope, &'a str),
    /// An alert, by what it watches.
    Alert(&'a Watched),
    /// A share of a prefix.
    Share(&'a str),
    /// A key that a call makes.
    Key(&'a ApiKey),
}

/// Whether a call reads counters: their values, histories, tops, breakdowns, samples and unique elements.
const fn is_of_counters(name: RouteName) -> bool {
    matches!(
        name,
        RouteName::Read
            | RouteName::History
            | RouteName::PrefixHistory
            | RouteName::Breakdown
            | RouteName::PrefixBreakdown
            | RouteName::Distribution
            | RouteName::Aggregate
            | RouteName::List
            | RouteName::Top
            | RouteName::Uniques
            | RouteName::Badge
            | RouteName::Live
    )
}

/// The refusal of a call that shares do not allow.
pub fn not_shared() -> Problem {
    let detail = "a share only reads counters of its prefix; send a key";
    Problem::new(Code::Forbidden, detail)
}

impl Caller {
    /// Succeeds if the caller may make the call, as far as that is known before the query and the body are read.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_begin(&self, route: &Route) -> Result<(), Problem> {
        self.has(&route.right())?;
        let is_open = matches!(route.right(), Right::Everybody);
        if self.is_share() && !is_open && !is_of_counters(route.name()) {
            return Err(not_shared());
        }
        Ok(())
    }

    /// Succeeds if the caller may do what a call does to what its query or body names.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_name(&self, subject: &Subject<'_>) -> Result<(), Problem> {
        match *subject {
            Subject::Prefix(scope, prefix) => self.may(scope, prefix),
            Subject::Limits(scope, right) => self.may_limit(scope, right),
            Subject::Alert(watched) => self.may_watch(watched),
            Subject::Share(prefix) => self.may(Scope::Admin, prefix),
            Subject::Key(key) => self.may_reach(key),
        }
    }

    /// Succeeds if the caller administers everything that a key may do.
    fn may_reach(&self, key: &ApiKey) -> Result<(), Problem> {
        // A key that the keys above it have left no prefix may get one back.
        if key.prefixes.is_empty() {
            return self.may(Scope::Admin, "");
        }
        for prefix in &key.prefixes {
            match PrefixKind::of(prefix) {
                PrefixKind::Counters => self.may(Scope::Admin, prefix)?,
                PrefixKind::Limits => self.may_limit(Scope::Admin, prefix)?,
            }
        }
        Ok(())
    }

    /// Succeeds if the caller may give a key away: it administers what the key may do, and the key has no later end and
    /// no larger budget than the caller.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn may_give(&self, key: &ApiKey) -> Result<(), Problem> {
        self.may_name(&Subject::Key(key))?;
        let Some(holder) = self.holder() else {
            return Ok(());
        };
        let refuse = |detail: String| Err(Problem::new(Code::Forbidden, detail));
        if let Some(end_ms) = holder.expires_ms
            && key.expires_ms.is_none_or(|own_ms| own_ms > end_ms)
        {
            return refuse(format!(
                "your own key ends at {}: send expires_at of that unix second or before",
                end_ms.div_euclid(1_000)
            ));
        }
        let rates = self.budgets().map(|budget| budget.rate_per_minute);
        if let Some(rate_max) = rates.min()
            && key.rate_per_minute.is_none_or(|rate| rate > rate_max)
        {
            return refuse(format!(
                "your own key has a budget: send rate_per_minute of at most {rate_max}"
            ));
        }
        Ok(())
    }
}
