//! Answers about boards.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::body::MemberLines;
use super::token::{BoardVersion, cursor_of};
use crate::batch::report::RejectedRecords;
use crate::fields::{BoardVersionText, Exactness, MissingPartitions, Moment, Staleness, moment_of};
use crate::json::to_json;
use tally_core::board::placing::{Placing, Shards};
use tally_core::board::score::Score;
use tally_core::board::settings::Settings;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_wire::live::snapshot as live;
use tally_wire::live::topic::WatchedBoard;
use tally_wire::messages::{BoardSeen, BoardsListed, MemberOutcome, PeriodOf, Ranked};
use tally_wire::problem::Problem;

/// A score as JSON: a whole number without a point; infinities as texts, because JSON has no such numbers.
struct Number(Score);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number = self.0.number();
        if self.0.is_whole() {
            // Written without a point, and read back exactly.
            let text = format!("{number}");
            if let Ok(whole) = text.parse::<i64>() {
                return serializer.serialize_i64(whole);
            }
        }
        if number.is_infinite() {
            return serializer.serialize_str(if number > 0.0 { "inf" } else { "-inf" });
        }
        serializer.serialize_f64(number)
    }
}

/// A rank, or the lowest and the highest rank that are possible.
#[derive(Serialize)]
#[serde(untagged)]
enum Rank {
    Exactly(u64),
    Between(u64, u64),
}

#[derive(Serialize)]
pub(super) struct RowView<'a> {
    /// The board.
    #[serde(skip_serializing_if = "Option::is_none")]
    board: Option<&'a CounterId>,
    member: Cow<'a, str>,
    score: Number,
    rank: Option<Rank>,
    /// As it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
    /// When it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<bool>,
}

impl<'a> RowView<'a> {
    fn of(row: &'a Ranked) -> Self {
        Self::within(row, 0)
    }

    /// A row of one of several boards.
    pub(super) fn in_board(board: &'a CounterId, row: &'a Ranked) -> Self {
        Self {
            board: Some(board),
            ..Self::of(row)
        }
    }

    /// A row whose rank may be higher by up to `slack`.
    fn within(row: &'a Ranked, slack: u64) -> Self {
        Self {
            board: None,
            member: String::from_utf8_lossy(&row.member),
            score: Number(row.score),
            rank: row.rank.map(|rank| match slack {
                0 => Rank::Exactly(rank),
                _ => Rank::Between(rank, rank + slack),
            }),
            metadata: (row.metadata.clone()).and_then(|text| RawValue::from_string(text).ok()),
            expires_at: row.expires_ms,
            hidden: row.rank.is_none().then_some(true),
        }
    }
}

/// A row with its percentile.
#[derive(Serialize)]
pub(super) struct MemberView<'a> {
    #[serde(flatten)]
    row: RowView<'a>,
    percentile: Option<f64>,
}

impl<'a> MemberView<'a> {
    /// The view of a row among `total` members.
    pub(super) fn of(view: RowView<'a>, row: &Ranked, total: u64) -> Self {
        Self {
            row: view,
            percentile: row.rank.map(|rank| percentile(rank, total)),
        }
    }
}

#[derive(Serialize)]
struct PeriodView {
    starts_at: Moment,
    /// When the next one begins.
    ends_at: Moment,
    total: u64,
}

impl PeriodView {
    /// `None` for a board without periods.
    fn of(period: &PeriodOf) -> Option<Self> {
        let PeriodOf { start, end, total } = *period;
        (end > 0).then(|| Self {
            starts_at: moment_of(start),
            ends_at: moment_of(end),
            total,
        })
    }
}

#[derive(Serialize)]
struct SettingsView {
    #[serde(flatten)]
    settings: Words,
    /// The zone of its periods: the name of a place such as `Europe/Berlin`, with its summer time, or how far a clock
    /// is ahead of UTC: `+02:00`.
    zone: String,
    /// How many ended periods that had members are kept.
    archive: u32,
    /// The most members, hidden ones included; at least `shards`, because each takes an even part of them.
    members_max: u64,
    /// Over how many objects its members are spread: as many as its writes and its size need, or this number.
    shards: ShardsView,
    /// The datacenter near which it lives; the datacenter of its first write if not given.
    home: Option<Datacenter>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ShardsView {
    Word(&'static str),
    Number(u32),
}

#[derive(Serialize)]
struct Words {
    /// Which score is the best: the highest, or the lowest.
    order: tally_core::board::settings::Order,
    /// What becomes of a score that is written: it is set, it is added, or the better stays.
    keep: tally_core::board::settings::ScoreRule,
    /// Equal scores: `member`, by the bytes of the names in the board's order; `first`, whoever had it first is before;
    /// `shared`, all have the rank of the first.
    ties: tally_core::board::settings::Ties,
    /// Doubles, or whole numbers from -(2^53 - 1) to 2^53 - 1.
    scores: tally_core::board::settings::Scores,
    /// When the board begins anew. Weeks begin on Monday.
    period: tally_core::board::period::Period,
}

impl SettingsView {
    fn of(settings: &Settings, placing: &Placing) -> Self {
        let Settings {
            order,
            keep,
            ties,
            scores,
            period,
            zone,
            archive,
            members_max,
        } = *settings;
        let settings = Words {
            order,
            keep,
            ties,
            scores,
            period,
        };
        Self {
            settings,
            zone: zone.to_string(),
            archive,
            members_max,
            shards: match placing.shards {
                Shards::Auto => ShardsView::Word("auto"),
                Shards::Fixed(shards) => ShardsView::Number(shards),
            },
            home: placing.home.clone(),
        }
    }
}

/// An answer of a board: its members or entries, and the state that it is of.
#[derive(Serialize)]
pub(super) struct SeenView<'a> {
    board: &'a CounterId,
    #[serde(flatten)]
    row: Option<RowView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile: Option<f64>,
    /// With `approximate=1`: the rank is from `rank - error` to `rank + error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<u64>,
    /// With `approximate=1`: what `error` is in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    percentile_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<RowView<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// Leads to the rows after the last row; `null` where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<SettingsView>,
    /// Over how many objects its members are spread now.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    periods: Option<Vec<PeriodView>>,
    /// The period that it is of; `null` for a board without.
    period: Option<PeriodView>,
    /// How many members are ranked.
    total: u64,
    exact: Exactness,
    as_of: Moment,
    staleness_ms: Staleness,
    version: BoardVersionText,
}

/// A board's answer, before it becomes JSON.
pub struct ReadBoard<'a> {
    /// The board.
    pub board: &'a CounterId,
    /// What it answered.
    pub seen: &'a BoardSeen,
    /// Now, unix milliseconds.
    pub now_ms: i64,
}

impl<'a> ReadBoard<'a> {
    pub(super) fn view(&self) -> SeenView<'a> {
        let seen = self.seen;
        SeenView {
            board: self.board,
            row: None,
            percentile: None,
            error: None,
            percentile_error: None,
            entries: None,
            absent: None,
            count: None,
            cursor: None,
            settings: None,
            shards: None,
            periods: None,
            period: PeriodView::of(&seen.period),
            total: seen.period.total,
            exact: seen.is_exact,
            as_of: seen.as_of_ms,
            staleness_ms: self.now_ms.saturating_sub(seen.as_of_ms).max(0),
            version: BoardVersion::of(seen).to_string(),
        }
    }
}

/// The share of the other members that are not ranked before this one, in percent with three digits. It is 100 for the
/// first member, also if it is the only one.
fn percentile(rank: u64, total: u64) -> f64 {
    let number = |count: u64| format!("{count}").parse::<f64>().unwrap_or(0.0);
    let others = number(total.saturating_sub(1)).max(1.0);
    let behind = number(total.saturating_sub(rank));
    let part = if total <= 1 { 1.0 } else { behind / others };
    thousandths(part * 100.0)
}

/// A percentage in answers, in thousandths: a difference of two of them has digits of its binary form.
fn thousandths(percent: f64) -> f64 {
    (percent * 1_000.0).round() / 1_000.0
}

/// The JSON of one member; `None` where it is not there. An approximate rank is the middle of its range, and has an
/// error.
pub fn one_json(read: &ReadBoard<'_>, is_approximate: bool) -> Option<String> {
    let row = read.seen.rows.first()?;
    let mut view = read.view();
    let slack = read.seen.slack.first().copied().unwrap_or(0);
    // If the rank is not exact, the percentile is that of the middle of its range.
    let middle = row.rank.map(|rank| rank + slack / 2);
    view.percentile = middle.map(|rank| percentile(rank, view.total));
    view.row = Some(RowView::within(row, slack));
    if let (true, Some(row), Some(middle)) = (is_approximate, &mut view.row, middle) {
        let error = slack.div_ceil(2);
        row.rank = Some(Rank::Exactly(middle));
        view.error = Some(error);
        let best_less = 100.0 - percentile(1 + error, view.total);
        view.percentile_error = Some(thousandths(best_less.max(0.0)));
    }
    Some(to_json(&view))
}

/// The JSON of members in order; `counts` says whether the answer has the size of the range.
pub fn rows_json(read: &ReadBoard<'_>, counts: bool) -> String {
    let seen = read.seen;
    let mut view = read.view();
    view.entries = Some(seen.rows.iter().map(RowView::of).collect());
    view.count = counts.then_some(seen.count);
    let last = seen.rows.last().filter(|_| seen.has_more);
    view.cursor = Some(last.map(|last| cursor_of(last, &seen.period)));
    to_json(&view)
}

/// The JSON of members asked for by name, and of those that do not exist.
pub fn members_json(read: &ReadBoard<'_>, names: &[CounterId]) -> String {
    let mut view = read.view();
    let is_there = |name: &CounterId| {
        let mut rows = read.seen.rows.iter();
        rows.any(|row| row.member == name.as_str().as_bytes())
    };
    let absent: Vec<String> = names
        .iter()
        .filter(|name| !is_there(name))
        .map(ToString::to_string)
        .collect();
    view.entries = Some(read.seen.rows.iter().map(RowView::of).collect());
    view.cursor = Some(None);
    let absent: Vec<&str> = absent.iter().map(String::as_str).collect();
    let view = SeenView {
        absent: Some(absent),
        ..view
    };
    to_json(&view)
}

/// The JSON of a board with its settings, and the ended periods that it keeps, if asked for.
pub fn configured_json(read: &ReadBoard<'_>, has_periods: bool) -> String {
    let mut view = read.view();
    view.settings = Some(SettingsView::of(&read.seen.settings, &read.seen.placing));
    view.shards = Some(read.seen.layout.shards);
    let ended = || read.seen.periods.iter().filter_map(PeriodView::of);
    view.periods = has_periods.then(|| ended().collect());
    to_json(&view)
}

/// The update for watchers of a board, from an answer that may hold more.
pub fn live_board(seen: &BoardSeen, watched: &WatchedBoard) -> live::ReadCounter {
    #[derive(Serialize)]
    struct LiveView<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        top: Option<Vec<RowView<'a>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        member: Option<Option<MemberView<'a>>>,
        period: Option<PeriodView>,
        total: u64,
        version: String,
    }
    let total = seen.period.total;
    let top = usize::try_from(watched.top).unwrap_or(usize::MAX);
    let is_watched = |row: &&Ranked| {
        let name = watched.member.as_ref();
        name.is_some_and(|name| name.as_str().as_bytes() == row.member)
    };
    let member = seen.members.iter().find(is_watched);
    let member = member.map(|row| MemberView::of(RowView::of(row), row, total));
    let view = LiveView {
        top: (top > 0).then(|| seen.rows.iter().take(top).map(RowView::of).collect()),
        member: watched.member.as_ref().map(|_| member),
        period: PeriodView::of(&seen.period),
        total,
        version: BoardVersion::of(seen).to_string(),
    };
    let json = to_json(&view);
    let members = json
        .strip_prefix('{')
        .and_then(|json| json.strip_suffix('}'));
    let members = members.unwrap_or_default().to_owned();
    live::ReadCounter {
        tag: live::Tag::default().with(members.as_bytes()).value(),
        members,
        members_of_strings: None,
        exact: seen.is_exact,
        as_of_ms: seen.as_of_ms,
    }
}

/// Appends lines of an export.
pub fn rows_ndjson(text: &mut String, rows: &[Ranked]) {
    for row in rows {
        text.push_str(&to_json(&RowView::of(row)));
        text.push('\n');
    }
}

/// The line of a board in an export; [`super::body::parse_settings`] reads its settings.
pub fn board_line(board: &CounterId, settings: &Settings, placing: &Placing) -> String {
    #[derive(Serialize)]
    struct BoardLine<'a> {
        board: &'a CounterId,
        settings: SettingsView,
    }
    let settings = SettingsView::of(settings, placing);
    let mut line = to_json(&BoardLine { board, settings });
    line.push('\n');
    line
}

/// The lines of members in an export; [`super::body::parse_member_line`] reads them.
pub fn member_lines(text: &mut String, board: &CounterId, rows: &[Ranked]) {
    #[derive(Serialize)]
    struct MemberLine<'a> {
        board: &'a CounterId,
        member: Cow<'a, str>,
        score: Number,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Moment>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hidden: Option<bool>,
    }
    for row in rows {
        let RowView {
            member,
            score,
            metadata,
            expires_at,
            hidden,
            ..
        } = RowView::of(row);
        text.push_str(&to_json(&MemberLine {
            board,
            member,
            score,
            metadata,
            expires_at,
            hidden,
        }));
        text.push('\n');
    }
}

/// The JSON of a deleted board.
pub fn deleted_json(board: &CounterId) -> String {
    #[derive(Serialize)]
    struct DeletedView<'a> {
        board: &'a CounterId,
        status: &'static str,
    }
    let status = "deleted";
    to_json(&DeletedView { board, status })
}

/// The JSON of a page of boards.
pub fn list_json(listed: &BoardsListed, cursor: Option<&CounterId>, as_of_ms: i64) -> String {
    #[derive(Serialize)]
    struct ListView<'a> {
        entries: &'a [CounterId],
        cursor: Option<&'a CounterId>,
        /// Whether all partitions of the directory have answered.
        exact: bool,
        /// When the list was read.
        as_of: Moment,
        #[serde(skip_serializing_if = "<[u32]>::is_empty")]
        missing_partitions: MissingPartitions<'a>,
    }
    to_json(&ListView {
        entries: &listed.boards,
        cursor,
        exact: listed.missing_partitions.is_empty(),
        as_of: as_of_ms,
        missing_partitions: &listed.missing_partitions,
    })
}

#[derive(Serialize)]
struct LineErrorView<'a> {
    /// Line, or element of the array, from 1.
    line: u32,
    code: &'static str,
    detail: &'a str,
}

#[derive(Serialize)]
struct WrittenView<'a> {
    board: &'a CounterId,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a CounterId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<Option<Number>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Option<Number>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejected: Option<u64>,
    /// The first 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<LineErrorView<'a>>>,
    /// All lines that were rejected, by their codes; left out where there are none. Send these, and only these, again.
    #[serde(skip_serializing_if = "<[RejectedRecords]>::is_empty")]
    rejected_lines: &'a [RejectedRecords],
    changed: u64,
    /// How many members are ranked; `null` where shards of the board do not answer, and in a repeat of a write to
    /// several shards.
    total: Option<u64>,
    exact: Exactness,
    as_of: Moment,
    version: BoardVersionText,
}

/// The JSON of a write to a member, or of one to many by lines; `total` is `None` where it is not known.
pub fn written_json(
    board: &CounterId,
    member: Option<&CounterId>,
    (written, version): (&MemberOutcome, &BoardVersion),
    lines: Option<&MemberLines>,
    (total, exact): (Option<u64>, bool),
) -> String {
    let stand = written.stand.filter(|_| member.is_some());
    let error = |(line, problem): &'_ (u32, Problem)| {
        (*line, problem.code().as_str(), problem.detail().to_owned())
    };
    let refused: Vec<(u32, &'static str, String)> = lines
        .iter()
        .flat_map(|lines| &lines.errors)
        .map(error)
        .collect();
    let errors = refused.iter().map(|(line, code, detail)| LineErrorView {
        line: *line,
        code,
        detail,
    });
    to_json(&WrittenView {
        board,
        member,
        score: stand.map(|stand| stand.score.map(Number)),
        previous: stand.map(|stand| stand.previous.map(Number)),
        rank: stand.map(|stand| stand.rank),
        accepted: lines.map(|_| written.accepted),
        rejected: lines.map(|lines| lines.rejected),
        errors: lines.map(|_| errors.collect()),
        rejected_lines: lines.map_or(&[], |lines| &lines.rejected_lines),
        changed: written.changed,
        total,
        exact,
        as_of: written.at_ms,
        version: version.to_string(),
    })
}
