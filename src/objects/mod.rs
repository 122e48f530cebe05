//! Durable Object shells: load → decide (pure) → write → answer.
//!
//! | module | holds |
//! |---|---|
//! | [`cell`] | one (counter, datacenter, shard); shard 0 is the lead of its datacenter |
//! | [`commit`] | how flushes that arrive together become one commit |
//! | [`count`] | keyed writes, each counted once |
//! | [`lead`] | what a lead does besides: sums, grants, endings for its shards |
//! | [`balance`] | how a cell watches its load, and how the number of shards follows it |
//! | [`cell_store`], [`cell_ledger`], [`cell_samples`] | a cell's rows, those of its keyed writes, and of its samples |
//! | [`claims`], [`claim_store`] | whose an idempotency key is, and the rows of that |
//! | [`inbox`], [`inbox_store`] | events that are acknowledged and not counted yet, and their rows |
//! | [`consume`] | how an inbox counts them |
//! | [`inboxes`] | how a root knows of them |
//! | [`directory`] | one partition of the directory: the roots of its counters |
//! | [`operate`], [`operation_store`] | settings, set, reset and deletion at a root, each once; the rows of those with a key |
//! | [`pushing`] | how a lead tells the root what its datacenter has counted |
//! | [`gather`] | what a root has heard of its datacenters |
//! | [`rebuild`] | roots whose row was lost, made again |
//! | [`secrets`] | keys of hashes and salts of visitors, at one partition of the directory |
//! | [`settling`] | datacenters that a set or reset could not observe |
//! | [`telling`] | how roots end, and how leads are told |
//! | [`directory_store`] | its rows |
//! | [`limiter`], [`limiter_store`] | rate limits of one partition of the keys, and their rows |
//! | [`cell_memory`] | what the cells of an isolate hold together, and how those that rest give it back |
//! | [`limiter_growth`] | how keys move when the number of limiters changes |
//! | [`leases`] | how a limiter admits what the world shares |
//! | [`policies`] | the deployment's policies, at one partition of the directory |
//! | [`watcher`] | those who show counters to watchers: a hub or a lookout |
//! | [`hub`], [`sink`] | holds the streams of watchers, and how each is reached |
//! | [`lookout`] | reads what is watched, once for all |
//! | [`readable`] | refusing what comes while storage cannot be read |
//! | [`store`] | SQL, and the schema's version |

mod balance;
mod cell;
mod cell_ledger;
mod cell_memory;
mod cell_samples;
mod cell_store;
mod cell_uniques;
mod claim_store;
mod claims;
mod commit;
mod consume;
mod count;
mod directory;
mod directory_store;
mod gather;
mod hub;
mod inbox;
mod inbox_store;
mod inboxes;
mod lead;
mod leases;
mod limiter;
mod limiter_growth;
mod limiter_store;
mod lookout;
mod operate;
mod operation_store;
mod policies;
mod pushing;
mod readable;
mod rebuild;
mod recalls;
mod reserving;
mod secrets;
mod settling;
mod sink;
mod store;
mod telling;
mod watcher;

pub use cell::Cell;
pub use directory::Directory;
pub use inbox::Inbox;
pub use limiter::Limiter;
pub use watcher::Watcher;
