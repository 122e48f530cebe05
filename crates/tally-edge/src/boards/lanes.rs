//! The lanes of writes to boards. Writes that reach an isolate together share a message and a commit.
//!
//! Invariant: a message of unknown outcome is not sent again, because it may have been done; a client may repeat a
//! write that has a key.

use std::rc::Rc;

use crate::kit::lanes::{self, LaneKind, Lanes, complete};
use crate::kit::request_context::RequestContext;
use tally_api::boards::WRITES_AT_ONCE;
use tally_core::board::placing::ShardAt;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::lane::batchable::Batchable;
use tally_core::counter::nonces::Nonce;
use tally_host::Host;
use tally_shared::call_within;
use tally_wire::messages::{BoardWritten, Fault, MemberWrite, OnceKey, WriteBoard, WriteBoards};

/// How long a board may take to write, milliseconds: less than a batch may.
const WRITE_MS_MAX: u64 = 4_500;

/// The target of a lane: an object of a board, and where it is created if it is new.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BoardTarget {
    board: CounterId,
    at: ShardAt,
    home: Option<Datacenter>,
}

/// The content of a lane: the writes of requests, each with its key.
#[derive(Debug)]
pub struct Requests(Vec<(Vec<MemberWrite>, Option<OnceKey>)>);

impl Batchable for Requests {
    /// The index of a request in its batch.
    type Position = usize;

    fn absorb(&mut self, item: &Self) -> bool {
        let has_room = self.entries() + item.entries() <= WRITES_AT_ONCE;
        if has_room {
            self.0.extend(item.0.iter().cloned());
        }
        has_room
    }

    fn position(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    fn seen_from(item: usize, _last: usize) -> usize {
        item
    }

    fn entries(&self) -> usize {
        self.0.iter().map(|(writes, _)| writes.len()).sum()
    }

    fn depart(&mut self, _items: u32, _generation: u64, _now_ms: i64) {}
}

/// The kind of lanes to boards.
struct Boards;

impl LaneKind for Boards {
    type Target = BoardTarget;
    type Batchable = Requests;
    type Outcome = Result<Rc<Vec<BoardWritten>>, Fault>;
    type Watcher = ();

    fn lost() -> Self::Outcome {
        Err(Fault::Unavailable(
            "the request that carried this write was ended".to_owned(),
        ))
    }

    fn notify((): (), _: &Self::Outcome) {}

    async fn send(host: &Host, to: &BoardTarget, nonce: Nonce, load: Requests) {
        let write = WriteBoards {
            board: to.board.clone(),
            at: to.at,
            home: to.home.clone(),
            requests: load.0,
        };
        let written = call_within(host, &write, WRITE_MS_MAX).await;
        Lanes::<Self>::with(host, |lanes| {
            if let Some(lane) = lanes.known(to) {
                complete::<Self>(host, lane, nonce, written.map(Rc::new));
            }
        });
    }
}

/// Sends the writes of a request by the lane to their board.
///
/// # Errors
/// `Unavailable` where nothing is confirmed in time.
pub async fn send(context: &RequestContext, write: WriteBoard) -> Result<BoardWritten, Fault> {
    let WriteBoard {
        board,
        at,
        home,
        writes,
        once,
        // Writes of a body that keeps its order do not use lanes.
        sequences: _,
    } = write;
    let to = BoardTarget { board, at, home };
    let load = Requests(vec![(writes, once)]);
    let unknown = |what: &str| Fault::Unavailable(what.to_owned());
    let arrival = lanes::carry::<Boards>(context, &to, load, context.host.now_ms()).await;
    let arrival = arrival.map_err(|problem| unknown(problem.detail()))?;
    let written = arrival.outcome?;
    let written = written.get(arrival.later).cloned();
    written.ok_or_else(|| unknown("the board did not report whether it made the write"))
}
