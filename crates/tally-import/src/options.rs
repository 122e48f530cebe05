//! What the caller asks of an import, and what is wrong with it.

use serde::{Deserialize, Serialize};
use tally_logs::fields::LogField;
use tally_logs::filter::{Filter, Paths, Statuses};
use tally_logs::formats::{LogFormat, LogLines};
use tally_logs::reader::{CountingRule, LogReader};
use tally_logs::user_agent::Agents;

use crate::host::{Exit, Failure};

/// The most bytes of an id, as the service has it (`ID_BYTES_MAX`).
const ID_BYTES_MAX: usize = 512;

/// The rules of `--paths`.
const PATH_RULES: &str = "keep, strip, add";

/// How lines of a log are counted: what the note of a part says they were left out by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountSettings {
    /// The name of the format; empty where it is found out.
    #[serde(default)]
    pub format: String,
    /// `200-299,304` or `any`.
    pub status: String,
    /// `GET,HEAD` or `any`.
    pub method: String,
    /// Whether programs count too.
    pub bots: bool,
    /// Whether what pages load counts too.
    pub statics: bool,
    /// `keep`, `strip` or `add`.
    pub paths: String,
    /// Expressions and what takes their place.
    pub rewrites: Vec<(String, String)>,
    /// Whether the query is no part of an id.
    pub strip_query: bool,
    /// What stands before each id.
    pub prefix: String,
    /// The counter of all lines.
    #[serde(default)]
    pub site: Option<String>,
    /// Dimensions.
    pub by: Vec<String>,
    /// `ip` or `none`.
    #[serde(default)]
    pub unique: Option<String>,
}

fn refused(option: &str, value: &str, why: &str) -> Failure {
    let message = format!("--{option} {value:?} {why}");
    Failure::new(Exit::Usage, message)
}

/// Returns what is wrong with a text that becomes an id, or the beginning of one.
fn unfit(text: &str, bytes_max: usize) -> Option<String> {
    match text {
        _ if text.len() > bytes_max => Some(format!(
            "is {} bytes long: an id has {ID_BYTES_MAX} at most",
            text.len()
        )),
        _ if text.chars().any(char::is_control) => {
            Some("has control characters, which no id may have".to_owned())
        }
        _ => None,
    }
}

impl CountSettings {
    /// Returns a reader of a log whose lines before led to `state`. Without a format it is one of Common Log Format.
    ///
    /// # Errors
    /// A failure of usage that names the option and its value.
    pub fn reader(&self, state: &str) -> Result<LogReader, Failure> {
        let by = match self.by.as_slice() {
            [] => Vec::new(),
            names => LogField::list(&names.join(",")).ok_or_else(|| {
                let known = LogField::ALL.map(LogField::name).join(", ");
                let why = format!("is no list of dimensions: some of {known}, each once");
                refused("by", &names.join(","), &why)
            })?,
        };
        let site = self
            .site
            .as_deref()
            .map(|site| match unfit(site, ID_BYTES_MAX) {
                None if site.is_empty() => {
                    Some("is empty: name the counter of the site".to_owned())
                }
                why => why,
            });
        if let Some(why) = site.flatten() {
            return Err(refused(
                "site",
                self.site.as_deref().unwrap_or_default(),
                &why,
            ));
        }
        // An id has at least one byte more.
        if let Some(why) = unfit(&self.prefix, ID_BYTES_MAX - 1) {
            return Err(refused("prefix", &self.prefix, &why));
        }
        let statuses = Statuses::parse(&self.status).ok_or_else(|| {
            let why = "is no list of statuses: write it as 200-299,304";
            refused("status", &self.status, why)
        })?;
        let paths = Paths::named(&self.paths)
            .ok_or_else(|| refused("paths", &self.paths, &format!("is not known: {PATH_RULES}")))?;
        Ok(LogReader {
            lines: LogLines::new(self.log_format()?, state),
            filter: Filter {
                statuses,
                methods: self.methods()?,
                bots: self.bots,
                statics: self.statics,
                agents: Agents::default(),
            },
            counting: CountingRule {
                paths,
                strips_query: self.strip_query,
                prefix: self.prefix.clone(),
                site: self.site.clone(),
                by,
                unique: self.unique.as_deref() == Some("ip"),
            },
        })
    }

    /// Returns the format; that of most logs where none is named.
    ///
    /// # Errors
    /// A failure of usage for a format that is not known.
    pub fn log_format(&self) -> Result<LogFormat, Failure> {
        let name = if self.format.is_empty() {
            "clf"
        } else {
            &self.format
        };
        LogFormat::named(name)
            .ok_or_else(|| refused("format", name, &format!("is not known: {}", formats())))
    }

    /// Returns the methods, in upper case; none of them for any.
    fn methods(&self) -> Result<Vec<String>, Failure> {
        if self.method == "any" {
            return Ok(Vec::new());
        }
        let is_method = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        };
        let names: Vec<String> = self
            .method
            .split(',')
            .map(str::to_ascii_uppercase)
            .collect();
        match names.iter().all(|name| is_method(name)) {
            true => Ok(names),
            false => {
                let why = "is no list of methods: write it as GET,POST, or any";
                Err(refused("method", &self.method, why))
            }
        }
    }
}

/// Returns the names of all formats, and their other names.
pub fn formats() -> String {
    let names = LogFormat::ALL.map(LogFormat::name);
    let aliases = LogFormat::ALIASES.map(|(alias, _)| alias);
    [names.join(", "), aliases.join(", ")].join(", ")
}
