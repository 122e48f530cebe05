//! The policies that an isolate caches, and the overrides of keys.
//!
//! Invariants: what the directory stores is in effect within [`USABLE_MS`], and the time of one check, as long as the
//! directory can be reached. A key that was looked up has the override of the cached version of its policy, or of a
//! newer one: with each newer version come the patterns that have changed, and what is known of their keys is
//! forgotten.
//!
//! A policy comes with its overrides, or, if they are many, with a filter of their patterns. Then an isolate asks for
//! the overrides of the keys that pass the filter, once for each key.

use std::cell::RefCell;
use std::rc::Rc;

use crate::kit::request_context::RequestContext;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::CounterId;
use tally_core::isolate::aged_cache::AgedCache;
use tally_core::limit::policy::overrides::{Override, OverrideSet, PatternFilter};
use tally_core::limit::policy::{OnError, Policy};
use tally_host::{Host, State};
use tally_shared::call;
use tally_wire::messages::{
    Fault, FindOverride, GetPolicy, KnownOverrides, OverrideNews, StoredPolicy,
};
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};

/// The most policies that an isolate caches: 300 bytes each, so 3 MB. All their filters together have 1.25 MB, because
/// there are at most a million overrides.
const POLICIES_MAX: usize = 10_000;

/// The most keys whose overrides an isolate caches, or that they have none although they pass the filter: at most
/// 1.5 KB each, so 15 MB.
const KEYS_MAX: usize = 10_000;

/// The ages of a cached policy, milliseconds. Up to the first it is used as it is. Up to the second, a use refreshes it
/// in the background. Up to the third, it is used if it cannot be read. A change of a policy or an override is in
/// effect everywhere after the second and the longest check: 5 s.
const FRESH_MS: i64 = 2_500;
const USABLE_MS: i64 = 3_500;
const STALE_MS_MAX: i64 = 3_600_000;

/// How long the directory may take, milliseconds: the caller waits for it.
const READ_MS_MAX: u64 = 1_500;

/// How long after a failure cached policies are used without another attempt, milliseconds.
const FAILED_MS: i64 = 2_000;

/// The override of a key.
#[derive(Clone, Debug)]
pub struct KeyOverride {
    /// Its pattern.
    pub pattern: OverridePattern,
    /// The override.
    pub over: Override,
}

impl KeyOverride {
    fn of((pattern, over): (OverridePattern, Override)) -> Rc<Self> {
        Rc::new(Self { pattern, over })
    }
}

/// A policy as it is cached.
pub struct CachedPolicy {
    /// The policy.
    pub policy: Rc<Policy>,
    overrides: Rc<Overrides>,
}

/// The overrides of a policy, with their version.
enum Overrides {
    None,
    Few(u64, OverrideSet<Rc<KeyOverride>>),
    Many(u64, PatternFilter),
}

impl Overrides {
    fn known(&self) -> Option<KnownOverrides> {
        let (version, has_filter) = match self {
            Self::None => return None,
            Self::Few(version, _) => (*version, false),
            Self::Many(version, _) => (*version, true),
        };
        Some(KnownOverrides {
            version,
            has_filter,
        })
    }

    fn version(&self) -> u64 {
        self.known().map_or(0, |known| known.version)
    }
}

/// The cached policies.
#[derive(Default)]
struct PolicyMemory {
    policies: AgedCache<PolicyName, Rc<CachedPolicy>, POLICIES_MAX>,
    /// By the name of the policy, a zero and the key.
    keys: BoundedMap<String, Option<Rc<KeyOverride>>, KEYS_MAX>,
    failed_ms: Option<i64>,
    /// How often anything was read or dropped.
    changes: u64,
}

/// The cached policies of this isolate.
struct IsolatePolicies(RefCell<PolicyMemory>);

impl State for IsolatePolicies {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

fn with<T>(host: &Host, work: impl FnOnce(&mut PolicyMemory) -> T) -> T {
    work(&mut host.state::<IsolatePolicies>().0.borrow_mut())
}

/// The subject of a key: neither part has control characters.
fn subject(name: &PolicyName, key: &str) -> String {
    [name.as_str(), "\0", key].concat()
}

impl PolicyMemory {
    fn has_failed(&self, now_ms: i64) -> bool {
        let failed_ms = self.failed_ms;
        failed_ms.is_some_and(|failed_ms| (0..FAILED_MS).contains(&(now_ms - failed_ms)))
    }

    /// Caches what was asked for at this time, unless something newer is cached.
    fn store(&mut self, name: &PolicyName, stored: Stored, asked_ms: i64, now_ms: i64) {
        self.changes += 1;
        match stored.forgotten {
            Forgotten::Nothing => {}
            Forgotten::Keys(patterns) => self.forget_keys(name, |key| {
                patterns.iter().any(|pattern| pattern.matches(key))
            }),
            Forgotten::All => self.forget_keys(name, |_| true),
        }
        self.policies
            .put(name.clone(), stored.cached, asked_ms, now_ms);
    }

    fn forget_keys(&mut self, name: &PolicyName, is_changed: impl Fn(&str) -> bool) {
        if self.keys.is_empty() {
            return;
        }
        self.keys.retain_keys(|subject| {
            let (of, key) = subject.split_once('\0').unwrap_or((subject, ""));
            of != name.as_str() || !is_changed(key)
        });
    }
}

/// What an answer of the directory makes of a policy in the cache.
struct Stored {
    cached: Rc<CachedPolicy>,
    forgotten: Forgotten,
}

/// The keys of which nothing is known any more.
enum Forgotten {
    Nothing,
    Keys(Vec<OverridePattern>),
    All,
}

/// Joins an answer with what its question said to be known.
fn joined(known: Option<&CachedPolicy>, stored: StoredPolicy) -> Stored {
    let before = known.map_or_else(|| Rc::new(Overrides::None), |known| known.overrides.clone());
    let (overrides, forgotten) = match stored.overrides {
        OverrideNews::None => (Rc::new(Overrides::None), Forgotten::All),
        OverrideNews::Unchanged => (before, Forgotten::Nothing),
        OverrideNews::All(version, all) => {
            let mut set = OverrideSet::default();
            for (pattern, over) in all {
                let known = KeyOverride::of((pattern, over));
                let (text, is_prefix) = known.pattern.parts();
                set.insert(text, is_prefix, known.clone());
            }
            (Rc::new(Overrides::Few(version, set)), Forgotten::All)
        }
        OverrideNews::Changed(version, patterns) => {
            let mut filter = match &*before {
                Overrides::Many(_, filter) => filter.clone(),
                // Never: only who knows a filter is answered so.
                _ => PatternFilter::with_room(patterns.len()),
            };
            for pattern in &patterns {
                let (text, is_prefix) = pattern.parts();
                filter.insert(text, is_prefix);
            }
            let many = Overrides::Many(version, filter);
            (Rc::new(many), Forgotten::Keys(patterns))
        }
        OverrideNews::Many(version, filter) => {
            (Rc::new(Overrides::Many(version, filter)), Forgotten::All)
        }
    };
    let same = known.filter(|known| *known.policy == stored.policy);
    let policy = same.map_or_else(|| Rc::new(stored.policy), |known| known.policy.clone());
    Stored {
        cached: Rc::new(CachedPolicy { policy, overrides }),
        forgotten,
    }
}

/// The policy of a name; a caller without a key pays for a look-up.
///
/// # Errors
/// `policy-not-found`; `quota-exceeded`; `unavailable` where it cannot be read and is not cached.
pub async fn policy_of(
    context: &RequestContext,
    name: &PolicyName,
) -> Result<Rc<CachedPolicy>, Problem> {
    let now_ms = context.host.now_ms();
    let (known, has_failed) = with(&context.host, |memory| {
        let has_failed = memory.has_failed(now_ms);
        let fresh_ms = if has_failed { STALE_MS_MAX } else { FRESH_MS };
        (memory.policies.find(name, now_ms, fresh_ms), has_failed)
    });
    if let Some(known) = &known
        && (known.age_ms <= USABLE_MS || has_failed && known.age_ms <= STALE_MS_MAX)
    {
        if known.must_read {
            let (host, name) = (context.host.clone(), name.clone());
            context.wait_until(async move {
                let _ = read_policy(&host, &name).await;
            });
        }
        return Ok(known.value.clone());
    }
    context.visitor().read(1)?;
    match read_policy(&context.host, name).await {
        Ok(Some(policy)) => Ok(policy),
        Ok(None) => Err(not_found(name)),
        Err(fault) => {
            let now_ms = context.host.now_ms();
            let stale = with(&context.host, |memory| {
                memory.policies.within(name, now_ms, STALE_MS_MAX)
            });
            stale.ok_or_else(|| unread(&fault))
        }
    }
}

/// The override of a key of a cached policy; a caller without a key pays for a look-up.
///
/// # Errors
/// `quota-exceeded`; `unavailable` where it cannot be read, and the policy is closed.
pub async fn override_of(
    context: &RequestContext,
    name: &PolicyName,
    cached: &CachedPolicy,
    key: &CounterId,
) -> Result<Option<Rc<KeyOverride>>, Problem> {
    let now_ms = context.host.now_ms();
    let is_valid = |known: &Rc<KeyOverride>| known.over.is_valid(now_ms);
    match &*cached.overrides {
        Overrides::None => Ok(None),
        Overrides::Few(_, set) => Ok(set.find(key.as_str(), is_valid).cloned()),
        Overrides::Many(_, filter) if !filter.may_match(key.as_str()) => Ok(None),
        Overrides::Many(..) => {
            let subject = subject(name, key.as_str());
            let known = with(&context.host, |memory| memory.keys.get(&subject).cloned());
            if let Some(known) = known.filter(|known| known.as_ref().is_none_or(is_valid)) {
                return Ok(known);
            }
            context.visitor().read(1)?;
            match look_up(&context.host, name, key, subject).await {
                Ok(found) => Ok(found),
                Err(fault) => match cached.policy.on_error {
                    OnError::Open => Ok(None),
                    OnError::Closed => Err(unread(&fault)),
                },
            }
        }
    }
}

/// Asks for the override of a key, and caches it.
async fn look_up(
    host: &Host,
    policy: &PolicyName,
    key: &CounterId,
    subject: String,
) -> Result<Option<Rc<KeyOverride>>, Fault> {
    let find = FindOverride {
        policy: policy.clone(),
        key: key.clone(),
    };
    let answer = call::refresh(host, &find, READ_MS_MAX).await?;
    let found = answer.found.map(KeyOverride::of);
    with(host, |memory| {
        let known = memory.policies.peek(policy);
        let known = known.map_or(u64::MAX, |cached| cached.overrides.version());
        // Of an older version the patterns that have changed since are applied already.
        if answer.version >= known {
            memory.keys.insert(subject, found.clone());
        }
    });
    Ok(found)
}

/// The problem of a missing policy.
pub fn not_found(name: &PolicyName) -> Problem {
    Problem::new(
        Code::PolicyNotFound,
        format!(
            "there is no policy {name}; PUT /limits/{name} makes it, or send it with the check"
        ),
    )
}

/// The problem of policies that cannot be read now.
pub fn unread(fault: &Fault) -> Problem {
    let detail = format!("the policy cannot be read now ({fault}); try again");
    Problem::new(Code::Unavailable, detail)
}

/// Reads a policy, and caches it.
///
/// # Errors
/// `Unavailable`.
pub async fn read_policy(
    host: &Host,
    name: &PolicyName,
) -> Result<Option<Rc<CachedPolicy>>, Fault> {
    let asked_ms = host.now_ms();
    let known = with(host, |memory| memory.policies.peek(name).cloned());
    let get = GetPolicy {
        name: name.clone(),
        known: known.as_ref().and_then(|known| known.overrides.known()),
    };
    let read = call::refresh(host, &get, READ_MS_MAX).await;
    with(host, |memory| match read {
        Ok(Some(stored)) => {
            let stored = joined(known.as_deref(), stored);
            let cached = stored.cached.clone();
            memory.store(name, stored, asked_ms, host.now_ms());
            memory.failed_ms = None;
            Ok(Some(cached))
        }
        Ok(None) => {
            memory.changes += 1;
            memory.policies.remove(name);
            memory.failed_ms = None;
            Ok(None)
        }
        Err(fault) => {
            memory.policies.fail(name);
            memory.failed_ms = Some(host.now_ms());
            Err(fault)
        }
    })
}

/// Caches a policy that this isolate has made, which has no overrides yet. `asked_ms`: when it was sent.
pub fn made(host: &Host, name: &PolicyName, policy: Policy, asked_ms: i64) {
    let cached = CachedPolicy {
        policy: Rc::new(policy),
        overrides: Rc::new(Overrides::None),
    };
    let stored = Stored {
        cached: Rc::new(cached),
        forgotten: Forgotten::All,
    };
    let now_ms = host.now_ms();
    with(host, |memory| memory.store(name, stored, asked_ms, now_ms));
}

/// Has a policy read anew before its next use, because this isolate has changed it, or an override of it.
pub fn changed(host: &Host, name: &PolicyName) {
    let now_ms = host.now_ms();
    with(host, |memory| {
        memory.changes += 1;
        memory.policies.age(name, USABLE_MS + 1, now_ms);
        memory.failed_ms = None;
    });
}

/// Drops a policy that this isolate has deleted.
pub fn forget(host: &Host, name: &PolicyName) {
    let now_ms = host.now_ms();
    with(host, |memory| {
        memory.changes += 1;
        memory.policies.forget(name, now_ms);
        memory.forget_keys(name, |_| true);
    });
}

/// A number that changes with everything that is cached here.
pub fn changes(host: &Host) -> u64 {
    with(host, |memory| memory.changes)
}
