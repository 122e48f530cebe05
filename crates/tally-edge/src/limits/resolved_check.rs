//! A check of a limit with its policy and its limiter.

use std::rc::Rc;

use super::policies::{KeyOverride, override_of, policy_of};
use crate::kit::request_context::RequestContext;
use tally_api::limits::batch::CheckBatch;
use tally_api::limits::{CheckRequest, CheckResult, OverriddenBy, check_cost};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::limit::meter::Verdict;
use tally_core::limit::owner::Owner;
use tally_core::limit::policy::overrides::OverrideEffect;
use tally_core::limit::policy::{LIMIT_MAX, Policy, Scope};
use tally_core::limit::table::Check;
use tally_shared::call;
use tally_wire::messages::{DemandKind, KeyDemand};
use tally_wire::names::LimiterAddress;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::Problem;

/// A check and its target.
#[derive(Clone)]
pub struct ResolvedCheck {
    /// The policy's name, as the client sent it.
    pub client_name: PolicyName,
    /// The name under which it is counted: another one if the check brings its policy.
    pub name: PolicyName,
    /// The policy of the key.
    pub policy: Rc<Policy>,
    /// The override that made it, if the key has one.
    pub over: Option<Rc<KeyOverride>>,
    /// The key.
    pub key: CounterId,
    /// What it costs.
    pub cost: u64,
    /// Who sends the policy along.
    pub owner: Owner,
    /// The limiter.
    pub to: LimiterAddress,
}

impl ResolvedCheck {
    /// A check, by the policy that it brings or by the one of that name. It is asked for after
    /// [`RequestContext::caller`].
    ///
    /// # Errors
    /// `policy-not-found`, `cost-exceeds-limit`, `unavailable`.
    pub async fn new(
        context: &RequestContext,
        here: &Datacenter,
        client_name: PolicyName,
        key: CounterId,
        request: CheckRequest,
    ) -> Result<Self, Problem> {
        let (policy, over, name, owner) = match request.policy {
            Some(policy) => {
                let name = client_name.counted_inline(&policy, !context.is_public());
                (Rc::new(policy), None, name, context.owner())
            }
            None => {
                let cached = policy_of(context, &client_name).await?;
                let over = override_of(context, &client_name, &cached, &key).await?;
                let policy = match &over {
                    Some(known) => Rc::new(known.over.apply(&cached.policy)),
                    None => cached.policy.clone(),
                };
                (policy, over, client_name.clone(), Owner::default())
            }
        };
        let resolved = Self {
            to: call::limiter_of(&context.host, Some(here), &name, &key),
            client_name,
            name,
            policy,
            over,
            key,
            cost: request.cost,
            owner,
        };
        resolved.check_cost(resolved.cost)?;
        Ok(resolved)
    }

    /// Refuses a cost that no limiter would admit, unless a shadow policy only watches or an override decides.
    ///
    /// # Errors
    /// As [`check_cost`].
    pub fn check_cost(&self, cost: u64) -> Result<(), Problem> {
        let is_settled = self
            .over
            .as_ref()
            .is_some_and(|known| !matches!(known.over.effect, OverrideEffect::Limited { .. }));
        match self.policy.is_shadow || is_settled {
            true => Ok(()),
            false => check_cost(&self.client_name, &self.policy, cost),
        }
    }

    /// The message of this check alone.
    pub fn batch(&self, kind: DemandKind) -> CheckBatch {
        CheckBatch::of(&self.name, &self.policy, self.demand(kind))
    }

    /// Its demand.
    pub fn demand(&self, kind: DemandKind) -> KeyDemand {
        KeyDemand {
            owner: self.owner,
            ..KeyDemand::of(&self.key, self.cost, kind)
        }
    }

    /// The check in the form of limits.
    pub fn check(&self) -> Check<'_> {
        Check {
            name: self.name.as_str(),
            policy: &self.policy,
            key: self.key.as_str(),
            cost: self.cost,
            owner: self.owner,
        }
    }

    /// Whether another check is of the same key.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.name == other.name && self.key == other.key
    }

    /// Its result.
    pub fn result<'a>(&'a self, here: &'a Datacenter, verdict: Option<Verdict>) -> CheckResult<'a> {
        CheckResult {
            name: &self.client_name,
            key: &self.key,
            policy: &self.policy,
            over: self.over.as_ref().map(|known| OverriddenBy {
                pattern: &known.pattern,
                effect: known.over.effect,
            }),
            datacenter: here,
            verdict,
        }
    }

    /// The verdict that no limiter decides, because an override admits or refuses everything. A key that is blocked
    /// without an end may be tried again after the policy's window.
    pub fn settled_verdict(&self, now_ms: i64) -> Option<Verdict> {
        let over = &self.over.as_ref()?.over;
        let (is_allowed, left, wait_ms) = match over.effect {
            OverrideEffect::Limited { .. } => return None,
            OverrideEffect::Unlimited => (true, LIMIT_MAX, 0),
            OverrideEffect::Blocked => {
                let ends_ms = over.ends_ms.map(|ends_ms| ends_ms.saturating_sub(now_ms));
                (false, 0, ends_ms.unwrap_or(self.policy.window_ms).max(1))
            }
        };
        let wait_ms = u64::try_from(wait_ms).unwrap_or(0);
        Some(Verdict {
            is_allowed,
            limit: left,
            remaining: left,
            reset_after_ms: wait_ms,
            retry_after_ms: wait_ms,
        })
    }

    /// Whether an override admits everything.
    pub fn is_unlimited(&self) -> bool {
        let over = self.over.as_ref();
        over.is_some_and(|known| known.over.effect == OverrideEffect::Unlimited)
    }

    /// Whether the global limiter decides.
    pub fn is_global(&self) -> bool {
        self.policy.scope == Scope::Global
    }
}
