//! The form of each command's reply. HTTP has one form for texts and statuses, and none for maps and doubles; the
//! protocol has them. Source: the replies of Redis 7.0.

use crate::encoder::{Encoder, Protocol};
use tally_redis::command::{Command, KeyPositions};
use tally_redis::{sorted, window};
use tally_wire::redis::Reply;

/// The form of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Texts are texts.
    Plain,
    /// A text is a status.
    Status,
    /// A text is a score.
    Score,
    /// The texts of an array are scores.
    Scores,
    /// A rank and its score; where there is none, an array is missing.
    RankAndScore,
    /// A member and its score.
    MemberAndScore,
    /// Members and their scores in turn: pairs in RESP3.
    MembersAndScores,
    /// Names and values in turn: a map in RESP3.
    Map,
    /// A set in RESP3.
    Set,
    /// A text for people.
    Verbatim,
}

fn has_word(args: &[String], from: usize, word: &str) -> bool {
    let mut options = args.iter().skip(from);
    options.any(|option| option.eq_ignore_ascii_case(word))
}

/// The form of the reply to these words.
pub fn shape_of(args: &[String]) -> Shape {
    let Ok(command) = Command::find(args) else {
        return Shape::Plain;
    };
    match command.name {
        "SETEX" | "PSETEX" | "MSET" | "HMSET" | "FLUSHDB" | "FLUSHALL" | "PFMERGE" | "TYPE" => {
            Shape::Status
        }
        "SET" if !has_word(args, 3, "GET") => Shape::Status,
        "PING" if args.len() == 1 => Shape::Status,
        "SCRIPT" if has_word(&args[..2], 1, "FLUSH") => Shape::Status,
        "HGETALL" => Shape::Map,
        "SMEMBERS" => Shape::Set,
        "INFO" => Shape::Verbatim,
        "ZSCORE" | "ZINCRBY" => Shape::Score,
        "ZADD" if sorted::increases(args) => Shape::Score,
        "ZMSCORE" => Shape::Scores,
        "INCREX" if window::is_float(args) => Shape::Scores,
        "ZRANK" | "ZREVRANK" if args.len() > 3 => Shape::RankAndScore,
        "ZPOPMIN" | "ZPOPMAX" if args.len() == 2 => Shape::MemberAndScore,
        "ZPOPMIN" | "ZPOPMAX" => Shape::MembersAndScores,
        "ZSCAN" => Shape::Plain,
        _ if has_word(args, options_of(command, args), "WITHSCORES") => Shape::MembersAndScores,
        _ => Shape::Plain,
    }
}

/// The position of the first option of a command that may have scores in its reply.
fn options_of(command: &Command, args: &[String]) -> usize {
    match command.keys {
        KeyPositions::Counted(position) => {
            let keys = command.keys_of(args).map_or(0, |keys| keys.len());
            position + 1 + keys
        }
        _ if command.name == "ZRANDMEMBER" => 3,
        _ => 4,
    }
}

/// Writes the reply to a command in its form.
pub fn write(encoder: &mut Encoder, shape: Shape, reply: &Reply) {
    let is_three = encoder.protocol == Protocol::Three;
    match (shape, reply) {
        (Shape::Status, Reply::Text(text)) => encoder.status(text),
        (Shape::Score, Reply::Text(text)) => encoder.double(text),
        (Shape::Verbatim, Reply::Text(text)) => encoder.verbatim(text),
        (Shape::RankAndScore, Reply::Nil) => encoder.nil_array(),
        (Shape::Scores | Shape::RankAndScore, Reply::Array(items)) => {
            encoder.array(items.len());
            items
                .iter()
                .for_each(|item| write(encoder, Shape::Score, item));
        }
        (Shape::MemberAndScore, Reply::Array(items)) => {
            encoder.array(items.len());
            in_turn(encoder, items);
        }
        (Shape::MembersAndScores, Reply::Array(items)) if is_three && items.len() % 2 == 0 => {
            encoder.array(items.len() / 2);
            for pair in items.chunks(2) {
                encoder.array(pair.len());
                in_turn(encoder, pair);
            }
        }
        (Shape::Map, Reply::Array(items)) if items.len() % 2 == 0 => {
            encoder.map(items.len() / 2);
            items.iter().for_each(|item| plain(encoder, item));
        }
        (Shape::Set, Reply::Array(items)) => {
            encoder.set(items.len());
            items.iter().for_each(|item| plain(encoder, item));
        }
        (_, reply) => plain(encoder, reply),
    }
}

/// Members and their scores in turn.
fn in_turn(encoder: &mut Encoder, items: &[Reply]) {
    for pair in items.chunks(2) {
        for (item, shape) in pair.iter().zip([Shape::Plain, Shape::Score]) {
            write(encoder, shape, item);
        }
    }
}

fn plain(encoder: &mut Encoder, reply: &Reply) {
    match reply {
        Reply::Nil => encoder.nil(),
        Reply::Integer(number) => encoder.integer(*number),
        Reply::Text(text) => encoder.text(text),
        Reply::Error(text) => encoder.error(text),
        Reply::Array(items) => {
            encoder.array(items.len());
            items.iter().for_each(|item| plain(encoder, item));
        }
    }
}
