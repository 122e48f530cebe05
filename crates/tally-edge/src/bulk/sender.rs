//! Sending of a bulk body to its cells: it joins the lanes of all of them at once, so that bodies that arrive together
//! share flushes, and sends the batches without another sender, a bounded number at a time.
//!
//! Invariant: a load is joined again only after a cell has refused it, so nothing counts twice.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::future::{Either, FutureExt, LocalBoxFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::reports::BulkReports;
use crate::kit::isolate::known_of;
use crate::kit::lanes;
use crate::write::flush_sender::{CellLane, FlushProgress, FlushWatch, send_batch};
use crate::write::lead_reports::LeadReports;
use tally_api::batch::addressed::Addressed;
use tally_core::counter::flush::Refusal;
use tally_core::counter::lane::Ticket;
use tally_core::isolate::wave;
use tally_host::Host;
use tally_shared::call::has_tablets;
use tally_shared::call_batcher::Batcher;
use tally_shared::open_objects;
use tally_wire::messages::Fault;
use tally_wire::names::CellAddress;
use tally_wire::problem::{Code, Problem};

/// The most batches of one body in flight. On plain workerd one thread opens objects, so more would only wait there.
const IN_FLIGHT_MAX: usize = 48;

/// The same, if tablets host cells: these batches are sent together, in 16 messages at once.
const HOSTED_IN_FLIGHT_MAX: usize = 8_192;

/// The interval at which a body looks for outcomes of batches that others send, milliseconds.
const LOOK_EVERY_MS: u64 = 2;

/// How long a part of a body may take, milliseconds: below the 65 s that a batch waits without a sender.
const PART_MS_MAX: i64 = 50_000;

/// The most times that a load is sent to another cell because its cell has been sealed.
const MOVES_MAX: u8 = 4;

struct BulkSender {
    loads: Vec<Addressed>,
    moves: Vec<u8>,
    progress: Rc<RefCell<FlushProgress>>,
    /// Batches with writes of this body, until they are sent.
    own: VecDeque<(CellAddress, Ticket)>,
    /// Writes that found no room in their lanes yet, and why.
    late: VecDeque<(usize, Problem)>,
    /// Where the leads that count are reported, if they are.
    reports: Option<Rc<LeadReports>>,
    /// Whether leads give their pushes with their answers. While bodies come at once, tablets are asked for them when
    /// they report, because one push then has what many flushes counted.
    wants_pushes: bool,
    failed: Vec<(usize, Problem)>,
}

/// Counts all loads. Returns the failed ones by index, with the reason. If other bodies are being counted, they may
/// join before this one sends, so that they share flushes. Cells that count get into `reports`.
pub async fn count_many(
    host: &Host,
    loads: Vec<Addressed>,
    reports: Option<&BulkReports>,
    has_others: bool,
) -> Vec<(usize, Problem)> {
    let mut bulk = BulkSender {
        moves: vec![0; loads.len()],
        loads,
        progress: Rc::default(),
        own: VecDeque::new(),
        late: VecDeque::new(),
        reports: reports.map(|reports| reports.all().clone()),
        wants_pushes: reports.is_some_and(|reports| {
            !has_tablets(host) || reports.all().with(|queue| queue.is_alone())
        }),
        failed: Vec::new(),
    };
    bulk.progress.borrow_mut().finished = vec![false; bulk.loads.len()];
    for number in 0..bulk.loads.len() {
        bulk.join(host, number);
    }
    if has_others && !bulk.loads.is_empty() {
        // All bodies of the wave have looked by then.
        host.sleep_ms(wave::LOOK_EVERY_MS + 1).await;
        // Other requests may have sent all of it already: the loop below would not notice their failures.
        bulk.sort_out(host);
    }
    let batcher = Batcher::new(host);
    batcher.run(send_all(host, &batcher, &mut bulk)).await;
    bulk.failed
}

/// Sends the batches without another sender until all have an outcome.
async fn send_all(host: &Host, batcher: &Batcher, bulk: &mut BulkSender) {
    let begun_ms = host.now_ms();
    let in_flight_max = if has_tablets(host) {
        HOSTED_IN_FLIGHT_MAX
    } else {
        IN_FLIGHT_MAX
    };
    let mut sending: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
    while bulk.is_under_way() {
        if host.now_ms() - begun_ms > PART_MS_MAX {
            bulk.give_up();
            break;
        }
        for _ in 0..bulk.own.len() {
            if sending.len() >= in_flight_max {
                break;
            }
            let Some((to, ticket)) = bulk.own.pop_front() else {
                break;
            };
            let Some(turn) = open_objects::begin(host, &to) else {
                bulk.own.push_front((to, ticket));
                break;
            };
            match lanes::take::<CellLane>(host, &to, &ticket) {
                Some((nonce, load)) => {
                    let (reports, wants_push) = (bulk.reports.clone(), bulk.wants_pushes);
                    let batch = async move {
                        let batcher = Some(batcher);
                        let push = send_batch(host, batcher, wants_push, &to, nonce, load).await;
                        // In one stretch with the outcome: it has every write that has one now.
                        if let (Some(reports), Some(push)) = (reports, push) {
                            reports.with(|queue| queue.add(to, Some(push)));
                        }
                        drop(turn);
                    };
                    sending.push(batch.boxed_local());
                }
                // The batch before it is in flight, or another request sends it.
                None => {
                    turn.give_back();
                    if lanes::is_waiting::<CellLane>(host, &to, &ticket) {
                        bulk.own.push_back((to, ticket));
                    }
                }
            }
        }
        next_event(host, &mut sending).await;
        bulk.sort_out(host);
    }
    // Other writes may have joined the batches in flight.
    while sending.next().await.is_some() {}
}

impl BulkSender {
    fn is_under_way(&self) -> bool {
        self.progress.borrow().pending > 0 || !self.late.is_empty()
    }

    fn join(&mut self, host: &Host, number: usize) {
        let Some(Addressed { to, load, .. }) = self.loads.get(number) else {
            return;
        };
        let watcher = FlushWatch {
            progress: self.progress.clone(),
            number,
            lead: self.reports.clone().map(|all| (to.sibling(0), all)),
        };
        match lanes::join::<CellLane>(host, to, load.clone(), Some(watcher)) {
            Ok(ticket) => {
                let mut progress = self.progress.borrow_mut();
                progress.pending += 1;
                if let Some(finished) = progress.finished.get_mut(number) {
                    *finished = false;
                }
                // The body also takes batches of others: the request that opened one may be gone, and a batch can be
                // taken once.
                self.own.push_back((to.clone(), ticket));
            }
            Err(problem) => self.late.push_back((number, problem)),
        }
    }

    /// Joins the writes that found no room before, as far as there is room now.
    fn join_late(&mut self, host: &Host) {
        for _ in 0..self.late.len() {
            let Some((number, _)) = self.late.pop_front() else {
                return;
            };
            let late = self.late.len();
            self.join(host, number);
            if self.late.len() > late {
                return;
            }
        }
    }

    /// Sends writes again that a sealed shard has refused, and records final failures.
    fn sort_out(&mut self, host: &Host) {
        self.join_late(host);
        let refused = std::mem::take(&mut self.progress.borrow_mut().failed);
        for (number, fault) in refused {
            let moves = self.moves.get(number).copied().unwrap_or(MOVES_MAX);
            let goes_on = match (&fault, self.loads.get_mut(number)) {
                // A decrement in the same batch may have made a counter with a floor refuse all of it.
                (
                    Fault::Refused(Refusal::Moved(_) | Refusal::HasFloor) | Fault::Elsewhere(_),
                    _,
                ) => true,
                (Fault::Refused(Refusal::OtherHash(own)), Some(load)) => load.rehash(*own),
                _ => false,
            };
            if goes_on && moves < MOVES_MAX {
                self.forward(host, number);
            } else {
                self.failed.push((number, fault.into()));
            }
        }
    }

    fn forward(&mut self, host: &Host, number: usize) {
        if let Some(Addressed { to, .. }) = self.loads.get_mut(number) {
            let known = known_of(host, &to.counter);
            if let Some(home) = &known.home {
                to.datacenter = home.clone();
            }
            to.shard = known.own_shard(known.shards_in(&to.datacenter));
        }
        if let Some(moves) = self.moves.get_mut(number) {
            *moves += 1;
        }
        self.join(host, number);
    }

    /// Ends all other writes with an unknown outcome.
    fn give_up(&mut self) {
        let late: Vec<usize> = self.late.iter().map(|(number, _)| *number).collect();
        self.failed.extend(std::mem::take(&mut self.late));
        let detail = "the body took too long; this line may or may not have been counted";
        let mut finished = std::mem::take(&mut self.progress.borrow_mut().finished);
        // Late writes are known not to be counted.
        for number in late {
            if let Some(finished) = finished.get_mut(number) {
                *finished = true;
            }
        }
        let unknown = finished
            .iter()
            .enumerate()
            .filter(|(_, finished)| !**finished);
        let problem = Problem::new(Code::Unavailable, detail);
        self.failed
            .extend(unknown.map(|(number, _)| (number, problem.clone())));
    }
}

/// Waits until a batch of this body is complete, or it is time to look at batches of others.
async fn next_event(host: &Host, sending: &mut FuturesUnordered<LocalBoxFuture<'_, ()>>) {
    let look = std::pin::pin!(host.sleep_ms(LOOK_EVERY_MS));
    if sending.is_empty() {
        look.await;
        return;
    }
    if let Either::Left(_) = select(sending.next(), look).await {
        // Batches that complete together are handled together.
        while let Some(Some(())) = sending.next().now_or_never() {}
    }
}
