//! What other counters hold, as bodies of `POST /import`: from Redis, from lists, and from exports of Tally itself.
//!
//! Invariant: each line is brought in once: what is there already stays (`create`), or becomes the same once more
//! (`replace`). With `add` a repeat is told by the key of its body, for as long as keys are kept. A board of more
//! members than a body has lines goes on in bodies of its own, behind its line once more: they add to what the first of
//! them has begun. That one begins with its line, so that no other board's refusal is taken for its own.

use std::collections::VecDeque;

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tally_logs::json::Text;
use tally_logs::text::BYTE_ORDER_MARK;

use crate::export_file::ExportFile;
use crate::host::{Failure, ImportHost};
use crate::import::no_lines;
use crate::list::{OtherCounters, Unlisted, whole};

/// A body has at most 32 MiB, and a line 4 MiB.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Each counter costs some calls: a body is answered within seconds.
const BODY_LINES_MAX: usize = 1_000;

/// How many lines and keys are shown that were not brought in.
const SHOWN_MAX: usize = 20;

/// A key that has no place in Tally, or that has a member without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftKey {
    /// The key.
    pub id: String,
    /// Why.
    pub why: String,
}

/// What was brought in.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Carried {
    /// Counters.
    pub counters: u64,
    /// Policies.
    pub policies: u64,
    /// Alerts.
    pub alerts: u64,
    /// The names of alerts whose lines have no secret. New ones need one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alerts_without_secret: Vec<String>,
    /// Boards.
    pub boards: u64,
    /// Members of boards.
    pub members: u64,
    /// What was there already.
    pub present: u64,
    /// Lines that were refused.
    pub rejected: u64,
    /// Some of those.
    pub refused: Vec<Box<RawValue>>,
    /// Whether all files were complete; `None` without files.
    pub complete: Option<bool>,
    /// Why they were not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// Keys and members that have no place in Tally.
    pub left_out: u64,
    /// Members among those: their boards are not complete.
    pub left_out_members: u64,
    /// Some of the keys and members.
    pub left_out_keys: Vec<LeftKey>,
}

/// What a Redis says of a key. Bytes are in base64.
#[derive(Clone, Debug, Deserialize)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Its type, by Redis's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// How long it has left, milliseconds; none below 1.
    pub ttl_ms: i64,
    /// What a string holds; `None` if it is gone meanwhile.
    #[serde(default)]
    pub value: Option<String>,
    /// Members of a sorted set, which come in pages, and their scores, in turn; `None` before the first page.
    #[serde(default)]
    pub members: Option<Vec<String>>,
}

/// What a HyperLogLog begins with. Source: Redis, "PFADD".
const HYLL: &[u8] = b"HYLL";

/// How many digits a whole number of a Redis may have.
const DIGITS_MAX: usize = 39;

fn decoded(text: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the settings of a counter that has so long left.
fn settings(ttl_ms: i64, hash: Option<&str>) -> String {
    let ttl =
        (ttl_ms > 0).then(|| format!("\"ttl_seconds\":{}", ttl_ms.saturating_add(999) / 1_000));
    let hash = hash.map(|name| format!("\"unique_hash\":\"{name}\""));
    let all: Vec<String> = hash.into_iter().chain(ttl).collect();
    match all.as_slice() {
        [] => String::new(),
        all => format!(",\"settings\":{{{}}}", all.join(",")),
    }
}

/// Returns a score as the lines of an export have it: infinities are texts there. `None` for text that is no score.
fn score(bytes: &[u8]) -> Option<String> {
    let number: f64 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    if number.is_infinite() {
        let text = if number > 0.0 { "inf" } else { "-inf" };
        return Some(Value::from(text).to_string());
    }
    let text = serde_json::Number::from_f64(number)?.to_string();
    Some(text.strip_suffix(".0").unwrap_or(&text).to_owned())
}

#[derive(Clone, Debug)]
struct Line {
    text: String,
    /// Which line of a file it is; 0 for none.
    number: u64,
}

#[derive(Clone, Debug)]
struct Board {
    name: String,
    line: Line,
    /// Whether its line was sent in an earlier body, and was refused there.
    is_sent: bool,
    is_refused: bool,
}

struct Outgoing {
    lines: Vec<Line>,
    /// Whether the body goes on with a board.
    goes_on: bool,
    /// Whether it has the board's line.
    has_board: bool,
}

/// A body of `POST /import`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesBody {
    /// How its lines meet what is there.
    pub mode: String,
    /// The end of its key, where a later import of the same lines has the same: with `add`. What is there tells others.
    pub key: Option<String>,
    /// Its lines.
    pub text: String,
}

#[derive(Deserialize, Default)]
struct ImportReport {
    #[serde(default)]
    counters: u64,
    #[serde(default)]
    policies: u64,
    #[serde(default)]
    alerts: u64,
    #[serde(default)]
    alerts_without_secret: Vec<String>,
    #[serde(default)]
    boards: u64,
    #[serde(default)]
    members: u64,
    #[serde(default)]
    rejected: u64,
    #[serde(default)]
    refused: Vec<Map<String, Value>>,
}

#[derive(Deserialize, Default)]
struct OfBoard<'a> {
    #[serde(borrow, default)]
    board: Option<Text<'a>>,
    #[serde(default)]
    member: Option<serde::de::IgnoredAny>,
}

/// Bodies of `POST /import`, one after the other, and what became of their lines.
pub struct Values {
    mode: String,
    prefix: String,
    /// What was brought in.
    pub carried: Carried,
    input: VecDeque<Line>,
    lines: Vec<Line>,
    bytes: usize,
    /// The board whose line came last.
    board: Option<Board>,
    /// Whether the present body goes on with it.
    goes_on: bool,
    outbox: VecDeque<Outgoing>,
    sent: Option<Outgoing>,
    file: ExportFile,
    rest: Vec<u8>,
    number: u64,
}

impl Values {
    /// Returns bodies that meet what is there by a mode, with what stands before each id.
    pub fn new(mode: &str, prefix: &str) -> Self {
        Self {
            mode: mode.to_owned(),
            prefix: prefix.to_owned(),
            carried: Carried::default(),
            input: VecDeque::new(),
            lines: Vec::new(),
            bytes: 0,
            board: None,
            goes_on: false,
            outbox: VecDeque::new(),
            sent: None,
            file: ExportFile::default(),
            rest: Vec::new(),
            number: 0,
        }
    }

    /// Whether a board has come.
    pub fn has_boards(&self) -> bool {
        self.board.is_some()
    }

    /// Takes a list of counters. Lines that cannot be read are refused.
    ///
    /// # Errors
    /// For what is no list.
    pub fn list(&mut self, text: &str) -> Result<(), Failure> {
        let OtherCounters {
            counters, refused, ..
        } = OtherCounters::read(text)?;
        for Unlisted { line, why } in refused {
            self.refuse(json!({"line": line, "code": "unreadable", "detail": why}));
        }
        for listed in counters {
            let id = Value::from([&self.prefix, listed.id.as_str()].concat());
            let text = format!("{{\"id\":{id},\"value\":{}}}", listed.value);
            self.input.push_back(Line {
                text,
                number: listed.line,
            });
        }
        Ok(())
    }

    /// Takes what a Redis says of a key. `now_ms`: from when on the time runs that it has left.
    pub fn entry(&mut self, entry: &Entry, now_ms: i64) {
        let key = decoded(&entry.key);
        let Ok(id) = std::str::from_utf8(&key) else {
            let why = format!("its name is no UTF-8: {}", hex(&key));
            return self.leave(&String::from_utf8_lossy(&key), why);
        };
        let named = Value::from([&self.prefix, id].concat());
        let text = match (entry.kind.as_str(), &entry.value, &entry.members) {
            ("zset", _, None) => format!("{{\"board\":{named}}}"),
            ("zset", _, Some(members)) => {
                // A board does not end: its members do.
                let end = (entry.ttl_ms > 0).then(|| now_ms.saturating_add(entry.ttl_ms));
                return self.members(id, &named, members, end);
            }
            ("string", None, _) => return self.leave(id, "gone meanwhile".to_owned()),
            ("string", Some(value), _) => {
                let bytes = decoded(value);
                let text = String::from_utf8_lossy(&bytes);
                let digits = text.strip_prefix('-').unwrap_or(&text);
                let is_whole = (1..=DIGITS_MAX).contains(&digits.len())
                    && digits.bytes().all(|byte| byte.is_ascii_digit());
                if bytes.starts_with(HYLL) {
                    let settings = settings(entry.ttl_ms, Some("redis"));
                    format!("{{\"id\":{named}{settings},\"hll\":\"{value}\"}}")
                } else if let Some(value) = whole(&text).filter(|_| is_whole) {
                    format!(
                        "{{\"id\":{named}{},\"value\":{value}}}",
                        settings(entry.ttl_ms, None)
                    )
                } else {
                    return self.leave(id, "no whole number".to_owned());
                }
            }
            (kind, ..) => return self.leave(id, format!("a {kind}")),
        };
        self.input.push_back(Line { text, number: 0 });
    }

    /// Takes a page of a sorted set, which may name a member twice: each time with its score.
    fn members(&mut self, id: &str, named: &Value, members: &[String], end: Option<i64>) {
        let end = end
            .map(|end| format!(",\"expires_at\":{end}"))
            .unwrap_or_default();
        for pair in members.chunks_exact(2) {
            let (member, number) = (decoded(&pair[0]), decoded(&pair[1]));
            let Ok(text) = std::str::from_utf8(&member) else {
                self.leave_member(id, format!("a member that is no UTF-8: {}", hex(&member)));
                continue;
            };
            let Some(score) = score(&number) else {
                let why = format!(
                    "a member {text:?} whose score is {}",
                    String::from_utf8_lossy(&number)
                );
                self.leave_member(id, why);
                continue;
            };
            let member = Value::from(text);
            let text = format!("{{\"board\":{named},\"member\":{member},\"score\":{score}{end}}}");
            self.input.push_back(Line { text, number: 0 });
        }
    }

    fn leave_member(&mut self, id: &str, why: String) {
        self.carried.left_out_members += 1;
        self.leave(id, why);
    }

    fn leave(&mut self, id: &str, why: String) {
        self.carried.left_out += 1;
        if self.carried.left_out_keys.len() < SHOWN_MAX {
            self.carried.left_out_keys.push(LeftKey {
                id: id.to_owned(),
                why,
            });
        }
    }

    /// Takes bytes of an export.
    ///
    /// # Errors
    /// For UTF-16 and tar archives.
    pub fn push(&mut self, bytes: &[u8], name: &str) -> Result<(), Failure> {
        let is_first = self.number == 0 && self.rest.is_empty();
        if is_first && let Some(failure) = no_lines(name, bytes) {
            return Err(failure);
        }
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
        if let Some(first) = lines.next() {
            self.rest.extend_from_slice(first);
        }
        for line in lines {
            let line = std::mem::replace(&mut self.rest, line.to_vec());
            self.take(&line);
        }
        if self.rest.ends_with(b"\n") {
            let line = std::mem::take(&mut self.rest);
            self.take(&line);
        }
        Ok(())
    }

    /// Ends a file of an export: says what is wrong with it. `why`: why it could not be read to its end.
    pub fn end(&mut self, name: &str, why: Option<String>) {
        let rest = std::mem::take(&mut self.rest);
        self.take(&rest);
        let file = std::mem::take(&mut self.file);
        self.number = 0;
        let why = why.or_else(|| file.damage(name));
        self.fail(why);
    }

    /// Says why a file was not read, or not to its end; nothing where it was.
    pub fn fail(&mut self, why: Option<String>) {
        self.carried.complete = Some(self.carried.complete != Some(false) && why.is_none());
        self.carried.why.extend(why);
    }

    fn take(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = match self.number {
            0 => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            _ => line,
        };
        self.number += 1;
        let text = String::from_utf8_lossy(line).into_owned();
        if !text.trim().is_empty() && self.file.take(&text) {
            let number = self.number;
            self.input.push_back(Line { text, number });
        }
    }

    /// Returns the next body; `None` where more lines are needed. The next one follows once this one is answered.
    pub fn next(&mut self, host: &dyn ImportHost, is_end: bool) -> Option<ValuesBody> {
        loop {
            if let Some(outgoing) = self.outbox.pop_front() {
                let texts: Vec<&str> = outgoing
                    .lines
                    .iter()
                    .map(|line| line.text.as_str())
                    .collect();
                let text = texts.join("\n") + "\n";
                let mode = if outgoing.goes_on {
                    "add"
                } else {
                    self.mode.as_str()
                }
                .to_owned();
                let key = (self.mode == "add")
                    .then(|| host.digest([&mode, "\n", &text].concat().as_bytes()));
                self.sent = Some(outgoing);
                return Some(ValuesBody { mode, key, text });
            }
            match self.input.pop_front() {
                Some(line) => self.line(line),
                None if is_end && !self.lines.is_empty() => self.flush(),
                None => return None,
            }
        }
    }

    fn line(&mut self, line: Line) {
        let of_board = match line.text.starts_with("{\"board\":") {
            // The service says what is wrong with a line that cannot be read.
            true => serde_json::from_str::<OfBoard<'_>>(&line.text).unwrap_or_default(),
            false => OfBoard::default(),
        };
        let name = of_board.board.map(|board| board.0.into_owned());
        let is_member = of_board.member.is_some();
        let is_of_last =
            name.is_some() && name == self.board.as_ref().map(|board| board.name.clone());
        if self.goes_on && !(is_member && is_of_last) {
            self.flush();
            self.input.push_front(line);
            return;
        }
        if let (Some(name), false) = (name, is_member) {
            let line = line.clone();
            self.board = Some(Board {
                name,
                line,
                is_sent: false,
                is_refused: false,
            });
        } else if is_of_last && let Some(board) = self.board.clone() {
            if board.is_refused {
                let (line, why) = (line.number, "its board was refused");
                let refused =
                    json!({"line": line, "id": board.name, "code": "invalid-line", "detail": why});
                return self.refuse(refused);
            }
            if board.is_sent && self.lines.is_empty() {
                self.goes_on = true;
                self.begin(board.line);
            }
        }
        self.begin(line);
        if self.lines.len() >= BODY_LINES_MAX || self.bytes >= BODY_BYTES_MAX {
            self.flush();
        }
    }

    fn begin(&mut self, line: Line) {
        self.bytes += line.text.len() + 1;
        self.lines.push(line);
    }

    fn refuse(&mut self, line: Value) {
        self.carried.rejected += 1;
        self.show(line);
    }

    fn show(&mut self, mut line: Value) {
        if line["line"] == 0
            && let Some(line) = line.as_object_mut()
        {
            line.remove("line");
        }
        if self.carried.refused.len() < SHOWN_MAX
            && let Ok(line) = serde_json::value::to_raw_value(&line)
        {
            self.carried.refused.push(line);
        }
    }

    /// Makes bodies of the lines so far: one that begins with a board's line is by itself.
    fn flush(&mut self) {
        let board = self.board.as_ref().filter(|board| !board.is_sent);
        let is_its = |line: &Line| board.is_some_and(|board| board.line.text == line.text);
        let before = self.lines.iter().rposition(is_its).unwrap_or_default();
        let has_board = board.is_some();
        let rest = self.lines.split_off(before);
        let first = std::mem::take(&mut self.lines);
        for (lines, has_board) in [(first, false), (rest, has_board)] {
            if !lines.is_empty() {
                let goes_on = std::mem::take(&mut self.goes_on);
                self.outbox.push_back(Outgoing {
                    lines,
                    goes_on,
                    has_board,
                });
            }
        }
        self.bytes = 0;
    }

    /// Takes what the service says of a body.
    pub fn answered(&mut self, report: &str) {
        let report: ImportReport = serde_json::from_str(report).unwrap_or_default();
        let Some(sent) = self.sent.take() else {
            return;
        };
        self.carried.counters += report.counters;
        self.carried.policies += report.policies;
        self.carried.alerts += report.alerts;
        let mut without_secret = report.alerts_without_secret;
        self.carried
            .alerts_without_secret
            .append(&mut without_secret);
        self.carried.members += report.members;
        // The line of a board that goes on was counted before.
        self.carried.boards += if sent.goes_on { 0 } else { report.boards };
        let is_present = |line: &&Map<String, Value>| {
            line.get("code")
                .is_some_and(|code| code == "already-exists")
        };
        let length = |count: usize| u64::try_from(count).unwrap_or_default();
        let present = length(report.refused.iter().filter(is_present).count());
        // Of more than a hundred refused lines the others are not named: they are like these.
        let unnamed = report.rejected.saturating_sub(length(report.refused.len()));
        let are_present = present == length(report.refused.len());
        self.carried.present += present + if are_present { unnamed } else { 0 };
        let refused = report
            .rejected
            .saturating_sub(unnamed.saturating_add(present));
        self.carried.rejected += refused + if are_present { 0 } else { unnamed };
        for mut line in report.refused.into_iter().filter(|line| !is_present(&line)) {
            let place = line
                .get("line")
                .and_then(Value::as_u64)
                .and_then(|line| line.checked_sub(1));
            let place = place.and_then(|place| usize::try_from(place).ok());
            let known = place
                .and_then(|place| sent.lines.get(place))
                .map_or(0, |line| line.number);
            line.insert("line".to_owned(), known.into());
            self.show(Value::Object(line));
        }
        if let Some(board) = self.board.as_mut().filter(|_| sent.has_board) {
            board.is_sent = true;
            board.is_refused = report.boards == 0;
        }
    }
}
