//! Lists of other counters: of CountAPI's and Abacus's `namespace/key`, with values.
//!
//! A list is JSON (`{"site/visits": 12}`, or an array of objects with `namespace`, `key`, `value`, or an object a
//! line), CSV, cells between tabs, or a line each: `site/visits 12`.
//!
//! Invariant: a value is kept whole, or its line is named. What is unclear is refused: `views 1,234` is 1,234 views, or
//! 234 of `views 1`.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::host::{Exit, Failure};
use crate::import::no_lines;

/// How many lines a cell of CSV may have: a quote that nobody closes would otherwise take in all that follows.
const CELL_LINES_MAX: usize = 100;

/// What columns of names are called.
const NAMES: [&str; 8] = [
    "namespace",
    "ns",
    "key",
    "name",
    "id",
    "counter",
    "path",
    "page",
];

/// What columns of values are called. A list has one, its last.
const VALUES: [&str; 7] = [
    "value", "count", "hits", "visits", "views", "total", "number",
];

/// A counter of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its value, a whole number.
    pub value: String,
    /// The line.
    pub line: u64,
}

/// A line that cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// The line.
    pub line: u64,
    /// Why.
    pub why: String,
}

/// What a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherCounters {
    /// Its counters.
    pub counters: Vec<Listed>,
    /// Its other lines.
    pub refused: Vec<Unlisted>,
    known: HashMap<String, u64>,
}

#[derive(Deserialize, Default)]
struct Named<'a> {
    #[serde(borrow, default)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow, default)]
    key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    count: Option<&'a RawValue>,
}

/// The entries of an object in their order, each as often as it stands there.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Entries<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// Returns the text of a JSON string; `None` for anything else.
fn string(json: Option<&RawValue>) -> Option<String> {
    json.and_then(|json| serde_json::from_str(json.get()).ok())
}

/// Returns a number of JSON, or the text of a string, as it stands there: it may be larger than other readers take.
fn plain(json: Option<&RawValue>) -> String {
    string(json).unwrap_or_else(|| json.map_or("", RawValue::get).to_owned())
}

/// Returns the beginning of a name without the address that it was counted at.
fn without_address(name: &str) -> &str {
    let rest = name
        .strip_prefix("https://")
        .or(name.strip_prefix("http://"));
    let path = rest
        .and_then(|rest| rest.split_once('/'))
        .map(|(_, path)| path);
    let key = path.and_then(|path| {
        ["hit/", "get/", "info/"]
            .iter()
            .find_map(|call| path.strip_prefix(call))
    });
    key.unwrap_or(name)
}

/// Returns a whole number in the one way to write it.
pub(crate) fn whole(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or(("", text), |digits| ("-", digits));
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let kept = digits.trim_start_matches('0');
    is_whole.then(|| match kept {
        "" => "0".to_owned(),
        kept => [sign, kept].concat(),
    })
}

impl OtherCounters {
    /// Reads a list.
    ///
    /// # Errors
    /// For JSON that cannot be read, and a tar archive.
    pub fn read(text: &str) -> Result<Self, Failure> {
        if let Some(failure) = no_lines("the list", text.as_bytes()) {
            return Err(failure);
        }
        let mut list = Self::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match text.trim_start().chars().next() {
            Some('{' | '[') => list.json(text)?,
            _ => list.lines(text),
        }
        Ok(list)
    }

    fn refuse(&mut self, line: u64, why: String) {
        self.refused.push(Unlisted { line, why });
    }

    fn add(&mut self, id: Option<String>, value: &str, shown: &str, line: u64) {
        let name = id.as_deref().map_or("", without_address).to_owned();
        let quoted = format!("{:?}", id.unwrap_or_default());
        if name.contains(char::REPLACEMENT_CHARACTER) {
            return self.refuse(line, format!("{quoted}: the name is not UTF-8"));
        }
        if name.is_empty() {
            return self.refuse(line, format!("line {line} is no counter with its number"));
        }
        let Some(value) = whole(value) else {
            return self.refuse(line, format!("{quoted}: {shown} is no whole number"));
        };
        if let Some(other) = self.known.get(&name) {
            let why = format!("{quoted} has a value in line {other} too");
            return self.refuse(line, why);
        }
        self.known.insert(name.clone(), line);
        self.counters.push(Listed {
            id: name,
            value,
            line,
        });
    }

    fn json(&mut self, text: &str) -> Result<(), Failure> {
        let read = match text.trim_start().starts_with('[') {
            true => serde_json::from_str::<Vec<&RawValue>>(text)
                .map(|all| all.into_iter().map(|one| (None, one)).collect()),
            false => serde_json::from_str::<Entries<'_>>(text).map(|all| {
                all.0
                    .into_iter()
                    .map(|(key, one)| (Some(key), one))
                    .collect::<Vec<_>>()
            }),
        };
        match read {
            Ok(all) => {
                // An object by itself may be the only line of its kind.
                let is_named = all.iter().any(|(key, _)| key.as_deref() == Some("value"))
                    && all
                        .iter()
                        .any(|(key, _)| matches!(key.as_deref(), Some("key" | "id" | "name")));
                match is_named.then(|| serde_json::from_str(text)) {
                    Some(Ok(named)) => self.named(None, &named, 1),
                    _ => {
                        // Each value is a part of the text, so its place says its line.
                        let (mut line, mut seen) = (1, 0);
                        for (key, one) in all {
                            let at = one.get().as_ptr().addr() - text.as_ptr().addr();
                            let between = text.get(seen..at).unwrap_or_default();
                            line +=
                                u64::try_from(between.matches('\n').count()).unwrap_or_default();
                            seen = at;
                            self.value(key, one, line);
                        }
                    }
                }
                Ok(())
            }
            Err(error) => self.json_lines(text, &error),
        }
    }

    fn json_lines(&mut self, text: &str, error: &serde_json::Error) -> Result<(), Failure> {
        let (first, rest) = text.trim_start().split_once('\n').unwrap_or_default();
        if !first.trim_end().ends_with('}') || rest.trim().is_empty() {
            return Err(Failure::new(
                Exit::Failed,
                format!("the list is no JSON: {error}"),
            ));
        }
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<&RawValue>(text) {
                Ok(one) => self.value(None, one, line),
                Err(error) => self.refuse(line, format!("line {line} is no JSON: {error}")),
            }
        }
        Ok(())
    }

    fn value(&mut self, key: Option<String>, one: &RawValue, line: u64) {
        match serde_json::from_str::<Named<'_>>(one.get()) {
            Ok(named) if one.get().starts_with('{') => self.named(key, &named, line),
            _ => self.add(key, &plain(Some(one)), one.get(), line),
        }
    }

    fn named(&mut self, key: Option<String>, named: &Named<'_>, line: u64) {
        let own = match (string(named.namespace), string(named.key)) {
            (Some(namespace), Some(key)) => Some([namespace, key].join("/")),
            (_, own) => own,
        };
        let id = string(named.id).or(string(named.name)).or(own);
        // What the key of an object is may be no name.
        let id = id.or(key.filter(|_| named.key.is_none()));
        let value = named.value.or(named.count);
        self.add(
            id,
            &plain(value),
            value.map_or("nothing", RawValue::get),
            line,
        );
    }

    fn lines(&mut self, text: &str) {
        let text = match text.contains('\n') {
            true => text.to_owned(),
            false => text.replace('\r', "\n"),
        };
        let lines: Vec<&str> = text
            .split('\n')
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .collect();
        let mut columns = None;
        let mut at = 0;
        while let Some(rest) = lines.get(at..).filter(|rest| !rest.is_empty()) {
            let (record, taken) = record(rest);
            let line = u64::try_from(at).unwrap_or(u64::MAX) + 1;
            at += taken;
            self.record(&record, line, &mut columns);
        }
    }

    fn record(&mut self, record: &str, line: u64, columns: &mut Option<usize>) {
        let is_comment = record
            .strip_prefix('#')
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if record.trim().is_empty() || is_comment {
            return;
        }
        let cells = cells_of(record);
        if columns.is_none()
            && self.known.is_empty()
            && let Some((last, names)) = cells.as_deref().and_then(<[String]>::split_last)
            && !last.contains(|sign: char| sign.is_ascii_digit())
        {
            let has = |words: &[&str]| names.iter().any(|name| is_in(words, name));
            if is_in(&VALUES, last) && names.iter().all(|name| is_in(&NAMES, name)) {
                *columns = Some(names.len() + 1);
                return;
            }
            if (has(&VALUES) || has(&NAMES)) && record.contains([',', '\t']) {
                // What its columns hold is not known, and no line has as many.
                *columns = Some(0);
            }
        }
        if *columns == Some(0) {
            let why = format!(
                "line {line}, {record:?}: write the columns of the name first, and the number in the last one"
            );
            return self.refuse(line, why);
        }
        let cells = cells.filter(|cells| match *columns {
            Some(columns) => cells.len() == columns,
            None => !is_unclear(record.trim()),
        });
        let Some((value, names)) = cells.as_deref().and_then(<[String]>::split_last) else {
            let why = format!(
                "line {line}, {record:?}: write the number without separators, and a cell with commas in quotes"
            );
            return self.refuse(line, why);
        };
        self.add(Some(names.join("/")), value, &format!("{value:?}"), line);
    }
}

/// Returns whether a cell is one of these words.
fn is_in(words: &[&str], cell: &str) -> bool {
    words
        .iter()
        .any(|word| word.eq_ignore_ascii_case(cell.trim()))
}

/// Returns the first record of lines, and how many lines it has: a cell in quotes may have more than one.
fn record(lines: &[&str]) -> (String, usize) {
    let first = lines.first().copied().unwrap_or_default();
    for length in 1..=lines.len().min(CELL_LINES_MAX) {
        let text = lines.get(..length).unwrap_or_default().join("\n");
        let delimiter = if text.contains('\t') { '\t' } else { ',' };
        match quoted_cells(&text, delimiter) {
            Quoted::Open => {}
            Quoted::Cells(cells) if cells.len() > 1 => return (text, length),
            _ => break,
        }
    }
    (first.to_owned(), 1)
}

enum Quoted {
    Cells(Vec<String>),
    /// A quote is not closed.
    Open,
    /// Something follows a closing quote.
    Wrong,
}

/// Returns the cells of a record (RFC 4180).
fn quoted_cells(record: &str, delimiter: char) -> Quoted {
    let mut cells = Vec::new();
    let mut rest = record;
    loop {
        let Some(mut quoted) = rest.strip_prefix('"') else {
            match rest.split_once(delimiter) {
                Some((cell, after)) => {
                    cells.push(cell.to_owned());
                    rest = after;
                    continue;
                }
                None => {
                    cells.push(rest.to_owned());
                    return Quoted::Cells(cells);
                }
            }
        };
        let mut cell = String::new();
        loop {
            let Some((text, after)) = quoted.split_once('"') else {
                return Quoted::Open;
            };
            cell += text;
            quoted = after;
            match quoted.strip_prefix('"') {
                Some(after) => {
                    cell.push('"');
                    quoted = after;
                }
                None => break,
            }
        }
        cells.push(cell);
        match quoted.strip_prefix(delimiter) {
            Some(after) => rest = after,
            None if quoted.trim().is_empty() => return Quoted::Cells(cells),
            None => return Quoted::Wrong,
        }
    }
}

/// Returns the cells of a record; `None` where its quotes cannot be read.
fn cells_of(record: &str) -> Option<Vec<String>> {
    if record.contains('\t') {
        return Some(match quoted_cells(record, '\t') {
            Quoted::Cells(cells) => cells,
            Quoted::Open | Quoted::Wrong => record.split('\t').map(str::to_owned).collect(),
        });
    }
    if record.contains(',') {
        return match quoted_cells(record, ',') {
            Quoted::Cells(cells) => Some(cells),
            Quoted::Open | Quoted::Wrong => None,
        };
    }
    let text = record.trim();
    Some(match text.rsplit_once(char::is_whitespace) {
        Some((name, value)) => vec![name.trim_end().to_owned(), value.to_owned()],
        None => vec![record.to_owned()],
    })
}

/// Returns whether a line ends in a number with separators, such as `1,234`.
fn is_unclear(line: &str) -> bool {
    let signs: Vec<char> = line.chars().collect();
    let mut rest = signs.as_slice();
    let is_separator = |sign: char| ",.'\u{2019} \u{a0}\u{202f}".contains(sign);
    while let [before @ .., separator, a, b, c] = rest
        && is_separator(*separator)
        && [a, b, c].iter().all(|sign| sign.is_ascii_digit())
    {
        rest = before;
        let digits = rest
            .iter()
            .rev()
            .take_while(|sign| sign.is_ascii_digit())
            .count();
        let lead = rest.get(..rest.len() - digits).unwrap_or_default();
        let lead = lead
            .strip_suffix(&['+'])
            .or(lead.strip_suffix(&['-']))
            .unwrap_or(lead);
        let is_led = lead
            .last()
            .is_some_and(|sign| *sign == ',' || sign.is_whitespace());
        if (1..=3).contains(&digits) && is_led {
            return true;
        }
    }
    false
}
