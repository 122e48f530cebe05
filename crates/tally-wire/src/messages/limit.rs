//! Messages of rate limits.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::override_pattern::OverridePattern;
use crate::names::policy::PolicyName;
use crate::names::{Address, LimiterAddress};
use crate::rights::Gift;
use tally_core::cluster::spread::LimiterCounts;
use tally_core::counter::id::CounterId;
use tally_core::counter::ledger::WriteKey;
use tally_core::limit::handover::Handover;
use tally_core::limit::lease;
use tally_core::limit::meter::Verdict;
use tally_core::limit::named::{CallAnswer, CallFault, CallWork, Holders, NamedCall, OpenHolds};
use tally_core::limit::owner::Owner;
use tally_core::limit::policy::overrides::{Override, PatternFilter};
use tally_core::limit::policy::{Algorithm, Policy};
use tally_core::limit::table::ReservationId;

calls! {
    CheckKeys => CheckAnswer, "/limit-check", |it| Address::Limiter(&it.to);
    ForwardCheck => CheckAnswer, "/limit-sent-on", |it| it.check.to();
    GiveKey => Handover, "/limit-hand-over", |it| Address::Limiter(&it.to);
    Reserve => Reserved, "/limit-reserve", |it| Address::Limiter(&it.to);
    EndReservation => (), "/limit-end-reservation", |it| Address::Limiter(&it.to);
    LeaseReport => lease::LeaseAnswer, "/limit-lease", |it| Address::Limiter(&it.to);
    RecallLease => Option<lease::LeaseRequest>, "/limit-recall", |it| Address::Limiter(&it.to);
    ListHolders => Holders, "/limit-holders", |it| Address::Limiter(&it.to);
    PutPolicy => PolicyPut, "/policy-put", |_| Address::Directory(0);
    GetPolicy => Option<StoredPolicy>, "/policy-get", |_| Address::Directory(0);
    DeletePolicy => bool, "/policy-delete", |_| Address::Directory(0);
    ListPolicies => Vec<(PolicyName, Policy)>, "/policy-list", |_| Address::Directory(0);
    PutOverride => OverridePut, "/override-put", |_| Address::Directory(0);
    FindOverride => OverrideFound, "/override-find", |_| Address::Directory(0);
    DeleteOverride => bool, "/override-delete", |_| Address::Directory(0);
    ListOverrides => Option<OverridesListed>, "/override-list", |_| Address::Directory(0);
    ListAllOverrides => Vec<(PolicyName, Algorithm, OverridePattern, Override)>, "/override-list-all",
        |_| Address::Directory(0);
}

/// What is asked of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DemandKind {
    /// To be admitted.
    Consume,
    /// To be told the state, without consumption.
    Look,
    /// To have something given back.
    Refund,
    /// To have its use forgotten.
    Forget,
    /// To have a named call done, once.
    Call(NamedCall),
}

impl DemandKind {
    /// Whether it takes quota if it is admitted.
    pub fn takes(self) -> bool {
        let Self::Call(call) = self else {
            return self == Self::Consume;
        };
        matches!(call.work, CallWork::Check | CallWork::Hold { .. })
    }

    /// Whether it must be stored before its answer, whatever the policy.
    pub fn must_commit(self) -> bool {
        let Self::Call(call) = self else { return false };
        !matches!(call.work, CallWork::Check | CallWork::Refund)
    }
}

/// A request about a key, once or several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyDemand {
    /// The policy, by its index in the message.
    pub policy: u32,
    /// The key.
    pub key: CounterId,
    /// What it costs, 1 to the policy's capacity.
    pub cost: u64,
    /// What is asked.
    pub kind: DemandKind,
    /// How many callers asked the same at once.
    pub times: u32,
    /// Who sends the policy along: of several callers, the first.
    pub owner: Owner,
}

impl KeyDemand {
    /// A single request about a key, by the only policy of a message.
    pub fn of(key: &CounterId, cost: u64, kind: DemandKind) -> Self {
        Self {
            policy: 0,
            key: key.clone(),
            cost,
            kind,
            times: 1,
            owner: Owner::default(),
        }
    }
}

/// Edge → limiter: decides these, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckKeys {
    /// The limiter.
    pub to: LimiterAddress,
    /// The policies.
    pub policies: Vec<(PolicyName, Policy)>,
    /// What is asked.
    pub demands: Vec<KeyDemand>,
    /// Whether to wait for the global limiter where needed; otherwise those demands get [`DemandOutcome::Later`].
    pub waits: bool,
}

/// Limiter → limiter: forwards a check to the limiter that decides the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardCheck {
    /// What is asked.
    pub check: CheckKeys,
    /// The number of limiters, as the sender knows it.
    pub counts: LimiterCounts,
}

/// Limiter → the former limiter of a key, after the number of limiters was changed: stop deciding the key, and return
/// its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveKey {
    /// The former limiter.
    pub to: LimiterAddress,
    /// The policy's name.
    pub name: PolicyName,
    /// The policy.
    pub policy: Policy,
    /// The key.
    pub key: CounterId,
    /// The number of limiters, as the sender knows it.
    pub counts: LimiterCounts,
}

/// The answer to a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DemandOutcome {
    /// It is decided: so many were admitted, in order of arrival, the others were not.
    Known {
        /// How many of the [`KeyDemand::times`].
        admitted: u32,
        /// The verdict of the first that was admitted, if one was.
        first: Option<Verdict>,
        /// The verdict of those that were not.
        refused: Option<Verdict>,
    },
    /// The global limiter must be asked first: repeat it alone, and wait.
    Later,
    /// Nothing is given back or forgotten: the limiter has no room for the key, which shares a meter with others.
    Full,
    /// The global limiter cannot be reached.
    Unreachable,
    /// What became of a named call.
    Called(Result<CallAnswer, CallFault>),
    /// The state of a key with open holds.
    Looked(Verdict, OpenHolds),
}

impl DemandOutcome {
    /// The answer to a single demand.
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

    /// The verdict of the caller at this index among equal ones, from 0; `None` where it is not known.
    pub fn verdict_of(&self, ordinal: u32, cost: u64) -> Option<Verdict> {
        if let Self::Looked(verdict, _) = self {
            return Some(*verdict);
        }
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

/// The limiter's answer to a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAnswer {
    /// The answer to each demand, in their order.
    pub outcomes: Vec<DemandOutcome>,
    /// The number of remote calls that it took.
    pub remote_calls: u32,
}

/// Edge → limiter: admits all of these, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserve {
    /// The limiter.
    pub to: LimiterAddress,
    /// The name of the reservation, drawn at random; `None` where no other limiter takes part, so that it is never
    /// cancelled.
    pub id: Option<ReservationId>,
    /// The policies.
    pub policies: Vec<(PolicyName, Policy)>,
    /// What is asked, each once.
    pub demands: Vec<KeyDemand>,
}

/// The answer to a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// The verdict of each demand, in their order; where not all were admitted, the verdict of each by itself. `None`
    /// where it is not known.
    pub verdicts: Vec<Option<Verdict>>,
    /// Whether all were admitted, and are consumed.
    pub is_reserved: bool,
    /// The limiter of each key, if some keys belong to other limiters because the number of limiters is being changed.
    /// Nothing is consumed then.
    pub homes: Vec<u32>,
}

/// Edge → limiter: a reservation is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndReservation {
    /// The limiter.
    pub to: LimiterAddress,
    /// Which.
    pub id: ReservationId,
    /// Whether its consumption is given back.
    pub is_cancelled: bool,
}

/// Limiter of a datacenter → the global one, or edge → limiter of its datacenter: a borrower's report, and its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseReport {
    /// The limiter that lends.
    pub to: LimiterAddress,
    /// The policy's name.
    pub name: PolicyName,
    /// The policy.
    pub policy: Policy,
    /// The key.
    pub key: CounterId,
    /// The borrower's report and request.
    pub request: lease::LeaseRequest,
    /// The number of limiters as the sender knows it. Set where a limiter forwards the report to the one that lends the
    /// key.
    pub forwarded: Option<LimiterCounts>,
    /// Who sends the policy along.
    pub owner: Owner,
}

/// Global limiter → limiter of a datacenter: recalls a lease. The answer is the borrower's report; empty where the
/// lease has ended.
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
    /// Whether to return also what the borrower needs within a moment.
    pub takes_all: bool,
}

/// Edge → limiter: which keys of a policy hold most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListHolders {
    /// The limiter.
    pub to: LimiterAddress,
    /// The policy's name.
    pub name: PolicyName,
    /// How many keys at most.
    pub most: u32,
}

/// Edge → partition 0: stores a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutPolicy {
    /// Its name.
    pub name: PolicyName,
    /// The policy.
    pub policy: Policy,
    /// The name of this step of an import: it is done once.
    pub once: Option<WriteKey>,
    /// Whose part of the table a new policy fills.
    pub gift: Gift,
}

/// The answer to a stored policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyPut {
    /// It is new.
    Created,
    /// There was one before.
    Replaced,
    /// There are too many.
    Full,
    /// The caller's part of the table is full.
    PartFull,
}

/// Edge → partition 0: reads a policy, and what has changed of its overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPolicy {
    /// Its name.
    pub name: PolicyName,
    /// The overrides that the edge knows; `None` where it knows none.
    pub known: Option<KnownOverrides>,
}

/// Which overrides of a policy an edge knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownOverrides {
    /// Their version: it rises with each change, also if the policy is made again.
    pub version: u64,
    /// Whether it knows a filter of them.
    pub has_filter: bool,
}

/// A policy with its overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// The policy.
    pub policy: Policy,
    /// Its overrides.
    pub overrides: OverrideNews,
}

/// The overrides of a policy, as far as an edge does not know them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverrideNews {
    /// There are none.
    None,
    /// The edge knows the newest.
    Unchanged,
    /// All of them: few.
    All(u64, Vec<(OverridePattern, Override)>),
    /// The patterns that have changed since those that the edge knows by a filter.
    Changed(u64, Vec<OverridePattern>),
    /// A filter of many. Those of a key are to be asked for.
    Many(u64, PatternFilter),
}

/// Edge → partition 0: finds the override of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindOverride {
    /// The policy.
    pub policy: PolicyName,
    /// The key.
    pub key: CounterId,
}

/// The override of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverrideFound {
    /// The version of the overrides in which it was looked for.
    pub version: u64,
    /// The override, if the key has one that has not ended.
    pub found: Option<(OverridePattern, Override)>,
}

/// Edge → partition 0: stores an override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutOverride {
    /// The policy.
    pub policy: PolicyName,
    /// Whose override it is.
    pub pattern: OverridePattern,
    /// The override.
    pub over: Override,
    /// Whose part of the table a new override fills.
    pub gift: Gift,
}

/// The answer to a stored override.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverridePut {
    /// It is new.
    Created,
    /// There was one before.
    Replaced,
    /// There is no such policy.
    NoPolicy,
    /// The policy has too many.
    Full,
    /// All policies together have too many.
    AllFull,
    /// The caller's part of the table is full.
    PartFull,
}

/// Edge → partition 0: deletes an override. The answer says whether there was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteOverride {
    /// The policy.
    pub policy: PolicyName,
    /// Whose override it is.
    pub pattern: OverridePattern,
}

/// Edge → partition 0: the overrides of a policy that have not ended: of keys, then of prefixes, each in the order of
/// their bytes. The answer is `None` where there is no such policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListOverrides {
    /// The policy.
    pub policy: PolicyName,
    /// Where the list begins.
    pub from: ListFrom,
    /// The most overrides.
    pub limit: u32,
}

/// Edge → partition 0: the overrides of all policies that have not ended, with the algorithms of the policies: in the
/// order of the policies' names, and of each as [`ListOverrides`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAllOverrides {
    /// The last of the page before.
    pub after: Option<(PolicyName, OverridePattern)>,
    /// The most overrides.
    pub limit: u32,
}

/// Where a list of overrides begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListFrom {
    /// At the first.
    Start,
    /// After this pattern.
    After(OverridePattern),
    /// It has this pattern alone.
    Only(OverridePattern),
}

/// Overrides of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverridesListed {
    /// The policy.
    pub policy: Policy,
    /// The overrides.
    pub overrides: Vec<(OverridePattern, Override)>,
}

/// Edge → partition 0: deletes a policy. The answer says whether there was one.
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
    /// The most policies.
    pub limit: u32,
}
