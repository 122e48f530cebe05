//! Messages of rate limits.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::spread::Counts;
use crate::core::counter::id::CounterId;
use crate::core::limit::lease;
use crate::core::limit::meter::Verdict;
use crate::core::limit::owner::Owner;
use crate::core::limit::policy::Policy;
use crate::core::limit::table::ReservationId;
use crate::protocol::limits::PolicyName;
use crate::protocol::names::{Address, LimiterAddress};

calls! {
    Check => Checked, "/limit-check", |it| Address::Limiter(&it.to);
    SentOn => Checked, "/limit-sent-on", |it| it.check.to();
    HandOver => Verdict, "/limit-hand-over", |it| Address::Limiter(&it.to);
    Reserve => Reserved, "/limit-reserve", |it| Address::Limiter(&it.to);
    EndReservation => (), "/limit-end-reservation", |it| Address::Limiter(&it.to);
    Lease => lease::Answer, "/limit-lease", |it| Address::Limiter(&it.to);
    RecallLease => Option<lease::Request>, "/limit-recall", |it| Address::Limiter(&it.to);
    PutPolicy => PolicyPut, "/policy-put", |_| Address::Directory(0);
    GetPolicy => Option<Policy>, "/policy-get", |_| Address::Directory(0);
    DeletePolicy => bool, "/policy-delete", |_| Address::Directory(0);
    ListPolicies => Vec<(PolicyName, Policy)>, "/policy-list", |_| Address::Directory(0);
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// To be admitted.
    Consume,
    /// To be told, and nothing else.
    Look,
    /// To have something given back.
    Refund,
    /// To forget what was used.
    Forget,
}

/// Something that is asked of a key, once or several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// The policy, by its place in the message.
    pub policy: u32,
    /// The key.
    pub key: CounterId,
    /// What it costs, 1 to the policy's capacity.
    pub cost: u64,
    /// What is asked.
    pub wish: Wish,
    /// How often: callers that asked the same at once.
    pub times: u32,
    /// Who sends the policy along; the first of several callers.
    pub owner: Owner,
}

impl Demand {
    /// What is asked of a key once, by the only policy of a message.
    pub fn of(key: &CounterId, cost: u64, wish: Wish) -> Self {
        Self {
            policy: 0,
            key: key.clone(),
            cost,
            wish,
            times: 1,
            owner: Owner::default(),
        }
    }
}

/// Edge → limiter: judge these, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The limiter.
    pub to: LimiterAddress,
    /// The policies.
    pub policies: Vec<(PolicyName, Policy)>,
    /// What is asked.
    pub demands: Vec<Demand>,
    /// Whether to wait for the world where that is needed; else those asks are [`Judged::Later`].
    pub waits: bool,
}

/// Limiter → limiter: judge this, which was sent to one that does not judge the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentOn {
    /// What is asked.
    pub check: Check,
    /// How many limiters there are, as the sender knows it.
    pub counts: Counts,
}

/// Limiter → the one that had a key before their number was changed: judge it no more, and tell how it stands. What is lent counts as used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOver {
    /// The one that had it.
    pub to: LimiterAddress,
    /// The policy's name.
    pub name: PolicyName,
    /// The policy.
    pub policy: Policy,
    /// The key.
    pub key: CounterId,
    /// How many limiters there are, as the sender knows it.
    pub counts: Counts,
}

/// What became of an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Judged {
    /// It is decided: so many were admitted, in order of arrival, the others were not.
    Known {
        /// How many of the [`Demand::times`].
        admitted: u32,
        /// The verdict of the first that was admitted, if one was.
        first: Option<Verdict>,
        /// The verdict of those that were not.
        refused: Option<Verdict>,
    },
    /// The world must be asked first: ask again, alone, and wait.
    Later,
    /// Nothing is given back or forgotten: the limiter has no room for the key, which shares a meter with others.
    Full,
    /// What the world holds cannot be reached.
    Unreachable,
}

impl Judged {
    /// What a single demand was answered with.
    pub fn of(verdict: Verdict) -> Self {
        if verdict.is_allowed {
            Self::Known {
                admitted: 1,
                first: Some(verdict),
                refused: None,
            }
        } else {
            Self::Known {
                admitted: 0,
                first: None,
                refused: Some(verdict),
            }
        }
    }

    /// The verdict of the ask's so-manieth caller, from 0; `None` where nobody can tell.
    pub fn verdict_of(&self, ordinal: u32, cost: u64) -> Option<Verdict> {
        let Self::Known {
            admitted,
            first,
            refused,
        } = self
        else {
            return None;
        };
        if ordinal >= *admitted {
            return *refused;
        }
        let first = (*first)?;
        let before = u64::from(ordinal).saturating_mul(cost);
        Some(Verdict {
            remaining: first.remaining.saturating_sub(before),
            ..first
        })
    }
}

/// The limiter has judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// What became of each ask, in their order.
    pub judged: Vec<Judged>,
    /// Calls to elsewhere that it took.
    pub remote_calls: u32,
}

/// Edge → limiter: admit all of these, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// The limiter.
    pub to: LimiterAddress,
    /// Name of the reservation, drawn at random; `None` where nothing else decides, so that it cannot be cancelled.
    pub id: Option<ReservationId>,
    /// The policies.
    pub policies: Vec<(PolicyName, Policy)>,
    /// What is asked, each once.
    pub demands: Vec<Demand>,
}

/// What became of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// The verdict of each ask, in their order; where not all were admitted, as each stands by itself. `None` where nobody
    /// can tell.
    pub verdicts: Vec<Option<Verdict>>,
    /// Whether all were admitted, and are consumed.
    pub is_reserved: bool,
    /// Where some are judged by other limiters, since their number is being changed: the limiter of each. Nothing is consumed then.
    pub homes: Vec<u32>,
}

/// Edge → limiter: a reservation is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndReservation {
    /// The limiter.
    pub to: LimiterAddress,
    /// Which.
    pub id: ReservationId,
    /// Whether what it consumed is given back.
    pub is_cancelled: bool,
}

/// Limiter of a datacenter → that of the world, or edge → limiter of its datacenter: a borrower's report, and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The limiter that lends.
    pub to: LimiterAddress,
    /// The policy's name.
    pub name: PolicyName,
    /// The policy.
    pub policy: Policy,
    /// The key.
    pub key: CounterId,
    /// What the borrower says.
    pub request: lease::Request,
    /// Where a limiter sends it on that does not lend the key itself: how many there are, as it knows it.
    pub sent_on: Option<Counts>,
    /// Who sends the policy along.
    pub owner: Owner,
}

/// Limiter of the world → that of a datacenter: give back what a lease holds. What its borrower tells of it; nothing where it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallLease {
    /// The limiter that holds it.
    pub to: LimiterAddress,
    /// The policy's name.
    pub name: PolicyName,
    /// The key.
    pub key: CounterId,
    /// Which lease.
    pub lease: lease::LeaseId,
    /// Whether to give back what is needed there within a moment, too.
    pub takes_all: bool,
}

/// Edge → partition 0: this is the policy of that name from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutPolicy {
    /// Its name.
    pub name: PolicyName,
    /// The policy.
    pub policy: Policy,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyPut {
    /// It is new.
    Created,
    /// There was one before.
    Replaced,
    /// There are too many.
    Full,
}

/// Edge → partition 0: what is the policy of that name?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPolicy {
    /// Its name.
    pub name: PolicyName,
}

/// Edge → partition 0: forget it. Whether there was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletePolicy {
    /// Its name.
    pub name: PolicyName,
}

/// Edge → partition 0: the policies in order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPolicies {
    /// The last name of the page before.
    pub after: Option<PolicyName>,
    /// At most so many.
    pub limit: u32,
}
