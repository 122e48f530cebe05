//! Reading of a bulk body: section by section, each summed per counter as it streams, and counted before the next is
//! read.
//!
//! Invariants: a body of one section is counted only after all of it has been read. If a later section cannot be read,
//! the answer names the line up to which the body was counted.

use std::rc::Rc;

use super::counting::{self, Counting, Section};
use super::records::Records;
use crate::boards::lines::BoardLines;
use crate::deployment::key_budget;
use crate::kit::body::{self, BulkBody};
use crate::kit::hash_keys::{Hashing, known_salt};
use crate::kit::isolate::{BulkMemory, BulkStage, known_of};
use crate::kit::request_context::RequestContext;
use tally_api::access::{Caller, Permission};
use tally_api::batch::BulkRecord;
use tally_api::batch::by::Actor;
use tally_api::batch::gather::{BatchLimits, CLOCK_SKEW_MS, Gatherer};
use tally_api::batch::hashes::Hashes;
use tally_api::batch::keyed_writes::BodyKey;
use tally_api::batch::report::BatchReport;
use tally_api::batch::sections::{SECTION_BYTES_MAX, Sections, board_line_bytes};
use tally_api::batch::split::Splitter;
use tally_api::boards::parse_board_line;
use tally_api::bodies::reading_bytes;
use tally_api::idempotency_keys::BodyHash;
use tally_core::counter::id::CounterId;
use tally_core::isolate::wave::Stage;
use tally_core::sketch::{HashKey, hash};
use tally_host::Host;
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;
use tally_wire::visitor::{day_of, visitor};

/// The hash keys of a body.
pub struct BulkHashes {
    /// Elements.
    pub elements: Hashing,
    /// Missing while the directory does not answer: lines with an id or a key are then refused, the rest is counted.
    pub names: Option<Rc<HashKey>>,
}

impl Hashes for BulkHashes {
    fn element(&self, bytes: &[u8]) -> u64 {
        hash(&self.elements.key, bytes)
    }

    fn name(&self, bytes: &[u8]) -> u64 {
        // Nothing that needs a name gets here without the key.
        self.names.as_ref().map_or(0, |names| hash(names, bytes))
    }
}

/// Succeeds where a caller without a key may have this record counted, which is then deducted from its allowance. All
/// other checks come first: a refused record deducts nothing.
fn admit(
    context: &RequestContext,
    caller: &Caller,
    gather: &Gatherer,
    record: &BulkRecord<'_>,
    needs: &[Permission],
    now_ms: i64,
) -> Result<(), Problem> {
    let needs = match (record.at_ms, record.ttl_if_new) {
        (Some(_), None) if needs.is_empty() => &[Permission::At][..],
        (None, Some(_)) => &[Permission::Ttl],
        (Some(_), Some(_)) => &[Permission::At, Permission::Ttl],
        _ => needs,
    };
    caller.may_write(&record.key, record.delta, needs)?;
    gather.check(record, now_ms)?;
    context.visitor().admit(&record.key)
}

/// Adds one record of a body to its sums.
fn take(
    host: &Host,
    gather: &mut Gatherer,
    line: u64,
    (record, by): &(BulkRecord<'_>, Actor<'_>),
    now_ms: i64,
    keys: &BulkHashes,
) -> Result<(), Problem> {
    if by.is_ignored(|| None) {
        gather.ignore_bot();
        return Ok(());
    }
    if record.id.is_some() && keys.names.is_none() {
        let detail = "ids cannot be looked up now; nothing of this line was counted, try again";
        return Err(Problem::new(Code::Unavailable, detail));
    }
    if !by.is_auto {
        gather.add(line, record, now_ms, keys);
        return Ok(());
    }
    // A retry belongs to the day in its time; after the salt of that day is deleted, to today.
    let today = day_of(now_ms);
    let day = record.at_ms.map_or(today, day_of);
    let salt = known_salt(host, day).or_else(|| known_salt(host, today));
    let (Some(salt), Some(address)) = (salt, by.address) else {
        let detail =
            "visitors cannot be identified now; nothing of this line was counted, try again";
        return Err(Problem::new(Code::Unavailable, detail));
    };
    let element = visitor(salt, address, by.user_agent.as_deref().unwrap_or_default());
    gather.add_as(line, record, Some(&element), now_ms, keys);
    Ok(())
}

/// A body that is being read.
pub struct BulkReader<'a> {
    context: &'a RequestContext,
    caller: &'a Caller,
    records: Records,
    keys: BulkHashes,
    /// For a body with a key: the hash of all of it, and its sections.
    body_key: Option<(BodyHash, Sections)>,
    gather: Gatherer,
    /// Writes to boards, and their approximate size.
    boards: BoardLines,
    boards_bytes: u64,
    /// Records of the section, for the budget of a key.
    records_taken: u64,
    /// Whether the one that the request has taken from that budget is for the next record.
    is_prepaid: bool,
    now_ms: i64,
    /// Sections that have ended and are not counted yet, oldest first.
    ended: Vec<Section>,
    memory: BulkMemory,
    reading_bytes: u64,
    /// The memory of the ended sections.
    ended_bytes: u64,
    /// The most memory that a body with a key has used: its next section needs as much, and may not end before it is
    /// full.
    held_bytes: u64,
    /// The last line that was taken.
    line: u64,
    /// The first line that is in no counted section.
    counted_before: u64,
    /// Whether everything counted had been counted before; `None` while nothing was counted.
    is_replay: Option<bool>,
}

impl<'a> BulkReader<'a> {
    /// A reader that has read nothing yet.
    ///
    /// # Errors
    /// `overloaded` where too many bodies are being read.
    pub fn new(
        context: &'a RequestContext,
        caller: &'a Caller,
        records: Records,
        keys: BulkHashes,
        body_key: Option<(BodyHash, Sections)>,
    ) -> Result<Self, Problem> {
        let limits = BatchLimits {
            times: records.times(),
            clock_skew_ms: CLOCK_SKEW_MS,
        };
        let host = context.host.clone();
        let hash_of_counter = move |counter: &CounterId| known_of(&host, counter).unique_hash;
        let mut memory = BulkMemory::of(&context.host, context.address().ok());
        let reading_bytes = reading_bytes(body::announced_length(&*context.request));
        memory.hold(reading_bytes)?;
        Ok(Self {
            gather: Gatherer::new(limits, caller.sender(), context.host.random())
                .knowing(hash_of_counter),
            now_ms: context.host.now_ms(),
            boards: BoardLines::new(),
            boards_bytes: 0,
            records_taken: 0,
            is_prepaid: true,
            context,
            caller,
            records,
            keys,
            body_key,
            ended: Vec::new(),
            memory,
            reading_bytes,
            ended_bytes: 0,
            held_bytes: 0,
            line: 0,
            counted_before: 1,
            is_replay: None,
        })
    }

    /// Reads all of it and counts it. Returns the results of its lines, and whether everything counted had been counted
    /// before.
    ///
    /// # Errors
    /// Those of the whole body; `unavailable` where the platform ended the request.
    pub async fn read(
        mut self,
        mut body: BulkBody<'_>,
        counting: Rc<Counting>,
    ) -> Result<(BatchReport, bool), Problem> {
        let mut splitter = self.records.splitter();
        let mut reading = BulkStage::enter(&self.context.host, Stage::Reading);
        loop {
            let read = body.next(|chunk| self.push(&mut splitter, chunk)).await;
            if !read.map_err(|problem| self.cut_short(problem))? {
                break;
            }
            if !self.ended.is_empty() {
                drop(reading);
                self.count_ended(&counting).await?;
                reading = BulkStage::enter(&self.context.host, Stage::Reading);
            }
        }
        let finished = body
            .finish(|chunk| self.push(&mut splitter, chunk))
            .and_then(|()| splitter.finish(|line, record| self.take(line, record)));
        finished.map_err(|problem| self.cut_short(problem))?;
        let hash_of = |name: &[u8]| self.keys.name(name);
        let key = self.body_key.take().map(|(hash, sections)| {
            let of_body = hash.finish(&hash_of);
            sections.finish(&hash_of, of_body)
        });
        drop(reading);
        self.end_section(key, true);
        self.count_ended(&counting).await?;
        let report = std::mem::take(self.gather.report());
        Ok((report, self.is_replay.unwrap_or(false)))
    }

    /// Reads a decoded piece.
    fn push(&mut self, splitter: &mut Splitter, chunk: &[u8]) -> Result<(), Problem> {
        if let Some((body_hash, _)) = &mut self.body_key {
            body_hash.push(&|name| self.keys.name(name), chunk);
        }
        splitter.push(chunk, |line, record| self.take(line, record))?;
        self.hold()
    }

    /// Reserves the memory in use. If others leave no room for more, the section ends here, unless its key determines
    /// the end.
    fn hold(&mut self) -> Result<(), Problem> {
        let held = self.gather.memory_bytes() + self.boards_bytes;
        let mut bytes = self.reading_bytes + held + self.ended_bytes;
        let has_key = self.body_key.is_some();
        if has_key {
            bytes = bytes.max(self.held_bytes);
            self.held_bytes = bytes;
        }
        match self.memory.hold(bytes) {
            Err(problem)
                if problem.code() == Code::Overloaded
                    && !has_key
                    && (self.gather.counters() > 0 || !self.boards.is_empty()) =>
            {
                self.end_section(None, false);
                Ok(())
            }
            held => held,
        }
    }

    /// Takes a record, and ends the section if it is full.
    fn take(&mut self, line: u64, record: Result<&[u8], Problem>) {
        self.line = line;
        let mut ends = None;
        let taken = record.and_then(|bytes| {
            let read = self.records.read(bytes);
            if cfg!(feature = "boards") && read.is_err() && self.records.writes_to_board(bytes) {
                if let Some((_, sections)) = &mut self.body_key {
                    let hash_of = |name: &[u8]| self.keys.name(name);
                    if sections.add_board_record(&hash_of, bytes) {
                        ends = Some(sections.end(&hash_of));
                    }
                }
                return self.take_board(line, bytes);
            }
            if let Some((_, sections)) = &mut self.body_key {
                let hash_of = |name: &[u8]| self.keys.name(name);
                let known = read.as_ref().ok().and_then(Option::as_ref);
                if sections.add_record(&hash_of, bytes, known.map(|(record, _)| record)) {
                    ends = Some(sections.end(&hash_of));
                }
            }
            match read? {
                Some(read) => self.take_read(line, &read),
                None => Ok(()),
            }
        });
        if let Err(problem) = taken {
            self.gather.reject(line, &problem);
        }
        let bytes = self.gather.sums_bytes() + self.boards_bytes;
        let is_full = self.body_key.is_none() && bytes >= SECTION_BYTES_MAX;
        if is_full || ends.is_some() {
            self.end_section(ends, false);
        }
    }

    fn take_read(&mut self, line: u64, read: &(BulkRecord<'_>, Actor<'_>)) -> Result<(), Problem> {
        let (context, caller) = (self.context, self.caller);
        caller.may(Scope::Write, &read.0.key)?;
        if caller.is_public() {
            let needs = self.records.needs();
            admit(context, caller, &self.gather, &read.0, needs, self.now_ms)?;
        }
        let host = &context.host;
        take(host, &mut self.gather, line, read, self.now_ms, &self.keys)?;
        self.records_taken += 1;
        Ok(())
    }

    /// Takes a line that writes to a board.
    fn take_board(&mut self, line: u64, bytes: &[u8]) -> Result<(), Problem> {
        let (board, write) = parse_board_line(bytes, self.now_ms)?;
        self.caller.may(Scope::Write, board.as_str())?;
        if self.caller.is_public() {
            self.caller
                .may_write(board.as_str(), 0, &[Permission::Board])?;
            self.context.visitor().admit(board.as_str())?;
        }
        self.boards_bytes += board_line_bytes(bytes);
        self.records_taken += 1;
        self.boards.entry(board).or_default().push((line, write));
        self.gather.report().accepted += 1;
        Ok(())
    }

    fn end_section(&mut self, key: Option<BodyKey>, is_last: bool) {
        self.ended_bytes += self.gather.sums_bytes() + self.boards_bytes;
        self.boards_bytes = 0;
        let is_first = self.counted_before == 1 && self.ended.is_empty();
        self.ended.push(Section {
            sums: self.gather.take(),
            boards: std::mem::take(&mut self.boards),
            records: std::mem::take(&mut self.records_taken),
            key,
            before: self.line + 1,
            is_whole: is_first && is_last,
        });
    }

    /// Counts the sections that have ended.
    async fn count_ended(&mut self, counting: &Rc<Counting>) -> Result<(), Problem> {
        for section in std::mem::take(&mut self.ended) {
            let (before, is_empty) = (
                section.before,
                section.sums.is_empty() && section.boards.is_empty(),
            );
            let is_first = section.records > 0 && std::mem::take(&mut self.is_prepaid);
            let spent = match is_first {
                true => key_budget::spend_body(self.context, self.caller, section.records).await,
                false => key_budget::spend(self.context, self.caller, section.records).await,
            };
            spent.map_err(|problem| self.cut_short(problem))?;
            let report = std::mem::take(self.gather.report());
            let counting = counting.clone();
            let counted = counting::count_section(self.context, counting, section, report);
            let (report, was_replay) = counted.await?;
            *self.gather.report() = report;
            if !is_empty {
                self.is_replay = Some(self.is_replay.unwrap_or(true) && was_replay);
            }
            self.counted_before = before;
        }
        self.ended_bytes = 0;
        self.now_ms = self.context.host.now_ms();
        // If even the little that is left has no room, the next record is refused.
        let _ = self.hold();
        Ok(())
    }

    /// The problem of a body that cannot be read to its end.
    fn cut_short(&mut self, problem: Problem) -> Problem {
        let line = self.counted_before;
        if line <= 1 {
            return problem;
        }
        let rejected = self.gather.report().rejected_before(line);
        let but = match rejected.is_empty() {
            true => String::new(),
            false => format!(" but for {rejected}"),
        };
        let detail = format!(
            "{}: the lines before line {line} were counted{but}; send it again under the same `Idempotency-Key`, or from line {line} on",
            problem.code().title()
        );
        Problem::new(problem.code(), detail)
    }
}
