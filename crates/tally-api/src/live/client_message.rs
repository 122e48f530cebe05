//! Messages and requests of watchers, and the frames sent to them.
//!
//! Invariant: a client's message changes what it watches only if all of the message can be read and is allowed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};

use super::subscriptions::Update;
use super::{
    ATTACHMENT_BYTES_MAX, IDS_BYTES_MAX, IDS_MAX, LIVE_TOP_MAX, MESSAGE_BYTES_MAX, RETRY_MS,
};
use crate::query::Query;
use tally_core::counter::id::CounterId;
use tally_wire::live::topic::{Topic, WatchedBoard};
use tally_wire::messages::{Fault, decode, encode};
use tally_wire::problem::{Code, Problem};

/// How much of an id a refusal repeats, in characters.
const SHOWN_CHARACTERS_MAX: usize = 64;

/// The media type of server-sent events.
pub const EVENT_STREAM: &str = "text/event-stream";

/// How many first members of a board are sent by default.
const LIVE_TOP: u32 = 10;

/// The topics of a query, in order, each once, and whether numbers that JavaScript cannot hold exactly are wanted as
/// strings.
///
/// # Errors
/// `invalid-query` where it names none, `too-many-counters`, `invalid-id`.
pub fn parse_topics(query: &str) -> Result<(Vec<Topic>, bool), Problem> {
    let query = Query::parse(query, &["id", "numbers", "board", "top", "member"])?;
    let as_strings = query.numbers_as_strings()?;
    let mut ids = query
        .all("id")
        .map(|text| Ok(Topic::Counter(CounterId::parse(text)?)))
        .collect::<Result<Vec<_>, Problem>>()?;
    ids.extend(query_board(&query)?);
    if ids.is_empty() {
        let detail = format!(
            "name 1 to {IDS_MAX} counters, or a board: /live?id=a&id=b, /live?board=b&top=10"
        );
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    Ok((bounded(ids)?, as_strings))
}

/// The board of a query: its first members, a member of it, or both.
fn query_board(query: &Query) -> Result<Option<Topic>, Problem> {
    let refuse = |detail: String| Err(Problem::new(Code::InvalidQuery, detail));
    let top = match query.get("top").map(str::parse::<u32>) {
        None => None,
        Some(Ok(top)) if (1..=LIVE_TOP_MAX).contains(&top) => Some(top),
        Some(_) => return refuse(format!("top must be from 1 to {LIVE_TOP_MAX}")),
    };
    let member = query.get("member").map(CounterId::parse).transpose()?;
    let Some(board) = query.get("board") else {
        return match top.is_some() || member.is_some() {
            true => refuse("top and member are of a board: name it with board=".to_owned()),
            false => Ok(None),
        };
    };
    let of_top = if member.is_some() { 0 } else { LIVE_TOP };
    Ok(Some(Topic::Board(WatchedBoard {
        board: CounterId::parse(board)?,
        top: top.unwrap_or(of_top),
        member,
    })))
}

/// These topics in order, each once.
///
/// # Errors
/// `too-many-counters`.
pub fn bounded(ids: Vec<Topic>) -> Result<Vec<Topic>, Problem> {
    let mut ids = tally_core::order::in_order(ids, Ord::cmp);
    ids.dedup();
    let bytes: usize = ids.iter().map(Topic::len).sum();
    if ids.len() > IDS_MAX || bytes > IDS_BYTES_MAX {
        let detail = format!(
            "a stream has at most {IDS_MAX} counters, whose ids have at most {IDS_BYTES_MAX} bytes together; open another stream"
        );
        return Err(Problem::new(Code::TooManyCounters, detail));
    }
    Ok(ids)
}

/// A message of a socket. `ping`, without JSON, is answered `pong`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// A sign of life.
    Ping,
    /// Adds topics to what is watched, and removes others.
    Change {
        /// Counters to watch.
        add: Vec<CounterId>,
        /// Counters to stop watching.
        remove: Vec<CounterId>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    #[serde(default)]
    add: Vec<String>,
    #[serde(default)]
    remove: Vec<String>,
}

impl ClientMessage {
    /// Reads a message.
    ///
    /// # Errors
    /// `body-too-large`, `invalid-body`, `too-many-counters`, `invalid-id`.
    pub fn parse(message: &str) -> Result<Self, Problem> {
        if message == "ping" {
            return Ok(Self::Ping);
        }
        if message.len() > MESSAGE_BYTES_MAX {
            let detail = format!("a message has at most {MESSAGE_BYTES_MAX} bytes; send several");
            return Err(Problem::new(Code::BodyTooLarge, detail));
        }
        // An array would be read as the object's fields in order.
        let body = Some(message).filter(|text| text.trim_start().starts_with('{'));
        let body: Option<ChangeBody> = body.and_then(|text| serde_json::from_str(text).ok());
        let body = body.ok_or_else(|| {
            let detail = r#"send {"add":["a"],"remove":["b"]}, or ping"#;
            Problem::new(Code::InvalidBody, detail)
        })?;
        if body.add.len().max(body.remove.len()) > IDS_MAX {
            let detail =
                format!("a message has at most {IDS_MAX} counters to add or remove; send several");
            return Err(Problem::new(Code::TooManyCounters, detail));
        }
        let all = |texts: Vec<String>| {
            let ids = texts.into_iter().map(CounterId::parse);
            ids.collect::<Result<Vec<_>, _>>().map_err(Problem::from)
        };
        Ok(Self::Change {
            add: all(body.add)?,
            remove: all(body.remove)?,
        })
    }
}

/// The topics of a watcher after a change. A topic that is both added and removed is watched.
///
/// # Errors
/// `too-many-counters`; `forbidden` for ids that it may not read.
pub fn changed(
    kept: &SocketAttachment,
    add: Vec<CounterId>,
    remove: &[CounterId],
) -> Result<Vec<Topic>, Problem> {
    let may = |id: &CounterId| {
        let begins = |prefix: &String| id.as_str().starts_with(prefix.as_str());
        kept.prefixes.iter().any(begins)
    };
    if let Some(id) = add.iter().find(|id| !may(id)) {
        let id: String = id.as_str().chars().take(SHOWN_CHARACTERS_MAX).collect();
        let detail = format!("this socket may not read `{id}`; open another with a key that may");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let is_removed = |topic: &&Topic| match topic {
        Topic::Counter(counter) => remove.contains(counter),
        Topic::Board(_) => false,
    };
    let remaining = kept.ids.iter().filter(|topic| !is_removed(topic)).cloned();
    bounded(remaining.chain(add.into_iter().map(Topic::from)).collect())
}

/// The state stored with an open socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketAttachment {
    /// Its topics.
    pub ids: Vec<Topic>,
    /// Whether numbers that JavaScript cannot hold exactly are sent as strings.
    pub as_strings: bool,
    /// The prefixes of the ids that it may add.
    pub prefixes: Vec<String>,
    /// A hash of its address, where it has no key.
    pub visitor: Option<u64>,
    /// When it ends, unix milliseconds, where it has a share.
    pub ends_ms: Option<i64>,
}

impl SocketAttachment {
    /// The text stored with the socket: ASCII, so that each character takes one byte.
    ///
    /// # Errors
    /// `Broken` above [`ATTACHMENT_BYTES_MAX`].
    pub fn to_attachment(&self) -> Result<String, Fault> {
        let text = STANDARD_NO_PAD.encode(encode(self)?);
        if text.len() > ATTACHMENT_BYTES_MAX {
            let what = format!(
                "a socket can keep {ATTACHMENT_BYTES_MAX} bytes, not {}",
                text.len()
            );
            return Err(Fault::Broken(what));
        }
        Ok(text)
    }

    /// Reads the stored text; `None` where this build does not know its form.
    pub fn from_attachment(text: &str) -> Option<Self> {
        decode(&STANDARD_NO_PAD.decode(text).ok()?).ok()
    }
}

/// The state that a client of server-sent events has, from its `Last-Event-ID`; `None` for a text that is not ours.
pub fn resumes(last_event_id: Option<&str>) -> Option<u64> {
    let text = last_event_id.filter(|text| text.len() == 16)?;
    u64::from_str_radix(text, 16).ok()
}

/// The first bytes of a stream of server-sent events: the delay before a reconnect.
pub fn first_frame() -> String {
    ["retry: ", &RETRY_MS.to_string(), "\n\n"].concat()
}

/// An update as a server-sent event. Its JSON has no line breaks.
pub fn update_frame(update: &Update) -> String {
    let id = format!("{:016x}", update.id);
    ["id: ", &id, "\ndata: ", &update.text, "\n\n"].concat()
}

/// The message that is sent when nothing has changed for long.
pub fn ping(at_ms: i64) -> String {
    [r#"{"type":"ping","sent_at":"#, &at_ms.to_string(), "}"].concat()
}

/// A ping as a server-sent event of its own type, so that listeners for messages do not see it.
pub fn ping_frame(at_ms: i64) -> String {
    ["event: ping\ndata: ", &ping(at_ms), "\n\n"].concat()
}

/// The answer to a refused message of a socket: a problem, with the type `error`.
pub fn refusal(problem: &Problem) -> String {
    [r#"{"type":"error","problem":"#, &problem.to_json(), "}"].concat()
}
