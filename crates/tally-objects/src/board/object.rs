//! The Durable Object of one board: all its members, in order.
//!
//! Invariants: writes are decided one after the other. Their changes, their key and the counts of segments are one
//! commit. A board is registered in the directory before it has any rows. A deleted board keeps the keys of its writes,
//! so that a retry is not applied to the next board of its name.
//!
//! Members and periods that have expired are removed before anything is answered.

mod commands;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::iter::repeat;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::moves::BoardMoves;
use super::reads::Reader;
use super::rows::{BoardRole, BoardRows, Head, Record};
use super::state::Loaded;
use crate::cell::keyed_writes::ledger_limits;
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_core::board::member::{Member, MemberRefusal};
use tally_core::board::placing::{GROUPS, Layout, Placing, ShardAt, first_sequence, group_of};
use tally_core::board::settings::Settings;
use tally_core::counter::autoscale::FlushMeter;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, WriteKey};
use tally_core::counter::ledgers::{LedgerLimits, PUBLIC_RECORDS_MAX};
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply, Shell};
use tally_protocol::messages::{
    AskBoard, BoardAnswer, BoardConfigured, BoardQuestion, BoardSeen, BoardWritten, CommandShard,
    ConfigureBoard, EndBoard, Fault, ForgetBoard, MemberAction, MemberOutcome, MemberStanding,
    MemberWrite, OnceKey, PeriodOf, RegisterBoard, ReportShard, RunSorted, ShardCommand,
    WriteBoard, WriteBoards,
};
use tally_shared::call;

/// The attempts to create a board that is deleted repeatedly.
const BEGUN_TRIES: u32 = 3;

/// How many batches of expired members are removed before writes, so that answers are exact.
const EXPIRED_TURNS: u32 = 5;

/// How long after a failed alarm the next one rings, milliseconds.
const RETRY_MS: i64 = 1_000;

/// How many rows of ended periods an alarm deletes, and the pause before the next, milliseconds.
const SWEPT_AT_ONCE: u64 = 2_000;
const SWEEP_MS: i64 = 100;

/// A member with its name.
type NamedPair = (Vec<u8>, Member);

/// A board, as the platform sees it.
pub struct Board {
    core: Rc<BoardCore>,
}

/// A board.
pub(super) struct BoardCore {
    pub(super) host: Host,
    pub(super) rows: BoardRows,
    pub(super) store: Store,
    pub(super) loaded: RefCell<Option<Loaded>>,
    storage: StorageGuard,
    /// The generation of a board that is being created.
    beginning: Cell<Option<u64>>,
    /// Whether all rows are being deleted.
    pub(super) is_ending: Cell<bool>,
    /// The time of the alarm, as far as known: unix milliseconds.
    pub(super) armed_ms: Cell<i64>,
    /// The load of this object.
    pub(super) meter: RefCell<FlushMeter>,
    /// The state of moves that is kept in memory only.
    pub(super) moves: BoardMoves,
}

impl Board {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        let store = Store::new(object);
        let core = BoardCore {
            host,
            rows: BoardRows::new(store.clone()),
            store,
            loaded: RefCell::default(),
            storage: StorageGuard::default(),
            beginning: Cell::default(),
            is_ending: Cell::default(),
            armed_ms: Cell::new(i64::MAX),
            meter: RefCell::default(),
            moves: BoardMoves::default(),
        };
        core.load();
        Self {
            core: Rc::new(core),
        }
    }
}

impl Shell for Board {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Reply> {
        Box::pin(async move {
            let core = &self.core;
            dispatch!(&arrived, message, {
                WriteBoard => core.on_write(message).await,
                WriteBoards => core.on_write_many(message).await,
                AskBoard => core.on_ask(message).await,
                ConfigureBoard => core.on_configure(message).await,
                EndBoard => core.on_end(message).await,
                RunSorted => core.on_run(message).await,
                CommandShard => core.on_command(message).await,
                ReportShard => core.on_report(message).await,
            })
        })
    }

    fn reload(&self) {
        self.core.load();
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.core.ring().await })
    }
}

impl BoardCore {
    pub(super) fn load(&self) {
        self.loaded.take();
        let loaded = Loaded::load(&self.rows);
        self.storage
            .record(loaded.map(|loaded| drop(self.loaded.replace(loaded))));
    }

    pub(super) fn readable(&self) -> Result<(), Fault> {
        if self.is_ending.get() {
            return Err(Fault::Unavailable("the board is being deleted".to_owned()));
        }
        self.storage.check(|| self.load())
    }

    /// Changes the board in one commit. If it fails, memory is read again before any other answer. Members that were
    /// read ahead are valid for this commit only.
    pub(super) fn commit<T>(
        &self,
        mut work: impl FnMut(&mut Loaded) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut outcome = None;
        self.commit_all(&mut |loaded| {
            outcome = Some(work(loaded)?);
            Ok(())
        })?;
        outcome.ok_or_else(|| Fault::Broken("nothing was committed".to_owned()))
    }

    fn commit_all(
        &self,
        work: &mut dyn FnMut(&mut Loaded) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        // Meanwhile another call may have found that memory differs from storage.
        self.storage.check(|| self.load())?;
        let committed = self.store.atomically(|| {
            let mut loaded = self.loaded.borrow_mut();
            let absent = || Fault::Broken("there is no board".to_owned());
            let loaded = loaded.as_mut().ok_or_else(absent)?;
            if loaded.role.at.layout > 0 {
                loaded.next_sequence = first_sequence(self.host.now_ms());
            }
            work(loaded)?;
            loaded.store(&self.rows)
        });
        self.rows.forget_ahead();
        if let Err(fault) = committed {
            self.storage
                .record(Err(Fault::Unavailable("a commit failed".to_owned())));
            return Err(fault);
        }
        Ok(())
    }

    /// Removes expired members and periods.
    pub(super) fn catch_up(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let is_behind = self.loaded.borrow().as_ref().is_some_and(|loaded| {
            let has_expired = loaded
                .next_expiry_ms
                .is_some_and(|next_ms| next_ms <= now_ms);
            loaded.is_at_work() && (loaded.has_ended(now_ms) || has_expired)
        });
        if is_behind {
            self.commit(|loaded| loaded.catch_up(&self.rows, now_ms))?;
        }
        Ok(())
    }

    /// Whether the board waits for the end of its period, as [`Loaded::is_ending`] says.
    pub(super) fn is_ending_period(&self) -> bool {
        let loaded = self.loaded.borrow();
        loaded.as_ref().is_some_and(|loaded| loaded.is_ending)
    }

    pub(super) fn is_living(&self) -> bool {
        let loaded = self.loaded.borrow();
        loaded.as_ref().is_some_and(|loaded| loaded.head.is_living)
    }

    pub(super) fn generation(&self) -> Option<u64> {
        let loaded = self.loaded.borrow();
        loaded.as_ref().map(|loaded| loaded.head.generation)
    }

    /// Creates the board where there is none: the directory registers it first.
    async fn begin(
        &self,
        board: &CounterId,
        settings: Settings,
        placing: &Placing,
    ) -> Result<(), Fault> {
        for _ in 0..BEGUN_TRIES {
            if self.is_living() {
                return Ok(());
            }
            let next = self.generation().map_or(1, |before| before + 1);
            let now = u64::try_from(self.host.now_ms()).unwrap_or(0);
            // Concurrent creations use the same generation.
            let generation = self.beginning.get().unwrap_or(now).max(next);
            self.beginning.set(Some(generation));
            let register = RegisterBoard {
                board: board.clone(),
                generation,
            };
            call(&self.host, &register).await?;
            self.readable()?;
            // A deletion meanwhile has removed the registration, and raised the number.
            let is_registered = self.beginning.get() <= Some(generation);
            if is_registered && !self.is_living() && self.generation() < Some(generation) {
                return self.begin_as(board, generation, settings, placing);
            }
        }
        Err(Fault::Unavailable("the board is being deleted".to_owned()))
    }

    pub(super) fn begin_as(
        &self,
        board: &CounterId,
        generation: u64,
        settings: Settings,
        placing: &Placing,
    ) -> Result<(), Fault> {
        self.beginning.set(None);
        if self.generation().is_none() {
            self.rows.create()?;
            let mut loaded = Loaded::new(board, generation);
            // If only the head was discarded, the role still names the shards. They ignore a state whose sequence is
            // not above the last one that they received.
            loaded.role = self.rows.role()?;
            if !loaded.role.is_here() {
                loaded.head.sequence = first_sequence(self.host.now_ms());
            }
            self.loaded.replace(Some(loaded));
        }
        self.commit(|loaded| {
            loaded.head.generation = generation;
            loaded.head.is_living = true;
            loaded.head.settings = settings;
            loaded.head.period = (0, 0);
            loaded.role.placing = placing.clone();
            // Shards get the settings before any answer shows them.
            loaded.role.has_unsent_state = !loaded.role.is_here();
            loaded.head.sequence += u64::from(loaded.role.has_unsent_state);
            Ok(())
        })
    }

    /// The layout of the board.
    pub(super) fn layout(&self) -> Layout {
        let loaded = self.loaded.borrow();
        loaded
            .as_ref()
            .map_or_else(Layout::default, |loaded| loaded.role.layout)
    }

    /// `None` if this object has the requested members, otherwise the reason why not.
    fn misplaced(&self, at: ShardAt) -> Option<Misplaced> {
        let loaded = self.loaded.borrow();
        let Some(Loaded { head, role, .. }) = loaded.as_ref() else {
            return (at.layout > 0).then_some(Misplaced::Stale);
        };
        if role.at != at {
            return Some(Misplaced::Stale);
        }
        if !role.is_here() {
            return Some(Misplaced::Spread(role.layout));
        }
        if role.sealed > 0 {
            return Some(Misplaced::Moving);
        }
        (at.layout > 0 && !head.is_living).then_some(Misplaced::Stale)
    }

    async fn on_write(&self, message: Result<WriteBoard, Fault>) -> Result<BoardWritten, Fault> {
        let WriteBoard {
            board,
            at,
            home,
            writes,
            once,
            sequences,
        } = message?;
        let requests = vec![(writes, once, sequences)];
        let written = self.write_many(&board, at, home, &requests).await?;
        let nothing = || Fault::Broken("a write was not answered".to_owned());
        written.into_iter().next().ok_or_else(nothing)
    }

    async fn on_write_many(
        &self,
        message: Result<WriteBoards, Fault>,
    ) -> Result<Vec<BoardWritten>, Fault> {
        let WriteBoards {
            board,
            at,
            home,
            requests,
        } = message?;
        let requests = requests.into_iter();
        let requests: Vec<Request> = requests
            .map(|(writes, once)| (writes, once, Vec::new()))
            .collect();
        self.write_many(&board, at, home, &requests).await
    }

    /// Makes the writes of several requests, one after the other and in one commit.
    async fn write_many(
        &self,
        board: &CounterId,
        at: ShardAt,
        home: Option<Datacenter>,
        requests: &[Request],
    ) -> Result<Vec<BoardWritten>, Fault> {
        self.ready(board, at).await?;
        self.record_load(requests.len());
        let all = |answer: BoardWritten| Ok(vec![answer; requests.len()]);
        if at.layout == 0 && !self.is_living() {
            // A retry is not applied to the next board.
            let known = self.known_of_ended(board, requests).await?;
            let mut unknown = requests.iter().zip(&known);
            if !unknown.any(|((writes, ..), known)| known.is_none() && begins(writes)) {
                let unmade = known.into_iter().zip(requests);
                let unmade = unmade.map(|(known, (writes, ..))| {
                    known.unwrap_or_else(|| self.without_board(writes))
                });
                return Ok(unmade.collect());
            }
            let placing = Placing {
                home,
                ..Placing::default()
            };
            self.begin(board, Settings::default(), &placing).await?;
        }
        self.send_settings().await?;
        if let Some(misplaced) = self.misplaced(at) {
            // The owner that moved the members may be gone: the alarm then cancels the move.
            self.arm().await;
            if matches!(misplaced, Misplaced::Stale) {
                return self.known_or_stale(at, requests);
            }
            return all(misplaced.into());
        }
        for _ in 0..EXPIRED_TURNS {
            self.catch_up()?;
            if self.is_ending_period() {
                self.arm().await;
                return all(BoardWritten::Moving);
            }
        }
        let written = self.write(requests)?;
        self.arm().await;
        Ok(written)
    }

    /// The result of earlier writes with this key, if there were any.
    fn known(&self, once: Option<&OnceKey>) -> Result<Option<BoardWritten>, Fault> {
        let loaded = self.loaded.borrow();
        match (loaded.as_ref(), once) {
            (Some(loaded), Some(once)) => self.known_in(&loaded.head, once),
            _ => Ok(None),
        }
    }

    /// The earlier results of requests to a board that has ended or never existed: by the records of this object and,
    /// if the board was spread, by those of its shards.
    async fn known_of_ended(
        &self,
        board: &CounterId,
        requests: &[Request],
    ) -> Result<Vec<Option<BoardWritten>>, Fault> {
        let mut known = Vec::with_capacity(requests.len());
        for (_, once, _) in requests {
            known.push(self.known(once.as_ref())?);
        }
        let (layout, has_unsent_state, home) = {
            let loaded = self.loaded.borrow();
            let role = loaded.as_ref().map(|loaded| loaded.role.clone());
            let BoardRole {
                layout,
                has_unsent_state,
                placing,
                ..
            } = role.unwrap_or_default();
            (layout, has_unsent_state, placing.home)
        };
        let mut claims: BTreeMap<ShardAt, Vec<(usize, OnceKey)>> = BTreeMap::new();
        for (number, ((_, once, _), known)) in requests.iter().zip(&known).enumerate() {
            if let (1.., Some(once), None) = (layout.number, once, known) {
                let at = layout.shard_of_member(&MemberWrite::claim_of(once.key).member);
                claims.entry(at).or_default().push((number, *once));
            }
        }
        if has_unsent_state && !claims.is_empty() {
            // A shard that does not know of the end would accept the claims.
            self.send_end(board).await?;
        }
        for (at, claims) in claims {
            let requests = claims
                .iter()
                .map(|(_, once)| (vec![MemberWrite::claim_of(once.key)], Some(once.claim())));
            let write = WriteBoards {
                board: board.clone(),
                at,
                home: home.clone(),
                requests: requests.collect(),
            };
            for ((number, _), answer) in claims.iter().zip(call(&self.host, &write).await?) {
                let is_known = matches!(answer, BoardWritten::Ended | BoardWritten::Reused);
                if let Some(known) = known.get_mut(*number).filter(|_| is_known) {
                    *known = Some(answer);
                }
            }
        }
        Ok(known)
    }

    /// The answer to writes that do not create a board, if there is none.
    fn without_board(&self, writes: &[MemberWrite]) -> BoardWritten {
        if writes.iter().any(|write| write.condition.is_none()) {
            return BoardWritten::Ended;
        }
        // A condition on a member does not hold for a missing one.
        let refused = (0..)
            .zip(writes)
            .map(|(index, _)| (index, MemberRefusal::Changed));
        BoardWritten::Done(MemberOutcome {
            generation: self.generation().unwrap_or(0),
            sequence: 0,
            at_ms: self.host.now_ms(),
            total: 0,
            accepted: 0,
            changed: 0,
            refused: refused.collect(),
            stand: None,
        })
    }

    /// The answers of a shard without members. It still has the keys of a board that has ended.
    fn known_or_stale(
        &self,
        at: ShardAt,
        requests: &[Request],
    ) -> Result<Vec<BoardWritten>, Fault> {
        let loaded = self.loaded.borrow();
        let loaded = loaded.as_ref().filter(|loaded| loaded.role.at == at);
        let known = |(writes, once, _): &Request| {
            let (Some(loaded), Some(once)) = (loaded, once) else {
                return Ok(BoardWritten::Stale);
            };
            let mut known = self.known_in(&loaded.head, &whole_key(writes.first(), once))?;
            if known.is_none() {
                let writes: Vec<OrderedWrite> = writes.iter().zip(repeat(0)).collect();
                let groups = self.groups_of(loaded, &writes, once)?;
                known = groups.into_iter().find_map(|(.., known)| known);
            }
            Ok(known.unwrap_or(BoardWritten::Stale))
        };
        requests.iter().map(known).collect()
    }

    fn known_in(&self, head: &Head, once: &OnceKey) -> Result<Option<BoardWritten>, Fault> {
        let slots = head.ledgers().slots(once.keys);
        let record: Option<Record> = self.rows.record(&slots, once.key)?;
        Ok(record.map(|record| {
            if record.fingerprint != once.fingerprint {
                BoardWritten::Reused
            } else if record.written.generation != head.generation || !head.is_living {
                BoardWritten::Ended
            } else {
                BoardWritten::Replayed(record.written)
            }
        }))
    }

    fn limits_of(&self, keys: KeySource) -> LedgerLimits {
        let limits = ledger_limits(&self.host);
        match keys {
            KeySource::Public => LedgerLimits::public(limits.kept_ms, 0, PUBLIC_RECORDS_MAX),
            _ => limits,
        }
    }

    /// Makes the writes of requests in one commit, each once.
    fn write(&self, requests: &[Request]) -> Result<Vec<BoardWritten>, Fault> {
        let now_ms = self.host.now_ms();
        self.commit(|loaded| {
            let mut ledgers = loaded.head.ledgers();
            if let Some(newest) = ledgers.expire(now_ms) {
                self.rows.delete_records(newest)?;
                loaded.head.set_ledgers(&ledgers);
            }
            let writes = requests.iter().flat_map(|(writes, ..)| writes);
            let names: Vec<&[u8]> = writes.map(|write| write.member.as_slice()).collect();
            let is_one_each =
                names.len() > 1 && self.rows.read_ahead(loaded.head.epoch, &names)? == names.len();
            let (mut all, mut unranked) = (Vec::with_capacity(requests.len()), Vec::new());
            for (writes, once, sequences) in requests {
                // An object with the whole board orders writes by its own sequence.
                let sequences = match loaded.role.at.layout {
                    0 => &[],
                    _ => sequences.as_slice(),
                };
                let sequences = sequences.iter().copied().chain(repeat(0));
                let writes: Vec<OrderedWrite> = writes.iter().zip(sequences).collect();
                all.push(match once {
                    Some(once) => self.make_once(loaded, &writes, once, now_ms)?,
                    None => {
                        let (mut outcome, only) = self.make_all(loaded, &writes, now_ms)?;
                        match only {
                            Some(only) if is_one_each => unranked.push((all.len(), only)),
                            only => self.rank(loaded, &mut outcome, only)?,
                        }
                        BoardWritten::Done(outcome)
                    }
                });
            }
            // No later write in the commit has changed these members.
            let (indices, members): (Vec<usize>, Vec<NamedPair>) = unranked.into_iter().unzip();
            for (index, rank) in indices.into_iter().zip(self.ranks(loaded, &members)?) {
                if let Some(BoardWritten::Done(outcome)) = all.get_mut(index) {
                    put_rank(loaded, outcome, rank);
                }
            }
            Ok(all)
        })
    }

    /// The ranks of these members; none while expired members are still counted.
    fn ranks(&self, loaded: &Loaded, members: &[NamedPair]) -> Result<Vec<Option<u64>>, Fault> {
        match loaded.is_exact && !members.is_empty() {
            true => loaded.reader(&self.rows).ranks(members),
            false => Ok(Vec::new()),
        }
    }

    /// Puts the rank of the only written member into the outcome.
    fn rank(
        &self,
        loaded: &Loaded,
        outcome: &mut MemberOutcome,
        only: Option<NamedPair>,
    ) -> Result<(), Fault> {
        if let Some(rank) = self.ranks(loaded, only.as_slice())?.pop() {
            put_rank(loaded, outcome, rank);
        }
        Ok(())
    }

    /// Makes writes that have a key. In a shard each group of members has a separate record, which moves with the
    /// group. A claim has a separate record too.
    fn make_once(
        &self,
        loaded: &mut Loaded,
        writes: &[OrderedWrite<'_>],
        once: &OnceKey,
        now_ms: i64,
    ) -> Result<BoardWritten, Fault> {
        let is_spread = loaded.role.at.layout > 0;
        let whole = whole_key(writes.first().map(|(write, _)| *write), once);
        if let Some(known) = self.known_in(&loaded.head, &whole)? {
            return Ok(match known {
                BoardWritten::Replayed(written) if is_spread => {
                    BoardWritten::ReplayedWhole(written)
                }
                known => known,
            });
        }
        if !is_spread {
            return self.make_recorded(loaded, writes, once, now_ms);
        }
        let groups = self.groups_of(loaded, writes, once)?;
        // All records are written, or none.
        let (mut room, limits) = (loaded.head.ledgers(), self.limits_of(once.keys));
        for (.., known) in &groups {
            match known {
                Some(BoardWritten::Replayed(_)) => {}
                Some(refusal) => return Ok(refusal.clone()),
                None if room.admit(limits, now_ms).is_none() => return Ok(BoardWritten::Full),
                None => {}
            }
        }
        let (mut whole, mut is_new) = (None::<MemberOutcome>, false);
        for (indices, of_group, known) in groups {
            let some = indices.iter().filter_map(|index| {
                let index = usize::try_from(*index).ok()?;
                writes.get(index).copied()
            });
            let written = match known {
                Some(known) => known,
                None => {
                    is_new = true;
                    let some: Vec<OrderedWrite> = some.collect();
                    self.make_recorded(loaded, &some, &of_group, now_ms)?
                }
            };
            let (BoardWritten::Done(written) | BoardWritten::Replayed(written)) = written else {
                return Ok(written);
            };
            let index_of = |index: u32| {
                let index = usize::try_from(index).ok()?;
                indices.get(index).copied()
            };
            let written = MemberOutcome {
                refused: (written.refused.iter())
                    .filter_map(|(index, why)| Some((index_of(*index)?, *why)))
                    .collect(),
                ..written
            };
            whole = Some(match whole {
                None => written,
                Some(before) => before.and(written),
            });
        }
        let whole = whole.ok_or_else(|| Fault::Broken("writes of no member".to_owned()))?;
        Ok(match is_new {
            true => BoardWritten::Done(whole),
            false => BoardWritten::Replayed(whole),
        })
    }

    /// The indices of the writes of each group, the key of their record, and the result that is stored with it.
    fn groups_of(
        &self,
        loaded: &Loaded,
        writes: &[OrderedWrite<'_>],
        once: &OnceKey,
    ) -> Result<Vec<GroupWrites>, Fault> {
        let mut groups = Vec::new();
        for group in 0..GROUPS {
            let indices: Vec<u32> = (0..)
                .zip(writes)
                .filter(|(_, (write, _))| group_of(&write.member) == group)
                .map(|(index, _)| index)
                .collect();
            if indices.is_empty() {
                continue;
            }
            let key = group_key(once.key, group);
            let of_group = OnceKey { key, ..*once };
            let known = self.known_in(&loaded.head, &of_group)?;
            groups.push((indices, of_group, known));
        }
        Ok(groups)
    }

    /// Makes writes whose key is new, and stores their result.
    fn make_recorded(
        &self,
        loaded: &mut Loaded,
        writes: &[OrderedWrite<'_>],
        once: &OnceKey,
        now_ms: i64,
    ) -> Result<BoardWritten, Fault> {
        let mut ledgers = loaded.head.ledgers();
        let Some(slot) = ledgers.admit(self.limits_of(once.keys), now_ms) else {
            return Ok(BoardWritten::Full);
        };
        loaded.head.set_ledgers(&ledgers);
        let (mut written, only) = self.make_all(loaded, writes, now_ms)?;
        self.rank(loaded, &mut written, only)?;
        let record = Record {
            fingerprint: once.fingerprint,
            written: written.clone(),
        };
        let is_noted = loaded.role.recording > 0;
        self.rows.put_record(slot, once.key, &record, is_noted)?;
        Ok(BoardWritten::Done(written))
    }

    /// Makes writes. Returns the member of a single write too, whose rank is not known yet.
    fn make_all(
        &self,
        loaded: &mut Loaded,
        writes: &[OrderedWrite<'_>],
        now_ms: i64,
    ) -> Result<(MemberOutcome, Option<NamedPair>), Fault> {
        let (mut accepted, mut changed) = (0, 0);
        let (mut refused, mut last) = (Vec::new(), None);
        for ((write, sequence), index) in writes.iter().zip(0..) {
            match loaded.make(&self.rows, write, *sequence, now_ms)? {
                Ok((stand, member, is_changed)) => {
                    accepted += 1;
                    changed += u64::from(is_changed);
                    last = Some((stand, member));
                }
                Err(refusal) => refused.push((index, refusal)),
            }
        }
        let (stand, only) = match (writes, last) {
            ([(only, _)], Some((stand, member))) => (
                Some(stand),
                member.map(|member| (only.member.clone(), member)),
            ),
            _ => ((!loaded.is_exact).then(MemberStanding::default), None),
        };
        let outcome = MemberOutcome {
            generation: loaded.head.generation,
            sequence: loaded.head.sequence,
            at_ms: now_ms,
            total: loaded.directory.total(),
            accepted,
            changed,
            refused,
            stand,
        };
        Ok((outcome, only))
    }

    async fn on_ask(&self, message: Result<AskBoard, Fault>) -> Result<BoardAnswer, Fault> {
        let message = message?;
        self.ready(&message.board, message.at).await?;
        self.record_load(1);
        if message.at.layout == 0 && !self.is_living() {
            return Ok(BoardAnswer::Absent);
        }
        if let Some(misplaced) = self.misplaced(message.at) {
            self.arm().await;
            return Ok(misplaced.into());
        }
        self.catch_up()?;
        self.arm().await;
        if self.is_ending_period() {
            return Ok(BoardAnswer::Moving);
        }
        self.read(&message)
    }

    fn read(&self, message: &AskBoard) -> Result<BoardAnswer, Fault> {
        let mut loaded = self.loaded.borrow_mut();
        let Some(loaded) = loaded.as_mut().filter(|loaded| loaded.head.is_living) else {
            return Ok(BoardAnswer::Absent);
        };
        let (generation, sequence) = (loaded.head.generation, loaded.head.sequence);
        if message
            .at_least
            .is_some_and(|least| least > (generation, sequence))
        {
            return Ok(BoardAnswer::NotReached(generation, sequence));
        }
        let (start, end) = loaded.head.period;
        let mut period = PeriodOf {
            start,
            end,
            total: loaded.directory.total(),
        };
        let periods = match (message.period, &message.question) {
            (None, BoardQuestion::Periods) | (Some(_), _) => self.rows.periods()?,
            _ => Vec::new(),
        };
        let mut epoch = loaded.head.epoch;
        if let Some(wanted) = message.period.filter(|wanted| *wanted != start) {
            let found = periods.iter().find(|(_, period)| period.start == wanted);
            let Some((number, ended)) = found else {
                return Ok(BoardAnswer::NoPeriod);
            };
            (epoch, period) = (*number, *ended);
            if loaded
                .ended
                .as_ref()
                .is_none_or(|(known, _)| known != number)
            {
                loaded.ended = Some((*number, self.rows.directory(*number)?));
            }
        }
        let ended = loaded.ended.as_ref().filter(|(known, _)| *known == epoch);
        let reader = Reader {
            epoch,
            start: period.start,
            directory: ended.map_or(&loaded.directory, |(_, directory)| directory),
            ..loaded.reader(&self.rows)
        };
        let mut seen = BoardSeen {
            generation,
            sequence,
            as_of_ms: self.host.now_ms(),
            is_exact: loaded.is_exact || epoch != loaded.head.epoch,
            settings: loaded.head.settings,
            period,
            count: period.total,
            has_more: false,
            rows: Vec::new(),
            periods: periods.into_iter().map(|(_, period)| period).collect(),
            members: Vec::new(),
            better: Vec::new(),
            placing: loaded.role.placing.clone(),
            layout: loaded.role.layout,
            sequences: Vec::new(),
            summaries: Vec::new(),
            slack: Vec::new(),
        };
        reader.answer_into(&mut seen, &message.question)?;
        Ok(BoardAnswer::Seen(Box::new(seen)))
    }

    async fn on_configure(
        &self,
        message: Result<ConfigureBoard, Fault>,
    ) -> Result<BoardConfigured, Fault> {
        let ConfigureBoard {
            board,
            settings,
            placing,
            here,
        } = message?;
        let first = Placing {
            home: Some(placing.home.clone().unwrap_or(here)),
            ..placing
        };
        if settings.check().is_err() {
            return Err(Fault::Broken("settings that are not valid".to_owned()));
        }
        self.ready(&board, ShardAt::default()).await?;
        let is_new = !self.is_living();
        self.begin(&board, settings, &first).await?;
        self.catch_up()?;
        if self.is_ending_period() {
            self.arm().await;
            return Err(ending());
        }
        let now_ms = self.host.now_ms();
        let is_done = self.commit(|loaded| {
            let head = &mut loaded.head;
            let before = head.settings;
            if !settings.may_follow(&before) {
                let is_spread = loaded.role.layout.number > 0;
                if is_spread || head.members > 0 || !self.rows.periods()?.is_empty() {
                    return Ok(false);
                }
                head.period = (0, 0);
            }
            let placed = loaded.role.placing.clone();
            // Without a home in the request, the former home stays.
            let home = placing.home.clone().or_else(|| placed.home.clone());
            let now_placed = Placing {
                home: home.or_else(|| first.home.clone()),
                ..placing
            };
            let is_changed = before != settings || placed != now_placed;
            loaded.head.settings = settings;
            loaded.head.sequence += u64::from(is_changed);
            loaded.role.has_unsent_state = loaded.role.layout.number > 0;
            let has_moved = placed.home.is_some() && placed.home != now_placed.home;
            loaded.role.is_elsewhere |= !is_new && has_moved;
            loaded.role.placing = now_placed;
            loaded.keep_periods(&self.rows, settings.archive)?;
            loaded.catch_up(&self.rows, now_ms)?;
            Ok(true)
        })?;
        if !is_done {
            return Ok(BoardConfigured::Fixed);
        }
        self.hurry();
        self.arm().await;
        self.send_settings().await?;
        let about = AskBoard::new(&board, BoardQuestion::About);
        match self.read(&about)? {
            BoardAnswer::Seen(seen) => Ok(BoardConfigured::Done(seen, is_new)),
            _ => Err(Fault::Unavailable(
                "the board has just been deleted".to_owned(),
            )),
        }
    }

    async fn on_end(&self, message: Result<EndBoard, Fault>) -> Result<bool, Fault> {
        let EndBoard { board, generation } = message?;
        self.ready(&board, ShardAt::default()).await?;
        if generation.is_some() && generation != self.generation() {
            return Ok(false);
        }
        let was_living = self.is_living();
        if was_living {
            self.commit(|loaded| {
                loaded.head.is_living = false;
                loaded.role.has_unsent_state = loaded.role.layout.number > 0;
                loaded.begin_epoch();
                loaded.keep_periods(&self.rows, 0)
            })?;
            // If a shard does not answer, or this object ends, the alarm continues the work.
            self.put_off();
            self.arm().await;
        }
        self.send_end(&board).await?;
        self.arm().await;
        Ok(was_living)
    }

    /// Notifies the shards of an ended board, then the directory, of its end.
    ///
    /// # Errors
    /// If one does not answer; the alarm then notifies it.
    pub(super) async fn send_end(&self, board: &CounterId) -> Result<(), Fault> {
        if self.is_living() {
            // The board was created again, and has registered itself.
            return Ok(());
        }
        let ended = self.generation();
        if let (layout @ Layout { number: 1.., .. }, Some(generation)) = (self.layout(), ended) {
            let end = ShardCommand::End(generation);
            self.command_all(board, layout, &end).await?;
        }
        let generation = ended.unwrap_or_else(|| {
            // A board that was registered and never created is removed from the directory. If its creation continues,
            // it is registered again: `begin` sees the higher number.
            let now = u64::try_from(self.host.now_ms()).unwrap_or(0);
            let last = self.beginning.get().unwrap_or(0).max(now);
            self.beginning.set(Some(last + 1));
            last
        });
        let forget = ForgetBoard {
            board: board.clone(),
            generation,
        };
        call(&self.host, &forget).await?;
        let has_unsent_end = |loaded: &Loaded| {
            let Loaded { head, role, .. } = loaded;
            role.has_unsent_state && !head.is_living && Some(head.generation) == ended
        };
        if self.loaded.borrow().as_ref().is_some_and(has_unsent_end) {
            self.commit(|loaded| {
                loaded.role.has_unsent_state = false;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Sets the alarm for the next due time. If that fails, the next call does what is due.
    pub(super) async fn arm(&self) {
        let due_ms = self.due_ms();
        if due_ms >= self.armed_ms.get() {
            return;
        }
        match self.store.set_alarm_by(due_ms).await {
            Ok(()) => self.armed_ms.set(due_ms),
            Err(fault) => self.host.fail(&format!("the alarm of a board: {fault}")),
        }
    }

    /// The next time at which something is due, unix milliseconds.
    fn due_ms(&self) -> i64 {
        let loaded = self.loaded.borrow();
        let Some(Loaded {
            head,
            next_expiry_ms,
            ..
        }) = loaded.as_ref()
        else {
            return i64::MAX;
        };
        let is_at_work = loaded.as_ref().is_some_and(Loaded::is_at_work);
        let ends = is_at_work && head.period.1 > 0 && head.members > 0;
        let times_ms = [
            self.move_due_ms(),
            next_expiry_ms.filter(|_| is_at_work),
            ends.then(|| head.period.1.saturating_mul(1_000)),
            head.ledgers().due_at_ms(),
            (head.swept_epoch < head.epoch).then(|| self.host.now_ms() + SWEEP_MS),
        ];
        times_ms.into_iter().flatten().min().unwrap_or(i64::MAX)
    }

    async fn ring(&self) -> Result<(), Fault> {
        self.armed_ms.set(i64::MAX);
        if let Err(fault) = self.run_due_work().await {
            self.host.fail(&format!("the alarm of a board: {fault}"));
            // The platform repeats a failing alarm a few times only.
            let again_ms = self.host.now_ms() + RETRY_MS;
            return self.store.set_alarm_by(again_ms).await;
        }
        self.arm().await;
        Ok(())
    }

    async fn run_due_work(&self) -> Result<(), Fault> {
        self.readable()?;
        if self.generation().is_none() {
            return Ok(());
        }
        self.catch_up()?;
        if !self.sweep_some()? {
            // Objects of ended layouts are told to delete everything before the record that names them is deleted.
            self.move_if_due().await?;
            if !self.sweep_some()? {
                return Ok(());
            }
        }
        self.delete_all().await
    }

    /// Deletes expired rows. Returns whether all rows of this object are expired.
    fn sweep_some(&self) -> Result<bool, Fault> {
        if self.generation().is_none() {
            return Ok(false);
        }
        let now_ms = self.host.now_ms();
        let is_over = self.commit(|loaded| {
            let head = &mut loaded.head;
            let mut ledgers = head.ledgers();
            if let Some(newest) = ledgers.expire(now_ms) {
                self.rows.delete_records(newest)?;
                head.set_ledgers(&ledgers);
            }
            let mut has_rest = head.swept_epoch < head.epoch;
            if has_rest && !self.rows.sweep(head.epoch, SWEPT_AT_ONCE)? {
                (head.swept_epoch, has_rest) = (head.epoch, false);
            }
            // The owner of a spread board names its shards to the next board; a shard waits for commands of its owner.
            let role = &loaded.role;
            let is_left = role.layout.number > 0 || role.moving.is_some() || !role.ended.is_empty();
            Ok(!head.is_living && !has_rest && !is_left && ledgers.records() == 0)
        })?;
        Ok(is_over && self.beginning.get().is_none() && !self.moves.is_receiving())
    }

    /// Deletes all rows.
    pub(super) async fn delete_all(&self) -> Result<(), Fault> {
        self.is_ending.set(true);
        let deleted = self.store.delete_all().await;
        // The alarm is deleted with the rows.
        self.armed_ms.set(i64::MAX);
        self.is_ending.set(false);
        self.load();
        deleted
    }
}

/// The fault of a call that needs a period to begin.
pub(super) fn ending() -> Fault {
    Fault::Unavailable("the period of the board is ending".to_owned())
}

/// The writes of one request, their key, and their sequences, as in [`WriteBoard`].
type Request = (Vec<MemberWrite>, Option<OnceKey>, Vec<u64>);

/// A write, and its sequence; 0 where the object gives its own.
type OrderedWrite<'a> = (&'a MemberWrite, u64);

/// The indices of a group's writes among all, the key of their record, and their result if they were made before.
type GroupWrites = (Vec<u32>, OnceKey, Option<BoardWritten>);

/// Why an object does not have the members that are asked for.
pub(super) enum Misplaced {
    Stale,
    Moving,
    Spread(Layout),
}

impl From<Misplaced> for BoardWritten {
    fn from(misplaced: Misplaced) -> Self {
        match misplaced {
            Misplaced::Stale => Self::Stale,
            Misplaced::Moving => Self::Moving,
            Misplaced::Spread(layout) => Self::Spread(layout),
        }
    }
}

impl From<Misplaced> for BoardAnswer {
    fn from(misplaced: Misplaced) -> Self {
        match misplaced {
            Misplaced::Stale => Self::Stale,
            Misplaced::Moving => Self::Moving,
            Misplaced::Spread(layout) => Self::Spread(layout),
        }
    }
}

/// Whether writes create a missing board. A write that requires an existing member does not.
fn begins(writes: &[MemberWrite]) -> bool {
    let is_put = |write: &MemberWrite| matches!(write.action, MemberAction::Put(_));
    let mut free = writes.iter().filter(|write| write.condition.is_none());
    free.any(is_put)
}

/// The key of a record that is older than the first spread of the board: the client's own. Every shard has these, so a
/// claim is compared with them too.
fn whole_key(first: Option<&MemberWrite>, once: &OnceKey) -> OnceKey {
    match first.is_some_and(MemberWrite::is_claim) {
        true => once.claim(),
        false => *once,
    }
}

/// Puts a rank into the outcome of a write, with the sequence and the number of members at that moment.
fn put_rank(loaded: &Loaded, outcome: &mut MemberOutcome, rank: Option<u64>) {
    if let Some(stand) = &mut outcome.stand {
        stand.rank = rank;
    }
    (outcome.sequence, outcome.total) = (loaded.head.sequence, loaded.directory.total());
}

/// The key of the record of a group, for writes with this key.
fn group_key(key: WriteKey, group: u32) -> WriteKey {
    let mut bytes = key.0;
    for (byte, of_group) in bytes.iter_mut().zip((group + 1).to_le_bytes()) {
        *byte ^= of_group;
    }
    WriteKey(bytes)
}
