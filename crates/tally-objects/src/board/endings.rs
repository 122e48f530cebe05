//! The end of a board, and the deletion of what it leaves.

use super::object::BoardCore;
use super::state::Loaded;
use tally_core::board::placing::{Layout, ShardAt};
use tally_core::counter::id::CounterId;
use tally_shared::call;
use tally_wire::messages::{EndBoard, Fault, ForgetBoard, ShardCommand};

/// How many rows of ended periods an alarm deletes, and the pause before the next, milliseconds.
const SWEPT_AT_ONCE: u64 = 2_000;

impl BoardCore {
    pub(super) async fn on_end(&self, message: Result<EndBoard, Fault>) -> Result<bool, Fault> {
        let EndBoard { board, generation } = message?;
        self.ready(&board, ShardAt::default()).await?;
        if generation.is_some() && generation != self.generation() {
            return Ok(false);
        }
        let was_living = self.is_living();
        if was_living {
            self.commit(|loaded| {
                loaded.head.is_living = false;
                loaded.role.has_unsent_state = loaded.role.layout.number > 0;
                loaded.begin_epoch();
                loaded.keep_periods(&self.rows, 0)
            })?;
            // If a shard does not answer, or this object ends, the alarm continues the work.
            self.put_off();
            self.arm().await;
        }
        self.send_end(&board).await?;
        self.arm().await;
        Ok(was_living)
    }

    /// Notifies the shards of an ended board, then the directory, of its end.
    ///
    /// # Errors
    /// If one does not answer; the alarm then notifies it.
    pub(super) async fn send_end(&self, board: &CounterId) -> Result<(), Fault> {
        if self.is_living() {
            // The board was created again, and has registered itself.
            return Ok(());
        }
        let ended = self.generation();
        if let (layout @ Layout { number: 1.., .. }, Some(generation)) = (self.layout(), ended) {
            let end = ShardCommand::End(generation);
            self.command_all(board, layout, &end).await?;
        }
        let generation = ended.unwrap_or_else(|| {
            // A board that was registered and never created is removed from the directory. If its creation continues,
            // it is registered again: `begin` sees the higher number.
            let now = u64::try_from(self.host.now_ms()).unwrap_or(0);
            let last = self.beginning.get().unwrap_or(0).max(now);
            self.beginning.set(Some(last + 1));
            last
        });
        let forget = ForgetBoard {
            board: board.clone(),
            generation,
        };
        call(&self.host, &forget).await?;
        let has_unsent_end = |loaded: &Loaded| {
            let Loaded { head, role, .. } = loaded;
            role.has_unsent_state && !head.is_living && Some(head.generation) == ended
        };
        if self.loaded.borrow().as_ref().is_some_and(has_unsent_end) {
            self.commit(|loaded| {
                loaded.role.has_unsent_state = false;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Deletes expired rows. Returns whether all rows of this object are expired.
    pub(super) fn sweep_some(&self) -> Result<bool, Fault> {
        if self.generation().is_none() {
            return Ok(false);
        }
        let now_ms = self.host.now_ms();
        let is_over = self.commit(|loaded| {
            let head = &mut loaded.head;
            let mut ledgers = head.ledgers();
            if let Some(newest) = ledgers.expire(now_ms) {
                self.rows.delete_records(newest)?;
                head.set_ledgers(&ledgers);
            }
            let mut has_rest = head.swept_epoch < head.epoch;
            if has_rest && !self.rows.sweep(head.epoch, SWEPT_AT_ONCE)? {
                (head.swept_epoch, has_rest) = (head.epoch, false);
            }
            // The owner of a spread board names its shards to the next board; a shard waits for commands of its owner.
            let role = &loaded.role;
            let is_left = role.layout.number > 0 || !role.moves.is_at_rest();
            Ok(!head.is_living && !has_rest && !is_left && ledgers.records() == 0)
        })?;
        Ok(is_over && self.beginning.get().is_none() && !self.moves.is_receiving())
    }

    /// Deletes all rows.
    pub(super) async fn delete_all(&self) -> Result<(), Fault> {
        self.is_ending.set(true);
        let deleted = self.store.delete_all().await;
        // The alarm is deleted with the rows.
        self.armed_ms.set(i64::MAX);
        self.is_ending.set(false);
        self.load();
        deleted
    }
}
