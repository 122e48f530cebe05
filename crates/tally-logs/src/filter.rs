//! Which hits are page views, and which counter each counts.
//!
//! Invariant: a field that a line does not say leaves nothing out.

use std::borrow::Cow;

use crate::hit::Hit;
use crate::user_agent::Agents;

/// What pages load besides themselves, by the end of its name. The guide of the command lists them.
pub const STATIC: [&str; 40] = [
    "avif",
    "bmp",
    "css",
    "cur",
    "eot",
    "flac",
    "gif",
    "ico",
    "jpeg",
    "jpg",
    "js",
    "json",
    "jsx",
    "m4a",
    "m4v",
    "map",
    "mjs",
    "mov",
    "mp3",
    "mp4",
    "mpeg",
    "ogg",
    "ogv",
    "otf",
    "png",
    "svg",
    "svgz",
    "swf",
    "tif",
    "tiff",
    "ts",
    "ttf",
    "wasm",
    "wav",
    "webm",
    "webmanifest",
    "webp",
    "woff",
    "woff2",
    "jxl",
];

/// Why a hit is left out, in the order in which that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its status is not asked for.
    Status,
    /// Its method is not asked for.
    Method,
    /// Pages load it besides themselves.
    Static,
    /// A program sent it.
    Bots,
    /// The client sent no request, or one for no page, and its status is asked for.
    Request,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Status,
        Self::Method,
        Self::Static,
        Self::Bots,
        Self::Request,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Method => "method",
            Self::Static => "static",
            Self::Bots => "bots",
            Self::Request => "request",
        }
    }
}

/// Statuses, as ranges. None of them: any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(Vec<(u16, u16)>);

impl Statuses {
    /// Reads `200-299,304` or `any`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "any" {
            return Some(Self(Vec::new()));
        }
        let status = |text: &str| {
            let is_status = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_status.then(|| text.parse().ok()).flatten()
        };
        let range = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some((status(from)?, status(to)?)).filter(|(from, to)| from <= to)
        };
        text.split(',').map(range).collect::<Option<_>>().map(Self)
    }

    fn has(&self, status: &str) -> bool {
        let known = status.parse::<u16>();
        self.0.is_empty()
            || known.is_ok_and(|status| {
                self.0
                    .iter()
                    .any(|(from, to)| (*from..=*to).contains(&status))
            })
    }
}

/// What counts.
pub struct Filter {
    /// The statuses that count.
    pub statuses: Statuses,
    /// The methods that count, in upper case. None of them: any.
    pub methods: Vec<String>,
    /// Whether programs count.
    pub bots: bool,
    /// Whether what pages load counts.
    pub statics: bool,
    /// What is known of user agents.
    pub agents: Agents,
}

impl Filter {
    /// Returns why a hit is left out; `None` where it counts as a view of `page`.
    pub fn reason(&mut self, hit: &Hit<'_>, page: Option<&str>) -> Option<Reason> {
        if !hit.status.is_empty() && !self.statuses.has(&hit.status) {
            return Some(Reason::Status);
        }
        let Some(page) = page else {
            return Some(Reason::Request);
        };
        let is_method = |method: &String| *method == *hit.method;
        if !self.methods.is_empty() && !hit.method.is_empty() && !self.methods.iter().any(is_method)
        {
            return Some(Reason::Method);
        }
        if !self.statics && is_static(page) {
            return Some(Reason::Static);
        }
        let agent = hit.user_agent.as_deref().filter(|_| !self.bots);
        agent
            .is_some_and(|agent| self.agents.of(agent).is_bot)
            .then_some(Reason::Bots)
    }
}

fn is_static(page: &str) -> bool {
    let name = page.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| {
        STATIC
            .iter()
            .any(|known| known.eq_ignore_ascii_case(extension))
    })
}

/// How paths of one page become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// As they were sent.
    Keep,
    /// Without a slash at the end, and without `index.html`.
    Strip,
    /// With a slash at the end.
    Add,
}

impl Paths {
    /// Returns the rule of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "keep" => Some(Self::Keep),
            "strip" => Some(Self::Strip),
            "add" => Some(Self::Add),
            _ => None,
        }
    }

    /// Returns a path by the rule.
    pub fn apply(self, path: &str) -> Cow<'_, str> {
        let folder = ["/index.html", "/index.htm", "/"]
            .into_iter()
            .find_map(|end| path.strip_suffix(end));
        match self {
            Self::Keep => Cow::Borrowed(path),
            Self::Strip => Cow::Borrowed(match folder.unwrap_or(path) {
                "" => "/",
                path => path,
            }),
            Self::Add => match (folder, path.rsplit_once('/')) {
                (Some(folder), _) => Cow::Owned([folder, "/"].concat()),
                (None, Some((_, name))) if !name.contains('.') => Cow::Owned([path, "/"].concat()),
                _ => Cow::Borrowed(path),
            },
        }
    }
}
