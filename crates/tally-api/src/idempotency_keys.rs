//! Idempotency keys: their form, and what is stored of them.
//!
//! Invariants: keys and their requests are stored as keyed hashes only, because a key may identify a client. The name
//! of a key contains its sender, so no caller reaches the keys of another. Two requests are the same if their calls,
//! the values of their queries, and the bytes of their bodies are: [`BodyHash`] alone decides that. Source:
//! draft-ietf-httpapi-idempotency-key-header-07, section 2.

use crate::access::Sender;
use tally_core::counter::ledger::WriteKey;
use tally_wire::messages::OperationCondition;
use tally_wire::problem::{Code, Problem};
use tally_wire::version::Version;

/// The longest `Idempotency-Key`, in bytes.
pub const KEY_BYTES_MAX: usize = 255;

/// How much of a body is hashed at once. It is part of the hash, which is stored with the key: never change it.
const BLOCK_BYTES: usize = 65_536;

/// Where a key is used. The same text on a write, on a batch and as an event's id is three keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// One increment or decrement.
    Write,
    /// A whole bulk body.
    Batch,
    /// One record of a bulk body.
    Event,
    /// One event that is queued.
    Queued,
    /// A section of a bulk body after its first.
    Section,
    /// A command of Redis's dialect.
    Command,
}

/// Returns the precondition in the value of `If-Match`: `*`, or one version in quotes. In an entity tag, the number of
/// the settings follows the version, or `-text` in the tag of a text. Neither is part of the condition.
///
/// # Errors
/// `invalid-precondition` for several tags and for what is no version; `precondition-failed` for a weak tag, which
/// never matches. Source: RFC 9110, section 13.1.1.
pub fn parse_if_match(header: &str) -> Result<OperationCondition, Problem> {
    let text = header.trim_matches([' ', '\t']);
    if text == "*" {
        return Ok(OperationCondition::Exists);
    }
    if text.starts_with("W/") {
        let detail =
            "a weak tag never matches; send the `version` of an answer, in quotes, as `If-Match`";
        return Err(Problem::new(Code::PreconditionFailed, detail));
    }
    let quoted = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let is_settings = |text: &str| {
        let number = text.strip_suffix("-text").unwrap_or(text);
        number.parse::<u64>().is_ok()
    };
    let quoted = quoted.map(|text| match text.split_once('.') {
        Some((version, number)) if is_settings(number) => version,
        _ => text,
    });
    let version = quoted.and_then(|text| Version::decode(text).ok());
    version.map(OperationCondition::Unchanged).ok_or_else(|| {
        Problem::new(
            Code::InvalidPrecondition,
            "send `*`, or one `version` of an answer in quotes, as `If-Match`",
        )
    })
}

impl KeyKind {
    fn number(self) -> u8 {
        match self {
            Self::Write => 1,
            Self::Batch => 2,
            Self::Event => 3,
            Self::Queued => 4,
            Self::Section => 5,
            Self::Command => 6,
        }
    }
}

/// Returns the key of a header's value: 1 to [`KEY_BYTES_MAX`] visible ASCII characters and spaces, in quotes or not.
/// No space may follow a comma: platforms join the lines of a repeated header so, and its join is refused.
///
/// # Errors
/// `invalid-idempotency-key`.
pub fn parse_key(header: &str) -> Result<&str, Problem> {
    let text = header.trim_matches([' ', '\t']);
    let text = match text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    {
        Some(quoted) => quoted,
        None => text,
    };
    let is_visible = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if text.is_empty() || text.len() > KEY_BYTES_MAX || !is_visible || header.contains(", ") {
        return Err(Problem::new(
            Code::InvalidIdempotencyKey,
            format!(
                "send one `Idempotency-Key` of 1 to {KEY_BYTES_MAX} visible ASCII characters, no space after a comma, and \
                 another for each write"
            ),
        ));
    }
    Ok(text)
}

/// Returns the stored name of a sender's key: two keyed hashes, 128 bits. So two keys of a counter do not collide by
/// chance, nor by intent without the secret. `hash` is a keyed hash, by the function that elements have too.
pub fn write_key(
    hash: &dyn Fn(&[u8]) -> u64,
    sender: Sender,
    kind: KeyKind,
    text: &str,
) -> WriteKey {
    stored_name(hash, kind, &[&sender.to_bytes()[..], text.as_bytes()])
}

/// Returns two keyed hashes of the same parts, as one name.
fn stored_name(hash: &dyn Fn(&[u8]) -> u64, kind: KeyKind, parts: &[&[u8]]) -> WriteKey {
    let parts = parts.concat();
    let half = |half: u8| hash(&[&[kind.number(), half], &parts[..]].concat()).to_le_bytes();
    let mut name = [0; 16];
    name[..8].copy_from_slice(&half(0));
    name[8..].copy_from_slice(&half(1));
    WriteKey(name)
}

/// Returns the stored name of a body's key for its section of that number. The first section has the name of the key
/// itself, which is the only one of a body with one section.
pub fn section_key(hash: &dyn Fn(&[u8]) -> u64, key: WriteKey, section: u32) -> WriteKey {
    if section == 0 {
        return key;
    }
    let parts = [&section.to_le_bytes()[..], &key.0];
    stored_name(hash, KeyKind::Section, &parts)
}

/// Returns the name of a command's key: that of the request's key for the command's Redis keys. `nth` is the number of
/// earlier commands of the request that write to the same keys.
pub fn command_key(
    hash: &dyn Fn(&[u8]) -> u64,
    key: WriteKey,
    redis_keys: &[&[u8]],
    nth: u32,
) -> WriteKey {
    let keys = fingerprint(hash, redis_keys).to_le_bytes();
    let parts = [&nth.to_le_bytes()[..], &key.0, &keys];
    stored_name(hash, KeyKind::Command, &parts)
}

/// Returns the hash of a request whose body is complete, as [`BodyHash`] makes it. No body is the same as `{}`.
pub fn request_hash(hash: &dyn Fn(&[u8]) -> u64, call: &[&[u8]], body: &[u8]) -> u64 {
    let mut whole = BodyHash::new(hash, call);
    whole.push(hash, if body.is_empty() { b"{}" } else { body });
    whole.finish(hash)
}

/// Returns the hash of parts, which are separated by their lengths.
pub fn fingerprint(hash: &dyn Fn(&[u8]) -> u64, parts: &[&[u8]]) -> u64 {
    let mut bytes = Vec::new();
    for part in parts {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(part);
    }
    hash(&bytes)
}

/// The hash of a request: of its call, the values of its query, and its body, which may come in pieces. Headers are no
/// part of it.
///
/// It is stored as long as its key is, longer than a deploy lasts. So it is made of the keyed hash alone and does not
/// depend on how the body was cut. Source: a Merkle–Damgård chain of blocks, with the length at its end.
#[derive(Clone, Debug)]
pub struct BodyHash {
    chain: u64,
    block: Vec<u8>,
    bytes: u64,
}

impl BodyHash {
    /// Returns the hash of an empty body. `call` is the name of the call and the values of its query.
    pub fn new(hash: &dyn Fn(&[u8]) -> u64, call: &[&[u8]]) -> Self {
        Self {
            chain: fingerprint(hash, call),
            block: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a piece. Costs a copy of it, and a hash for each 64 KiB.
    pub fn push(&mut self, hash: &dyn Fn(&[u8]) -> u64, piece: &[u8]) {
        let mut left = piece;
        while !left.is_empty() {
            let room = BLOCK_BYTES - self.block.len();
            let (now, later) = left.split_at(room.min(left.len()));
            self.block.extend_from_slice(now);
            left = later;
            if self.block.len() == BLOCK_BYTES {
                self.close_block(hash);
            }
        }
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
    }

    /// Returns the hash of all that was added.
    pub fn finish(mut self, hash: &dyn Fn(&[u8]) -> u64) -> u64 {
        self.close_block(hash);
        fingerprint(
            hash,
            &[&self.chain.to_le_bytes(), &self.bytes.to_le_bytes()],
        )
    }

    fn close_block(&mut self, hash: &dyn Fn(&[u8]) -> u64) {
        let block = hash(&self.block).to_le_bytes();
        self.chain = fingerprint(hash, &[&self.chain.to_le_bytes(), &block]);
        self.block.clear();
    }
}
