//! Rate limits, pure: no clock, no randomness, no I/O; time is an argument, in milliseconds.
//!
//! | module | holds |
//! |---|---|
//! | [`policy`] | what is promised: limit, window, algorithm, scope |
//! | [`meter`] | what one key has used under one policy, and the verdict about the next call |
//! | [`clock`] | a clock that never goes back |
//! | [`table`] | the keys of one partition: bounded, atomic over several keys, with reservations |
//! | [`owner`] | who has a part of a table |
//! | `sharing` | what becomes of keys for which a table has no room |
//! | [`log`] | how a table is stored: rows of changes, the oldest dropped once nothing in them counts |
//! | [`escrow`] | the grantor's side of a limit of which others hold parts |
//! | [`holder`] | the holder's side: what a datacenter, or an isolate, may admit without asking |
//! | [`lease`] | what the two say to each other |
//! | `requests` | what a holder asks for, and when |
//! | `recall` | how a grantor has back what holders do not use |
//! | [`holders`] | the leases of one partition, or of one isolate |
//! | [`hot`] | which keys are worth a lease |
//! | [`visitors`] | what visitors without a key may write |
//!
//! A call passes [`table::Table::check`] into a meter's `check`, which answers a [`meter::Verdict`]. Where the scope is
//! global it passes a [`holder::Holder`], and only the holder's requests reach the table of the grantor. A key that is hot in an
//! isolate is lent a part for a second: what is held there is admitted there, and all else goes to the table.
//!
//! What each algorithm promises, for a policy of `limit` per `window`, where nothing is refunded:
//!
//! | algorithm | never more than | price |
//! |---|---|---|
//! | sliding window | `limit` in any interval of `window` | quota returns up to a sixtieth of the window late |
//! | precise | `limit` in any interval of `window` | up to 1,000 times are kept; limits up to 1,000 |
//! | fixed window | `limit` in each window of the clock, so twice that around a boundary | none |
//! | token bucket | `burst + limit · d / window` in any interval of length d | none |
//!
//! Where parts are lent to isolates the bounds are the same, and quota returns up to 0.13 s later: what was spent is told with its age, in
//! parts of a sixteenth of the lease's second, less what clocks may drift.

mod buckets;
pub mod clock;
mod commits;
mod demand;
pub mod escrow;
mod gcra;
pub mod holder;
pub mod holders;
pub mod hot;
pub mod lease;
pub mod log;
pub mod meter;
pub mod owner;
pub mod policy;
mod recall;
mod requests;
mod reservations;
mod sharing;
mod slots;
mod spending;
pub mod table;
pub mod visitors;
