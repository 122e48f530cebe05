//! `GET /export`: the deployment's data, as lines that stream.
//!
//! Invariant: one page is in memory, for an export of any length. The last line says what could not be read, and has
//! the cursor if this is not the end.

use std::cell::RefCell;
use std::rc::Rc;

use crate::kit::hash_keys;
use crate::kit::request_context::RequestContext;
use crate::kit::respond::Answer;
use tally_api::access::Caller;
use tally_api::alerts::answer::alert_line;
use tally_api::boards::{board_line, member_lines};
use tally_api::export::{CSV, CSV_HEAD, Checksum, Ending, ExportQuery, counter_csv, counter_line};
use tally_api::limits::{override_line, policy_line};
use tally_api::query::LIST_LIMIT;
use tally_core::board::key::Key;
use tally_core::counter::id::CounterId;
use tally_host::http::Pieces;
use tally_host::{Host, Later};
use tally_shared::boards::BoardReader;
use tally_shared::{call, call_within};
use tally_wire::messages::{
    AllAlerts, BoardAnswer, BoardQuestion, ExportPage, Fault, ListAllBoards, ListAllOverrides,
    ListPolicies, MemberRange,
};
use tally_wire::names::SUBREQUESTS;
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// Counters of a page: (plain ones, about 100 KB; those with histories or sketches, about 1 MB).
const COUNTERS_AT_ONCE: (u64, u64) = (512, 64);

/// How long the aggregator may take for one page.
const PAGE_MS_MAX: u64 = 40_000;

/// The most attempts for a page, and the wait before the next one, milliseconds.
const PAGE_TRIES: u32 = 3;
const PAGE_AGAIN_MS: u64 = 500;

/// Calls of one answer, where the platform allows 10,000: each page is one.
const CALLS_DEFAULT: u32 = 9_000;

const NDJSON: &str = "application/x-ndjson";

/// `GET /export`
///
/// # Errors
/// `invalid-query`, `forbidden`.
pub async fn export(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let now_ms = context.host.now_ms();
    let query = ExportQuery::parse(context.query(), now_ms.div_euclid(1_000))?;
    caller.may(Scope::Admin, &query.prefix)?;
    if query.alerts {
        // Some alerts are about policies: an export without those would not be whole.
        caller.may_limit(Scope::Admin, tally_wire::names::LIMIT_RIGHTS)?;
    }
    let at = match query.cursor.as_deref() {
        None => At::Counters(None),
        Some(cursor) => At::from_cursor(cursor)?,
    };
    at.check(&query, caller)?;
    let calls: Option<u32> = context.host.number(SUBREQUESTS);
    let media_type = if query.is_csv { CSV } else { NDJSON };
    let export = Export {
        host: context.host.clone(),
        left: query.limit.unwrap_or(u64::MAX),
        calls_left: calls.map_or(CALLS_DEFAULT, |calls| calls.saturating_sub(calls / 10)),
        reads_limits: caller
            .may_limit(Scope::Admin, tally_wire::names::LIMIT_RIGHTS)
            .is_ok(),
        query,
        at,
        checksum: Checksum::default(),
        ending: Ending::default(),
        has_begun: false,
    };
    // The identity of the hash key must be known before sketches are sent.
    let _ = hash_keys::name_key(&context.host).await;
    let pieces = ExportStream(Rc::new(RefCell::new(Some(export))));
    let answer = Answer::pieces(media_type, Box::new(pieces));
    Ok(answer.with_header("tally-as-of", now_ms.to_string()))
}

/// The position of an export: the name after which it continues.
#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Counters(Option<String>),
    Policies(Option<PolicyName>),
    /// The overrides of all policies.
    Overrides(Option<(PolicyName, OverridePattern)>),
    Alerts,
    Boards(Option<String>),
    /// In the middle of a board's members.
    Board(CounterId, Option<Key>),
    /// After them: among its hidden members, after this one.
    Hidden(CounterId, Vec<u8>),
    /// Before the last line.
    End,
    Done,
}

impl At {
    /// The position of a cursor.
    fn from_cursor(cursor: &str) -> Result<Self, Problem> {
        let (kind, name) = cursor.split_once('/').ok_or_else(no_cursor)?;
        let name = Some(name).filter(|name| !name.is_empty());
        Ok(match kind {
            "counters" => Self::Counters(name.map(str::to_owned)),
            "policies" => Self::Policies(name.map(PolicyName::parse).transpose()?),
            "overrides" => {
                let after = name.map(|name| {
                    let (policy, pattern) = name.split_once('/').ok_or_else(no_cursor)?;
                    Ok::<_, Problem>((PolicyName::parse(policy)?, OverridePattern::parse(pattern)?))
                });
                Self::Overrides(after.transpose()?)
            }
            "alerts" => Self::Alerts,
            "boards" => Self::Boards(name.map(str::to_owned)),
            _ => return Err(no_cursor()),
        })
    }

    /// Refuses a position in what the query does not ask for, or in what the caller may not read.
    fn check(&self, query: &ExportQuery, caller: &Caller) -> Result<(), Problem> {
        let is_asked = match self {
            Self::Counters(_) => true,
            Self::Policies(_) | Self::Overrides(_) => query.prefix.is_empty(),
            Self::Alerts => query.prefix.is_empty() && query.alerts,
            _ => !query.is_csv,
        };
        let is_of_limits = matches!(self, Self::Policies(_) | Self::Overrides(_) | Self::Alerts);
        if !is_asked || (is_of_limits && query.is_csv) {
            return Err(no_cursor());
        }
        if is_of_limits {
            caller.may_limit(Scope::Admin, tally_wire::names::LIMIT_RIGHTS)?;
        }
        Ok(())
    }

    /// The cursor of this position.
    fn cursor(&self) -> String {
        match self {
            Self::Counters(after) => format!("counters/{}", after.as_deref().unwrap_or_default()),
            Self::Policies(after) => {
                let after = after.as_ref().map(PolicyName::as_str);
                format!("policies/{}", after.unwrap_or_default())
            }
            Self::Overrides(after) => match after {
                Some((policy, pattern)) => format!("overrides/{policy}/{pattern}"),
                None => "overrides/".to_owned(),
            },
            Self::Alerts => "alerts/".to_owned(),
            Self::Boards(after) => format!("boards/{}", after.as_deref().unwrap_or_default()),
            Self::Board(board, _) | Self::Hidden(board, _) => format!("boards/{}", before(board)),
            Self::End | Self::Done => String::new(),
        }
    }
}

fn no_cursor() -> Problem {
    let detail = "cursor must be the `cursor` of the last line of an export with the same query";
    Problem::new(Code::InvalidQuery, detail)
}

/// A text that sorts before a board's id and after all smaller ids.
fn before(board: &CounterId) -> String {
    let mut text = board.as_str().to_owned();
    let last = text.pop();
    // The names after the text are read again: the board is the first of them, unless others have the same prefix.
    if let Some(last) = last.and_then(|last| char::from_u32(u32::from(last).saturating_sub(1))) {
        text.push(last);
        text.push(char::MAX);
    }
    text
}

struct Export {
    host: Host,
    query: ExportQuery,
    at: At,
    /// How many counters may still be sent.
    left: u64,
    calls_left: u32,
    reads_limits: bool,
    checksum: Checksum,
    ending: Ending,
    has_begun: bool,
}

/// The body of an export. It is taken out while a piece is made.
struct ExportStream(Rc<RefCell<Option<Export>>>);

impl Pieces for ExportStream {
    fn next(&mut self) -> Later<Result<Option<Vec<u8>>, String>> {
        let shared = self.0.clone();
        Box::pin(async move {
            let export = shared.borrow_mut().take();
            let Some(mut export) = export else {
                return Err("the piece before was not made to its end".to_owned());
            };
            let piece = export.next().await;
            *shared.borrow_mut() = Some(export);
            Ok(piece)
        })
    }
}

impl Export {
    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let mut text = String::new();
        if !self.has_begun && self.query.is_csv {
            text.push_str(CSV_HEAD);
        }
        self.has_begun = true;
        while text.is_empty() {
            let is_out = self.left == 0 || self.calls_left == 0;
            if is_out && !matches!(self.at, At::End | At::Done) {
                self.ending.cursor = Some(self.at.cursor());
                self.at = At::End;
            }
            self.calls_left = self.calls_left.saturating_sub(1);
            let step = match self.at.clone() {
                At::Counters(after) => self.counters(after, &mut text).await,
                At::Policies(after) => self.policies(after, &mut text).await,
                At::Overrides(after) => self.overrides(after, &mut text).await,
                At::Alerts => self.alerts(&mut text).await,
                At::Boards(after) => self.boards(after).await,
                At::Board(board, after) => self.board(board, after, &mut text).await,
                At::Hidden(board, after) => self.hidden(board, after, &mut text).await,
                At::End => {
                    self.at = At::Done;
                    let line = match self.query.is_csv {
                        true => self.ending.csv_line()?,
                        false => self.ending.line(&self.checksum),
                    };
                    return Some(line.into_bytes());
                }
                At::Done => return None,
            };
            if let Err(fault) = step {
                self.ending.cursor = Some(self.at.cursor());
                self.ending.why = Some(fault.to_string());
                self.at = At::End;
            }
        }
        self.checksum.push(text.as_bytes());
        Some(text.into_bytes())
    }

    async fn counters(&mut self, after: Option<String>, text: &mut String) -> Result<(), Fault> {
        let wanted = self.query.wanted;
        let is_plain = wanted == Default::default();
        let counters_max = match is_plain {
            true => COUNTERS_AT_ONCE.0,
            false => COUNTERS_AT_ONCE.1,
        };
        let page = ExportPage {
            prefix: self.query.prefix.clone(),
            after,
            limit: u32::try_from(self.left.min(counters_max)).unwrap_or(u32::MAX),
            wanted,
        };
        let mut tries = 1;
        let exported = loop {
            match call_within(&self.host, &page, PAGE_MS_MAX).await {
                Err(_) if tries < PAGE_TRIES => {
                    tries += 1;
                    self.host.sleep_ms(PAGE_AGAIN_MS).await;
                }
                exported => break exported?,
            }
        };
        for counter in &exported.counters {
            self.ending.inexact += u64::from(!counter.is_exact);
            // Otherwise neither its root nor a cell was read, and it is unknown.
            let is_known = counter.root.revision > 0 || !counter.root.datacenters.is_empty();
            if !counter.is_exact && !is_known {
                self.ending.leave_out(&counter.counter);
                continue;
            }
            self.ending.counters += 1;
            let line = match self.query.is_csv {
                true => counter_csv(counter),
                false => counter_line(counter, self.query.strings),
            };
            text.push_str(&line);
        }
        let count = u64::try_from(exported.counters.len()).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(count);
        for partition in exported.missing_partitions {
            if !self.ending.missing_partitions.contains(&partition) {
                self.ending.missing_partitions.push(partition);
            }
        }
        self.at = match exported.after {
            Some(after) => At::Counters(Some(after)),
            None if self.query.is_csv => At::End,
            None if self.query.prefix.is_empty() && self.reads_limits => At::Policies(None),
            None => At::Boards(None),
        };
        Ok(())
    }

    async fn policies(
        &mut self,
        after: Option<PolicyName>,
        text: &mut String,
    ) -> Result<(), Fault> {
        let limit = LIST_LIMIT.1;
        let policies = call(&self.host, &ListPolicies { after, limit }).await?;
        for (name, policy) in &policies {
            self.ending.policies += 1;
            text.push_str(&policy_line(name, policy));
        }
        let is_full = u32::try_from(policies.len()).is_ok_and(|count| count >= limit);
        self.at = match policies.into_iter().next_back().filter(|_| is_full) {
            Some((last, _)) => At::Policies(Some(last)),
            None => At::Overrides(None),
        };
        Ok(())
    }

    /// Overrides come after all policies, so that an import finds the policies of theirs.
    async fn overrides(
        &mut self,
        after: Option<(PolicyName, OverridePattern)>,
        text: &mut String,
    ) -> Result<(), Fault> {
        let limit = LIST_LIMIT.1;
        let overrides = call(&self.host, &ListAllOverrides { after, limit }).await?;
        for (name, algorithm, pattern, over) in &overrides {
            self.ending.overrides += 1;
            text.push_str(&override_line(name, *algorithm, pattern, over));
        }
        let is_full = u32::try_from(overrides.len()).is_ok_and(|count| count >= limit);
        self.at = match overrides.into_iter().next_back().filter(|_| is_full) {
            Some((name, _, pattern, _)) => At::Overrides(Some((name, pattern))),
            None if self.query.alerts => At::Alerts,
            None => At::Boards(None),
        };
        Ok(())
    }

    /// All alerts: there are few.
    async fn alerts(&mut self, text: &mut String) -> Result<(), Fault> {
        let (alerts, missing) = call(&self.host, &AllAlerts {}).await?;
        for partition in missing {
            if !self.ending.missing_partitions.contains(&partition) {
                self.ending.missing_partitions.push(partition);
            }
        }
        for seen in &alerts {
            self.ending.alerts += 1;
            text.push_str(&alert_line(&seen.name, &seen.alert));
        }
        self.at = At::Boards(None);
        Ok(())
    }

    async fn boards(&mut self, after: Option<String>) -> Result<(), Fault> {
        let list = ListAllBoards {
            prefix: self.query.prefix.clone(),
            after,
            limit: 1,
        };
        let listed = call(&self.host, &list).await?;
        for partition in listed.missing_partitions {
            if !self.ending.missing_partitions.contains(&partition) {
                self.ending.missing_partitions.push(partition);
            }
        }
        self.at = match listed.boards.into_iter().next() {
            Some(board) => At::Board(board, None),
            None => At::End,
        };
        Ok(())
    }

    async fn board(
        &mut self,
        board: CounterId,
        after: Option<Key>,
        text: &mut String,
    ) -> Result<(), Fault> {
        let is_first = after.is_none();
        let range = MemberRange {
            after,
            limit: LIST_LIMIT.1,
            ..MemberRange::default()
        };
        let reading = BoardReader::new(&self.host, &board);
        let answer = reading.ask(BoardQuestion::Range(range));
        let BoardAnswer::Seen(seen) = answer.await? else {
            // It has ended since it was listed.
            self.at = At::Boards(Some(board.as_str().to_owned()));
            return Ok(());
        };
        if is_first {
            self.ending.boards += 1;
            text.push_str(&board_line(&board, &seen.settings, &seen.placing));
        }
        member_lines(text, &board, &seen.rows);
        let last = seen.rows.last().filter(|_| seen.has_more);
        self.at = match last {
            Some(last) => {
                let key = Key::new(last.score, last.tie, &last.member);
                At::Board(board, Some(key))
            }
            None => At::Hidden(board, Vec::new()),
        };
        Ok(())
    }

    /// Hidden members have no position in the order: they are listed by their names.
    async fn hidden(
        &mut self,
        board: CounterId,
        after: Vec<u8>,
        text: &mut String,
    ) -> Result<(), Fault> {
        let reading = BoardReader::new(&self.host, &board);
        let answer = reading.ask(BoardQuestion::Hidden(after, LIST_LIMIT.1));
        let mut last = None;
        if let BoardAnswer::Seen(seen) = answer.await? {
            member_lines(text, &board, &seen.rows);
            last = seen.rows.into_iter().next_back().filter(|_| seen.has_more);
        }
        self.at = match last {
            Some(last) => At::Hidden(board, last.member),
            None => At::Boards(Some(board.as_str().to_owned())),
        };
        Ok(())
    }
}
