//! Settings and writes as clients send them.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::metadata::parse_metadata;
use crate::batch::report::RejectedRecords;
use crate::json::{SentMoment, WholeNumber, present, read_object};
use tally_core::board::member::{Amount, ScoreWrite};
use tally_core::board::period::Period;
use tally_core::board::placing::{BOARD_SHARDS_MAX, Placing, Shards};
use tally_core::board::score::Score;
use tally_core::board::settings::{Order, ScoreRule, Scores, Settings, Ties};
use tally_core::board::zone::Zone;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_wire::messages::{MemberAction, MemberWrite};
use tally_wire::problem::{Code, Problem};
use tally_wire::shell_limits::SORTED_MEMBER_BYTES_MAX;

/// The most lines of one body: 1 MiB holds about 20,000 of the shortest.
pub const LINES_MAX: usize = 10_000;

/// The most writes of one message to a board: one commit, about 50 ms.
pub const WRITES_AT_ONCE: usize = 1_000;

/// The longest time to live of a member, seconds: ten years.
pub const EXPIRES_SECONDS_MAX: u64 = 10 * 365 * 86_400;

/// The most lines whose refusals are reported.
const REPORTED_LINES_MAX: usize = 100;

fn refuse<T>(detail: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidBody, detail))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsWire {
    /// Which score is the best: the highest, or the lowest.
    order: Option<String>,
    /// What becomes of a score that is written: it is set, it is added, or the better stays.
    keep: Option<String>,
    /// Equal scores: `member`, by the bytes of the names in the board's order; `first`, whoever had it first is before;
    /// `shared`, all have the rank of the first.
    ties: Option<String>,
    /// Doubles, or whole numbers from -(2^53 - 1) to 2^53 - 1.
    scores: Option<String>,
    /// When the board begins anew. Weeks begin on Monday.
    period: Option<String>,
    /// The zone of its periods: the name of a place such as `Europe/Berlin`, with its summer time, or how far a clock
    /// is ahead of UTC: `+02:00`.
    zone: Option<String>,
    /// How many ended periods that had members are kept.
    archive: Option<WholeNumber>,
    /// The most members, hidden ones included; at least `shards`, because each takes an even part of them.
    members_max: Option<WholeNumber>,
    /// Over how many objects its members are spread: as many as its writes and its size need, or this number.
    shards: Option<ShardsWire>,
    /// The datacenter near which it lives; the datacenter of its first write if not given.
    home: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ShardsWire {
    Number(WholeNumber),
    Word(String),
    Other(IgnoredAny),
}

fn placing_of(shards: Option<ShardsWire>, home: Option<&str>) -> Result<Placing, Problem> {
    let shards = match shards {
        None => Shards::Auto,
        Some(ShardsWire::Word(word)) if word == "auto" => Shards::Auto,
        Some(ShardsWire::Number(WholeNumber(number)))
            if (1..=BOARD_SHARDS_MAX.into()).contains(&number) =>
        {
            Shards::Fixed(u32::try_from(number).unwrap_or(1))
        }
        Some(_) => {
            return refuse(format!(
                "shards must be \"auto\", or from 1 to {BOARD_SHARDS_MAX}"
            ));
        }
    };
    let home = match home.map(Datacenter::parse) {
        None => None,
        Some(Some(home)) => Some(home),
        Some(None) => return refuse("home must be a datacenter such as \"FRA\""),
    };
    Ok(Placing { shards, home })
}

/// The value of a field that knows some words; the first where it is missing.
fn word<T: Copy>(name: &str, text: Option<&str>, words: &[(&str, T)]) -> Result<T, Problem> {
    let wanted = text.or(words.first().map(|(word, _)| *word));
    let found = words.iter().find(|(word, _)| Some(*word) == wanted);
    found.map(|(_, means)| *means).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let detail = format!("{name} must be one of \"{}\"", known.join("\", \""));
        Problem::new(Code::InvalidBody, detail)
    })
}

/// Reads the settings of a board. Absent or `null` means the default, since a `PUT` replaces all of them.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`.
pub fn parse_settings(body: &[u8]) -> Result<(Settings, Placing), Problem> {
    let body = if body.trim_ascii().is_empty() {
        b"{}"
    } else {
        body
    };
    let wire: SettingsWire = read_object(body)?;
    let default = Settings::default();
    let Some(zone) = Zone::parse(wire.zone.as_deref().unwrap_or("UTC")) else {
        return refuse(
            "zone must be the name of a place whose clock is known years ahead, such as \"Europe/Berlin\", or \"UTC\", or a distance \
             from it of at most 14 hours, such as \"+02:00\"",
        );
    };
    let archive = wire.archive.map_or(0, |WholeNumber(count)| count);
    let settings = Settings {
        order: word(
            "order",
            wire.order.as_deref(),
            &[("desc", Order::Desc), ("asc", Order::Asc)],
        )?,
        keep: word(
            "keep",
            wire.keep.as_deref(),
            &[
                ("set", ScoreRule::Set),
                ("sum", ScoreRule::Sum),
                ("best", ScoreRule::Best),
            ],
        )?,
        ties: word(
            "ties",
            wire.ties.as_deref(),
            &[
                ("member", Ties::Member),
                ("first", Ties::First),
                ("shared", Ties::Shared),
            ],
        )?,
        scores: word(
            "scores",
            wire.scores.as_deref(),
            &[("float", Scores::Float), ("integer", Scores::Integer)],
        )?,
        period: word(
            "period",
            wire.period.as_deref(),
            &[
                ("none", Period::None),
                ("hour", Period::Hour),
                ("day", Period::Day),
                ("week", Period::Week),
                ("month", Period::Month),
            ],
        )?,
        zone,
        archive: u32::try_from(archive).unwrap_or(u32::MAX),
        members_max: wire
            .members_max
            .map_or(default.members_max, |WholeNumber(count)| count),
    };
    settings.check().or_else(refuse)?;
    let placing = placing_of(wire.shards, wire.home.as_deref())?;
    match placing.shards {
        Shards::Fixed(shards) if settings.members_max < shards.into() => refuse(
            "members_max must be at least shards: each shard takes an even part of the members",
        ),
        _ => Ok((settings, placing)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteWire<'a> {
    #[serde(borrow, default)]
    board: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    member: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    score: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    /// Any JSON of at most 1,024 bytes; `null` takes it away.
    #[serde(borrow, default, deserialize_with = "raw")]
    metadata: Option<&'a RawValue>,
    /// Seconds until the member goes; `null` for never.
    #[serde(borrow, default, deserialize_with = "raw")]
    expires_in_seconds: Option<&'a RawValue>,
    /// Whether the member is left out of the order: alone, and with the scope `admin`.
    #[serde(default, deserialize_with = "present")]
    hidden: Option<bool>,
}

/// A value that may be `null`, which is not the same as absent.
fn raw<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A score written as a number.
fn number(name: &str, text: &RawValue) -> Result<Score, Problem> {
    // Not read as JSON: `serde_json` reads a tenth of all doubles as a neighbouring double.
    let number = text.get().parse().ok().and_then(Score::new);
    let number = number.filter(|score| score.number().is_finite());
    number.ok_or_else(|| {
        let detail = format!("{name} must be a number that a double holds");
        Problem::new(Code::InvalidScore, detail)
    })
}

fn put_of(wire: &WriteWire<'_>, now_ms: i64) -> Result<ScoreWrite, Problem> {
    if wire.hidden.is_some() {
        return refuse(
            "`hidden` is written alone, to one member: POST /boards/{board}/members/{member}",
        );
    }
    let amount = match (wire.score, wire.delta) {
        (Some(score), None) => Amount::Score(number("score", score)?),
        (None, Some(delta)) => Amount::Delta(number("delta", delta)?),
        _ => return refuse("send a `score`, or a `delta` to add to it"),
    };
    let metadata = match wire.metadata.map(RawValue::get) {
        None => None,
        Some("null") => Some(None),
        Some(text) => Some(Some(parse_metadata(text)?)),
    };
    let expires_ms = match wire.expires_in_seconds.map(RawValue::get) {
        None => None,
        Some("null") => Some(None),
        Some(text) => match serde_json::from_str(text).map(|WholeNumber(seconds)| seconds) {
            Ok(seconds @ 1..=EXPIRES_SECONDS_MAX) => {
                let after_ms = i64::try_from(seconds)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(1_000);
                Some(Some(now_ms.saturating_add(after_ms)))
            }
            _ => {
                return refuse(format!(
                    "expires_in_seconds must be whole seconds from 1 to {EXPIRES_SECONDS_MAX}, or null for never"
                ));
            }
        },
    };
    Ok(ScoreWrite {
        metadata,
        expires_ms,
        ..ScoreWrite::of(amount)
    })
}

/// Reads a write to one member: `{"score":7}` or `{"delta":1}`, with `metadata` and `expires_in_seconds`; or
/// `{"hidden":true}`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-score`.
pub fn parse_write(body: &[u8], now_ms: i64) -> Result<MemberAction, Problem> {
    let wire: WriteWire<'_> = read_object(body)?;
    if wire.member.is_some() || wire.board.is_some() {
        return refuse("the path names the board and the member; leave `board` and `member` out");
    }
    match wire {
        WriteWire {
            hidden: Some(is_hidden),
            score: None,
            delta: None,
            metadata: None,
            expires_in_seconds: None,
            ..
        } => Ok(MemberAction::Hide(is_hidden)),
        _ => put_of(&wire, now_ms).map(MemberAction::Put),
    }
}

/// The writes of a body of lines, and the lines that are refused.
#[derive(Debug, Default)]
pub struct MemberLines {
    /// The writes, with the numbers of their lines.
    pub writes: Vec<(u32, MemberWrite)>,
    /// How many lines are refused.
    pub rejected: u64,
    /// The first of them, and why.
    pub errors: Vec<(u32, Problem)>,
    /// All of them, by their codes.
    pub rejected_lines: Vec<RejectedRecords>,
}

impl MemberLines {
    /// Adds a refused line.
    pub fn reject(&mut self, line: u32, why: Problem) {
        self.rejected += 1;
        RejectedRecords::reject(&mut self.rejected_lines, why.code(), line.into());
        if self.errors.len() < REPORTED_LINES_MAX {
            self.errors.push((line, why));
        }
    }
}

/// Reads a body of lines, each a write with its `member`; empty lines are skipped.
///
/// # Errors
/// `body-too-large` above [`LINES_MAX`] lines.
pub fn parse_lines(body: &[u8], now_ms: i64) -> Result<MemberLines, Problem> {
    let mut lines = MemberLines::default();
    for (line, number) in body.split(|byte| *byte == b'\n').zip(1..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if lines.writes.len() >= LINES_MAX {
            let detail = format!("send at most {LINES_MAX} lines in one body; nothing was written");
            return Err(Problem::new(Code::BodyTooLarge, detail));
        }
        match parse_line(line, now_ms) {
            Ok(write) => lines.writes.push((number, write)),
            Err(problem) => lines.reject(number, problem),
        }
    }
    Ok(lines)
}

/// Reads a line of `/events` that writes to a board: as a line of one board, with its `board`.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-score`, `invalid-id`.
pub fn parse_board_line(line: &[u8], now_ms: i64) -> Result<(CounterId, MemberWrite), Problem> {
    let wire: WriteWire<'_> = read_object(line)?;
    let Some(board) = wire.board.as_deref() else {
        return refuse("a line needs the `key` of a counter, or its `board`");
    };
    let board = CounterId::parse(board).map_err(|error| Problem::from(error).of_id("board"))?;
    Ok((board, member_write(&wire, now_ms)?))
}

fn parse_line(line: &[u8], now_ms: i64) -> Result<MemberWrite, Problem> {
    let wire: WriteWire<'_> = read_object(line)?;
    if wire.board.is_some() {
        return refuse("the path names the board; leave `board` out");
    }
    member_write(&wire, now_ms)
}

fn member_write(wire: &WriteWire<'_>, now_ms: i64) -> Result<MemberWrite, Problem> {
    let Some(member) = wire.member.as_deref() else {
        return refuse("a line needs its `member`");
    };
    let member = CounterId::parse(member).map_err(|error| Problem::from(error).of_id("member"))?;
    Ok(MemberWrite {
        member: String::from(member).into_bytes(),
        action: MemberAction::Put(put_of(wire, now_ms)?),
        condition: None,
    })
}

/// Reads a member of an export: `{"board":…,"member":…,"score":7}` with `metadata`, `expires_at` (unix milliseconds)
/// and `hidden`. Returns the writes that restore it, and whether it has expired: then there is nothing to restore.
///
/// # Errors
/// `invalid-json`, `unknown-field`, `invalid-body`, `invalid-score`.
pub fn parse_member_line(line: &[u8], now_ms: i64) -> Result<(Vec<MemberWrite>, bool), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct MemberWire<'a> {
        #[serde(rename = "board")]
        _board: String,
        member: String,
        #[serde(borrow)]
        score: &'a RawValue,
        #[serde(borrow, default)]
        metadata: Option<&'a RawValue>,
        #[serde(default)]
        expires_at: Option<SentMoment>,
        #[serde(default)]
        hidden: bool,
    }
    let wire: MemberWire<'_> = read_object(line)?;
    // The name is not checked as an id: `ZADD` may have written longer names, of any characters.
    let member = wire.member.into_bytes();
    if member.is_empty() || member.len() > SORTED_MEMBER_BYTES_MAX {
        return refuse(format!(
            "a member has 1 to {SORTED_MEMBER_BYTES_MAX} bytes of UTF-8"
        ));
    }
    let infinite = match wire.score.get() {
        "\"inf\"" => Score::new(f64::INFINITY),
        "\"-inf\"" => Score::new(f64::NEG_INFINITY),
        _ => None,
    };
    let score = infinite.map_or_else(|| number("score", wire.score), Ok)?;
    let metadata = wire.metadata.map(|text| parse_metadata(text.get()));
    let metadata = metadata.transpose()?;
    let expires_ms = wire.expires_at.map(|SentMoment(at_ms)| at_ms);
    let is_expired = expires_ms.is_some_and(|at_ms| at_ms <= now_ms);
    let write = |action: MemberAction| MemberWrite {
        member: member.clone(),
        action,
        condition: None,
    };
    let put = ScoreWrite {
        metadata: Some(metadata),
        expires_ms: Some(expires_ms),
        ..ScoreWrite::of(Amount::Score(score))
    };
    let mut writes = vec![write(MemberAction::Put(put))];
    if wire.hidden {
        writes.push(write(MemberAction::Hide(true)));
    }
    Ok((writes, is_expired))
}
