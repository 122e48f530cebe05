//! Runs the scripts of rate limits for a keyspace, and `INCREX` of windows. Those of one request whose keys are free
//! are decided one after the other in one turn, and their changes are written together.
//!
//! Invariant: there is no await, so no other command runs in between, and each change is written before its reply.

use super::core::{KeyspaceCore, unavailable};
use super::writes::row_of;
use tally_redis::command::run;
use tally_redis::keyspace::steps::CommandRequest;
use tally_redis::notifications::KeyEvent;
use tally_redis::reply_room::ReplyRoom;
use tally_redis::space::{KeyspaceEntry, Space, StoredValue};
use tally_redis::{account_room, notifications};
use tally_wire::messages::Fault;
use tally_wire::redis::Reply;

impl KeyspaceCore {
    /// Runs the first of these commands, as long as they are such scripts. A script that cannot be decided at once,
    /// because it is about a counter or waits for a key, is left.
    pub(super) fn run_scripts(
        &self,
        requests: &[CommandRequest<'_>],
        holds: bool,
        room: &ReplyRoom,
    ) -> Vec<Reply> {
        let (mut replies, mut events) = (Vec::new(), Vec::new());
        let written = self.rows.together(|| {
            for request in requests {
                if room.is_full() {
                    break;
                }
                match self.run_script(request, holds, &mut events) {
                    Ok(Some(reply)) => replies.push(room.admit(reply, false)),
                    Ok(None) => break,
                    Err(fault) => {
                        replies.push(unavailable(&fault));
                        break;
                    }
                }
            }
        });
        match written {
            Ok(()) => self.listeners.notify(|| events),
            Err(fault) => replies.fill(unavailable(&fault)),
        }
        replies
    }

    fn run_script(
        &self,
        request: &CommandRequest<'_>,
        holds: bool,
        events: &mut Vec<KeyEvent>,
    ) -> Result<Option<Reply>, Fault> {
        let Some(keys) = request.own_keys() else {
            return Ok(None);
        };
        if holds && !self.locks.are_free(&keys) {
            return Ok(None);
        }
        let mut space = Space::new(self.host.now_ms());
        for key in keys {
            let Some(row) = self.rows.row(&key)? else {
                // A key of `INCREX` may be a counter that is not known yet.
                if request.adds_within() || self.is_elsewhere(&key) {
                    return Ok(None);
                }
                continue;
            };
            let has_ended = row.expires_ms.is_some_and(|at_ms| at_ms <= space.now_ms());
            let Some(value) = row.value.filter(|_| !has_ended) else {
                return Ok(None);
            };
            let entry = KeyspaceEntry {
                value,
                expires_ms: row.expires_ms,
                is_counter: false,
            };
            space.load(key, entry);
        }
        let before = self.listeners.has_any().then(|| space.clone());
        let reply = run(request.command, &mut space, request.args);
        let mut rows = Vec::new();
        for key in space.changed() {
            let after = space.get(key);
            let is_own =
                |entry: &KeyspaceEntry| !entry.is_counter && entry.value != StoredValue::Sorted;
            if !after.is_none_or(is_own) {
                return Ok(None);
            }
            rows.push((key.clone(), after.and_then(|entry| row_of(entry, None))));
        }
        if !self.rows.has_room_for(request.account, &rows)? {
            return Ok(Some(account_room::no_room(request.account)));
        }
        self.rows.write_for(request.account, &rows, None)?;
        if let Some(before) = before {
            events.extend(notifications::of_keys(
                request.command,
                request.args,
                &before,
                &space,
            ));
        }
        Ok(Some(reply))
    }
}
