//! One (counter, datacenter, shard). Shard 0 is the lead of its datacenter.
//!
//! | module | holds |
//! |---|---|
//! | [`core`], [`activity`] | the cell in memory, and what is under way |
//! | [`object`] | dispatches its calls to its parts |
//! | [`group_commit`] | how flushes that arrive together become one commit |
//! | [`keyed_writes`] | keyed writes, each counted once |
//! | [`lead`] | the duties of a lead besides counting: sums, grants, endings for its shards |
//! | [`lead_role`], [`lead_place`], [`lead_moves`] | the place of a lead, and its moves within its datacenter |
//! | [`lead_apart`] | how a hot lead leaves its tablet, and returns |
//! | [`autoscaler`] | the load of a cell, and how the number of shards follows it |
//! | [`store`], [`row_kinds`], [`ledger`], [`samples`], [`seconds`] | a cell's rows, their kinds, those of its keyed writes, of its samples, and of its seconds |
//! | [`rows`], [`uniques`], [`breakdowns`] | the tables of these rows, the rows of unique elements, and those of breakdowns |
//! | [`contents`] | a cell's contents, read for an export, written by an import |
//! | [`explained_rows`] | what a cell stores, for an explanation |
//! | [`memory`] | the memory of an isolate's cells, and how idle ones give theirs back |
//! | [`damage`], [`repair`] | damage of a cell, and its repair |
//! | [`push_sender`] | pushes of a lead to its root |

mod activity;
mod autoscaler;
mod breakdowns;
mod contents;
pub(crate) mod core;
pub(crate) mod damage;
mod explained_rows;
mod group_commit;
mod keyed_writes;
mod lead;
mod lead_apart;
mod lead_moves;
mod lead_place;
mod lead_role;
pub(crate) mod ledger;
mod memory;
pub(crate) mod object;
mod push_sender;
mod repair;
pub(crate) mod row_kinds;
pub(crate) mod rows;
mod samples;
mod seconds;
pub(crate) mod store;
mod uniques;
