//! The parameters of a query string.

use super::pairs::{has_parameter, known_pairs};
use crate::routes::{RouteName, UnknownQuery};
use tally_core::counter::history::Resolution;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::Range;
use tally_logs::time::{TIMES, parse_time};
use tally_wire::problem::{Code, Problem};
use tally_wire::segment::percent_decoded;
use tally_wire::version::Version;

/// The longest window, in seconds: as long as days are stored, 1,826 × 86,400.
pub const WINDOW_SECONDS_MAX: u64 = 157_766_400;

/// The most points of one history answer.
pub const POINTS_MAX: i64 = 10_000;

/// The most seconds of the history of one counter: a day, and a minute for clients that say the beginning and leave the
/// end to the service. They are read 10,000 at a time, and take 1.7 MB as JSON.
pub const SECOND_POINTS_MAX: i64 = 86_460;

/// Points of a history answer where no range is given.
const POINTS_DEFAULT: i64 = 60;

/// The default and the largest number of names on one page of a listing.
pub const LIST_LIMIT: (u32, u32) = (100, 1_000);

/// The most counters that a history of a prefix lists: 100 × 600 bytes besides its points.
pub const HISTORY_TOP_MAX: u32 = 100;

/// Counters in one union of uniques.
pub const UNION_MAX: usize = 100;

/// The refusal of a callback. A page that loads a script would run whatever it receives.
const NO_CALLBACK: &str = "there is no `callback`: pages of other origins read by CORS, which a public entry of \
    TALLY_KEYS with their origin allows";

/// The format of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryFormat {
    /// Whether large numbers are strings.
    pub strings: bool,
    /// Whether points are included where nothing was counted or the count is unknown.
    pub zeros: bool,
}

/// A parsed query string.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

pub(super) fn refuse<T>(detail: String) -> Result<T, Problem> {
    Err(Problem::new(Code::InvalidQuery, detail))
}

/// Whether a call ignores the parameters of a query that it does not know.
fn is_ignored(unknown: UnknownQuery, query: &str) -> bool {
    match unknown {
        UnknownQuery::Refused => false,
        UnknownQuery::Ignored => true,
        UnknownQuery::IgnoredWhere(name, value) => has_parameter(query, name, Some(value)),
    }
}

/// Whether the bytes of a query are UTF-8 once they are percent-decoded.
fn is_utf8(query: &str) -> bool {
    !query.contains('%') || std::str::from_utf8(&percent_decoded(query).0).is_ok()
}

impl Query {
    /// Reads a query string and refuses names that are not `known`, and repeated names except `id`.
    ///
    /// # Errors
    /// `invalid-query` with the parameter and the known ones, and for bytes that are not UTF-8 and a `%` without two
    /// hexadecimal digits: replaced, they would name another counter.
    pub fn parse(query: &str, known: &[&str]) -> Result<Self, Problem> {
        let (bytes, has_bare) = percent_decoded(query);
        if has_bare || std::str::from_utf8(&bytes).is_err() {
            let detail = "the query has a % without two hexadecimal digits, or is not UTF-8 once it is decoded: send % as %25";
            return refuse(detail.to_owned());
        }
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        for (index, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let list = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                if name == "callback" {
                    return refuse(format!("{NO_CALLBACK}; known: {list}"));
                }
                return refuse(format!(
                    "the parameter {name:?} is not known here; known: {list}"
                ));
            }
            if name != "id" && pairs.iter().skip(index + 1).any(|(other, _)| other == name) {
                return refuse(format!(
                    "the parameter {name:?} is there twice; send it once"
                ));
            }
        }
        Ok(Self { pairs })
    }

    /// Reads the query of a call, which ignores or refuses unknown parameters as its row in the table of routes says.
    /// An ignored parameter may stand twice, and its bytes need not be UTF-8.
    ///
    /// # Errors
    /// As [`Query::parse`].
    pub fn parse_for(call: RouteName, query: &str, known: &[&str]) -> Result<Self, Problem> {
        match is_ignored(call.unknown_query(), query) {
            true => Self::parse(&known_pairs(query, known), known),
            false => Self::parse(query, known),
        }
    }

    /// Reads what the URL of an image says of the `known` parameters, and refuses nothing: a refusal is a broken image,
    /// and whoever shows the image changes its URL. Of a repeated parameter the first counts. A parameter that is not
    /// UTF-8 is left out.
    pub fn of_image(query: &str, known: &[&str]) -> Self {
        let pairs = query
            .split('&')
            .filter(|pair| is_utf8(pair))
            .flat_map(|pair| form_urlencoded::parse(pair.as_bytes()).into_owned())
            .filter(|(name, _)| known.contains(&name.as_str()))
            .collect();
        Self { pairs }
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may be repeated.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The counter of a query that may name one.
    ///
    /// # Errors
    /// `invalid-query` where it names several, `invalid-id`.
    pub fn one_id(&self) -> Result<Option<CounterId>, Problem> {
        let mut ids = self.all("id");
        let id = ids.next();
        match ids.next() {
            None => Ok(id.map(CounterId::parse).transpose()?),
            Some(_) => refuse("id names one counter here; send it once".to_owned()),
        }
    }

    /// The time in a parameter, in unix seconds; a date means its first second in `from` and `period`, its last
    /// one elsewhere.
    ///
    /// # Errors
    /// `invalid-query` for anything but a date, a time of RFC 3339, or unix seconds.
    pub fn unix_seconds(&self, name: &str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let time = |text: &str| parse_time(text, matches!(name, "from" | "period"));
        // A plus sign in a query is a space unless it is written %2B, so an offset may arrive with one.
        match time(text).or_else(|| time(&text.replacen(' ', "+", 1))) {
            Some(at_ms) => Ok(Some(at_ms.div_euclid(1_000))),
            None => refuse(format!("{name} must be {TIMES}; {text:?} is none")),
        }
    }

    /// Whether `numbers=string` was asked for.
    ///
    /// # Errors
    /// `invalid-query` for any other value.
    pub fn numbers_as_strings(&self) -> Result<bool, Problem> {
        match self.get("numbers") {
            None => Ok(false),
            Some("string") => Ok(true),
            Some(_) => refuse("numbers can only be `string`".to_owned()),
        }
    }

    /// The format of a history: `numbers=string`, `zeros=0`.
    ///
    /// # Errors
    /// `invalid-query` for any other value.
    pub fn history_format(&self) -> Result<HistoryFormat, Problem> {
        let zeros = match self.get("zeros") {
            None => true,
            Some("0") => false,
            Some(_) => return refuse("zeros can only be 0".to_owned()),
        };
        let strings = self.numbers_as_strings()?;
        Ok(HistoryFormat { strings, zeros })
    }

    /// Whether `format=csv` was asked for.
    ///
    /// # Errors
    /// `invalid-query` for any other value.
    pub fn is_csv(&self) -> Result<bool, Problem> {
        match self.get("format") {
            None => Ok(false),
            Some("csv") => Ok(true),
            Some(_) => refuse("format can only be `csv`; leave it out for JSON".to_owned()),
        }
    }

    /// The most counters that a history of a prefix lists; 0 where that is not asked for.
    ///
    /// # Errors
    /// `invalid-query` outside 1 to [`HISTORY_TOP_MAX`].
    pub fn history_top(&self) -> Result<u32, Problem> {
        match self.get("top").map(str::parse::<u32>) {
            None => Ok(0),
            Some(Ok(top)) if (1..=HISTORY_TOP_MAX).contains(&top) => Ok(top),
            Some(_) => refuse(format!("top must be from 1 to {HISTORY_TOP_MAX}")),
        }
    }

    /// Whether `values=1` was asked for.
    ///
    /// # Errors
    /// `invalid-query` for any other value.
    pub fn wants_values(&self) -> Result<bool, Problem> {
        match self.get("values") {
            None => Ok(false),
            Some("1") => Ok(true),
            Some(_) => refuse("values can only be 1; leave it out for names alone".to_owned()),
        }
    }

    /// Whether `op=intersection` is asked for instead of the union.
    ///
    /// # Errors
    /// `invalid-query` for any other value than these two.
    pub fn intersects(&self) -> Result<bool, Problem> {
        match self.get("op") {
            None | Some("union") => Ok(false),
            Some("intersection") => Ok(true),
            Some(_) => refuse("op can only be `union` or `intersection`".to_owned()),
        }
    }

    /// Whether an explanation is asked for, and if so whether it includes what cells store: `explain=storage`. With
    /// `at_least` it is refused: `at_least` may take many reads, and the explanation is of one read.
    ///
    /// # Errors
    /// `invalid-query` for any other value, and with `at_least`.
    pub fn explains(&self) -> Result<Option<bool>, Problem> {
        match self.get("explain") {
            None => Ok(None),
            Some("1" | "storage") if self.get("at_least").is_some() => refuse(
                "explain describes one read, and at_least may take several reads; send one of them"
                    .to_owned(),
            ),
            Some("1") => Ok(Some(false)),
            Some("storage") => Ok(Some(true)),
            Some(other) => refuse(format!("explain can only be 1 or storage, not {other:?}")),
        }
    }

    /// Whether `consistency=strong` was asked for.
    ///
    /// # Errors
    /// `invalid-query` for any other value.
    pub fn is_strong(&self) -> Result<bool, Problem> {
        match self.get("consistency") {
            None => Ok(false),
            Some("strong") => Ok(true),
            Some(_) => refuse(
                "consistency can only be `strong`; leave it out for the cached view".to_owned(),
            ),
        }
    }

    /// The datacenter of the query.
    ///
    /// # Errors
    /// `invalid-query` for a text that cannot be a datacenter's name.
    pub fn datacenter(&self) -> Result<Option<Datacenter>, Problem> {
        match self.get("datacenter").map(Datacenter::parse) {
            None => Ok(None),
            Some(Some(datacenter)) => Ok(Some(datacenter)),
            Some(None) => refuse("datacenter must be a colo such as FRA".to_owned()),
        }
    }

    /// The version that the answer must cover; with a single `datacenter`, the part of the version for it.
    ///
    /// # Errors
    /// `invalid-query` for a text that is no version.
    pub fn at_least(&self) -> Result<Option<Version>, Problem> {
        let version = match self.get("at_least").map(Version::decode) {
            None => return Ok(None),
            Some(Ok(version)) => version,
            Some(Err(error)) => {
                return refuse(format!(
                    "at_least must be the `version` of an answer, unchanged: {error}"
                ));
            }
        };
        Ok(Some(match self.datacenter()? {
            Some(datacenter) => version.only(&datacenter),
            None => version,
        }))
    }

    /// The range of history; without `from` and `to` the last 60 buckets.
    ///
    /// # Errors
    /// `invalid-query`, and `range-too-large` above [`POINTS_MAX`] points.
    pub fn history(&self, now: i64) -> Result<Range, Problem> {
        let step = self.step()?.unwrap_or(Resolution::Minute);
        Self::range(step, self.range_ends(step, now)?)
    }

    /// The range of the history of one counter: as [`Query::history`], and up to [`SECOND_POINTS_MAX`] seconds.
    ///
    /// # Errors
    /// As [`Query::history`].
    pub fn counter_history(&self, now: i64) -> Result<Range, Problem> {
        let step = self.step()?.unwrap_or(Resolution::Minute);
        let points_max = match step {
            Resolution::Second => SECOND_POINTS_MAX,
            _ => POINTS_MAX,
        };
        Self::range_up_to(points_max, step, self.range_ends(step, now)?)
    }

    /// `from` and `to`; by default the last 60 steps.
    pub(super) fn range_ends(&self, step: Resolution, now: i64) -> Result<(i64, i64), Problem> {
        let to = self.unix_seconds("to")?.unwrap_or(now);
        let from = self
            .unix_seconds("from")?
            .unwrap_or(to - (POINTS_DEFAULT - 1) * step.seconds());
        match from > to {
            true => refuse("from must not be after to".to_owned()),
            false => Ok((from, to)),
        }
    }

    pub(super) fn step(&self) -> Result<Option<Resolution>, Problem> {
        Ok(match self.get("step") {
            None => None,
            Some("1m") => Some(Resolution::Minute),
            Some("1s") => Some(Resolution::Second),
            Some("1h") => Some(Resolution::Hour),
            Some("1d") => Some(Resolution::Day),
            Some(_) => return refuse("step must be 1s, 1m, 1h or 1d".to_owned()),
        })
    }

    /// The buckets that contain these seconds, the first and the last.
    pub(super) fn range(step: Resolution, seconds: (i64, i64)) -> Result<Range, Problem> {
        Self::range_up_to(POINTS_MAX, step, seconds)
    }

    fn range_up_to(
        points_max: i64,
        step: Resolution,
        (from, to): (i64, i64),
    ) -> Result<Range, Problem> {
        let range = Range {
            step,
            from: step.start_of(from),
            to: step.start_of(to),
        };
        let points = (range.to - range.from) / step.seconds() + 1;
        if points > points_max {
            let detail = format!(
                "the range has {points} points; ask for at most {points_max}, or a wider step"
            );
            return Err(Problem::new(Code::RangeTooLarge, detail));
        }
        Ok(range)
    }

    /// The most names of a listing.
    ///
    /// # Errors
    /// `invalid-query` outside 1 to the most.
    pub fn limit(&self) -> Result<u32, Problem> {
        let (usual, max) = LIST_LIMIT;
        match self.get("limit").map(str::parse::<u32>) {
            None => Ok(usual),
            Some(Ok(limit)) if (1..=max).contains(&limit) => Ok(limit),
            Some(_) => refuse(format!("limit must be from 1 to {max}")),
        }
    }
}
