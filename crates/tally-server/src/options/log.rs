//! The log: a line on standard error for each event.
//!
//! Invariant: what ends the start is no event. It is said whatever the level is.

use std::fmt;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, fmt};
use tracing_subscriber::registry::LookupSpan;

/// How a line is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// `serve: `, the level if it is an error or a warning, and the sentence.
    Text,
    /// JSON with `timestamp`, `level` and `message`.
    Json,
}

/// Begins the log of this process.
pub(super) fn begin(least: LevelFilter, format: LogFormat) {
    // By default `eprintln!` reports a line that cannot be written, and panics for the same reason.
    let lines = fmt()
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let lines = lines.with_max_level(least);
    // It fails only where a log has begun already.
    let _ = match format {
        LogFormat::Text => lines.event_format(Sentence).try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_target(false)
            .try_init(),
    };
}

struct Sentence;

impl<S, N> FormatEvent<S, N> for Sentence
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(match *event.metadata().level() {
            Level::ERROR => "serve: error: ",
            Level::WARN => "serve: warning: ",
            _ => "serve: ",
        })?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
