//! A hub: it holds the streams of watchers, and sends changes to each, at most once a second.
//!
//! Invariant: while there are watchers, an alarm is set for the beginning of a second, so a hub that lost its memory
//! continues with its sockets. A stream of server-sent events ends with the memory, and its client connects again. At
//! most one chunk waits for a watcher, see [`Sink`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use super::second_alarm::SecondAlarm;
use super::streams::{FAILED, Sink, close, id_of, kept_of};
use crate::kit::store::Store;
use tally_api::live::client_message::{ClientMessage, SocketAttachment};
use tally_api::live::subscriptions::{ChangeRefusal, HubState, Update, UpdatesMade, WatcherId};
use tally_api::live::{
    ADDED_TOPIC_MS, ADDED_TOPICS_MAX, HUB_MS_MAX, LATE_MS, LOOK_MAX, SECOND_MS, SNAPSHOT_MS_MAX,
    WATCHERS_MAX, client_message, part_of,
};
use tally_api::metrics::Metric;
use tally_core::counter::id::CounterId;
use tally_host::Host;
use tally_host::object::{IncomingCall, Object, Readiness, Reply, Socket};
use tally_shared::call::{call_again, fixed_partition_of};
use tally_shared::concurrency::all_settled;
use tally_shared::flag_guard::FlagGuard;
use tally_shared::metrics;
use tally_wire::live::snapshot::CounterSnapshot;
use tally_wire::live::topic::Topic;
use tally_wire::messages::{Fault, Join, Look, decode};
use tally_wire::names::LIVE_WATCHERS;
use tally_wire::problem::{Code, Problem};

/// The most requests to live readers at once: each of a ring of 16, and more if one is asked several times.
const LOOKS_AT_ONCE: usize = 64;

/// The time between two questions about new counters, milliseconds.
const AGAIN_MS: u64 = 50;

/// One hub.
pub(super) struct Hub {
    host: Host,
    object: Object,
    board: RefCell<HubState>,
    sinks: RefCell<BTreeMap<WatcherId, Sink>>,
    alarm: SecondAlarm,
    is_reading_new: Cell<bool>,
}

impl Hub {
    pub(super) fn new(object: Object, host: Host) -> Self {
        let watchers_max = host.number(LIVE_WATCHERS);
        let hub = Self {
            alarm: SecondAlarm::new(&host, Store::new(object.clone())),
            host,
            object,
            board: RefCell::new(HubState::new(watchers_max.unwrap_or(WATCHERS_MAX))),
            sinks: RefCell::default(),
            is_reading_new: Cell::new(false),
        };
        hub.restore();
        hub
    }

    /// Restores the open sockets. One that cannot be served is closed, so that its client connects again.
    fn restore(&self) {
        let now_ms = self.host.now_ms();
        let mut board = self.board.borrow_mut();
        for socket in self.object.platform().sockets() {
            let known = id_of(&*socket).zip(kept_of(&*socket));
            let restored = known.and_then(|(id, kept)| {
                let restored = board.restore(id, now_ms, kept.ids, kept.as_strings);
                if let Some(visitor) = kept.visitor {
                    board.set_visitor(id, visitor);
                }
                board.set_end(id, kept.ends_ms);
                restored.ok().map(|()| id)
            });
            match restored {
                Some(id) => {
                    self.sinks.borrow_mut().insert(id, Sink::Socket(socket, 0));
                }
                None => close(&*socket, FAILED),
            }
        }
    }

    /// Adds a watcher, and answers with its stream; 503 if the hub is full, 429 if its visitor has too many streams,
    /// 500 if no stream can be opened.
    pub(super) async fn on_join(self: &Rc<Self>, arrived: &IncomingCall) -> Reply {
        let join: Join = match decode(&arrived.message) {
            Ok(join) => join,
            Err(fault) => return Reply::Refused(500, fault.to_string()),
        };
        let is_socket = arrived.upgrade.is_some();
        if let Err(fault) = self.arm().await {
            return Reply::Refused(500, fault.to_string());
        }
        let kept = SocketAttachment {
            ids: join.topics.clone(),
            as_strings: join.as_strings,
            prefixes: join.prefixes,
            visitor: join.visitor,
            ends_ms: join.ends_ms,
        };
        let attachment = match is_socket.then(|| kept.to_attachment()).transpose() {
            Ok(attachment) => attachment,
            Err(fault) => return Reply::Refused(500, fault.to_string()),
        };
        let counters = join.topics.len();
        let has_room = |visitor| self.board.borrow().has_room(visitor, counters, None);
        if !join.visitor.is_none_or(has_room) {
            return refused(429, "the visitor has as many streams as it may have");
        }
        let now_ms = self.host.now_ms();
        let joined =
            self.board
                .borrow_mut()
                .join(now_ms, join.topics, join.as_strings, join.resumes);
        let Ok(id) = joined else {
            return refused(503, "the hub is full");
        };
        if let Some(visitor) = join.visitor {
            self.board.borrow_mut().set_visitor(id, visitor);
        }
        self.board.borrow_mut().set_end(id, join.ends_ms);
        let opened = match attachment {
            Some(attachment) => Sink::socket(&self.object, id, attachment),
            None => Sink::events(&self.object),
        };
        let Ok((mut sink, stream)) = opened else {
            self.board.borrow_mut().leave(id);
            return refused(500, "no stream can be opened");
        };
        let part = part_of(self.host.now_ms());
        if matches!(sink, Sink::Events(_)) {
            // The first chunk has the known state, because the stream accepts one chunk at a time.
            let update = self.next_update(id, part, &mut UpdatesMade::default());
            let frame = update.as_ref().map(client_message::update_frame);
            sink.send(&[client_message::first_frame(), frame.unwrap_or_default()].concat());
            if update.is_some() {
                self.record_sent(id, part, Metric::LiveUpdateEvents);
            }
        }
        self.sinks.borrow_mut().insert(id, sink);
        self.serve(id, part, &mut UpdatesMade::default(), None);
        self.ask_new();
        Reply::Stream(stream)
    }

    fn next_update(&self, id: WatcherId, part: i64, made: &mut UpdatesMade) -> Option<Update> {
        let now_ms = self.host.now_ms();
        self.board.borrow_mut().update_for(id, now_ms, part, made)
    }

    fn record_sent(&self, id: WatcherId, part: i64, metric: Metric) {
        metrics::count(&self.host, metric);
        self.board.borrow_mut().sent(id, self.host.now_ms(), part);
    }

    /// Sets the alarm for the next second, if it is not set.
    async fn arm(&self) -> Result<(), Fault> {
        if self.alarm.is_set() {
            return Ok(());
        }
        self.alarm.set_after(self.host.now_ms()).await
    }

    /// Handles the beginning of a second: reads all watched counters, and sends updates.
    ///
    /// The next alarm is set last, because the platform holds back all output of the object until it is written. If the
    /// object ends before, the platform repeats this alarm.
    ///
    /// # Errors
    /// `Unavailable` where no alarm can be set: the platform repeats this one.
    pub(crate) async fn on_alarm(&self) -> Result<(), Fault> {
        self.alarm.keep_time().await;
        let begun_ms = self.host.now_ms();
        let (watchers, watched) = {
            let board = self.board.borrow();
            (board.watchers(), board.watched())
        };
        if watchers > 0 {
            let watchers = u64::try_from(watchers).unwrap_or(0);
            metrics::add(&self.host, Metric::LiveWatcherSecond, watchers);
            let mut looking = pin!(self.look(watched, SNAPSHOT_MS_MAX));
            let mut part = part_of(begun_ms);
            let read = self.host.within_ms(LATE_MS, looking.as_mut()).await;
            if read.is_none() {
                // Watchers whose updates are complete do not wait for the rest.
                self.flush(part, false);
                part += 1;
                looking.await;
            }
            self.flush(part, true);
        }
        if self.board.borrow().watchers() == 0 {
            self.alarm.end();
            return Ok(());
        }
        self.alarm.set_after(begun_ms).await
    }

    /// Reads new counters, in one round after the other.
    fn ask_new(self: &Rc<Self>) {
        if self.board.borrow().unread().is_empty() || self.is_reading_new.replace(true) {
            return;
        }
        let hub = self.clone();
        self.object.wait_until(async move {
            let _reading = FlagGuard(&hub.is_reading_new);
            loop {
                let new_topics = hub.board.borrow().unread();
                hub.look(new_topics, SECOND_MS).await;
                hub.flush(part_of(hub.host.now_ms()), false);
                if hub.board.borrow().unread().is_empty() {
                    break;
                }
                hub.host.sleep_ms(AGAIN_MS).await;
            }
        });
    }

    /// Asks the live readers of these counters, and stores the answers.
    async fn look(&self, topics: Vec<Topic>, age_ms_max: i64) {
        let mut partitions: BTreeMap<u32, Vec<Topic>> = BTreeMap::new();
        for topic in topics {
            let partition = fixed_partition_of(topic.name());
            partitions.entry(partition).or_default().push(topic);
        }
        let mut looks = Vec::new();
        for (partition, topics) in partitions {
            for part in topics.chunks(LOOK_MAX) {
                looks.push(Look {
                    partition,
                    topics: part.to_vec(),
                    age_ms_max: u32::try_from(age_ms_max).unwrap_or(u32::MAX),
                });
            }
        }
        let ask = |look: Look| async move {
            let answer: Result<Vec<CounterSnapshot>, Fault> =
                call_again(&self.host, &look, HUB_MS_MAX).await;
            let now_ms = self.host.now_ms();
            let mut board = self.board.borrow_mut();
            match answer {
                Ok(snapshots) if snapshots.len() == look.topics.len() => {
                    for (counter, snapshot) in look.topics.iter().zip(snapshots) {
                        board.receive(counter, snapshot, now_ms);
                    }
                }
                _ => {
                    for counter in &look.topics {
                        board.lose(counter, now_ms);
                    }
                }
            }
        };
        all_settled(looks.into_iter().map(ask), LOOKS_AT_ONCE).await;
    }

    /// Sends each watcher its update, and each second also a ping to watchers without recent output. Removes watchers
    /// that are gone.
    fn flush(&self, part: i64, pings: bool) {
        let ping_ms = pings.then(|| self.host.now_ms());
        let mut made = UpdatesMade::default();
        let watchers = self.board.borrow().all();
        for id in watchers {
            self.serve(id, part, &mut made, ping_ms);
        }
    }

    /// Sends one watcher its update, and a ping if `ping_ms` is given and one is due; removes it if it is gone or its
    /// time is over.
    fn serve(&self, id: WatcherId, part: i64, made: &mut UpdatesMade, ping_ms: Option<i64>) {
        let mut sinks = self.sinks.borrow_mut();
        let Some(sink) = sinks.get_mut(&id) else {
            return;
        };
        let has_ended = self.board.borrow().has_ended(id, self.host.now_ms());
        let is_there = match sink.readiness() {
            _ if has_ended => false,
            Readiness::Slow => true,
            Readiness::Gone => false,
            Readiness::Ready => self.send(id, sink, part, made, ping_ms),
        };
        if !is_there {
            match has_ended {
                true => sink.end(),
                false => sink.close(),
            }
            sinks.remove(&id);
            self.board.borrow_mut().leave(id);
        }
    }

    fn send(
        &self,
        id: WatcherId,
        sink: &mut Sink,
        part: i64,
        made: &mut UpdatesMade,
        ping_ms: Option<i64>,
    ) -> bool {
        if let Some(update) = self.next_update(id, part, made) {
            let (metric, is_there) = match sink {
                Sink::Events(_) => (
                    Metric::LiveUpdateEvents,
                    sink.send(&client_message::update_frame(&update)),
                ),
                Sink::Socket(..) => (Metric::LiveUpdateSocket, sink.send(&update.text)),
            };
            self.record_sent(id, part, metric);
            return is_there;
        }
        let ping_ms = ping_ms.filter(|now_ms| self.board.borrow_mut().pings(id, *now_ms));
        ping_ms.is_none_or(|now_ms| {
            sink.send(&match sink {
                Sink::Events(_) => client_message::ping_frame(now_ms),
                Sink::Socket(..) => client_message::ping(now_ms),
            })
        })
    }

    /// Handles a message of a socket; `None` for one that is no text.
    pub(super) fn on_message(self: &Rc<Self>, socket: &dyn Socket, text: Option<String>) {
        let Some(id) = id_of(socket) else { return };
        // If the platform has given up the alarm, a watcher's message sets it again.
        if !self.alarm.is_set() {
            let hub = self.clone();
            self.object.wait_until(async move {
                let _ = hub.arm().await;
            });
        }
        if let Some(Sink::Socket(_, silent_bytes)) = self.sinks.borrow_mut().get_mut(&id) {
            *silent_bytes = 0;
        }
        let said = match text {
            Some(text) => ClientMessage::parse(&text),
            None => {
                let detail = "send text, not bytes";
                Err(Problem::new(Code::InvalidBody, detail))
            }
        };
        let done = match said {
            Ok(ClientMessage::Ping) => {
                socket.send("pong");
                return;
            }
            Ok(ClientMessage::Change { add, remove }) => self.change(id, socket, add, &remove),
            Err(problem) => Err(problem),
        };
        match done {
            Ok(()) => {
                let part = part_of(self.host.now_ms());
                self.serve(id, part, &mut UpdatesMade::default(), None);
                self.ask_new();
            }
            Err(problem) => {
                socket.send(&client_message::refusal(&problem));
            }
        }
    }

    fn change(
        &self,
        id: WatcherId,
        socket: &dyn Socket,
        add: Vec<CounterId>,
        remove: &[CounterId],
    ) -> Result<(), Problem> {
        let Some(mut kept) = kept_of(socket) else {
            return Ok(());
        };
        kept.ids = client_message::changed(&kept, add, remove)?;
        let internal = |what: String| Problem::new(Code::Internal, what);
        let attachment = kept.to_attachment();
        let attachment = attachment.map_err(|fault| internal(fault.to_string()))?;
        let now_ms = self.host.now_ms();
        let changed = self.board.borrow_mut().change(id, now_ms, kept.ids);
        changed.map_err(refused_change)?;
        socket.keep(attachment).map_err(internal)
    }

    /// Handles the end of a socket.
    pub(super) fn on_close(&self, socket: &dyn Socket) {
        if let Some(id) = id_of(socket) {
            self.sinks.borrow_mut().remove(&id);
            self.board.borrow_mut().leave(id);
        }
    }
}

fn refused_change(refusal: ChangeRefusal) -> Problem {
    let ChangeRefusal::Spent(wait_ms) = refusal else {
        let detail =
            "too many counters are watched together here; let some go, or open another socket";
        return Problem::new(Code::Overloaded, detail);
    };
    let detail = format!(
        "a socket adds {ADDED_TOPICS_MAX} counters at once and one more every {ADDED_TOPIC_MS} ms, all sockets of an address without a \
         key together; try again later"
    );
    let seconds = u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX);
    Problem::new(Code::QuotaExceeded, detail).with_retry_after(seconds)
}

fn refused(status: u16, why: &str) -> Reply {
    Reply::Refused(status, why.to_owned())
}
