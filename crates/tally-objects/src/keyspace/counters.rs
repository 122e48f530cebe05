//! Reads and changes of counters for a keyspace; cells hold the counters.
//!
//! Invariant: a counter that is added to has a home, so the answers of its cell are its values, in order. A counter is
//! replaced or ended by its root under the condition that nothing was counted since it was read, so that it is one step
//! for all clients.

use std::cell::RefCell;

use crate::kit::store::WHOLE_MAX;
use tally_api::keyed_routes::{KeyRoom, part_full};
use tally_core::callers::account::AccountId;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, WriteKey};
use tally_core::counter::merge::Part;
use tally_core::counter::settings::TtlMode;
use tally_core::counter::total::Value;
use tally_host::Host;
use tally_redis::error;
use tally_redis::reply_error::ReplyError;
use tally_shared::keyed_calls::{count_keyed, count_unclaimed};
use tally_shared::{call, call_within};
use tally_wire::messages::{
    AttemptName, Done, Fault, GlobalSum, LetInboxesGo, Operate, Operation, OperationCondition,
    OperationOutcome,
};
use tally_wire::redis::Reply;
use tally_wire::shell_limits::OPERATE_MS_MAX;
use tally_wire::version::Version;

/// The most cached counters, about 600 bytes each; another one costs a call.
const KNOWN_MAX: usize = 10_000;

/// How often an increment is sent: a home may have to be set first, or what others hold of the counter be counted.
const ROUNDS_MAX: usize = 8;

/// How long queued events may take to be counted before the next try, milliseconds: 8 s in all rounds.
const GATHER_CALL_MS: u64 = 1_000;

/// How long a try waits for shards to stop, milliseconds: 1.75 s in all rounds, besides the calls.
const GATHER_MS: u64 = 250;

/// How far clocks of cells may be ahead, seconds: a read includes increments up to this far after now.
const AHEAD_SECONDS: i64 = 60;

/// The counters of a keyspace.
pub(super) struct Counters {
    host: Host,
    known: RefCell<BoundedMap<CounterId, KnownCounter, KNOWN_MAX>>,
}

/// A counter that is known to exist. Other calls may delete it meanwhile. So increments are for this generation only,
/// and create no counter beside a board that has taken its name.
#[derive(Clone)]
struct KnownCounter {
    home: Datacenter,
    generation: u64,
}

/// A counter that was read.
pub(super) struct CounterRead {
    /// Its value.
    pub(super) value: Value,
    /// The part of it that is newer than a time.
    pub(super) since: Value,
    /// Whether it was set since then.
    pub(super) was_set: bool,
    /// Its generation; a counter that is created again has a higher one.
    pub(super) generation: u64,
    /// When it ends, whatever is counted until then, unix milliseconds.
    pub(super) ends_ms: Option<i64>,
    /// When it ends by a setting of its own if it is written now and never again, unix milliseconds.
    pub(super) own_end_ms: Option<i64>,
    pub(super) floor: Option<Value>,
    version: Version,
    pub(super) has_home: bool,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateOutcome {
    /// It was done.
    Done,
    /// A write was counted since the counter was read.
    Conflict,
}

pub(super) fn needs_home() -> ReplyError {
    let text = "several datacenters count this counter: set its home by PUT /counters/{id} first";
    ReplyError::Reply(Reply::err(text))
}

impl Counters {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            known: RefCell::default(),
        }
    }

    /// Reads a counter; `None` where there is none.
    ///
    /// # Errors
    /// `Unavailable` if not all of it can be read: a part of a value is no value.
    pub(super) async fn read(&self, id: &CounterId) -> Result<Option<CounterRead>, Fault> {
        self.read_since(id, None).await
    }

    /// As [`Counters::read`], with the part that is newer than a time, unix milliseconds; increments are divided by
    /// whole seconds.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn read_since(
        &self,
        id: &CounterId,
        at_ms: Option<i64>,
    ) -> Result<Option<CounterRead>, Fault> {
        let last = self.host.now_ms().div_euclid(1_000) + AHEAD_SECONDS;
        let window = at_ms.map(|at_ms| (at_ms.div_euclid(1_000) + 1, last));
        let Some(sum) = tally_aggregator::read_now(&self.host, id, window).await? else {
            return Ok(None);
        };
        Self::whole(&sum)?;
        let value = sum.value();
        let was_set = at_ms.is_some_and(|at_ms| sum.root.operations.at_ms() > at_ms);
        let counted: u128 = sum.parts().map(|part| part.window.count).sum();
        let ttl = sum.root.settings.ttl;
        let fixed = ttl.filter(|ttl| ttl.mode == TtlMode::Fixed);
        Ok(Some(CounterRead {
            value,
            since: if was_set {
                value
            } else {
                Value::new(counted, 0)
            },
            was_set,
            generation: sum.root.generation,
            ends_ms: fixed.map(|ttl| ttl.expires_at_ms(0)),
            own_end_ms: ttl.map(|ttl| ttl.expires_at_ms(self.host.now_ms())),
            floor: sum.root.settings.floor,
            version: Version::of_sum(&sum),
            has_home: sum.root.home.is_some(),
        }))
    }

    /// Fails if a counter that was read cannot be set to this value. Sets its home if it has none.
    ///
    /// # Errors
    /// As [`Counters::replace`].
    pub(super) async fn prepare(
        &self,
        id: &CounterId,
        here: &Datacenter,
        value: i64,
        seen: &CounterRead,
    ) -> Result<(), ReplyError> {
        if seen
            .floor
            .is_some_and(|floor| value_of(value).is_below(floor))
        {
            return Err(ReplyError::Reply(below_floor()));
        }
        if !seen.has_home {
            self.assign_home(id, here).await?;
        }
        Ok(())
    }

    /// Succeeds if the whole counter was read.
    pub(super) fn whole(sum: &GlobalSum) -> Result<(), Fault> {
        let has_answered = |part: &Option<Part>| part.as_ref().is_some_and(Part::is_current);
        if !sum.datacenters.iter().all(|(_, part)| has_answered(part)) {
            let detail = "a datacenter that counts this key does not answer";
            return Err(Fault::Unavailable(detail.to_owned()));
        }
        Ok(())
    }

    /// Adds to a counter, which is created if needed. Returns its value, and whether it was counted now: a named
    /// attempt may have been counted before. `None` if it has ended since it was cached: then nothing was counted, and
    /// the caller must ask again whether it may be created.
    ///
    /// # Errors
    /// If 64 bits, its floor, or a second datacenter prevent it; nothing was counted then. `Unavailable`.
    pub(super) async fn add(
        &self,
        id: &CounterId,
        here: &Datacenter,
        delta: i64,
        (named, account): (Option<AttemptName>, AccountId),
    ) -> Result<Option<(i64, bool)>, ReplyError> {
        let write = KeyedWrite {
            within_64_bits: true,
            ..self.write_of(delta, named)
        };
        let room = named.map(|_| KeyRoom {
            source: KeySource::Clients,
            account,
        });
        let Some((value, is_now)) = self.count(id, here, write, room).await? else {
            return Ok(None);
        };
        let beyond = || Fault::Broken("the counter has passed 64 bits".to_owned());
        Ok(Some((value.to_i64().ok_or_else(beyond)?, is_now)))
    }

    /// Adds to a counter of this generation only, whatever its value becomes, once under this key.
    ///
    /// # Errors
    /// As [`Counters::add`], and where it has ended.
    pub(super) async fn add_to(
        &self,
        id: &CounterId,
        here: &Datacenter,
        delta: i64,
        key: WriteKey,
        generation: u64,
    ) -> Result<(), ReplyError> {
        let write = KeyedWrite {
            generation,
            ..self.write_of(delta, Some((key, 0)))
        };
        let room = Some(KeyRoom::default());
        self.count(id, here, write, room).await.map(|_| ())
    }

    /// Adds to a counter that was read, if nothing was counted since.
    ///
    /// # Errors
    /// As [`Counters::add`].
    pub(super) async fn add_seen(
        &self,
        id: &CounterId,
        here: &Datacenter,
        delta: i64,
        seen: &CounterRead,
    ) -> Result<UpdateOutcome, ReplyError> {
        let known = match seen.has_home {
            true => self.known(id, here).await?,
            // From now on its version shows that.
            false => self.assign_home(id, here).await?.and(None),
        };
        let Some(known) = known else {
            return Ok(UpdateOutcome::Conflict);
        };
        let write = KeyedWrite {
            generation: seen.generation,
            within_64_bits: true,
            condition: Some(seen.version.at_home(&known.home)),
            ..self.write_of(delta, None)
        };
        let only = std::slice::from_ref(&write);
        let counted = count_unclaimed(&self.host, id, &known.home, only, KeySource::Drawn).await;
        let outcome = counted.into_iter().next();
        let (_, outcome) =
            outcome.ok_or_else(|| Fault::Broken("a write was not answered".to_owned()))?;
        match outcome? {
            KeyedOutcome::Counted(_) | KeyedOutcome::Replayed(_) => Ok(UpdateOutcome::Done),
            KeyedOutcome::NeedsView => {
                self.forget(id);
                self.gather(id, true).await;
                Ok(UpdateOutcome::Conflict)
            }
            KeyedOutcome::Changed
            | KeyedOutcome::Ended
            | KeyedOutcome::NeedsHome
            | KeyedOutcome::NotWhole => {
                self.forget(id);
                Ok(UpdateOutcome::Conflict)
            }
            other => Err(refusal_of(other)),
        }
    }

    fn write_of(&self, delta: i64, named: Option<(WriteKey, u64)>) -> KeyedWrite {
        let second = self.host.now_ms().div_euclid(1_000);
        let amount = u128::from(delta.unsigned_abs());
        let (added, removed) = if delta < 0 { (0, amount) } else { (amount, 0) };
        let (key, fingerprint) = named.unwrap_or_else(|| (self.host.random_key(), 0));
        KeyedWrite {
            added,
            removed,
            live: if delta > 0 {
                vec![(second, added)]
            } else {
                Vec::new()
            },
            ..KeyedWrite::new(key, fingerprint)
        }
    }

    /// Sends a write to the counter's home. Returns the value, and whether it was counted now; `None` if the counter
    /// has ended since it was cached, and the write names no generation.
    async fn count(
        &self,
        id: &CounterId,
        here: &Datacenter,
        mut write: KeyedWrite,
        room: Option<KeyRoom>,
    ) -> Result<Option<(Value, bool)>, ReplyError> {
        let named_generation = write.generation;
        let mut last = None;
        for _ in 0..ROUNDS_MAX {
            let known = self.known(id, here).await?;
            if named_generation == 0 {
                write.generation = known.as_ref().map_or(0, |known| known.generation);
            }
            let home = known.map(|known| known.home);
            let lead = home.as_ref().unwrap_or(here);
            let only = std::slice::from_ref(&write);
            let mut outcomes = match room {
                Some(room) => count_keyed(&self.host, id, lead, only, room).await,
                None => count_unclaimed(&self.host, id, lead, only, KeySource::Drawn).await,
            };
            let (lead, outcome) = outcomes
                .pop()
                .ok_or_else(|| Fault::Broken("a write was not answered".to_owned()))?;
            let outcome = outcome?;
            let is_now = matches!(outcome, KeyedOutcome::Counted(_));
            match outcome {
                KeyedOutcome::Counted(recorded) | KeyedOutcome::Replayed(recorded) => {
                    if home.is_none() {
                        self.assign_home(id, here).await?;
                    } else if home.as_ref() != Some(&lead) {
                        self.forget(id);
                    }
                    let value = Value::new(recorded.totals.0, recorded.totals.1);
                    return Ok(Some((value, is_now)));
                }
                KeyedOutcome::Ended if named_generation == 0 => {
                    self.forget(id);
                    return Ok(None);
                }
                KeyedOutcome::NeedsView | KeyedOutcome::NeedsHome => {
                    self.forget(id);
                    if self.assign_home(id, here).await?.is_none() {
                        return Err(needs_home());
                    }
                    if outcome == KeyedOutcome::NeedsView {
                        // The first time events may be all that was missing.
                        let waits = last == Some(KeyedOutcome::NeedsView);
                        self.gather(id, waits).await;
                    }
                    last = Some(outcome);
                }
                other => return Err(refusal_of(other)),
            }
        }
        Err(match last {
            Some(KeyedOutcome::NeedsView) => refusal_of(KeyedOutcome::NeedsView),
            _ => needs_home(),
        })
    }

    /// Lets the home of a counter learn its value: queued events are counted. Shards need time to stop: `waits` says
    /// whether they have it.
    async fn gather(&self, id: &CounterId, waits: bool) {
        let counter = id.clone();
        // If an inbox does not answer, the next try is refused again.
        let _ = call_within(&self.host, &LetInboxesGo { counter }, GATHER_CALL_MS).await;
        if waits {
            self.host.sleep_ms(GATHER_MS).await;
        }
    }

    /// Whether a counter is known to exist.
    pub(super) fn is_known(&self, id: &CounterId) -> bool {
        self.known.borrow().contains_key(id)
    }

    fn forget(&self, id: &CounterId) {
        self.known.borrow_mut().remove(id);
    }

    /// The cached counter, or that of a look-up, which sets its home if it has none; `None` if there is no such
    /// counter.
    async fn known(
        &self,
        id: &CounterId,
        here: &Datacenter,
    ) -> Result<Option<KnownCounter>, ReplyError> {
        let known = self.known.borrow_mut().get_mut(id).cloned();
        match known {
            Some(known) => Ok(Some(known)),
            None => self.assign_home(id, here).await,
        }
    }

    /// Caches the counter of an operation that was done, if it has a home.
    fn know(&self, id: &CounterId, done: &Done) -> Option<KnownCounter> {
        let known = KnownCounter {
            home: done.home.clone()?,
            generation: done.generation,
        };
        self.known.borrow_mut().insert(id.clone(), known.clone());
        Some(known)
    }

    async fn assign_home(
        &self,
        id: &CounterId,
        here: &Datacenter,
    ) -> Result<Option<KnownCounter>, ReplyError> {
        let assignment = self.operation(id, here, Operation::AssignHome, None);
        match call(&self.host, &assignment).await? {
            OperationOutcome::Done(done) => self.know(id, &done).map(Some).ok_or_else(needs_home),
            OperationOutcome::NotFound => Ok(None),
            _ => Err(needs_home()),
        }
    }

    pub(super) fn operation(
        &self,
        id: &CounterId,
        here: &Datacenter,
        operation: Operation,
        condition: Option<OperationCondition>,
    ) -> Operate {
        Operate {
            counter: id.clone(),
            datacenter: here.clone(),
            operation,
            key: None,
            condition,
        }
    }

    /// As [`Counters::put`], of a number.
    ///
    /// # Errors
    /// As there.
    pub(super) async fn replace(
        &self,
        id: &CounterId,
        here: &Datacenter,
        value: Option<i64>,
        seen: Option<&CounterRead>,
    ) -> Result<UpdateOutcome, ReplyError> {
        self.put(id, here, value.map(value_of), seen).await
    }

    /// Sets a counter, or ends it without a value. With `seen`, nothing may have been counted since that read.
    ///
    /// # Errors
    /// As [`Counters::add`].
    pub(super) async fn put(
        &self,
        id: &CounterId,
        here: &Datacenter,
        value: Option<Value>,
        seen: Option<&CounterRead>,
    ) -> Result<UpdateOutcome, ReplyError> {
        if let Some(seen) = seen
            && !seen.has_home
        {
            self.assign_home(id, here).await?;
            // From now on its version shows that.
            return Ok(UpdateOutcome::Conflict);
        }
        let operation = value.map_or(Operation::Delete, Operation::Set);
        let condition = seen.map(|seen| OperationCondition::Unchanged(seen.version.clone()));
        let operate = self.operation(id, here, operation, condition);
        self.forget(id);
        match call_within(&self.host, &operate, OPERATE_MS_MAX).await? {
            OperationOutcome::Done(done) => {
                // It stays cached, because a script continues to count it.
                if value.is_some() {
                    self.know(id, &done);
                }
                Ok(UpdateOutcome::Done)
            }
            OperationOutcome::NotFound if seen.is_none() => Ok(UpdateOutcome::Done),
            OperationOutcome::Changed | OperationOutcome::NotFound => Ok(UpdateOutcome::Conflict),
            OperationOutcome::BelowFloor => Err(ReplyError::Reply(below_floor())),
            _ => Err(needs_home()),
        }
    }
}

fn below_floor() -> Reply {
    Reply::err("the value would fall below the counter's floor; nothing was counted")
}

/// A number as a value.
fn value_of(number: i64) -> Value {
    let amount = u128::from(number.unsigned_abs());
    if number < 0 {
        Value::new(0_u128, amount)
    } else {
        Value::new(amount, 0_u128)
    }
}

fn refusal_of(outcome: KeyedOutcome) -> ReplyError {
    ReplyError::Reply(match outcome {
        KeyedOutcome::BelowFloor | KeyedOutcome::BelowFloorBefore => below_floor(),
        KeyedOutcome::Overflow => error::overflow(),
        KeyedOutcome::Reused => error::key_reused(),
        KeyedOutcome::PartFull(account) => Reply::err(part_full(account)),
        KeyedOutcome::Ended => {
            Reply::err("the key that this try added to was deleted since; nothing was counted")
        }
        _ => Reply::err("the counter is busy; nothing was counted, try again"),
    })
}

/// Later expiry times are stored as this one: SQL holds no larger number.
pub(super) fn kept_end(expires_ms: Option<i64>) -> Option<i64> {
    expires_ms.map(|at_ms| at_ms.min(WHOLE_MAX))
}
