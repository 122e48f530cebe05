//! The Durable Object that owns all keys of Redis's dialect: a single one, as in a Redis.
//!
//! Invariants: no other command changes the keys of a command while it runs, see [`super::locks`]. Its changes
//! are written in one commit, or are one step of the cell or root that holds the counter. Small values are stored here.
//! A counter is in cells, and is the same counter as in the other calls. A repeated named attempt gets its first
//! answer.
//!
//! A command: lock its keys, load them, decide, write, answer. If others have counted meanwhile, it is decided again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::boards::Boards;
use super::core::{
    COUNTERS_AT_ONCE, ElementLine, KeyspaceCore, ROUNDS_MAX, busy, reply_of, unavailable,
};
use super::counters::{Counters, UpdateOutcome};
use super::lanes::AddLanes;
use super::listeners::Listeners;
use super::loads::KeysRead;
use super::locks::Locks;
use super::postponed_ends::PostponedEnds;
use super::store::{KeyspaceStore, Try};
use super::writes::Writes;
use crate::cell::ledger::kept_ms;
use crate::kit::storage_guard::StorageGuard;
use crate::kit::store::Store;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::Host;
use tally_host::dispatch;
use tally_host::object::{IncomingCall, Object, Reply as Sent, Shell};
use tally_redis::command::{Act, Command, Elements, run};
use tally_redis::glob::StepsLeft;
use tally_redis::keyspace::effects::{CounterEffect, KeyEffect};
use tally_redis::keyspace::steps::{CommandRequest, CommandStep};
use tally_redis::reply_error::ReplyError;
use tally_redis::reply_room::ReplyRoom;
use tally_redis::space::{KeyspaceEntry, Space};
use tally_redis::{account_room, error, kept_replies, notifications};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{Call, Fault, KeptSize, RunCommands, Subscribe, decode};
use tally_wire::redis::Reply;
use tally_wire::rights::Scope;

/// The keyspace, as the platform sees it.
pub struct Keyspace {
    core: Rc<KeyspaceCore>,
}

impl Keyspace {
    /// Starts the object from what is stored.
    pub fn start(object: Object, host: Host) -> Self {
        let counters = Rc::new(Counters::new(host.clone()));
        let core = KeyspaceCore {
            rows: KeyspaceStore::new(Store::new(object.clone())),
            lanes: AddLanes::new(object.clone(), host.clone(), counters.clone()),
            counters,
            boards: Boards::new(host.clone()),
            elements: ElementLine::new(&host),
            listeners: Rc::new(Listeners::new(object, host.clone())),
            host,
            locks: Locks::default(),
            ends: PostponedEnds::default(),
            storage: StorageGuard::default(),
        };
        core.storage.record(core.rows.open());
        Self {
            core: Rc::new(core),
        }
    }
}

impl Shell for Keyspace {
    fn answer(&self, arrived: IncomingCall) -> LocalBoxFuture<'_, Sent> {
        Box::pin(async move {
            if arrived.path == Subscribe::PATH {
                return self.core.on_subscribe(decode(&arrived.message)).await;
            }
            dispatch!(&arrived, message, {
                RunCommands => {
                    let ran = self.core.on_run(message).await;
                    self.core.listeners.send();
                    ran
                },
            })
        })
    }

    fn alarm(&self) -> LocalBoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.core.on_alarm().await })
    }
}

impl KeyspaceCore {
    pub(crate) fn readable(&self) -> Result<(), Fault> {
        self.storage.check(|| self.storage.record(self.rows.open()))
    }

    async fn on_run(&self, message: Result<RunCommands, Fault>) -> Result<Vec<Reply>, Fault> {
        let message = message?;
        self.readable()?;
        let here = &message.datacenter;
        let attempts = message.attempts.as_ref();
        let named = |index: usize| {
            let attempts = attempts?;
            let name = attempts.names.get(index).copied().flatten()?;
            Some((name, attempts.request))
        };
        let mut commands = Vec::with_capacity(message.commands.len());
        for (index, args) in message.commands.iter().enumerate() {
            commands.push(CommandRequest {
                command: Command::find(args)
                    .map_err(|_| Fault::Broken("a command was sent that is none".to_owned()))?,
                args,
                named: named(index),
                caller: attempts.map_or(0, |attempts| attempts.caller),
                account: message.account,
            });
        }
        let mut all = BTreeSet::new();
        if message.is_transaction {
            for command in &commands {
                all.extend(command.keys());
            }
        }
        let _held = self.locks.hold(&self.host, all.clone(), true).await?;
        for key in &all {
            if let Err(ReplyError::Fault(fault)) = self.living_row(key, here).await {
                return Err(fault);
            }
        }
        let holds = !message.is_transaction;
        let room = ReplyRoom::default();
        let mut replies = Vec::with_capacity(commands.len());
        while replies.len() < commands.len() {
            let rest = &commands[replies.len()..];
            replies.extend(self.run_some(rest, here, holds, &room).await);
        }
        self.arm().await;
        Ok(replies)
    }

    /// Runs the first of these commands, with those that may be joined with it.
    async fn run_some(
        &self,
        rest: &[CommandRequest<'_>],
        here: &Datacenter,
        holds: bool,
        room: &ReplyRoom,
    ) -> Vec<Reply> {
        let Some(next) = rest.first() else {
            return Vec::new();
        };
        if room.is_full() && next.returns_stored() {
            return vec![error::replies_too_large()];
        }
        let scripts = self.run_scripts(rest, holds, room);
        if !scripts.is_empty() {
            return scripts;
        }
        match CommandStep::of(rest) {
            CommandStep::Sorted(count) => self.sorted_all(&rest[..count], here, holds, room).await,
            CommandStep::Elements(count) => {
                self.add_elements_all(&rest[..count], here, holds).await
            }
            CommandStep::Adds(count) => self.add_all(&rest[..count], here, holds).await,
            CommandStep::One => {
                let reply = self.one(next, here, holds, room.steps()).await;
                let reply = reply.unwrap_or_else(|fault| unavailable(&fault));
                vec![room.admit(reply, next.command.scope == Scope::Read)]
            }
        }
    }

    async fn on_subscribe(&self, message: Result<Subscribe, Fault>) -> Sent {
        let opened = match message {
            Ok(message) => self.listeners.take(message),
            Err(fault) => Sent::Refused(500, fault.to_string()),
        };
        // Without an alarm, listeners are not notified of keys that expire, and get no pings.
        self.arm().await;
        opened
    }

    /// Notifies listeners of the effect of a command on its key.
    pub(super) fn notify_of(&self, request: &CommandRequest<'_>) {
        self.listeners
            .notify(|| vec![notifications::of_command(request.command, request.args)]);
    }

    /// Runs one command, or returns its first answer.
    async fn one(
        &self,
        request: &CommandRequest<'_>,
        here: &Datacenter,
        holds: bool,
        steps: &StepsLeft,
    ) -> Result<Reply, Fault> {
        if let Some((name, fingerprint)) = request.named
            && let Some((known, reply)) = self.rows.answered(name)?
        {
            return Ok(kept_replies::repeated(reply, known == fingerprint));
        }
        // The cell of a counter knows its own attempts, and may have counted this one.
        if !matches!(request.command.act, Act::Add) && !self.may_keep(&[request])? {
            return Ok(kept_replies::no_room());
        }
        if matches!(request.command.act, Act::Elements(Elements::Add)) {
            let added = self
                .add_elements(&request.args[1], &[request], here, holds)
                .await;
            let first = added.map(|mut replies| replies.pop());
            return Ok(reply_of(first.map(|reply| reply.unwrap_or(Reply::Nil))));
        }
        let is_add = matches!(request.command.act, Act::Add);
        let keys = if holds {
            request.keys()
        } else {
            BTreeSet::new()
        };
        let _held = if is_add {
            self.hold_to_add(keys, here).await?
        } else {
            self.locks.hold(&self.host, keys, true).await?
        };
        let done = if is_add {
            self.add_one(request, here).await
        } else if matches!(
            request.command.act,
            Act::All(_) | Act::Elements(Elements::Merge)
        ) || request.is_reset()
        {
            let done = self.run_unstored(request, here, steps).await;
            self.keep_reply(request, done)
        } else if matches!(request.command.act, Act::Elements(_)) {
            let keys = request.command.keys_of(request.args).unwrap_or_default();
            self.count_elements(&keys, here).await
        } else if matches!(request.command.act, Act::SortedSets) {
            self.join_sets(request, here).await
        } else if let Some(script) = request.script_of_sets() {
            self.read_sets(script, request.args).await
        } else {
            self.decide(request, here).await
        };
        Ok(reply_of(done))
    }

    /// Runs a command whose changes are not one commit with the reply to it.
    async fn run_unstored(
        &self,
        request: &CommandRequest<'_>,
        here: &Datacenter,
        steps: &StepsLeft,
    ) -> Result<Reply, ReplyError> {
        if let Act::All(whole) = request.command.act {
            return self.whole(whole, request.args, steps).await;
        }
        if request.is_reset() {
            return self.reset(request.args, steps).await;
        }
        let keys = request.command.keys_of(request.args).unwrap_or_default();
        let merged = self.merge_elements(&keys, here).await?;
        self.notify_of(request);
        Ok(merged)
    }

    /// Stores the reply to an attempt that has a name.
    fn keep_reply(
        &self,
        request: &CommandRequest<'_>,
        done: Result<Reply, ReplyError>,
    ) -> Result<Reply, ReplyError> {
        let reply = done?;
        self.rows
            .write(&[], self.try_of(request, &reply).as_ref())?;
        Ok(reply)
    }

    /// Whether the replies to those of these commands that have names may be stored. Cost: none once the sizes of
    /// stored replies are read.
    pub(super) fn may_keep(&self, requests: &[&CommandRequest<'_>]) -> Result<bool, Fault> {
        let named = requests.iter().filter(|request| request.named.is_some());
        let more = named.map(|request| kept_replies::size_max(request.returns_stored()));
        let more = more.reduce(KeptSize::plus);
        let caller = requests.first().map_or(0, |request| request.caller);
        let has_room = |more| self.rows.has_room(caller, more, self.host.now_ms());
        more.map_or(Ok(true), has_room)
    }

    /// Runs a command on its keys and stores its changes, if the keys are as they were read.
    pub(super) async fn run_once(
        &self,
        request: &CommandRequest<'_>,
        here: &Datacenter,
        (mut space, read): (Space, &KeysRead),
        is_blind: bool,
    ) -> Result<(Reply, UpdateOutcome), ReplyError> {
        let before = space.clone();
        let reply = run(request.command, &mut space, request.args);
        let writes = Writes {
            before: &before,
            after: &space,
            read,
            is_blind,
        };
        let kept = self.keep(&writes, here, request, &reply).await?;
        Ok((reply, kept))
    }

    /// Runs commands of one key each: those of one key together, and at most `at_once` keys at once. A refusal is the
    /// reply to each command of its key.
    pub(super) async fn by_key(
        &self,
        requests: &[CommandRequest<'_>],
        at_once: usize,
        run: impl AsyncFn(String, Vec<&CommandRequest<'_>>) -> Result<Vec<Reply>, ReplyError>,
    ) -> Vec<Reply> {
        let mut keys = BTreeMap::<&String, Vec<usize>>::new();
        for (index, request) in requests.iter().enumerate() {
            keys.entry(&request.args[1]).or_default().push(index);
        }
        let run = |(key, indices): (&String, Vec<usize>)| {
            let group = indices
                .iter()
                .filter_map(|index| requests.get(*index))
                .collect();
            let ran = run(key.clone(), group);
            async move {
                let refused = |refused| vec![reply_of(Err(refused)); indices.len()];
                let replies = ran.await.unwrap_or_else(refused);
                (indices, replies)
            }
        };
        let mut replies = vec![Reply::Nil; requests.len()];
        for (indices, group) in all_settled(keys.into_iter().map(run), at_once).await {
            for (index, reply) in indices.into_iter().zip(group) {
                if let Some(known) = replies.get_mut(index) {
                    *known = reply;
                }
            }
        }
        replies
    }

    /// Loads the keys, decides, and stores the changes.
    async fn decide(
        &self,
        request: &CommandRequest<'_>,
        here: &Datacenter,
    ) -> Result<Reply, ReplyError> {
        let keys = request.keys();
        let limit = request.limit_key();
        for _ in 0..ROUNDS_MAX {
            // The keys of a script are no counters, except known ones and the key that may hold a limit.
            let own_alone = request.is_script() && self.are_own(&keys)?;
            let (mut space, read) = self.load(&keys, here, own_alone, request.command).await?;
            match request.command.scope {
                Scope::Read => read.show(&mut space),
                _ => read.show_own_ends(&mut space),
            }
            if let Some(key) = limit {
                self.load_limit(key, &mut space).await?;
            }
            let (reply, kept) = self
                .run_once(request, here, (space, &read), request.is_blind())
                .await?;
            if kept == UpdateOutcome::Done {
                return Ok(reply);
            }
        }
        Err(busy())
    }

    /// Stores the changes of a command: counters by their roots and cells, one after the other, then all rows at once.
    pub(super) async fn keep(
        &self,
        writes: &Writes<'_>,
        here: &Datacenter,
        request: &CommandRequest<'_>,
        reply: &Reply,
    ) -> Result<UpdateOutcome, ReplyError> {
        self.prepare(writes, here, request).await?;
        let (mut rows, mut gone) = (Vec::new(), Vec::new());
        for key in writes.after.changed() {
            let after = writes.after.get(key);
            let seen = writes.read.counters.get(key).filter(|_| !writes.is_blind);
            let effect = KeyEffect::of(request, (writes.before.get(key), after), seen)?;
            if let Ok(id) = CounterId::parse(key.as_str()) {
                if effect.ends_board {
                    self.boards.end(&id, None).await?;
                }
                let changed = match effect.counter {
                    CounterEffect::Same => UpdateOutcome::Done,
                    CounterEffect::Begin(value) => self.create(&id, here, value).await?,
                    CounterEffect::Add(delta, seen) => {
                        self.counters.add_seen(&id, here, delta, seen).await?
                    }
                    CounterEffect::Replace(value, seen) => {
                        self.counters.replace(&id, here, value, seen).await?
                    }
                };
                if changed == UpdateOutcome::Conflict {
                    return Ok(UpdateOutcome::Conflict);
                }
            }
            gone.extend(effect.deleted.map(|was_counter| (key, was_counter)));
            let mut row = after.and_then(|entry| writes.row_of(key, entry));
            if let Some(expires_ms) = row.as_mut().and_then(|row| row.expires_ms.as_mut()) {
                // The value that was just set must not expire in the past, however long setting it took.
                *expires_ms = (*expires_ms).max(self.host.now_ms());
                self.ends.record_expiry(*expires_ms);
            }
            rows.push((key.clone(), row));
        }
        // Other calls may have made a counter and a board of the same name: a deleted key is neither.
        let gone = gone.into_iter();
        let ends = gone.map(|(key, was_counter)| self.end_others(key, was_counter, here));
        for ended in all_settled(ends, COUNTERS_AT_ONCE).await {
            ended?;
        }
        let answered = self.try_of(request, reply);
        (self.rows).write_for(request.account, &rows, answered.as_ref())?;
        self.listeners.notify(|| {
            notifications::of_keys(request.command, request.args, writes.before, writes.after)
        });
        Ok(UpdateOutcome::Done)
    }

    /// Creates a counter with a value. If another caller has created it meanwhile, both count, unless the sum has more
    /// than 64 bits.
    async fn create(
        &self,
        id: &CounterId,
        here: &Datacenter,
        value: i64,
    ) -> Result<UpdateOutcome, ReplyError> {
        match self.counters.add(id, here, value, Default::default()).await {
            Err(ReplyError::Reply(full)) if full == error::overflow() => {
                Ok(UpdateOutcome::Conflict)
            }
            added => Ok(added?.map_or(UpdateOutcome::Conflict, |_| UpdateOutcome::Done)),
        }
    }

    /// Refuses a command before any change if its account has no room for the new values.
    fn check_room(
        &self,
        writes: &Writes<'_>,
        request: &CommandRequest<'_>,
    ) -> Result<(), ReplyError> {
        if !request.account.is_some() {
            return Ok(());
        }
        let row = |key: &String| {
            let after = writes.after.get(key);
            let row = after.and_then(|entry| writes.row_of(key, entry));
            (key.clone(), row)
        };
        let rows: Vec<_> = writes.after.changed().map(row).collect();
        match self.rows.has_room_for(request.account, &rows)? {
            true => Ok(()),
            false => Err(ReplyError::Reply(account_room::no_room(request.account))),
        }
    }

    /// Fails before any change if the account of a command has no room, if a counter would outlast its own end, or
    /// if a command that changes several keys cannot set one of them.
    async fn prepare(
        &self,
        writes: &Writes<'_>,
        here: &Datacenter,
        request: &CommandRequest<'_>,
    ) -> Result<(), ReplyError> {
        self.check_room(writes, request)?;
        if writes.outlasts_own_end() {
            return Err(ReplyError::Reply(error::own_end()));
        }
        if writes.after.changed().nth(1).is_none() {
            return Ok(());
        }
        for key in writes.after.changed() {
            let after = writes.after.get(key).filter(|entry| entry.is_counter);
            if let Some(seen) = writes.read.counters.get(key)
                && let Some(value) = after.and_then(KeyspaceEntry::number)
                && let Ok(id) = CounterId::parse(key.as_str())
            {
                self.counters.prepare(&id, here, value, seen).await?;
            }
        }
        Ok(())
    }

    /// The slot of replies that are stored now.
    pub(super) fn slot(&self) -> i64 {
        kept_replies::slot_of(self.host.now_ms(), kept_ms(&self.host))
    }

    pub(super) fn try_of(&self, request: &CommandRequest<'_>, reply: &Reply) -> Option<Try> {
        let (name, fingerprint) = request.named?;
        Some(Try {
            name,
            fingerprint,
            reply: reply.clone(),
            caller: request.caller,
            slot: self.slot(),
        })
    }
}
