//! Lanes from clients' requests to objects: items join lanes, one of them sends the batch, and every item waits for the
//! outcome of its batch: by its own timer, or until it is woken where the platform lets one request wake another.
//!
//! Invariant: an item is acknowledged only if the message that holds it was.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{poll_fn, ready};
use std::hash::Hash;
use std::task::{Poll, Waker};

use futures_channel::oneshot;

use super::request_context::RequestContext;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::lane::batchable::Batchable;
use tally_core::counter::lane::{Arrival, IN_FLIGHT_MS_MAX, Lane, Ticket};
use tally_core::counter::nonces::Nonce;
use tally_host::{Host, State};
use tally_wire::messages::Fault;
use tally_wire::problem::{Code, Problem};

/// The most lanes in memory: an idle one is about 300 bytes. Dropping one loses only its name.
const LANES_MAX: usize = 20_000;

/// The interval at which idle lanes are searched for while there is no room for another, milliseconds.
const SWEEP_EVERY_MS: i64 = 20;

/// The interval at which a waiting write checks for its outcome, milliseconds.
const LOOK_EVERY_MS: u64 = 1;

/// How often writes that are woken by their outcome look by themselves, milliseconds.
const UNWOKEN_MS_MAX: u64 = 200;

/// The most further batches that a sender sends after its own. Its client has its answer by then, but the platform lets
/// a request continue for 30 s at most: 50 batches of 5 ms are 0.25 s.
const FOLLOWING_MAX: usize = 50;

/// How long a write waits in all, milliseconds: for the batch before its own, and for its own.
const WAIT_MS_MAX: i64 = IN_FLIGHT_MS_MAX - 200;

/// The position of an item in a batch of this kind.
pub type PositionOf<L> = <<L as LaneKind>::Batchable as Batchable>::Position;

/// A ticket of a lane of this kind.
pub type TicketOf<L> = Ticket<PositionOf<L>>;

/// A kind of lanes: their target, content, and how they send.
pub trait LaneKind: Sized + 'static {
    /// The target of a lane.
    type Target: Clone + Eq + Hash;
    /// The content of a lane.
    type Batchable: Batchable;
    /// The outcome of a batch.
    type Outcome: Clone;
    /// An extra receiver of the outcome; the items check for it by themselves.
    type Watcher;

    /// Succeeds once a target may be called.
    ///
    /// # Errors
    /// `overloaded`.
    fn admit(_host: &Host, _to: &Self::Target) -> impl Future<Output = Result<(), Problem>> {
        ready(Ok(()))
    }

    /// The outcome of a batch whose sender is gone.
    fn lost() -> Self::Outcome;

    /// Notifies a watcher.
    fn notify(watcher: Self::Watcher, outcome: &Self::Outcome);

    /// Sends a batch that was taken, and completes it.
    fn send(
        host: &Host,
        to: &Self::Target,
        nonce: Nonce,
        load: Self::Batchable,
    ) -> impl Future<Output = ()>;
}

/// A lane of this kind.
type LaneOf<L> =
    Lane<<L as LaneKind>::Outcome, <L as LaneKind>::Watcher, <L as LaneKind>::Batchable>;

/// The lanes of an isolate, of one kind.
pub struct Lanes<L: LaneKind> {
    lanes: BoundedMap<L::Target, LaneOf<L>, LANES_MAX>,
    swept_ms: i64,
}

impl<L: LaneKind> Default for Lanes<L> {
    fn default() -> Self {
        Self {
            lanes: BoundedMap::default(),
            swept_ms: i64::MIN,
        }
    }
}

/// The lanes of this isolate.
struct IsolateLanes<L: LaneKind>(RefCell<Lanes<L>>);

impl<L: LaneKind> State for IsolateLanes<L> {
    fn begin(_host: &Host) -> Self {
        Self(RefCell::default())
    }
}

impl<L: LaneKind> Lanes<L> {
    /// Works with the lanes of this isolate.
    pub fn with<T>(host: &Host, work: impl FnOnce(&mut Self) -> T) -> T {
        work(&mut host.state::<IsolateLanes<L>>().0.borrow_mut())
    }

    /// An existing lane.
    pub fn known(&mut self, to: &L::Target) -> Option<&mut LaneOf<L>> {
        self.lanes.get_mut(to)
    }

    /// The lane to a target, created if needed; `None` where too many are busy.
    fn lane(&mut self, host: &Host, to: &L::Target) -> Option<&mut LaneOf<L>> {
        if !self.lanes.contains_key(to) {
            let now_ms = host.now_ms();
            let since_ms = now_ms.saturating_sub(self.swept_ms);
            if self.lanes.len() >= LANES_MAX {
                if (0..SWEEP_EVERY_MS).contains(&since_ms) {
                    return None;
                }
                self.swept_ms = now_ms;
            }
            if !self.lanes.make_room(to, |lane| !lane.is_idle(now_ms)) {
                return None;
            }
            self.lanes.insert(to.clone(), Lane::new(host.random()));
        }
        self.lanes.get_mut(to)
    }
}

/// Adds an item to the lane to a target.
///
/// # Errors
/// `overloaded` where the lane, or the isolate, is full.
pub fn join<L: LaneKind>(
    host: &Host,
    to: &L::Target,
    load: L::Batchable,
    watcher: Option<L::Watcher>,
) -> Result<TicketOf<L>, Problem> {
    let now_ms = host.now_ms();
    let joined = Lanes::<L>::with(host, |lanes| {
        let lane = lanes.lane(host, to)?;
        let lost = L::lost();
        for watcher in lane.give_up_stale(now_ms, &lost) {
            L::notify(watcher, &lost);
        }
        lane.join(load, now_ms, watcher)
    });
    joined.ok_or_else(|| {
        let detail = "too many requests wait here; nothing was counted, try again";
        Problem::new(Code::Overloaded, detail)
    })
}

/// Lets the next batch of a lane gather as long as its target asks. Where a waiting write is woken by its outcome, a
/// commit gathers by itself.
pub fn linger<L: LaneKind>(host: &Host, lane: &mut LaneOf<L>, milliseconds: u32) {
    if !host.platform().wakes_requests() {
        lane.linger(milliseconds);
    }
}

/// Takes a ticket's batch if it may be sent now.
pub fn take<L: LaneKind>(
    host: &Host,
    to: &L::Target,
    ticket: &TicketOf<L>,
) -> Option<(Nonce, L::Batchable)> {
    Lanes::<L>::with(host, |lanes| {
        lanes.known(to)?.take_for(ticket, host.now_ms())
    })
}

/// Whether a ticket's batch has not been taken yet.
pub fn is_waiting<L: LaneKind>(host: &Host, to: &L::Target, ticket: &TicketOf<L>) -> bool {
    Lanes::<L>::with(host, |lanes| {
        let lane = lanes.known(to);
        lane.is_some_and(|lane| lane.is_waiting(ticket))
    })
}

/// How many items wait in the lane to a target.
pub fn waiting_items<L: LaneKind>(host: &Host, to: &L::Target) -> u32 {
    Lanes::<L>::with(host, |lanes| {
        lanes.known(to).map_or(0, |lane| lane.waiting_items())
    })
}

/// Who waits for which batch of which lane, where one request may wake another.
#[derive(Default)]
struct LaneWaiters {
    waiting: RefCell<BTreeMap<(u64, u64), Vec<Waker>>>,
    /// Whether a task looks after those that nobody wakes.
    is_swept: Cell<bool>,
}

impl State for LaneWaiters {
    fn begin(_host: &Host) -> Self {
        Self::default()
    }
}

impl LaneWaiters {
    /// Waits until a batch completes, or its task is polled for whatever other reason: then it looks, and waits again.
    async fn woken(&self, batch: (u64, u64)) {
        let mut has_begun = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_begun, true) {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            let known = waiting.entry(batch).or_default();
            known.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn wake(&self, batch: (u64, u64)) {
        let woken = self.waiting.borrow_mut().remove(&batch);
        woken.into_iter().flatten().for_each(Waker::wake);
    }
}

/// Wakes all that wait, again and again until nobody does: a batch that was given up wakes nobody. One task instead of
/// a timer for each write: a timer took 1.5 µs.
async fn sweep(host: Host) {
    let waiters = host.state::<LaneWaiters>();
    loop {
        host.sleep_ms(UNWOKEN_MS_MAX).await;
        let unwoken = waiters.waiting.take();
        if unwoken.is_empty() {
            break;
        }
        unwoken.into_values().flatten().for_each(Waker::wake);
    }
    waiters.is_swept.set(false);
}

/// Waits until a batch completes or a time is over; where no request may wake another, until the time is over.
async fn wait_for(host: &Host, lane: u64, batch: u64, milliseconds: u64) {
    if !host.platform().wakes_requests() {
        return host.sleep_ms(milliseconds).await;
    }
    let waiters = host.state::<LaneWaiters>();
    waiters.woken((lane, batch)).await;
}

/// Sees to it that whoever waits for a batch is woken some time.
fn begin_sweep(context: &RequestContext) {
    let host = &context.host;
    if host.platform().wakes_requests() && !host.state::<LaneWaiters>().is_swept.replace(true) {
        context.wait_until(sweep(host.clone()));
    }
}

/// Ends a batch, and notifies its watchers.
pub fn complete<L: LaneKind>(host: &Host, lane: &mut LaneOf<L>, nonce: Nonce, outcome: L::Outcome) {
    if host.platform().wakes_requests() {
        let waiters = host.state::<LaneWaiters>();
        waiters.wake((nonce.lane, nonce.number));
    }
    for watcher in lane.complete(nonce.number, outcome.clone(), host.now_ms()) {
        L::notify(watcher, &outcome);
    }
}

/// Sends an item by the lane to a target, and returns its outcome. It waits until [`WAIT_MS_MAX`] after `begun_ms`, the
/// time of its request, unix milliseconds. An item that is forwarded from target to target waits no longer in all.
///
/// # Errors
/// `unavailable` where nothing is confirmed in time; `overloaded`.
pub async fn carry<L: LaneKind>(
    context: &RequestContext,
    to: &L::Target,
    load: L::Batchable,
    begun_ms: i64,
) -> Result<Arrival<L::Outcome, PositionOf<L>>, Problem> {
    L::admit(&context.host, to).await?;
    let ticket = join::<L>(&context.host, to, load, None)?;
    begin_sweep(context);
    if ticket.sends {
        let (done_sender, done_receiver) = oneshot::channel();
        let (host, to) = (context.host.clone(), to.clone());
        context.wait_until(async move {
            let has_sent = send_in_turn::<L>(&host, &to, &ticket).await;
            // There is no receiver if the client is gone; the other items check by their own timers.
            let _ = done_sender.send(());
            if has_sent {
                send_following::<L>(&host, &to).await;
            }
        });
        // This wakes the sender within its own request, which is allowed.
        let left_ms =
            WAIT_MS_MAX.saturating_sub(context.host.now_ms().saturating_sub(begun_ms).max(0));
        let _ = context
            .host
            .within_ms(u64::try_from(left_ms).unwrap_or(0), done_receiver)
            .await;
    }
    loop {
        let look = Lanes::<L>::with(&context.host, |lanes| {
            lanes
                .known(to)
                .map(|lane| look::<L>(&context.host, lane, &ticket))
        });
        let wait_ms = match look {
            Some(Ok(arrival)) => return Ok(arrival),
            Some(Err(wait_ms)) => wait_ms,
            None => LOOK_EVERY_MS,
        };
        if context.host.now_ms() - begun_ms > WAIT_MS_MAX {
            let late = "the counter did not confirm in time".to_owned();
            return Err(Fault::Unavailable(late).into());
        }
        wait_for(&context.host, ticket.lane, ticket.batch, wait_ms).await;
    }
}

/// The outcome of a ticket's batch, or after how many milliseconds to check again.
fn look<L: LaneKind>(
    host: &Host,
    lane: &LaneOf<L>,
    ticket: &TicketOf<L>,
) -> Result<Arrival<L::Outcome, PositionOf<L>>, u64> {
    lane.arrival(ticket)
        .ok_or_else(|| lane.look_in_ms(ticket, host.now_ms()))
}

/// Waits for a batch's turn, and sends it; false if another request does.
async fn send_in_turn<L: LaneKind>(host: &Host, to: &L::Target, ticket: &TicketOf<L>) -> bool {
    let begun_ms = host.now_ms();
    while host.now_ms() - begun_ms <= IN_FLIGHT_MS_MAX {
        if let Some((nonce, load)) = take::<L>(host, to, ticket) {
            L::send(host, to, nonce, load).await;
            return true;
        }
        // A request that has just completed its batch may send this one too.
        if !is_waiting::<L>(host, to, ticket) {
            return false;
        }
        let gathers_ms = Lanes::<L>::with(host, |lanes| {
            lanes.known(to).map(|lane| lane.gathers_ms(host.now_ms()))
        });
        let gathers_ms = gathers_ms.and_then(|left_ms| u64::try_from(left_ms).ok());
        let wait_ms = gathers_ms.unwrap_or(0).max(LOOK_EVERY_MS);
        wait_for(host, ticket.lane, ticket.batch.saturating_sub(1), wait_ms).await;
    }
    false
}

/// Sends the items that gathered meanwhile, so that a hot lane does not idle until its next sender checks.
async fn send_following<L: LaneKind>(host: &Host, to: &L::Target) {
    for _ in 0..FOLLOWING_MAX {
        let next = Lanes::<L>::with(host, |lanes| lanes.known(to)?.take_first(host.now_ms()));
        let Some((nonce, load)) = next else { return };
        L::send(host, to, nonce, load).await;
    }
}
