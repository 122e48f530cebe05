//! Summaries for people.

use tally_logs::filter::Reason;

use crate::totals::Totals;
use crate::values::Carried;

/// What a summary is shown with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// Whether words may be bold and yellow.
    pub has_colors: bool,
}

impl Screen {
    fn bold(self, text: &str) -> String {
        self.styled(text, 1, 22)
    }

    fn yellow(self, text: &str) -> String {
        self.styled(text, 33, 39)
    }

    fn styled(self, text: &str, on: u8, off: u8) -> String {
        match self.has_colors {
            true => format!("\u{1b}[{on}m{text}\u{1b}[{off}m"),
            false => text.to_owned(),
        }
    }
}

/// The modes that change what is there.
const MODES: &str = "--mode replace, --mode add";

/// Returns a number with separators.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with its noun, `1 line`, `2 lines`.
pub fn count(value: u64, noun: &str) -> String {
    let ending = if value == 1 { "" } else { "s" };
    [&number(value), " ", noun, ending].concat()
}

/// Returns why lines are left out, and how to count them all the same.
fn why(reason: &str) -> &'static str {
    match Reason::ALL.into_iter().find(|known| known.name() == reason) {
        Some(Reason::Status) => "--status excludes their status (--status any takes all)",
        Some(Reason::Method) => "--method excludes their method (--method any takes all)",
        Some(Reason::Static) => "they are files that pages load (--static)",
        Some(Reason::Bots) => "their user agents are programs' (--bots)",
        Some(Reason::Request) | None => "their clients asked for no page",
    }
}

/// How an import went.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// How long it took.
    pub seconds: f64,
    /// Whether it was interrupted.
    pub is_interrupted: bool,
    /// How many files it was of.
    pub files: u64,
}

impl Course {
    /// Returns how many lines a second that were.
    pub fn rate(self, lines: u64) -> u64 {
        let micros = std::time::Duration::from_secs_f64(self.seconds.max(0.001)).as_micros();
        let rate = u128::from(lines) * 1_000_000 / micros.max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

/// Returns the summary of an import of logs.
pub fn of_logs(totals: &Totals, course: Course, screen: Screen) -> String {
    let about = if totals.counters_exact { "" } else { "about " };
    let mut lines = vec![format!(
        "{} of {} counted, for {about}{}, in {:.2} s ({} lines/s)",
        screen.bold(&number(totals.counted)),
        count(totals.lines, "line"),
        count(totals.counters, "counter"),
        course.seconds,
        number(course.rate(totals.lines))
    )];
    if totals.lines == 0 && totals.others > 0 {
        let what = format!(
            "no request in {}: they are comments, or what a server notes besides requests. Caddy writes its requests with the directive `log`",
            count(totals.others, "line")
        );
        lines.push(screen.yellow(&what));
    }
    let before = totals.counted_before;
    if before.lines > 0 {
        let lines_before = count(before.lines, "line");
        lines.push(format!(
            "{lines_before} counted before, from this file or a copy of it, and not counted again"
        ));
    }
    if before.bytes > 0 {
        lines.push(format!(
            "{} at the beginning imported by an earlier run (--again counts them again)",
            count(before.bytes, "byte")
        ));
    }
    for (reason, left) in totals.left_out.iter().filter(|(_, left)| **left > 0) {
        lines.push(format!(
            "{} left out: {}",
            count(*left, "line"),
            why(reason)
        ));
    }
    lines.extend(not_counted(totals, screen));
    if totals.unfinished > 0 {
        let files = match totals.unfinished {
            1 => String::new(),
            files => format!(" ({files} files)"),
        };
        lines.push(format!(
            "the last line has no newline yet, and is left for the next run{files}"
        ));
    }
    if totals.unsent > 0 {
        lines.push(format!(
            "{} read and not sent",
            count(totals.unsent, "line")
        ));
    }
    let failed = u64::try_from(totals.failed.len()).unwrap_or_default();
    if failed > 0 && course.files > 1 {
        let files = count(course.files, "file");
        let what = format!(
            "{} of {files} could not be read, or not to the end",
            number(failed)
        );
        lines.push(screen.yellow(&what));
    }
    if course.is_interrupted {
        lines.push("interrupted: the same command continues from here".to_owned());
    }
    lines.extend(top(totals));
    lines.join("\n")
}

/// Returns what is said of lines that cannot be read, and of those that the service refused.
fn not_counted(totals: &Totals, screen: Screen) -> Vec<String> {
    let mut lines = Vec::new();
    let unread = totals.unread.first().filter(|_| totals.unreadable > 0);
    if let Some(first) = unread {
        lines.push(screen.yellow(&format!(
            "{} could not be read, such as line {} of {}: {}: {}",
            count(totals.unreadable, "line"),
            number(first.line),
            first.file,
            first.why,
            first.text
        )));
    }
    for (code, refused) in &totals.rejected {
        let shown = totals
            .refused
            .iter()
            .find(|shown| shown.why.starts_with(code.as_str()));
        let shown = shown.map(|shown| {
            format!(
                ", such as line {} of {}: {}",
                number(shown.line),
                shown.file,
                shown.why
            )
        });
        let shown = shown.unwrap_or_else(|| format!(": {code}"));
        lines.push(screen.yellow(&format!("{} refused{shown}", count(*refused, "line"))));
    }
    lines
}

/// Returns the counters that were counted most, as a table.
fn top(totals: &Totals) -> Vec<String> {
    let counts: Vec<String> = totals.top.iter().map(|top| number(top.count)).collect();
    let width = counts.iter().map(String::len).max().unwrap_or_default();
    let mut lines = vec![String::new(); usize::from(!counts.is_empty())];
    for (top, count) in totals.top.iter().zip(&counts) {
        lines.push(format!("{count:>width$}  {}", top.id).trim_end().to_owned());
    }
    lines
}

/// Returns the summary of an import of values.
pub fn of_values(carried: &Carried, seconds: f64, screen: Screen) -> String {
    let mut lines = vec![format!(
        "{}, {} with {}, {}, in {seconds:.2} s",
        [
            screen.bold(&number(carried.counters)),
            plural(carried.counters, " counter")
        ]
        .concat(),
        count(carried.boards, "board"),
        count(carried.members, "member"),
        match carried.policies {
            1 => "1 policy".to_owned(),
            policies => [&number(policies), " policies"].concat(),
        }
    )];
    if carried.alerts > 0 {
        lines.push(count(carried.alerts, "alert"));
    }
    if let Some(first) = carried.alerts_without_secret.first() {
        let without = u64::try_from(carried.alerts_without_secret.len()).unwrap_or(u64::MAX);
        let alerts = count(without, "alert");
        lines.push(screen.yellow(&format!(
            "{alerts} without a secret in the file, such as {first}: PUT each new one with a secret of yours"
        )));
    }
    match carried.present {
        0 => {}
        1 => lines.push(format!(
            "1 was there already, and was left as it is ({MODES})"
        )),
        present => {
            let present = number(present);
            lines.push(format!(
                "{present} were there already, and were left as they are ({MODES})"
            ));
        }
    }
    lines.extend(left_out(carried, screen));
    if carried.rejected > 0 {
        let first = carried.refused.first().map_or("", |first| first.get());
        lines.push(screen.yellow(&format!(
            "{} refused, such as: {first}",
            count(carried.rejected, "line")
        )));
    }
    lines.extend(carried.why.iter().map(|why| screen.yellow(why)));
    lines.join("\n")
}

/// Returns which keys and members of a Redis were left out. A board that lacks a member is a warning.
fn left_out(carried: &Carried, screen: Screen) -> Option<String> {
    let members = carried.left_out_members;
    let left: Vec<String> = [
        (carried.left_out.saturating_sub(members), "key"),
        (members, "member"),
    ]
    .into_iter()
    .filter(|(left, _)| *left > 0)
    .map(|(left, noun)| count(left, noun))
    .collect();
    if left.is_empty() {
        return None;
    }
    let shown = carried.left_out_keys.iter().take(3);
    let keys: Vec<String> = shown
        .map(|key| format!("{} ({})", key.id, key.why))
        .collect();
    let line = format!(
        "{} left out, such as: {}",
        left.join(" and "),
        keys.join(", ")
    );
    Some(match members {
        0 => line,
        _ => screen.yellow(&line),
    })
}

fn plural(value: u64, noun: &str) -> String {
    [noun, if value == 1 { "" } else { "s" }].concat()
}
