//! `ZSCAN`: pages of members, and the cursors between them.

use super::ranges::reply_of;
use super::set::{Members, SORTED_MEMBERS_MAX, SortedResult, SortedSet, read};
use crate::options::ScanOptions;
use tally_wire::redis::Reply;
use tally_wire::shell_limits::SORTED_MEMBER_BYTES_MAX;

pub(super) fn scan(set: &dyn SortedSet, args: &[String]) -> SortedResult {
    let after = name_of_cursor(&args[2]).ok_or_else(|| Reply::err("invalid cursor"))?;
    // Redis does not check the options for a set that does not exist.
    if set.count() == 0 {
        return Ok(Reply::Array(vec![Reply::text("0"), Reply::Array(vec![])]));
    }
    let steps = set.steps();
    let count_max = usize::try_from(SORTED_MEMBERS_MAX).unwrap_or(usize::MAX);
    let options = ScanOptions::parse(&args[3..], &steps, (false, count_max))?;
    let page = u64::try_from(options.count).unwrap_or(u64::MAX);
    // A set that fits one page is returned in its order, as by Redis.
    let is_whole = after.is_empty() && set.count() <= page;
    let members = if is_whole {
        read(set, (0, set.count()))?
    } else {
        set.named_after(&after, page)?
    };
    let is_last = is_whole || u64::try_from(members.len()).unwrap_or(u64::MAX) < page;
    let cursor = match members.last() {
        Some((member, _)) if !is_last => cursor_of(member),
        _ => "0".to_owned(),
    };
    let mut matching = Members::new();
    for (member, score) in members {
        if options.pattern.matches(&String::from_utf8_lossy(&member))? {
            matching.push((member, score));
        }
    }
    Ok(Reply::Array(vec![
        Reply::Text(cursor),
        reply_of(matching, true),
    ]))
}

/// Decimal digits are converted in groups of nine.
const GROUP: u32 = 1_000_000_000;

/// The cursor after a member: a whole number, as clients expect, whose bytes are 1 and the name. So it stays valid
/// while members come and go. Cost: O(bytes²).
fn cursor_of(member: &[u8]) -> String {
    let mut groups = vec![1_u32];
    for byte in member {
        let mut carry = u64::from(*byte);
        for group in &mut groups {
            let value = u64::from(*group) * 256 + carry;
            carry = value / u64::from(GROUP);
            *group = u32::try_from(value % u64::from(GROUP)).unwrap_or(0);
        }
        if carry > 0 {
            groups.push(u32::try_from(carry).unwrap_or(0));
        }
    }
    let mut text = groups.pop().unwrap_or(0).to_string();
    for group in groups.iter().rev() {
        text.push_str(&format!("{group:09}"));
    }
    text
}

/// The name after which a page begins; empty for the first. `None` for an invalid cursor.
fn name_of_cursor(cursor: &str) -> Option<Vec<u8>> {
    const DIGITS_MAX: usize = 3 * (SORTED_MEMBER_BYTES_MAX + 1);
    let is_number = !cursor.is_empty() && cursor.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || cursor.len() > DIGITS_MAX {
        return None;
    }
    // The bytes, lowest first.
    let mut bytes: Vec<u8> = Vec::new();
    for digit in cursor.bytes() {
        let mut carry = u32::from(digit - b'0');
        for byte in &mut bytes {
            let value = u32::from(*byte) * 10 + carry;
            *byte = value.to_le_bytes()[0];
            carry = value >> u8::BITS;
        }
        if carry > 0 {
            bytes.push(carry.to_le_bytes()[0]);
        }
    }
    bytes.pop();
    bytes.reverse();
    Some(bytes)
}
