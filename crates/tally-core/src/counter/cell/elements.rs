//! Unique elements of a cell: the open minute, all time, and the hours and days that are over.
//!
//! Invariant: before [`CellState::open_hour`] every hour's row holds all elements of its minutes, and every day's row
//! all elements of its hours. The commit that finds an hour or day over joins its rows. A late element goes into each
//! row that covers it. So a read never needs a row that does not exist yet.

use super::{CellState, clamp_stamp};
use crate::counter::flush::{Changes, Load};
use crate::counter::history::Resolution;
use crate::counter::uniques_retention::kept_seconds;
use crate::sketch::{Source, Token, Uniques};

impl CellState {
    /// The first hour whose minutes have not been joined into one row.
    pub fn open_hour(&self) -> Option<i64> {
        self.open_hour
    }

    /// Counts the elements of a load.
    pub(super) fn apply_elements(&mut self, load: &Load, now: i64, changes: &mut Changes) {
        if !load.has_tokens() {
            return;
        }
        let mut open_changed = false;
        self.close_what_is_over(now, &mut open_changed, changes);
        self.begin_hour(now, changes);
        let shards = self.spread();
        let live = (load.tokens.iter()).map(|&(second, of)| (clamp_stamp(second, now), of));
        let live = live.map(|of| (false, of));
        let past = load.past_tokens.iter().map(|&of| (true, of));
        for (is_past, (second, element)) in live.chain(past) {
            let minute = Resolution::Minute.start_of(second);
            let element = (element.source(load.hash, shards), element.token);
            let open = self.open_uniques.as_ref();
            if is_past && open.is_some_and(|(open, _)| minute < *open) {
                // Lines of a log may be up to two minutes late: windows must find them in their own minute.
                self.insert_late(minute, element, now, changes);
            } else {
                self.insert_token(minute, element, now, &mut open_changed, changes);
            }
        }
        if !load.imported.is_empty() {
            // If nothing is new, nothing is written: a repeated import costs no row.
            changes.all_time |= self.all_time.merge(&load.imported);
        }
        if let Some((minute, uniques)) = self.open_uniques.as_ref().filter(|_| open_changed) {
            changes.put_minute(*minute, uniques);
        }
        // The first minute of an hour may just have closed the last minute of the hour before. So no minute exists
        // after an hour that is not recorded as over.
        self.begin_hour(now, changes);
    }

    fn close_what_is_over(&mut self, now: i64, open_changed: &mut bool, changes: &mut Changes) {
        let minute = Resolution::Minute.start_of(now);
        // Stamps are up to 5 s off, so the minute before is still open. If the clock has stepped back by more than a
        // minute, an element belongs into its own minute, not into a future one.
        let is_open =
            |open: i64| open.abs_diff(minute) <= Resolution::Minute.seconds().unsigned_abs();
        let open = self.open_uniques.as_ref().map(|(open, _)| *open);
        if open.is_some_and(|open| !is_open(open)) {
            // Writing the sketch of all time deletes expired minutes, so it must include them first.
            self.close_minute(open_changed, changes);
        }
    }

    /// Records that the hour before is over, if it is.
    fn begin_hour(&mut self, now: i64, changes: &mut Changes) {
        let hour = Resolution::Hour.start_of(now);
        let open = self.open_uniques.as_ref().map(|(open, _)| *open);
        let begins = match self.open_hour {
            None => hour,
            Some(before) if before == hour => return,
            // Its last minute is still open.
            Some(before) if open.is_some_and(|open| Resolution::Hour.start_of(open) == before) => {
                return;
            }
            Some(before) => {
                // Also if the clock has stepped back: then that hour will be over again.
                changes.over.insert((Resolution::Hour, before));
                let day = Resolution::Day.start_of(before);
                if day != Resolution::Day.start_of(hour) {
                    changes.over.insert((Resolution::Day, day));
                }
                hour
            }
        };
        self.open_hour = Some(begins);
    }

    /// A token of the open minute goes into that minute's sketch only. The sketch of all time takes it over when the
    /// minute is over. So a plain flush writes one sketch, not two.
    fn insert_token(
        &mut self,
        minute: i64,
        (source, token): (Source, Token),
        now: i64,
        open_changed: &mut bool,
        changes: &mut Changes,
    ) {
        // An element that arrives just after its minute joins the open one, which saves a row: it is at most 5 s off,
        // as stamps are. No minute opens before its time, so a window up to now lacks no element.
        let minute = minute.min(Resolution::Minute.start_of(now));
        let oldest = Resolution::Minute.start_of(now) - Resolution::Minute.seconds();
        let recent = minute >= oldest;
        match &mut self.open_uniques {
            Some((open, uniques)) if recent && *open >= minute => {
                *open_changed |= uniques.insert(source, token)
            }
            _ if recent => {
                self.close_minute(open_changed, changes);
                let mut uniques = Uniques::new();
                uniques.insert(source, token);
                self.open_uniques = Some((minute, uniques));
                *open_changed = true;
                // Its hour may have been over already: then it will be over again.
                let hour = Resolution::Hour.start_of(minute);
                self.open_hour = self.open_hour.map(|open| open.min(hour));
            }
            _ => self.insert_late(minute, (source, token), now, changes),
        }
    }

    /// Adds an element to each row that covers it: all time, the row of its minute, and the rows of its hour and day if
    /// those are over.
    fn insert_late(
        &mut self,
        minute: i64,
        (source, token): (Source, Token),
        now: i64,
        changes: &mut Changes,
    ) {
        changes.all_time |= self.all_time.insert(source, token);
        let open_hour = self.open_hour.unwrap_or(i64::MAX);
        for step in Resolution::PAGED {
            let start = step.start_of(minute);
            let is_there = step == Resolution::Minute || start < step.start_of(open_hour);
            if is_there && start > now.saturating_sub(kept_seconds(step)) {
                changes.late_tokens.push((step, start, source, token));
            }
        }
    }

    fn close_minute(&mut self, open_changed: &mut bool, changes: &mut Changes) {
        let Some((minute, uniques)) = self.open_uniques.take() else {
            return;
        };
        self.all_time.merge(&uniques);
        // Written even if nothing is new, because old minutes are deleted with it.
        changes.all_time = true;
        if *open_changed {
            changes.put_minute(minute, &uniques);
        }
        *open_changed = false;
    }
}
