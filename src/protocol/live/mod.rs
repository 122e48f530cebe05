//! Live views: what watchers of counters are told, and when.
//!
//! Invariant: an update is state, never a difference. So a watcher that missed some has lost nothing once it gets the
//! next, a slow one is sent only the newest, and what is sent again does no harm.
//!
//! | module | holds |
//! |---|---|
//! | [`subscriptions`] | what a hub knows of its watchers and counters: what to send to whom |
//! | [`pace`] | how many increments a second there are |
//! | [`snapshot`] | one counter, as watchers see it |
//! | [`topic`] | what a watcher names |
//! | [`client_message`] | what watchers say, and how they are told |
//!
//! Life of an update: a *hub* holds the streams of many watchers. Once a second it asks the *lookouts* of all counters that
//! are watched; a lookout reads each of its counters once, however many hubs ask, and keeps what it saw for half a second.
//! Lookouts are found by the counter on a ring, hubs by where the watcher is: so a counter is read once a second however its
//! watchers combine it with others. All hubs ask when a second begins by their clocks, so that they share reads; a clock that is off costs
//! a second read and nothing else.

pub mod client_message;
pub mod pace;
pub mod snapshot;
pub mod subscriptions;
pub mod topic;

/// The most members of a board that one stream is told: an update of 100 is about 8 KB.
pub const LIVE_TOP_MAX: u32 = 100;

/// The most counters of one stream. A dashboard shows about 20.
pub const IDS_MAX: usize = 100;

/// What the ids of one stream may take together, in bytes: a socket that sleeps has 16 KiB for all that is to be remembered of it.
pub const IDS_BYTES_MAX: usize = 8 * 1024;

/// Between two updates of a stream, and between two reads of a counter.
pub const SECOND_MS: i64 = 1_000;

/// How much earlier than a second begins its updates may leave: timers are not exact.
pub const JITTER_MS: i64 = 100;

/// How old what a lookout gives may be. Half a second: hubs ask once a second, and those whose clocks are less than this apart share
/// a read.
pub const SIGHT_MS_MAX: i64 = 500;

/// How long a lookout waits for its reads before it gives what it saw before. A counter whose read takes longer comes with the next
/// update.
pub const LOOK_MS_MAX: u64 = 600;

/// How long a lookout may take to answer a hub, milliseconds: below a second, with what the hub does besides.
pub const HUB_MS_MAX: u64 = 900;

/// How long a hub waits for all lookouts before it sends what some have told, milliseconds: the way there and back, and that of a read. What
/// the others tell later is sent by itself, so a stream is sent two updates in a second at most, and one where nobody is late.
pub const LATE_MS: u64 = 450;

/// A lookout that has not answered for so long is lost, milliseconds: two questions in a row were not answered.
pub const LOST_MS: i64 = 2_500;

/// After so long without an update a stream is sent a ping: proxies close connections that are silent for 30 to 60 s, and a client
/// that hung up is found out by it.
pub const PING_MS: i64 = 15_000;

/// How long a client of server-sent events waits before it connects again, milliseconds.
pub const RETRY_MS: u32 = 2_000;

/// Streams of one hub, where the deployment says nothing. An update of 450 bytes took 70 to 90 µs of workerd's time for each of 1,000
/// watchers, the edge's part with it: 160 ms of each second. Those who wait cost 0.01 ms a second each.
pub const WATCHERS_MAX: usize = 2_000;

/// Streams that callers without a key may have open at one address, in one hub: many people may share it, each with a page.
pub const VISITOR_STREAMS_MAX: usize = 100;

/// Counters that all streams without a key at one address may name together, in one hub: each is a read of a root once a second.
pub const VISITOR_COUNTERS_MAX: usize = 500;

/// Different counters of one hub: 10 messages of [`LOOK_MAX`] each second, and about 1 KB of memory each.
pub const COUNTERS_MAX: usize = 5_000;

/// Hubs of one region: with [`WATCHERS_MAX`] 128,000 streams.
pub const HUBS_MAX: u32 = 64;

/// Counters in one question to a lookout. A read takes a root and up to as many leads as there are datacenters: with 500 counters in 18 datacenters
/// that do not push still below the 10,000 calls of one invocation.
pub const LOOK_MAX: usize = 500;

/// Counters that a lookout remembers; about 2 KB each.
pub const SIGHTS_MAX: usize = 10_000;

/// What a silent socket may be sent, in bytes, before it must say something: nobody can tell a socket that does not read
/// from one that does, so this bounds what waits for it.
pub const SILENT_BYTES_MAX: u64 = 1024 * 1024;

/// The longest message of a client on a WebSocket, in bytes: all ids of a stream, escaped.
pub const MESSAGE_BYTES_MAX: usize = 2 * IDS_BYTES_MAX;

/// What of a caller's prefixes a socket is given, in bytes, one more for each: with the ids in base64 14 KB, of the 16 KB that the
/// headers of a request may have, and as much again for what a socket may remember, see [`ATTACHMENT_BYTES_MAX`].
pub const PREFIXES_BYTES_MAX: usize = 2 * 1024;

/// What may be kept of a socket, in bytes: 16,384 once it is serialized, of which 16 are for what stands before the text.
/// 100 ids of 8 KiB and prefixes of 2 KiB with the length of each, in base64, take at most 13,937.
pub const ATTACHMENT_BYTES_MAX: usize = 16_384 - 16;

/// The second that a moment counts for, unix seconds: a timer that rings a little early was set for the second that is about to begin.
pub fn second_of(now_ms: i64) -> i64 {
    now_ms.saturating_add(JITTER_MS).div_euclid(SECOND_MS)
}

/// The first of the two parts of a second that a moment counts for: a stream is sent one update in each at most.
pub fn part_of(now_ms: i64) -> i64 {
    second_of(now_ms).saturating_mul(2)
}

/// When the second after that begins, unix milliseconds.
pub fn next_second(now_ms: i64) -> i64 {
    (second_of(now_ms) + 1).saturating_mul(SECOND_MS)
}
