//! Reads and writes boards, over any number of shards.
//!
//! Invariants: a member lives in one shard, so counts add up, and the order within a shard is a part of the order of
//! the board. Answers of different layouts are never combined. A shard whose members have moved refuses writes: they
//! are sent to the new shard, and none is sent twice.
//!
//! A rank is 1 plus the number of members before it, summed over the shards. Shards count at different moments: with
//! several shards the sum can be off by the writes that were made during the read, and by nothing else.

use std::cell::RefCell;

use futures_util::future::LocalBoxFuture;

use super::call;
use tally_api::boards::BoardVersion;
use tally_core::board::placing::{Layout, ShardAt};
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::{Host, State};
use tally_wire::messages::{AskBoard, BoardAnswer, BoardQuestion, BoardSeen, Fault, FindKey};

/// The boards whose layout an isolate remembers; about 600 bytes each. A forgotten one costs a call or two.
const ROUTES_MAX: usize = 10_000;

/// The attempts while members of a board are being moved, and the wait between two, milliseconds: 4 s together.
pub(super) const TRIES_MAX: u32 = 80;
pub(super) const AGAIN_MS: u64 = 100;

/// The most rows that a page may skip to be read directly: then each shard is asked for all rows before the page too.
/// For a later page, a member at most this many rows before it is found first.
pub(super) const SKIPPED_MAX: u64 = 1_000;

/// The most rounds of that search: of 16 shards with 300,000 members each it takes one or two.
pub(super) const FAR_ROUNDS_MAX: u32 = 12;

/// An existing board: its layout, its home, and the next sequence for this isolate's writes.
#[derive(Clone, Default)]
pub(super) struct Route {
    pub(super) layout: Layout,
    pub(super) home: Option<Datacenter>,
    pub(super) next_sequence: u64,
}

/// The boards whose routes this isolate has cached.
#[derive(Default)]
struct Routes(RefCell<BoundedMap<CounterId, Route, ROUTES_MAX>>);

impl State for Routes {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

pub(super) fn known(host: &Host, board: &CounterId) -> Option<Route> {
    let routes = host.state::<Routes>();
    let mut routes = routes.0.borrow_mut();
    routes.get_mut(board).cloned()
}

pub(super) fn cache_route(host: &Host, board: &CounterId, work: impl FnOnce(&mut Route)) {
    let routes = host.state::<Routes>();
    let mut routes = routes.0.borrow_mut();
    work(routes.entry(board, Route::default));
}

/// The home of a board, if this isolate knows it.
pub fn home_of(host: &Host, board: &CounterId) -> Option<Datacenter> {
    known(host, board).and_then(|route| route.home)
}

/// The layout of a board, as far as this isolate knows it.
pub fn layout_of(host: &Host, board: &CounterId) -> Layout {
    known(host, board).map_or_else(Layout::default, |route| route.layout)
}

/// Whether a board of this name exists, by the directory. Its object is not asked, because a call would create it.
///
/// # Errors
/// `Unavailable` where the directory does not answer.
pub fn is_there<'a>(
    host: &'a Host,
    board: &'a CounterId,
) -> LocalBoxFuture<'a, Result<bool, Fault>> {
    Box::pin(async move {
        let find = FindKey { key: board.clone() };
        Ok(call(host, &find).await?.is_board)
    })
}

/// The answers of all shards, in their order, or the answer that ends the read.
pub(super) type Parts = Result<Vec<BoardSeen>, BoardAnswer>;

/// Asks a board.
pub struct BoardReader<'a> {
    /// The platform.
    pub host: &'a Host,
    /// The board.
    pub board: &'a CounterId,
    /// The beginning of an ended period, unix seconds; `None` for the current one.
    pub period: Option<i64>,
    /// The version that the answer must include.
    pub at_least: Option<BoardVersion>,
}

impl<'a> BoardReader<'a> {
    /// Asks about the current period.
    pub fn new(host: &'a Host, board: &'a CounterId) -> Self {
        Self {
            host,
            board,
            period: None,
            at_least: None,
        }
    }

    /// Asks one shard.
    ///
    /// # Errors
    /// `Unavailable` where it does not answer.
    pub fn ask_shard<'b>(
        &'b self,
        layout: Layout,
        at: ShardAt,
        question: BoardQuestion,
    ) -> LocalBoxFuture<'b, Result<BoardAnswer, Fault>> {
        Box::pin(async move {
            let at_least = self.at_least.as_ref().map(|wanted| {
                let shard = usize::try_from(at.shard).unwrap_or(usize::MAX);
                // A move transfers everything that was acknowledged before it.
                let sequence = match wanted.layout == layout.number {
                    true => wanted.sequences.get(shard).copied().unwrap_or(0),
                    false => 0,
                };
                (wanted.generation, sequence)
            });
            let ask = AskBoard {
                at,
                home: home_of(self.host, self.board),
                period: self.period,
                at_least,
                ..AskBoard::new(self.board, question)
            };
            call(self.host, &ask).await
        })
    }
}

pub(super) fn moving() -> Fault {
    Fault::Unavailable("members of the board are being moved".to_owned())
}

/// The combined answer of all shards, or the answer that ends the read.
pub(super) type BoardResult = Result<BoardSeen, BoardAnswer>;
