//! The members that a read asks for.

use super::token::{BoardVersion, parse_cursor, parse_version};
use crate::messages::{MemberRange, PeriodOf};
use crate::problem::{Code, Problem};
use crate::query::Query;
use tally_core::board::score::Score;
use tally_core::board::settings::MEMBERS_MAX;
use tally_core::counter::id::CounterId;

/// The most members before, and after, a member in one answer.
pub const AROUND_MAX: u32 = 100;

/// The most members asked for by name at once: 100 of 512 bytes are what a URL of 64 KB holds.
pub const MEMBERS_ASKED_MAX: usize = 100;

/// The most members of one answer to an export.
pub const EXPORTED_MAX: u32 = 10_000;

/// Members before and after one, where no limit is given.
const AROUND_DEFAULT: u32 = 5;

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

    /// The period that is asked for, by its beginning. A cursor stays in its own period.
    pub fn period(&self) -> Result<Option<i64>, Problem> {
        match (self.0.get("period").map(str::parse), self.1) {
            (None, start) => Ok(start),
            (Some(Ok(start)), Some(other)) if start != other => refuse(format!(
                "the cursor is of the period {other}: leave period out"
            )),
            (Some(Ok(start)), _) => Ok(Some(start)),
            (Some(Err(_)), _) => {
                refuse("period must be the `start` of a period, unix seconds".to_owned())
            }
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
    pub fn members(&self) -> Result<Vec<CounterId>, Problem> {
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

    /// How many members before and after one.
    pub fn around(&self) -> Result<u32, Problem> {
        match self.0.get("limit").map(str::parse) {
            None => Ok(AROUND_DEFAULT),
            Some(Ok(limit)) if limit <= AROUND_MAX => Ok(limit),
            Some(_) => refuse(format!("limit must be from 0 to {AROUND_MAX}")),
        }
    }

    /// The range that is asked for: by scores, from a rank on, or after a cursor.
    pub fn range(&self) -> Result<MemberRange, Problem> {
        let skip = self.0.get("rank").map(rank).transpose()?;
        let after = match self.0.get("cursor").map(parse_cursor) {
            None => None,
            Some(Some((key, _))) => Some(key),
            Some(None) => {
                return refuse("cursor must be the cursor of an answer, unchanged".to_owned());
            }
        };
        if skip.is_some() && after.is_some() {
            return refuse("rank and cursor both say where to begin; send one of them".to_owned());
        }
        let (min, max) = (self.score("min")?, self.score("max")?);
        if min.zip(max).is_some_and(|(min, max)| min > max) {
            return refuse("min must not be larger than max".to_owned());
        }
        Ok(MemberRange {
            min,
            max,
            after,
            skip: skip.map_or(0, |rank| rank - 1),
            limit: self.0.limit()?,
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

    /// The member at this rank.
    pub fn at_rank(text: &str) -> Result<MemberRange, Problem> {
        Ok(MemberRange {
            skip: rank(text)? - 1,
            limit: 1,
            ..MemberRange::default()
        })
    }
}

fn rank(text: &str) -> Result<u64, Problem> {
    match text.parse() {
        Ok(rank) if (1..=MEMBERS_MAX).contains(&rank) => Ok(rank),
        _ => refuse(format!("a rank is a whole number from 1 to {MEMBERS_MAX}")),
    }
}
