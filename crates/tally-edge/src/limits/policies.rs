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
use crate::kit::shared_reads::{DIRECTORY_READ, ReadOutcome, SharedReads, SharedValue};
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::CounterId;
use tally_core::isolate::shared_read::{ReadRule, ReadTicket, ReadValue};
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

/// How long the directory may take, milliseconds: the caller waits for it.
const READ_MS_MAX: u64 = 1_500;

/// The ages of a policy. A change of a policy or an override is in effect everywhere after the second one and the
/// longest check: 5 s.
const POLICY_AGES: ReadRule = ReadRule {
    fresh_ms: 2_500,
    usable_ms: USABLE_MS,
    stale_ms: 3_600_000,
    read_ms: READ_MS_MAX,
    ..DIRECTORY_READ
};
const USABLE_MS: i64 = 3_500;

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

/// The policies of this isolate; `None` where there is none of a name.
type KnownPolicies = SharedReads<PolicyName, Option<Rc<CachedPolicy>>, POLICIES_MAX>;

/// The cached overrides.
#[derive(Default)]
struct PolicyMemory {
    /// By the name of the policy, a zero and the key.
    keys: BoundedMap<String, Option<Rc<KeyOverride>>, KEYS_MAX>,
    /// How often anything was read or dropped.
    changes: u64,
}

/// The cached overrides of this isolate.
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
    /// Forgets the keys of which an answer says so.
    fn forget(&mut self, name: &PolicyName, forgotten: &Forgotten) {
        self.changes += 1;
        match forgotten {
            Forgotten::Nothing => {}
            Forgotten::Keys(patterns) => self.forget_keys(name, |key| {
                patterns.iter().any(|pattern| pattern.matches(key))
            }),
            Forgotten::All => self.forget_keys(name, |_| true),
        }
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
    let look = KnownPolicies::value(context, name, &POLICY_AGES, 1, |host| {
        let name = name.clone();
        Box::pin(async move { fetch_policy(&host, &name).await })
    });
    match look.await {
        Ok(SharedValue {
            value: Some(policy),
            ..
        }) => Ok(policy),
        Ok(_) => Err(not_found(name)),
        Err(why) => Err(why.into_problem(|fault| unread(&fault))),
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
        let known = cached_policy(host, policy);
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

/// The cached policy of a name, whatever its age.
fn cached_policy(host: &Host, name: &PolicyName) -> Option<Rc<CachedPolicy>> {
    KnownPolicies::with(host, |policies| policies.peek(name).cloned().flatten())
}

/// Reads a policy, and forgets the keys of overrides that have changed.
async fn fetch_policy(host: &Host, name: &PolicyName) -> ReadOutcome<Option<Rc<CachedPolicy>>> {
    let known = cached_policy(host, name);
    let get = GetPolicy {
        name: name.clone(),
        known: known.as_ref().and_then(|known| known.overrides.known()),
    };
    let read = call::refresh(host, &get, READ_MS_MAX).await?;
    Ok(match read {
        Some(stored) => {
            let stored = joined(known.as_deref(), stored);
            with(host, |memory| memory.forget(name, &stored.forgotten));
            ReadValue::Kept(Some(stored.cached))
        }
        None => {
            with(host, |memory| memory.changes += 1);
            ReadValue::Passed(None)
        }
    })
}

/// Reads a policy now, and caches it.
///
/// # Errors
/// `Unavailable`.
pub async fn read_policy(
    host: &Host,
    name: &PolicyName,
) -> Result<Option<Rc<CachedPolicy>>, Fault> {
    let ticket = begin(host);
    let outcome = fetch_policy(host, name).await;
    let value = outcome.clone();
    end(host, name, ticket, outcome);
    value.map(ReadValue::into_value)
}

/// Begins a read, or a change that says what there is then.
pub fn begin(host: &Host) -> ReadTicket {
    KnownPolicies::with(host, |policies| policies.begin_alone(host.now_ms()))
}

fn end(
    host: &Host,
    name: &PolicyName,
    ticket: ReadTicket,
    outcome: ReadOutcome<Option<Rc<CachedPolicy>>>,
) {
    let now_ms = host.now_ms();
    KnownPolicies::with(host, |policies| policies.end(name, ticket, now_ms, outcome));
}

/// Caches a policy that this isolate has made, which has no overrides yet.
pub fn made(host: &Host, name: &PolicyName, policy: Policy, ticket: ReadTicket) {
    let cached = Rc::new(CachedPolicy {
        policy: Rc::new(policy),
        overrides: Rc::new(Overrides::None),
    });
    with(host, |memory| memory.forget(name, &Forgotten::All));
    end(host, name, ticket, Ok(ReadValue::Kept(Some(cached))));
}

/// Has a policy read anew before its next use, because this isolate has changed it, or an override of it.
pub fn changed(host: &Host, name: &PolicyName) {
    let now_ms = host.now_ms();
    with(host, |memory| memory.changes += 1);
    KnownPolicies::with(host, |policies| policies.age(name, USABLE_MS + 1, now_ms));
}

/// Drops a policy that this isolate has deleted.
pub fn forget(host: &Host, name: &PolicyName) {
    with(host, |memory| memory.forget(name, &Forgotten::All));
    KnownPolicies::with(host, |policies| {
        policies.forget_keys(|known| known == name);
    });
}

/// A number that changes with everything that is cached here.
pub fn changes(host: &Host) -> u64 {
    with(host, |memory| memory.changes)
}
