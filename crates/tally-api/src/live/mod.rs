//! Live views: what watchers of counters are sent, and when.
//!
//! Invariant: an update is state, never a difference. So a watcher that missed updates has lost nothing once it gets
//! the next one. A slow watcher is sent only the newest update. A repeated update does no harm.
//!
//! | module | holds |
//! |---|---|
//! | [`subscriptions`] | the watchers and counters of a hub: what to send to whom |
//! | [`client_message`] | messages of watchers, and the frames sent to them |
//!
//! Life of an update: a *hub* holds the streams of many watchers. Once a second it asks the *live readers* of all
//! watched counters. A live reader reads each of its counters once, for any number of hubs, and keeps the result for
//! half a second. The counter decides its live reader, by a ring. The location of the watcher decides its hub. So a
//! counter is read once a second, in whatever combinations watchers name it. All hubs ask when a second begins by their
//! clocks, so that they share reads. A hub whose clock is off causes a second read, and nothing else.

pub mod client_message;
pub mod subscriptions;

/// The most members of a board in one stream: an update of 100 is about 8 KB.
pub const LIVE_TOP_MAX: u32 = 100;

/// The most counters of one stream. A dashboard shows about 20.
pub const IDS_MAX: usize = 100;

/// The most bytes of the ids of one stream together: a hibernating socket has 16 KiB for all that is stored with it.
pub const IDS_BYTES_MAX: usize = 8 * 1024;

/// The time between two updates of a stream, and between two reads of a counter.
pub const SECOND_MS: i64 = 1_000;

/// How much earlier than the beginning of a second its updates may be sent: timers are not exact.
pub const JITTER_MS: i64 = 100;

/// The largest age of a live reader's answer: half a second. Hubs ask once a second, and hubs whose clocks differ by
/// less than this share a read.
pub const SNAPSHOT_MS_MAX: i64 = 500;

/// How long a live reader waits for its reads before it answers with former results. The result of a read that takes
/// longer comes with the next update.
pub const LOOK_MS_MAX: u64 = 600;

/// How long a live reader may take to answer a hub, milliseconds: below a second, together with the hub's own work.
pub const HUB_MS_MAX: u64 = 900;

/// How long a hub waits for all live readers before it sends what some have answered, milliseconds: the round trip, and
/// a read. Later answers are sent by themselves. So a stream gets one update a second,
/// and two where an answer is late.
pub const LATE_MS: u64 = 450;

/// How long a live reader must not answer until it counts as unreachable, milliseconds: two questions in a row.
pub const LOST_MS: i64 = 2_500;

/// The time without an update after which a stream is sent a ping: proxies close connections that are silent for 30 to
/// 60 s, and the ping reveals a client that hung up.
pub const PING_MS: i64 = 15_000;

/// How long a client of server-sent events waits before it connects again, milliseconds.
pub const RETRY_MS: u32 = 2_000;

/// The most streams of one hub by default. A hub writes an update to each of them every second, in one thread; idle
/// streams cost almost nothing.
pub const WATCHERS_MAX: usize = 2_000;

/// The most streams of callers without a key at one address, in one hub. Many people may share an address, and each may
/// have a page open.
pub const VISITOR_STREAMS_MAX: usize = 100;

/// The most counters of all streams without a key at one address together, in one hub. Each counter is a read of a root
/// once a second.
pub const VISITOR_COUNTERS_MAX: usize = 500;

/// The most topics that a socket adds at once by its messages: a whole stream. All sockets of an address without a key
/// have this together, since an address may open one after the other.
pub const ADDED_TOPICS_MAX: u32 = 100;

/// How soon a socket may add one more topic, milliseconds: 10 a second. Each is read at once: 2,000 sockets cause
/// 20,000 reads a second.
pub const ADDED_TOPIC_MS: u32 = 100;

/// The most different counters of one hub: 10 messages of [`LOOK_MAX`] each second, and about 1 KB of memory each.
pub const COUNTERS_MAX: usize = 5_000;

/// The most hubs of one region: with [`WATCHERS_MAX`] 128,000 streams.
pub const HUBS_MAX: u32 = 64;

/// The most counters in one question to a live reader. A read takes a root and up to as many leads as there are
/// datacenters: 500 counters in 18 datacenters that do not push need less than the 10,000 calls of one invocation.
pub const LOOK_MAX: usize = 500;

/// The most counters that a live reader caches; about 2 KB each, 20 MB together. Where that many are watched, a further
/// one is unknown.
pub const SNAPSHOTS_MAX: usize = 10_000;

/// The most bytes sent to a silent socket before it must send something: a socket that does not read looks like one
/// that does, so this bounds what is buffered for it.
pub const SILENT_BYTES_MAX: u64 = 1024 * 1024;

/// How long a stream by a share lives, milliseconds: 10 minutes. Its client connects again, which succeeds while the
/// share exists. So the revocation of a share ends its streams too, at the cost of six connections an hour for each.
pub const SHARE_STREAM_MS_MAX: i64 = 600_000;

/// How long a stream by a key that a call made lives, milliseconds: an hour. Its client connects again, which succeeds
/// while the key is valid. So the revocation of a key ends its streams too. Keys of the configuration end with their
/// deployment.
pub const KEY_STREAM_MS_MAX: i64 = 3_600_000;

/// The longest message of a client on a WebSocket, in bytes: all ids of a stream, escaped.
pub const MESSAGE_BYTES_MAX: usize = 2 * IDS_BYTES_MAX;

/// The most bytes of a caller's prefixes in a socket's request, counting one more for each. With the ids in base64 they
/// make 14 KB of the 16 KB that the headers of a request may have. For the bytes stored with a socket see
/// [`ATTACHMENT_BYTES_MAX`].
pub const PREFIXES_BYTES_MAX: usize = 2 * 1024;

/// The most bytes stored with a socket: 16,384 serialized, of which 16 precede the text. 100 ids of 8 KiB and prefixes
/// of 2 KiB with the length of each, in base64, take at most 13,937; the hash of a visitor and the end of its stream 30
/// more.
pub const ATTACHMENT_BYTES_MAX: usize = 16_384 - 16;

/// The second that a moment belongs to, unix seconds. A timer that fires a little early belongs to the second that is
/// about to begin.
pub fn second_of(now_ms: i64) -> i64 {
    now_ms.saturating_add(JITTER_MS).div_euclid(SECOND_MS)
}

/// The half second that a moment belongs to: a stream is sent at most one update in each.
pub fn part_of(now_ms: i64) -> i64 {
    second_of(now_ms).saturating_mul(2)
}

/// When the second after that begins, unix milliseconds.
pub fn next_second(now_ms: i64) -> i64 {
    (second_of(now_ms) + 1).saturating_mul(SECOND_MS)
}
