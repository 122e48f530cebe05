//! Limits of the shells: what they hold, call and wait for. They stand here, and not beside what they bound, so that
//! native tests see them.
//!
//! Invariant: each stays below what the platform gives one isolate (128 MB), one object (10 GB on disk) or one
//! invocation (10,000 calls). Source: limits of Workers and Durable Objects on the paid plan, as Cloudflare documents them.

/// Memory of an isolate, bytes.
pub const ISOLATE_BYTES_MAX: u64 = 128 * 1_000_000;

/// What one object may hold on disk, bytes.
pub const OBJECT_BYTES_MAX: u64 = 10 * 1_000_000_000;

/// Calls of one invocation.
pub const CALLS_MAX: u32 = 10_000;

/// Memory that bulk bodies of one isolate may hold together while they are summed: 48 of the 128 MB.
pub const BULK_MEMORY_BYTES_MAX: u64 = 48 * 1024 * 1024;

/// Flushes that may wait for the next commit of a cell. An isolate has one under way per lane, so this is as many
/// isolates; at about 1 KB each they are 1 MB. One more is told to come again.
pub const WAITING_MAX: usize = 1_024;

/// The most claims of one partition: about 150 bytes each on disk, 600 MB of the 10 GB of an object.
pub const CLAIMS_MAX: u64 = 4_000_000;

/// The most claims of public keys of one partition, in a budget of their own: 300 MB.
pub const PUBLIC_CLAIMS_MAX: u64 = 2_000_000;

/// Bytes of a claim on disk, about.
pub const CLAIM_BYTES: u64 = 150;

/// What a board may take on disk, with the periods that it keeps: 8 of the 10 GB of an object. The rest is for the keys of writes.
pub const BOARD_BYTES_MAX: u64 = 8 * 1_000_000_000;

/// Bytes of a member on disk besides its name, which stands there twice, and its metadata: 42 were measured.
pub const MEMBER_BYTES: u64 = 60;

/// The most counters, and the most leads, that one aggregate reads. With the root partitions this
/// stays below the 10,000 subrequests of one invocation.
pub const AGGREGATE_MAX: u32 = 5_000;

/// How long an operation may take, milliseconds: it may have to wait for a lead that does not answer, twice.
pub const OPERATE_MS_MAX: u64 = 10_000;

/// The longest answer of an operation that is kept, bytes: of about 500 datacenters. A repeat of one that was longer
/// is answered anew.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The most counters of which an isolate remembers where all writes go and over how many shards; about 200 bytes each.
/// Forgetting costs one hop.
pub const HOMES_MAX: usize = 10_000;
/// How long an isolate remembers where all writes of a counter go, milliseconds.
pub const HOME_MS_MAX: i64 = 60_000;

/// How long an isolate goes on with a key of elements before it asks whether there is a new one, milliseconds: one call a
/// minute for each isolate that writes uniques.
pub const KEY_MS_MAX: i64 = 60_000;

/// How often a write at a counter's home looks whether all other shards there are sealed, milliseconds.
pub const WHOLE_EVERY_MS: u64 = 20;
/// How long a write waits at a counter's home until all other shards there are sealed, milliseconds. A counter that was split before
/// has to do that once: well below the second that its sender's first attempt has.
pub const WHOLE_MS_MAX: i64 = 700;
