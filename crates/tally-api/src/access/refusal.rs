//! Refusals of a configuration that cannot be used. They show no text of it that may be a key.

use serde_json::error::Category;

use super::key::KEY_BYTES_MIN;
use tally_wire::problem::{Code, Problem};

pub(super) const HOW_TO_SET_KEYS: &str = "Set the secret TALLY_KEYS to JSON such as \
    {\"keys\":[{\"key\":\"<at least 16 random characters>\",\"scopes\":[\"admin\"]}],\"public\":[]}: \
    with `npx wrangler secret put TALLY_KEYS -c wrangler.jsonc` for a deployed Worker, as a file by \
    `tally serve --keys <file>`, or as the environment variable TALLY_KEYS of `make serve`.";

pub(super) fn check_count(path: &str, count: usize, max: usize) -> Result<(), Problem> {
    if count > max {
        return Err(wrong(format!(
            "{path} has {count} entries, at most {max} are allowed"
        )));
    }
    Ok(())
}

/// A text of the configuration for a refusal: hidden if it is long enough to be a key.
pub(super) fn named(text: &str) -> String {
    if text.len() < KEY_BYTES_MIN {
        format!(" `{text}`")
    } else {
        String::new()
    }
}

pub(super) fn wrong(what: impl std::fmt::Display) -> Problem {
    Problem::new(
        Code::NotConfigured,
        format!("TALLY_KEYS cannot be used: {what}. {HOW_TO_SET_KEYS}"),
    )
}

/// Says what is wrong with JSON that does not have the shape of the configuration. The reader's messages about syntax
/// are used as they are. Its messages about data quote the text. So only the part after the last ", expected " and
/// names of known fields are used from them.
pub(super) fn unreadable(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(message, _)| message);
    let what = match error.classify() {
        Category::Data => about_data(text),
        Category::Syntax | Category::Eof | Category::Io => format!("it is not JSON: {text}"),
    };
    wrong(format!("{what} (line {line}, column {column})"))
}

fn about_data(text: &str) -> String {
    if text.starts_with("missing field") || text.starts_with("duplicate field") {
        return text.to_owned();
    }
    let expected = text
        .rsplit_once(", expected ")
        .map_or("", |(_, expected)| expected);
    match text
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once('`'))
    {
        Some((field, _)) => format!("unknown field{}, expected {expected}", named(field)),
        None => format!("a value has the wrong type, expected {expected}"),
    }
}
