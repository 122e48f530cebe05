//! The rights that callers are given, as they are stored and sent: keys, shares, and what they inherit.
//!
//! | module | holds |
//! |---|---|
//! | `scope`, `budget` | what a key allows, and how much |
//! | `api_key` | keys that calls make, and their tokens |
//! | `share` | keys for reading one prefix, and their tokens |
//! | `gift` | what a key gives away, whose part of a table it fills, and when it ends |
//! | `admin` | what a caller administers, as a value |

mod admin;
mod api_key;
mod budget;
mod gift;
mod scope;
mod share;

pub use admin::AdminRights;
pub use api_key::{
    ApiKey, Digest, FORMER_SECRETS_MAX, KEY_PREFIXES_MAX, KEYS_MAX, KeyId, KeyToken,
    RATE_PER_MINUTE_MAX, SECRET_BYTES, make_token,
};
pub use budget::KeyBudget;
pub use gift::{
    Filled, Gift, Giver, HeldKey, HeldShare, Inheritance, KEY_DEPTH_MAX, KeyMade, Room, held,
};
pub use scope::{PrefixKind, Scope, is_within};
pub use share::{SHARES_MAX, Share, ShareId, ShareToken, share_token};
