//! Buckets of one cell: how much was added, by second, minute, hour and day.
//!
//! Invariant: every increment is in at most one bucket of each step. At or after that step's `kept_from` it is in
//! exactly one. Before `kept_from` nothing is claimed.
//!
//! Life of an increment: it joins its second (if recent), and its minute, hour and day. While its minute is the *open*
//! one, only the hot row is written: it has the open minute's count. When the minute is over, that count is folded into
//! one page of each coarser step.

pub mod seconds;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Seconds are kept for the 15 minutes in which windows are exact, and 10 s more: clocks of readers and writers may
/// differ by the ±5 s that stamps are clamped to.
pub const SECONDS_KEPT: i64 = 900 + 10;
/// The allowed values of `seconds_kept`, in seconds: 15 minutes to 24 hours.
pub const SECONDS_KEPT_ALLOWED: std::ops::RangeInclusive<u32> = 900..=86_400;

/// Minutes are kept for 24 hours longer than seconds.
pub const MINUTES_KEPT: i64 = 86_400 + SECONDS_KEPT;
/// The newest non-empty hours that are kept: 90 days of full ones.
pub const HOURS_KEPT: usize = 2_160;
/// The newest non-empty days that are kept: 5 years of full ones.
pub const DAYS_KEPT: usize = 1_826;

/// The width of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Resolution {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
    /// One day, in UTC.
    Day,
}

impl Resolution {
    /// All steps, finest first.
    pub const ALL: [Resolution; 4] = [
        Resolution::Second,
        Resolution::Minute,
        Resolution::Hour,
        Resolution::Day,
    ];
    /// The steps whose buckets are stored in pages; seconds live in the hot row.
    pub const PAGED: [Resolution; 3] = [Resolution::Minute, Resolution::Hour, Resolution::Day];

    /// The width in seconds.
    pub const fn seconds(self) -> i64 {
        match self {
            Resolution::Second => 1,
            Resolution::Minute => 60,
            Resolution::Hour => 3_600,
            Resolution::Day => 86_400,
        }
    }

    /// How many seconds one stored page covers: 60 minutes, 24 hours, 32 days.
    pub const fn page_seconds(self) -> i64 {
        match self {
            Resolution::Second | Resolution::Minute => 3_600,
            Resolution::Hour => 86_400,
            Resolution::Day => 32 * 86_400,
        }
    }

    /// The start of the bucket that holds a second.
    pub const fn start_of(self, second: i64) -> i64 {
        second - second.rem_euclid(self.seconds())
    }

    /// The start of the page that holds a bucket.
    pub const fn page_of(self, second: i64) -> i64 {
        second - second.rem_euclid(self.page_seconds())
    }

    const fn index(self) -> usize {
        match self {
            Resolution::Second => 0,
            Resolution::Minute => 1,
            Resolution::Hour => 2,
            Resolution::Day => 3,
        }
    }

    const fn coarser(self) -> Option<Resolution> {
        match self {
            Resolution::Second => Some(Resolution::Minute),
            Resolution::Minute => Some(Resolution::Hour),
            Resolution::Hour => Some(Resolution::Day),
            Resolution::Day => None,
        }
    }
}

/// Pages whose stored form differs from memory: (step, start of the page).
pub type DirtyPages = BTreeSet<(Resolution, i64)>;

/// Counts of a range of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// What was counted, with every partly covered bucket in full.
    pub count: u128,
    /// By how much `count` may be too high: what the partly covered buckets hold.
    pub max_error: u128,
}

impl Count {
    /// Adds another cell's count of the same range.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            max_error: self.max_error.saturating_add(other.max_error),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Series {
    buckets: BTreeMap<i64, u128>,
    kept_from: i64,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            buckets: BTreeMap::new(),
            kept_from: i64::MIN,
        }
    }
}

/// The buckets of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    series: [Series; 4],
    /// Start of the open minute, and its count that is in no page yet.
    open: Option<(i64, u128)>,
    /// The second from which seconds are complete in memory and in rows together; `i64::MAX` if there are no rows.
    rows_from: i64,
    /// How long seconds are kept. In memory only, as the seconds of this commit that leave memory.
    kept: i64,
    old: Vec<(i64, u128)>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            series: Default::default(),
            open: None,
            rows_from: i64::MAX,
            kept: SECONDS_KEPT,
            old: Vec::new(),
        }
    }
}

/// What the hot row keeps of a history; pages keep the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotHistory {
    /// (seconds since the bucket before, count), oldest first; the first since 1970.
    seconds: Vec<(i64, u128)>,
    kept_from: [i64; 4],
    open: Option<(i64, u128)>,
}

impl HotHistory {
    /// The history of a cell whose hot row was lost. `begins` are the beginnings of the first buckets in its pages of
    /// minutes, hours and days. Nothing is claimed of the time before them, and of seconds nothing up to `now`, unix
    /// seconds.
    pub fn remembered(begins: [Option<i64>; 3], now: i64) -> Self {
        let [minutes, hours, days] = begins.map(|begin| begin.unwrap_or(now.saturating_add(1)));
        Self {
            seconds: Vec::new(),
            kept_from: [now.saturating_add(1), minutes, hours, days],
            open: None,
        }
    }
}

impl History {
    /// Sets for how many seconds seconds are kept, from the next increment on, and 10 s more. Returns whether the rows
    /// of seconds are needed no longer.
    pub fn keep(&mut self, seconds: u32, now: i64) -> bool {
        self.kept = i64::from(seconds).saturating_add(10).max(SECONDS_KEPT);
        let had_rows = self.rows_from != i64::MAX;
        self.rows_from = match (self.kept > SECONDS_KEPT, had_rows) {
            (false, _) => i64::MAX,
            (true, false) => self.series[0].kept_from.max(now - self.kept + 1),
            (true, true) => self.rows_from.max(now - self.kept + 1),
        };
        had_rows && self.rows_from == i64::MAX
    }

    /// The seconds that have left memory since the last call and are kept in rows.
    pub fn take_old(&mut self) -> Vec<(i64, u128)> {
        std::mem::take(&mut self.old)
    }

    /// The second from which seconds are complete in memory and in rows together, if there are rows.
    pub fn rows_from(&self) -> Option<i64> {
        (self.rows_from != i64::MAX).then_some(self.rows_from)
    }

    /// The same history, with rows of seconds.
    #[must_use]
    pub fn with_rows_from(self, rows_from: Option<i64>) -> Self {
        Self {
            rows_from: rows_from.unwrap_or(i64::MAX),
            ..self
        }
    }

    /// The second from which all seconds are in memory, if older ones are in rows.
    pub fn in_memory_from(&self) -> Option<i64> {
        (self.rows_from != i64::MAX).then_some(self.series[0].kept_from)
    }

    /// Adds `count` at a second of unix time; `now` is the cell's clock in unix seconds. Adds to `dirty` the pages that
    /// must be written with it: none while only the open minute changes.
    pub fn add(&mut self, second: i64, count: u128, now: i64, dirty: &mut DirtyPages) {
        self.add_to(Resolution::Second, second, count, now, dirty);
        let minute = Resolution::Minute.start_of(second);
        let mut touched = DirtyPages::new();
        match &mut self.open {
            Some((open, held)) if *open == minute => *held = held.saturating_add(count),
            Some((open, _)) if *open > minute => {
                touched.extend(Resolution::PAGED.map(|step| (step, step.page_of(second))));
            }
            _ => {
                self.fold_open(dirty);
                self.open = Some((minute, count));
            }
        }
        for step in Resolution::PAGED {
            self.add_to(step, second, count, now, &mut touched);
        }
        dirty.extend(touched);
        // A page is written whole: its count of the open minute must be nowhere else.
        let open = self.open.map(|(minute, _)| minute);
        let is_paged = |minute: i64| {
            let mut pages = Resolution::PAGED.into_iter();
            pages.any(|step| dirty.contains(&(step, step.page_of(minute))))
        };
        if open.is_some_and(is_paged) {
            self.fold_open(dirty);
        }
    }

    /// Adds buckets of one step, and of no other. After that the step is complete from `kept_from` at the earliest.
    pub fn install(
        &mut self,
        step: Resolution,
        points: &[(i64, u128)],
        kept_from: i64,
        now: i64,
        dirty: &mut DirtyPages,
    ) {
        for &(start, count) in points {
            dirty.insert((step, step.page_of(start)));
            self.add_to(step, start, count, now, dirty);
        }
        let series = &mut self.series[step.index()];
        series.kept_from = series.kept_from.max(kept_from);
        // A page is written whole: its count of the open minute must be nowhere else.
        self.fold_open(dirty);
    }

    /// Records that seconds lack what was installed, and minutes too if `minutes` is set. They are complete from the
    /// next bucket on.
    pub fn begin_fine(&mut self, now: i64, minutes: bool) {
        let mut begin = |step: Resolution| {
            let series = &mut self.series[step.index()];
            let next = step.start_of(now) + step.seconds();
            series.kept_from = series.kept_from.max(next);
        };
        begin(Resolution::Second);
        if self.rows_from != i64::MAX {
            self.rows_from = self.rows_from.max(now.saturating_add(1));
        }
        if minutes {
            begin(Resolution::Minute);
        }
    }

    /// Moves the open minute's count into its pages, and marks them as dirty.
    fn fold_open(&mut self, dirty: &mut DirtyPages) {
        if let Some((minute, count)) = &mut self.open {
            if *count > 0 {
                dirty.extend(Resolution::PAGED.map(|step| (step, step.page_of(*minute))));
            }
            *count = 0;
        }
    }

    /// Adds to one step, and removes the buckets that the step keeps no longer. Adds the changed pages to `dirty`.
    fn add_to(
        &mut self,
        step: Resolution,
        second: i64,
        count: u128,
        now: i64,
        dirty: &mut DirtyPages,
    ) {
        let series = &mut self.series[step.index()];
        let start = step.start_of(second);
        let held = series.buckets.entry(start).or_insert(0);
        *held = held.saturating_add(count);
        let (kept, in_rows) = (self.kept, self.kept > SECONDS_KEPT);
        let (oldest_kept, buckets_max) = match step {
            // Minute by minute, so that a row changes once a minute.
            Resolution::Second if in_rows => (
                Some(Resolution::Minute.start_of(now - SECONDS_KEPT + 1)),
                usize::MAX,
            ),
            Resolution::Second => (Some(now - SECONDS_KEPT + 1), usize::MAX),
            Resolution::Minute => (
                Some(Resolution::Minute.start_of(now - MINUTES_KEPT)),
                usize::MAX,
            ),
            Resolution::Hour => (None, HOURS_KEPT),
            Resolution::Day => (None, DAYS_KEPT),
        };
        if let Some(oldest_kept) = oldest_kept {
            series.kept_from = series.kept_from.max(oldest_kept);
        }
        while let Some((&oldest, _)) = series.buckets.first_key_value() {
            let too_old = oldest_kept.is_some_and(|kept| oldest < kept);
            if !too_old && series.buckets.len() <= buckets_max {
                break;
            }
            let popped = series.buckets.pop_first();
            if step == Resolution::Second && in_rows {
                self.old
                    .extend(popped.filter(|(second, _)| now - *second < kept));
            }
            series.kept_from = series.kept_from.max(oldest + step.seconds());
            if step != Resolution::Second {
                dirty.insert((step, step.page_of(oldest)));
            }
        }
    }

    /// Counts the seconds `from..=to`. Exact where second buckets are kept. Before that it uses the finest buckets that
    /// are kept, and states the counts of partly covered ones. Cost: O(buckets in the range).
    pub fn count(&self, from: i64, to: i64) -> Count {
        self.count_from(Resolution::Second, from, to)
    }

    fn count_from(&self, step: Resolution, from: i64, to: i64) -> Count {
        let kept_from = self.series[step.index()].kept_from;
        match step.coarser() {
            Some(coarser) if from < kept_from => {
                let width = coarser.seconds();
                let aligned = coarser.start_of(kept_from.saturating_add(width - 1));
                if aligned > to {
                    return self.count_from(coarser, from, to);
                }
                self.count_buckets(step, aligned, to).plus(self.count_from(
                    coarser,
                    from,
                    aligned - 1,
                ))
            }
            _ => self.count_buckets(step, from, to),
        }
    }

    fn count_buckets(&self, step: Resolution, from: i64, to: i64) -> Count {
        let mut sum = Count::default();
        if from > to {
            return sum;
        }
        for (&start, &count) in self.series[step.index()]
            .buckets
            .range(step.start_of(from)..=to)
        {
            let whole = start >= from && start + step.seconds() - 1 <= to;
            let max_error = if whole { 0 } else { count };
            sum = sum.plus(Count { count, max_error });
        }
        sum
    }

    /// The non-empty buckets of a step that start in `from..=to`, oldest first.
    pub fn points(&self, step: Resolution, from: i64, to: i64) -> Vec<(i64, u128)> {
        if from > to {
            return Vec::new();
        }
        self.series[step.index()]
            .buckets
            .range(from..=to)
            .map(|(&start, &count)| (start, count))
            .collect()
    }

    /// The unix second from which the step's buckets are complete; `i64::MIN` if none were removed.
    pub fn kept_from(&self, step: Resolution) -> i64 {
        match step {
            Resolution::Second if self.rows_from != i64::MAX => self.rows_from,
            _ => self.series[step.index()].kept_from,
        }
    }

    /// The end of the newest hour with a count, or of the newest day if there are no hours, unix seconds; `None` for an
    /// empty history.
    pub fn newest_end(&self) -> Option<i64> {
        let last = |step: Resolution| {
            let (start, _) = self.series[step.index()].buckets.last_key_value()?;
            Some((*start, start.saturating_add(step.seconds() - 1)))
        };
        match (last(Resolution::Hour), last(Resolution::Day)) {
            (Some((hour, end)), Some((day, _))) if hour >= day => Some(end),
            (_, Some((_, end))) => Some(end),
            (hour, None) => hour.map(|(_, end)| end),
        }
    }

    /// How many buckets of a step there are, and where the first and the last begin.
    pub fn span(&self, step: Resolution) -> (usize, Option<i64>, Option<i64>) {
        let buckets = &self.series[step.index()].buckets;
        let first = buckets.first_key_value().map(|(start, _)| *start);
        let last = buckets.last_key_value().map(|(start, _)| *start);
        (buckets.len(), first, last)
    }

    /// How many buckets are in memory.
    pub fn buckets(&self) -> usize {
        let series = self.series.iter();
        series.map(|series| series.buckets.len()).sum()
    }

    /// The part that belongs into the hot row.
    pub fn to_hot(&self) -> HotHistory {
        let mut before = 0;
        let seconds = self.series[0].buckets.iter().map(|(&start, &count)| {
            let since = start - before;
            before = start;
            (since, count)
        });
        HotHistory {
            seconds: seconds.collect(),
            kept_from: [0, 1, 2, 3].map(|index: usize| self.series[index].kept_from),
            open: self.open,
        }
    }

    /// A page in its stored form: (buckets since the page's start, count); empty pages are deleted.
    pub fn page(&self, step: Resolution, page: i64) -> Vec<(i64, u128)> {
        let last = page + step.page_seconds() - 1;
        let offset = |(start, count)| ((start - page) / step.seconds(), count);
        self.points(step, page, last)
            .into_iter()
            .map(offset)
            .collect()
    }

    /// Restores a history from the hot row and all pages (step, start of the page, buckets).
    pub fn restore(
        hot: HotHistory,
        pages: impl IntoIterator<Item = (Resolution, i64, Vec<(i64, u128)>)>,
    ) -> Self {
        let mut history = Self::default();
        for (series, kept_from) in history.series.iter_mut().zip(hot.kept_from) {
            series.kept_from = kept_from;
        }
        let mut start = 0;
        for (since, count) in hot.seconds {
            start += since;
            history.series[0].buckets.insert(start, count);
        }
        for (step, page, buckets) in pages {
            let series = &mut history.series[step.index()];
            series.buckets.extend(
                buckets
                    .into_iter()
                    .map(|(offset, count)| (page + offset * step.seconds(), count)),
            );
        }
        if let Some((minute, count)) = hot.open.filter(|(_, count)| *count > 0) {
            for step in Resolution::PAGED {
                let series = &mut history.series[step.index()];
                let start = step.start_of(minute);
                if start >= series.kept_from {
                    let held = series.buckets.entry(start).or_insert(0);
                    *held = held.saturating_add(count);
                }
            }
        }
        history.open = hot.open;
        history
    }
}
