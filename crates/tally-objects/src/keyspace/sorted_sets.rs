//! Commands of sorted sets. Each set is a board, the same one as in the other calls.
//!
//! Invariant: a board decides all commands of one sorted set, so these share the lock of its key. A board is created
//! under an exclusive lock, while nothing else has its name. Commands of several sets lock all their keys exclusively.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::core::{COUNTERS_AT_ONCE, KeyspaceCore, reply_of};
use tally_core::board::score::Score;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::order::set_of;
use tally_host::Host;
use tally_redis::command::Command;
use tally_redis::float::{score, text_of};
use tally_redis::keyspace::steps::CommandRequest;
use tally_redis::notifications::KeyEvent;
use tally_redis::reply_error::ReplyError;
use tally_redis::reply_room::ReplyRoom;
use tally_redis::scripts::analytics;
use tally_redis::scripts::table::Script;
use tally_redis::sorted::{Members, NoMembers, SORTED_BYTES_MAX, SORTED_MEMBERS_MAX};
use tally_redis::sorted_sets::{Joined, join};
use tally_redis::space::StoredValue;
use tally_redis::{error, notifications, sorted};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{Arguments, AttemptName, Fault, RunSorted};
use tally_wire::redis::Reply;
use tally_wire::rights::Scope;

/// The most members that the commands of one step may request if all their boards are asked at once: 16 MB at 1 KB
/// each.
const MEMBERS_AT_ONCE_MAX: u64 = 16_000;

/// The boards that are asked at once for more members. Each answers with up to 16 MiB, which take twice the memory
/// while they are decoded.
const LARGE_AT_ONCE: usize = 2;

/// The last index of the members that are read first from each of several joined sets: 8 MB for 64 sets at once.
const FIRST_MEMBERS: i64 = 127;

impl KeyspaceCore {
    /// Runs commands of one sorted set each: those of one set are one message to its board.
    pub(super) async fn sorted_all(
        &self,
        requests: &[CommandRequest<'_>],
        here: &Datacenter,
        holds: bool,
        room: &ReplyRoom,
    ) -> Vec<Reply> {
        let run = async |key: String, group: Vec<&CommandRequest<'_>>| {
            // A group is sent as a whole, so commands with large replies are left out before.
            let is_full = room.is_full();
            let is_sent = |request: &CommandRequest<'_>| !(is_full && request.returns_stored());
            let sent: Vec<_> = group.iter().copied().filter(|it| is_sent(it)).collect();
            let replies = match sent.is_empty() {
                true => Vec::new(),
                false => self.sorted_group(&key, &sent, here, holds).await?,
            };
            let mut replies = replies.into_iter();
            let reply_to = |request: &CommandRequest<'_>| {
                let reply = match is_sent(request) {
                    true => replies.next().unwrap_or(Reply::Nil),
                    false => error::replies_too_large(),
                };
                room.admit(reply, request.command.scope == Scope::Read)
            };
            Ok(group.into_iter().map(reply_to).collect())
        };
        let members = requests
            .iter()
            .map(|request| sorted::members_asked(request.args));
        let members = members.fold(0_u64, u64::saturating_add);
        let at_once = match members <= MEMBERS_AT_ONCE_MAX {
            true => COUNTERS_AT_ONCE,
            false => LARGE_AT_ONCE,
        };
        self.by_key(requests, at_once, run).await
    }

    /// The replies of a board to commands, of which listeners are notified; `None` where there is no board.
    async fn run_sorted(
        &self,
        message: &RunSorted,
        caller: u64,
    ) -> Result<Option<Vec<Reply>>, Fault> {
        let ran = self.boards.run(message).await?;
        self.rows.account(self.slot(), caller, ran.kept)?;
        for (args, change) in message.commands.iter().zip(ran.changes) {
            if let Ok(command) = Command::find(args) {
                self.listeners
                    .notify(|| notifications::of_set(command, args, change));
            }
        }
        Ok(ran.replies)
    }

    /// Runs commands of one set.
    async fn sorted_group(
        &self,
        key: &str,
        group: &[&CommandRequest<'_>],
        here: &Datacenter,
        holds: bool,
    ) -> Result<Vec<Reply>, ReplyError> {
        let caller = group.first().map_or(0, |request| request.caller);
        let only = set_of(holds.then(|| key.to_owned()));
        let held = self.hold_to_add(only.clone(), here).await?;
        let row = self.rows.row(key)?;
        if row.is_some_and(|row| row.value.is_some()) {
            return Ok(wrong_types(group));
        }
        let id = match CounterId::parse(key) {
            Ok(id) => id,
            Err(why) => return Ok(without_board(group, &self.host, why)),
        };
        let mut message = RunSorted {
            names: names_of(group),
            may_keep: self.may_keep(group)?,
            home: Some(here.clone()),
            ..RunSorted::on(
                &id,
                group.iter().map(|request| request.args.clone()).collect(),
            )
        };
        let is_known = self.boards.is_known(&id);
        if (is_known || self.boards.find(&id).await?.is_board)
            && let Some(replies) = self.run_sorted(&message, caller).await?
        {
            return Ok(replies);
        }
        drop(held);
        let _alone = self.locks.hold(&self.host, only, true).await?;
        let found = self.boards.find(&id).await?;
        if !found.is_board && found.is_counter {
            return Ok(wrong_types(group));
        }
        if found.is_board
            && let Some(replies) = self.run_sorted(&message, caller).await?
        {
            return Ok(replies);
        }
        let mut replies = Vec::new();
        while let Some(args) = message.commands.first()
            && let Some(reply) = without_members(args, &self.host)
        {
            replies.push(reply);
            message.commands.remove(0);
            if !message.names.is_empty() {
                message.names.remove(0);
            }
        }
        if message.commands.is_empty() {
            return Ok(replies);
        }
        // The expiry of the former key of this name is removed.
        self.rows.write(&[(key.to_owned(), None)], None)?;
        message.may_begin = true;
        replies.extend(self.run_sorted(&message, caller).await?.unwrap_or_default());
        Ok(replies)
    }

    /// A command of several sets.
    pub(super) async fn join_sets(
        &self,
        request: &CommandRequest<'_>,
        here: &Datacenter,
    ) -> Result<Reply, ReplyError> {
        let args = request.args;
        let keys = request.command.keys_of(args)?;
        let is_stored = args[0].to_ascii_uppercase().ends_with("STORE");
        let is_range = args[0].eq_ignore_ascii_case("ZRANGESTORE");
        let sources = keys.get(usize::from(is_stored)..).unwrap_or_default();
        let mut has_own = false;
        for key in &keys {
            let row = self.living_row(key, here).await?;
            has_own |= **key == args[1] && row.is_some_and(|row| row.value.is_some());
        }
        let members = if is_range {
            self.members_of(&args[2], args).await?
        } else {
            let sets = self.sets_of(sources).await?;
            match join(args, &in_order_of(sources, &sets))? {
                Joined::Replied(reply) => return Ok(reply),
                Joined::Stored(members) => members,
            }
        };
        let (reply, is_empty) = (Reply::count(members.len()), members.is_empty());
        let was_there = self.store_members(&args[1], members, here).await?;
        let answered = self.try_of(request, &reply);
        self.rows
            .write(&[(args[1].clone(), None)], answered.as_ref())?;
        self.listeners
            .notify(|| match (is_empty, has_own || was_there) {
                (false, _) => vec![notifications::of_command(request.command, args)],
                (true, true) => vec![KeyEvent::new("del", &args[1])],
                (true, false) => Vec::new(),
            });
        Ok(reply)
    }

    /// The reply of a script that reads sorted sets.
    pub(super) async fn read_sets(
        &self,
        script: Script,
        args: &Arguments,
    ) -> Result<Reply, ReplyError> {
        let keys = analytics::sets_of(script, args)?.unwrap_or_default();
        let keys: Vec<&String> = keys.iter().collect();
        let sets = self.sets_of(&keys).await?;
        Ok(analytics::answer(script, args, &in_order_of(&keys, &sets))?)
    }

    /// All members of several sets by their keys, each read once: the first members of many sets at once, then the
    /// larger sets, few at once.
    async fn sets_of(&self, keys: &[&String]) -> Result<Vec<(String, Members)>, ReplyError> {
        let used = Cell::new((0, 0));
        let mut sets = Vec::new();
        let mut keys = set_of(keys.iter().copied().cloned());
        for (last, at_once) in [(FIRST_MEMBERS, COUNTERS_AT_ONCE), (-1, LARGE_AT_ONCE)] {
            let (used, mut large) = (&used, BTreeSet::new());
            let read = |key: String| async move {
                if !is_within(used.get()) {
                    return (key, Err(sorted::too_many().into()));
                }
                let set = self.members_of(&key, &first_of(&key, last)).await;
                let is_whole =
                    |set: &Members| usize::try_from(last).map_or(true, |last| set.len() <= last);
                let set = set.map(|set| Some(set).filter(is_whole));
                if let Ok(Some(set)) = &set {
                    let (members, bytes) = used.get();
                    let more: usize = set.iter().map(|(member, _)| member.len()).sum();
                    used.set((members + set.len(), bytes + more));
                }
                (key, set)
            };
            for (key, set) in all_settled(keys.into_iter().map(read), at_once).await {
                match set? {
                    Some(set) => sets.push((key, set)),
                    None => drop(large.insert(key)),
                }
            }
            keys = large;
        }
        if is_within(used.get()) {
            Ok(sets)
        } else {
            Err(sorted::too_many().into())
        }
    }

    /// The members that a command requests, with their scores; all members of a set without scores, with a score of 1.
    async fn members_of(&self, key: &str, args: &Arguments) -> Result<Members, ReplyError> {
        // Faults of the command itself come first.
        let of_none = sorted::run(&mut NoMembers::default(), args, 0)?;
        let now_ms = self.host.now_ms();
        let row = self.rows.row(key)?;
        let row = row.filter(|row| row.expires_ms.is_none_or(|at_ms| at_ms > now_ms));
        match row.and_then(|row| row.value) {
            Some(StoredValue::Set(members)) if !args[0].eq_ignore_ascii_case("ZRANGESTORE") => {
                let one = Score::new(1.0).unwrap_or_default();
                let members = members.into_iter();
                return Ok(members.map(|member| (member.into_bytes(), one)).collect());
            }
            Some(_) => return Err(error::wrong_type().into()),
            None => {}
        }
        let reply = match CounterId::parse(key) {
            Ok(id) => {
                let found = self.boards.find(&id).await?;
                let replies = match found.is_board {
                    true => {
                        self.boards
                            .run(&RunSorted::on(&id, vec![args.clone()]))
                            .await?
                            .replies
                    }
                    false => None,
                };
                match replies.and_then(|mut replies| replies.pop()) {
                    None if found.is_counter => error::wrong_type(),
                    reply => reply.unwrap_or(of_none),
                }
            }
            Err(_) => of_none,
        };
        match reply {
            Reply::Array(words) => Ok(pairs_of(words)),
            refused => Err(refused.into()),
        }
    }

    /// Replaces a key by these members; returns whether there was a counter or a board.
    async fn store_members(
        &self,
        key: &str,
        members: Members,
        here: &Datacenter,
    ) -> Result<bool, ReplyError> {
        let id = CounterId::parse(key)
            .map_err(|why| Reply::err(format!("a sorted set is a board, and {why}")))?;
        let mut words = vec!["ZADD".to_owned(), key.to_owned()];
        for (member, score) in members {
            words.push(text_of(score));
            words.push(String::from_utf8_lossy(&member).into_owned());
        }
        // A refused command leaves the counter there.
        sorted::check_anew(&words, |_| Ok(()))?;
        let was_counter = self.boards.find(&id).await?.is_counter;
        if was_counter {
            self.counters.replace(&id, here, None, None).await?;
        }
        let has_members = words.len() > 2;
        let commands = if has_members { vec![words] } else { Vec::new() };
        let store = RunSorted {
            may_begin: has_members,
            is_anew: true,
            home: Some(here.clone()),
            ..RunSorted::on(&id, commands)
        };
        let replies = self.boards.run(&store).await?.replies;
        let was_there = was_counter || replies.is_some();
        match replies.and_then(|mut replies| replies.pop()) {
            Some(refusal) if refusal.is_error() => Err(refusal.into()),
            _ => Ok(was_there),
        }
    }
}

/// The reply to a command on a set that does not exist; `None` where it would create one.
fn without_members(args: &Arguments, host: &Host) -> Option<Reply> {
    let mut none = NoMembers::default();
    let reply = reply_of(sorted::run(&mut none, args, host.random()));
    (!none.would_begin).then_some(reply)
}

/// The replies where no board can have the name of the set.
fn without_board(
    group: &[&CommandRequest<'_>],
    host: &Host,
    why: impl std::fmt::Display,
) -> Vec<Reply> {
    let refusal = Reply::err(format!("a sorted set is a board, and {why}"));
    let reply = |request: &&CommandRequest<'_>| {
        without_members(request.args, host).unwrap_or_else(|| refusal.clone())
    };
    group.iter().map(reply).collect()
}

fn wrong_types(group: &[&CommandRequest<'_>]) -> Vec<Reply> {
    let replies = group.iter().map(|request| sorted::wrong_type(request.args));
    replies.collect()
}

fn names_of(group: &[&CommandRequest<'_>]) -> Vec<Option<AttemptName>> {
    if group.iter().all(|request| request.named.is_none()) {
        return Vec::new();
    }
    group.iter().map(|request| request.named).collect()
}

/// The command that reads the members of a set up to an index.
fn first_of(key: &str, last: i64) -> Arguments {
    let words = ["ZRANGE", key, "0", &last.to_string(), "WITHSCORES"];
    words.map(str::to_owned).into()
}

/// Whether one command may work on this many members and bytes.
fn is_within((members, bytes): (usize, usize)) -> bool {
    u64::try_from(members).is_ok_and(|members| members <= SORTED_MEMBERS_MAX)
        && bytes <= SORTED_BYTES_MAX
}

/// The sets of these keys, as often as they are named.
fn in_order_of<'a>(keys: &[&String], sets: &'a [(String, Members)]) -> Vec<&'a Members> {
    let of = |key: &&String| sets.iter().find(|(known, _)| known == *key);
    keys.iter().filter_map(of).map(|(_, set)| set).collect()
}

/// Members and their scores, which alternate in the reply.
fn pairs_of(words: Vec<Reply>) -> Members {
    let mut members = Members::new();
    let mut words = words.into_iter();
    while let (Some(Reply::Text(member)), Some(Reply::Text(text))) = (words.next(), words.next()) {
        members.extend(score(&text).map(|score| (member.into_bytes(), score)));
    }
    members
}
