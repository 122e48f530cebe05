//! `POST /import`: imports the lines of an export.
//!
//! Invariants: a line is read completely before it changes anything, and refused by itself. Under an `Idempotency-Key`
//! each line is imported once for any number of repeats. Lines of counters are imported [`LINES_AT_ONCE`] at a time,
//! all others in their order.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use crate::bulk::reports::BulkReports;
use crate::deployment::alerts;
use crate::kit::body::BulkBody;
use crate::kit::isolate;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use crate::limits::limiters::cache_policy;
use crate::read::cache::with_reads;
use crate::read::last_seen;
use crate::write::administration;
use tally_core::board::member::Amount;
use tally_core::board::settings::ScoreRule;
use tally_core::counter::contents::Contents;
use tally_core::counter::flush::Refusal;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::ledger::{KeySource, WriteKey};
use tally_core::counter::total::{Sum, Value};
use tally_core::sketch::Uniques;
use tally_host::Host;
use tally_protocol::access::{Caller, Scope};
use tally_protocol::alerts::AlertName;
use tally_protocol::alerts::body::{Secret, parse_alert};
use tally_protocol::alerts::webhook::Allowed;
use tally_protocol::batch::keyed::CallBudget;
use tally_protocol::batch::plan::body_calls_max;
use tally_protocol::batch::split::BYTE_ORDER_MARK;
use tally_protocol::boards::{
    WRITES_AT_ONCE, parse_member_line, parse_settings as parse_board, problem_of, refusal_of,
};
use tally_protocol::bodies::PIECE_MS_MAX;
use tally_protocol::export::{
    Checksum, CounterLine, ExportEnd, ImportMode, LINE_BYTES_MAX, Line, Report, import_mode,
    name_of, parse_line,
};
use tally_protocol::keys::fingerprint;
use tally_protocol::limits::{PolicyName, parse_policy};
use tally_protocol::messages::{
    AlertPutOutcome, BoardAnswer, BoardConfigured, BoardQuestion, BoardWritten, ConfigureBoard,
    Done, EndBoard, Fault, GetAlert, GetPolicy, IfExists, Install, InstallOutcome, MemberAction,
    MemberWrite, OnceKey, Operate, Operation, OperationKey, PolicyPut, PutAlert, PutPolicy,
    RestoreSource, WriteBoard,
};
use tally_protocol::names::{ALERTS_ALLOW, BODY_PIECE_MS, CellAddress, SUBREQUESTS, limit_right};
use tally_protocol::open_slots::ObjectUser;
use tally_protocol::problem::{Code, Problem};
use tally_protocol::query::Query;
use tally_protocol::shell_limits::OPERATE_MS_MAX;
use tally_shared::boards::{self, BoardReader};
use tally_shared::concurrency::all_settled;
use tally_shared::{call, call_within, open_objects};

/// How many lines are imported at once.
const LINES_AT_ONCE: usize = 64;

/// How many bytes of lines are in memory, without the last line: 64 sketches of 64 KB.
const HELD_BYTES_MAX: usize = 4 << 20;

/// The most attempts of a step without an answer: it has a key, so it is done once.
const STEP_TRIES: u32 = 3;
const STEP_AGAIN_MS: u64 = 300;

/// The number of empty writes that record that an import has made a board.
const CLAIM_WRITES: usize = 2;

/// `POST /import`
///
/// # Errors
/// `invalid-query`, `invalid-json` for an empty body, `body-too-large`, `body-too-slow`, `invalid-gzip`,
/// `unsupported-encoding`, `invalid-idempotency-key`.
pub async fn import(context: &RequestContext, caller: &Caller) -> Result<Answer, Problem> {
    let query = Query::parse(context.query(), &["mode"])?;
    let mode = import_mode(query.get("mode"))?;
    let key = RequestKey::of(context, caller).await?;
    let mut import = Import {
        context,
        caller: caller.clone(),
        mode,
        keys: key.map(|key| StepKeys {
            key,
            within: String::new(),
        }),
        now_ms: context.host.now_ms(),
        report: Report::default(),
        members: None,
        is_replay: None,
        checksum: Checksum::default(),
        counter_lines: 0,
        reports: BulkReports::default(),
    };
    let piece_ms = context.host.number(BODY_PIECE_MS).unwrap_or(PIECE_MS_MAX);
    let mut body = BulkBody::open(context, piece_ms)?;
    let mut lines = Lines::default();
    let _waiting = context.waiting();
    loop {
        let more = body.next(|bytes| lines.push(bytes)).await;
        let more = match more {
            Ok(more) => more,
            Err(problem) => return Err(import.cut_short(&lines, problem).await),
        };
        import.bring_back_some(&mut lines, false).await;
        if !more {
            break;
        }
    }
    if let Err(problem) = body.finish(|bytes| lines.push(bytes)) {
        return Err(import.cut_short(&lines, problem).await);
    }
    lines.finish();
    if lines.number == 0 {
        let detail = "there is none: send the lines of an export";
        return Err(Problem::new(Code::InvalidJson, detail));
    }
    import.bring_back_some(&mut lines, true).await;
    import.write_members().await;
    import.report().await;
    if let Some((problem, json)) = import.report.refusal() {
        return Ok(Answer::from(problem).reported(json));
    }
    let answer = Answer::json(import.report.to_json());
    Ok(match import.is_replay {
        Some(true) => answer.replayed(),
        _ => answer,
    })
}

/// The body, cut into lines.
#[derive(Default)]
struct Lines {
    /// The beginning of a line.
    rest: Vec<u8>,
    /// Whether the present line is too long to be stored.
    is_too_long: bool,
    /// Lines with their numbers; `None` for one that was too long.
    whole: VecDeque<(u64, Option<Vec<u8>>)>,
    bytes: usize,
    number: u64,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let mut parts = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            if self.rest.len().saturating_add(part.len()) > LINE_BYTES_MAX {
                self.is_too_long = true;
                self.rest.clear();
            }
            if !self.is_too_long {
                self.rest.extend_from_slice(part);
            }
            if parts.peek().is_some() {
                self.end_line();
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        self.number += 1;
        let mut line = std::mem::take(&mut self.rest);
        if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        // An editor may have written line breaks of two characters.
        line.pop_if(|last| *last == b'\r');
        self.bytes = self.bytes.saturating_add(line.len());
        let is_too_long = std::mem::take(&mut self.is_too_long);
        self.whole
            .push_back((self.number, (!is_too_long).then_some(line)));
    }

    fn finish(&mut self) {
        if !self.rest.is_empty() || self.is_too_long {
            self.end_line();
        }
    }

    /// The number of the first line that is not imported yet.
    fn next_number(&self) -> u64 {
        let first = self.whole.front().map(|(number, _)| *number);
        first.unwrap_or(self.number.saturating_add(1))
    }

    /// The next lines to import: none until there are as many as are imported at once, or the body has ended. The
    /// groups depend on the lines only.
    fn take(&mut self, is_end: bool) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut some = Vec::new();
        let (mut bytes, mut is_full) = (0_usize, false);
        for (_, line) in self.whole.iter().take(LINES_AT_ONCE) {
            if bytes > HELD_BYTES_MAX {
                is_full = true;
                break;
            }
            bytes = bytes.saturating_add(line.as_ref().map_or(0, Vec::len));
            some.push(());
        }
        if some.len() < LINES_AT_ONCE && !is_full && !is_end {
            return Vec::new();
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        self.whole.drain(..some.len()).collect()
    }
}

/// Members of one board that are not written yet, with the numbers of their lines.
struct Members {
    board: CounterId,
    is_refused: bool,
    /// How the board keeps scores, if its line came before.
    keep: Option<ScoreRule>,
    /// The first line of the group that is written at once.
    first: Option<u64>,
    /// The number of writes of the group's lines, including those of expired members, so that a later repeat has the
    /// same groups.
    size: usize,
    /// The hash of the group's lines.
    lines: u64,
    writes: Vec<(u64, MemberWrite)>,
}

impl Members {
    /// An empty group of a board, with its rule for scores if that is known.
    fn of(board: CounterId, keep: Option<ScoreRule>) -> Self {
        Self {
            board,
            is_refused: false,
            keep,
            first: None,
            size: 0,
            lines: 0,
            writes: Vec::new(),
        }
    }
}

/// What names the steps of an import under the key of its request.
#[derive(Clone)]
pub(super) struct StepKeys {
    pub(super) key: RequestKey,
    /// What the key is of, besides its call.
    pub(super) within: String,
}

pub(super) struct Import<'a> {
    context: &'a RequestContext,
    /// The caller. Its right to administer all counters was checked before. Other rights are checked for each line.
    caller: Caller,
    mode: ImportMode,
    keys: Option<StepKeys>,
    now_ms: i64,
    report: Report,
    members: Option<Members>,
    /// Whether all counters and members had been imported before under the key; `None` where there are none.
    is_replay: Option<bool>,
    /// The checksum that the last line is compared with.
    checksum: Checksum,
    counter_lines: u64,
    /// The leads that report at the end of the body.
    reports: BulkReports,
}

impl<'a> Import<'a> {
    /// An import of counters from a snapshot. With a key, each counter is imported once.
    pub(super) fn of_snapshot(
        context: &'a RequestContext,
        mode: ImportMode,
        keys: Option<StepKeys>,
    ) -> Self {
        Self {
            context,
            // A snapshot has counters only.
            caller: Caller::nobody(),
            mode,
            keys,
            now_ms: context.host.now_ms(),
            report: Report::default(),
            members: None,
            is_replay: None,
            checksum: Checksum::default(),
            counter_lines: 0,
            reports: BulkReports::default(),
        }
    }
}

impl Import<'_> {
    async fn bring_back_some(&mut self, lines: &mut Lines, is_end: bool) {
        loop {
            let some = lines.take(is_end);
            if some.is_empty() {
                return;
            }
            self.bring_back(some).await;
        }
    }

    /// The problem of a body that cannot be read to its end.
    async fn cut_short(&mut self, lines: &Lines, problem: Problem) -> Problem {
        let unfinished = self.members.as_ref().and_then(|members| members.first);
        // A key names a group of members by its first line, so half of a group would later count as the whole.
        let unfinished = unfinished.filter(|_| self.keys.is_some());
        if unfinished.is_none() {
            self.write_members().await;
        }
        self.report().await;
        let line = unfinished.unwrap_or_else(|| lines.next_number());
        if line <= 1 {
            return problem;
        }
        let but = match self.report.rejected {
            0 => String::new(),
            rejected => format!(" but for {rejected} that were refused"),
        };
        let detail = format!(
            "{}: the lines before line {line} were imported{but}; send the body again under the same `Idempotency-Key`, or the lines from line {line} on, after the line of their board if they are members",
            problem.code().title()
        );
        Problem::new(problem.code(), detail)
    }

    /// Lets the leads of imported counters report to their roots.
    async fn report(&self) {
        let calls = CallBudget::new(body_calls_max(self.context.host.number(SUBREQUESTS)));
        self.reports.send(&self.context.host, &calls).await;
    }

    /// Compares the last line with those before it.
    fn check_end(&mut self, end: &ExportEnd) {
        let is_same = end.counters == self.counter_lines;
        let checksum = end.checksum.as_ref();
        let is_intact = checksum.is_none_or(|text| *text == self.checksum.text());
        // A second last line belongs to another file.
        let is_only = self.report.is_whole.is_none();
        self.report.is_whole = Some(end.is_whole && is_same && is_intact && is_only);
    }

    async fn bring_back(&mut self, lines: Vec<(u64, Option<Vec<u8>>)>) {
        let mut counters: Vec<(u64, Vec<u8>, Box<CounterLine>)> = Vec::new();
        for (number, line) in lines {
            let Some(line) = line else {
                let detail = format!("a line has at most {LINE_BYTES_MAX} bytes");
                let problem = Problem::new(Code::InvalidLine, detail);
                self.report.lines += 1;
                self.report.is_whole = self.report.is_whole.map(|_| false);
                self.report.reject(number, None, problem);
                continue;
            };
            let parsed = match line.trim_ascii() {
                [] => None,
                trimmed => Some(parse_line(trimmed, self.now_ms)),
            };
            if let Some(Ok(Line::End(end))) = &parsed {
                self.check_end(end);
                continue;
            }
            self.checksum.push(&line);
            self.checksum.push(b"\n");
            let Some(parsed) = parsed else { continue };
            self.report.lines += 1;
            // A line after the last one means that the file is not whole.
            self.report.is_whole = self.report.is_whole.map(|_| false);
            match parsed {
                Ok(Line::Counter(counter)) => {
                    self.write_members().await;
                    self.counter_lines += 1;
                    // Lines of one counter are imported one after the other.
                    if counters.iter().any(|(_, _, other)| other.id == counter.id) {
                        self.bring_counters(std::mem::take(&mut counters)).await;
                    }
                    counters.push((number, line, counter));
                }
                Ok(other) => {
                    self.bring_counters(std::mem::take(&mut counters)).await;
                    self.bring_other(number, other).await;
                }
                Err(problem) => {
                    let (name, is_counter) = name_of(&line);
                    self.counter_lines += u64::from(is_counter);
                    self.report.reject(number, name, problem);
                }
            }
        }
        self.bring_counters(counters).await;
    }

    async fn bring_counters(&mut self, counters: Vec<(u64, Vec<u8>, Box<CounterLine>)>) {
        let this = &*self;
        let bring = |(number, line, counter): (u64, Vec<u8>, Box<CounterLine>)| async move {
            let id = counter.id.as_str().to_owned();
            (number, id, this.counter(number, &line, *counter).await)
        };
        let brought = all_settled(counters.into_iter().map(bring), LINES_AT_ONCE).await;
        let mut in_order = BTreeMap::new();
        for (number, id, outcome) in brought {
            in_order.insert(number, (id, outcome));
        }
        for (number, (id, outcome)) in in_order {
            match outcome {
                Ok(was_done) => {
                    self.report.counters += 1;
                    self.record_replay(was_done);
                }
                Err(problem) => self.report.reject(number, Some(id), problem),
            }
        }
    }

    fn record_replay(&mut self, was_done: bool) {
        self.is_replay = Some(self.is_replay.unwrap_or(true) && was_done);
    }

    /// The name of one step of a line.
    pub(super) fn step_key(&self, id: &str, step: &str, line: &[u8]) -> OperationKey {
        let Some(StepKeys { key, within }) = &self.keys else {
            // No other caller can send a step under a key that was drawn here.
            return OperationKey {
                key: self.context.host.random_key(),
                fingerprint: 0,
                account: self.context.account(),
            };
        };
        let before = ["import/", step, "/", within].concat();
        OperationKey {
            account: self.context.account(),
            key: key.step_name(&before, &["/", id].concat()),
            fingerprint: fingerprint(
                &|bytes| key.hash(bytes),
                &[step.as_bytes(), self.mode.name().as_bytes(), line],
            ),
        }
    }

    /// Imports one counter, by the line with this number: two equal lines of a body are two imports. Returns whether
    /// all of it was done before under the key.
    pub(super) async fn counter(
        &self,
        number: u64,
        line: &[u8],
        counter: CounterLine,
    ) -> Result<bool, Problem> {
        let host = &self.context.host;
        if self.mode != ImportMode::Add && has_other_hash(&counter) {
            return Err(other_hash());
        }
        let CounterLine {
            id,
            settings,
            ttl_set_at_ms,
            created_at_ms,
            base,
            datacenters,
            uniques,
        } = counter;
        let here = self.context.datacenter();
        let back = RestoreSource {
            if_there: match self.mode {
                ImportMode::Create => IfExists::Refuse,
                ImportMode::Replace => IfExists::Replace,
                ImportMode::Add => IfExists::Keep,
            },
            settings: settings.clone(),
            ttl_set_at_ms,
            created_at_ms,
            base,
        };
        let key = |step: &str| self.step_key(id.as_str(), &format!("{number}/{step}"), line);
        let done = self.operate(&id, back, key("begin")).await?;
        forget(host, &id);
        let mut was_done = done.is_repeat;
        let mut parts = datacenters;
        if !uniques.is_empty() {
            add_to_first(&mut parts, &here, |first| {
                first.uniques.merge(&uniques);
            });
        }
        // The value of an existing counter is not set: the set value in the line is added.
        if let Some(base) = base.filter(|_| !done.created && self.mode == ImportMode::Add) {
            add_base(&mut parts, &here, base);
        }
        for (datacenter, contents) in parts {
            let step = ["install/", datacenter.as_str()].concat();
            let to = (&id, done.generation);
            was_done &= self.install(to, datacenter, contents, key(&step)).await?;
        }
        let has_home_or_floor = settings.home.is_some() || settings.floor.is_some();
        if has_home_or_floor && (done.created || self.mode == ImportMode::Replace) {
            let back = RestoreSource {
                if_there: IfExists::PutSettings,
                settings,
                ttl_set_at_ms,
                created_at_ms: None,
                base: None,
            };
            was_done &= self.operate(&id, back, key("settings")).await?.is_repeat;
        }
        forget(host, &id);
        Ok(was_done)
    }

    pub(super) async fn operate(
        &self,
        id: &CounterId,
        back: RestoreSource,
        key: OperationKey,
    ) -> Result<Done, Problem> {
        let operate = Operate {
            counter: id.clone(),
            datacenter: self.context.datacenter(),
            operation: Operation::BringBack(Box::new(back)),
            key: Some(key),
            condition: None,
        };
        let mut tries = 1;
        loop {
            match call_within(&self.context.host, &operate, OPERATE_MS_MAX).await {
                Err(Fault::Unavailable(_)) if tries < STEP_TRIES => {
                    tries += 1;
                    self.context.host.sleep_ms(STEP_AGAIN_MS).await;
                }
                operated => {
                    let done = administration::done_of(id, operated?)?;
                    let broken = |_| Problem::new(Code::Internal, "an import has no kept answer");
                    return done.map_err(broken);
                }
            }
        }
    }

    /// Writes contents into the lead of a counter's generation. Returns whether that was done before under the key.
    pub(super) async fn install(
        &self,
        (id, generation): (&CounterId, u64),
        datacenter: Datacenter,
        contents: Contents,
        key: OperationKey,
    ) -> Result<bool, Problem> {
        let host = &self.context.host;
        let mut install = Install {
            to: CellAddress::lead(id, &datacenter),
            generation,
            key,
            contents,
        };
        let mut tries = 1;
        loop {
            let room_ms = host.now_ms().saturating_add_unsigned(OPERATE_MS_MAX);
            let outcome =
                match open_objects::room(host, &install.to, ObjectUser::Change, room_ms).await {
                    Ok(()) => call(host, &install).await,
                    Err(fault) => Err(fault),
                };
            return match outcome {
                Ok(InstallOutcome::Done) => {
                    self.reports.add(id, &install.to.datacenter);
                    Ok(false)
                }
                Ok(InstallOutcome::Replayed) => Ok(true),
                Ok(InstallOutcome::Reused) => Err(Problem::new(
                    Code::IdempotencyKeyReused,
                    "this key was used for another line about this counter; send another key with another file",
                )),
                Ok(InstallOutcome::Full) => Err(Problem::new(
                    Code::Overloaded,
                    "too many keys are remembered here; try again later",
                )),
                Ok(InstallOutcome::Ended) => Err(Problem::new(
                    Code::CounterEnded,
                    "the counter was deleted while it was brought back",
                )),
                Err(Fault::Refused(Refusal::HasFloor)) => Err(Problem::new(
                    Code::BelowFloor,
                    "the value would fall below the counter's floor; parts of other datacenters may have been added",
                )),
                Err(Fault::Refused(Refusal::OtherHash(_))) => Err(other_hash()),
                // If all writes of a counter go to a home elsewhere, added contents go there too.
                Err(Fault::Elsewhere(home)) if home != install.to.datacenter => {
                    install.to = CellAddress::lead(id, &home);
                    continue;
                }
                Err(Fault::Unavailable(_)) if tries < STEP_TRIES => {
                    tries += 1;
                    host.sleep_ms(STEP_AGAIN_MS).await;
                    continue;
                }
                Err(fault) => Err(Problem::from(fault)),
            };
        }
    }

    async fn bring_other(&mut self, number: u64, line: Line) {
        if !matches!(line, Line::Member(..)) {
            self.write_members().await;
        }
        let outcome = match line {
            Line::Counter(_) | Line::End(_) => return,
            Line::Policy(name, body) => match self.policy(number, &name, &body).await {
                Ok(()) => {
                    self.report.policies += 1;
                    Ok(())
                }
                Err(problem) => Err((Some(name), problem)),
            },
            Line::Alert(name, body) => match self.alert(number, &name, &body).await {
                Ok(()) => {
                    self.report.alerts += 1;
                    Ok(())
                }
                Err(problem) => Err((Some(name), problem)),
            },
            Line::Board(board, settings) => {
                let configured = self.board(&board, &settings).await;
                let name = board.as_str().to_owned();
                self.members = Some(Members {
                    is_refused: configured.is_err(),
                    ..Members::of(board, configured.as_ref().ok().copied())
                });
                self.report.boards += u64::from(configured.is_ok());
                configured
                    .map(|_| ())
                    .map_err(|problem| (Some(name), problem))
            }
            Line::Member(board, line) => {
                let name = board.as_str().to_owned();
                let added = self.add_member(number, board, &line).await;
                added.map_err(|problem| (Some(name), problem))
            }
        };
        if let Err((name, problem)) = outcome {
            self.report.reject(number, name, problem);
        }
    }

    /// The key of a line that is stored once; `None` without a key.
    fn put_key(&self, number: u64, name: &str, body: &str) -> Option<WriteKey> {
        self.keys.as_ref()?;
        let step = format!("{number}/put/{body}");
        Some(self.step_key(name, &step, &[]).key)
    }

    async fn policy(&self, number: u64, name: &str, body: &str) -> Result<(), Problem> {
        let once = self.put_key(number, name, body);
        let name = PolicyName::parse(name)?;
        let policy = parse_policy(body.as_bytes())?;
        self.caller
            .may_limit(Scope::Admin, &limit_right(&name, None))?;
        let host = &self.context.host;
        if self.mode == ImportMode::Create {
            let known = call(host, &GetPolicy { name: name.clone() }).await?;
            if known.is_some_and(|known| known != policy) {
                return Err(exists("policy"));
            }
        }
        let put = PutPolicy {
            name: name.clone(),
            policy: policy.clone(),
            once,
            gift: self.caller.limit_gift(),
        };
        let put = call(host, &put).await?;
        if matches!(put, PolicyPut::Full | PolicyPut::PartFull) {
            let detail = "delete a policy that is not used";
            return Err(Problem::new(Code::TooManyPolicies, detail));
        }
        // After a repeat, another policy may be stored by now.
        let known = once.is_none().then(|| Rc::new(policy));
        cache_policy(host, &name, known);
        Ok(())
    }

    /// Stores an alert. If its line has no secret, it keeps its present one, or gets a random one, and the answer names
    /// the alert.
    async fn alert(&mut self, number: u64, name: &str, body: &str) -> Result<(), Problem> {
        let once = self.put_key(number, name, body);
        let host = &self.context.host;
        let alert = AlertName::parse(name)?;
        let allowed = Allowed::of(host.setting(ALERTS_ALLOW).as_deref());
        let mut put = parse_alert(body.as_bytes(), &allowed)?;
        alerts::may(&self.caller, &put.alert)?;
        let get = GetAlert { name: alert };
        let over = call(host, &get).await?.map(|seen| seen.alert);
        if let Some(over) = &over {
            alerts::may(&self.caller, over)?;
        }
        if over
            .as_ref()
            .is_some_and(|over| *over != put.alert && self.mode == ImportMode::Create)
        {
            return Err(exists("alert"));
        }
        if put.secret.is_none() {
            let without = &mut self.report.alerts_without_secret;
            without.push(name.to_owned());
            if over.is_none() {
                put.secret = Some(Secret::random(host.secret()?));
            }
        }
        if once.is_none() && over.as_ref() == Some(&put.alert) && put.secret.is_none() {
            return Ok(());
        }
        let put = PutAlert {
            name: get.name,
            put,
            over,
            once,
            gift: self.caller.gift(),
        };
        match call(host, &put).await? {
            AlertPutOutcome::Created(_) | AlertPutOutcome::Replaced(_) => Ok(()),
            AlertPutOutcome::Full => {
                let detail = "delete an alert that is not needed any more";
                Err(Problem::new(Code::TooManyAlerts, detail))
            }
            AlertPutOutcome::PartFull => Err(alerts::part_full()),
            AlertPutOutcome::NeedsSecret | AlertPutOutcome::Changed => {
                let detail = "another request changed the alert at the same time; try again";
                Err(Problem::new(Code::Unavailable, detail))
            }
        }
    }

    /// Creates a board; returns how it keeps scores.
    async fn board(&self, board: &CounterId, settings: &str) -> Result<ScoreRule, Problem> {
        let host = &self.context.host;
        let (settings, placing) = parse_board(settings.as_bytes())?;
        let reading = BoardReader::new(host, board);
        let known = match reading.ask(BoardQuestion::About).await? {
            BoardAnswer::Seen(seen) => Some(seen),
            _ => None,
        };
        let mode = self.mode.name();
        match (known, self.mode) {
            (Some(seen), ImportMode::Create) => {
                let may_be_own = seen.settings == settings && self.keys.is_some();
                let is_empty = seen.period.total == 0;
                if !may_be_own || self.claim(board, mode, is_empty).await? != BoardClaim::Own {
                    return Err(exists("board"));
                }
                return Ok(seen.settings.keep);
            }
            (Some(seen), ImportMode::Add) => {
                self.claim(board, mode, false).await?;
                return Ok(seen.settings.keep);
            }
            (Some(seen), ImportMode::Replace) => {
                if self.claim(board, mode, false).await? != BoardClaim::Foreign {
                    return Ok(seen.settings.keep);
                }
                self.end_board(board, seen.generation).await?;
            }
            (None, _) => {}
        }
        let configure = ConfigureBoard {
            board: board.clone(),
            settings,
            placing,
            here: self.context.datacenter(),
        };
        let (made, is_new) = match call(host, &configure).await? {
            BoardConfigured::Done(made, is_new) => (made, is_new),
            BoardConfigured::Fixed => return Err(exists("board")),
        };
        // Another caller, or another attempt of this import, may have made the board since it was looked up.
        let is_own = is_new || made.period.total == 0;
        let mut claim = self.claim(board, mode, is_own).await?;
        if self.mode == ImportMode::Replace {
            // The first claim was made to the deleted board too.
            claim = self.claim(board, "replaced", is_own).await?;
        }
        match claim {
            BoardClaim::Ended => {
                if is_new {
                    self.end_board(board, made.generation).await?;
                }
                Err(ended())
            }
            BoardClaim::Foreign if !is_new && self.mode != ImportMode::Add => Err(exists("board")),
            BoardClaim::Own | BoardClaim::Foreign => Ok(settings.keep),
        }
    }

    /// Deletes a board of this generation, not a later one of its name.
    async fn end_board(&self, board: &CounterId, generation: u64) -> Result<bool, Fault> {
        let end = EndBoard {
            board: board.clone(),
            generation: Some(generation),
        };
        call(&self.context.host, &end).await
    }

    /// Whether this import has made a board under its key before. The record of that is an empty write, to the member
    /// with an empty name, which no board has. An import that has made the board, or finds it without members, sends
    /// two such writes at once. An import that only looks sends one.
    async fn claim(
        &self,
        board: &CounterId,
        step: &str,
        is_own: bool,
    ) -> Result<BoardClaim, Problem> {
        let step = ["board/", step].concat();
        let Some(once) = self.once(board.as_str(), &step, &[]) else {
            return Ok(BoardClaim::Foreign);
        };
        let nothing = MemberWrite {
            member: Vec::new(),
            action: MemberAction::Remove,
            condition: None,
        };
        let count = if is_own { CLAIM_WRITES } else { 1 };
        let writes = (vec![nothing; count], Some(once));
        match self.write_board(board, writes).await? {
            BoardWritten::Done(written) | BoardWritten::Replayed(written) => {
                let is_own = u64::try_from(CLAIM_WRITES) == Ok(written.accepted);
                Ok(match is_own {
                    true => BoardClaim::Own,
                    false => BoardClaim::Foreign,
                })
            }
            BoardWritten::Ended => Ok(BoardClaim::Ended),
            other => Err(problem_of(&other).unwrap_or_else(|| exists("board"))),
        }
    }

    /// The key of a step for a board, and of the lines that it writes; `None` without a key.
    fn once(&self, board: &str, step: &str, lines: &[u8]) -> Option<OnceKey> {
        self.keys.as_ref()?;
        let OperationKey {
            key, fingerprint, ..
        } = self.step_key(board, step, lines);
        Some(OnceKey {
            key,
            fingerprint,
            keys: KeySource::Clients,
        })
    }

    async fn write_board(
        &self,
        board: &CounterId,
        writes: (Vec<MemberWrite>, Option<OnceKey>),
    ) -> Result<BoardWritten, Fault> {
        let host = &self.context.host;
        let send = |write: WriteBoard| -> LocalBoxFuture<'_, Result<BoardWritten, Fault>> {
            Box::pin(async move { call(host, &write).await })
        };
        let here = self.context.datacenter();
        let written = boards::write(host, board, &here, writes, &send).await;
        written.map(|(written, _)| written)
    }

    /// Adds a member to the next write; its board has a line before it.
    async fn add_member(
        &mut self,
        number: u64,
        board: CounterId,
        line: &str,
    ) -> Result<(), Problem> {
        if self
            .members
            .as_ref()
            .is_some_and(|members| members.board != board)
        {
            self.write_members().await;
            self.members = None;
        }
        let (writes, is_expired) = parse_member_line(line.as_bytes(), self.now_ms)?;
        let keys = self.keys.as_ref().map(|keys| &keys.key);
        let hash_after = |before: u64| {
            let parts = [&before.to_le_bytes()[..], line.as_bytes()];
            keys.map_or(0, |key| fingerprint(&|bytes| key.hash(bytes), &parts))
        };
        if self.members.is_none() && self.mode == ImportMode::Create {
            let detail = "the line of its board must come before it in the same body; to add members to an existing board, send mode=add";
            return Err(Problem::new(Code::InvalidLine, detail));
        }
        let members = self.members.get_or_insert_with(|| Members::of(board, None));
        if members.is_refused {
            return Err(Problem::new(Code::InvalidLine, "its board was refused"));
        }
        members.first.get_or_insert(number);
        members.lines = hash_after(members.lines);
        members.size += writes.len();
        if !is_expired {
            let writes = writes.into_iter().map(|write| (number, write));
            members.writes.extend(writes);
        }
        if members.size >= WRITES_AT_ONCE {
            self.write_members().await;
        }
        Ok(())
    }

    /// How a board keeps scores: by its line, or by its settings if that line was in another body.
    async fn keep_of(
        &self,
        board: &CounterId,
        known: Option<ScoreRule>,
    ) -> Result<ScoreRule, Fault> {
        if let Some(keep) = known {
            return Ok(keep);
        }
        let reading = BoardReader::new(&self.context.host, board);
        Ok(match reading.ask(BoardQuestion::About).await? {
            BoardAnswer::Seen(seen) => seen.settings.keep,
            _ => ScoreRule::default(),
        })
    }

    /// Turns scores into amounts for a board that keeps sums: a new member begins with its score, once; otherwise the
    /// score is added.
    fn sum_up(&self, keep: ScoreRule, writes: &mut [MemberWrite]) {
        if keep != ScoreRule::Sum {
            return;
        }
        for write in writes {
            let MemberAction::Put(put) = &mut write.action else {
                continue;
            };
            if let Amount::Score(score) = put.amount {
                put.amount = Amount::Delta(score);
                put.exists = (self.mode != ImportMode::Add).then_some(false);
            }
        }
    }

    /// Writes the members that were added.
    async fn write_members(&mut self) {
        let Some(members) = &mut self.members else {
            return;
        };
        let (board, known) = (members.board.clone(), members.keep);
        let pending = std::mem::take(&mut members.writes);
        members.size = 0;
        let Some(first) = members.first.take().filter(|_| !pending.is_empty()) else {
            return;
        };
        let name = board.as_str().to_owned();
        let lines = std::mem::take(&mut members.lines).to_le_bytes();
        let once = self.once(&name, &format!("members/{first}"), &lines);
        let (numbers, mut writes): (Vec<u64>, Vec<MemberWrite>) = pending.into_iter().unzip();
        let puts = writes
            .iter()
            .filter(|write| matches!(write.action, MemberAction::Put(_)));
        let puts = u64::try_from(puts.count()).unwrap_or(u64::MAX);
        let sent = match self.keep_of(&board, known).await {
            Ok(keep) => {
                self.sum_up(keep, &mut writes);
                self.write_board(&board, (writes, once)).await
            }
            Err(fault) => Err(fault),
        };
        let reject_all = |report: &mut Report, problem: &Problem| {
            for number in &numbers {
                report.reject(*number, Some(name.clone()), problem.clone());
            }
        };
        if let Ok(BoardWritten::Done(_) | BoardWritten::Replayed(_)) = sent {
            self.record_replay(matches!(sent, Ok(BoardWritten::Replayed(_))));
        }
        match sent {
            Ok(BoardWritten::Done(written) | BoardWritten::Replayed(written)) => {
                let refused = u64::try_from(written.refused.len()).unwrap_or(u64::MAX);
                self.report.members += puts.saturating_sub(refused);
                for (index, refusal) in written.refused {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    if let Some(number) = numbers.get(index) {
                        let problem = refusal_of(refusal);
                        self.report.reject(*number, Some(name.clone()), problem);
                    }
                }
            }
            Ok(other) => {
                let problem = problem_of(&other).unwrap_or_else(|| exists("board"));
                reject_all(&mut self.report, &problem);
            }
            Err(fault) => reject_all(&mut self.report, &Problem::from(fault)),
        }
    }
}

/// The maker of an existing board.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BoardClaim {
    /// This import, under its key.
    Own,
    /// Another caller, as far as is known.
    Foreign,
    /// The board that this import made has ended since.
    Ended,
}

fn ended() -> Problem {
    problem_of(&BoardWritten::Ended).unwrap_or_else(|| exists("board"))
}

/// Whether a line has sketches of a hash function that its settings do not allow.
fn has_other_hash(line: &CounterLine) -> bool {
    let own = line.settings.unique_hash.unwrap_or_default();
    let parts = line.datacenters.iter().map(|(_, part)| &part.uniques);
    let mut all = parts.chain([&line.uniques]);
    all.any(|sketches: &Uniques| sketches.hashes().iter().any(|hash| !own.takes(*hash)))
}

fn other_hash() -> Problem {
    let detail = "its sketches are of another `unique_hash` than the counter; bring them to a counter of theirs";
    Problem::new(Code::HashMismatch, detail)
}

fn exists(what: &str) -> Problem {
    let detail = format!("there is another {what} of that name; nothing was changed");
    Problem::new(Code::AlreadyExists, detail)
}

/// Adds to the contents of the first datacenter; to the client's where there is none.
fn add_to_first(
    parts: &mut Vec<(Datacenter, Contents)>,
    here: &Datacenter,
    add: impl FnOnce(&mut Contents),
) {
    if parts.is_empty() {
        parts.push((here.clone(), Contents::default()));
    }
    if let Some((_, first)) = parts.first_mut() {
        add(first);
    }
}

/// Adds what a counter was set to, as increments and decrements of a datacenter.
fn add_base(parts: &mut Vec<(Datacenter, Contents)>, here: &Datacenter, base: Value) {
    let more = base.not_negative().unwrap_or(Sum::ZERO);
    let less = base.negated().not_negative().unwrap_or(Sum::ZERO);
    add_to_first(parts, here, |first| {
        first.added = first.added.plus(more);
        first.removed = first.removed.plus(less);
    });
    for (_, part) in parts {
        // The rest of its breakdowns was counted before the set, and does not count any more.
        let sums = part
            .breakdowns
            .iter()
            .map(|(_, values)| values.sum().into());
        let held = sums.fold(part.added, Sum::max);
        part.removed = part.removed.plus(held.minus(part.added));
        part.added = held;
    }
}

/// Drops this isolate's cached state of a counter.
pub(super) fn forget(host: &Host, id: &CounterId) {
    with_reads(host, |reads| reads.forget(id));
    last_seen::forget(host, id);
    isolate::forget_home(host, id);
}
