//! The public API: routes, queries, bodies, answers, and who may call. Pure.
//!
//! | module | holds |
//! |---|---|
//! | [`routes`] | the table of calls, the route of a request, and who may make it |
//! | [`access`] | rights of callers |
//! | [`query`], [`bodies`], [`delta`] | the parts of a request |
//! | [`json`] | JSON objects into structs, and JSON's errors into problems |
//! | [`batch`] | bulk bodies, read as they stream |
//! | [`public`], [`badge`] | answers to clients; badges |
//! | [`fields`], [`number`] | types of fields, as OpenAPI names them; numbers |
//! | [`dimensions`] | dimensions of writes |
//! | [`api_key`], [`share`] | keys and shares: requests and answers |
//! | [`audit`] | the audit log: requests and answers |
//! | [`alerts`] | alerts: requests and answers, and the requests of deliveries |
//! | [`boards`] | boards: requests and answers |
//! | [`limits`] | rate limits: requests and answers |
//! | [`live`] | live views: what watchers are sent, and when |
//! | [`metrics`] | metrics of the service |
//! | [`idempotency_keys`], [`keyed_routes`] | idempotency keys, and the routing of keyed writes |
//! | [`export`] | the file of an export, which an import reads |
//! | [`repair`], [`snapshot`] | repairs and snapshots: requests and answers |
//! | [`features`] | the features of this build |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod access;
pub mod alerts;
pub mod api_key;
pub mod audit;
pub mod badge;
pub mod batch;
pub mod boards;
pub mod bodies;
pub mod delta;
pub mod dimensions;
pub mod export;
pub mod features;
pub mod fields;
pub mod idempotency_keys;
pub mod json;
pub mod keyed_routes;
pub mod limits;
pub mod live;
pub mod metrics;
pub mod number;
pub mod public;
pub mod query;
pub mod repair;
pub mod routes;
pub mod share;
pub mod snapshot;
