//! The kind of device and the browser of a user agent, by words in it.
//!
//! Invariant: the result depends on the first [`USER_AGENT_BYTES_MAX`] bytes of the user agent only, and is one of a
//! few dozen words without versions, so that many visitors share each. Browsers also name the browsers that they
//! resemble, so the first word that is found decides: the table goes from the specific to the general.

use std::collections::HashMap;

use super::bots::{USER_AGENT_BYTES_MAX, is_bot};

/// The name of unknown browsers.
const OTHER: &str = "Other";

/// The name of programs without a human reader.
const BOT: &str = "Bot";

/// Words of browsers, and their families.
const BROWSERS: [(&str, &str); 29] = [
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("Edge/", "Edge"),
    ("OPR/", "Opera"),
    ("OPiOS/", "Opera"),
    ("OPT/", "Opera"),
    ("Opera", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("YaBrowser/", "Yandex Browser"),
    ("Vivaldi/", "Vivaldi"),
    ("DuckDuckGo/", "DuckDuckGo"),
    ("Ddg/", "DuckDuckGo"),
    ("UCBrowser/", "UC Browser"),
    ("MiuiBrowser/", "Miui Browser"),
    ("HuaweiBrowser/", "Huawei Browser"),
    ("Silk/", "Silk"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("GSA/", "Google App"),
    ("Chromium/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Trident/", "Internet Explorer"),
    ("MSIE ", "Internet Explorer"),
    ("Konqueror/", "Konqueror"),
    // Embedded browsers do not name themselves.
    ("Safari/", "Safari"),
    ("AppleWebKit/", "Web view"),
    ("Gecko/", "Firefox"),
];

/// Words of devices, and what they are.
const DEVICES: [(&str, &str); 19] = [
    ("iPad", "tablet"),
    ("Tablet", "tablet"),
    ("PlayBook", "tablet"),
    ("Kindle", "tablet"),
    ("Silk/", "tablet"),
    ("Mobi", "phone"),
    ("iPhone", "phone"),
    ("iPod", "phone"),
    ("Opera Mini", "phone"),
    ("BlackBerry", "phone"),
    ("Windows Phone", "phone"),
    ("MIDP", "phone"),
    ("Symbian", "phone"),
    // User agents of phones contain `Mobile`.
    ("Android", "tablet"),
    ("Windows", "desktop"),
    ("Macintosh", "desktop"),
    ("CrOS", "desktop"),
    ("X11", "desktop"),
    ("Linux", "desktop"),
];

fn looked_at(user_agent: &str) -> &str {
    let mut end = user_agent.len().min(USER_AGENT_BYTES_MAX);
    while !user_agent.is_char_boundary(end) {
        end -= 1;
    }
    user_agent.get(..end).unwrap_or_default()
}

fn first_of(words: &[(&str, &'static str)], user_agent: &str) -> Option<&'static str> {
    let found = words.iter().find(|(word, _)| user_agent.contains(word));
    found.map(|(_, family)| *family)
}

/// The browser's family; `None` where there is no user agent.
pub fn browser(user_agent: &str) -> Option<&'static str> {
    Agent::of(user_agent).browser
}

/// `phone`, `tablet` or `desktop`; `None` where the user agent does not say, and for bots.
pub fn device(user_agent: &str) -> Option<&'static str> {
    Agent::of(user_agent).device
}

/// What a user agent says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Whether it is a program's.
    pub is_bot: bool,
    /// The browser's family; `None` where there is no user agent.
    pub browser: Option<&'static str>,
    /// `phone`, `tablet` or `desktop`; `None` where the user agent does not say, and for bots.
    pub device: Option<&'static str>,
}

impl Agent {
    /// Returns what a user agent says.
    pub fn of(user_agent: &str) -> Self {
        let user_agent = looked_at(user_agent);
        let is_bot = is_bot(user_agent);
        let (browser, device) = match (user_agent, is_bot) {
            ("" | "-", _) => (None, None),
            (_, true) => (Some(BOT), None),
            (_, false) => (
                first_of(&BROWSERS, user_agent).or(Some(OTHER)),
                first_of(&DEVICES, user_agent),
            ),
        };
        Self {
            is_bot,
            browser,
            device,
        }
    }
}

/// How many user agents are remembered: few of them write most lines.
const AGENTS_MAX: usize = 10_000;

/// Remembers what user agents say. To look at one costs as much as to read ten lines.
#[derive(Default)]
pub struct Agents(HashMap<String, Agent>);

impl Agents {
    /// Returns what a user agent says.
    pub fn of(&mut self, user_agent: &str) -> Agent {
        if let Some(known) = self.0.get(user_agent) {
            return *known;
        }
        if self.0.len() >= AGENTS_MAX {
            self.0.clear();
        }
        let agent = Agent::of(user_agent);
        self.0.insert(user_agent.to_owned(), agent);
        agent
    }
}
