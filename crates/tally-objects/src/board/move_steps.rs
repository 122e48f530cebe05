//! What a shard of a board does when a move commands it.

use super::move_state::{Epoch, PAGE, ReceiveProgress};
use super::object::BoardCore;
use super::rows::EpochRows;
use super::state::{Loaded, bytes_of};
use std::cell::Ref;
use std::collections::BTreeMap;
use tally_core::board::directory::SegmentDirectory;
use tally_core::board::placing::ShardAt;
use tally_core::counter::id::CounterId;
use tally_core::handover::copies::{CopyTarget, Received};
use tally_core::handover::giver::Given;
use tally_core::order::map_of;
use tally_wire::messages::{
    CommandShard, Fault, MovedMember, MovedRecord, ShardCommand, ShardMeasure, ShardReply,
    ShardState,
};

impl BoardCore {
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
                self.moves.is_over.set(true);
                self.delete_all().await?;
                Ok(ShardReply::Done)
            }
            // A late message must not start a shard that had to delete everything. A shard whose head was
            // discarded still has its schema.
            ShardCommand::Begin(_) if self.generation().is_none() && !self.rows.is_created()? => {
                Ok(ShardReply::Lost)
            }
            ShardCommand::Begin(is) => self.begin_shard(&board, at, &is, true),
            ShardCommand::Receive(..) if self.moves.is_over.get() => Ok(ShardReply::Lost),
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
            let known = receiving.as_ref().map(|known| known.target);
            let begun = CopyTarget::begin(is.layout.number);
            let is_same = self.generation() == Some(is.generation);
            return Ok(match is_same && known == Some(begun) {
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
        self.moves.receiving.replace(Some(ReceiveProgress {
            target: CopyTarget::begin(is.layout.number),
            epochs,
        }));
        Ok(ShardReply::Done)
    }

    /// Runs a command of the owner, in one turn.
    pub(super) fn obey(&self, command: ShardCommand) -> Result<ShardReply, Fault> {
        match command {
            ShardCommand::TrackChanges(number) => {
                self.catch_up()?;
                self.commit(|loaded| {
                    match loaded.role.source.track(number) {
                        Given::Seal { .. } => self.rows.begin_recording()?,
                        Given::Rows { .. } => {}
                        _ => return Ok(ShardReply::Lost),
                    }
                    self.periods_of(loaded)
                })
            }
            ShardCommand::Seal(number) => {
                self.catch_up()?;
                self.commit(|loaded| match loaded.role.source.seal(number) {
                    true => self.periods_of(loaded),
                    false => Ok(ShardReply::Lost),
                })
            }
            ShardCommand::Unseal(number) => self.commit(|loaded| {
                loaded.role.source.cancel(number);
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
        let is_recording = |loaded: &&Loaded| loaded.role.source.gives(number);
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
        let Some(receiving) = receiving.as_mut() else {
            return Ok(ShardReply::Lost);
        };
        match receiving.target.receive(number, turn) {
            Received::Lost => return Ok(ShardReply::Lost),
            Received::Known => return Ok(ShardReply::Done),
            Received::New => {}
        }
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
            receiving.target.lose();
        }
        taken
    }

    fn take_records(&self, number: u64, records: &[MovedRecord]) -> Result<ShardReply, Fault> {
        let receiving = self.moves.receiving.borrow();
        let is_of = |known: &ReceiveProgress| known.target.is_of(number);
        let is_receiving = receiving.as_ref().is_some_and(is_of);
        drop(receiving);
        if !is_receiving {
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
        let Some(receiving) = receiving.filter(|known| known.target.is_of(number)) else {
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
                    let ended = tally_wire::messages::PeriodOf { start, end, total };
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
