//! Unique visitors, pure: a keyed hash, the token of one element, and the HyperLogLog sketch that
//! gathers tokens.
//!
//! Invariant: a [`Sketch`] depends on the set of elements it saw, never on their order, their
//! repeats, or how they were split among sketches before merging. So lost-and-repeated messages
//! do no harm, and two sketches of the same elements are equal byte for byte.
//!
//! How data passes through:
//!
//! ```text
//! element ── hash (secret key) ──► u64 ── Token::from_hash ──► Token      at the edge
//! Token ── Sketch::insert ──► Sketch ── to_bytes ──► row, message         in a cell
//! bytes ── Sketch::from_bytes ── merge ──► Sketch ── estimate ──► f64     in a lead, on read
//! ```
//!
//! ```
//! use tally_sketch::{HashKey, Sketch, Token, hash};
//!
//! let key = HashKey::from([7; 16]);
//! let seen = |names: &[&str]| -> Sketch {
//!     names.iter().map(|name| Token::from_hash(hash(&key, name.as_bytes()))).collect()
//! };
//! let mut all = seen(&["ada", "bob"]);
//! all.merge(&seen(&["bob", "eve"]));
//! assert_eq!(all.estimate().round(), 3.0);
//! assert_eq!(Sketch::from_bytes(&all.to_bytes()), Ok(all));
//! ```
//!
//! Sketches are merged only where all elements were hashed with one key: [`Uniques`] keep them by hash.
//!
//! | module | holds |
//! |---|---|
//! | `sip` | the keyed hash, SipHash-1-3 |
//! | `hash_id` | which hash a sketch is of: what may be merged with what |
//! | `token` | 32 bits of a hash: all that any form of the sketch needs |
//! | `hyperloglog` | the sketch: its two forms, insert, merge |
//! | `format`, `error` | the sketch at rest, and why bytes are refused |
//! | `at_rest` | how what has bytes at rest travels in messages |
//! | `difference` | what one sketch has that another lacks: for messages |
//! | `rice` | ascending numbers in few bits |
//! | `registers` | the dense form: 16,384 registers |
//! | `vectors` | registers several at a time |
//! | `estimate` | from registers or tokens to a number of elements |
//! | `square_root` | square roots, with and without the standard library |
//! | `family` | the sketches of many shards: which of them add, which merge |
//! | `uniques` | all sketches of a counter, by hash and class: what cells, leads and roots hold |
//! | `intersection` | what two of them have in common |
//! | `histogram` | how samples are distributed, for percentiles: no sketch of elements, and not idempotent |
//! | `top_values` | which values were counted most often, with bounds: no sketch of elements, and not idempotent |
//! | `redis` | the hash and the string of Redis, for sketches that Redis is to read or has written |

#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod at_rest;
mod difference;
mod error;
mod estimate;
mod family;
mod format;
mod hash_id;
mod histogram;
mod hyperloglog;
mod intersection;
#[cfg(feature = "redis")]
mod redis;
mod registers;
mod rice;
mod sip;
mod square_root;
mod token;
mod top_values;
mod uniques;
mod vectors;

pub use difference::{BLOCKS, Digests, NewItems};
pub use error::SketchError;
pub use estimate::STANDARD_ERROR;
pub use family::{Class, Families, UniqueEstimate};
pub use hash_id::HashId;
pub use histogram::{
    Histogram, MAX_RELATIVE_ERROR,
    format::HistogramError,
    sample::{BUCKETS_PER_OCTAVE, SAMPLE_LIMIT, SAMPLE_MIN, Sample, SampleError},
};
pub use hyperloglog::Sketch;
#[cfg(feature = "redis")]
pub use redis::{Hll, redis_hash, redis_token, redis_token_of, string::HllError};
pub use sip::{HashKey, hash};
pub use token::Token;
pub use top_values::{TopValues, VALUES_MAX, ValueCount};
pub use uniques::{CLASS_SHARDS_MAX, EPOCHS_MAX, PackedSketch, Source, Uniques};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
