//! `POST /import`: imports the lines of an export.
//!
//! Invariants: a line is read completely before it changes anything, and refused by itself. Under an `Idempotency-Key`
//! each line is imported once for any number of repeats. Lines of counters are imported [`LINES_AT_ONCE`] at a time,
//! all others in their order.

use super::import_lines::{LINES_AT_ONCE, Lines};
use super::import_members::Members;
use std::collections::BTreeMap;

use crate::bulk::reports::BulkReports;
use crate::deployment::alerts;
use crate::kit::body::BulkBody;
use crate::kit::request_context::RequestContext;
use crate::kit::request_key::RequestKey;
use crate::kit::respond::Answer;
use crate::limits::override_calls::stored_or;
use crate::limits::policies;
use tally_api::access::Caller;
use tally_api::alerts::body::parse_alert;
use tally_api::batch::budget::CallBudget;
use tally_api::batch::plan::body_calls_max;
use tally_api::boards::problem_of;
use tally_api::bodies::PIECE_MS_MAX;
use tally_api::export::{
    Checksum, CounterLine, ExportEnd, ImportMode, LINE_BYTES_MAX, Line, Report, import_mode,
    name_of, parse_line,
};
use tally_api::idempotency_keys::fingerprint;
use tally_api::limits::{parse_override, parse_policy};
use tally_api::query::Query;
use tally_core::counter::ledger::WriteKey;
use tally_shared::call;
use tally_shared::concurrency::all_settled;
use tally_wire::alerts::Secret;
use tally_wire::alerts::webhook::Allowed;
use tally_wire::messages::{
    AlertPutOutcome, BoardWritten, GetAlert, GetPolicy, ListFrom, ListOverrides, OperationKey,
    PolicyPut, PutAlert, PutOverride, PutPolicy,
};
use tally_wire::names::alert::AlertName;
use tally_wire::names::override_pattern::OverridePattern;
use tally_wire::names::policy::PolicyName;
use tally_wire::names::{ALERTS_ALLOW, BODY_PIECE_MS, SUBREQUESTS, limit_right};
use tally_wire::problem::{Code, Problem};
use tally_wire::rights::Scope;

/// The most attempts of a step without an answer: it has a key, so it is done once.
pub(super) const STEP_TRIES: u32 = 3;
pub(super) const STEP_AGAIN_MS: u64 = 300;

/// `POST /import`
///
/// # Errors
/// `invalid-query`, `invalid-json` for an empty body, `body-too-large`, `body-too-slow`, `invalid-gzip`,
/// `unsupported-encoding`, `invalid-idempotency-key`.
#[cfg_attr(
    not(feature = "exports"),
    expect(dead_code, reason = "repairs read the lines of an import")
)]
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
        reports: BulkReports::begin(&context.host),
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

/// What names the steps of an import under the key of its request.
#[derive(Clone)]
pub(super) struct StepKeys {
    pub(super) key: RequestKey,
    /// What the key is of, besides its call.
    pub(super) within: String,
}

pub(super) struct Import<'a> {
    pub(super) context: &'a RequestContext,
    /// The caller. Its right to administer all counters was checked before. Other rights are checked for each line.
    caller: Caller,
    pub(super) mode: ImportMode,
    pub(super) keys: Option<StepKeys>,
    pub(super) now_ms: i64,
    pub(super) report: Report,
    pub(super) members: Option<Members>,
    /// Whether all counters and members had been imported before under the key; `None` where there are none.
    is_replay: Option<bool>,
    /// The checksum that the last line is compared with.
    checksum: Checksum,
    counter_lines: u64,
    /// The leads that report at the end of the body.
    pub(super) reports: BulkReports,
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
            reports: BulkReports::apart(&context.host),
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
        self.reports.send(self.context, &calls).await;
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

    pub(super) fn record_replay(&mut self, was_done: bool) {
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
            Line::Override(policy, pattern, body) => {
                let stored = self.put_override(&policy, &pattern, &body).await;
                self.report.overrides += u64::from(stored.is_ok());
                stored.map_err(|problem| (Some(format!("{policy}/overrides/{pattern}")), problem))
            }
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

    /// Whether a policy, an override or an alert that exists stays as it is.
    ///
    /// # Errors
    /// `already-exists`, if it is another one and only new ones are taken.
    fn stays(&self, what: &str, is_other: bool) -> Result<bool, Problem> {
        match self.mode {
            ImportMode::Create if is_other => Err(exists(what)),
            ImportMode::Create | ImportMode::Replace => Ok(false),
            ImportMode::Add => Ok(true),
        }
    }

    async fn policy(&self, number: u64, name: &str, body: &str) -> Result<(), Problem> {
        let once = self.put_key(number, name, body);
        let name = PolicyName::parse(name)?;
        let policy = parse_policy(body.as_bytes())?;
        self.caller
            .may_limit(Scope::Admin, &limit_right(&name, None))?;
        let host = &self.context.host;
        if self.mode != ImportMode::Replace {
            let get = GetPolicy {
                name: name.clone(),
                known: None,
            };
            let known = call(host, &get).await?;
            if let Some(known) = known
                && self.stays("policy", known.policy != policy)?
            {
                return Ok(());
            }
        }
        let put = PutPolicy {
            name: name.clone(),
            policy,
            once,
            gift: self.caller.limit_gift(),
        };
        let put = call(host, &put).await?;
        if matches!(put, PolicyPut::Full | PolicyPut::PartFull) {
            let detail = "delete a policy that is not used";
            return Err(Problem::new(Code::TooManyPolicies, detail));
        }
        policies::changed(host, &name);
        Ok(())
    }

    /// Stores an override of a policy that exists. An export has the policy before its overrides.
    async fn put_override(&self, name: &str, pattern: &str, body: &str) -> Result<(), Problem> {
        let name = PolicyName::parse(name)?;
        let pattern = OverridePattern::parse(pattern)?;
        self.caller
            .may_limit(Scope::Admin, &limit_right(&name, None))?;
        let host = &self.context.host;
        let list = ListOverrides {
            policy: name.clone(),
            from: ListFrom::Only(pattern.clone()),
            limit: 1,
        };
        let listed = call(host, &list).await?;
        let listed = listed.ok_or_else(|| policies::not_found(&name))?;
        // What has ended since the export is taken all the same, and is in effect for nobody.
        let over = parse_override(body.as_bytes(), &listed.policy, i64::MIN)?;
        if let Some((_, known)) = listed.overrides.first()
            && self.stays("override", *known != over)?
        {
            return Ok(());
        }
        let put = PutOverride {
            policy: name.clone(),
            pattern,
            over,
            gift: self.caller.limit_gift(),
        };
        stored_or(call(host, &put).await?, &name)?;
        policies::changed(host, &name);
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
        if let Some(over) = &over
            && self.stays("alert", *over != put.alert)?
        {
            return Ok(());
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
}

pub(super) fn ended() -> Problem {
    problem_of(&BoardWritten::Ended).unwrap_or_else(|| exists("board"))
}

pub(super) fn exists(what: &str) -> Problem {
    let detail = format!("there is another {what} of that name; nothing was changed");
    Problem::new(Code::AlreadyExists, detail)
}
