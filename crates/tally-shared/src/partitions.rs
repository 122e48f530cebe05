//! The partitions of the directory: their number, and questions to all of them.
//!
//! Invariant: an answer of all partitions counts each root once, also while roots move between them. Each partition
//! sums the seals of the roots that have left it, and of those that have come. If the two sums over all partitions
//! differ, some root was counted twice or not at all; then all partitions are asked again, while no root moves.

use std::collections::BTreeMap;
use std::ops::Range;

use super::call::{answer_of, call_within, exchange, target};
use super::concurrency::all_settled;
pub use super::directory_ring::{COUNT_MAX, count, place_among};
use tally_core::order::in_order;
use tally_host::{Host, Target};
use tally_wire::messages::{Call, CallPartition, Fault, PartitionAnswer, encode};
use tally_wire::names::DIRECTORY_PARTITIONS;

/// The time limit of a partition's answer, milliseconds. It is well below that of the call that asks all of them. A
/// partition that takes longer is reported missing.
pub const PARTITION_MS_MAX: u64 = 3_000;

/// The most partitions that are asked at once.
const PARTITIONS_AT_ONCE: usize = 64;

/// The most rounds in which all partitions are asked because roots moved, and the first wait between two, milliseconds;
/// each wait is twice as long as the one before.
const ROUNDS_MAX: u32 = 6;
const WAIT_MS: u64 = 20;

/// All partition numbers, by this isolate's variables.
pub fn all(host: &Host) -> Range<u32> {
    0..count(host)
}

/// Answers of partitions, by their numbers.
pub type ByPartition<T> = Vec<(u32, T)>;

/// The answers of partitions.
pub struct PartitionAnswers<T> {
    /// Those that answered.
    pub answers: ByPartition<T>,
    /// The numbers of those that did not, in order.
    pub missing: Vec<u32>,
    /// The fault of the last of those.
    pub fault: Option<Fault>,
    /// Whether roots move: the next page must begin after the same name at all of them.
    pub is_changing: bool,
}

impl<T> PartitionAnswers<T> {
    fn of(outcomes: Vec<(u32, Result<T, Fault>)>) -> Self {
        let (mut answers, mut missing, mut fault) = (Vec::new(), Vec::new(), None);
        for (partition, answer) in outcomes {
            match answer {
                Ok(answer) => answers.push((partition, answer)),
                Err(other) => {
                    missing.push(partition);
                    if !is_repartitioned(&fault) {
                        fault = Some(other);
                    }
                }
            }
        }
        Self {
            answers,
            missing: in_order(missing, Ord::cmp),
            fault,
            is_changing: false,
        }
    }

    /// What was answered, and the numbers of those that did not answer.
    ///
    /// # Errors
    /// The fault of one of them, if none answers.
    pub fn by_any(self) -> Result<(ByPartition<T>, Vec<u32>), Fault> {
        match self.fault.filter(|_| self.answers.is_empty()) {
            Some(fault) => Err(fault),
            None => Ok((self.answers, self.missing)),
        }
    }
}

/// Asks every partition of the directory the same question. While roots move, the answers are of one consistent cut.
pub async fn ask_all<C: Call>(
    host: &Host,
    message: impl Fn(u32) -> C,
) -> PartitionAnswers<C::Answer> {
    if count(host) == DIRECTORY_PARTITIONS {
        let replies = ask_some(host, all(host), &message).await;
        if !is_repartitioned(&replies.fault) {
            return replies;
        }
    }
    let encoded = |partition: u32| encode(&message(partition));
    let replies = ask_within(host, C::PATH, &encoded).await;
    let mut answered = decoded::<C>(
        host,
        replies
            .answers
            .into_iter()
            .map(|(partition, bytes)| (partition, Ok(bytes)))
            .collect(),
    );
    answered.missing.extend(replies.missing);
    answered.missing.sort_unstable();
    PartitionAnswers {
        fault: answered.fault.or(replies.fault),
        is_changing: replies.is_changing,
        ..answered
    }
}

/// Asks all partitions, and then former ones, because they hold files of snapshots. `ever` reads the highest number of
/// partitions that ever was from an answer.
pub async fn ask_ever<C: Call>(
    host: &Host,
    message: impl Fn(u32) -> C,
    ever: impl Fn(&C::Answer) -> u32,
) -> PartitionAnswers<C::Answer> {
    let mut replies = ask_all(host, &message).await;
    let answered = replies.answers.iter().map(|(partition, _)| *partition);
    let last = answered.chain(replies.missing.iter().copied()).max();
    let ever = replies.answers.iter().map(|(_, answer)| ever(answer)).max();
    let gone = last.map_or(0, |last| last + 1)..ever.unwrap_or(0).min(COUNT_MAX);
    let more = ask_gone(host, gone, message).await;
    replies.answers.extend(more.answers);
    replies.missing.extend(more.missing);
    replies.fault = more.fault.or(replies.fault);
    replies
}

/// Asks former partitions.
pub async fn ask_gone<C: Call>(
    host: &Host,
    partitions: Range<u32>,
    message: impl Fn(u32) -> C,
) -> PartitionAnswers<C::Answer> {
    let encoded = |partition: u32| encode(&message(partition));
    let replies = ask_each(host, C::PATH, &encoded, (partitions, false)).await;
    decoded::<C>(host, replies.into_iter().map(answer_bytes).collect())
}

fn is_repartitioned(fault: &Option<Fault>) -> bool {
    *fault == Some(Fault::Repartitioned)
}

/// Asks some partitions of the directory.
pub async fn ask_some<C: Call>(
    host: &Host,
    partitions: impl Iterator<Item = u32>,
    message: impl Fn(u32) -> C,
) -> PartitionAnswers<C::Answer> {
    let messages = partitions.map(|partition| {
        let message = message(partition);
        (partition, target(host, message.to()), encode(&message))
    });
    decoded::<C>(host, exchange_each(host, C::PATH, messages.collect()).await)
}

/// What partitions answered, as bytes.
type Replies = Vec<(u32, Result<Vec<u8>, Fault>)>;

/// Sends some partitions their messages. Not generic, so that its code exists once.
async fn exchange_each(
    host: &Host,
    path: &'static str,
    messages: Vec<(u32, Target, Result<Vec<u8>, Fault>)>,
) -> Replies {
    let ask = |(partition, to, message): (u32, Target, Result<Vec<u8>, Fault>)| async move {
        let answer = match message {
            Ok(message) => exchange(host, to, path, message, PARTITION_MS_MAX).await,
            Err(fault) => Err(fault),
        };
        (partition, answer)
    };
    all_settled(messages.into_iter().map(ask), PARTITIONS_AT_ONCE).await
}

fn decoded<C: Call>(host: &Host, replies: Replies) -> PartitionAnswers<C::Answer> {
    let replies = replies.into_iter().map(|(partition, reply)| {
        let answer = reply.and_then(|bytes| answer_of::<C>(host, &bytes));
        (partition, answer)
    });
    PartitionAnswers::of(replies.collect())
}

fn answer_bytes(
    (partition, reply): (u32, Result<PartitionAnswer, Fault>),
) -> (u32, Result<Vec<u8>, Fault>) {
    (partition, reply.map(|within| within.answer))
}

/// Asks some partitions again, after all were asked. `None` if roots have moved since.
pub async fn ask_more<C: Call, V>(
    host: &Host,
    partitions: &BTreeMap<u32, V>,
    message: impl Fn(u32) -> C,
) -> Option<PartitionAnswers<C::Answer>> {
    let all = || partitions.keys().copied();
    if count(host) == DIRECTORY_PARTITIONS {
        let replies = ask_some(host, all(), &message).await;
        if !is_repartitioned(&replies.fault) {
            return Some(replies);
        }
    }
    let encoded = |partition: u32| encode(&message(partition));
    let replies = ask_each(host, C::PATH, &encoded, (all(), false)).await;
    let has_moved = (replies.iter())
        .any(|(_, reply)| (reply.as_ref()).is_ok_and(|within| within.sizes.is_changing()));
    (!has_moved).then(|| decoded::<C>(host, replies.into_iter().map(answer_bytes).collect()))
}

/// Asks all partitions by [`CallPartition`], again while roots move.
async fn ask_within(
    host: &Host,
    path: &str,
    message: &dyn Fn(u32) -> Result<Vec<u8>, Fault>,
) -> PartitionAnswers<Vec<u8>> {
    let mut wait_ms = WAIT_MS;
    for tries in 0..ROUNDS_MAX {
        if tries > 0 {
            host.sleep_ms(wait_ms).await;
            wait_ms *= 2;
        }
        let replies = ask_once(host, path, message, tries > 0).await;
        if replies.missing.is_empty() && !is_cut(&replies.answers) {
            continue;
        }
        let is_changing = (replies.answers.iter()).any(|(_, within)| within.sizes.is_changing());
        let answers = replies.answers.into_iter();
        return PartitionAnswers {
            answers: answers
                .map(|(partition, within)| (partition, within.answer))
                .collect(),
            missing: replies.missing,
            fault: replies.fault,
            is_changing,
        };
    }
    PartitionAnswers {
        answers: Vec::new(),
        missing: all(host).collect(),
        fault: Some(Fault::Unavailable(
            "counters are moving between partitions of the directory".to_owned(),
        )),
        is_changing: true,
    }
}

async fn ask_once(
    host: &Host,
    path: &str,
    message: &dyn Fn(u32) -> Result<Vec<u8>, Fault>,
    holds: bool,
) -> PartitionAnswers<PartitionAnswer> {
    let mut replies = ask_each(host, path, message, (all(host), holds)).await;
    let answers = replies
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().ok());
    let span = answers.map(|within| within.sizes.span()).max();
    let more = count(host)..span.unwrap_or(0);
    if !more.is_empty() {
        replies.extend(ask_each(host, path, message, (more, holds)).await);
    }
    PartitionAnswers::of(replies)
}

/// Asks some partitions by [`CallPartition`]; `holds`: whether no root may leave them for a moment.
async fn ask_each(
    host: &Host,
    path: &str,
    message: &dyn Fn(u32) -> Result<Vec<u8>, Fault>,
    (partitions, holds): (impl Iterator<Item = u32>, bool),
) -> Vec<(u32, Result<PartitionAnswer, Fault>)> {
    let ask = |partition: u32| {
        let message = message(partition);
        async move {
            let within = CallPartition {
                partition,
                holds,
                path: path.to_owned(),
                message: match message {
                    Ok(message) => message,
                    Err(fault) => return (partition, Err(fault)),
                },
            };
            let answer = call_within(host, &within, PARTITION_MS_MAX).await;
            (partition, answer)
        }
    };
    all_settled(partitions.map(ask), PARTITIONS_AT_ONCE).await
}

/// Whether each root was at exactly one partition when they answered: the same roots have left and come.
fn is_cut(answers: &[(u32, PartitionAnswer)]) -> bool {
    if !answers.iter().any(|(_, within)| within.sizes.is_changing()) {
        return true;
    }
    let since = answers.iter().map(|(_, within)| within.sizes.since()).max();
    let of_since = answers
        .iter()
        .filter(|(_, within)| Some(within.sizes.since()) == since);
    let (mut left, mut came, mut is_torn) = (0_u64, 0_u64, false);
    for (
        _,
        PartitionAnswer {
            moved,
            is_torn: torn,
            ..
        },
    ) in of_since
    {
        left = left.wrapping_add(moved.0);
        came = came.wrapping_add(moved.1);
        is_torn |= torn;
    }
    left == came && !is_torn
}
