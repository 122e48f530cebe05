//! Listeners to the keys of a keyspace, by streams of server-sent events.
//!
//! Invariant: the buffer of a listener is bounded, in bytes and in time. A listener that reads more slowly than keys
//! change is notified of that, and its stream ends. Streams also end with the object's memory. Nothing is kept for
//! listeners that reconnect, as in Redis.
//!
//! An event is buffered while its command runs, and sent when its request ends. A stream takes one chunk at a time:
//! later events are buffered, and sent as one chunk.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tally_core::limit::owner::Owner;
use tally_host::Host;
use tally_host::object::{Events, Object, Readiness, Reply};
use tally_redis::notifications::{KeyEvent, PING, Subscription};
use tally_shared::flag_guard::FlagGuard;
use tally_wire::messages::Subscribe;

/// The most streams of a keyspace.
pub const LISTENERS_MAX: usize = 500;

/// The most streams of one key: `@upstash/redis` opens one for each channel.
pub const LISTENERS_OF_KEY_MAX: usize = 100;

/// The most channels and patterns of all streams: each event is compared with all of them.
pub const CHANNELS_OPEN_MAX: usize = 1_000;

/// The most bytes after the first stars of the patterns of all streams. An event is compared with them in 12 ms, see
/// [`tally_redis::notifications::CHANNEL_COMPARED_BYTES_MAX`]. `*:expired` has 8.
pub const REPEATED_BYTES_OPEN_MAX: usize = 4_096;

/// The most channels and patterns of one key's streams, and the most such bytes: half of all, so that no key takes the
/// room of others.
pub const CHANNELS_OF_KEY_MAX: usize = CHANNELS_OPEN_MAX / 2;
pub const REPEATED_BYTES_OF_KEY_MAX: usize = REPEATED_BYTES_OPEN_MAX / 2;

/// The most bytes that are buffered for a stream: a pipeline of 1,000 commands causes about 150 KB at once.
pub const LISTENER_BYTES_MAX: usize = 1024 * 1024;

/// The most bytes that are buffered for all streams: a quarter of an isolate's memory.
pub const LISTENERS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How long a stream may leave a chunk unread while more is buffered.
const SLOW_MS_MAX: i64 = 10_000;

/// The time without output after which a stream gets a ping: less than proxies keep a silent connection open.
const PING_EVERY_MS: i64 = 15_000;

/// How often streams with buffered events are checked.
const SEND_EVERY_MS: u64 = 20;

struct Listener {
    stream: Rc<dyn Events>,
    subscription: Subscription,
    caller: Owner,
    /// The buffered events.
    waiting: String,
    /// Whether the buffer overflowed.
    is_over: bool,
    /// When it was sent something, unix milliseconds.
    sent_ms: i64,
}

impl Listener {
    /// Buffers an event, if `room` allows its bytes.
    fn buffer(&mut self, event: &KeyEvent, room: &mut usize) {
        if self.is_over {
            return;
        }
        let frames = self.subscription.frames(event);
        let own_room = LISTENER_BYTES_MAX.saturating_sub(self.waiting.len());
        if frames.len() > own_room.min(*room) {
            self.is_over = true;
            return;
        }
        self.waiting += &frames;
        *room -= frames.len();
    }

    /// Sends the buffered events, as far as the stream accepts them. Returns whether the listener is still there.
    fn serve(&mut self, now_ms: i64) -> bool {
        let silent_ms = now_ms - self.sent_ms;
        let readiness = self.stream.readiness();
        let is_slow = readiness == Readiness::Slow && silent_ms > SLOW_MS_MAX;
        let text = match readiness {
            Readiness::Gone => return false,
            _ if self.is_over || (is_slow && !self.waiting.is_empty()) => {
                // One chunk more than the stream accepts: the last one.
                self.stream.send(&self.subscription.farewell());
                self.stream.close();
                return false;
            }
            Readiness::Ready if !self.waiting.is_empty() => std::mem::take(&mut self.waiting),
            Readiness::Ready if silent_ms >= PING_EVERY_MS => PING.to_owned(),
            Readiness::Ready | Readiness::Slow => return true,
        };
        self.stream.send(&text);
        self.sent_ms = now_ms;
        true
    }
}

/// The sizes of subscriptions together.
struct Channels {
    count: usize,
    repeated_bytes: usize,
}

impl Channels {
    /// The sum of streams that are open and one that may be opened.
    fn of<'a>(open: impl Iterator<Item = &'a Listener>, added: &'a Subscription) -> Self {
        let subscriptions = open.map(|listener| &listener.subscription).chain([added]);
        let none = Self {
            count: 0,
            repeated_bytes: 0,
        };
        subscriptions.fold(none, |sum, one| Self {
            count: sum.count + one.channels.len(),
            repeated_bytes: sum.repeated_bytes + one.repeated_bytes(),
        })
    }

    const fn exceed(&self, count_max: usize, repeated_bytes_max: usize) -> bool {
        self.count > count_max || self.repeated_bytes > repeated_bytes_max
    }
}

/// The listeners.
pub(super) struct Listeners {
    object: Object,
    host: Host,
    open: RefCell<Vec<Listener>>,
    is_waiting: Cell<bool>,
}

impl Listeners {
    pub(super) fn new(object: Object, host: Host) -> Self {
        Self {
            object,
            host,
            open: RefCell::default(),
            is_waiting: Cell::default(),
        }
    }

    /// Adds a listener, and answers with its stream; 429 if its key has too many streams, 503 if there are too many in
    /// all.
    pub(super) fn take(&self, message: Subscribe) -> Reply {
        let Subscribe { channels, caller } = message;
        let subscription = Subscription::from(channels);
        let mut open = self.open.borrow_mut();
        open.retain(|listener| listener.stream.readiness() != Readiness::Gone);
        let own = open.iter().filter(|listener| listener.caller == caller);
        let own_channels = Channels::of(own.clone(), &subscription);
        if own.count() >= LISTENERS_OF_KEY_MAX
            || own_channels.exceed(CHANNELS_OF_KEY_MAX, REPEATED_BYTES_OF_KEY_MAX)
        {
            let detail = "this key has as many streams, channels or long patterns as it may";
            return Reply::Refused(429, detail.to_owned());
        }
        let channels = Channels::of(open.iter(), &subscription);
        if open.len() >= LISTENERS_MAX
            || channels.exceed(CHANNELS_OPEN_MAX, REPEATED_BYTES_OPEN_MAX)
        {
            return Reply::Refused(
                503,
                "the streams have as many channels, or as long patterns, as may be".to_owned(),
            );
        }
        let (stream, answer) = match self.object.platform().events() {
            Ok(opened) => opened,
            Err(why) => return Reply::Refused(500, why),
        };
        stream.send(&subscription.greeting());
        open.push(Listener {
            stream,
            subscription,
            caller,
            waiting: String::new(),
            is_over: false,
            sent_ms: self.host.now_ms(),
        });
        Reply::Stream(answer)
    }

    /// Whether there are listeners.
    pub(super) fn has_any(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Buffers events for listeners. Without listeners the events are not created.
    pub(super) fn notify(&self, events: impl FnOnce() -> Vec<KeyEvent>) {
        let mut open = self.open.borrow_mut();
        if open.is_empty() {
            return;
        }
        let events = events();
        let waiting: usize = open.iter().map(|listener| listener.waiting.len()).sum();
        let mut room = LISTENERS_BYTES_MAX.saturating_sub(waiting);
        for listener in open.iter_mut() {
            for event in &events {
                listener.buffer(event, &mut room);
            }
        }
    }

    /// Sends the buffered events, and pings. Events that a stream does not accept now are sent soon.
    pub(super) fn send(self: &Rc<Self>) {
        if !self.serve() || self.is_waiting.replace(true) {
            return;
        }
        let listeners = self.clone();
        self.object.wait_until(async move {
            let _waiting = FlagGuard(&listeners.is_waiting);
            // The loop ends: a stream that accepts nothing for long is closed.
            loop {
                listeners.host.sleep_ms(SEND_EVERY_MS).await;
                if !listeners.serve() {
                    break;
                }
            }
        });
    }

    /// Whether anything is still buffered.
    fn serve(&self) -> bool {
        let mut open = self.open.borrow_mut();
        if open.is_empty() {
            return false;
        }
        let now_ms = self.host.now_ms();
        open.retain_mut(|listener| listener.serve(now_ms));
        open.iter().any(|listener| !listener.waiting.is_empty())
    }

    /// When a stream is due a ping, unix milliseconds.
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        let open = self.open.borrow();
        let sent = open.iter().map(|listener| listener.sent_ms);
        sent.min().map(|sent_ms| sent_ms + PING_EVERY_MS)
    }
}
