//! The calls of the command: a line of JSON, `{"call": …}`, and bytes behind it; the outputs are JSON and bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tally_import::host::Failure;
use tally_import::import::{Begun, Import, Options};
use tally_import::notes::LogSource;
use tally_import::packing::{ArchiveMember, member, packing};
use tally_import::part::Step;
use tally_import::report::IngestReport;
use tally_import::splitter::LogEnding;
use tally_import::text::{Course, Screen, number, of_logs, of_values};
use tally_import::values::{Entry, Values};

use crate::files::Files;

#[derive(Deserialize)]
#[serde(
    tag = "call",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum Call {
    /// How a file is packed that begins with these bytes.
    Packing,
    /// How many bytes stand before what a member packs: -1 where none begins; nothing where more bytes say.
    Member { kind: String },
    /// Opens an import of logs: its number.
    Import { options: Box<Options> },
    /// Opens a file of it: its number.
    Open {
        import: u32,
        source: LogSource,
        is_followed: bool,
    },
    /// Takes the beginning of a file: whether that is enough.
    Look { import: u32, job: u32 },
    /// Begins: `{ids}`, or nothing where its first lines do not say what it is.
    Begin { import: u32, job: u32, is_new: bool },
    /// Starts: from where on bytes are needed, and those before.
    Start {
        import: u32,
        job: u32,
        is_gone: bool,
    },
    /// Takes bytes.
    Push { import: u32, job: u32 },
    /// Says how they end.
    Ends { import: u32, job: u32, how: String },
    /// The number of the next part.
    Next { import: u32, job: u32 },
    /// `{send}` with a body, `{wait, held}`, or nothing: all is done.
    Step {
        import: u32,
        job: u32,
        part: u32,
        now_ms: i64,
        is_stopping: bool,
    },
    /// Takes a report.
    Answered {
        import: u32,
        job: u32,
        part: u32,
        now_ms: i64,
        is_repeat: bool,
    },
    /// Ends a file.
    Close {
        import: u32,
        job: u32,
        is_whole: bool,
    },
    /// Adds a file that was not read.
    Failed {
        import: u32,
        file: String,
        why: String,
    },
    /// What was done, in numbers with separators.
    Progress { import: u32, seconds: f64 },
    /// What was done, and the same as text.
    Summary {
        import: u32,
        seconds: f64,
        is_interrupted: bool,
        files: u64,
        has_colors: bool,
    },
    /// Opens bodies of `/import`: their number.
    Values { mode: String, prefix: String },
    /// Takes a list.
    List { values: u32 },
    /// Takes an entry of a Redis.
    Entry {
        values: u32,
        now_ms: i64,
        entry: Entry,
    },
    /// Takes bytes of an export.
    Lines { values: u32, name: String },
    /// Ends a file of an export.
    EndOfLines {
        values: u32,
        name: String,
        why: Option<String>,
    },
    /// Adds a file that was not read.
    Unread { values: u32, why: String },
    /// `{mode, key}` with a body; nothing where more lines are needed.
    NextBody { values: u32, is_end: bool },
    /// Takes a report.
    Reported { values: u32 },
    /// What was brought in, and the same as text.
    Carried {
        values: u32,
        seconds: f64,
        has_colors: bool,
    },
}

#[derive(Default)]
struct Sessions {
    imports: BTreeMap<u32, Import>,
    values: BTreeMap<u32, Values>,
    next: u32,
}

thread_local! {
    static SESSIONS: RefCell<Sessions> = RefCell::new(Sessions::default());
}

type Output = (Value, Vec<u8>);

/// Carries out a call.
pub(crate) fn call(input: &[u8]) -> [Vec<u8>; 2] {
    let newline = input
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(input.len());
    let (json, bytes) = input.split_at(newline);
    let bytes = bytes.get(1..).unwrap_or_default();
    let done = match serde_json::from_slice(json) {
        Ok(call) => SESSIONS.with_borrow_mut(|sessions| sessions.call(call, bytes)),
        Err(error) => Ok((json!({"broken": error.to_string()}), Vec::new())),
    };
    let (value, bytes) = done.unwrap_or_else(|Failure { exit, message }| {
        (json!({"failure": message, "exit": exit.code()}), Vec::new())
    });
    [value.to_string().into_bytes(), bytes]
}

fn only(value: impl Into<Value>) -> Result<Output, Failure> {
    Ok((value.into(), Vec::new()))
}

fn step_of(step: Step) -> Result<Output, Failure> {
    match step {
        Step::Send { key, body } => Ok((json!({"key": key}), body.into_bytes())),
        Step::Wait { ms, held } => only(json!({"wait": ms, "held": held})),
        Step::Done => only(Value::Null),
    }
}

impl Sessions {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn call(&mut self, call: Call, bytes: &[u8]) -> Result<Output, Failure> {
        match call {
            Call::Import { options } => {
                let import = Import::new(*options)?;
                let number = self.number();
                self.imports.insert(number, import);
                only(number)
            }
            Call::Packing => only(json!(packing(bytes))),
            Call::Member { kind } => only(match member(&kind, bytes) {
                ArchiveMember::Behind(bytes) => json!(bytes),
                ArchiveMember::Unknown => Value::Null,
                ArchiveMember::None => json!(-1),
            }),
            Call::Values { mode, prefix } => {
                let number = self.number();
                self.values.insert(number, Values::new(&mode, &prefix));
                only(number)
            }
            Call::List { values }
            | Call::Entry { values, .. }
            | Call::Lines { values, .. }
            | Call::EndOfLines { values, .. }
            | Call::Unread { values, .. }
            | Call::NextBody { values, .. }
            | Call::Reported { values }
            | Call::Carried { values, .. } => match self.values.get_mut(&values) {
                Some(values) => of_bodies(values, call, bytes),
                None => only(Value::Null),
            },
            Call::Open { import, .. }
            | Call::Look { import, .. }
            | Call::Begin { import, .. }
            | Call::Start { import, .. }
            | Call::Push { import, .. }
            | Call::Ends { import, .. }
            | Call::Next { import, .. }
            | Call::Step { import, .. }
            | Call::Answered { import, .. }
            | Call::Close { import, .. }
            | Call::Failed { import, .. }
            | Call::Progress { import, .. }
            | Call::Summary { import, .. } => match self.imports.get_mut(&import) {
                Some(import) => of_import(import, call, bytes),
                None => only(Value::Null),
            },
        }
    }
}

fn of_import(import: &mut Import, call: Call, bytes: &[u8]) -> Result<Output, Failure> {
    let host = &Files;
    match call {
        Call::Open {
            source,
            is_followed,
            ..
        } => only(import.open(source, is_followed)),
        Call::Look { job, .. } => only(import.look(job, bytes)),
        Call::Begin { job, is_new, .. } => match import.begin(host, job, is_new)? {
            Begun::Undecided => only(Value::Null),
            Begun::Known(ids) => only(json!({"ids": ids})),
        },
        Call::Start { job, is_gone, .. } => {
            let from = import.start(host, job, is_gone)?;
            Ok((json!({"from": from}), import.tail(job).to_vec()))
        }
        Call::Push { job, .. } => {
            import.push(job, bytes);
            only(Value::Null)
        }
        Call::Ends { job, how, .. } => {
            let ending = match how.as_str() {
                "idle" => LogEnding::Idle,
                "closed" => LogEnding::Closed,
                _ => LogEnding::Unfinished,
            };
            import.ends(job, ending);
            only(Value::Null)
        }
        Call::Next { job, .. } => only(json!(import.next(host, job)?)),
        Call::Step {
            job,
            part,
            now_ms,
            is_stopping,
            ..
        } => step_of(import.step((host, job, part), (now_ms, is_stopping))),
        Call::Answered {
            job,
            part,
            now_ms,
            is_repeat,
            ..
        } => {
            let report: IngestReport = serde_json::from_slice(bytes).unwrap_or_default();
            import.answered((host, job, part), now_ms, &report, is_repeat);
            only(Value::Null)
        }
        Call::Close { job, is_whole, .. } => {
            import.close(host, job, is_whole);
            only(Value::Null)
        }
        Call::Failed { file, why, .. } => {
            import.fail(&file, &why);
            only(Value::Null)
        }
        other => summary(import, &other),
    }
}

fn summary(import: &mut Import, call: &Call) -> Result<Output, Failure> {
    match *call {
        Call::Progress { seconds, .. } => {
            let totals = &import.totals;
            let rate = Course {
                seconds,
                is_interrupted: false,
                files: 1,
            }
            .rate(totals.lines);
            let [lines, counters] = [totals.lines, totals.counters_so_far()].map(number);
            only(
                json!({"lines": lines, "counters": counters, "rate": number(rate), "seconds": seconds}),
            )
        }
        Call::Summary {
            seconds,
            is_interrupted,
            files,
            has_colors,
            ..
        } => {
            import.totals.settle();
            let course = Course {
                seconds,
                is_interrupted,
                files,
            };
            let mut value = serde_json::to_value(&import.totals).unwrap_or_default();
            value["seconds"] = json!((seconds * 100.0).round() / 100.0);
            value["lines_per_second"] = course.rate(import.totals.lines).into();
            value["interrupted"] = is_interrupted.into();
            let text = of_logs(&import.totals, course, Screen { has_colors });
            Ok((value, text.into_bytes()))
        }
        _ => only(Value::Null),
    }
}

fn of_bodies(values: &mut Values, call: Call, bytes: &[u8]) -> Result<Output, Failure> {
    match call {
        Call::List { .. } => values.list(&String::from_utf8_lossy(bytes))?,
        Call::Entry { now_ms, entry, .. } => values.entry(&entry, now_ms),
        Call::Lines { name, .. } => values.push(bytes, &name)?,
        Call::EndOfLines { name, why, .. } => values.end(&name, why),
        Call::Unread { why, .. } => values.fail(Some(why)),
        Call::NextBody { is_end, .. } => {
            return match values.next(&Files, is_end) {
                Some(body) => Ok((
                    json!({"mode": body.mode, "key": body.key}),
                    body.text.into_bytes(),
                )),
                None => only(Value::Null),
            };
        }
        Call::Reported { .. } => values.answered(&String::from_utf8_lossy(bytes)),
        Call::Carried {
            seconds,
            has_colors,
            ..
        } => {
            let text = of_values(&values.carried, seconds, Screen { has_colors });
            let mut value = serde_json::to_value(&values.carried).unwrap_or_default();
            value["seconds"] = json!((seconds * 100.0).round() / 100.0);
            value["has_boards"] = values.has_boards().into();
            return Ok((value, text.into_bytes()));
        }
        _ => {}
    }
    only(Value::Null)
}
