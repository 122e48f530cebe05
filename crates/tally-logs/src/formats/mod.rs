//! Formats of logs. Each module says what identifies a line of its format.
//!
//! | module | lines of |
//! |---|---|
//! | [`clf`] | Common and Combined Log Format: Apache, nginx and many others |
//! | [`caddy`] | Caddy |
//! | [`nginx_json`] | nginx, as JSON |
//! | [`logpush`] | Cloudflare Logpush |
//! | [`alb`] | AWS's load balancers |
//! | `w3c` | CloudFront and IIS |
//! | `goatcounter` | GoatCounter's export |

use std::borrow::Cow;

use crate::hit::{Hit, Unread};
use crate::prefix::carried;

pub mod alb;
pub mod caddy;
pub mod clf;
mod goatcounter;
pub mod logpush;
pub mod nginx_json;
mod w3c;

/// A format, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Cloudflare Logpush.
    Logpush,
    /// Caddy.
    Caddy,
    /// nginx, as JSON.
    NginxJson,
    /// AWS's load balancers.
    Alb,
    /// GoatCounter's export.
    Goatcounter,
    /// CloudFront, IIS, and others of the W3C's format.
    Cloudfront,
    /// Common and Combined Log Format.
    Clf,
}

impl LogFormat {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 7] = [
        Self::Logpush,
        Self::Caddy,
        Self::NginxJson,
        Self::Alb,
        Self::Goatcounter,
        Self::Cloudfront,
        Self::Clf,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logpush => "logpush",
            Self::Caddy => "caddy",
            Self::NginxJson => "nginx-json",
            Self::Alb => "alb",
            Self::Goatcounter => "goatcounter",
            Self::Cloudfront => "cloudfront",
            Self::Clf => "clf",
        }
    }

    /// Other names of formats: what people have is called after their server.
    pub const ALIASES: [(&'static str, Self); 7] = [
        ("nginx", Self::Clf),
        ("apache", Self::Clf),
        ("common", Self::Clf),
        ("combined", Self::Clf),
        ("elb", Self::Alb),
        ("w3c", Self::Cloudfront),
        ("iis", Self::Cloudfront),
    ];

    /// Returns the format of this name.
    pub fn named(name: &str) -> Option<Self> {
        let alias = Self::ALIASES.into_iter().find(|(alias, _)| *alias == name);
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .or(alias.map(|(_, format)| format))
    }
}

/// Lines of one log, in their order: names of columns are those of the last line that named some.
pub struct LogLines {
    format: LogFormat,
    w3c: w3c::Columns,
    goatcounter: goatcounter::RowNames,
    state: String,
}

impl LogLines {
    /// Returns a reader of lines, after those that led to this state.
    pub fn new(format: LogFormat, state: &str) -> Self {
        let mut lines = Self {
            format,
            w3c: w3c::Columns::default(),
            goatcounter: goatcounter::RowNames::default(),
            state: String::new(),
        };
        // A state is the last line that named columns, which names them again.
        let _ = lines.read(state.as_bytes());
        lines
    }

    /// What the format knows of the lines before: the last that named columns.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Returns the request of a line, without its newline; `None` for a line that is none, such as a comment.
    ///
    /// # Errors
    /// [`Unread`] that says what is missing.
    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<Option<Hit<'a>>, Unread> {
        match carried(line)? {
            Cow::Borrowed(line) => self.read_plain(line),
            Cow::Owned(line) => Ok(self.read_plain(&line)?.map(Hit::into_owned)),
        }
    }

    fn read_plain<'a>(&mut self, line: &'a [u8]) -> Result<Option<Hit<'a>>, Unread> {
        let hit = match self.format {
            LogFormat::Logpush => logpush::read(line),
            LogFormat::Caddy => caddy::read(line),
            LogFormat::NginxJson => nginx_json::read(line),
            LogFormat::Alb => alb::read(line),
            LogFormat::Goatcounter => self.goatcounter.read(line),
            LogFormat::Cloudfront => self.w3c.read(line),
            LogFormat::Clf => clf::read_plain(line).map(Some),
        };
        let names_columns = match self.format {
            LogFormat::Goatcounter => matches!(hit, Ok(None)),
            LogFormat::Cloudfront => line.starts_with(b"#Fields:"),
            _ => false,
        };
        if names_columns {
            self.state = String::from_utf8_lossy(line).into_owned();
        }
        hit
    }
}

/// Returns the format that most of these lines have: the first of those that fit equally. Lines that a format knows as
/// no requests count a little.
pub fn detect(lines: &[&[u8]]) -> Option<LogFormat> {
    let mut best = (0, None);
    for format in LogFormat::ALL {
        let mut reader = LogLines::new(format, "");
        let (mut hits, mut others) = (0_u32, 0_u32);
        for line in lines.iter().filter(|line| !line.is_empty()) {
            match reader.read(line) {
                Ok(Some(_)) => hits += 1,
                Ok(None) => others += 1,
                Err(_) => {}
            }
        }
        let score = hits * 100 + others * if hits == 0 { 10 } else { 1 };
        if score > best.0 {
            best = (score, Some(format));
        }
    }
    best.1
}
