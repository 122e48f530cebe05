//! Commands of a sorted set, run on a board. Those of one message are one commit. A command whose attempt has a name is
//! run once.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{BoardCore, Loaded, Misplaced, ending};
use crate::board::reads::Reader;
use crate::board::rows::BoardRows;
use crate::board::state::Growth;
use tally_core::board::key::Key;
use tally_core::board::member::{Change, Member, MemberRefusal, ScoreWrite, change};
use tally_core::board::placing::{Placing, ShardAt, Shards};
use tally_core::board::score::Score;
use tally_core::board::settings::Settings;
use tally_core::counter::ledger::KeySource;
use tally_redis::command::Command;
use tally_redis::error;
use tally_redis::glob::StepsLeft;
use tally_redis::kept_replies::{no_room, repeated, size_of};
use tally_redis::reply_error::ReplyError;
use tally_redis::reply_room::ReplyRoom;
use tally_redis::sorted::{
    Members, Naming, NoMembers, SortedSet, check_members, check_order, named_members, naming_of,
    run,
};
use tally_shared::call;
use tally_wire::messages::{
    Arguments, AttemptName, Fault, ForgetBoard, KeptSize, RunSorted, SetChange, SortedRan,
};
use tally_wire::redis::Reply;
use tally_wire::rights::Scope;

/// The reply to a command whose attempt has a name. Stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredReply {
    fingerprint: u64,
    reply: Reply,
}

/// A board as a sorted set, within a commit.
struct Ranking<'a> {
    loaded: &'a mut Loaded,
    rows: &'a BoardRows,
    has_changed: bool,
    steps: StepsLeft,
    has_counts: bool,
    /// The members of the writes that the command has tried, and by how much the board would grow.
    tried: (BTreeSet<Vec<u8>>, Growth),
}

/// Whether the number of members before the members whose ranks are requested is known, up to the next command that may
/// write.
#[derive(Default)]
struct CountsAhead(bool);

impl CountsAhead {
    /// The reply of a command that is not run. Counts that were read ahead are valid up to this command only.
    fn skip(&mut self, reply: Reply) -> Reply {
        self.0 = false;
        reply
    }

    /// Reads the positions that the first of these commands needs, and those that the next ones need, up to the first
    /// that writes.
    fn look_ahead(&mut self, reader: &Reader<'_>, commands: &[Arguments]) -> Result<(), Fault> {
        match commands.first().and_then(|args| naming_of(args)) {
            Some((Naming::Ranked, _)) if !self.0 => self.0 = true,
            Some((Naming::Ranked | Naming::Scored, _)) => return Ok(()),
            _ => {
                self.0 = false;
                return Ok(());
            }
        }
        let mut keys: Vec<Key> = Vec::new();
        for args in commands {
            match naming_of(args) {
                Some((Naming::Ranked, _)) => {
                    let named = named_members(args).into_iter();
                    keys.extend(named.filter_map(|name| reader.rows.key_ahead(name)));
                }
                Some((Naming::Scored, _)) => {}
                _ => break,
            }
        }
        let counts = reader.before(&keys)?;
        for (key, before) in keys.iter().zip(counts) {
            reader.rows.count_ahead(key, before);
        }
        Ok(())
    }
}

impl Ranking<'_> {
    /// The effect on the set since this was created.
    fn change(&self) -> SetChange {
        match (self.has_changed, self.count()) {
            (false, _) => SetChange::Same,
            (true, 0) => SetChange::Emptied,
            (true, _) => SetChange::Changed,
        }
    }

    /// The room that all tried writes need with this one. A member that comes twice needs it once.
    fn tried_with(&mut self, member: &[u8], growth: Growth) -> Growth {
        let (names, all) = &mut self.tried;
        if names.insert(member.to_vec()) {
            *all = all.and(growth);
        }
        *all
    }

    fn member(&self, name: &[u8]) -> Result<Option<Member>, Fault> {
        self.rows.member(self.loaded.head.epoch, name)
    }
}

fn score_of(key: &Key) -> Result<Score, Fault> {
    let broken = || Fault::Broken("a member has no score".to_owned());
    key.score().ok_or_else(broken)
}

impl SortedSet for Ranking<'_> {
    fn steps(&self) -> StepsLeft {
        self.steps.clone()
    }

    fn count(&self) -> u64 {
        self.loaded.directory.total()
    }

    fn find(&self, member: &[u8]) -> Result<Option<(Score, Key)>, Fault> {
        let known = self.member(member)?.filter(|known| !known.is_hidden);
        Ok(known.map(|known| (known.score, known.key(member))))
    }

    fn before(&self, key: &Key) -> Result<u64, Fault> {
        match self.rows.counted_ahead(key).filter(|_| self.has_counts) {
            Some(before) => Ok(before),
            None => self.loaded.reader(self.rows).before_one(key),
        }
    }

    fn range(&self, low: u64, high: u64) -> Result<Members, Fault> {
        if low >= high {
            return Ok(Members::new());
        }
        let (from, skip) = self.loaded.directory.find(low);
        let epoch = self.loaded.head.epoch;
        let found = self.rows.keys(epoch, &from, skip, high - low)?;
        let scored = |key: Key| {
            let score = score_of(&key)?;
            Ok((key.member, score))
        };
        found.into_iter().map(scored).collect()
    }

    fn named_after(&self, member: &[u8], limit: u64) -> Result<Members, Fault> {
        self.rows.named_after(self.loaded.head.epoch, member, limit)
    }

    fn write(
        &mut self,
        member: &[u8],
        write: &ScoreWrite,
        is_trial: bool,
    ) -> Result<Result<Change, MemberRefusal>, Fault> {
        let head = &self.loaded.head;
        let before = self.member(member)?;
        let change = match change(&head.settings, before.as_ref(), write, head.sequence + 1) {
            Ok(change) => change,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let Some(after) = &change.after else {
            return Ok(Ok(change));
        };
        let growth = Growth::of(member, before.as_ref(), Some(after));
        let needed = match is_trial {
            true => self.tried_with(member, growth),
            false => growth,
        };
        if !self.loaded.has_room(needed) {
            return Ok(Err(MemberRefusal::Full));
        }
        if !is_trial {
            self.loaded
                .put(self.rows, member, before.as_ref(), Some(after))?;
            self.has_changed = true;
        }
        Ok(Ok(change))
    }

    fn remove(&mut self, member: &[u8]) -> Result<bool, Fault> {
        let before = self.member(member)?;
        if before.is_some() {
            self.loaded.put(self.rows, member, before.as_ref(), None)?;
            self.has_changed = true;
        }
        Ok(before.is_some())
    }
}

/// The reply to a command of a set that does not exist.
fn reply_of_none(args: &[String]) -> Result<Reply, Fault> {
    match run(&mut NoMembers::default(), args, 0) {
        Ok(reply) | Err(ReplyError::Reply(reply)) => Ok(reply),
        Err(ReplyError::Fault(fault)) => Err(fault),
    }
}

fn ledger_full() -> Reply {
    Reply::err("too many idempotency keys are remembered; nothing was done")
}

impl BoardCore {
    pub(super) async fn on_run(
        &self,
        message: Result<RunSorted, Fault>,
    ) -> Result<SortedRan, Fault> {
        let message = message?;
        self.ready(&message.board, ShardAt::default()).await?;
        let unchanged = |replies| SortedRan {
            replies,
            changes: Vec::new(),
            kept: KeptSize::default(),
        };
        if !self.is_living() {
            if !message.may_begin {
                return self.replied(&message).map(unchanged);
            }
            // These commands need all members in one object.
            let placing = Placing {
                shards: Shards::Fixed(1),
                home: message.home.clone(),
            };
            self.begin(&message.board, Settings::default(), &placing)
                .await?;
        }
        match self.misplaced(ShardAt::default()) {
            None => {}
            Some(Misplaced::Moving) => {
                let what = "members of the board are being moved".to_owned();
                return Err(Fault::Unavailable(what));
            }
            Some(Misplaced::Spread(_) | Misplaced::Stale) => {
                let reply = Reply::err(
                    "this sorted set is a board that is spread over several objects; write and read it by /boards",
                );
                return Ok(unchanged(Some(vec![reply; message.commands.len()])));
            }
        }
        self.catch_up()?;
        if self.is_ending_period() {
            self.arm().await;
            return Err(ending());
        }
        let ran = self.commit(|loaded| self.run_all(loaded, &message))?;
        if !self.is_living()
            && let Some(generation) = self.generation()
        {
            let board = message.board.clone();
            call(&self.host, &ForgetBoard { board, generation }).await?;
        }
        self.arm().await;
        Ok(ran)
    }

    /// The replies to attempts that were all made before, on a board that has ended since.
    fn replied(&self, message: &RunSorted) -> Result<Option<Vec<Reply>>, Fault> {
        let loaded = self.loaded.borrow();
        let Some(loaded) = loaded.as_ref().filter(|_| !message.names.is_empty()) else {
            return Ok(None);
        };
        let known =
            (message.names.iter().zip(&message.commands)).map(|(named, args)| match named {
                Some(named) => self.known_reply(loaded, *named),
                // A command without a name reads.
                None => Ok(Some(reply_of_none(args)?)),
            });
        known.collect()
    }

    fn known_reply(
        &self,
        loaded: &Loaded,
        (key, fingerprint): AttemptName,
    ) -> Result<Option<Reply>, Fault> {
        let slots = loaded.head.ledgers().slots(KeySource::Clients);
        let record: Option<StoredReply> = self.rows.record(&slots, key)?;
        Ok(record.map(|record| repeated(record.reply, record.fingerprint == fingerprint)))
    }

    fn run_all(&self, loaded: &mut Loaded, message: &RunSorted) -> Result<SortedRan, Fault> {
        let now_ms = self.host.now_ms();
        loaded.role.is_whole |= !message.commands.is_empty();
        let home = &mut loaded.role.placing.home;
        *home = home.take().or_else(|| message.home.clone());
        let had_members = loaded.head.members > 0 || message.may_begin;
        if message.is_anew
            && let Some(refused) = self.begin_anew(loaded, &message.commands)?
        {
            return Ok(refused);
        }
        self.read_named(loaded, &message.commands, now_ms)?;
        let mut counts = CountsAhead::default();
        let mut replies = Vec::new();
        let mut changes = vec![SetChange::Same; message.commands.len()];
        let room = ReplyRoom::default();
        let mut kept = KeptSize::default();
        for (index, args) in message.commands.iter().enumerate() {
            let named = message.names.get(index).copied().flatten();
            if let Some(named) = named
                && let Some(reply) = self.known_reply(loaded, named)?
            {
                replies.push(counts.skip(room.admit(reply, false)));
                continue;
            }
            let command = Command::find(args).map_err(|_| none_such())?;
            if room.is_full() && command.returns_stored(args) {
                replies.push(counts.skip(error::replies_too_large()));
                continue;
            }
            let slot = match self.slot_for(loaded, message.may_keep, named.is_some(), now_ms)? {
                Ok(slot) => slot,
                Err(refusal) => {
                    replies.push(counts.skip(refusal));
                    continue;
                }
            };
            counts.look_ahead(&loaded.reader(&self.rows), &message.commands[index..])?;
            let mut ranking = Ranking {
                loaded,
                rows: &self.rows,
                has_changed: false,
                steps: room.steps().clone(),
                has_counts: counts.0,
                tried: Default::default(),
            };
            let done = check_order(args, ranking.loaded.head.settings.ties)
                .map_err(ReplyError::Reply)
                .and_then(|()| run(&mut ranking, args, self.host.random()));
            let reply = match done {
                Ok(reply) | Err(ReplyError::Reply(reply)) => {
                    room.admit(reply, command.scope == Scope::Read)
                }
                Err(ReplyError::Fault(fault)) => return Err(fault),
            };
            changes[index] = ranking.change();
            if let (Some(named), Some(slot)) = (named, slot) {
                kept = kept.plus(self.put_reply(loaded, slot, named, &reply)?);
            }
            replies.push(reply);
        }
        if had_members {
            self.end_if_empty(loaded)?;
        }
        Ok(SortedRan {
            replies: Some(replies),
            changes,
            kept,
        })
    }

    /// Reads the members that commands name, without those that have expired.
    fn read_named(
        &self,
        loaded: &mut Loaded,
        commands: &[Arguments],
        now_ms: i64,
    ) -> Result<(), Fault> {
        let names: Vec<&[u8]> = commands
            .iter()
            .flat_map(|args| named_members(args))
            .collect();
        let epoch = loaded.head.epoch;
        self.rows.read_ahead(epoch, &names)?;
        for name in names {
            let member = self.rows.member(epoch, name)?;
            loaded.unless_expired(&self.rows, name, member, now_ms)?;
        }
        Ok(())
    }

    /// Stores the reply to an attempt that has a name. Returns its size.
    fn put_reply(
        &self,
        loaded: &Loaded,
        slot: i64,
        (key, fingerprint): AttemptName,
        reply: &Reply,
    ) -> Result<KeptSize, Fault> {
        let (size, reply) = (size_of(reply), reply.clone());
        let record = StoredReply { fingerprint, reply };
        let is_noted = loaded.role.source.is_noting();
        self.rows.put_record(slot, key, &record, is_noted)?;
        Ok(size)
    }

    /// The slot of the record of an attempt, if it has a name; or the refusal where there is no room.
    fn slot_for(
        &self,
        loaded: &mut Loaded,
        may_keep: bool,
        is_named: bool,
        now_ms: i64,
    ) -> Result<Result<Option<i64>, Reply>, Fault> {
        let mut ledgers = loaded.head.ledgers();
        if let Some(newest) = ledgers.expire(now_ms) {
            self.rows.delete_records(newest)?;
            loaded.head.set_ledgers(&ledgers);
        }
        if !is_named {
            return Ok(Ok(None));
        }
        if !may_keep {
            return Ok(Err(no_room()));
        }
        let Some(slot) = ledgers.admit(self.limits_of(KeySource::Clients), now_ms) else {
            return Ok(Err(ledger_full()));
        };
        loaded.head.set_ledgers(&ledgers);
        Ok(Ok(Some(slot)))
    }

    /// Drops all members, unless their replacements are refused. Returns the refusal.
    fn begin_anew(
        &self,
        loaded: &mut Loaded,
        commands: &[Arguments],
    ) -> Result<Option<SortedRan>, Fault> {
        let refused = commands
            .first()
            .and_then(|args| check_members(args, &loaded.head.settings).err());
        if let Some(refusal) = refused {
            self.end_if_empty(loaded)?;
            return Ok(Some(SortedRan {
                replies: Some(vec![refusal]),
                changes: vec![SetChange::Same],
                kept: KeptSize::default(),
            }));
        }
        let archive = loaded.head.settings.archive;
        // What a move has copied is not valid any more.
        loaded.role.source.refuse();
        loaded.begin_epoch();
        loaded.keep_periods(&self.rows, archive)?;
        Ok(None)
    }

    /// A sorted set without members does not exist. A board configured by the other calls stays.
    fn end_if_empty(&self, loaded: &mut Loaded) -> Result<(), Fault> {
        let head = &loaded.head;
        let is_plain = head.settings == Settings::default() && self.rows.periods()?.is_empty();
        if head.members == 0 && is_plain {
            loaded.head.is_living = false;
            loaded.begin_epoch();
            loaded.keep_periods(&self.rows, 0)?;
        }
        Ok(())
    }
}

/// The refusal of an unknown command of Redis.
fn none_such() -> Fault {
    Fault::Broken("a command was sent that is none".to_owned())
}
