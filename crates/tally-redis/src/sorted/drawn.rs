//! Members that are drawn at random.

use std::collections::{BTreeMap, BTreeSet};

use super::ranges::reply_of;
use super::set::{
    Members, SORTED_BYTES_MAX, SORTED_MEMBERS_MAX, SortedResult, SortedSet, name, read, too_many,
};
use crate::error;
use crate::options::number;
use crate::random::drawn;
use crate::reply_error::ReplyError;
use tally_core::order::set_of;
use tally_wire::redis::Reply;

/// The most members that are read and left out between two drawn ones. Up to so many, reading on costs less than a new
/// search of some 170 µs.
const DRAWN_GAP_MAX: u64 = 32;

/// The number of members at which a range of drawn ones ends.
const DRAWN_TOGETHER: u64 = 1_000;

/// The most stretches of drawn members that one command reads: some 0.2 s.
pub const DRAWN_APART_MAX: u64 = 1_000;

/// How many members to draw, from a word. Below 0, a member may be drawn again.
///
/// # Errors
/// Where it is not a number, or its negation is not.
pub(crate) fn draws_of(word: &str) -> Result<i64, Reply> {
    let (wanted, max) = (number(word)?, i64::MAX);
    if wanted < -max {
        return Err(Reply::err(format!(
            "value is out of range, value must between -{max} and {max}"
        )));
    }
    Ok(wanted)
}

/// The indexes of drawn members of a set, by [`draws_of`].
///
/// # Errors
/// Where they are more than [`SORTED_MEMBERS_MAX`].
pub(crate) fn drawn_indices(total: u64, wanted: i64, mut seed: u64) -> Result<Vec<u64>, Reply> {
    let limit = wanted.unsigned_abs();
    let draws = match (total, wanted < 0) {
        (0, _) => 0,
        (_, true) => limit,
        (_, false) => limit.min(total),
    };
    if draws > SORTED_MEMBERS_MAX {
        return Err(too_many());
    }
    // Each of the last indexes in turn, or a random one before it that is not taken. Source: Floyd, in Bentley 1987, "A
    // sample of brilliance".
    let (mut indices, mut taken) = (Vec::new(), BTreeSet::new());
    for draw in 0..draws {
        indices.push(if wanted < 0 {
            drawn(&mut seed) % total
        } else {
            let last = total - draws + draw;
            let at = drawn(&mut seed) % (last + 1);
            let at = if taken.contains(&at) { last } else { at };
            taken.insert(at);
            at
        });
    }
    Ok(indices)
}

pub(super) fn random(set: &dyn SortedSet, args: &[String], mut seed: u64) -> SortedResult {
    let total = set.count();
    let Some(wanted) = args.get(2) else {
        let at = drawn(&mut seed).checked_rem(total).unwrap_or(0);
        let found = set.range(at, (at + 1).min(total))?.pop();
        return Ok(found.map_or(Reply::Nil, |(member, _)| name(member)));
    };
    let wanted = draws_of(wanted)?;
    let with_scores = match &args[3..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case("WITHSCORES") => true,
        _ => return Err(error::syntax().into()),
    };
    let is_all = u64::try_from(wanted).is_ok_and(|wanted| wanted >= total);
    let members = if is_all {
        read(set, (0, total))?
    } else {
        members_at(set, &drawn_indices(total, wanted, seed)?)?
    };
    Ok(reply_of(members, with_scores))
}

/// The members at these indexes, in this order. Members that are near each other are read together.
fn members_at(set: &dyn SortedSet, indices: &[u64]) -> Result<Members, ReplyError> {
    let sorted = set_of(indices.iter().copied());
    let mut sorted = sorted.into_iter().peekable();
    let (mut found, mut bytes) = (BTreeMap::new(), 0);
    let mut stretches = 0;
    while let Some(low) = sorted.next() {
        stretches += 1;
        if stretches > DRAWN_APART_MAX {
            let apart_max = DRAWN_APART_MAX;
            let text =
                format!("at most {apart_max} members that lie apart are drawn here: ask for fewer");
            return Err(Reply::err(text).into());
        }
        let mut wanted = set_of([low]);
        let mut last = low;
        while let Some(next) = sorted.next_if(|next| next - last <= DRAWN_GAP_MAX) {
            wanted.insert(next);
            last = next;
            if last - low >= DRAWN_TOGETHER {
                break;
            }
        }
        let range = (low..).zip(set.range(low, last + 1)?);
        for (index, member) in range.filter(|(index, _)| wanted.contains(index)) {
            bytes += member.0.len();
            found.insert(index, member);
        }
        if bytes > SORTED_BYTES_MAX {
            return Err(too_many().into());
        }
    }
    // One member may be drawn often.
    let members = indices.iter().filter_map(|index| found.get(index));
    if members.clone().map(|(name, _)| name.len()).sum::<usize>() > SORTED_BYTES_MAX {
        return Err(too_many().into());
    }
    Ok(members.cloned().collect())
}
