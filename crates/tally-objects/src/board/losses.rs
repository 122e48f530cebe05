//! What an object of a board does after its head was damaged and discarded.
//!
//! Invariant: a spread board has one layout, and all its shards answer. A shard that was discarded begins again
//! without members, once its owner knows. An owner that was discarded takes what it knew from its shards: they have
//! all members, and its role, a row of its own, still names them.

use super::object::BoardCore;
use tally_core::board::placing::ShardAt;
use tally_core::counter::id::CounterId;
use tally_shared::call;
use tally_wire::messages::{
    AskBoard, BoardAnswer, BoardQuestion, BoardSeen, Fault, ReportShard, ShardCommand, ShardReply,
};

impl BoardCore {
    /// As [`Self::readable`], for calls that need the head: one that was discarded is put back, or is reported.
    pub(super) async fn ready(&self, board: &CounterId, at: ShardAt) -> Result<(), Fault> {
        self.readable()?;
        // Without a schema nothing was ever stored here, or all was deleted as the owner said.
        if self.generation().is_some() || !self.rows.is_created()? {
            return Ok(());
        }
        if at.layout == 0 {
            return self.restore_owner(board).await;
        }
        let board = board.clone();
        self.report(ReportShard { board, at });
        Ok(())
    }

    /// Puts back the head of the owner of a spread board, from what a shard knows.
    async fn restore_owner(&self, board: &CounterId) -> Result<(), Fault> {
        let role = self.rows.role()?;
        if role.is_here() {
            return Ok(());
        }
        if let Some(moving) = role.moves.moving() {
            // Sealed shards answer nothing.
            let unseal = ShardCommand::Unseal(moving.number);
            self.command_all(board, role.layout, &unseal).await?;
        }
        // A shard that missed the last end still has the generation before.
        let mut newest: Option<Box<BoardSeen>> = None;
        for at in role.layout.all() {
            let about = AskBoard {
                at,
                home: role.placing.home.clone(),
                ..AskBoard::new(board, BoardQuestion::About)
            };
            match call(&self.host, &about).await? {
                BoardAnswer::Seen(seen) => {
                    let known = newest.as_ref().map(|known| known.generation);
                    if Some(seen.generation) > known {
                        newest = Some(seen);
                    }
                }
                BoardAnswer::Moving => {
                    let what = "members of the board are being moved".to_owned();
                    return Err(Fault::Unavailable(what));
                }
                // It has lost its head too, or the board has ended.
                _ => {}
            }
        }
        self.readable()?;
        match (self.generation(), newest) {
            (None, Some(seen)) => {
                self.begin_as(board, seen.generation, seen.settings, &seen.placing)
            }
            // Another call may have put it back meanwhile.
            _ => Ok(()),
        }
    }

    /// Whether a shard of the present layout has lost what it knew of the board. If so, it is told again.
    ///
    /// # Errors
    /// If a shard does not answer; they are told later.
    pub(super) async fn send_again(&self, board: &CounterId, at: ShardAt) -> Result<bool, Fault> {
        let layout = self.layout();
        if layout.number == 0 || at.layout != layout.number || !self.is_living() {
            return Ok(false);
        }
        let measured = self.command_shard(board, at, ShardCommand::Measure).await;
        if !matches!(measured, Ok(ShardReply::Lost)) {
            return Ok(false);
        }
        self.send_later()?;
        self.hurry();
        self.arm().await;
        self.send_settings().await.map(|()| true)
    }

    /// Notes that a shard must be told the state of the board again.
    pub(super) fn send_later(&self) -> Result<(), Fault> {
        self.commit(|loaded| {
            loaded.role.has_unsent_state = loaded.role.layout.number > 0;
            Ok(())
        })
    }
}
