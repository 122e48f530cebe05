//! Who may do what: keys with scopes, and public entries for browsers.
//!
//! Invariant: nothing is allowed unless a grant says so. A grant is a set of scopes on the ids that begin with a
//! prefix. A key holds the grants of its own entries. A caller without a key holds those of the public entries that
//! name its origin. A deployment without keys refuses everyone, unless it was opened on purpose for development on
//! loopback.
//!
//! Flow: the secret's text becomes an [`Access`] once per isolate. Each request's `Authorization` and `Origin` headers
//! become a [`Caller`]. The route asks the caller about each id or prefix before it touches it.
//!
//! Only browsers guarantee `Origin`; any other program can send any value. So a public entry limits the sites whose
//! pages may call, but not the programs that may.

mod caller;
mod config;
mod grant;
mod holder;
mod key;
mod local;
mod refusal;
mod right;
mod rules;
mod sender;

pub use self::caller::Caller;
pub use self::config::{
    CONFIG_BYTES_MAX, DELTA_MAX_DEFAULT, KEYS_COUNT_MAX, NAME_BYTES_MAX, ORIGINS_COUNT_MAX,
    PREFIX_BYTES_MAX, PUBLIC_ENTRIES_COUNT_MAX,
};
pub use self::grant::Permission;
pub use self::holder::Holder;
pub use self::key::{KEY_BYTES_MAX, KEY_BYTES_MIN};
pub use self::right::Right;
pub use self::rules::{Access, origin_of_referrer};
pub use self::sender::Sender;
