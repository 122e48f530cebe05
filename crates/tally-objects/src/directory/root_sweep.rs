//! Moves of roots that get no calls. The first partition detects that all have moved.
//!
//! Invariant: that of [`tally_core::handover::sweep`]. The first partition forgets the former counts only after every
//! partition has answered, by the present counts, that it has no root left that belongs elsewhere.

use std::rc::Rc;

use super::root_moves::RootMoves;
use tally_core::cluster::sizes::Sizes;
use tally_core::counter::id::CounterId;
use tally_core::handover::Holding;
use tally_core::handover::sweep::{Sweep, SweepStep, SweepTurn};
use tally_shared::call::{call, call_within};
use tally_shared::concurrency::all_settled;
use tally_wire::messages::{AnnounceSizes, CallRoot, Fault, SizesOf, encode};

pub(super) mod progress;

use progress::{PACE, Position};

/// How many roots are moved at once.
const ROOTS_AT_ONCE: usize = 8;

/// How often the first partition asks the others, and those ask it, milliseconds.
const ASK_OTHERS_MS: i64 = 2_000;
const ASK_FIRST_MS: i64 = 10_000;

/// How many partitions the first asks at once.
const PARTITIONS_AT_ONCE: usize = 64;

/// How long a partition may take to answer, and a root to move, milliseconds.
const ANSWER_MS_MAX: u64 = 2_000;

impl RootMoves {
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
        Ok(self.sweep.sweep.borrow().is_none()
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
        let due_ms = self.sweep.next_due_ms(&self.places);
        if due_ms.is_none_or(|due_ms| due_ms > now_ms) {
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
        let sweep = self.sweep.sweep.borrow().clone();
        match sweep.filter(|sweep| sweep.next_ms() <= self.host.now_ms()) {
            Some(sweep) => self.move_some(sweep, &sizes).await,
            None => Ok(()),
        }
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
    async fn move_some(
        self: &Rc<Self>,
        sweep: Sweep<Position>,
        sizes: &Sizes,
    ) -> Result<(), Fault> {
        let (is_last_part, names) = self.next_names(sweep.after())?;
        let last = names.last().map(|last| (is_last_part, last.to_string()));
        let move_on = |name: CounterId| async move { self.move_on(&name, sizes).await };
        let moved = all_settled(names.into_iter().map(move_on), ROOTS_AT_ONCE).await;
        let has_left = moved.iter().any(Result::is_err);
        let current = self.sweep.sweep.borrow().clone();
        let turn = SweepTurn { last, has_left };
        let next = sweep.turned(current.as_ref(), turn, &PACE, self.host.now_ms());
        self.sweep.sweep.replace(next);
        Ok(())
    }

    /// The names of a turn, and whether these are of the last part.
    fn next_names(&self, after: Option<&Position>) -> Result<(bool, Vec<CounterId>), Fault> {
        let bundles = &self.places.bundles;
        let (is_last_part, after) = match after {
            Some((is_last_part, after)) => (*is_last_part, after.as_str()),
            None => (false, ""),
        };
        let mut names = Vec::new();
        if !is_last_part {
            names = bundles.names_after(after, PACE.bundles_at_once)?;
        }
        if !names.is_empty() {
            return Ok((false, names));
        }
        let mut after = if is_last_part { after } else { "" }.to_owned();
        for _ in 0..PACE.bundles_at_once {
            let Some(name) = bundles.record_after(&after)? else {
                break;
            };
            after = name.to_string();
            names.push(name);
        }
        Ok((true, names))
    }

    /// Makes the partition where a root belongs take it over. If it belongs here and is sealed for another partition,
    /// finds it and takes it over again.
    async fn move_on(self: &Rc<Self>, name: &CounterId, sizes: &Sizes) -> Result<(), Fault> {
        let to = self.places.place(name);
        match self.holding(name)?.swept(self.places.is_me(to)) {
            SweepStep::Stay => return Ok(()),
            SweepStep::Search => return self.locate(name).await,
            SweepStep::Move => {}
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
        if self.holding(name)? != Holding::Nothing {
            return Err(super::root_moves::moving());
        }
        // These rows were written by work in progress when the root left; its place is known now.
        self.store.atomically(|| {
            self.totals.rewritten(name, || bundles.delete_rows(name))?;
            bundles.delete_records(name)
        })
    }
}
