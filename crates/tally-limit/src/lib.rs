//! Rate limits, pure: no clock, no randomness, no I/O; time is an argument, in milliseconds.
//!
//! One limit for one caller is [`RateLimiter::direct`]; one limit for many keys is `RateLimiter::keyed`, and many
//! limits of many keys are a [`table::Table`], both bounded in memory.
//!
//! ```
//! use core::num::NonZeroU32;
//! use tally_limit::{Quota, RateLimiter};
//!
//! let quota = Quota::per_minute(NonZeroU32::new(2).unwrap());
//! let mut limiter = RateLimiter::direct(quota);
//! assert!(limiter.check_at(0).is_ok());
//! assert!(limiter.check_at(10).is_ok());
//! let refused = limiter.check_at(20).unwrap_err();
//! assert!(limiter.check_at(20 + refused.retry_after_ms as i64).is_ok());
//! ```
//!
//! Without the feature `std` the crate is `no_std` with `alloc`, and has no tables of many keys.
//!
//! | module | holds |
//! |---|---|
//! | [`direct`] | one limit for one caller, and its quota |
//! | [`policy`] | what is promised: limit, window, algorithm, scope; and to some keys instead, its overrides |
//! | [`meter`] | what one key has used under one policy, and the verdict about the next call |
//! | `buckets`, `gcra` | what was used, by the time of its use; a token bucket that refills evenly |
//! | [`clock`] | a clock that never goes back |
//! | `errors` | what errors say |
//! | [`table`] | the keys of one partition: bounded, atomic over several keys, with reservations |
//! | [`keyed`] | one limit for many keys |
//! | [`owner`] | who has a part of a table, so that nobody takes what others need |
//! | [`memory`] | what several tables hold together |
//! | [`lender`] | the lender's side of a limit of which others hold parts |
//! | [`named`], `holding` | calls with names: holds, which are settled later, and calls that may be repeated |
//! | [`handover`] | what a lender that ends hands over to the next one |
//! | [`borrower`] | the borrower's side: what a datacenter, or an isolate, may admit without asking |
//! | [`lease`] | the messages between the two |
//! | `requests`, `demand` | what a borrower asks for, and when; how much its callers asked for lately |
//! | `spending` | when tokens of a lease were spent, as far as no report has reached its lender |
//! | `recall` | how a lender takes back what borrowers do not use |
//! | [`borrowers`] | the leases of one partition, or of one isolate |
//! | [`hot`] | which keys are worth a lease |
//! | [`budgets`] | budgets of any number of callers in fixed memory |
//!
//! A call goes through [`table::Table::check`] to a meter's `check`, which returns a [`meter::Verdict`]. With a global
//! scope it goes through a [`borrower::Borrower`] first, and only the borrower's requests reach the table of the
//! lender. An isolate in which a key is hot is lent a part for a second. It admits from that part; all other calls go
//! to the table.
//!
//! The guarantee of each algorithm, for a policy of `limit` per `window` without refunds:
//!
//! | algorithm | never more than | price |
//! |---|---|---|
//! | sliding window | `limit` in any interval of `window` | quota returns up to a sixtieth of the window late |
//! | precise | `limit` in any interval of `window` | up to 1,000 times are kept; limits up to 1,000 |
//! | fixed window | `limit` in each window of the clock, so twice that around a boundary | none |
//! | token bucket | `burst + limit · d / window` in any interval of length d | none |
//! | concurrency | `limit` held at any instant | it takes holds, not checks |
//!
//! If parts are lent to isolates, the bounds are the same, and quota returns up to 0.13 s later. Spent tokens are
//! reported with their age, in steps of a sixteenth of the lease's second, less the possible drift of clocks.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(
    not(feature = "std"),
    expect(dead_code, reason = "tables and lenders call it")
)]

extern crate alloc;

#[cfg(feature = "std")]
pub mod borrower;
#[cfg(feature = "std")]
pub mod borrowers;
mod buckets;
pub mod budgets;
pub mod clock;
#[cfg(feature = "std")]
mod demand;
pub mod direct;
mod errors;
mod gcra;
#[cfg(feature = "std")]
pub mod handover;
#[cfg(feature = "std")]
mod holding;
#[cfg(feature = "std")]
pub mod hot;
#[cfg(feature = "std")]
pub mod keyed;
#[cfg(feature = "std")]
pub mod lease;
#[cfg(feature = "std")]
pub mod lender;
#[cfg(feature = "std")]
pub mod memory;
pub mod meter;
#[cfg(feature = "std")]
pub mod named;
#[cfg(feature = "std")]
pub mod owner;
pub mod policy;
#[cfg(feature = "std")]
mod recall;
#[cfg(feature = "std")]
mod requests;
#[cfg(feature = "std")]
mod spending;
#[cfg(feature = "std")]
pub mod table;

pub use direct::{Quota, RateLimiter, Refused};
#[cfg(feature = "std")]
pub use keyed::KeyedRateLimiter;
pub use meter::{NEVER_MS, Verdict};
pub use policy::Policy;
#[cfg(feature = "std")]
pub use table::{Check, Table};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
