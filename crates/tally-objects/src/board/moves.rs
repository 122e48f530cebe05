//! Moves of a board's members from one layout of shards to another.
//!
//! Invariants: a shard that is not sealed has all members that belong to it, so every answer comes from the current
//! layout, and there is only one. All sources are sealed before the owner begins the next layout, in one commit. A move
//! that fails before that is cancelled, and the former layout stays. A source keeps what it has handed over until it
//! learns that its layout has ended.
//!
//! Life of a move: the owner tells each source to note what changes, and each target to begin without members. It
//! copies the members of all periods and the records of keys, page by page, while writes continue; then what has
//! changed meanwhile, until little is left. It seals the sources, copies the rest, and begins the new layout. Only
//! between the last two steps do writes and reads wait.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::object::BoardCore;
use super::rows::EpochRows;
use super::state::{Loaded, bytes_of};
use crate::kit::store::WHOLE_MAX;
use tally_core::board::directory::SegmentDirectory;
use tally_core::board::placing::{BOARD_SHARDS_MAX, GROUPS, Layout, ShardAt, Shards};
use tally_core::board::settings::MEMBERS_MAX;
use tally_core::counter::id::CounterId;
use tally_core::order::{map_of, set_of};
use tally_host::{Host, State};
use tally_protocol::messages::{
    CommandShard, Fault, MovedMember, MovedRecord, ReportShard, ShardCommand, ShardMeasure,
    ShardReply, ShardState,
};
use tally_protocol::names::{QUIET_MS, SPLIT_FLUSHES_PER_SECOND};
use tally_protocol::shell_limits::BOARD_BYTES_MAX;
use tally_shared::call;
use tally_shared::call::call_again;

/// How many members or records one message of a move holds: at most about 2 MB each.
const PAGE: u64 = 1_000;

/// How often the changes are copied before the sources are sealed.
const ROUNDS_MAX: u32 = 5;

/// The most pages of changes, and of new records, that a round copies from each source: those of a million changed
/// members. Each round has fewer changes than the one before, unless members change faster than they are copied.
const PAGES_MAX: u32 = 1_000;

/// How long a shard may take for a command, milliseconds; meanwhile the command is repeated.
const COMMAND_MS_MAX: u64 = 5_000;

/// How long a copy may make no progress, milliseconds: the platform ends an alarm that takes very long without a
/// notice, and then the move is cancelled. Between two steps are at most three commands.
const SILENT_MS_MAX: i64 = 30_000;

/// The wait after a failed move, milliseconds.
const AGAIN_MS: i64 = 1_000;

/// The default rate of messages a second to one object at which the number of shards is doubled.
const MESSAGES_PER_SECOND: u32 = 1_000;

/// The default time after a change of shards before the next, and between checks whether fewer shards would do,
/// milliseconds.
const QUIET_MS_USUAL: i64 = 60_000;

/// How many members an object has when the number of shards is doubled: half of the most.
const MEMBERS_MANY: u64 = MEMBERS_MAX / 2;
const BYTES_MANY: u64 = BOARD_BYTES_MAX / 2;

/// The deployment's thresholds for spreading boards. An isolate reads them once, because reading a variable is a call
/// into JavaScript.
struct Thresholds {
    messages_per_second: u32,
    quiet_ms: i64,
}

impl State for Thresholds {
    fn begin(host: &Host) -> Self {
        let messages = host.number(SPLIT_FLUSHES_PER_SECOND);
        Self {
            messages_per_second: messages.unwrap_or(MESSAGES_PER_SECOND),
            quiet_ms: host.number(QUIET_MS).unwrap_or(QUIET_MS_USUAL),
        }
    }
}

/// The state of moves in an object's memory: a move whose owner or target has lost it is cancelled.
#[derive(Default)]
pub(super) struct BoardMoves {
    /// When the owner last made a step of copying, unix milliseconds; 0 if it is not copying.
    carried_ms: Cell<i64>,
    /// The number of shards that the reports of shards require; 0 for the present number.
    wanted: Cell<u32>,
    /// When the owner moves next, or checks whether it should; unix milliseconds.
    due_ms: Cell<i64>,
    /// When a shard last reported.
    reported_ms: Cell<i64>,
    /// The progress of a target.
    receiving: RefCell<Option<ReceiveProgress>>,
}

/// The progress of a target that receives members.
struct ReceiveProgress {
    number: u64,
    /// The number of the last message with members that was stored.
    turn: u64,
    /// The number of each period here, by its beginning.
    epochs: BTreeMap<i64, (i64, Epoch)>,
}

/// The record after which a source continues, as in [`ShardCommand::GiveRecords`].
type RecordCursor = (i64, Vec<u8>);

/// The position before the first noted record of a source.
const FIRST_NOTED: RecordCursor = (!0, Vec::new());

/// The progress of an owner's copy.
#[derive(Default)]
struct CopyProgress {
    /// How many messages with members were sent.
    turn: u64,
    /// For each source, the number of the last change that it has returned.
    changes: BTreeMap<ShardAt, u64>,
    /// For each source whose records were copied, the last that it has returned.
    records: BTreeMap<ShardAt, RecordCursor>,
}

/// A period that a target receives.
struct Epoch {
    end: i64,
    directory: SegmentDirectory,
    members: u64,
    bytes: u64,
}

impl BoardMoves {
    /// Whether the owner is copying members now.
    fn is_carrying(&self, now_ms: i64) -> bool {
        now_ms.saturating_sub(self.carried_ms.get()) < SILENT_MS_MAX
    }

    pub(super) fn is_receiving(&self) -> bool {
        self.receiving.borrow().is_some()
    }
}

impl BoardCore {
    /// Records the load of this object; reports to the owner if the load, or the number of members, is too high.
    pub(super) fn record_load(&self, messages: usize) {
        let now_ms = self.host.now_ms();
        let mut meter = self.meter.borrow_mut();
        meter.record(u32::try_from(messages).unwrap_or(u32::MAX), now_ms);
        let flushes = meter.per_second(now_ms).flushes;
        drop(meter);
        let many = self.host.state::<Thresholds>().messages_per_second;
        let loaded = self.loaded.borrow();
        let Some(Loaded { head, role, .. }) = loaded.as_ref() else {
            return;
        };
        let is_much = flushes >= many || head.members >= MEMBERS_MANY || head.bytes >= BYTES_MANY;
        let may_grow = role.placing.shards == Shards::Auto && !role.is_whole;
        if !is_much || !may_grow || !role.is_here() {
            return;
        }
        let report = ReportShard {
            board: head.name.clone(),
            at: role.at,
        };
        drop(loaded);
        if report.at.layout == 0 {
            self.grow(report.at);
            return;
        }
        self.report(report);
    }

    /// Reports to the owner, unless that was done a moment ago.
    pub(super) fn report(&self, report: ReportShard) {
        let now_ms = self.host.now_ms();
        if now_ms.abs_diff(self.moves.reported_ms.get()) < AGAIN_MS.unsigned_abs() {
            return;
        }
        self.moves.reported_ms.set(now_ms);
        let host = self.host.clone();
        self.store.object().wait_until(async move {
            // A later message repeats the report.
            let _ = call(&host, &report).await;
        });
    }

    pub(super) async fn on_report(&self, message: Result<ReportShard, Fault>) -> Result<(), Fault> {
        let ReportShard { board, at } = message?;
        self.readable()?;
        if !self.send_again(&board, at).await? {
            self.grow(at);
            self.arm().await;
        }
        Ok(())
    }

    /// Plans to double the number of shards soon, unless one of them could have no member then.
    fn grow(&self, at: ShardAt) {
        let layout = self.layout();
        let wanted = (layout.shards * 2).min(BOARD_SHARDS_MAX);
        let loaded = self.loaded.borrow();
        let members_max = loaded
            .as_ref()
            .map_or(0, |loaded| loaded.head.settings.members_max);
        if at.layout == layout.number && wanted > layout.shards && u64::from(wanted) <= members_max
        {
            self.moves.wanted.set(wanted);
        }
    }

    /// When the owner must next act on its shards, unix milliseconds.
    pub(super) fn move_due_ms(&self) -> Option<i64> {
        let loaded = self.loaded.borrow();
        let Loaded { head, role, .. } = loaded.as_ref()?;
        let now_ms = self.host.now_ms();
        if role.at.layout > 0 {
            return None;
        }
        if self.moves.is_carrying(now_ms) {
            return None;
        }
        let is_left = role.moving.is_some() || !role.ended.is_empty() || role.has_unsent_state;
        let wants = head.is_living
            && self
                .wanted_shards(role.layout, role.placing.shards, role.is_elsewhere)
                .is_some();
        let rests_ms = self.moves.due_ms.get();
        if is_left || wants {
            return Some(rests_ms.max(now_ms));
        }
        let may_shrink = role.placing.shards == Shards::Auto && role.layout.shards > 1;
        (head.is_living && may_shrink).then(|| rests_ms.max(now_ms + self.quiet_ms()))
    }

    fn quiet_ms(&self) -> i64 {
        self.host.state::<Thresholds>().quiet_ms
    }

    /// The number of shards that there should be, if it differs, or if they should be elsewhere.
    fn wanted_shards(&self, layout: Layout, shards: Shards, is_elsewhere: bool) -> Option<u32> {
        let wanted = match (shards, self.moves.wanted.get()) {
            (Shards::Fixed(shards), _) => shards,
            (Shards::Auto, 0) => layout.shards,
            (Shards::Auto, wanted) => wanted,
        };
        (wanted != layout.shards || is_elsewhere).then_some(wanted)
    }

    /// Does what the owner must do about its shards.
    ///
    /// # Errors
    /// If a shard does not answer; it is then tried again.
    pub(super) async fn move_if_due(&self) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        let Some((board, role, is_living)) = self.role() else {
            return Ok(());
        };
        if role.at.layout > 0 || self.moves.is_carrying(now_ms) || self.moves.due_ms.get() > now_ms
        {
            return Ok(());
        }
        self.moves.due_ms.set(now_ms + AGAIN_MS);
        if role.moving.is_some() {
            // The memory of the copy is gone.
            self.give_up(&board).await?;
        }
        self.send_settings().await?;
        self.end_layouts(&board).await?;
        if !is_living {
            return match role.has_unsent_state {
                true => self.send_end(&board).await,
                false => Ok(()),
            };
        }
        let (layout, shards) = (role.layout, role.placing.shards);
        if let Some(wanted) = self.wanted_shards(layout, shards, role.is_elsewhere) {
            self.record_step();
            let moved = self.spread_over(&board, wanted).await;
            self.moves.carried_ms.set(0);
            if !moved? {
                self.rest(AGAIN_MS);
                return Ok(());
            }
            self.end_layouts(&board).await?;
        } else if shards == Shards::Auto
            && layout.shards > 1
            && self.may_shrink(&board, layout).await?
        {
            self.moves.wanted.set(layout.shards / 2);
            self.moves.due_ms.set(0);
            return Ok(());
        }
        self.rest(self.quiet_ms());
        Ok(())
    }

    /// Makes the board keep its layout for a while, unless new settings meanwhile require a move.
    fn rest(&self, milliseconds: i64) {
        if self.moves.due_ms.get() > 0 {
            self.moves.due_ms.set(self.host.now_ms() + milliseconds);
        }
    }

    /// Records progress of the copy.
    fn record_step(&self) {
        self.moves.carried_ms.set(self.host.now_ms());
    }

    fn role(&self) -> Option<(CounterId, super::rows::BoardRole, bool)> {
        let loaded = self.loaded.borrow();
        let Loaded { head, role, .. } = loaded.as_ref()?;
        Some((head.name.clone(), role.clone(), head.is_living))
    }

    /// Whether the shards have little load, and half of them have room for the members.
    async fn may_shrink(&self, board: &CounterId, layout: Layout) -> Result<bool, Fault> {
        let measured = self
            .command_all(board, layout, &ShardCommand::Measure)
            .await?;
        let (mut all, mut busiest) = (ShardMeasure::default(), 0);
        for reply in measured {
            if let ShardReply::Measured(measure) = reply {
                all.members += measure.members;
                all.bytes += measure.bytes;
                busiest = busiest.max(measure.per_second);
            }
        }
        let many = self.host.state::<Thresholds>().messages_per_second;
        let shards = u64::from(layout.shards / 2);
        let is_small =
            all.members < shards * MEMBERS_MANY / 2 && all.bytes < shards * BYTES_MANY / 2;
        Ok(is_small && busiest < many / 4)
    }

    /// Leaves due work to the caller for a moment.
    pub(super) fn put_off(&self) {
        self.moves.due_ms.set(self.host.now_ms() + AGAIN_MS);
    }

    /// Lets the next move begin at once.
    pub(super) fn hurry(&self) {
        self.moves.due_ms.set(0);
    }

    /// Sends the settings of the board to shards that do not have them yet.
    ///
    /// # Errors
    /// If a shard does not answer; it is sent later.
    pub(super) async fn send_settings(&self) -> Result<(), Fault> {
        let unsent = {
            let loaded = self.loaded.borrow();
            let Some(loaded) = loaded.as_ref() else {
                return Ok(());
            };
            let Loaded { head, role, .. } = loaded;
            if !role.has_unsent_state || !head.is_living {
                return Ok(());
            }
            (head.name.clone(), is_now(loaded))
        };
        let (board, is) = unsent;
        let command = ShardCommand::Begin(is.clone());
        if has_lost(&self.command_all(&board, is.layout, &command).await?) {
            // An object of the layout is gone. They are told again later.
            return Ok(());
        }
        self.commit(|loaded| {
            if is_now(loaded) == is {
                loaded.role.has_unsent_state = false;
            }
            Ok(())
        })
    }

    /// Sends a command to all shards of a layout. Returns their replies, in order.
    ///
    /// # Errors
    /// If one does not answer.
    pub(super) async fn command_all(
        &self,
        board: &CounterId,
        layout: Layout,
        command: &ShardCommand,
    ) -> Result<Vec<ShardReply>, Fault> {
        let send = |at: ShardAt| self.command_shard(board, at, command.clone());
        try_join_all(layout.all().map(send)).await
    }

    /// Sends a command to one shard; runs it here if the owner itself has the members.
    pub(super) async fn command_shard(
        &self,
        board: &CounterId,
        at: ShardAt,
        command: ShardCommand,
    ) -> Result<ShardReply, Fault> {
        if at.layout == 0 {
            return self.obey(command);
        }
        let home = self.role().and_then(|(_, role, _)| role.placing.home);
        let command = CommandShard {
            board: board.clone(),
            at,
            home,
            command,
        };
        // Every command may be repeated, so one without an answer is sent again.
        call_again(&self.host, &command, COMMAND_MS_MAX).await
    }

    /// Tells the objects of ended layouts to delete everything.
    async fn end_layouts(&self, board: &CounterId) -> Result<(), Fault> {
        let ended = self.role().map(|(_, role, _)| role.ended);
        for layout in ended.unwrap_or_default() {
            self.command_all(board, layout, &ShardCommand::Drop).await?;
            self.commit(|loaded| {
                loaded.role.ended.retain(|other| *other != layout);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Cancels the move that is under way: its sources resume, its targets are deleted.
    async fn give_up(&self, board: &CounterId) -> Result<(), Fault> {
        let Some((_, role, _)) = self.role() else {
            return Ok(());
        };
        let Some(moving) = role.moving else {
            return Ok(());
        };
        let unseal = ShardCommand::Unseal(moving.number);
        self.command_all(board, role.layout, &unseal).await?;
        self.commit(|loaded| {
            if loaded.role.moving == Some(moving) {
                loaded.role.moving = None;
                loaded.role.ended.push(moving);
            }
            Ok(())
        })
    }

    /// Moves all members to `shards` shards; returns whether it did. A failed move is cancelled, now or later.
    async fn spread_over(&self, board: &CounterId, shards: u32) -> Result<bool, Fault> {
        let to = self.commit(|loaded| {
            let role = &mut loaded.role;
            role.newest += 1;
            let number = role.newest;
            let to = Layout { number, shards };
            role.moving = Some(to);
            Ok(to)
        })?;
        match self.carry(board, to).await {
            Ok(true) => Ok(true),
            Ok(false) => self.give_up(board).await.map(|()| false),
            Err(fault) => {
                self.give_up(board).await?;
                Err(fault)
            }
        }
    }

    /// Copies everything; returns whether the new layout has begun.
    async fn carry(&self, board: &CounterId, to: Layout) -> Result<bool, Fault> {
        let (is, from) = {
            let loaded = self.loaded.borrow();
            let Some(loaded) = loaded.as_ref() else {
                return Ok(false);
            };
            let is = ShardState {
                layout: to,
                ..is_now(loaded)
            };
            (is, loaded.role.layout)
        };
        let mut carrying = CopyProgress::default();
        let track = ShardCommand::TrackChanges(to.number);
        let tracked = self.command_all(board, from, &track).await?;
        if has_lost(&tracked) {
            self.send_later()?;
            return Ok(false);
        }
        let periods = all_periods(tracked);
        let receive = ShardCommand::Receive(is.clone(), periods.clone().into_iter().collect());
        if has_lost(&self.command_all(board, to, &receive).await?) {
            return Ok(false);
        }
        for source in from.all() {
            if !(self.carry_source(board, (source, to), &periods, &mut carrying)).await? {
                return Ok(false);
            }
        }
        for _ in 0..ROUNDS_MAX {
            let changed = self.carry_changed(board, (from, to), PAGES_MAX, &mut carrying);
            // A page of members and one of records is the least.
            if changed.await?.is_none_or(|pages| pages <= 2 * from.shards) {
                break;
            }
        }
        if !(self.carry_last(board, (from, to), &periods, &mut carrying)).await? {
            return Ok(false);
        }
        let period = periods
            .iter()
            .next_back()
            .map_or((0, 0), |(start, end)| (*start, *end));
        let finish = ShardCommand::Finish(to.number, period);
        if has_lost(&self.command_all(board, to, &finish).await?) {
            return Ok(false);
        }
        self.commit(|loaded| {
            // Writes to an owner that has the members raise its sequence.
            let now = ShardState {
                layout: to,
                sequence: is.sequence,
                ..is_now(loaded)
            };
            let Loaded { head, role, .. } = &*loaded;
            let is_same = role.moving == Some(to) && head.is_living && now == is;
            if is_same {
                self.begin_layout(loaded, from, to)?;
            }
            Ok(is_same)
        })
    }

    /// Seals the sources, and copies the last changes; returns whether it did.
    async fn carry_last(
        &self,
        board: &CounterId,
        (from, to): (Layout, Layout),
        periods: &BTreeMap<i64, i64>,
        carrying: &mut CopyProgress,
    ) -> Result<bool, Fault> {
        let seal = ShardCommand::Seal(to.number);
        let sealed = self.command_all(board, from, &seal).await?;
        let is_lost = has_lost(&sealed);
        // A period may have begun meanwhile.
        let is_other = |start: &i64| !periods.contains_key(start);
        if is_lost || all_periods(sealed).keys().any(is_other) {
            return Ok(false);
        }
        for source in from.all() {
            carrying.records.entry(source).or_default();
        }
        let changed = self.carry_changed(board, (from, to), u32::MAX, carrying);
        Ok(changed.await?.is_some())
    }

    /// Begins the new layout.
    fn begin_layout(&self, loaded: &mut Loaded, from: Layout, to: Layout) -> Result<(), Fault> {
        self.moves.wanted.set(0);
        let role = &mut loaded.role;
        role.layout = to;
        role.moving = None;
        role.is_elsewhere = false;
        role.sealed = 0;
        role.recording = 0;
        if from.number > 0 {
            role.ended.push(from);
            return Ok(());
        }
        // The former rows of this object are deleted by its alarm.
        loaded.begin_epoch();
        loaded.keep_periods(&self.rows, 0)?;
        loaded.head.set_ledgers(&Default::default());
        self.rows.delete_records(WHOLE_MAX)
    }

    /// Copies the members and the records of a source, while it changes.
    async fn carry_source(
        &self,
        board: &CounterId,
        (source, to): (ShardAt, Layout),
        periods: &BTreeMap<i64, i64>,
        carrying: &mut CopyProgress,
    ) -> Result<bool, Fault> {
        for start in periods.keys() {
            if !(self.carry_period(board, (source, to), *start, carrying)).await? {
                return Ok(false);
            }
        }
        let mut all = RecordCursor::default();
        let copied = self.carry_records(board, (source, to), u32::MAX, &mut all);
        // A source that refuses now is asked again once it is sealed.
        if copied.await?.is_some() {
            carrying.records.insert(source, FIRST_NOTED);
        }
        Ok(true)
    }

    /// Copies the members of a period of a source.
    async fn carry_period(
        &self,
        board: &CounterId,
        (source, to): (ShardAt, Layout),
        start: i64,
        carrying: &mut CopyProgress,
    ) -> Result<bool, Fault> {
        let mut after = None;
        loop {
            self.record_step();
            let give = ShardCommand::Give(to.number, start, after.take());
            let ShardReply::Members(members, has_more) =
                self.command_shard(board, source, give).await?
            else {
                return Ok(false);
            };
            after = members.last().map(|(_, name, _)| name.clone());
            if !self.hand_out(board, to, members, carrying).await? {
                return Ok(false);
            }
            if !has_more {
                return Ok(true);
            }
        }
    }

    /// Copies changed members and new records, at most `pages_max` pages of each from each source. Returns the number
    /// of pages; `None` if the move is lost.
    async fn carry_changed(
        &self,
        board: &CounterId,
        (from, to): (Layout, Layout),
        pages_max: u32,
        carrying: &mut CopyProgress,
    ) -> Result<Option<u32>, Fault> {
        let mut pages = 0;
        for source in from.all() {
            for _ in 0..pages_max {
                self.record_step();
                let known = carrying.changes.get(&source).copied().unwrap_or(0);
                let give = ShardCommand::GiveChanged(to.number, known);
                let reply = self.command_shard(board, source, give).await?;
                let ShardReply::Changed(members, last, has_more) = reply else {
                    return Ok(None);
                };
                carrying.changes.insert(source, last);
                if !self.hand_out(board, to, members, carrying).await? {
                    return Ok(None);
                }
                pages += 1;
                if !has_more {
                    break;
                }
            }
            if let Some(last) = carrying.records.get_mut(&source) {
                let copied = self.carry_records(board, (source, to), pages_max, last);
                match copied.await? {
                    Some(of_records) => pages += of_records,
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(pages))
    }

    /// Copies records of a source, at most `pages_max` pages. Returns the number of pages; `None` if the source or a
    /// target does not take part.
    async fn carry_records(
        &self,
        board: &CounterId,
        (source, to): (ShardAt, Layout),
        pages_max: u32,
        last: &mut RecordCursor,
    ) -> Result<Option<u32>, Fault> {
        // A key does not tell its group, only that it is one of its source's groups.
        let from = self.layout();
        let groups = (0..GROUPS).filter(|group| from.shard_of(*group) == source);
        let targets = set_of(groups.map(|group| to.shard_of(group)));
        for page in 1..=pages_max {
            self.record_step();
            let (slot, key) = last.clone();
            let is_noted = slot < 0;
            let give = ShardCommand::GiveRecords(to.number, slot, key);
            let ShardReply::Records(records, has_more) =
                self.command_shard(board, source, give).await?
            else {
                return Ok(None);
            };
            if let Some((slot, key, _)) = records.last() {
                let next = (if is_noted { !*slot } else { *slot }, key.clone());
                // The same page again would never end.
                if next == *last {
                    return Ok(None);
                }
                *last = next;
                let take = ShardCommand::TakeRecords(to.number, records);
                let send = |at| self.command_shard(board, at, take.clone());
                if has_lost(&try_join_all(targets.iter().copied().map(send)).await?) {
                    return Ok(None);
                }
            }
            if !has_more {
                return Ok(Some(page));
            }
        }
        Ok(Some(pages_max))
    }

    /// Sends members to their targets; false if a target has lost the move.
    async fn hand_out(
        &self,
        board: &CounterId,
        to: Layout,
        members: Vec<MovedMember>,
        carrying: &mut CopyProgress,
    ) -> Result<bool, Fault> {
        carrying.turn += 1;
        let turn = carrying.turn;
        let mut parts: BTreeMap<ShardAt, Vec<MovedMember>> = BTreeMap::new();
        for member in members {
            let at = to.shard_of_member(&member.1);
            parts.entry(at).or_default().push(member);
        }
        let take = |(at, members)| {
            self.command_shard(board, at, ShardCommand::Take(to.number, turn, members))
        };
        let taken = try_join_all(parts.into_iter().map(take)).await?;
        Ok(!has_lost(&taken))
    }

    pub(super) async fn on_command(
        &self,
        message: Result<CommandShard, Fault>,
    ) -> Result<ShardReply, Fault> {
        let CommandShard {
            board, at, command, ..
        } = message?;
        self.readable()?;
        match command {
            ShardCommand::Drop => {
                self.moves.receiving.take();
                self.delete_all().await?;
                Ok(ShardReply::Done)
            }
            // A late message must not start a shard that was told to delete everything. A shard whose head was
            // discarded still has its schema.
            ShardCommand::Begin(_) if self.generation().is_none() && !self.rows.is_created()? => {
                Ok(ShardReply::Lost)
            }
            ShardCommand::Begin(is) => self.begin_shard(&board, at, &is, true),
            ShardCommand::Receive(is, periods) => self.receive(&board, at, &is, periods),
            command => {
                let is_mine = self.role().is_some_and(|(_, role, _)| role.at == at);
                let reply = if is_mine {
                    self.obey(command)
                } else {
                    Ok(ShardReply::Lost)
                };
                self.arm().await;
                reply
            }
        }
    }

    /// Becomes a shard without members, of the present generation of the board.
    fn begin_shard(
        &self,
        board: &CounterId,
        at: ShardAt,
        is: &ShardState,
        is_living: bool,
    ) -> Result<ShardReply, Fault> {
        if self.generation().is_none() {
            self.rows.create()?;
            self.loaded.replace(Some(Loaded::new(board, 0)));
        }
        self.commit(|loaded| {
            if loaded.head.generation < is.generation {
                loaded.begin_epoch();
                loaded.keep_periods(&self.rows, 0)?;
                let head = &mut loaded.head;
                head.generation = is.generation;
                head.is_living = is_living;
                head.settings = is.settings;
                head.period = (0, 0);
            } else if loaded.head.generation > is.generation
                || loaded.role.received_sequence >= is.sequence
            {
                return Ok(());
            }
            loaded.head.settings = is.settings;
            let role = &mut loaded.role;
            role.at = at;
            role.layout = is.layout;
            role.placing = is.placing.clone();
            role.received_sequence = is.sequence;
            loaded.keep_periods(&self.rows, is.settings.archive)
        })?;
        Ok(ShardReply::Done)
    }

    fn receive(
        &self,
        board: &CounterId,
        at: ShardAt,
        is: &ShardState,
        periods: Vec<(i64, i64)>,
    ) -> Result<ShardReply, Fault> {
        if self.generation().is_some() {
            let receiving = self.moves.receiving.borrow();
            let known = receiving.as_ref().map(|known| (known.number, known.turn));
            let is_same = self.generation() == Some(is.generation);
            return Ok(match is_same && known == Some((is.layout.number, 0)) {
                true => ShardReply::Done,
                false => ShardReply::Lost,
            });
        }
        self.begin_shard(board, at, is, false)?;
        let epoch = |((start, end), number): ((i64, i64), i64)| {
            let epoch = Epoch {
                end,
                directory: SegmentDirectory::default(),
                members: 0,
                bytes: 0,
            };
            (start, (number, epoch))
        };
        // These numbers are above those that the object began with.
        let epochs = periods.into_iter().zip(10..).map(epoch).collect();
        let number = is.layout.number;
        self.moves.receiving.replace(Some(ReceiveProgress {
            number,
            turn: 0,
            epochs,
        }));
        Ok(ShardReply::Done)
    }

    /// Runs a command of the owner, in one turn.
    fn obey(&self, command: ShardCommand) -> Result<ShardReply, Fault> {
        match command {
            ShardCommand::TrackChanges(number) => {
                self.catch_up()?;
                self.commit(|loaded| {
                    if number <= loaded.role.given_up {
                        return Ok(ShardReply::Lost);
                    }
                    // A repeated message must not drop recorded changes.
                    if loaded.role.recording != number {
                        self.rows.begin_recording()?;
                        loaded.role.recording = number;
                    }
                    self.periods_of(loaded)
                })
            }
            ShardCommand::Seal(number) => {
                self.catch_up()?;
                self.commit(|loaded| {
                    if loaded.role.recording != number {
                        return Ok(ShardReply::Lost);
                    }
                    loaded.role.sealed = number;
                    self.periods_of(loaded)
                })
            }
            ShardCommand::Unseal(number) => self.commit(|loaded| {
                let role = &mut loaded.role;
                role.given_up = role.given_up.max(number);
                if role.recording <= number {
                    (role.recording, role.sealed) = (0, 0);
                }
                Ok(ShardReply::Done)
            }),
            ShardCommand::End(generation) => self.commit(|loaded| {
                if loaded.head.generation <= generation && loaded.head.is_living {
                    loaded.head.is_living = false;
                    loaded.begin_epoch();
                    loaded.keep_periods(&self.rows, 0)?;
                }
                Ok(ShardReply::Done)
            }),
            ShardCommand::Give(number, start, after) => self.give(number, start, after.as_deref()),
            ShardCommand::GiveChanged(number, after) => self.give_changed(number, after),
            ShardCommand::GiveRecords(number, slot, key) => self.give_records(number, slot, &key),
            ShardCommand::Take(number, turn, members) => self.take((number, turn), &members),
            ShardCommand::TakeRecords(number, records) => self.take_records(number, &records),
            ShardCommand::Finish(number, period) => self.finish(number, period),
            ShardCommand::Measure => Ok(ShardReply::Measured(self.measure())),
            ShardCommand::Begin(_) | ShardCommand::Receive(..) | ShardCommand::Drop => {
                Err(Fault::Broken("a command that is for shards".to_owned()))
            }
        }
    }

    fn measure(&self) -> ShardMeasure {
        let rate = self.meter.borrow_mut().per_second(self.host.now_ms());
        let loaded = self.loaded.borrow();
        loaded
            .as_ref()
            .map_or_else(ShardMeasure::default, |loaded| ShardMeasure {
                members: loaded.head.members,
                bytes: loaded.head.bytes,
                per_second: rate.flushes,
            })
    }

    /// The periods, the current one last.
    fn periods_of(&self, loaded: &Loaded) -> Result<ShardReply, Fault> {
        let ended = self.rows.periods()?.into_iter().rev();
        let ended = ended.map(|(_, period)| (period.start, period.end));
        Ok(ShardReply::Periods(
            ended.chain([loaded.head.period]).collect(),
        ))
    }

    /// The numbers of the periods, by their beginnings.
    fn epochs(&self, loaded: &Loaded) -> Result<BTreeMap<i64, i64>, Fault> {
        let ended = self.rows.periods()?.into_iter();
        let ended = ended.map(|(epoch, period)| (period.start, epoch));
        Ok(map_of(
            ended.chain([(loaded.head.period.0, loaded.head.epoch)]),
        ))
    }

    /// The shard, while it records changes for a move.
    fn recording(&self, number: u64) -> Option<Ref<'_, Loaded>> {
        let is_recording = |loaded: &&Loaded| loaded.role.recording == number;
        let loaded = self.loaded.borrow();
        Ref::filter_map(loaded, |loaded| loaded.as_ref().filter(is_recording)).ok()
    }

    fn give(&self, number: u64, start: i64, after: Option<&[u8]>) -> Result<ShardReply, Fault> {
        let Some(loaded) = self.recording(number) else {
            return Ok(ShardReply::Lost);
        };
        let Some(epoch) = self.epochs(&loaded)?.get(&start).copied() else {
            return Ok(ShardReply::Members(Vec::new(), false));
        };
        let members = self.rows.by_name(epoch, after, PAGE)?;
        let has_more = u64::try_from(members.len()).is_ok_and(|count| count >= PAGE);
        let members = members.into_iter();
        let members = members.map(|(name, member)| (start, name, Some(member)));
        Ok(ShardReply::Members(members.collect(), has_more))
    }

    fn give_changed(&self, number: u64, after: u64) -> Result<ShardReply, Fault> {
        let Some(loaded) = self.recording(number) else {
            return Ok(ShardReply::Lost);
        };
        let epochs = self.epochs(&loaded)?;
        let changed = self.rows.changed_after(after, PAGE)?;
        let has_more = u64::try_from(changed.len()).is_ok_and(|count| count >= PAGE);
        let last = changed.last().map_or(after, |(number, _, _)| *number);
        let mut members = Vec::with_capacity(changed.len());
        for (_, epoch, name) in changed {
            let start = epochs.iter().find(|(_, known)| **known == epoch);
            if let Some((start, _)) = start {
                let member = self.rows.member(epoch, &name)?;
                members.push((*start, name, member));
            }
        }
        Ok(ShardReply::Changed(members, last, has_more))
    }

    fn give_records(&self, number: u64, slot: i64, key: &[u8]) -> Result<ShardReply, Fault> {
        if self.recording(number).is_none() {
            return Ok(ShardReply::Lost);
        }
        let records = match slot {
            0.. => self.rows.records_after(slot, key, PAGE)?,
            _ => self.rows.records_noted_after(!slot, key, PAGE)?,
        };
        let has_more = u64::try_from(records.len()).is_ok_and(|count| count >= PAGE);
        Ok(ShardReply::Records(records, has_more))
    }

    /// Stores members; a later copy of a member replaces an earlier one.
    fn take(
        &self,
        (number, turn): (u64, u64),
        members: &[MovedMember],
    ) -> Result<ShardReply, Fault> {
        let mut receiving = self.moves.receiving.borrow_mut();
        let Some(receiving) = receiving.as_mut().filter(|known| known.number == number) else {
            return Ok(ShardReply::Lost);
        };
        if turn <= receiving.turn {
            return Ok(ShardReply::Done);
        }
        receiving.turn = turn;
        let taken = self.commit(|_| {
            for (start, name, member) in members {
                if let Some((epoch, taken)) = receiving.epochs.get_mut(start) {
                    let rows = EpochRows(&self.rows, *epoch);
                    let before = self.rows.member(*epoch, name)?;
                    self.rows.put_member(*epoch, name, member.as_ref())?;
                    let bytes = |member: &Option<_>| {
                        member.as_ref().map_or(0, |member| bytes_of(name, member))
                    };
                    taken.bytes = (taken.bytes + bytes(member)).saturating_sub(bytes(&before));
                    taken.members = (taken.members + u64::from(member.is_some()))
                        .saturating_sub(u64::from(before.is_some()));
                    if let Some(before) = before.filter(|before| !before.is_hidden) {
                        taken.directory.removed(&before.key(name));
                    }
                    if let Some(member) = member.as_ref().filter(|member| !member.is_hidden) {
                        taken.directory.added(&member.key(name), &rows)?;
                    }
                }
            }
            for (epoch, taken) in receiving.epochs.values_mut() {
                self.rows.put_segments(*epoch, &mut taken.directory)?;
            }
            Ok(ShardReply::Done)
        });
        if taken.is_err() {
            // Memory no longer matches storage.
            receiving.number = 0;
        }
        taken
    }

    fn take_records(&self, number: u64, records: &[MovedRecord]) -> Result<ShardReply, Fault> {
        let receiving = self.moves.receiving.borrow();
        let is_other = receiving
            .as_ref()
            .is_none_or(|known| known.number != number);
        drop(receiving);
        if is_other {
            return Ok(ShardReply::Lost);
        }
        self.commit(|loaded| {
            let mut ledgers = loaded.head.ledgers();
            for record in records {
                if self.rows.take_record(record)? {
                    ledgers.take(record.0);
                }
            }
            loaded.head.set_ledgers(&ledgers);
            Ok(ShardReply::Done)
        })
    }

    /// Becomes a shard with the members that it has received.
    fn finish(&self, number: u64, period: (i64, i64)) -> Result<ShardReply, Fault> {
        let receiving = self.moves.receiving.take();
        let Some(receiving) = receiving.filter(|known| known.number == number) else {
            let loaded = self.loaded.borrow();
            let is_done =
                |loaded: &Loaded| loaded.head.is_living && loaded.role.layout.number == number;
            return Ok(match loaded.as_ref().is_some_and(is_done) {
                true => ShardReply::Done,
                false => ShardReply::Lost,
            });
        };
        let finished = self.commit(|loaded| {
            for (start, (epoch, taken)) in &receiving.epochs {
                if *start != period.0 && taken.members > 0 {
                    let total = taken.directory.total();
                    let (start, end) = (*start, taken.end);
                    let ended = tally_protocol::messages::PeriodOf { start, end, total };
                    self.rows.put_period(*epoch, &ended)?;
                }
            }
            let Some((epoch, taken)) = receiving.epochs.get(&period.0) else {
                return Ok(ShardReply::Lost);
            };
            let head = &mut loaded.head;
            (head.epoch, head.period) = (*epoch, period);
            (head.members, head.bytes) = (taken.members, taken.bytes);
            // Versions of writes that were made before the move, and are repeated here, have been reached.
            head.sequence = head.sequence.max(loaded.next_sequence);
            head.is_living = true;
            loaded.directory = self.rows.directory(*epoch)?;
            loaded.next_expiry_ms = self.rows.next_expiry(*epoch)?;
            let archive = loaded.head.settings.archive;
            loaded.keep_periods(&self.rows, archive)?;
            Ok(ShardReply::Done)
        })?;
        Ok(finished)
    }
}

/// All periods, each with its end.
fn all_periods(replies: Vec<ShardReply>) -> BTreeMap<i64, i64> {
    let mut all = BTreeMap::new();
    for reply in replies {
        if let ShardReply::Periods(periods) = reply {
            all.extend(periods);
        }
    }
    all
}

/// The present state of a board, for its shards.
fn is_now(loaded: &Loaded) -> ShardState {
    let Loaded { head, role, .. } = loaded;
    ShardState {
        layout: role.layout,
        generation: head.generation,
        sequence: head.sequence,
        settings: head.settings,
        placing: role.placing.clone(),
    }
}

fn has_lost(replies: &[ShardReply]) -> bool {
    replies.contains(&ShardReply::Lost)
}
