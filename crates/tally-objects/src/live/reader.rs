//! A live reader: it reads the watched counters of its partition, once for all watchers.
//!
//! Invariant: at most one read of a counter is in progress, and none begins within the age that the caller accepts. So
//! a counter is read once a second for any number of hubs that ask once a second. All due reads of a board are one
//! question to it, for any number of watched members. A live reader stores nothing that cannot be read again, and reads
//! nothing without a call. It holds at most [`SNAPSHOTS_MAX`] counters.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use futures_channel::oneshot;

use tally_api::boards::live_board;
use tally_api::live::{LOOK_MAX, LOOK_MS_MAX, SNAPSHOTS_MAX};
use tally_api::metrics::Metric;
use tally_api::public::{Freshness, Rounding, SummedCounter};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::{Origin, Part};
use tally_core::counter::pace::Pace;
use tally_core::order::set_of;
use tally_host::Host;
use tally_host::object::Object;
use tally_shared::boards::BoardReader;
use tally_shared::call::CALL_MS_MAX;
use tally_shared::concurrency::{all_in_order, all_settled};
use tally_shared::metrics;
use tally_wire::live::snapshot::{CounterSnapshot, Shown, is_outdated};
use tally_wire::live::topic::{Topic, WatchedBoard};
use tally_wire::messages::{BoardAnswer, BoardQuestion, Fault, GlobalSum, Look};
use tally_wire::names::UNIQUES_ROUNDING;

/// The reads that are in progress at once for one question.
const READS_AT_ONCE: usize = 64;

/// How long counters are unused before they are forgotten when room is needed, milliseconds.
const UNUSED_MS: u64 = 60_000;

/// The same if that makes too little room, milliseconds: hubs ask once a second for watched counters, and one question
/// may be lost.
const UNUSED_MS_MIN: u64 = 2_500;

/// A read that is due.
enum DueRead {
    Counter(CounterId),
    /// All watched parts of a board.
    Board(CounterId, Vec<WatchedBoard>),
}

impl DueRead {
    fn of(topics: Vec<Topic>) -> Vec<Self> {
        let (mut reads, mut boards) = (Vec::new(), BTreeMap::<CounterId, Vec<_>>::new());
        for topic in topics {
            match topic {
                Topic::Counter(counter) => reads.push(Self::Counter(counter)),
                Topic::Board(watched) => {
                    boards
                        .entry(watched.board.clone())
                        .or_default()
                        .push(watched);
                }
            }
        }
        let boards = boards
            .into_iter()
            .map(|(board, watched)| Self::Board(board, watched));
        reads.extend(boards);
        reads
    }
}

/// The known state of a counter.
#[derive(Default)]
struct WatchedCounter {
    snapshot: CounterSnapshot,
    pace: Pace,
    /// When its last read began, unix milliseconds.
    begun_ms: i64,
    is_reading: bool,
    /// Datacenters that did not answer it.
    away: Vec<Datacenter>,
    used_ms: i64,
    /// Calls that wait for the read that is under way.
    waiting: Vec<oneshot::Sender<()>>,
}

/// One live reader.
pub(super) struct LiveReader {
    host: Host,
    object: Object,
    held: RefCell<HashMap<Topic, WatchedCounter>>,
    /// The same for all watchers, with a key or without.
    rounding: Rounding,
}

impl LiveReader {
    pub(super) fn new(object: Object, host: Host) -> Self {
        let rounding = Rounding::parse(host.setting(UNIQUES_ROUNDING).as_deref());
        Self {
            host,
            object,
            held: RefCell::default(),
            // An unreadable setting was meant to hide something.
            rounding: rounding.unwrap_or(Rounding::COARSEST),
        }
    }

    /// Answers snapshots of these counters, in their order.
    pub(super) async fn on_look(
        self: &Rc<Self>,
        look: Result<Look, Fault>,
    ) -> Result<Vec<CounterSnapshot>, Fault> {
        let Look {
            topics: counters,
            age_ms_max,
            ..
        } = look?;
        if counters.len() > LOOK_MAX {
            return Err(Fault::Broken("a look has too many counters".to_owned()));
        }
        let waits = self.begin(&counters, age_ms_max.into());
        // For slower reads the former snapshot is returned; the new one comes with the next question.
        let _ = self.host.within_ms(LOOK_MS_MAX, all_in_order(waits)).await;
        let held = self.held.borrow();
        let snapshot = |counter| held.get(counter).map(|held| held.snapshot.clone());
        let snapshots = counters.iter().map(|id| snapshot(id).unwrap_or_default());
        Ok(snapshots.collect())
    }

    /// Begins the needed reads; returns receivers that fire when these and those under way are done.
    fn begin(self: &Rc<Self>, counters: &[Topic], age_ms_max: u64) -> Vec<oneshot::Receiver<()>> {
        let now_ms = self.host.now_ms();
        let mut all = self.held.borrow_mut();
        let mut unused_ms = UNUSED_MS;
        while all.len() + counters.len() > SNAPSHOTS_MAX && unused_ms >= UNUSED_MS_MIN {
            let is_used = |held: &WatchedCounter| held.used_ms.abs_diff(now_ms) < unused_ms;
            all.retain(|_, held| held.is_reading || is_used(held));
            unused_ms /= 2;
        }
        let (mut topics, mut waits) = (Vec::new(), Vec::new());
        for counter in counters {
            // Without room its snapshot is pending, and after a time unknown.
            if all.len() >= SNAPSHOTS_MAX && !all.contains_key(counter) {
                continue;
            }
            let held = all.entry(counter.clone()).or_default();
            held.used_ms = now_ms;
            if !held.is_reading && is_outdated(held.begun_ms, now_ms, age_ms_max) {
                held.is_reading = true;
                held.begun_ms = now_ms;
                topics.push(counter.clone());
            }
            if held.is_reading {
                let (done, doing) = oneshot::channel();
                held.waiting.push(done);
                waits.push(doing);
            }
        }
        drop(all);
        if !topics.is_empty() {
            let reader = self.clone();
            self.object.wait_until(async move {
                let read = |due_read| reader.read(due_read);
                let reads = DueRead::of(topics).into_iter().map(read);
                all_settled(reads, READS_AT_ONCE).await;
            });
        }
        waits
    }

    /// The datacenters that did not answer the last read of a counter.
    fn away(&self, counter: &Topic) -> Vec<Datacenter> {
        let held = self.held.borrow();
        held.get(counter)
            .map_or_else(Vec::new, |held| held.away.clone())
    }

    /// Reads a counter or a board, and wakes the waiting calls.
    async fn read(&self, due_read: DueRead) {
        metrics::count(&self.host, Metric::LiveRead);
        match due_read {
            DueRead::Counter(counter) => self.read_counter(&counter).await,
            DueRead::Board(board, watched) => self.read_board(&board, watched).await,
        }
    }

    /// Reads all due parts of a board by one question. A board with the former protocol refuses it, and reads only
    /// single members.
    async fn read_board(&self, board: &CounterId, watched: Vec<WatchedBoard>) {
        let read = self.ask_board(board, &watched).await;
        if watched.len() == 1 || !matches!(read, Err(Fault::Broken(_))) {
            return self.see_board(&read, watched);
        }
        let alone = watched.into_iter().map(|one| async move {
            let read = self.ask_board(board, std::slice::from_ref(&one)).await;
            self.see_board(&read, vec![one]);
        });
        all_settled(alone, READS_AT_ONCE).await;
    }

    async fn ask_board(
        &self,
        board: &CounterId,
        watched: &[WatchedBoard],
    ) -> Result<BoardAnswer, Fault> {
        let top = watched.iter().map(|watched| watched.top).max();
        let names = watched.iter().filter_map(|watched| watched.member.as_ref());
        let names = set_of(names.map(CounterId::as_str));
        let names = names.into_iter().map(|name| name.as_bytes().to_vec());
        let question = BoardQuestion::Live(top.unwrap_or(0), names.collect());
        let reading = BoardReader::new(&self.host, board);
        let answer = reading.ask(question);
        let silent = || Fault::Unavailable("the board does not answer".to_owned());
        let read = self.host.within_ms(CALL_MS_MAX, answer).await;
        read.unwrap_or_else(|| Err(silent()))
    }

    /// Stores what a board has answered, and wakes the waiting calls.
    fn see_board(&self, read: &Result<BoardAnswer, Fault>, watched: Vec<WatchedBoard>) {
        let mut all = self.held.borrow_mut();
        for watched in watched {
            let topic = Topic::Board(watched);
            let Some(held) = all.get_mut(&topic) else {
                continue;
            };
            let shown = match (read, &topic) {
                (Ok(BoardAnswer::Seen(seen)), Topic::Board(watched)) => {
                    Some(Shown::Counter(live_board(seen, watched)))
                }
                (Ok(BoardAnswer::Absent), _) => Some(Shown::Missing),
                _ => None,
            };
            match shown {
                Some(shown) => {
                    held.snapshot = CounterSnapshot {
                        shown,
                        is_read: true,
                    };
                }
                None => held.snapshot.fail(),
            }
            held.wake_waiting();
        }
    }

    /// Reads a counter.
    async fn read_counter(&self, counter: &CounterId) {
        let topic = &Topic::from(counter.clone());
        let begun_ms = self.host.now_ms();
        let away = self.away(topic);
        let reading = tally_aggregator::read_watched(&self.host, counter, &away);
        let read = self.host.within_ms(CALL_MS_MAX, reading).await;
        let mut all = self.held.borrow_mut();
        let Some(held) = all.get_mut(topic) else {
            return;
        };
        match read {
            Some(Ok(sum)) => held.see(
                counter,
                sum.as_ref(),
                (begun_ms, self.host.now_ms()),
                self.rounding,
            ),
            // The former content stays, and is reported as old.
            _ => held.snapshot.fail(),
        }
        held.wake_waiting();
    }
}

impl WatchedCounter {
    /// Wakes the waiting calls.
    fn wake_waiting(&mut self) {
        self.is_reading = false;
        for done in self.waiting.drain(..) {
            let _ = done.send(());
        }
    }

    fn see(
        &mut self,
        counter: &CounterId,
        sum: Option<&GlobalSum>,
        (begun_ms, now_ms): (i64, i64),
        rounding: Rounding,
    ) {
        let shown = match sum {
            None => {
                self.pace.record_missing(begun_ms);
                Shown::Missing
            }
            Some(sum) => {
                let silent = sum
                    .datacenters
                    .iter()
                    .filter(|(_, part)| is_silent(part.as_ref()));
                self.away = silent.map(|(datacenter, _)| datacenter.clone()).collect();
                let freshness = Freshness {
                    as_of_ms: begun_ms,
                    now_ms,
                    fresh: true,
                };
                self.pace.record(begun_ms, sum.root.generation, sum.added());
                let counter_view = SummedCounter::new(counter, sum, freshness).rounded(rounding);
                Shown::Counter(counter_view.live(self.pace.rate_thousandths()))
            }
        };
        self.snapshot = CounterSnapshot {
            shown,
            is_read: true,
        };
    }
}

/// Whether a lead did not answer. A lead without one of its shards did answer.
fn is_silent(part: Option<&Part>) -> bool {
    part.is_none_or(|part| matches!(part.origin, Origin::Known(_)) && part.missing.is_empty())
}
