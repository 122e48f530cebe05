//! Limits of the shells: memory, calls and times. They are here, and not beside the code that they bound, so that
//! native tests see them.
//!
//! Invariant: each stays below what the platform gives one isolate (128 MB), one object (10 GB on disk) or one
//! invocation (10,000 calls). Source: limits of Workers and Durable Objects on the paid plan, as Cloudflare documents
//! them.

/// Memory of an isolate, bytes.
pub const ISOLATE_BYTES_MAX: u64 = 128 * 1_000_000;

/// The most bytes of one object on disk.
pub const OBJECT_BYTES_MAX: u64 = 10 * 1_000_000_000;

/// Calls of one invocation.
pub const CALLS_MAX: u32 = 10_000;

/// The most memory of one isolate's bulk bodies while they are summed: 48 of the 128 MB.
pub const BULK_MEMORY_BYTES_MAX: u64 = 48 * 1024 * 1024;

/// The most flushes that wait for the next commit of a cell. An isolate has one in flight per lane, so this is as many
/// isolates; at about 1 KB each they are 1 MB. Further flushes are refused and repeated later.
pub const WAITING_MAX: usize = 1_024;

/// The most claims of one partition: about 150 bytes each on disk, 600 MB of the 10 GB of an object.
pub const CLAIMS_MAX: u64 = 4_000_000;

/// The most claims of public keys of one partition, in a budget of their own: 300 MB.
pub const PUBLIC_CLAIMS_MAX: u64 = 2_000_000;

/// Approximate size of a claim on disk, bytes.
pub const CLAIM_BYTES: u64 = 150;

/// The most bytes of values in the keyspace that narrow callers have together: 8 of the 10 GB of an object. The rest is
/// for stored replies, and for callers that may write everything.
pub const KEYSPACE_BYTES_MAX: u64 = 8 * 1_000_000_000;

/// The most bytes of a board on disk, with its stored periods: 8 of the 10 GB of an object. The rest is for the keys of
/// writes.
pub const BOARD_BYTES_MAX: u64 = 8 * 1_000_000_000;

/// Bytes of a member on disk besides its metadata and its name, which is stored twice: 42 were measured.
pub const MEMBER_BYTES: u64 = 60;

/// The most counters, and the most leads, that one aggregate reads. Together with the partitions' roots this stays
/// below the 10,000 subrequests of one invocation.
pub const AGGREGATE_MAX: u32 = 5_000;

/// How long an operation may take, milliseconds: it may wait twice for a lead that does not answer.
pub const OPERATE_MS_MAX: u64 = 10_000;

/// The longest stored answer of an operation, bytes: of about 500 datacenters. A repeat of an operation with a longer
/// answer is answered anew.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The most counters whose home and number of shards an isolate remembers, about 200 bytes each. A forgotten counter
/// costs one hop.
pub const HOMES_MAX: usize = 10_000;
/// How long an isolate remembers the home of a counter, milliseconds.
pub const HOME_MS_MAX: i64 = 60_000;

/// How long an isolate uses a key of elements before it asks whether there is a new one, milliseconds: one call a
/// minute for each isolate that writes uniques.
pub const KEY_MS_MAX: i64 = 60_000;

/// How often a waiting write at a counter's home checks whether all other shards there are sealed, milliseconds.
pub const WHOLE_EVERY_MS: u64 = 20;
/// How long a write at a counter's home waits until all other shards there are sealed, milliseconds. A counter that was
/// split before needs that once. It is well below the second that the first attempt of its sender may take.
pub const WHOLE_MS_MAX: i64 = 700;

/// The longest name of a member that a command writes, bytes.
pub const SORTED_MEMBER_BYTES_MAX: usize = 1_024;

/// How long a whole body may take to arrive, milliseconds: the largest, of 32 MiB, at 0.9 Mbit/s.
pub const ARRIVAL_MS_MAX: i64 = 300_000;
