//! User agents of programs: crawlers, monitors, health checks, scripts.
//!
//! Invariant: the decision depends on the first [`USER_AGENT_BYTES_MAX`] bytes of the user agent only. It is no
//! defence: a program that wants to be counted sends a browser's user agent.
//!
//! A program is known by a word of npm's `isbot` (`bots/list.rs`), or by a form that browsers do not have
//! (`bots/shapes.rs`). Words are not looked for in the name that a device has: the maker of a phone may call it `ruby`.

mod list;
mod shapes;

use list::{PEOPLE, STARTS, WORDS};
use shapes::is_word;

/// How many bytes of a user agent are used: browsers send 80 to 300.
pub const USER_AGENT_BYTES_MAX: usize = 1_024;

/// The bits of a word's first byte, and its length in the other bits.
const BOUND_BEFORE: u8 = 0x80;
const BOUND_BEHIND: u8 = 0x40;

/// Where words of [`WORDS`] are, by the byte that they begin with: one more than the place of the group, 0 for none.
const GROUPS: [u8; 128] = groups();

const fn groups() -> [u8; 128] {
    let mut groups = [0; 128];
    let mut at = 0;
    let mut place = 1;
    while at < WORDS.len() {
        let mut first = 0_u8;
        let mut index = 0;
        while first < WORDS[at].0 {
            first += 1;
            index += 1;
        }
        groups[index] = place;
        place += 1;
        at += 1;
    }
    groups
}

/// Returns whether a user agent is a program's. A missing or empty one is, because every browser sends one.
///
/// Cost: for each byte at most 30 comparisons, most of which end with the second byte; 1,024 bytes at most.
pub fn is_bot(user_agent: &str) -> bool {
    let bytes = user_agent.trim().as_bytes();
    let bytes = bytes.get(..USER_AGENT_BYTES_MAX).unwrap_or(bytes);
    // Logs write a dash where there was none.
    if matches!(bytes, b"" | b"-") {
        return true;
    }
    let agent = bytes.to_ascii_lowercase();
    let has_shape = find(PEOPLE, &agent, None).is_none() && shapes::is_program(&agent);
    has_shape || find(STARTS, &agent, None).is_some() || has_word(&agent)
}

fn has_word(agent: &[u8]) -> bool {
    let mut before = None;
    let mut rest = agent;
    while let Some((first, after)) = rest.split_first() {
        let skipped = find(PEOPLE, rest, None).or_else(|| device(rest));
        if let Some(length) = skipped {
            before = None;
            rest = rest.get(length..).unwrap_or_default();
            continue;
        }
        let group = GROUPS.get(usize::from(*first)).copied().unwrap_or_default();
        let words = WORDS.get(usize::from(group).wrapping_sub(1));
        if words.is_some_and(|(_, words)| find(words, rest, before).is_some()) {
            return true;
        }
        before = Some(*first);
        rest = after;
    }
    false
}

/// Returns the length of the first of these words that a text begins with. `before` is the byte before the text.
fn find(words: &[u8], text: &[u8], before: Option<u8>) -> Option<usize> {
    let mut rest = words;
    while let Some((head, after)) = rest.split_first() {
        let length = usize::from(head & !(BOUND_BEFORE | BOUND_BEHIND));
        let (word, after) = after.split_at_checked(length)?;
        rest = after;
        if let Some(behind) = text.strip_prefix(word)
            && !(head & BOUND_BEFORE != 0 && before.is_some_and(is_word))
            && !(head & BOUND_BEHIND != 0 && behind.first().is_some_and(|byte| is_word(*byte)))
        {
            return Some(length);
        }
    }
    None
}

/// Returns the length of a device's description, where a text begins with one: `android 13; ruby build/tp1a` and
/// `android (33/13; 480dpi; 1080x2177; xiaomi; 22101316i; ruby; …`. It ends with the bracket. An address in it is a
/// program's.
fn device(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"android ")?;
    let rest = rest.strip_prefix(b"(").unwrap_or(rest);
    let is_version = |byte: &u8| byte.is_ascii_digit() || b"./".contains(byte);
    let digits = rest.iter().take_while(|byte| is_version(byte)).count();
    let fields = rest
        .get(digits..)?
        .strip_prefix(b";")
        .filter(|_| digits > 0)?;
    let end = fields
        .iter()
        .position(|byte| *byte == b')')
        .unwrap_or(fields.len());
    let is_named = fields
        .get(..end)?
        .windows(3)
        .any(|three| three == b"://" || three == b"bot");
    (!is_named).then(|| text.len() - fields.len() + end)
}
