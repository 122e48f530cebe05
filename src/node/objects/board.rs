//! The Durable Object of one board: all its members, in order.
//!
//! Invariants: writes are decided one after the other, and what they change, their key and the counts of segments are one commit; a
//! board is in the directory before it has anything; a deleted board keeps the keys of its writes, so that a retry is not made to the
//! next board of its name.
//!
//! What should be gone by now, because it expires or its period has ended, is gone before anything is answered.

mod commands;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::board_reads::Reader;
use super::board_rows::{BoardRows, Head, Record};
use super::board_state::Loaded;
use super::keyed_writes::ledger_limits;
use super::readable::Readable;
use super::store::Store;
use crate::core::board::settings::Settings;
use crate::core::counter::id::CounterId;
use crate::core::counter::ledger::Keys;
use crate::core::counter::ledgers::{LedgerLimits, PUBLIC_RECORDS_MAX};
use crate::host::Host;
use crate::host::object::{Arrived, Object, Reply, Shell, dispatch};
use crate::node::shared::call;
use crate::protocol::messages::{
    AskBoard, BoardAnswer, BoardConfigured, BoardQuestion, BoardSeen, BoardWritten, ConfigureBoard,
    Deed, EndBoard, Fault, ForgetBoard, MemberWrite, Once, PeriodOf, RegisterBoard, RunSorted,
    Stand, WriteBoard, Written,
};

/// How often a board that is deleted again and again is begun.
const BEGUN_TRIES: u32 = 3;

/// How long an alarm that could not do what is due rests, milliseconds.
const RETRY_MS: i64 = 1_000;

/// Rows of ended periods that an alarm deletes, and how long it rests before the next, milliseconds.
const SWEPT_AT_ONCE: u64 = 2_000;
const SWEEP_MS: i64 = 100;

/// A board, as the platform sees it.
pub struct Board {
    core: Rc<BoardCore>,
}

/// A board.
struct BoardCore {
    host: Host,
    rows: BoardRows,
    store: Store,
    loaded: RefCell<Option<Loaded>>,
    storage: Readable,
    /// The generation of a board that is about to begin.
    beginning: Cell<Option<u64>>,
    /// Whether all that is stored is being deleted.
    is_ending: Cell<bool>,
    /// When the alarm rings, as far as that is known: unix milliseconds.
    armed_ms: Cell<i64>,
}

impl Shell for Board {
    fn start(object: Object, host: Host) -> Self {
        let store = Store::new(object);
        let core = BoardCore {
            host,
            rows: BoardRows::new(store.clone()),
            store,
            loaded: RefCell::default(),
            storage: Readable::default(),
            beginning: Cell::default(),
            is_ending: Cell::default(),
            armed_ms: Cell::new(i64::MAX),
        };
        core.load();
        Self {
            core: Rc::new(core),
        }
    }

    async fn answer(&self, arrived: Arrived) -> Reply {
        let core = &self.core;
        dispatch!(&arrived, asked, {
            WriteBoard => core.on_write(asked).await,
            AskBoard => core.on_ask(asked).await,
            ConfigureBoard => core.on_configure(asked).await,
            EndBoard => core.on_end(asked).await,
            RunSorted => core.on_run(asked).await,
        })
    }

    async fn alarm(&self) -> Result<(), Fault> {
        self.core.ring().await
    }
}

impl BoardCore {
    fn load(&self) {
        self.loaded.take();
        let loaded = Loaded::load(&self.rows);
        self.storage
            .note(loaded.map(|loaded| drop(self.loaded.replace(loaded))));
    }

    fn readable(&self) -> Result<(), Fault> {
        if self.is_ending.get() {
            return Err(Fault::Unavailable("the board is being deleted".to_owned()));
        }
        self.storage.check(|| self.load())
    }

    /// Changes the board in one commit. Where that fails, memory is read again before anything else is answered.
    fn commit<T>(&self, mut work: impl FnMut(&mut Loaded) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut outcome = None;
        let committed = self.store.atomically(|| {
            let mut loaded = self.loaded.borrow_mut();
            let absent = || Fault::Broken("there is no board".to_owned());
            let loaded = loaded.as_mut().ok_or_else(absent)?;
            outcome = Some(work(loaded)?);
            loaded.store(&self.rows)
        });
        if let Err(fault) = committed {
            self.storage
                .note(Err(Fault::Unavailable("a commit failed".to_owned())));
            return Err(fault);
        }
        outcome.ok_or_else(|| Fault::Broken("nothing was committed".to_owned()))
    }

    /// Removes what should be gone by now.
    fn catch_up(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let is_behind = self.loaded.borrow().as_ref().is_some_and(|loaded| {
            let Head {
                settings,
                period,
                is_living,
                ..
            } = &loaded.head;
            let bounds = settings.period.bounds(now_ms, settings.zone_minutes);
            let has_ended = bounds.is_some_and(|(start, _)| start >= period.1);
            let has_expired = loaded
                .next_expiry_ms
                .is_some_and(|next_ms| next_ms <= now_ms);
            *is_living && (has_ended || has_expired)
        });
        if is_behind {
            self.commit(|loaded| loaded.catch_up(&self.rows, now_ms))?;
        }
        Ok(())
    }

    fn is_living(&self) -> bool {
        let loaded = self.loaded.borrow();
        loaded.as_ref().is_some_and(|loaded| loaded.head.is_living)
    }

    fn generation(&self) -> Option<u64> {
        let loaded = self.loaded.borrow();
        loaded.as_ref().map(|loaded| loaded.head.generation)
    }

    /// Begins the board where there is none: it is in the directory first.
    async fn begin(&self, board: &CounterId) -> Result<(), Fault> {
        for _ in 0..BEGUN_TRIES {
            if self.is_living() {
                return Ok(());
            }
            let next = self.generation().map_or(1, |before| before + 1);
            let now = u64::try_from(self.host.now_ms()).unwrap_or(0);
            // Those that begin it at once name one generation.
            let generation = self.beginning.get().unwrap_or(now).max(next);
            self.beginning.set(Some(generation));
            let register = RegisterBoard {
                board: board.clone(),
                generation,
            };
            call(&self.host, &register).await?;
            self.readable()?;
            if !self.is_living() && self.generation() < Some(generation) {
                return self.begin_as(board, generation);
            }
        }
        Err(Fault::Unavailable("the board is being deleted".to_owned()))
    }

    fn begin_as(&self, board: &CounterId, generation: u64) -> Result<(), Fault> {
        self.beginning.set(None);
        if self.generation().is_none() {
            self.rows.create()?;
            self.loaded.replace(Some(Loaded::new(board, generation)));
            return Ok(());
        }
        self.commit(|loaded| {
            loaded.head.generation = generation;
            loaded.head.is_living = true;
            loaded.head.settings = Settings::default();
            loaded.head.period = (0, 0);
            Ok(())
        })
    }

    async fn on_write(&self, asked: Result<WriteBoard, Fault>) -> Result<BoardWritten, Fault> {
        let asked = asked?;
        self.readable()?;
        if let Some(once) = &asked.once
            && let Some(known) = self.known(once)?
        {
            return Ok(known);
        }
        let begins = asked
            .writes
            .iter()
            .any(|write| matches!(write.deed, Deed::Put(_)));
        if begins {
            self.begin(&asked.board).await?;
        } else if !self.is_living() {
            return Ok(BoardWritten::Ended);
        }
        self.catch_up()?;
        // A copy may have come meanwhile.
        let written = self.write(&asked)?;
        self.arm().await;
        Ok(written)
    }

    /// What came of writes with this key, if there were any.
    fn known(&self, once: &Once) -> Result<Option<BoardWritten>, Fault> {
        let loaded = self.loaded.borrow();
        let Some(Loaded { head, .. }) = loaded.as_ref() else {
            return Ok(None);
        };
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

    fn limits_of(&self, keys: Keys) -> LedgerLimits {
        let limits = ledger_limits(&self.host);
        match keys {
            Keys::Public => LedgerLimits::public(limits.kept_ms, 0, PUBLIC_RECORDS_MAX),
            _ => limits,
        }
    }

    fn write(&self, asked: &WriteBoard) -> Result<BoardWritten, Fault> {
        if let Some(once) = &asked.once
            && let Some(known) = self.known(once)?
        {
            return Ok(known);
        }
        let now_ms = self.host.now_ms();
        let limits = asked.once.map(|once| self.limits_of(once.keys));
        self.commit(|loaded| {
            let mut ledgers = loaded.head.ledgers();
            if let Some(newest) = ledgers.expire(now_ms) {
                self.rows.delete_records(newest)?;
                loaded.head.set_ledgers(&ledgers);
            }
            let slot = match limits.map(|limits| ledgers.admit(limits, now_ms)) {
                Some(None) => return Ok(BoardWritten::Full),
                Some(slot) => slot,
                None => None,
            };
            loaded.head.set_ledgers(&ledgers);
            let written = self.make_all(loaded, &asked.writes, now_ms)?;
            if let (Some(once), Some(slot)) = (asked.once, slot) {
                let record = Record {
                    fingerprint: once.fingerprint,
                    written: written.clone(),
                };
                self.rows.put_record(slot, once.key, &record)?;
            }
            Ok(BoardWritten::Done(written))
        })
    }

    fn make_all(
        &self,
        loaded: &mut Loaded,
        writes: &[MemberWrite],
        now_ms: i64,
    ) -> Result<Written, Fault> {
        let (mut accepted, mut changed) = (0, 0);
        let (mut refused, mut last) = (Vec::new(), None);
        for (write, place) in writes.iter().zip(0..) {
            match loaded.make(&self.rows, write)? {
                Ok((stand, is_changed)) => {
                    accepted += 1;
                    changed += u64::from(is_changed);
                    last = Some(stand);
                }
                Err(refusal) => refused.push((place, refusal)),
            }
        }
        let stand = match (writes, last) {
            ([only], Some(stand)) => {
                let member = self.rows.member(loaded.head.epoch, &only.member)?;
                let reader = loaded.reader(&self.rows);
                let rank = member.map(|member| reader.rank(&only.member, &member));
                let rank = rank.transpose()?.flatten();
                Some(Stand { rank, ..stand })
            }
            _ => None,
        };
        Ok(Written {
            generation: loaded.head.generation,
            sequence: loaded.head.sequence,
            at_ms: now_ms,
            total: loaded.directory.total(),
            accepted,
            changed,
            refused,
            stand,
        })
    }

    async fn on_ask(&self, asked: Result<AskBoard, Fault>) -> Result<BoardAnswer, Fault> {
        let asked = asked?;
        self.readable()?;
        self.catch_up()?;
        if !self.is_living() {
            return Ok(BoardAnswer::Absent);
        }
        self.arm().await;
        self.read(&asked)
    }

    fn read(&self, asked: &AskBoard) -> Result<BoardAnswer, Fault> {
        let mut loaded = self.loaded.borrow_mut();
        let Some(loaded) = loaded.as_mut().filter(|loaded| loaded.head.is_living) else {
            return Ok(BoardAnswer::Absent);
        };
        let (generation, sequence) = (loaded.head.generation, loaded.head.sequence);
        if asked
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
        let periods = match (asked.period, &asked.question) {
            (None, BoardQuestion::Periods) | (Some(_), _) => self.rows.periods()?,
            _ => Vec::new(),
        };
        let mut epoch = loaded.head.epoch;
        if let Some(wanted) = asked.period.filter(|wanted| *wanted != start) {
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
        };
        reader.answer_into(&mut seen, &asked.question)?;
        Ok(BoardAnswer::Seen(Box::new(seen)))
    }

    async fn on_configure(
        &self,
        asked: Result<ConfigureBoard, Fault>,
    ) -> Result<BoardConfigured, Fault> {
        let ConfigureBoard { board, settings } = asked?;
        if settings.check().is_err() {
            return Err(Fault::Broken("settings that are not valid".to_owned()));
        }
        self.readable()?;
        let is_new = !self.is_living();
        self.begin(&board).await?;
        self.catch_up()?;
        let now_ms = self.host.now_ms();
        let is_done = self.commit(|loaded| {
            let head = &mut loaded.head;
            let before = head.settings;
            if !settings.may_follow(&before) {
                if head.members > 0 || !self.rows.periods()?.is_empty() {
                    return Ok(false);
                }
                head.period = (0, 0);
            }
            head.settings = settings;
            head.sequence += u64::from(before != settings);
            loaded.keep_periods(&self.rows, settings.archive)?;
            loaded.catch_up(&self.rows, now_ms)?;
            Ok(true)
        })?;
        if !is_done {
            return Ok(BoardConfigured::Fixed);
        }
        self.arm().await;
        let about = AskBoard {
            board,
            period: None,
            at_least: None,
            question: BoardQuestion::About,
        };
        match self.read(&about)? {
            BoardAnswer::Seen(seen) => Ok(BoardConfigured::Done(seen, is_new)),
            _ => Err(Fault::Unavailable(
                "the board has just been deleted".to_owned(),
            )),
        }
    }

    async fn on_end(&self, asked: Result<EndBoard, Fault>) -> Result<bool, Fault> {
        let EndBoard { board } = asked?;
        self.readable()?;
        let was_living = self.is_living();
        if was_living {
            self.commit(|loaded| {
                loaded.head.is_living = false;
                loaded.begin_epoch();
                loaded.keep_periods(&self.rows, 0)
            })?;
        }
        let generation = self.generation();
        // One that is in the directory and never began is let go too.
        let now = u64::try_from(self.host.now_ms()).unwrap_or(0);
        let forget = ForgetBoard {
            board,
            generation: generation.unwrap_or(now),
        };
        call(&self.host, &forget).await?;
        self.arm().await;
        Ok(was_living)
    }

    /// Sets the alarm by what is due next. Where it cannot be set, what is due is done by the next call.
    async fn arm(&self) {
        let due_ms = self.due_ms();
        if due_ms >= self.armed_ms.get() {
            return;
        }
        match self.store.set_alarm_by(due_ms).await {
            Ok(()) => self.armed_ms.set(due_ms),
            Err(fault) => self.host.fail(&format!("the alarm of a board: {fault}")),
        }
    }

    /// When something is due next, unix milliseconds.
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
        let ends = head.is_living && head.period.1 > 0 && head.members > 0;
        let due = [
            next_expiry_ms.filter(|_| head.is_living),
            ends.then(|| head.period.1.saturating_mul(1_000)),
            head.ledgers().due_at_ms(),
            (head.swept_epoch < head.oldest_epoch).then(|| self.host.now_ms() + SWEEP_MS),
        ];
        due.into_iter().flatten().min().unwrap_or(i64::MAX)
    }

    async fn ring(&self) -> Result<(), Fault> {
        self.armed_ms.set(i64::MAX);
        if let Err(fault) = self.do_due().await {
            self.host.fail(&format!("the alarm of a board: {fault}"));
            // An alarm that fails is tried a few times and then never again.
            let again_ms = self.host.now_ms() + RETRY_MS;
            return self.store.set_alarm_by(again_ms).await;
        }
        self.arm().await;
        Ok(())
    }

    async fn do_due(&self) -> Result<(), Fault> {
        self.readable()?;
        if self.generation().is_none() {
            return Ok(());
        }
        self.catch_up()?;
        let now_ms = self.host.now_ms();
        let is_over = self.commit(|loaded| {
            let head = &mut loaded.head;
            let mut ledgers = head.ledgers();
            if let Some(newest) = ledgers.expire(now_ms) {
                self.rows.delete_records(newest)?;
                head.set_ledgers(&ledgers);
            }
            let has_rest = head.swept_epoch < head.oldest_epoch;
            if has_rest && !self.rows.sweep(head.oldest_epoch, SWEPT_AT_ONCE)? {
                head.swept_epoch = head.oldest_epoch;
            }
            Ok(!head.is_living && !has_rest && ledgers.records() == 0)
        })?;
        if is_over && self.beginning.get().is_none() {
            self.is_ending.set(true);
            let deleted = self.store.delete_all().await;
            self.is_ending.set(false);
            self.load();
            deleted?;
        }
        Ok(())
    }
}
