//! The members that a read asks for.

use super::token::{BoardVersion, parse_cursor, parse_version};
use crate::query::{LIST_LIMIT, Query};
use tally_core::board::score::Score;
use tally_core::board::settings::MEMBERS_MAX;
use tally_core::counter::id::CounterId;
use tally_wire::messages::{MemberRange, PeriodOf};
use tally_wire::problem::{Code, Problem};

/// The most members before, and after, a member in one answer.
pub const AROUND_MAX: u32 = 100;

/// The most members asked for by name at once: 100 of 512 bytes are what a URL of 64 KB holds.
pub const MEMBERS_ASKED_MAX: usize = 100;

/// The most members of one answer to an export.
pub const EXPORTED_MAX: u32 = 10_000;

/// Members before and after one, where no limit is given.
const AROUND_DEFAULT: u32 = 5;

/// The parameters of a read of members.
pub const MEMBERS_QUERY: [&str; 8] = [
    "id", "around", "rank", "min", "max", "cursor", "limit", "format",
];

/// Parameters of that read, and those that do not go with each.
const APART: [(&str, &[&str]); 4] = [
    (
        "id",
        &["around", "rank", "min", "max", "cursor", "limit", "format"],
    ),
    ("around", &["rank", "min", "max", "cursor", "format"]),
    ("rank", &["min", "max", "format"]),
    ("format", &["min", "max"]),
];

/// What a read of members asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum WantedMembers {
    /// Members by name.
    Named(Vec<CounterId>),
    /// A member, with so many before and after it.
    Around(CounterId, u32),
    /// Lines of an export.
    Lines,
    /// A part of the order.
    Range {
        /// Which.
        range: MemberRange,
        /// Whether the answer says how many members are between the scores.
        counts: bool,
    },
}

/// The query of a read, and the period of its cursor.
pub struct BoardQuery(Query, Option<i64>);

fn refuse<T>(detail: String) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidQuery, detail))
}

impl BoardQuery {
    /// Reads a query. It may have these parameters, and `period`, `at_least` and `consistency`.
    ///
    /// # Errors
    /// `invalid-query`, as for all methods below.
    pub fn parse(query: &str, known: &[&str]) -> Result<Self, Problem> {
        let known = [known, &["period", "at_least", "consistency"]].concat();
        let query = Query::parse(query, &known)?;
        let cursor = query.get("cursor").and_then(parse_cursor);
        Ok(Self(query, cursor.and_then(|(_, start)| start)))
    }

    /// A query that was read elsewhere, without a cursor.
    pub(super) fn of(query: Query) -> Self {
        Self(query, None)
    }

    /// Whether a read asks for no period, no version and no exact answer.
    pub fn is_plain(&self) -> Result<bool, Problem> {
        Ok(self.period()?.is_none() && self.at_least()?.is_none() && !self.is_strong()?)
    }

    /// Whether `approximate=1` is asked for.
    pub fn is_approximate(&self) -> Result<bool, Problem> {
        match self.0.get("approximate") {
            None => Ok(false),
            Some("1") if self.is_plain()? => Ok(true),
            Some("1") => refuse(
                "approximate reads a summary of now: leave period, at_least and consistency out"
                    .to_owned(),
            ),
            Some(_) => refuse("approximate can only be 1".to_owned()),
        }
    }

    /// The period that is asked for, by its beginning. A cursor stays in its own period.
    pub fn period(&self) -> Result<Option<i64>, Problem> {
        match (self.0.unix_seconds("period")?, self.1) {
            (None, start) => Ok(start),
            (Some(start), Some(other)) if start != other => refuse(format!(
                "the cursor is of the period {other}: leave period out"
            )),
            (Some(start), _) => Ok(Some(start)),
        }
    }

    /// Fixes the period to that of an answer, if none is asked for.
    pub fn pin_period(&mut self, period: &PeriodOf) {
        self.1 = self.1.or((period.end > 0).then_some(period.start));
    }

    /// Whether `consistency=strong` is asked for.
    pub fn is_strong(&self) -> Result<bool, Problem> {
        self.0.is_strong()
    }

    /// Whether `include=periods` is asked for.
    pub fn includes_periods(&self) -> Result<bool, Problem> {
        match self.0.get("include") {
            None => Ok(false),
            Some("periods") => Ok(true),
            Some(_) => refuse("include can only be periods".to_owned()),
        }
    }

    /// The version that the answer must include.
    pub fn at_least(&self) -> Result<Option<BoardVersion>, Problem> {
        match self.0.get("at_least").map(parse_version) {
            None => Ok(None),
            Some(Some(version)) => Ok(Some(version)),
            Some(None) => refuse(
                "at_least must be the `version` of an answer of this board, unchanged".to_owned(),
            ),
        }
    }

    /// The members asked for by name.
    fn members(&self) -> Result<Vec<CounterId>, Problem> {
        let names: Vec<&str> = self.0.all("id").collect();
        if names.len() > MEMBERS_ASKED_MAX {
            return refuse(format!(
                "ask for at most {MEMBERS_ASKED_MAX} members at once"
            ));
        }
        names
            .into_iter()
            .map(|name| CounterId::parse(name).map_err(|error| Problem::from(error).of_id("id")))
            .collect()
    }

    fn score(&self, name: &str) -> Result<Option<Score>, Problem> {
        let Some(text) = self.0.get(name) else {
            return Ok(None);
        };
        match text.parse().ok().and_then(Score::new) {
            Some(score) => Ok(Some(score)),
            None => refuse(format!("{name} must be a number")),
        }
    }

    /// What a read of members asks for.
    pub fn wanted(&self) -> Result<WantedMembers, Problem> {
        let has = |name: &&str| self.0.get(name).is_some();
        for (one, others) in APART {
            if let Some(other) = others.iter().find(|other| has(other)).filter(|_| has(&one)) {
                return refuse(format!(
                    "`{one}` and `{other}` exclude each other: leave one out"
                ));
            }
        }
        match self.0.get("format") {
            None => {}
            Some("ndjson") => return Ok(WantedMembers::Lines),
            Some(_) => return refuse("format can only be ndjson".to_owned()),
        }
        if has(&"id") {
            return Ok(WantedMembers::Named(self.members()?));
        }
        if let Some(name) = self.0.get("around") {
            let name =
                CounterId::parse(name).map_err(|error| Problem::from(error).of_id("around"))?;
            return Ok(WantedMembers::Around(
                name,
                self.limit(AROUND_DEFAULT, AROUND_MAX)?,
            ));
        }
        Ok(WantedMembers::Range {
            range: self.range()?,
            counts: has(&"min") || has(&"max"),
        })
    }

    /// How many members are asked for; 0 for none, where their number alone is of interest.
    pub(super) fn limit(&self, default: u32, most: u32) -> Result<u32, Problem> {
        match self.0.get("limit").map(str::parse) {
            None => Ok(default),
            Some(Ok(limit)) if limit <= most => Ok(limit),
            Some(_) => refuse(format!("limit must be from 0 to {most}")),
        }
    }

    /// The range that is asked for: by scores, from a rank on, or after a cursor. A rank is where the first page
    /// begins: the next pages have the same parameters, and the cursor counts.
    fn range(&self) -> Result<MemberRange, Problem> {
        let skip = self.0.get("rank").map(rank).transpose()?;
        let after = match self.0.get("cursor").map(parse_cursor) {
            None => None,
            Some(Some((key, _))) => Some(key),
            Some(None) => {
                return refuse("cursor must be the cursor of an answer, unchanged".to_owned());
            }
        };
        let (min, max) = (self.score("min")?, self.score("max")?);
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return refuse("min must not be larger than max".to_owned());
        }
        Ok(MemberRange {
            min,
            max,
            skip: skip.filter(|_| after.is_none()).map_or(0, |rank| rank - 1),
            after,
            limit: self.limit(LIST_LIMIT.0, LIST_LIMIT.1)?,
        })
    }

    /// How many members one answer of an export holds.
    pub fn exported(&self) -> Result<u32, Problem> {
        match self.0.get("limit").map(str::parse) {
            None => Ok(EXPORTED_MAX),
            Some(Ok(limit)) if (1..=EXPORTED_MAX).contains(&limit) => Ok(limit),
            Some(_) => refuse(format!("limit must be from 1 to {EXPORTED_MAX}")),
        }
    }

    /// Where an export begins.
    pub fn exported_after(&self) -> Result<MemberRange, Problem> {
        let cursor = self.0.get("cursor").map(parse_cursor);
        match cursor {
            Some(None) => refuse("cursor must be the cursor of an answer, unchanged".to_owned()),
            after => Ok(MemberRange {
                after: after.flatten().map(|(key, _)| key),
                ..MemberRange::default()
            }),
        }
    }
}

fn rank(text: &str) -> Result<u64, Problem> {
    match text.parse() {
        Ok(rank) if (1..=MEMBERS_MAX).contains(&rank) => Ok(rank),
        _ => refuse(format!("a rank is a whole number from 1 to {MEMBERS_MAX}")),
    }
}
