//! One part of a log on its way: its lines are sent, and sent again, until each is counted, refused or left for later.
//!
//! Invariant: lines that are sent were noted before, with their key; all lines of a counter are in one body, because a
//! key belongs to each counter.

use std::collections::BTreeMap;

use tally_logs::reader::{LogReader, ReadPart, Rewrite};

use crate::bits::Bits;
use crate::host::ImportHost;
use crate::note::{Note, Sent};
use crate::options::CountSettings;
use crate::report::IngestReport;
use crate::totals::{ShownLine, Totals};

/// Codes of lines that another body may count, under the same key: their counters had no room, or did not answer.
const AGAIN: [&str; 3] = ["too-many-counters", "unavailable", "overloaded"];
const AGAIN_MAX: u32 = 50;
const AGAIN_PAUSE_MS: i64 = 500;

/// Codes of lines that a later run may count. All others are refused for what they are.
const LATER: [&str; 5] = [
    "clock-skew",
    "quota-exceeded",
    "rate-limited",
    "unauthorized",
    "forbidden",
];

/// Lines may be 5 s ahead of the server's clock (`CLOCK_SKEW_MS`), which is known by less than a second.
const AHEAD_MS_MAX: i64 = 4_000;
const AHEAD_PATIENCE_MS: i64 = 60_000;
const LOOK_MS: i64 = 1_000;

/// Of so many counters at least one must still be there, or the deployment is another one than the note is of.
const WITNESSES: usize = 5;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this body under this key, and say what became of it.
    Send {
        /// The key.
        key: String,
        /// The body.
        body: String,
    },
    /// Come again after that time. Others may use the turn meanwhile, while so many lines stay in memory.
    Wait {
        /// How long.
        ms: i64,
        /// How many lines wait for the server's clock.
        held: u32,
    },
    /// All is done.
    Done,
}

/// What a part shares with the others of its file, and with those of other files.
pub struct PartContext<'a> {
    /// Files.
    pub host: &'a dyn ImportHost,
    /// What was done.
    pub totals: &'a mut Totals,
    /// How far the server's clock is from ours, once it has refused a line by it.
    pub offset_ms: &'a mut Option<i64>,
    /// The note of the file.
    pub note: &'a mut Note,
    /// How its lines are read.
    pub settings: &'a CountSettings,
    /// The hash of that, and of that in this version: another version may read what this one cannot.
    pub marks: &'a [String; 2],
    /// The file.
    pub file: &'a str,
    /// Whether it is followed.
    pub is_followed: bool,
    /// Whether it was said that its lines are ahead.
    pub is_late: &'a mut bool,
    /// Our clock, unix milliseconds.
    pub now_ms: i64,
    /// Whether the import ends.
    pub is_stopping: bool,
}

/// Lines of a body, and where each begins.
struct Lines {
    read: ReadPart,
    ends: Vec<usize>,
}

impl Lines {
    fn new(read: ReadPart) -> Self {
        let newlines = read
            .body
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n');
        let ends = newlines.map(|(at, _)| at).collect();
        Self { read, ends }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns some of the lines.
    fn text(&self, places: &[usize]) -> String {
        let line = |place: usize| {
            let from = place
                .checked_sub(1)
                .and_then(|before| self.ends.get(before));
            let (from, to) = (from.map_or(0, |end| end + 1), self.ends.get(place)?);
            self.read.body.get(from..*to)
        };
        if places.len() == self.len() {
            return self.read.body.trim_end_matches('\n').to_owned();
        }
        let lines: Vec<&str> = places.iter().filter_map(|place| line(*place)).collect();
        lines.join("\n")
    }

    fn number(&self, place: usize) -> u32 {
        self.read.numbers.get(place).copied().unwrap_or_default()
    }

    fn at_ms(&self, place: usize) -> i64 {
        self.read.times.get(place).copied().unwrap_or_default()
    }

    fn bits(&self, places: &[usize]) -> Bits {
        Bits::of(places.iter().map(|place| self.number(*place)))
    }
}

struct Sending {
    /// The lines that an earlier run has sent; `None` for those of this run.
    old: Option<Lines>,
    key: String,
    places: Vec<usize>,
    tries: u32,
    ahead: Vec<usize>,
    is_later: bool,
    pauses: bool,
}

/// A part on its way.
pub struct Work {
    start: u64,
    /// The hash of its bytes.
    content: String,
    /// How many lines the file has before it.
    lines_before: u64,
    /// What the format knew before it.
    state: String,
    lines: Lines,
    /// What an earlier run has sent of it.
    replay: Option<Lines>,
    left: Vec<usize>,
    sending: Option<Sending>,
    is_whole: bool,
    since_ms: Option<i64>,
    must_wait: bool,
}

/// Returns what a reader makes of bytes. Zeros are what a machine that failed left in place of bytes.
pub fn read(
    host: &dyn ImportHost,
    settings: &CountSettings,
    reader: &mut LogReader,
    bytes: &[u8],
) -> ReadPart {
    let rewrite = |path: &str| host.rewrite(&settings.rewrites, path);
    let rewrite: Option<Rewrite<'_>> = match settings.rewrites.is_empty() {
        true => None,
        false => Some(&rewrite),
    };
    match bytes.contains(&0) {
        true => {
            let bytes: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
            reader.read(&bytes, rewrite)
        }
        false => reader.read(bytes, rewrite),
    }
}

impl Work {
    /// Begins with a part that is noted, of which this was read.
    pub fn new(
        context: &mut PartContext<'_>,
        (start, bytes): (u64, &[u8]),
        lines_before: u64,
        state: String,
        read_part: ReadPart,
    ) -> Self {
        context.totals.read(&read_part, context.file, lines_before);
        let lines = Lines::new(read_part);
        let host = context.host;
        let known = context.note.part(start);
        let sent = known.as_ref().and_then(|part| part.sent.clone());
        let is_open = |place: &usize| {
            let number = lines.number(*place);
            known.as_ref().is_none_or(|part| !part.counted.has(number))
        };
        let left: Vec<usize> = (0..lines.len()).filter(is_open).collect();
        let before = lines.len() - left.len();
        context.totals.counted_before.lines += u64::try_from(before).unwrap_or_default();
        // An earlier run has sent them, and does not know what became of that: the same again.
        let replay = sent.and_then(|sent| {
            let mut reader = sent.settings.reader(&sent.state).ok()?;
            Some(Lines::new(read(host, &sent.settings, &mut reader, bytes)))
        });
        Self {
            start,
            content: host.digest(bytes),
            lines_before,
            state,
            lines,
            replay,
            left,
            sending: None,
            is_whole: true,
            since_ms: None,
            must_wait: false,
        }
    }

    /// Returns what is to be done next.
    pub fn step(&mut self, context: &mut PartContext<'_>) -> Step {
        if let Some(sending) = &mut self.sending {
            let ends = sending.places.is_empty()
                || sending.tries > AGAIN_MAX
                || (sending.tries > 0 && context.is_stopping);
            if !ends {
                if std::mem::take(&mut sending.pauses) {
                    return Step::Wait {
                        ms: AGAIN_PAUSE_MS,
                        held: 0,
                    };
                }
                return self.post();
            }
            self.end_sending(context);
        }
        if let Some(old) = self.replay.take()
            && let Some(sent) = self.sent(context)
        {
            let is_sent = |place: &usize| sent.lines.has(old.number(*place));
            let places = (0..old.len()).filter(is_sent).collect();
            return self.send(context, sent.key, Some(old), places);
        }
        self.send_what_is_left(context)
    }

    fn send_what_is_left(&mut self, context: &mut PartContext<'_>) -> Step {
        let is_waiting = self.since_ms.is_some();
        self.since_ms.get_or_insert(context.now_ms);
        if self.left.is_empty() || self.sent(context).is_some() {
            return self.finish(context);
        }
        if self.must_wait {
            self.must_wait = false;
            return self.wait(context);
        }
        if is_waiting && context.is_stopping {
            return self.finish(context);
        }
        let (offset_ms, now_ms) = (*context.offset_ms, context.now_ms);
        let is_ahead = |place: &usize| {
            let at_ms = self.lines.at_ms(*place);
            offset_ms.is_some_and(|offset_ms| at_ms - now_ms - offset_ms > AHEAD_MS_MAX)
        };
        let (held, ready): (Vec<usize>, Vec<usize>) =
            self.left.iter().partition(|place| is_ahead(place));
        if ready.is_empty() {
            return self.wait(context);
        }
        self.left = held;
        let counted = context
            .note
            .part(self.start)
            .map(|part| part.counted.clone());
        let counted = serde_json::to_string(&counted).unwrap_or_default();
        let about = &context.note.about;
        let named = [
            &about.file,
            "\n",
            &self.start.to_string(),
            "\n",
            &about.salt,
            &counted,
            "\n",
            &self.content,
        ];
        let key = ["import-", &context.host.digest(named.concat().as_bytes())].concat();
        if let Some(part) = context.note.part(self.start) {
            part.sent = Some(Sent {
                key: key.clone(),
                lines: self.lines.bits(&ready),
                settings: context.settings.clone(),
                state: self.state.clone(),
            });
        }
        self.send(context, key, None, ready)
    }

    fn sent(&self, context: &mut PartContext<'_>) -> Option<Sent> {
        context
            .note
            .part(self.start)
            .and_then(|part| part.sent.clone())
    }

    fn send(
        &mut self,
        context: &mut PartContext<'_>,
        key: String,
        old: Option<Lines>,
        places: Vec<usize>,
    ) -> Step {
        context.note.put(context.host, self.start);
        let is_any = !places.is_empty();
        self.sending = Some(Sending {
            old,
            key,
            places,
            tries: 0,
            ahead: Vec::new(),
            is_later: false,
            pauses: false,
        });
        match is_any {
            true => self.post(),
            false => self.step(context),
        }
    }

    fn post(&self) -> Step {
        let Some(sending) = &self.sending else {
            return Step::Done;
        };
        Step::Send {
            key: sending.key.clone(),
            body: sending
                .old
                .as_ref()
                .unwrap_or(&self.lines)
                .text(&sending.places),
        }
    }

    /// Takes what the service says of a body.
    pub fn answered(
        &mut self,
        context: &mut PartContext<'_>,
        report: &IngestReport,
        is_repeat: bool,
    ) {
        let Some(sending) = &mut self.sending else {
            return;
        };
        let lines = sending.old.as_ref().unwrap_or(&self.lines);
        learn(context, report, lines, &sending.places);
        let refused = report.codes(sending.places.len());
        let mut again = Vec::new();
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        let mut counted = Bits::default();
        for (index, place) in sending.places.iter().copied().enumerate() {
            let Some(code) = refused.get(&index).copied() else {
                counted.insert(lines.number(place));
                let counter = lines.read.counters.get(place).copied().unwrap_or_default();
                *counts.entry(counter).or_default() += 1;
                continue;
            };
            if code == "clock-skew" {
                sending.ahead.push(place);
            } else if AGAIN.contains(&code) && sending.tries < AGAIN_MAX {
                again.push(place);
            } else {
                // Nobody knows whether it was counted: it keeps its key.
                let is_kept = code == "unavailable";
                if is_kept {
                    again.push(place);
                } else if sending.old.is_some() {
                    // It is sent again by itself, and judged then.
                    continue;
                }
                sending.is_later |= AGAIN.contains(&code) || LATER.contains(&code);
                context.totals.reject(code, 1);
                let line = self.lines_before + u64::from(lines.number(place)) + 1;
                show(context, report, (code, index), line);
            }
        }
        note_counts(context, &lines.read.ids, &counts, is_repeat);
        // Another body has room at once; what does not answer gets a while.
        sending.pauses = again.len() == sending.places.len() && sending.tries < AGAIN_MAX;
        sending.tries += 1;
        sending.places = again;
        let bits = lines.bits(&sending.places);
        if let Some(part) = context.note.part(self.start) {
            part.counted.add_behind(0, &counted);
            part.sent = part
                .sent
                .take()
                .filter(|_| !bits.is_empty())
                .map(|sent| Sent {
                    lines: bits,
                    ..sent
                });
        }
        context.note.put(context.host, self.start);
    }

    fn end_sending(&mut self, context: &mut PartContext<'_>) {
        let Some(sending) = self.sending.take() else {
            return;
        };
        if sending.old.is_some() {
            let (counted, sent) = context
                .note
                .part(self.start)
                .map(|part| (part.counted.clone(), part.sent.clone()))
                .unwrap_or_default();
            let lines = &self.lines;
            let is_sent = |number| sent.as_ref().is_some_and(|sent| sent.lines.has(number));
            self.left.retain(|place| {
                let number = lines.number(*place);
                !counted.has(number) && !is_sent(number)
            });
            return;
        }
        self.is_whole &= !sending.is_later;
        self.left.extend(sending.ahead);
        self.must_wait = !self.left.is_empty();
    }

    /// Waits until the first of the lines that are ahead may be there, if that is worth it. A log that is followed
    /// waits for as long as it takes, and any other for a minute.
    fn wait(&mut self, context: &mut PartContext<'_>) -> Step {
        let times = self.left.iter().map(|place| self.lines.at_ms(*place));
        let (first, last) = (
            times.clone().min().unwrap_or_default(),
            times.max().unwrap_or_default(),
        );
        let clock_ms = context.now_ms + context.offset_ms.unwrap_or_default();
        let due_ms = context
            .offset_ms
            .map_or(LOOK_MS, |_| first - clock_ms - AHEAD_MS_MAX);
        let ahead_ms = last - clock_ms;
        let since_ms = self.since_ms.unwrap_or(context.now_ms);
        let left_ms = since_ms + AHEAD_PATIENCE_MS - context.now_ms;
        let is_waiting = context.is_followed || due_ms <= left_ms;
        context.totals.ahead_ms = context.totals.ahead_ms.max(ahead_ms);
        if (left_ms <= 0 || !is_waiting) && !*context.is_late {
            *context.is_late = true;
            let what = match is_waiting {
                true => "wait until it is there",
                false => "are left for the next run",
            };
            let tenths = ahead_ms / 100;
            context.host.note(&format!(
                "lines of {} are {}.{} s ahead of the server's clock, and {what}: compare the clocks of both machines",
                context.file,
                tenths / 10,
                tenths % 10
            ));
        }
        if !is_waiting {
            return self.finish(context);
        }
        Step::Wait {
            ms: due_ms.clamp(LOOK_MS / 20, LOOK_MS),
            held: u32::try_from(self.left.len()).unwrap_or(u32::MAX),
        }
    }

    fn finish(&mut self, context: &mut PartContext<'_>) -> Step {
        if let Some(first) = self.left.first() {
            let lines = u64::try_from(self.left.len()).unwrap_or_default();
            let (code, why) = match self.sent(context) {
                Some(_) => (
                    "unavailable",
                    "unavailable: lines sent before it have no answer yet",
                ),
                None => (
                    "clock-skew",
                    "clock-skew: it is ahead of the server's clock",
                ),
            };
            context.totals.reject(code, lines);
            let shown = ShownLine {
                file: context.file.to_owned(),
                line: self.lines_before + u64::from(self.lines.number(*first)) + 1,
                why: why.to_owned(),
                text: String::new(),
            };
            context.totals.show_refused(code, shown);
        } else if self.is_whole {
            let mark = &context.marks[usize::from(self.lines.read.unreadable > 0)];
            if let Some(part) = context
                .note
                .part(self.start)
                .filter(|part| part.sent.is_none())
            {
                part.settled = Some(mark.clone());
            }
        }
        context.note.put(context.host, self.start);
        Step::Done
    }
}

/// Takes the server's clock from what it says of lines that are ahead of it.
fn learn(context: &mut PartContext<'_>, report: &IngestReport, lines: &Lines, places: &[usize]) {
    for (index, ahead_ms) in report.ahead() {
        if let Some(place) = places.get(index) {
            *context.offset_ms = Some(lines.at_ms(*place) - ahead_ms - context.now_ms);
        }
    }
}

fn show(
    context: &mut PartContext<'_>,
    report: &IngestReport,
    (code, index): (&str, usize),
    line: u64,
) {
    let shown = ShownLine {
        file: context.file.to_owned(),
        line,
        why: report.reason(code, index),
        text: String::new(),
    };
    context.totals.show_refused(code, shown);
}

/// Notes the counts of counters, for the summary, and some of the counters as witnesses.
fn note_counts(
    context: &mut PartContext<'_>,
    ids: &[String],
    counts: &BTreeMap<u32, u64>,
    is_repeat: bool,
) {
    let lines: u64 = counts.values().sum();
    match is_repeat {
        true => context.totals.counted_before.lines += lines,
        false => context.totals.counted += lines,
    }
    let known = context.note.about.ids.len();
    for (counter, count) in counts {
        let id = usize::try_from(*counter)
            .ok()
            .and_then(|counter| ids.get(counter));
        let Some(id) = id else { continue };
        if !is_repeat {
            context.totals.count(id, *count);
        }
        let witnesses = &mut context.note.about.ids;
        if witnesses.len() < WITNESSES && !witnesses.contains(id) {
            witnesses.push(id.clone());
        }
    }
    if context.note.about.ids.len() > known {
        context.note.note_about(context.host);
    }
    context.totals.forget();
}
