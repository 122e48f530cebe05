//! The boards of a keyspace: which exist, and calls of them.

use std::cell::RefCell;

use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_shared::{call, call_within};
use tally_wire::messages::{
    AskBoard, BoardAnswer, BoardQuestion, EndBoard, Fault, FindKey, KeyFound, RunSorted, SortedRan,
};
use tally_wire::shell_limits::OPERATE_MS_MAX;

/// The most boards that are remembered, about 600 bytes each; another one costs a call.
const BOARDS_KNOWN_MAX: usize = 10_000;

/// The boards of a keyspace.
pub(super) struct Boards {
    host: Host,
    known: RefCell<BoundedMap<CounterId, (), BOARDS_KNOWN_MAX>>,
}

/// A board that was read.
pub(super) struct BoardRead {
    /// Its generation; `None` if it is spread over several objects.
    pub(super) generation: Option<u64>,
    /// Whether no members are seen.
    pub(super) is_empty: bool,
}

impl Boards {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            known: RefCell::default(),
        }
    }

    /// Whether a board is known to exist.
    pub(super) fn is_known(&self, id: &CounterId) -> bool {
        self.known.borrow_mut().get(id).is_some()
    }

    /// The directory's entry of a name.
    ///
    /// # Errors
    /// `Unavailable`; as for all methods below.
    pub(super) async fn find(&self, id: &CounterId) -> Result<KeyFound, Fault> {
        call(&self.host, &FindKey { key: id.clone() }).await
    }

    /// Whether there is such a board.
    pub(super) async fn has(&self, id: &CounterId) -> Result<bool, Fault> {
        if !self.is_known(id) && !self.find(id).await?.is_board {
            return Ok(false);
        }
        let nothing = RunSorted::on(id, Vec::new());
        Ok(self.run(&nothing).await?.replies.is_some())
    }

    /// A board that exists.
    pub(super) async fn look(&self, id: &CounterId) -> Result<Option<BoardRead>, Fault> {
        if !self.is_known(id) && !self.find(id).await?.is_board {
            return Ok(None);
        }
        let about = AskBoard::new(id, BoardQuestion::About);
        let read = match call_within(&self.host, &about, OPERATE_MS_MAX).await? {
            BoardAnswer::Seen(seen) => Some(BoardRead {
                generation: Some(seen.generation),
                is_empty: seen.period.total == 0,
            }),
            BoardAnswer::Spread(_) => Some(BoardRead {
                generation: None,
                is_empty: false,
            }),
            BoardAnswer::Absent | BoardAnswer::NoPeriod => None,
            _ => {
                let what = "members of the board are being moved".to_owned();
                return Err(Fault::Unavailable(what));
            }
        };
        if read.is_none() {
            self.known.borrow_mut().remove(id);
        }
        Ok(read)
    }

    /// The result of commands.
    pub(super) async fn run(&self, message: &RunSorted) -> Result<SortedRan, Fault> {
        let ran = call_within(&self.host, message, OPERATE_MS_MAX).await?;
        let mut known = self.known.borrow_mut();
        if ran.replies.is_some() {
            known.insert(message.board.clone(), ());
        } else {
            known.remove(&message.board);
        }
        Ok(ran)
    }

    /// Ends a board: of this generation alone, if there is one.
    pub(super) async fn end(&self, id: &CounterId, generation: Option<u64>) -> Result<(), Fault> {
        self.known.borrow_mut().remove(id);
        let end = EndBoard {
            board: id.clone(),
            generation,
        };
        call(&self.host, &end).await?;
        Ok(())
    }
}
