//! Moves of roots that get no calls. The first partition detects that all have moved.
//!
//! Invariant: a root that cannot move delays no other. If any was left, all are checked again. The first partition
//! forgets the former counts only after every partition has answered, by the present counts, that it has no root left
//! that belongs elsewhere.

use std::rc::Rc;

use super::root_moves::RootMoves;
use tally_core::cluster::sizes::Sizes;
use tally_core::counter::id::CounterId;
use tally_shared::call::{call, call_within};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{AnnounceSizes, CallRoot, Fault, SizesOf, encode};

pub(super) mod progress;

/// How many names are checked together, and how many roots are moved at once.
const NAMES_AT_ONCE: u32 = 64;
const ROOTS_AT_ONCE: usize = 8;

/// The time between two steps, milliseconds: 64 in a fifth of a second are a million an hour in each partition.
const NEXT_MS: i64 = 200;

/// The time before all are checked again if some were left, milliseconds.
const AGAIN_MS: i64 = 5_000;

/// How often the first partition asks the others, and those ask it, milliseconds.
const ASK_OTHERS_MS: i64 = 2_000;
const ASK_FIRST_MS: i64 = 10_000;

/// How many partitions the first asks at once.
const PARTITIONS_AT_ONCE: usize = 64;

/// How long a partition may take to answer, and a root to move, milliseconds.
const ANSWER_MS_MAX: u64 = 2_000;

impl RootMoves {
    /// The time of the next step, unix milliseconds.
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        progress::next_due_ms(&self.places, &self.sweep)
    }

    /// Whether there is no root left here that belongs elsewhere by these counts.
    ///
    /// # Errors
    /// As [`RootMoves::adopt_sizes`].
    pub(super) async fn on_swept_of(&self, announcement: AnnounceSizes) -> Result<bool, Fault> {
        self.places.is_number(announcement.partition);
        self.adopt_sizes(&announcement.sizes).await?;
        self.sweep.begin(&self.places.sizes(), self.host.now_ms());
        Ok(self.places.sizes() == announcement.sizes && self.is_swept()?)
    }

    fn is_swept(&self) -> Result<bool, Fault> {
        let bundles = &self.places.bundles;
        Ok(self.sweep.is_done.get()
            && bundles.names_with_notes("leaving", 1)?.is_empty()
            && bundles.names_with_notes("arrived", 1)?.is_empty())
    }

    /// The present counts, as the first partition knows them.
    pub(super) fn on_sizes_of(&self, _: &SizesOf) -> Sizes {
        self.places.is_number(0);
        self.places.sizes()
    }

    /// Does what is due.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) async fn see_to_moves(self: &Rc<Self>) -> Result<(), Fault> {
        let now_ms = self.host.now_ms();
        if self.next_due_ms().is_none_or(|due_ms| due_ms > now_ms) {
            return Ok(());
        }
        let sizes = self.places.sizes();
        self.sweep.begin(&sizes, now_ms);
        if self.sweep.ask_ms.get() <= now_ms {
            match self.places.is_me(0) {
                true => self.ask_others(&sizes).await?,
                false => self.ask_first().await?,
            }
        }
        if !sizes.is_changing() || self.places.sizes() != sizes {
            return Ok(());
        }
        self.confirm_some().await?;
        if !self.sweep.is_done.get() && self.sweep.next_ms.get() <= self.host.now_ms() {
            self.move_some(&sizes).await?;
        }
        Ok(())
    }

    /// Asks the first partition for the present counts.
    async fn ask_first(&self) -> Result<(), Fault> {
        self.sweep.ask_ms.set(self.host.now_ms() + ASK_FIRST_MS);
        let set = self.places.set();
        let answer = call_within(&self.host, &SizesOf { set }, ANSWER_MS_MAX).await;
        match answer {
            Ok(sizes) => self.adopt_sizes(&sizes).await,
            // Asked again later.
            Err(_) => Ok(()),
        }
    }

    /// Announces the counts to the other partitions, and asks whether all roots have moved. Once they have, the former
    /// counts are forgotten.
    async fn ask_others(&self, sizes: &Sizes) -> Result<(), Fault> {
        self.sweep.ask_ms.set(self.host.now_ms() + ASK_OTHERS_MS);
        let swept = self.sweep.swept.borrow().clone();
        let left = (1..sizes.span()).filter(|partition| !swept.contains(partition));
        let ask = |partition: u32| {
            let announcement = AnnounceSizes {
                partition,
                sizes: sizes.clone(),
            };
            async move {
                let answer = call_within(&self.host, &announcement, ANSWER_MS_MAX).await;
                (partition, answer == Ok(true))
            }
        };
        let answers = all_settled(left.map(ask), PARTITIONS_AT_ONCE).await;
        if self.places.sizes() != *sizes {
            return Ok(());
        }
        let is_over = {
            let mut swept = self.sweep.swept.borrow_mut();
            let moved = answers.into_iter().filter(|(_, is_swept)| *is_swept);
            swept.extend(moved.map(|(partition, _)| partition));
            u32::try_from(swept.len()).is_ok_and(|swept| swept + 1 >= sizes.span())
        };
        if is_over && sizes.is_changing() && self.is_swept()? {
            self.adopt_sizes(&sizes.without_former()).await?;
        }
        Ok(())
    }

    /// Makes other partitions take over the next roots that belong there.
    async fn move_some(self: &Rc<Self>, sizes: &Sizes) -> Result<(), Fault> {
        let names = self.next_names()?;
        let Some(last) = names.last().cloned() else {
            return self.end_part();
        };
        let move_on = |name: CounterId| async move { self.move_on(&name, sizes).await };
        let moved = all_settled(names.into_iter().map(move_on), ROOTS_AT_ONCE).await;
        if moved.iter().any(Result::is_err) {
            self.sweep.has_left.set(true);
        }
        if self.places.sizes() != *sizes {
            // The sweep began again meanwhile, with the first name.
            return Ok(());
        }
        self.sweep.after.replace(last.as_str().to_owned());
        self.sweep.next_ms.set(self.host.now_ms() + NEXT_MS);
        Ok(())
    }

    fn next_names(&self) -> Result<Vec<CounterId>, Fault> {
        let bundles = &self.places.bundles;
        let mut after = self.sweep.after.borrow().clone();
        if !self.sweep.is_last_part.get() {
            return bundles.names_after(&after, NAMES_AT_ONCE);
        }
        let mut names = Vec::new();
        for _ in 0..NAMES_AT_ONCE {
            let Some(name) = bundles.record_after(&after)? else {
                break;
            };
            after = name.as_str().to_owned();
            names.push(name);
        }
        Ok(names)
    }

    fn end_part(&self) -> Result<(), Fault> {
        let sweep = &self.sweep;
        let now_ms = self.host.now_ms();
        if !sweep.is_last_part.replace(true) {
            sweep.after.replace(String::new());
            sweep.next_ms.set(now_ms);
        } else if sweep.has_left.get() {
            sweep.restart(now_ms + AGAIN_MS);
        } else {
            sweep.is_done.set(true);
        }
        Ok(())
    }

    /// Makes the partition where a root belongs take it over. If it belongs here and is sealed for another partition,
    /// finds it and takes it over again.
    async fn move_on(self: &Rc<Self>, name: &CounterId, sizes: &Sizes) -> Result<(), Fault> {
        let to = self.places.place(name);
        if self.places.is_me(to) {
            // The root is sealed for a place of earlier counts, and may not have been taken over. There may never be a
            // call for it.
            return match self.places.bundles.has_note("leaving", name)? {
                true => self.locate(name).await,
                false => Ok(()),
            };
        }
        let take = CallRoot {
            to,
            sizes: sizes.clone(),
            forwarded: 0,
            path: String::new(),
            message: encode(name)?,
        };
        call(&self.host, &take).await?;
        let lock = self.roots.lock_of(name);
        let _alone = lock.lock().await;
        if self.places.sizes() != *sizes {
            return Err(super::root_moves::moving());
        }
        let bundles = &self.places.bundles;
        if bundles.is_home(name)? || bundles.has_note("leaving", name)? {
            return Err(super::root_moves::moving());
        }
        // These rows were written by work in progress when the root left; its place is known now.
        self.store.atomically(|| {
            self.totals.rewritten(name, || bundles.delete_rows(name))?;
            bundles.delete_records(name)
        })
    }
}
