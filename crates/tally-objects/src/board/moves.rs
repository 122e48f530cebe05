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

use super::move_state::is_now;
use std::collections::BTreeMap;

use futures_util::future::try_join_all;

use super::object::BoardCore;
use super::state::Loaded;
use crate::kit::store::WHOLE_MAX;
use tally_core::board::placing::{GROUPS, Layout, ShardAt, Shards};
use tally_core::counter::id::CounterId;
use tally_core::order::set_of;
use tally_shared::call::call_again;
use tally_wire::messages::{
    CommandShard, Fault, MovedMember, ShardCommand, ShardReply, ShardState,
};

/// How often the changes are copied before the sources are sealed.
const ROUNDS_MAX: u32 = 5;

/// The most pages of changes, and of new records, that a round copies from each source: those of a million changed
/// members. Each round has fewer changes than the one before, unless members change faster than they are copied.
const PAGES_MAX: u32 = 1_000;

/// How long a shard may take for a command, milliseconds; meanwhile the command is repeated.
const COMMAND_MS_MAX: u64 = 5_000;

/// The wait after a failed move, milliseconds.
pub(super) const AGAIN_MS: i64 = 1_000;

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

impl BoardCore {
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
        let is_left = !role.moves.is_at_rest() || role.has_unsent_state;
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
        if role.moves.moving().is_some() {
            // The memory of the copy is gone.
            self.cancel(&board).await?;
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

    pub(super) fn role(&self) -> Option<(CounterId, super::rows::BoardRole, bool)> {
        let loaded = self.loaded.borrow();
        let Loaded { head, role, .. } = loaded.as_ref()?;
        Some((head.name.clone(), role.clone(), head.is_living))
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
        let moves = self.role().map(|(_, role, _)| role.moves);
        for layout in moves.unwrap_or_default().debts() {
            self.command_all(board, *layout, &ShardCommand::Drop)
                .await?;
            self.commit(|loaded| {
                loaded.role.moves.paid(*layout);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Cancels the move that is under way: its sources resume, its targets are deleted.
    async fn cancel(&self, board: &CounterId) -> Result<(), Fault> {
        let Some((_, role, _)) = self.role() else {
            return Ok(());
        };
        let Some(moving) = role.moves.moving() else {
            return Ok(());
        };
        let unseal = ShardCommand::Unseal(moving.number);
        self.command_all(board, role.layout, &unseal).await?;
        self.commit(|loaded| {
            loaded.role.moves.cancel(moving);
            Ok(())
        })
    }

    /// Moves all members to `shards` shards; returns whether it did. A failed move is cancelled, now or later.
    async fn spread_over(&self, board: &CounterId, shards: u32) -> Result<bool, Fault> {
        let layout = |number| Layout { number, shards };
        let to = self.commit(|loaded| Ok(loaded.role.moves.begin(layout)))?;
        match self.carry(board, to).await {
            Ok(true) => Ok(true),
            Ok(false) => self.cancel(board).await.map(|()| false),
            Err(fault) => {
                self.cancel(board).await?;
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
            if !loaded.head.is_living || now != is {
                return Ok(false);
            }
            self.begin_layout(loaded, from, to)
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

    /// Begins the new layout; returns whether the move was still under way.
    fn begin_layout(&self, loaded: &mut Loaded, from: Layout, to: Layout) -> Result<bool, Fault> {
        let has_objects = from.number > 0;
        let role = &mut loaded.role;
        if !role.moves.arrive(to, has_objects.then_some(from)) {
            return Ok(false);
        }
        self.moves.wanted.set(0);
        role.layout = to;
        role.is_elsewhere = false;
        role.source.end();
        if !has_objects {
            // The former rows of this object are deleted by its alarm.
            loaded.begin_epoch();
            loaded.keep_periods(&self.rows, 0)?;
            loaded.head.set_ledgers(&Default::default());
            self.rows.delete_records(WHOLE_MAX)?;
        }
        Ok(true)
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

fn has_lost(replies: &[ShardReply]) -> bool {
    replies.contains(&ShardReply::Lost)
}
