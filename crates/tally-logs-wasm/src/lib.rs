//! The reader of logs as Wasm, for package/command/import/reader.mjs. `scripts/logs-wasm.sh` builds it.
//!
//! Invariant: bytes cross the border in buffers that this module owns. The caller asks for the room of its input
//! ([`input`]) and writes there. What a call leaves is where [`output`] says, until the next call. So nothing here
//! reads a pointer.

#![allow(
    unsafe_code,
    reason = "names of exports are promises that no other object has them; there is no other"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tally_logs::fields::LogField;
use tally_logs::filter::{Filter, Paths, Reason, Statuses};
use tally_logs::formats::{LogFormat, LogLines, detect};
use tally_logs::reader::{CountingRule, LogReader, ReadPart};
use tally_logs::user_agent::Agents;

/// How many lines a format is known by.
const SAMPLE_LINES: usize = 50;

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUTS: RefCell<[Vec<u8>; 4]> = const { RefCell::new([const { Vec::new() }; 4]) };
    static EXCHANGE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static READERS: RefCell<BTreeMap<u32, (LogReader, bool)>> = const { RefCell::new(BTreeMap::new()) };
    static NEXT: Cell<u32> = const { Cell::new(1) };
}

// What each of the outputs holds.
const REPORT: usize = 0;
const BODY: usize = 1;
const COUNTERS: usize = 2;
const NUMBERS: usize = 3;

unsafe extern "C" {
    /// Changes the path in the buffer of [`exchange`], of which it gets the length.
    safe fn rewrite(path: *const u8, length: usize);
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    format: String,
    state: String,
    status: String,
    method: String,
    bots: bool,
    statics: bool,
    paths: String,
    rewrites: bool,
    strip_query: bool,
    prefix: String,
    site: Option<String>,
    by: String,
    unique: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    ids: &'a [String],
    lines: u32,
    left: BTreeMap<&'static str, u32>,
    unreadable: u32,
    unread: Vec<&'a str>,
    state: &'a str,
}

fn set(output: usize, bytes: Vec<u8>) {
    OUTPUTS.with_borrow_mut(|outputs| {
        if let Some(known) = outputs.get_mut(output) {
            *known = bytes;
        }
    });
}

/// Makes room for the input of the next call, and returns where.
#[unsafe(no_mangle)]
pub extern "C" fn input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.resize(length, 0);
        input.as_mut_ptr()
    })
}

/// Makes room for the path that is the outcome of a rewrite, and returns where.
#[unsafe(no_mangle)]
pub extern "C" fn exchange(length: usize) -> *mut u8 {
    EXCHANGE.with_borrow_mut(|path| {
        path.resize(length, 0);
        path.as_mut_ptr()
    })
}

/// Returns where an output of the last call is.
#[unsafe(no_mangle)]
pub extern "C" fn output(which: usize) -> *const u8 {
    OUTPUTS.with_borrow(|outputs| {
        outputs
            .get(which)
            .map_or(std::ptr::null(), |bytes| bytes.as_ptr())
    })
}

/// Returns the bytes of an output of the last call.
#[unsafe(no_mangle)]
pub extern "C" fn output_length(which: usize) -> usize {
    OUTPUTS.with_borrow(|outputs| outputs.get(which).map_or(0, Vec::len))
}

/// Leaves the names of all formats as the report, one a line.
#[unsafe(no_mangle)]
pub extern "C" fn formats() {
    set(
        REPORT,
        LogFormat::ALL.map(LogFormat::name).join("\n").into_bytes(),
    );
}

/// Leaves the name of the format of the log that begins with the input; nothing where no format fits.
#[unsafe(no_mangle)]
pub extern "C" fn format_of() {
    let format = INPUT.with_borrow(|head| {
        let mut lines: Vec<&[u8]> = head
            .split(|byte| *byte == b'\n')
            .take(SAMPLE_LINES + 1)
            .collect();
        // The last one may have been cut.
        if lines.len() > 1 {
            lines.pop();
        }
        let lines: Vec<&[u8]> = lines
            .iter()
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .collect();
        detect(&lines)
    });
    set(REPORT, format.map_or("", LogFormat::name).into());
}

/// Opens a reader by the options of the input, and returns its number; 0 where an option cannot be read, whose name is
/// the report.
#[unsafe(no_mangle)]
pub extern "C" fn open() -> u32 {
    let options = INPUT.with_borrow(|json| serde_json::from_slice(json));
    let opened = options.map_err(|error: serde_json::Error| error.to_string());
    match opened.and_then(|options| reader(options).map_err(str::to_owned)) {
        Ok(reader) => {
            let number = NEXT.get();
            NEXT.set(number + 1);
            READERS.with_borrow_mut(|readers| readers.insert(number, reader));
            number
        }
        Err(option) => {
            set(REPORT, option.into_bytes());
            0
        }
    }
}

fn reader(options: Options) -> Result<(LogReader, bool), &'static str> {
    let by = match options.by.as_str() {
        "" => Vec::new(),
        names => LogField::list(names).ok_or("by")?,
    };
    let methods = match options.method.as_str() {
        "any" => Vec::new(),
        names => names.split(',').map(str::to_ascii_uppercase).collect(),
    };
    let reader = LogReader {
        lines: LogLines::new(
            LogFormat::named(&options.format).ok_or("format")?,
            &options.state,
        ),
        filter: Filter {
            statuses: Statuses::parse(&options.status).ok_or("status")?,
            methods,
            bots: options.bots,
            statics: options.statics,
            agents: Agents::default(),
        },
        counting: CountingRule {
            paths: Paths::named(&options.paths).ok_or("paths")?,
            strips_query: options.strip_query,
            prefix: options.prefix,
            site: options.site,
            by,
            unique: options.unique,
        },
    };
    Ok((reader, options.rewrites))
}

/// Ends a reader.
#[unsafe(no_mangle)]
pub extern "C" fn close(number: u32) {
    READERS.with_borrow_mut(|readers| readers.remove(&number));
}

/// Reads the input by a reader, and leaves the report, the body, and of each of its lines the counter and the number.
#[unsafe(no_mangle)]
pub extern "C" fn read(number: u32) {
    READERS.with_borrow_mut(|readers| {
        let Some((reader, rewrites)) = readers.get_mut(&number) else {
            return;
        };
        let part = INPUT.with_borrow(|bytes| reader.read(bytes, rewrites.then_some(&rewritten)));
        leave(part, reader.lines.state());
    });
}

fn leave(part: ReadPart, state: &str) {
    let report = Report {
        ids: &part.ids,
        lines: part.lines,
        left: left(part.left),
        unreadable: part.unreadable,
        unread: part.unread.iter().map(|line| line.text.as_str()).collect(),
        state,
    };
    set(REPORT, serde_json::to_vec(&report).unwrap_or_default());
    set(BODY, part.body.into_bytes());
    let bytes = |numbers: Vec<u32>| numbers.into_iter().flat_map(u32::to_le_bytes).collect();
    set(COUNTERS, bytes(part.counters));
    set(NUMBERS, bytes(part.numbers));
}

/// Returns how many lines were left out, by reason. Few logs have lines without a request whose status is asked for.
fn left(counts: [u32; Reason::ALL.len()]) -> BTreeMap<&'static str, u32> {
    let named = Reason::ALL.into_iter().zip(counts);
    let told = named.filter(|(reason, count)| *reason != Reason::Request || *count > 0);
    told.map(|(reason, count)| (reason.name(), count)).collect()
}

fn rewritten(path: &str) -> String {
    rewrite(path.as_ptr(), path.len());
    EXCHANGE.with_borrow(|path| String::from_utf8_lossy(path).into_owned())
}
