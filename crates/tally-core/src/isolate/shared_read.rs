//! Values that the requests of an isolate share, and when one of them reads: keys, shares, policies, summaries of
//! boards, and sums and tops of many counters.
//!
//! Invariants: one read of a value is in flight at a time. A value that was read earlier never replaces one that was
//! read later, although its answer comes later. A read that began before a change of this isolate is not cached, since
//! it may lack the change. If the clock steps back, what was read before looks old.
//!
//! Life of a value, by its age ([`ReadRule`]). It is *fresh*: requests use it. It is *usable*: requests use it, and the
//! first of them reads it anew in the background (`stale-while-revalidate` of RFC 5861). After that the first request
//! reads it, and the others wait for that read. If the read fails, requests use the value up to its last age
//! (`stale-if-error`), and none waits for the next attempts while they fail.
//!
//! | value | fresh | usable | after a fault | why so |
//! |---|---|---|---|---|
//! | keys | 10 s | 30 s | 15 min | a revoked key ends within 30 s; callers go on without the directory |
//! | shares | 10 s | 30 s | 60 s | the same, but a share ends within a minute whatever happens |
//! | policies | 2.5 s | 3.5 s | 1 h | with the longest check a change is in effect within 5 s |
//! | summaries of boards | 1 s | 10 s | 10 s | an older one is used where the board does not answer either |
//! | sums and tops of many | up to 1 s | the same | not | the caller says how old an answer may be |
//!
//! Three caches have rules of their own. Views of counters (`core/isolate/views.rs`) have up to four reads in flight,
//! so that readers see changes early. The key of elements (`wire/isolate/refresh.rs`) lets no write wait where one is
//! known. The state of the deployment (`edge/deployment/fleet_state.rs`) lets no probe wait.

use std::hash::Hash;

use crate::counter::bounded_map::BoundedMap;

/// How long after a fault nobody reads again, milliseconds.
const AGAIN_MS: i64 = 1_000;

/// How long after a fault a value that is too old is used without waiting for the next read, milliseconds.
const FAILED_MS: i64 = 2_000;

/// The ages of a value, milliseconds, and how it is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRule {
    /// Up to this age requests use the value as it is.
    pub fresh_ms: i64,
    /// Up to this age requests use it, while it is read anew in the background.
    pub usable_ms: i64,
    /// Up to this age requests use it if it cannot be read.
    pub stale_ms: i64,
    /// How long a read may take. After that another one may begin.
    pub read_ms: u64,
    /// What a fault says of the next reads.
    pub after_fault: AfterFault,
}

/// What happens after a read has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFault {
    /// The next request reads.
    Read,
    /// This value is not read for a moment: each value is in a place of its own.
    RestOne,
    /// No value is read for a moment: all values are in one place.
    RestAll,
}

/// A read: its place in the order in which reads began, and when it began, unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadTicket {
    number: u64,
    begun_ms: i64,
}

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadStep<V, E> {
    /// It uses this value.
    Use(V),
    /// It uses this value, and reads it anew in the background.
    UseAndRead(V, ReadTicket),
    /// It reads.
    Read(ReadTicket),
    /// It waits for this read of another request.
    Wait(ReadTicket),
    /// It has no value: a read has just failed.
    Refuse(E),
}

/// How a read ends that found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadValue<V> {
    /// The value, which is cached.
    Kept(V),
    /// A value for those alone that wait for this read, such as that there is none.
    Passed(V),
}

impl<V> ReadValue<V> {
    /// The value.
    pub fn into_value(self) -> V {
        match self {
            Self::Kept(value) | Self::Passed(value) => value,
        }
    }
}

/// What a waiting request finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadEnd<V, E> {
    /// The read is under way.
    UnderWay,
    /// Its outcome, or that of a later one.
    Ended(Result<V, E>),
    /// Its outcome is not known: the request begins anew.
    Unknown,
}

/// A value, and its read.
struct Dated<V> {
    value: V,
    read: ReadTicket,
}

struct Failure<E> {
    fault: E,
    read: ReadTicket,
    ended_ms: i64,
}

struct Entry<V, E> {
    known: Option<Dated<V>>,
    passed: Option<Dated<V>>,
    reading: Option<ReadTicket>,
    failure: Option<Failure<E>>,
}

impl<V, E> Default for Entry<V, E> {
    fn default() -> Self {
        Self {
            known: None,
            passed: None,
            reading: None,
            failure: None,
        }
    }
}

impl<V> Dated<V> {
    fn age_ms(&self, now_ms: i64) -> i64 {
        distance_ms(self.read.begun_ms, now_ms)
    }
}

impl ReadTicket {
    /// Whether it may still end with a value that is cached. `changed`: the first read after the last change.
    fn is_under_way(self, changed: u64, now_ms: i64, rule: &ReadRule) -> bool {
        self.number >= changed && now_ms.abs_diff(self.begun_ms) <= rule.read_ms
    }
}

/// In either direction: a clock may have stepped back.
fn distance_ms(at_ms: i64, now_ms: i64) -> i64 {
    i64::try_from(now_ms.abs_diff(at_ms)).unwrap_or(i64::MAX)
}

/// At most `MAX` values by their names. `E` is why a value could not be read.
pub struct SharedRead<K, V, E, const MAX: usize> {
    entries: BoundedMap<K, Entry<V, E>, MAX>,
    /// The last failure, if no read has succeeded since.
    failure: Option<Failure<E>>,
    /// The number of the next read.
    next: u64,
    /// The number of the next read when this isolate last changed what is cached here.
    changed: u64,
}

impl<K: Eq + Hash, V, E, const MAX: usize> Default for SharedRead<K, V, E, MAX> {
    fn default() -> Self {
        Self {
            entries: BoundedMap::default(),
            failure: None,
            next: 0,
            changed: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, V: Clone, E: Clone, const MAX: usize> SharedRead<K, V, E, MAX> {
    /// Returns what a request does now. A request that reads calls [`SharedRead::end`].
    pub fn next(&mut self, key: &K, now_ms: i64, rule: &ReadRule) -> ReadStep<V, E> {
        let entry = self.entries.get(key);
        let failure = match rule.after_fault {
            AfterFault::Read => None,
            AfterFault::RestOne => entry.and_then(|entry| entry.failure.as_ref()),
            AfterFault::RestAll => self.failure.as_ref(),
        };
        let reading = entry.and_then(|entry| entry.reading);
        let reading = reading.filter(|read| read.is_under_way(self.changed, now_ms, rule));
        // While attempts fail one after the other, nobody waits for the next.
        let begun_ms = reading.map_or(now_ms, |read| read.begun_ms);
        let since_ms = |at_ms| failure.map(|failure| distance_ms(failure.ended_ms, at_ms));
        let is_failing = since_ms(begun_ms).is_some_and(|since_ms| since_ms <= FAILED_MS);
        let rests = since_ms(now_ms).is_some_and(|since_ms| since_ms < AGAIN_MS);
        let resting = failure
            .filter(|_| rests)
            .map(|failure| failure.fault.clone());
        let known = entry.and_then(|entry| entry.known.as_ref());
        let known = known.map(|known| (known.value.clone(), known.age_ms(now_ms)));
        let known = known.filter(|(_, age_ms)| {
            *age_ms <= rule.usable_ms || is_failing && *age_ms <= rule.stale_ms
        });
        match (known, reading, resting) {
            (Some((value, age_ms)), _, _) if age_ms <= rule.fresh_ms => ReadStep::Use(value),
            (Some((value, _)), None, None) => ReadStep::UseAndRead(value, self.begin(key, now_ms)),
            (Some((value, _)), _, _) => ReadStep::Use(value),
            (None, Some(read), _) => ReadStep::Wait(read),
            (None, None, Some(fault)) => ReadStep::Refuse(fault),
            (None, None, None) => ReadStep::Read(self.begin(key, now_ms)),
        }
    }

    fn begin(&mut self, key: &K, now_ms: i64) -> ReadTicket {
        let read = self.begin_alone(now_ms);
        self.entries.entry(key, Entry::default).reading = Some(read);
        read
    }

    /// Begins a read that no other request waits for.
    pub fn begin_alone(&mut self, now_ms: i64) -> ReadTicket {
        let number = self.next;
        self.next += 1;
        ReadTicket {
            number,
            begun_ms: now_ms,
        }
    }

    /// Records how a read has ended. Its value is cached unless that of a later read is, or this isolate has changed it
    /// since.
    pub fn end(&mut self, key: &K, read: ReadTicket, now_ms: i64, end: Result<ReadValue<V>, E>) {
        let is_void = read.number < self.changed;
        if is_void && !self.entries.contains_key(key) {
            return;
        }
        let entry = self.entries.entry(key, Entry::default);
        if entry.reading == Some(read) {
            entry.reading = None;
        }
        let found = match end {
            Ok(found) => found,
            Err(fault) => {
                let failure = |fault| Failure {
                    fault,
                    read,
                    ended_ms: now_ms,
                };
                entry.failure = Some(failure(fault.clone()));
                self.failure = Some(failure(fault));
                return;
            }
        };
        (entry.failure, self.failure) = (None, None);
        let is_later = |known: &Dated<V>| known.read.number > read.number;
        if is_void || entry.known.as_ref().is_some_and(is_later) {
            return;
        }
        let dated = |value| Some(Dated { value, read });
        (entry.known, entry.passed) = match found {
            ReadValue::Kept(value) => (dated(value), None),
            ReadValue::Passed(value) => (None, dated(value)),
        };
    }

    /// Records that a read did not begin after all.
    pub fn give_up(&mut self, key: &K, read: ReadTicket) {
        let entry = self.entries.get_mut(key);
        if let Some(entry) = entry.filter(|entry| entry.reading == Some(read)) {
            entry.reading = None;
        }
    }

    /// What a request finds that waits for a read.
    pub fn ended(&self, key: &K, read: ReadTicket, now_ms: i64, rule: &ReadRule) -> ReadEnd<V, E> {
        let Some(entry) = self.entries.peek(key) else {
            return ReadEnd::Unknown;
        };
        let is_it = |other: ReadTicket| other.number >= read.number;
        let mut found = [&entry.known, &entry.passed].into_iter().flatten();
        if let Some(found) = found.find(|found| is_it(found.read)) {
            return ReadEnd::Ended(Ok(found.value.clone()));
        }
        if entry.reading == Some(read) && read.is_under_way(self.changed, now_ms, rule) {
            return ReadEnd::UnderWay;
        }
        let failure = entry.failure.as_ref();
        match failure.filter(|failure| is_it(failure.read)) {
            Some(failure) => ReadEnd::Ended(Err(failure.fault.clone())),
            None => ReadEnd::Unknown,
        }
    }

    /// The value, if it is at most `age_ms` old by now.
    pub fn within(&self, key: &K, now_ms: i64, age_ms: i64) -> Option<V> {
        let known = self.entries.peek(key)?.known.as_ref();
        let known = known.filter(|known| known.age_ms(now_ms) <= age_ms);
        known.map(|known| known.value.clone())
    }

    /// The cached value, whatever its age.
    pub fn peek(&self, key: &K) -> Option<&V> {
        let known = self.entries.peek(key)?.known.as_ref();
        known.map(|known| &known.value)
    }

    /// Makes a value that this isolate has changed at least this old, so that it is read anew.
    pub fn age(&mut self, key: &K, age_ms: i64, now_ms: i64) {
        self.changed = self.next;
        self.failure = None;
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        (entry.reading, entry.failure) = (None, None);
        if let Some(known) = &mut entry.known {
            let old_ms = now_ms.saturating_sub(age_ms);
            known.read.begun_ms = known.read.begun_ms.min(old_ms);
        }
    }

    /// Removes the values of these names, because this isolate has changed them.
    pub fn forget_keys(&mut self, is_old: impl Fn(&K) -> bool) {
        self.changed = self.next;
        self.entries.retain_keys(|key| !is_old(key));
    }

    /// Removes the values of which this is true, because this isolate has changed them.
    pub fn forget_where(&mut self, is_old: impl Fn(&V) -> bool) {
        self.changed = self.next;
        let is_old = |entry: &Entry<V, E>| {
            let known = entry.known.as_ref();
            known.is_some_and(|known| is_old(&known.value))
        };
        self.entries.retain(|entry| !is_old(entry));
    }
}
