//! An import of logs: page views out of files, each line once.
//!
//! Life of a file: bytes are looked at until they say what it is ([`Import::look`], [`Import::begin`]), then pushed
//! ([`Import::push`]) and taken as parts ([`Import::next`]), each of which goes its own way ([`Import::step`],
//! [`Import::answered`]).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tally_logs::formats::{LogFormat, detect};
use tally_logs::text::{BYTE_ORDER_MARK, is_tar, is_utf16};

use crate::host::{Exit, Failure, ImportHost};
use crate::job::{Job, SAMPLE_BYTES, Shared};
use crate::notes::{self, Head, LogSource};
use crate::options::CountSettings;
use crate::part::Step;
use crate::report::IngestReport;
use crate::splitter::LogEnding;
use crate::totals::{Failed, Totals};

/// How many lines a format is known by.
const SAMPLE_LINES: usize = 50;

/// What is said of a text in UTF-16, behind its name.
const UTF16: &str = "is UTF-16, which is not read here: convert it by `iconv -f UTF-16 -t UTF-8`";

/// Returns the failure of a file that holds no lines of text, by its first bytes: UTF-16 or a tar archive.
pub(crate) fn no_lines(name: &str, head: &[u8]) -> Option<Failure> {
    let why = if is_utf16(head) {
        UTF16
    } else if is_tar(head) {
        "is a tar archive, which is not read here: unpack it first (`tar -xf`), and import the files in it"
    } else {
        return None;
    };
    Some(Failure::new(Exit::Failed, format!("{name} {why}")))
}

/// What the caller asks of an import.
#[derive(Clone, Debug, Deserialize)]
pub struct Options {
    /// How lines are counted.
    pub settings: CountSettings,
    /// Whether files count again that were imported before.
    pub again: bool,
    /// The version of the command.
    pub version: String,
}

/// What is known of a file once it has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Its first lines do not say yet what it is; what should be known of that.
    Undecided,
    /// If none of these counters is there, the deployment has lost what was counted of it.
    Known(Vec<String>),
}

/// An import.
pub struct Import {
    options: Options,
    /// What was done.
    pub totals: Totals,
    offset_ms: Option<i64>,
    jobs: BTreeMap<u32, Job>,
    next: u32,
    told: Vec<String>,
}

/// Returns whether a file begins with a line that only an export of Tally has, by the first two fields of each kind of
/// line. The line may be longer than what is known of it.
fn is_export(head: &[u8]) -> bool {
    const FIELDS: [(&str, &str); 7] = [
        ("id", "value"),
        ("policy", "body"),
        ("policy", "override"),
        ("alert", "body"),
        ("board", "settings"),
        ("board", "member"),
        ("end", "counters"),
    ];
    FIELDS.iter().any(|(first, second)| {
        let begin = format!("{{\"{first}\":");
        let rest = head.strip_prefix(begin.as_bytes()).unwrap_or_default();
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        values.next().is_some_and(|value| value.is_ok())
            && rest
                .get(values.byte_offset()..)
                .is_some_and(|rest| rest.starts_with(format!(",\"{second}\":").as_bytes()))
    })
}

/// Returns the format of the log that begins with these bytes; `None` where no format fits.
pub fn format_of(head: &[u8]) -> Option<LogFormat> {
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
}

impl Import {
    /// Returns an import.
    ///
    /// # Errors
    /// A failure of usage for settings that cannot be read.
    pub fn new(options: Options) -> Result<Self, Failure> {
        options.settings.reader("")?;
        Ok(Self {
            options,
            totals: Totals::new(),
            offset_ms: None,
            jobs: BTreeMap::new(),
            next: 1,
            told: Vec::new(),
        })
    }

    /// Opens a source, and returns its number.
    pub fn open(&mut self, source: LogSource, is_followed: bool) -> u32 {
        let number = self.next;
        self.next += 1;
        self.jobs.insert(number, Job::new(source, is_followed));
        number
    }

    /// Takes bytes of the beginning of a file. Returns whether they are enough to begin.
    pub fn look(&mut self, job: u32, bytes: &[u8]) -> bool {
        self.jobs.get_mut(&job).is_some_and(|job| job.look(bytes))
    }

    /// Finds the format of a file, and what earlier runs have done of it. `is_new`: it took the place of another one.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn begin(
        &mut self,
        host: &dyn ImportHost,
        number: u32,
        is_new: bool,
    ) -> Result<Begun, Failure> {
        let Some(mut job) = self.jobs.remove(&number) else {
            return Ok(Begun::Undecided);
        };
        let begun = self.begin_job(host, &mut job, is_new);
        self.jobs.insert(number, job);
        begun
    }

    fn begin_job(
        &mut self,
        host: &dyn ImportHost,
        job: &mut Job,
        is_new: bool,
    ) -> Result<Begun, Failure> {
        let name = job.source.name.clone();
        let is_growing = job.is_growing();
        if is_growing && !job.head.contains(&b'\n') {
            return Ok(Begun::Undecided);
        }
        let Some(format) = self.format(host, &name, &job.head, is_growing)? else {
            return Ok(Begun::Undecided);
        };
        job.settings = CountSettings {
            format: format.name().to_owned(),
            ..self.options.settings.clone()
        };
        let mark = host.digest(&serde_json::to_vec(&job.settings).unwrap_or_default());
        let of_version = host.digest([&mark, "\n", &self.options.version].concat().as_bytes());
        job.marks = [mark, of_version];
        let is_again = self.options.again && !is_new;
        let head = Head {
            bytes: &job.head,
            hole: job.hole,
            is_growing,
        };
        let Some(found) = notes::find(host, &job.source, head, is_new || is_again) else {
            return Ok(Begun::Undecided);
        };
        job.note = found.note;
        if is_again {
            job.note.about.salt = host.unique();
            job.note.about.ids = Vec::new();
            job.note.note_about(host);
            job.note.forget(host, 0);
        } else if let Some(twin) = found.twin {
            let end = job.note.parts.last().map_or(0, |part| part.end);
            let bytes = job.source.bytes.filter(|_| job.source.kind.is_none());
            self.totals.counted_before.bytes += end.min(bytes.unwrap_or(end));
            let why = format!(
                "{name} begins with the same bytes as {twin}, which was imported: nothing of it is counted. If it is \
                 a log of its own, import it by itself with --again; a copy needs nothing"
            );
            return Err(Failure::new(Exit::Partly, why));
        }
        *self.totals.formats.entry(format.name()).or_default() += 1;
        Ok(Begun::Known(job.note.about.ids.clone()))
    }

    /// Returns the format of a file; `None` where its first lines do not say it yet.
    fn format(
        &mut self,
        host: &dyn ImportHost,
        name: &str,
        head: &[u8],
        is_growing: bool,
    ) -> Result<Option<LogFormat>, Failure> {
        // A named format does not make these readable.
        if let Some(failure) = no_lines(name, head) {
            return Err(failure);
        }
        let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
        if text.iter().all(u8::is_ascii_whitespace) && !is_growing {
            let what = match head {
                [] => "is empty",
                _ if text.is_empty() => "holds a byte order mark alone",
                _ => "holds blank lines alone",
            };
            return Err(Failure::new(Exit::Partly, format!("{name} {what}")));
        }
        let named = match self.options.settings.format.as_str() {
            "" => None,
            _ => Some(self.options.settings.log_format()?),
        };
        if let Some(format) = named.or(format_of(text)) {
            return Ok(Some(format));
        }
        let why = |why: String| Err(Failure::new(Exit::Failed, [name, &why].concat()));
        if is_export(text) {
            let message = format!("{name} is an export of Tally: import it with --format tally");
            return Err(Failure::new(Exit::Usage, message));
        }
        if is_growing && head.len() < SAMPLE_BYTES {
            if !self.told.iter().any(|told| told == name) {
                self.told.push(name.to_owned());
                host.note(&format!("{name}: no format fits its first lines so far"));
            }
            return Ok(None);
        }
        if !text.contains(&b'\n') && text.contains(&b'\r') {
            return why(
                ": its lines end in carriage returns alone; convert it by `tr '\\r' '\\n'`"
                    .to_owned(),
            );
        }
        let known = LogFormat::ALL.map(LogFormat::name).join(", ");
        why(format!(
            ": no format fits its first lines; name it by --format ({known})"
        ))
    }

    /// Begins to take parts of a file; returns from where on its bytes are needed, if not behind those that were looked
    /// at. `is_gone`: nothing of what its note says is there any more.
    ///
    /// # Errors
    /// For settings that cannot be read.
    pub fn start(
        &mut self,
        host: &dyn ImportHost,
        number: u32,
        is_gone: bool,
    ) -> Result<Option<u64>, Failure> {
        let Some(job) = self.jobs.get_mut(&number) else {
            return Ok(None);
        };
        if is_gone {
            job.note.forget(host, 0);
        }
        let from = job.start(host)?;
        self.totals.counted_before.bytes += from.unwrap_or_default();
        Ok(from)
    }

    /// Returns the bytes before where a file goes on.
    pub fn tail(&self, number: u32) -> &[u8] {
        self.jobs.get(&number).map_or(&[], |job| &job.tail)
    }

    /// Takes bytes of a file.
    pub fn push(&mut self, number: u32, bytes: &[u8]) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.splitter.push(bytes);
        }
    }

    /// Says how the bytes of a file end so far.
    pub fn ends(&mut self, number: u32, ending: LogEnding) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.splitter.ends(ending);
        }
    }

    /// Returns the number of the next part of a file; `None` where more bytes are needed.
    ///
    /// # Errors
    /// For what is no log.
    pub fn next(&mut self, host: &dyn ImportHost, number: u32) -> Result<Option<u32>, Failure> {
        let Some(job) = self.jobs.get_mut(&number) else {
            return Ok(None);
        };
        let mut shared = Shared {
            host,
            totals: &mut self.totals,
            offset_ms: &mut self.offset_ms,
        };
        job.next(&mut shared)
    }

    fn with_work<T>(
        &mut self,
        (host, number, part): (&dyn ImportHost, u32, u32),
        (now_ms, is_stopping): (i64, bool),
        act: impl FnOnce(&mut crate::part::Work, &mut crate::part::PartContext<'_>) -> T,
    ) -> Option<T> {
        let job = self.jobs.get_mut(&number)?;
        let mut work = job.works.remove(&part)?;
        let mut shared = Shared {
            host,
            totals: &mut self.totals,
            offset_ms: &mut self.offset_ms,
        };
        let mut context = job.context(&mut shared, now_ms, is_stopping);
        let done = act(&mut work, &mut context);
        job.works.insert(part, work);
        Some(done)
    }

    /// Returns what is to be done next for a part.
    pub fn step(&mut self, of: (&dyn ImportHost, u32, u32), now: (i64, bool)) -> Step {
        let step = self.with_work(of, now, |work, context| work.step(context));
        let step = step.unwrap_or(Step::Done);
        if step == Step::Done
            && let Some(job) = self.jobs.get_mut(&of.1)
        {
            job.works.remove(&of.2);
        }
        step
    }

    /// Takes what the service says of the body of a part.
    pub fn answered(
        &mut self,
        of: (&dyn ImportHost, u32, u32),
        now_ms: i64,
        report: &IngestReport,
        is_repeat: bool,
    ) {
        self.with_work(of, (now_ms, false), |work, context| {
            work.answered(context, report, is_repeat);
        });
    }

    /// Ends a file. Of one that was followed, says so if it no longer has what was read of it. `is_whole`: all that was
    /// to come of it came.
    pub fn close(&mut self, host: &dyn ImportHost, number: u32, is_whole: bool) {
        let Some(job) = self.jobs.remove(&number) else {
            return;
        };
        if is_whole {
            let (unsent, is_unfinished) = job.splitter.rest();
            self.totals.unsent += unsent;
            self.totals.unfinished += u64::from(is_unfinished);
        }
        if job.is_followed && is_whole {
            let length = u64::try_from(job.tail.len()).unwrap_or_default();
            let tail = host.tail(job.source.number, job.end, length);
            if tail.as_ref() != Some(&job.tail) {
                notes::cut(host, job.note);
            }
        }
    }

    /// Adds a file that could not be read, or not to its end.
    pub fn fail(&mut self, file: &str, why: &str) {
        self.totals.failed.push(Failed {
            file: file.to_owned(),
            why: why.to_owned(),
        });
    }
}
