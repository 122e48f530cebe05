//! The Durable Object of one board: all its members, in order.
//!
//! Invariants: writes are decided one after the other. Their changes, their key and the counts of segments are one
//! commit. A board is registered in the directory before it has any rows. A deleted board keeps the keys of its writes,
//! so that a retry is not applied to the next board of its name.
//!
//! Members and periods that have expired are removed before anything is answered.

mod commands;

use super::move_state::BoardMoves;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::reads::Reader;
use super::rows::BoardRows;
use super::state::Loaded;
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_core::board::placing::{Layout, Placing, ShardAt, first_sequence};
use tally_core::board::settings::Settings;
use tally_core::counter::autoscale::FlushMeter;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply, Shell};
use tally_shared::call;
use tally_wire::messages::{
    AskBoard, BoardAnswer, BoardConfigured, BoardQuestion, BoardSeen, BoardWritten, CommandShard,
    ConfigureBoard, EndBoard, Fault, PeriodOf, RegisterBoard, ReportShard, RunSorted, WriteBoard,
    WriteBoards,
};

/// The attempts to create a board that is deleted repeatedly.
const BEGUN_TRIES: u32 = 3;

/// How many batches of expired members are removed before writes, so that answers are exact.
pub(super) const EXPIRED_TURNS: u32 = 5;

/// How long after a failed alarm the next one rings, milliseconds.
const RETRY_MS: i64 = 1_000;

/// The time between two sweeps of rows that nobody reads, milliseconds.
const SWEEP_MS: i64 = 100;

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
    pub(super) beginning: Cell<Option<u64>>,
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
    pub(super) async fn begin(
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
    pub(super) fn misplaced(&self, at: ShardAt) -> Option<Misplaced> {
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
        if role.source.is_sealed() {
            return Some(Misplaced::Moving);
        }
        (at.layout > 0 && !head.is_living).then_some(Misplaced::Stale)
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
        // A board without periods has the start 0 and the end 0.
        let is_present = |wanted: i64| wanted == start && end > 0;
        if let Some(wanted) = message.period.filter(|wanted| !is_present(*wanted)) {
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
}

/// The fault of a call that needs a period to begin.
pub(super) fn ending() -> Fault {
    Fault::Unavailable("the period of the board is ending".to_owned())
}

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
