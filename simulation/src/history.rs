//! The history of a world's calls, as clients saw them: lines of JSON with the fields of Jepsen's operations.
//!
//! Invariant: a process has one call under way at most. A process whose call ended without an outcome makes no other
//! call, since that call may still take effect. `docs/internals/histories.md` describes each field.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::client::{Answer, NoAnswer};
use crate::core::Core;
use crate::request::ClientRequest;

/// Bytes of a history; calls that begin later are left out. A world writes about 100 KB.
const HISTORY_BYTES_MAX: usize = 4_000_000;

/// Bytes of a body that are kept; of a longer one its length alone is.
const BODY_BYTES_MAX: usize = 8_192;

/// Headers of a call that are part of the contract.
const HEADERS: [&str; 2] = ["idempotency-key", "if-match"];

struct Writer {
    file: BufWriter<File>,
    written: usize,
    index: u64,
    processes: u64,
    idle: Vec<u64>,
}

impl Writer {
    fn write(&mut self, mut line: Value) {
        line["index"] = self.index.into();
        self.index += 1;
        let text = format!("{line}\n");
        self.written += text.len();
        self.file
            .write_all(text.as_bytes())
            .expect("the folder of histories can be written");
    }
}

/// The history of a world, where one is kept.
#[derive(Default)]
pub(crate) struct History(RefCell<Option<Writer>>);

/// A body, as far as it is kept.
fn body_of(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= BODY_BYTES_MAX => text.into(),
        _ => json!({ "bytes": bytes.len() }),
    }
}

/// How Jepsen calls an outcome: `fail` changed nothing and never will, `info` is unknown.
fn kind_of(answer: &Answer) -> &'static str {
    let json = answer.json();
    match answer.status {
        101 | 200..300 => "ok",
        // What became of each line is in the report.
        400.. if json["errors"].is_array() => "ok",
        503 if json["code"] == "overloaded" => "fail",
        400..500 => "fail",
        _ => "info",
    }
}

impl History {
    /// Keeps a history from now on.
    pub(crate) fn keep(&self, path: &Path) -> io::Result<()> {
        let writer = Writer {
            file: BufWriter::new(File::create(path)?),
            written: 0,
            index: 0,
            processes: 0,
            idle: Vec::new(),
        };
        self.0.replace(Some(writer));
        Ok(())
    }

    /// Notes what is no call of a client.
    pub(crate) fn note(&self, now_us: u64, what: &str, value: &Value) {
        if let Some(writer) = self.0.borrow_mut().as_mut() {
            let time = now_us.saturating_mul(1_000);
            writer.write(json!({
                "process": "nemesis", "type": "info", "f": what, "time": time, "value": value,
            }));
        }
    }
}

/// A call of a history. Dropped without an answer, its outcome is unknown.
pub(crate) struct Call {
    core: Rc<Core>,
    process: u64,
    name: String,
    is_ended: bool,
}

fn time_ns(core: &Core) -> u64 {
    core.executor.now_us().saturating_mul(1_000)
}

impl Call {
    /// A client makes a request at a site. `None` where no history is kept, or it is full.
    pub(crate) fn begin(core: &Rc<Core>, ask: &ClientRequest, site: &str) -> Option<Self> {
        let mut kept = core.history.0.borrow_mut();
        let writer = kept.as_mut()?;
        if writer.written > HISTORY_BYTES_MAX {
            return None;
        }
        let process = writer.idle.pop().unwrap_or_else(|| {
            writer.processes += 1;
            writer.processes - 1
        });
        let mut value = json!({ "at": site });
        for (name, text) in &ask.headers {
            if HEADERS.contains(&name.as_str()) {
                value[name] = text.as_str().into();
            }
        }
        if let Some(parts) = &ask.parts {
            let parts = parts.iter().filter_map(|(_, part)| part.as_ref().ok());
            value["body"] = body_of(&parts.flatten().copied().collect::<Vec<u8>>());
        }
        let name = format!("{} {}", ask.method, ask.path);
        writer.write(json!({
            "process": process, "type": "invoke", "f": name, "time": time_ns(core), "value": value,
        }));
        drop(kept);
        Some(Self {
            core: core.clone(),
            process,
            name,
            is_ended: false,
        })
    }

    /// Its outcome.
    pub(crate) fn end(mut self, outcome: &Result<Answer, NoAnswer>) {
        match outcome {
            Ok(answer) => {
                let value = json!({ "status": answer.status, "body": body_of(&answer.body) });
                self.write(kind_of(answer), value);
            }
            Err(error) => self.write("info", json!({ "error": error.to_string() })),
        }
    }

    fn write(&mut self, kind: &str, value: Value) {
        self.is_ended = true;
        if let Some(writer) = self.core.history.0.borrow_mut().as_mut() {
            if kind != "info" {
                writer.idle.push(self.process);
            }
            writer.write(json!({
                "process": self.process, "type": kind, "f": self.name, "time": time_ns(&self.core), "value": value,
            }));
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_ended {
            self.write("info", json!({ "error": "the client hung up" }));
        }
    }
}
