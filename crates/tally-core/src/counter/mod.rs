//! One counter, pure: no clock, no randomness, no I/O; time is an argument.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | names of counters and datacenters |
//! | [`total`] | sums and values wider than 2^53 and 2^128 |
//! | [`uniques_retention`] | which minutes, hours and days of unique elements cover a window |
//! | [`history`] | buckets by second, minute, hour, day; windows |
//! | [`nonces`] | which flushes were seen |
//! | [`lane::flush_outcomes`] | how numbered batches ended, for those who have not looked yet |
//! | [`ledger`], [`ledgers`] | which keyed writes were counted, and by whose keys |
//! | [`queue`] | events that are acknowledged and not counted yet |
//! | [`queue::inbox`] | what an inbox decides about its log and its batches |
//! | [`queue::deferred_writes`] | queued writes of counters that could not be counted when they were sent |
//! | [`numbered_writes`] | which writes of queues and inboxes were counted, by the numbers of their senders |
//! | [`queue::sessions`] | which writes a queue of the platform may hold, by what its senders and the leads say |
//! | [`queue::queued_events`] | queued events as a lane carries them, to an inbox or a queue of the platform |
//! | [`settings`] | shards and time to live |
//! | [`memory`] | memory that the objects of one isolate hold together |
//! | [`bounded_map`] | maps of what may be forgotten |
//! | [`cell`] | the state of one (counter, datacenter, shard), and what a flush does to it |
//! | [`autoscale`] | load, lingering, how many shards |
//! | [`lane`], [`lane::batchable`] | how concurrent writes of one isolate join into flushes, and what lanes carry |
//! | [`coalescing_queue`] | how calls, and what one object does for many, join into batches by receiver |
//! | [`flush`], [`grant`] | what a flush carries; permission to count |
//! | [`pace`] | the rate of increments a second |
//! | [`samples`] | samples by time, for percentiles |
//! | [`dimensions`], [`breakdown`] | what writes say of themselves, and what was counted of each value |
//! | [`contents`] | what cells hold, as exports carry it |
//! | [`merge`] | how cells become a value: the vector (CRDT) and the summary of a read |
//!
//! A flush passes `cell` (nonce, overflow, grant) into totals, `history` and sketches. The answer to a read goes from
//! each `cell`, as a part, through `merge` at the lead and at the aggregator.

pub mod autoscale;
pub mod bounded_map;
pub mod breakdown;
pub mod cell;
pub mod coalescing_queue;
pub mod contents;
pub mod dimensions;
pub mod flush;
pub mod grant;
pub mod history;
pub mod id;
pub mod lane;
pub mod ledger;
pub mod ledgers;
pub mod memory;
pub mod merge;
pub mod nonces;
pub mod numbered_writes;
pub mod pace;
pub mod queue;
pub mod samples;
pub mod settings;
pub mod total;
pub mod uniques_retention;
