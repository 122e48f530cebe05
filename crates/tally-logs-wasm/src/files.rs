//! What the caller does for an import: a question, as JSON and bytes, and its reply, as a line of JSON and bytes.

use std::cell::RefCell;

use serde::Deserialize;
use serde_json::{Value, json};
use tally_import::host::{ImportHost, Neighbor};
use tally_import::packing::packing;

thread_local! {
    /// The buffer that the caller writes its reply to.
    pub(crate) static REPLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" {
    /// Asks the caller. Its reply is in the buffer of [`REPLY`] then.
    safe fn ask(question: *const u8, length: usize, bytes: *const u8, bytes_length: usize);
}

/// The caller's files.
pub(crate) struct Files;

fn asked(question: &Value, bytes: &[u8]) -> (Value, Vec<u8>) {
    let text = question.to_string();
    ask(text.as_ptr(), text.len(), bytes.as_ptr(), bytes.len());
    let reply = REPLY.with_borrow_mut(std::mem::take);
    let newline = reply.iter().position(|byte| *byte == b'\n');
    let (json, bytes) = reply.split_at(newline.unwrap_or(reply.len()));
    let value = serde_json::from_slice(json).unwrap_or_default();
    (value, bytes.get(1..).unwrap_or_default().to_vec())
}

fn text_of((_, bytes): (Value, Vec<u8>)) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundNote {
    path: String,
    head: Vec<u8>,
    has_tail: bool,
}

impl ImportHost for Files {
    fn note(&self, text: &str) {
        asked(&json!(["note", text]), &[]);
    }

    fn digest(&self, bytes: &[u8]) -> String {
        text_of(asked(&json!(["digest"]), bytes))
    }

    fn unique(&self) -> String {
        text_of(asked(&json!(["unique"]), &[]))
    }

    fn rewrite(&self, rules: &[(String, String)], path: &str) -> String {
        text_of(asked(&json!(["rewrite", rules]), path.as_bytes()))
    }

    fn names(&self) -> Vec<String> {
        let (names, _) = asked(&json!(["names"]), &[]);
        serde_json::from_value(names).unwrap_or_default()
    }

    fn read(&self, name: &str) -> String {
        text_of(asked(&json!(["read", name]), &[]))
    }

    fn write(&self, name: &str, text: &str) {
        asked(&json!(["write", name]), text.as_bytes());
    }

    fn append(&self, name: &str, text: &str) {
        asked(&json!(["append", name]), text.as_bytes());
    }

    fn remove(&self, name: &str) {
        asked(&json!(["remove", name]), &[]);
    }

    fn tail(&self, source: u32, end: u64, length: u64) -> Option<Vec<u8>> {
        let (is_there, bytes) = asked(&json!(["tail", source, end, length]), &[]);
        (is_there == true).then_some(bytes)
    }

    fn neighbor(&self, [path, dev, ino]: [&str; 3], end: u64, length: u64) -> Option<Neighbor> {
        let (found, tail) = asked(&json!(["neighbor", path, dev, ino, end, length]), &[]);
        let found: FoundNote = serde_json::from_value(found).ok()?;
        Some(Neighbor {
            path: found.path,
            is_packed: packing(&found.head).is_some(),
            tail: found.has_tail.then_some(tail),
        })
    }
}
