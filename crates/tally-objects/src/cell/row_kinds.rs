//! The kinds of a cell's rows.

use tally_core::counter::breakdown::RowKind;
use tally_core::counter::history::Resolution;

/// Kinds of rows, a stored format: never renumbered.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The address of the cell.
    Address,
    /// The row that every write changes.
    Hot,
    /// Unique elements of all time.
    AllTime,
    /// A page of buckets of seconds and minutes; start: the page.
    MinutePage,
    /// A page of hours.
    HourPage,
    /// A page of days.
    DayPage,
    /// Unique elements of a minute; start: its first second.
    MinuteUniques,
    /// A shard that must still drop a generation; start: shard, body: generation.
    Closing,
    /// The part of a sealed shard, stored by the lead; start: shard.
    Sealed,
    /// How many records each slot of a ledger has; start: 0 that of clients' keys, 1 that of drawn ones.
    Ledger,
    /// Samples of a minute; start: its first second.
    Samples,
    /// Samples of an hour whose minutes were deleted.
    HourSamples,
    /// Unique elements of a past hour; start: its first second.
    HourUniques,
    /// Unique elements of a past day.
    DayUniques,
    /// [`RowKind::Pending`]
    PendingValues,
    /// [`RowKind::Names`]
    DimensionNames,
    /// [`RowKind::Hour`]
    HourValues,
    /// [`RowKind::Day`]
    DayValues,
    /// [`RowKind::AllTime`]
    AllTimeValues,
    /// The count of a lead outside its tablet at the last check whether it is idle.
    RestLook,
    /// Seconds of an hour that are in memory no longer; start: its first second.
    Seconds,
}

/// The names of kinds in explanations, by their numbers, and whether the starts of their rows are times.
const NAMES: [(&str, bool); 21] = [
    ("address", false),
    ("hot", false),
    ("all_time_uniques", false),
    ("minutes", true),
    ("hours", true),
    ("days", true),
    ("minute_uniques", true),
    ("closing", false),
    ("sealed", false),
    ("ledgers", false),
    ("minute_samples", true),
    ("hour_samples", true),
    ("hour_uniques", true),
    ("day_uniques", true),
    ("pending_values", false),
    ("dimension_names", false),
    ("hour_values", false),
    ("day_values", false),
    ("all_time_values", false),
    ("rest_look", false),
    ("seconds", true),
];

/// The name of a kind in explanations, and whether the starts of its rows are times. A number that is none is the
/// ledger's.
pub(super) fn name_of(number: u8) -> (&'static str, bool) {
    let known = NAMES.get(usize::from(number));
    known.copied().unwrap_or(("records", false))
}

impl Kind {
    /// Its stored number.
    pub fn number(self) -> i32 {
        match self {
            Self::Address => 0,
            Self::Hot => 1,
            Self::AllTime => 2,
            Self::MinutePage => 3,
            Self::HourPage => 4,
            Self::DayPage => 5,
            Self::MinuteUniques => 6,
            Self::Closing => 7,
            Self::Sealed => 8,
            Self::Ledger => 9,
            Self::Samples => 10,
            Self::HourSamples => 11,
            Self::HourUniques => 12,
            Self::DayUniques => 13,
            Self::PendingValues => 14,
            Self::DimensionNames => 15,
            Self::HourValues => 16,
            Self::DayValues => 17,
            Self::AllTimeValues => 18,
            Self::RestLook => 19,
            Self::Seconds => 20,
        }
    }

    pub(super) fn of_page(step: Resolution) -> Self {
        match step {
            Resolution::Second | Resolution::Minute => Self::MinutePage,
            Resolution::Hour => Self::HourPage,
            Resolution::Day => Self::DayPage,
        }
    }

    /// The kind of a row of breakdowns.
    pub fn of_breakdown(kind: RowKind) -> Self {
        match kind {
            RowKind::Pending => Self::PendingValues,
            RowKind::Names => Self::DimensionNames,
            RowKind::Hour => Self::HourValues,
            RowKind::Day => Self::DayValues,
            RowKind::AllTime => Self::AllTimeValues,
        }
    }

    /// The kind of the unique elements of such an interval.
    pub fn of_uniques(step: Resolution) -> Self {
        match step {
            Resolution::Second | Resolution::Minute => Self::MinuteUniques,
            Resolution::Hour => Self::HourUniques,
            Resolution::Day => Self::DayUniques,
        }
    }
}
