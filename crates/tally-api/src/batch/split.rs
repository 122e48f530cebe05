//! Bytes into records, in one pass. The records of a body do not depend on how it was cut into chunks,
//! and at most one partial record of [`RECORD_BYTES_MAX`] bytes is held between chunks.
//!
//! A record within one chunk is handed out as a slice of it. A record in several chunks is assembled in a buffer. A
//! record that is too long is skipped and handed out as a problem, which costs that record only. White space around a
//! record is not part of it.

use tally_wire::problem::{Code, Problem};

/// The longest record, in bytes. The longest useful event has a key of 512, an element of 1,024 and an
/// id of 255 bytes, 1,791 in all, at most 6 times that where every byte is escaped as `\u00xx`: 10,746.
/// Log lines end near 3 * 8 KiB, since servers bound target, referer and agent at 8 KiB each.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;

/// The most bytes of a record before white space is cut from its end: one more, for the `\r` of a `\r\n`. Further white
/// space counts as part of the record.
const RAW_BYTES_MAX: usize = RECORD_BYTES_MAX + 1;

pub use tally_logs::text::BYTE_ORDER_MARK;

/// White space of JSON (RFC 8259, section 2).
fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let start = bytes
        .iter()
        .position(|&byte| !is_white(byte))
        .unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}

/// Returns a record without white space at its end, or refuses it as too long.
fn trim_record(raw: &[u8]) -> Result<&[u8], Problem> {
    let length = raw
        .iter()
        .rposition(|&byte| !is_white(byte))
        .map_or(0, |last| last + 1);
    match raw.get(..length) {
        Some(record) if raw.len() <= RAW_BYTES_MAX && length <= RECORD_BYTES_MAX => Ok(record),
        _ => Err(too_long()),
    }
}

fn too_long() -> Problem {
    let detail = format!("a record has at most {RECORD_BYTES_MAX} bytes, this one has more");
    Problem::new(Code::InvalidLine, detail)
}

/// The beginning of a record whose end has not come yet.
#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    too_long: bool,
}

impl Partial {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.too_long
    }

    fn extend(&mut self, part: &[u8]) {
        // The sum cannot overflow: the buffer is at most 65,537 bytes, a slice at most isize::MAX.
        if self.too_long || self.bytes.len() + part.len() > RAW_BYTES_MAX {
            self.too_long = true;
            self.bytes.clear();
        } else {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Hands out the record that ends with `last`, and begins the next.
    fn end(
        &mut self,
        last: &[u8],
        number: u64,
        each: &mut impl FnMut(u64, Result<&[u8], Problem>),
    ) {
        if self.is_empty() {
            return each(number, trim_record(last));
        }
        self.extend(last);
        let record = if self.too_long {
            Err(too_long())
        } else {
            trim_record(&self.bytes)
        };
        each(number, record);
        self.bytes.clear();
        self.too_long = false;
    }
}

/// Splits a body at `\n` or `\r\n`. Lines are numbered from 1. Blank lines are numbered but not handed out. The last
/// line needs no newline.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Partial,
    number: u64,
}

impl Lines {
    /// Hands the records that end in this chunk to `each`, with their line numbers.
    pub fn push(&mut self, chunk: &[u8], each: &mut impl FnMut(u64, Result<&[u8], Problem>)) {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.end_line(line, each);
            rest = after.get(1..).unwrap_or_default();
        }
        self.partial.extend(self.without_indent(rest));
    }

    /// Hands out the last line, if the body does not end with a newline.
    pub fn finish(mut self, each: &mut impl FnMut(u64, Result<&[u8], Problem>)) {
        self.end_line(&[], each);
    }

    fn end_line(&mut self, line: &[u8], each: &mut impl FnMut(u64, Result<&[u8], Problem>)) {
        self.number += 1;
        let line = self.without_indent(line);
        if !(line.is_empty() && self.partial.is_empty()) {
            self.partial.end(line, self.number, each);
        }
    }

    /// White space before a record is not buffered, so that blank lines of any length cost nothing.
    fn without_indent<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if self.partial.is_empty() {
            trim_start(bytes)
        } else {
            bytes
        }
    }
}

/// What was read last of the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArrayState {
    #[default]
    Before,
    Opened,
    AfterComma,
    Element,
    After,
    Refused,
}

/// Splits a body that is one JSON array into its elements, numbered from 1. It finds where elements end and leaves
/// their content to the caller, so that a bad element costs that element only.
#[derive(Debug, Default)]
pub struct ArrayElements {
    partial: Partial,
    number: u64,
    state: ArrayState,
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl ArrayElements {
    /// Hands the elements that end in this chunk to `each`, with their numbers.
    ///
    /// # Errors
    /// `invalid-json` where the body is not one array. Elements handed out before then are void too.
    pub fn push(
        &mut self,
        chunk: &[u8],
        each: &mut impl FnMut(u64, Result<&[u8], Problem>),
    ) -> Result<(), Problem> {
        let mut rest = chunk;
        loop {
            if self.state != ArrayState::Element {
                rest = trim_start(rest);
            }
            let Some((&byte, after)) = rest.split_first() else {
                return Ok(());
            };
            match (self.state, byte) {
                (ArrayState::Before, b'[') => {
                    self.state = ArrayState::Opened;
                    rest = after;
                }
                (ArrayState::Opened, b']') => {
                    self.state = ArrayState::After;
                    rest = after;
                }
                (ArrayState::Opened | ArrayState::AfterComma | ArrayState::Element, _) => {
                    self.state = ArrayState::Element;
                    let Some(end) = self.scan(rest) else {
                        self.partial.extend(rest);
                        return Ok(());
                    };
                    rest = self.end_element(rest, end, each)?;
                }
                (ArrayState::Before, _) => return self.refuse("the body is not an array"),
                (ArrayState::After, _) => return self.refuse("something follows the array"),
                (ArrayState::Refused, _) => return self.refuse("the body was refused before"),
            }
        }
    }

    /// Ends the body.
    ///
    /// # Errors
    /// `invalid-json` where the array was not closed.
    pub fn finish(mut self) -> Result<(), Problem> {
        if self.state == ArrayState::After {
            Ok(())
        } else {
            self.refuse("the body ends before its array does")
        }
    }

    /// Hands out the element that ends at `end`, and returns what follows its delimiter.
    fn end_element<'a>(
        &mut self,
        bytes: &'a [u8],
        end: usize,
        each: &mut impl FnMut(u64, Result<&[u8], Problem>),
    ) -> Result<&'a [u8], Problem> {
        let (last, after) = bytes.split_at(end);
        self.state = match after.first() {
            Some(b',') => ArrayState::AfterComma,
            Some(b']') => ArrayState::After,
            _ => return self.refuse("a `}` closes nothing"),
        };
        self.number += 1;
        if last.is_empty() && self.partial.is_empty() {
            each(
                self.number,
                Err(Problem::new(
                    Code::InvalidJson,
                    "there is no value between two commas",
                )),
            );
        } else {
            self.partial.end(last, self.number, each);
        }
        Ok(after.get(1..).unwrap_or_default())
    }

    /// Returns where the element ends in `bytes`, if it does: at a `,` or a closing bracket that is neither in a string
    /// nor in a nested value. The kinds of brackets are not matched here: an element that mixes them is refused by the
    /// code that parses it.
    fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            if self.escaped {
                bytes.get(at)?;
                self.escaped = false;
                at += 1;
            }
            if self.in_string {
                at += bytes
                    .get(at..)?
                    .iter()
                    .position(|&byte| byte == b'"' || byte == b'\\')?;
                self.escaped = bytes.get(at) == Some(&b'\\');
                self.in_string = self.escaped;
                at += 1;
                continue;
            }
            match bytes.get(at)? {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => self.depth -= 1,
                b'}' | b']' => return Some(at),
                b',' if self.depth == 0 => return Some(at),
                _ => {}
            }
            at += 1;
        }
    }

    fn refuse<T>(&mut self, why: &str) -> Result<T, Problem> {
        self.state = ArrayState::Refused;
        let detail = format!("{why}: send one JSON array of objects, or one object per line");
        Err(Problem::new(Code::InvalidJson, detail))
    }
}

/// Splits a body whose form is given by its first byte that is not white space: `[` begins an array, anything else
/// lines. A byte order mark before it is skipped.
#[derive(Debug)]
pub struct Splitter {
    form: Form,
    /// How much of a byte order mark has been seen at the beginning; `None` once that is decided.
    marked: Option<usize>,
}

#[derive(Debug)]
enum Form {
    Undecided(Lines),
    Lines(Lines),
    Elements(ArrayElements),
}

impl Splitter {
    /// Returns a splitter that reads an array where the body begins with `[`, and lines otherwise.
    pub fn detect() -> Self {
        Self::of(Form::Undecided(Lines::default()))
    }

    /// Returns a splitter that reads lines.
    pub fn lines() -> Self {
        Self::of(Form::Lines(Lines::default()))
    }

    fn of(form: Form) -> Self {
        let marked = Some(0);
        Self { form, marked }
    }

    /// Hands the records that end in this chunk to `each`, with their numbers.
    ///
    /// # Errors
    /// As [`ArrayElements::push`]; lines never fail.
    pub fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(u64, Result<&[u8], Problem>),
    ) -> Result<(), Problem> {
        let Some(marked) = self.marked else {
            return self.split(chunk, &mut each);
        };
        let (begun, expected) = BYTE_ORDER_MARK.split_at(marked);
        let pairs = expected.iter().zip(chunk);
        let same = pairs.take_while(|(one, other)| one == other).count();
        if same == expected.len() {
            self.marked = None;
            return self.split(chunk.get(same..).unwrap_or_default(), &mut each);
        }
        if same == chunk.len() {
            self.marked = Some(marked + same);
            return Ok(());
        }
        self.marked = None;
        self.split(begun, &mut each)?;
        self.split(chunk, &mut each)
    }

    fn split(
        &mut self,
        chunk: &[u8],
        each: &mut impl FnMut(u64, Result<&[u8], Problem>),
    ) -> Result<(), Problem> {
        if let Form::Undecided(lines) = &mut self.form {
            match trim_start(chunk).first() {
                // Only blank lines so far; they are numbered in case the body turns out to be lines.
                None => {}
                Some(b'[') => self.form = Form::Elements(ArrayElements::default()),
                Some(_) => self.form = Form::Lines(std::mem::take(lines)),
            }
        }
        match &mut self.form {
            Form::Undecided(lines) | Form::Lines(lines) => {
                lines.push(chunk, each);
                Ok(())
            }
            Form::Elements(elements) => elements.push(chunk, each),
        }
    }

    /// Ends the body and hands out a last line without newline.
    ///
    /// # Errors
    /// As [`ArrayElements::finish`]; lines never fail, and a body of white space has no records.
    pub fn finish(
        mut self,
        mut each: impl FnMut(u64, Result<&[u8], Problem>),
    ) -> Result<(), Problem> {
        let (begun, _) = BYTE_ORDER_MARK.split_at(self.marked.unwrap_or(0));
        self.split(begun, &mut each)?;
        match self.form {
            Form::Undecided(lines) | Form::Lines(lines) => {
                lines.finish(&mut each);
                Ok(())
            }
            Form::Elements(elements) => elements.finish(),
        }
    }
}
