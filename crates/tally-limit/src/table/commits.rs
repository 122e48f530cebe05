//! How a table is written and read, row by row. [`super::log`] describes the rows.

use super::log::{Broken, Reader, Stored, StoredRef, Writer};
use crate::named::CALLS_OF_ROW_MAX;
use crate::table::{Commit, Full, Table};

impl Table {
    /// Whether anything has changed since the last commit.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// What is to be written next; nothing where all is written. Its body is at most [`super::log::BODY_BYTES_MAX`];
    /// call it until it returns nothing. Whatever it returned must be written, or the table be thrown away and loaded
    /// again.
    pub fn commit(&mut self) -> Option<Commit> {
        let log = self.log.as_mut().filter(|_| !self.dirty.is_empty())?;
        if let Some((oldest, slots)) = log.take_oldest(self.slots.calls_bytes()) {
            for slot in slots {
                let Some(entry) = self.slots.get_mut(slot) else {
                    continue;
                };
                let calls = entry.lender.calls.as_mut();
                let has_calls = calls.is_some_and(|calls| calls.change_row(oldest));
                if (entry.row == oldest || has_calls) && !entry.is_dirty {
                    entry.is_dirty = true;
                    self.dirty.push(slot);
                }
            }
        }
        let (place, row) = (log.next_place(), log.next());
        let mut writer = Writer::new(&self.clock);
        let mut written = Vec::new();
        while writer.has_room() {
            let Some(slot) = self.dirty.pop() else { break };
            let Some(entry) = self.slots.get_mut(slot) else {
                continue;
            };
            log.remove(entry.row, u64::from(entry.stored_bytes));
            entry.row = row;
            let calls = entry.lender.calls.as_mut();
            let calls = calls.map_or_else(Vec::new, |calls| calls.take_changed(row));
            let stored = StoredRef {
                subject: &entry.subject,
                policy: &entry.policy,
                lender: &entry.lender,
            };
            let bytes = writer.push(&stored, entry.owner, &calls);
            entry.stored_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            entry.is_dirty = false;
            written.push((slot, bytes, calls));
        }
        let body = writer.finish();
        log.push(place, row, body.len());
        let mut more = Vec::new();
        for (slot, bytes, calls) in written {
            log.add(slot, bytes);
            log.add_calls(&calls);
            if calls.len() == CALLS_OF_ROW_MAX {
                more.push(slot);
            }
        }
        let deleted = log.truncate(self.clock.peek(i64::MIN));
        for slot in more {
            // The rest of its calls is in the next row.
            self.touch(slot);
        }
        Some(Commit {
            place,
            row,
            body,
            deleted,
        })
    }

    /// Takes in a stored row; rows in ascending order of their numbers.
    ///
    /// # Errors
    /// [`Broken`] where it cannot be read; what could be is kept.
    pub fn load(
        &mut self,
        (place, row): (u64, u64),
        body: &[u8],
        wall_ms: i64,
    ) -> Result<(), Broken> {
        let (mut clock, mut reader) = Reader::new(body)?;
        let now_ms = clock.read(wall_ms);
        self.clock = clock;
        if let Some(log) = &mut self.log {
            log.push(place, row, body.len());
        }
        while let Some((stored, bytes)) = reader.next()? {
            let known = self.slots.slot_of(&stored.subject);
            // What was held when it was stored may be loaded, even with what has become idle since.
            let slot = match known {
                Some(slot) => slot,
                None => {
                    let Stored {
                        subject, policy, ..
                    } = &stored;
                    match self.slots.insert(subject, reader.owner(), policy, true) {
                        Ok(slot) => slot,
                        Err(Full) => continue,
                    }
                }
            };
            if let Some(entry) = self.slots.get_mut(slot) {
                let calls = reader.calls();
                if let Some(log) = &mut self.log {
                    log.remove(entry.row, u64::from(entry.stored_bytes));
                    log.add(slot, bytes);
                    log.add_calls(&calls);
                }
                entry.policy = stored.policy;
                let known = entry.lender.calls.take();
                entry.lender = stored.lender;
                entry.lender.calls = known;
                for call in calls {
                    entry.lender.put_call(row, call);
                }
                entry.row = row;
                entry.stored_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            }
            self.slots.weigh(slot);
            self.sweep(false, true, now_ms);
        }
        Ok(())
    }
}
