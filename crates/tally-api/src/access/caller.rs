//! The caller of a request, and what its grants allow.

use std::sync::Arc;

use super::grant::{Grant, Permission, Target};
use super::holder::Holder;
use super::sender::Sender;
use tally_core::callers::account::AccountId;
use tally_core::callers::owner;
use tally_core::limit::owner::Owner;
use tally_wire::alerts::Watched;
use tally_wire::names::{LIMIT_RIGHTS, limit_right};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::{
    AdminRights, ApiKey, Gift, Giver, HeldShare, Inheritance, KeyBudget, KeyId, PrefixKind, Scope,
};

/// Who is asking. A value of this type exists only after [`Access::identify`](super::rules::Access::identify).
#[derive(Clone, Debug)]
pub struct Caller(pub(super) CallerKind);

#[derive(Clone, Debug)]
pub(super) enum CallerKind {
    Anyone,
    KeyHolder {
        grants: Vec<Arc<Grant>>,
        owner: Owner,
        sender: Sender,
        holder: Arc<Holder>,
    },
    Public {
        grants: Vec<Arc<Grant>>,
        origin: Option<String>,
    },
    Share {
        grant: Arc<Grant>,
        budgets: Vec<KeyBudget>,
    },
}

impl Caller {
    pub(super) const fn new(who: CallerKind) -> Self {
        Self(who)
    }

    /// A caller without a key and without any right.
    pub const fn nobody() -> Self {
        Self(CallerKind::Public {
            grants: Vec::new(),
            origin: None,
        })
    }

    /// The holder of a share. It may read counters whose ids begin with its prefix, and nothing else. Its scope and
    /// prefix also cover more than counters, so other calls check [`Self::is_share`].
    pub fn of_share(prefix: String) -> Self {
        let grant = Grant {
            scopes: vec![Scope::Read],
            prefix,
            public_writes: None,
        };
        Self(CallerKind::Share {
            grant: Arc::new(grant),
            budgets: Vec::new(),
        })
    }

    /// The holder of a share, which draws on the budgets of the keys above it.
    pub fn of_held_share(held: HeldShare) -> Self {
        let mut caller = Self::of_share(held.share.prefix);
        if let CallerKind::Share { budgets, .. } = &mut caller.0 {
            *budgets = held.inheritance.budgets;
        }
        caller
    }

    /// The holder of a key that was made by a call.
    pub fn of_key(id: KeyId, key: &ApiKey) -> Self {
        let grant = |prefix: &String| {
            Arc::new(Grant {
                scopes: key.scopes.clone(),
                prefix: prefix.clone(),
                public_writes: None,
            })
        };
        Self(CallerKind::KeyHolder {
            grants: key.prefixes.iter().map(grant).collect(),
            owner: owner::of_made_key(id.0),
            sender: Sender::of_made_key(id),
            holder: Arc::new(Holder::of_key(id, key)),
        })
    }

    /// Who holds the key that was sent, if one was.
    pub fn holder(&self) -> Option<&Holder> {
        match &self.0 {
            CallerKind::KeyHolder { holder, .. } => Some(holder),
            CallerKind::Anyone | CallerKind::Public { .. } | CallerKind::Share { .. } => None,
        }
    }

    /// Returns whether the caller has shown a key or a share.
    pub fn has_key(&self) -> bool {
        matches!(
            self.0,
            CallerKind::KeyHolder { .. } | CallerKind::Share { .. }
        )
    }

    /// Returns whether the caller is the holder of a share.
    pub fn is_share(&self) -> bool {
        matches!(self.0, CallerKind::Share { .. })
    }

    /// Returns whether the caller is bounded by the budgets of its address. That is so if it has no key, or a share,
    /// which anybody may have.
    pub fn is_visitor(&self) -> bool {
        self.is_public() || self.is_share()
    }

    /// The party under which limits account for this caller's keys.
    pub fn owner(&self) -> Owner {
        match &self.0 {
            CallerKind::KeyHolder { owner, .. } => *owner,
            CallerKind::Anyone | CallerKind::Public { .. } | CallerKind::Share { .. } => {
                Owner::default()
            }
        }
    }

    /// The sender of this caller's idempotency keys.
    pub fn sender(&self) -> Sender {
        match &self.0 {
            CallerKind::Anyone => Sender::ANYONE,
            CallerKind::KeyHolder { sender, .. } => *sender,
            CallerKind::Public { .. } => Sender::PUBLIC,
            CallerKind::Share { .. } => Sender::SHARE,
        }
    }

    fn grants(&self) -> &[Arc<Grant>] {
        match &self.0 {
            CallerKind::Anyone => &[],
            CallerKind::KeyHolder { grants, .. } | CallerKind::Public { grants, .. } => grants,
            CallerKind::Share { grant, .. } => std::slice::from_ref(grant),
        }
    }

    /// Returns whether the caller may do this to any counter at all. If not, the body need not be read.
    ///
    /// # Errors
    /// `unauthorized` without a key, `forbidden` with one.
    pub fn may_somewhere(&self, scope: Scope, needs: &[Permission]) -> Result<(), Problem> {
        let allows = |grant: &Arc<Grant>| {
            let writes = grant.public_writes.as_ref();
            writes.is_none_or(|writes| writes.allows(needs))
        };
        let mut granted = self.grants().iter().filter(|grant| grant.has(scope));
        if matches!(self.0, CallerKind::Anyone) || granted.clone().any(allows) {
            return Ok(());
        }
        let scope = scope.as_str();
        Err(match (&self.0, granted.next()) {
            (CallerKind::Public { .. }, Some(_)) => not_allowed(needs, "any counter"),
            (CallerKind::Public { .. }, None) => {
                unauthorized(format!("send a key with scope `{scope}`"))
            }
            _ => {
                let why = self.narrowing();
                Problem::new(
                    Code::Forbidden,
                    format!("this key has no scope `{scope}`{why}"),
                )
            }
        })
    }

    /// Succeeds if the caller may do this to the counter of that id, or to all ids that begin with that text. That is
    /// so if some grant has the scope, and the target begins with its prefix. For the amounts of writes see
    /// [`Caller::may_write`].
    ///
    /// # Errors
    /// `forbidden` for holders of a key, `unauthorized` for callers without.
    pub fn may(&self, scope: Scope, target: &str) -> Result<(), Problem> {
        self.may_on(scope, Target::Counters(target))
    }

    /// Succeeds if the caller may do this to limits: as [`Caller::may`], but only a prefix that begins with `limits/`
    /// covers them.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_limit(&self, scope: Scope, right: &str) -> Result<(), Problem> {
        self.may_on(scope, Target::Limits(right))
    }

    /// Succeeds if the caller may do anything with an alert that watches this: it administers that.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_watch(&self, watched: &Watched) -> Result<(), Problem> {
        match watched {
            Watched::Counter(counter) => self.may(Scope::Admin, counter.as_str()),
            Watched::Prefix(prefix) => self.may(Scope::Admin, prefix),
            Watched::Policy(policy) => self.may_limit(Scope::Admin, &limit_right(policy, None)),
        }
    }

    /// Returns what the caller administers: [`Self::may_watch`] as a value.
    pub fn admin_rights(&self) -> AdminRights {
        if matches!(self.0, CallerKind::Anyone) {
            return AdminRights {
                counters: vec![String::new()],
                limits: vec![LIMIT_RIGHTS.to_owned()],
            };
        }
        let prefixes = |kind| self.prefixes(Scope::Admin, kind);
        AdminRights {
            counters: prefixes(PrefixKind::Counters),
            limits: prefixes(PrefixKind::Limits),
        }
    }

    /// The end of a refusal: whether a key above the caller's takes rights from it.
    fn narrowing(&self) -> &'static str {
        match self.holder() {
            Some(holder) if holder.inheritance.is_narrowed => {
                ": a key above it has fewer rights than this key was given, and bounds it"
            }
            _ => "",
        }
    }

    fn may_on(&self, scope: Scope, target: Target<'_>) -> Result<(), Problem> {
        let mut grants = self.grants().iter();
        if matches!(self.0, CallerKind::Anyone) || grants.any(|grant| grant.covers(scope, target)) {
            return Ok(());
        }
        let (scope, text) = (scope.as_str(), target.shown());
        let entry = match target {
            Target::Counters(_) => String::new(),
            Target::Limits(_) => {
                format!(", on a prefix that begins with `{LIMIT_RIGHTS}`")
            }
        };
        let whom = if text.is_empty() {
            "all names".to_owned()
        } else {
            format!("`{text}`{entry}")
        };
        Err(match &self.0 {
            CallerKind::Public {
                origin: Some(origin),
                ..
            } => unauthorized(format!(
                "send a key with scope `{scope}` for {whom}; pages of {origin} may not do this without one: \
                 no public entry of TALLY_KEYS with that origin and scope has a prefix that `{text}` begins with"
            )),
            CallerKind::Public { origin: None, .. } => {
                unauthorized(format!("send a key with scope `{scope}` for {whom}"))
            }
            CallerKind::KeyHolder { .. } | CallerKind::Share { .. } | CallerKind::Anyone => {
                Problem::new(
                    Code::Forbidden,
                    format!(
                        "this key has no scope `{scope}` for {whom}{}",
                        self.narrowing()
                    ),
                )
            }
        })
    }

    /// Succeeds if the caller may add this much to a counter. `needs` are the permissions that a caller without a key
    /// needs for it; one public entry must cover all of them.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_write(&self, id: &str, delta: u128, needs: &[Permission]) -> Result<(), Problem> {
        self.may_write_on(Target::Counters(id), delta, needs)
    }

    /// Succeeds if the caller may consume this much of a limit: as [`Caller::may_write`].
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_check(&self, right: &str, cost: u64, needs: &[Permission]) -> Result<(), Problem> {
        self.may_write_on(Target::Limits(right), u128::from(cost), needs)
    }

    fn may_write_on(
        &self,
        target: Target<'_>,
        delta: u128,
        needs: &[Permission],
    ) -> Result<(), Problem> {
        self.may_on(Scope::Write, target)?;
        let CallerKind::Public { grants, .. } = &self.0 else {
            return Ok(());
        };
        let covering = grants
            .iter()
            .filter(|grant| grant.covers(Scope::Write, target));
        let writes = covering.filter_map(|grant| grant.public_writes.as_ref());
        let allowing = writes.filter(|writes| writes.allows(needs));
        match allowing.map(|writes| writes.delta_max).max() {
            Some(delta_max) if delta <= u128::from(delta_max) => Ok(()),
            Some(delta_max) => Err(unauthorized(format!(
                "without a key at most {delta_max} at once is allowed for `{}`: send less, or a key, \
                 or raise `delta_max` of its public entry in TALLY_KEYS",
                target.shown()
            ))),
            None => Err(not_allowed(needs, &format!("`{}`", target.shown()))),
        }
    }

    /// Returns whether the caller sent no key and has only the rights of public entries. Writes of such callers are
    /// limited; their answers are readable by anybody.
    pub fn is_public(&self) -> bool {
        matches!(self.0, CallerKind::Public { .. })
    }

    /// Returns whether an identical request of this caller may be answered from memory. It may if nothing is accounted
    /// for the caller.
    pub fn may_repeat(&self) -> bool {
        !self.is_visitor() && self.budgets().next().is_none()
    }

    /// Returns the budgets that a request of the caller uses: its own, then those of the keys above it.
    pub fn budgets(&self) -> impl Iterator<Item = &KeyBudget> {
        let (own, above) = match &self.0 {
            CallerKind::KeyHolder { holder, .. } => (
                holder.budget.as_ref(),
                holder.inheritance.budgets.as_slice(),
            ),
            CallerKind::Share { budgets, .. } => (None, budgets.as_slice()),
            CallerKind::Anyone | CallerKind::Public { .. } => (None, &[][..]),
        };
        own.into_iter().chain(above)
    }

    /// Returns the gift of the caller in a table of counters: what it gives ends with its key and fills its part.
    pub fn gift(&self) -> Gift {
        self.gift_in(self.may(Scope::Admin, ""))
    }

    /// Returns the gift of the caller in a table of limits.
    pub fn limit_gift(&self) -> Gift {
        self.gift_in(self.may_limit(Scope::Admin, LIMIT_RIGHTS))
    }

    fn gift_in(&self, whole: Result<(), Problem>) -> Gift {
        let Some(holder) = self.holder() else {
            return Gift::default();
        };
        Gift {
            giver: match holder.id {
                Some(id) => Giver::Key(id),
                None => Giver::Configured(holder.expires_ms, holder.budget.clone()),
            },
            account: holder.inheritance.account.clone(),
            is_narrow: whole.is_err(),
        }
    }

    /// Returns the account whose part of a table of writes the caller fills; none if it may write everything.
    pub fn writer_account(&self) -> AccountId {
        match self.may(Scope::Write, "") {
            Ok(()) => AccountId::default(),
            Err(_) => AccountId::of_name(self.account()),
        }
    }

    /// Returns the account under which the audit log keeps the caller's acts.
    pub fn account(&self) -> &str {
        self.holder()
            .map_or("", |holder| &holder.inheritance.account)
    }

    /// Returns whether the caller may have a new secret of this key. A secret is as good as the key: whoever has a key
    /// that ends, has a budget or may be revoked would go on by it. So such a caller has secrets only of its own key
    /// and of those below it.
    pub fn may_rotate(&self, id: KeyId, inheritance: &Inheritance) -> bool {
        let is_own = self.holder().is_some_and(|holder| holder.id == Some(id));
        is_own || self.may_have_secrets(inheritance)
    }

    /// Returns whether the caller may have the secrets of a key or a share that inherits this: whether it is above
    /// them.
    pub fn may_have_secrets(&self, inheritance: &Inheritance) -> bool {
        let Some(holder) = self.holder() else {
            return true;
        };
        let is_configured = holder.id.is_none();
        let is_unbound = holder.expires_ms.is_none() && holder.budget.is_none();
        (is_configured && is_unbound) || self.is_above(inheritance)
    }

    /// Returns whether the caller is above a key that inherits this.
    pub fn is_above(&self, inheritance: &Inheritance) -> bool {
        self.holder().is_some_and(|holder| match holder.id {
            Some(own) => inheritance.above.contains(&own),
            None => inheritance.root == holder.inheritance.account,
        })
    }

    /// Returns whether this key is above the caller's.
    pub fn is_below(&self, id: KeyId) -> bool {
        self.holder()
            .is_some_and(|holder| holder.inheritance.above.contains(&id))
    }

    /// Returns the prefixes of the ids that the caller may read; the empty text stands for every id.
    pub fn readable_prefixes(&self) -> Vec<String> {
        if matches!(self.0, CallerKind::Anyone) {
            return vec![String::new()];
        }
        self.prefixes(Scope::Read, PrefixKind::Counters)
    }

    /// Returns the prefixes on which the caller has this scope.
    fn prefixes(&self, scope: Scope, kind: PrefixKind) -> Vec<String> {
        let grants = self.grants().iter().filter(|grant| grant.has(scope));
        let prefixes = grants.filter_map(|grant| grant.prefix_of(kind));
        prefixes.map(str::to_owned).collect()
    }

    /// Succeeds if the caller may list and sum the counters whose ids begin with `prefix`: the rule of [`Caller::may`]
    /// with scope read. The empty prefix needs a grant on all ids.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_list(&self, prefix: &str) -> Result<(), Problem> {
        self.may(Scope::Read, prefix)
    }
}

/// The refusal where no public entry names the permission.
fn not_allowed(needs: &[Permission], target: &str) -> Problem {
    let needs: Vec<&str> = needs.iter().map(|need| need.as_str()).collect();
    unauthorized(format!(
        "without a key this is not allowed for {target}: send one, or name `{}` in `allow` of its public entry in TALLY_KEYS",
        needs.join("`, `")
    ))
}

pub(super) fn unauthorized(detail: impl Into<String>) -> Problem {
    Problem::new(Code::Unauthorized, detail)
}
