//! Commands of several sorted sets: union, intersection, difference. Sets without scores may take part, with a score of
//! 1.

use std::collections::BTreeMap;

use crate::error;
use crate::float::score;
use crate::options::number;
use crate::sorted::Members;
use crate::sorted::ranges::reply_of;
use crate::words::counted_words;
use tally_core::board::score::Score;
use tally_core::order::put_in_order;
use tally_wire::redis::Reply;

/// The result of a command.
pub enum Joined {
    /// The reply.
    Replied(Reply),
    /// The members that its first key holds from now on.
    Stored(Members),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Union,
    Intersection,
    Difference,
}

/// How the scores of a member are combined.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// Not-a-number counts as 0, as in Redis.
fn or_zero(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Self::Sum => or_zero(one + other),
            Self::Min => one.min(other),
            Self::Max => one.max(other),
        }
    }
}

struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// The index of the number of keys.
pub fn count_index(args: &[String]) -> usize {
    if is_stored(args) { 2 } else { 1 }
}

fn is_stored(args: &[String]) -> bool {
    args[0].to_ascii_uppercase().ends_with("STORE")
}

impl Options {
    fn parse(args: &[String], keys: usize) -> Result<Self, Reply> {
        let command = args[0].to_ascii_uppercase();
        let is_count = command == "ZINTERCARD";
        let is_weighted = !is_count && !command.starts_with("ZDIFF");
        let mut options = Self {
            weights: vec![1.0; keys],
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: usize::MAX,
        };
        let mut words = args[count_index(args) + 1 + keys..].iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_str() {
                "WEIGHTS" if is_weighted && words.len() >= keys => {
                    for weight in &mut options.weights {
                        let text = words.next().ok_or_else(error::syntax)?;
                        let invalid = || Reply::err("weight value is not a float");
                        *weight = score(text).ok_or_else(invalid)?.number();
                    }
                }
                "AGGREGATE" if is_weighted => {
                    let word = words.next().map(|word| word.to_ascii_uppercase());
                    options.aggregate = match word.as_deref() {
                        Some("SUM") => Aggregate::Sum,
                        Some("MIN") => Aggregate::Min,
                        Some("MAX") => Aggregate::Max,
                        _ => return Err(error::syntax()),
                    };
                }
                "WITHSCORES" if !is_stored(args) && !is_count => options.with_scores = true,
                "LIMIT" if is_count => {
                    let limit = number(words.next().ok_or_else(error::syntax)?);
                    options.limit = match limit {
                        Ok(0) => usize::MAX,
                        // In Wasm such a number has 32 bits: a larger one is no limit.
                        Ok(limit @ 1..) => usize::try_from(limit).unwrap_or(usize::MAX),
                        _ => return Err(Reply::err("LIMIT can't be negative")),
                    };
                }
                _ => return Err(error::syntax()),
            }
        }
        Ok(options)
    }
}

/// Runs a command on its sets, in the order in which it names them.
///
/// # Errors
/// As Redis.
pub fn join(args: &[String], sets: &[&Members]) -> Result<Joined, Reply> {
    counted_words(args, count_index(args))?;
    let options = Options::parse(args, sets.len())?;
    let command = args[0].to_ascii_uppercase();
    let kind = match command.as_bytes().get(1) {
        Some(b'U') => Kind::Union,
        Some(b'I') => Kind::Intersection,
        _ => Kind::Difference,
    };
    let mut members = joined(kind, sets, &options.weights, options.aggregate);
    if command == "ZINTERCARD" {
        return Ok(Joined::Replied(Reply::count(
            members.len().min(options.limit),
        )));
    }
    in_order(&mut members);
    Ok(if is_stored(args) {
        Joined::Stored(members)
    } else {
        Joined::Replied(reply_of(members, options.with_scores))
    })
}

/// Sorts members by name into members by score.
fn in_order(members: &mut Members) {
    put_in_order(members, |(_, one), (_, other)| one.cmp(other));
}

/// The members of all sets with the sum of their scores, in order.
pub fn union(sets: &[&Members]) -> Members {
    let weights = vec![1.0; sets.len()];
    let mut members = joined(Kind::Union, sets, &weights, Aggregate::Sum);
    in_order(&mut members);
    members
}

/// Combines sets, in the order of names.
fn joined(kind: Kind, sets: &[&Members], weights: &[f64], aggregate: Aggregate) -> Members {
    // How many sets have it, and its score.
    let mut all: BTreeMap<&[u8], (usize, f64)> = BTreeMap::new();
    for (index, (set, weight)) in sets.iter().zip(weights).enumerate() {
        for (member, score) in *set {
            let weighted = or_zero(score.number() * weight);
            let known = all.get_mut(member.as_slice());
            match (known, kind) {
                (Some((count, known)), Kind::Union | Kind::Intersection) => {
                    *count += 1;
                    *known = aggregate.of(*known, weighted);
                }
                (Some((count, _)), Kind::Difference) => *count += 1,
                (None, Kind::Union) => drop(all.insert(member, (1, weighted))),
                (None, _) if index == 0 => drop(all.insert(member, (1, weighted))),
                (None, _) => {}
            }
        }
    }
    let wanted = |count: usize| match kind {
        Kind::Union => true,
        Kind::Intersection => count == sets.len(),
        Kind::Difference => count == 1,
    };
    all.into_iter()
        .filter(|(_, (count, _))| wanted(*count))
        .filter_map(|(member, (_, score))| Some((member.to_vec(), Score::new(score)?)))
        .collect()
}
