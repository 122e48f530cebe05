//! Increments of a keyspace: commands that add share their keys, and several increments of one counter are one message
//! to its cell.

use std::collections::BTreeSet;

use super::core::{COUNTERS_AT_ONCE, KeyspaceCore, ROUNDS_MAX, busy, reply_of};
use super::counters::UpdateOutcome;
use super::locks::Guard;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::order::set_of;
use tally_redis::keyspace::steps::CommandRequest;
use tally_redis::reply_error::ReplyError;
use tally_redis::{error, kept_replies, strings};
use tally_wire::messages::Fault;
use tally_wire::redis::Reply;

impl KeyspaceCore {
    /// Locks keys together with other increments. Expired keys are ended first, under an exclusive lock: holders of a
    /// shared lock end nothing, because one would end what another has just created.
    pub(super) async fn hold_to_add(
        &self,
        keys: BTreeSet<String>,
        here: &Datacenter,
    ) -> Result<Guard, Fault> {
        for _ in 0..ROUNDS_MAX {
            let held = self.locks.hold(&self.host, keys.clone(), false).await?;
            let now_ms = self.host.now_ms();
            let mut lapsed = BTreeSet::new();
            for key in &keys {
                let row = self.rows.row(key)?;
                let end_ms = row.and_then(|row| row.expires_ms);
                if end_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                    lapsed.insert(key.clone());
                }
            }
            if lapsed.is_empty() {
                return Ok(held);
            }
            drop(held);
            let _alone = self.locks.hold(&self.host, lapsed.clone(), true).await?;
            for key in &lapsed {
                match self.living_row(key, here).await {
                    Ok(_) => {}
                    Err(ReplyError::Fault(fault)) => return Err(fault),
                    Err(ReplyError::Reply(_)) => return Err(cannot_end()),
                }
            }
        }
        Err(cannot_end())
    }

    /// Runs one increment.
    pub(super) async fn add_one(
        &self,
        request: &CommandRequest<'_>,
        here: &Datacenter,
    ) -> Result<Reply, ReplyError> {
        let key = &request.args[1];
        let row = self.rows.row(key)?;
        let id = CounterId::parse(key.as_str()).ok();
        let (Some(id), None) = (id, row.and_then(|row| row.value)) else {
            return self.add_to_own(request, here).await;
        };
        let delta = strings::delta_of(request.args);
        if delta.is_err() && request.command.name == "INCRBYFLOAT" {
            // Only in this command Redis checks the key before the amount.
            self.begin_counter(&id).await?;
        }
        let delta = delta?.unwrap_or(0);
        for _ in 0..ROUNDS_MAX {
            self.begin_counter(&id).await?;
            if let Some((value, is_now)) = self
                .counters
                .add(&id, here, delta, (request.named, request.account))
                .await?
            {
                if is_now {
                    self.notify_of(request);
                }
                return Ok(strings::added(request.args, value));
            }
        }
        Err(busy())
    }

    /// Makes sure that a counter that does not exist yet may be created: no board has its name, and the expiry of a
    /// former key is removed.
    async fn begin_counter(&self, id: &CounterId) -> Result<(), ReplyError> {
        if self.counters.is_known(id) {
            return Ok(());
        }
        let found = self.boards.find(id).await?;
        if found.is_counter {
            return Ok(());
        }
        if found.is_board && self.boards.has(id).await? {
            return Err(ReplyError::Reply(error::wrong_type()));
        }
        if self
            .rows
            .row(id.as_str())?
            .is_some_and(|row| row.value.is_none())
        {
            self.rows.write(&[(id.as_str().to_owned(), None)], None)?;
        }
        Ok(())
    }

    /// Adds to a string that is no counter, without an await, so that no other command runs in between.
    async fn add_to_own(
        &self,
        request: &CommandRequest<'_>,
        here: &Datacenter,
    ) -> Result<Reply, ReplyError> {
        if !self.may_keep(&[request])? {
            return Ok(kept_replies::no_room());
        }
        let keys = request.keys();
        let (space, read) = self.load(&keys, here, true, request.command).await?;
        match self.run_once(request, here, (space, &read), true).await? {
            (reply, UpdateOutcome::Done) => Ok(reply),
            (_, UpdateOutcome::Conflict) => Err(busy()),
        }
    }

    /// Runs several increments: those of one counter are one message to its cell. Each counter is locked by itself, so
    /// increments of others do not fail while one is locked.
    pub(super) async fn add_all(
        &self,
        requests: &[CommandRequest<'_>],
        here: &Datacenter,
        holds: bool,
    ) -> Vec<Reply> {
        let add = async |key: String, group: Vec<&CommandRequest<'_>>| {
            let only = set_of(holds.then_some(key));
            let _held = self.hold_to_add(only, here).await?;
            self.add_group(&group, here).await
        };
        self.by_key(requests, COUNTERS_AT_ONCE, add).await
    }

    /// Adds to one key.
    async fn add_group(
        &self,
        group: &[&CommandRequest<'_>],
        here: &Datacenter,
    ) -> Result<Vec<Reply>, ReplyError> {
        if let Some(replies) = self.add_together(group, here).await? {
            return Ok(replies);
        }
        let mut replies = Vec::with_capacity(group.len());
        for request in group {
            replies.push(reply_of(self.add_one(request, here).await));
        }
        Ok(replies)
    }

    /// Adds to one counter at once; `None` where the single results cannot be derived, and nothing was added.
    async fn add_together(
        &self,
        group: &[&CommandRequest<'_>],
        here: &Datacenter,
    ) -> Result<Option<Vec<Reply>>, Fault> {
        let mut deltas = Vec::with_capacity(group.len());
        for request in group {
            match strings::delta_of(request.args) {
                Ok(Some(delta @ 0..)) => deltas.push(delta),
                _ => return Ok(None),
            }
        }
        let sum = deltas
            .iter()
            .try_fold(0_i64, |sum, delta| sum.checked_add(*delta));
        let key = group.first().map_or("", |request| request.args[1].as_str());
        let (Some(sum), Ok(id)) = (sum, CounterId::parse(key)) else {
            return Ok(None);
        };
        if self.rows.row(key)?.is_some_and(|row| row.value.is_some()) {
            return Ok(None);
        }
        match self.begin_counter(&id).await {
            Ok(()) => {}
            Err(ReplyError::Fault(fault)) => return Err(fault),
            Err(ReplyError::Reply(_)) => return Ok(None),
        }
        let Some(value) = self.lanes.add(&id, here, sum).await? else {
            return Ok(None);
        };
        let mut after = value.saturating_sub(sum);
        let replies = group.iter().zip(deltas).map(|(request, delta)| {
            after = after.saturating_add(delta);
            self.notify_of(request);
            strings::added(request.args, after)
        });
        Ok(Some(replies.collect()))
    }
}

fn cannot_end() -> Fault {
    let what = "this key has expired and cannot be ended; nothing was done, try again";
    Fault::Unavailable(what.to_owned())
}
