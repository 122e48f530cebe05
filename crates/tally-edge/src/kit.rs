//! What each call needs, whatever it asks for.
//!
//! | module | holds |
//! |---|---|
//! | [`request_context`] | one request, its caller and its times |
//! | [`body`] | bodies, bounded, drained where they are refused |
//! | [`respond`] | responses, problems, CORS |
//! | [`isolate`] | what requests of one isolate share: lanes, cached reads, keys |
//! | [`lanes`] | lanes, in which clients' requests join into messages to objects |
//! | [`media_ranges`] | what a client accepts |
//! | [`request_key`] | the keys that name writes which count once |
//! | [`hash_keys`] | keys and salts of hashes |
//! | [`shared_reads`] | values that requests share, and their reads |
//! | [`visitors`] | the limits of visitors without keys and of holders of shares |

pub(crate) mod body;
pub(crate) mod hash_keys;
pub(crate) mod isolate;
pub(crate) mod lanes;
pub(crate) mod media_ranges;
pub(crate) mod request_context;
pub(crate) mod request_key;
pub(crate) mod respond;
pub(crate) mod shared_reads;
pub(crate) mod visitors;
