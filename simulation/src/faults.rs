//! The speed and the faults of a world.
//!
//! `…_once_in` fields are true once in so many times, and never where they are 0.

use std::path::PathBuf;

/// Faults and delays. A test may change them while the world runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Requests between isolates and objects that never arrive.
    pub loses_request_once_in: u64,
    /// Answers that never arrive.
    pub loses_answer_once_in: u64,
    /// Requests that arrive twice; nobody hears the second answer. Not those that [`crate::Options::once`] names.
    pub repeats_once_in: u64,
    /// Whether messages within a site neither get lost nor arrive twice.
    pub spares_sites: bool,
    /// Messages that take up to [`Faults::slow_ms_max`] longer.
    pub slow_once_in: u64,
    /// See [`Faults::slow_once_in`].
    pub slow_ms_max: u64,
    /// Polls of a task of an object after which the object crashes.
    pub crashes_object_once_in: u64,
    /// Polls of a task of an isolate after which the isolate crashes, with all objects in it.
    pub crashes_isolate_once_in: u64,
    /// Objects and isolates that have come to rest and are evicted at once.
    pub evicts_once_in: u64,
    /// Statements at which an object's storage goes out for up to [`Faults::storage_out_ms_max`].
    pub storage_out_once_in: u64,
    /// See [`Faults::storage_out_once_in`].
    pub storage_out_ms_max: u64,
    /// How long a write takes to become durable, at most. The least is 0.
    pub commit_us_max: u64,
    /// How late timers fire, at most.
    pub timer_late_us_max: u64,
    /// How late alarms ring, at most.
    pub alarm_late_ms_max: u64,
    /// Answers to clients, and their requests, that get lost.
    pub loses_client_once_in: u64,
    /// Messages of the queue that are delivered once more although they are done.
    pub redelivers_once_in: u64,
    /// How long the queue keeps a message before it delivers it first, at most.
    pub queue_ms_max: u64,
    /// Puts into the queue that fail; half of them are there nevertheless.
    pub enqueue_fails_once_in: u64,
    /// What is asked of the bucket that fails; half of the time it is done nevertheless, some of it much later.
    pub files_fail_once_in: u64,
    /// Whether the platform has no randomness for secrets.
    pub secrets_fail: bool,
}

impl Faults {
    /// Nothing goes wrong; things take their time.
    pub const NONE: Self = Self {
        loses_request_once_in: 0,
        loses_answer_once_in: 0,
        repeats_once_in: 0,
        spares_sites: false,
        slow_once_in: 0,
        slow_ms_max: 0,
        crashes_object_once_in: 0,
        crashes_isolate_once_in: 0,
        evicts_once_in: 0,
        storage_out_once_in: 0,
        storage_out_ms_max: 0,
        commit_us_max: 3_000,
        timer_late_us_max: 1_000,
        alarm_late_ms_max: 20,
        loses_client_once_in: 0,
        redelivers_once_in: 0,
        queue_ms_max: 5_000,
        enqueue_fails_once_in: 0,
        files_fail_once_in: 0,
        secrets_fail: false,
    };

    /// Everything goes wrong now and then.
    pub const SOME: Self = Self {
        loses_request_once_in: 40,
        loses_answer_once_in: 40,
        repeats_once_in: 20,
        spares_sites: false,
        slow_once_in: 10,
        slow_ms_max: 3_000,
        crashes_object_once_in: 200,
        crashes_isolate_once_in: 500,
        evicts_once_in: 30,
        storage_out_once_in: 500,
        storage_out_ms_max: 2_000,
        commit_us_max: 20_000,
        timer_late_us_max: 2_000,
        alarm_late_ms_max: 500,
        loses_client_once_in: 50,
        redelivers_once_in: 20,
        queue_ms_max: 10_000,
        enqueue_fails_once_in: 20,
        files_fail_once_in: 20,
        secrets_fail: false,
    };
}

/// Where objects live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Housing {
    /// Each in an isolate of its own.
    Alone,
    /// All of a site share so many isolates; each start draws one of them.
    Shared(usize),
    /// In the isolates of the aggregator, as where one process runs everything.
    WithAggregator,
}

/// What a world is built with, and keeps.
#[derive(Clone, Debug)]
pub struct Options {
    /// Unix milliseconds when it begins.
    pub begins_ms: i64,
    /// How far clocks of isolates may be off, either way.
    pub skew_ms_max: i64,
    /// Where objects live.
    pub housing: Housing,
    /// Isolates of the aggregator at each site.
    pub aggregators: usize,
    /// Whether the deployment has a queue.
    pub has_queue: bool,
    /// Whether the deployment has a bucket for files.
    pub has_bucket: bool,
    /// How often the queue delivers a message again before it puts it among the dead letters.
    pub queue_retries_max: u32,
    /// Messages of one batch of the queue, at most.
    pub queue_batch_max: usize,
    /// Where databases are files, `BINDING/ID.sqlite`, for whoever looks into them; without, they are in memory.
    pub folder: Option<PathBuf>,
    /// Paths of messages that are never delivered twice by the network, also not within a message that forwards them.
    pub once: &'static [&'static str],
    /// One way within a site, microseconds: least and most.
    pub near_us: (u64, u64),
    /// Messages that take up to twice as long as the longest of their way.
    pub detour_once_in: u64,
    /// One way between two sites that [`crate::World::set_distance`] says nothing of, microseconds: least and most.
    pub far_us: (u64, u64),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // 2026-01-01T00:00:00Z.
            begins_ms: 1_767_225_600_000,
            skew_ms_max: 0,
            housing: Housing::Alone,
            aggregators: 1,
            has_queue: false,
            has_bucket: false,
            queue_retries_max: 100,
            queue_batch_max: 100,
            folder: None,
            once: &[],
            detour_once_in: 8,
            near_us: (300, 2_000),
            far_us: (20_000, 150_000),
        }
    }
}
