//! Durable Object shells: load → decide (pure) → write → answer.
//!
//! | module | holds |
//! |---|---|
//! | [`cell`] | one (counter, datacenter, shard); shard 0 is the lead of its datacenter |
//! | [`commit`] | how flushes that arrive together become one commit |
//! | [`lead`] | what a lead does besides: sums, grants, endings for its shards |
//! | [`balance`] | how a cell watches its load, and how the number of shards follows it |
//! | [`cell_store`] | a cell's rows |
//! | [`directory`] | one partition of the directory: the roots of its counters |
//! | [`telling`] | how roots end, and how leads are told |
//! | [`directory_store`] | its rows |
//! | [`store`] | SQL, and the schema's version |

mod balance;
mod cell;
mod cell_store;
mod commit;
mod directory;
mod directory_store;
mod lead;
mod store;
mod telling;
