//! Routes, public JSON, internal messages, object names and bindings: pure, each in one place.
//!
//! | module | holds |
//! |---|---|
//! | [`routes`] | the table of calls, and the route of a request |
//! | [`query`], [`bodies`], [`delta`] | the parts of a request |
//! | [`batch`] | bulk bodies, read as they stream |
//! | [`public`], [`badge`] | answers to clients; badges |
//! | [`dimensions`] | dimensions of writes |
//! | [`visitor`] | visitors without their addresses |
//! | [`problem`] | refusals |
//! | [`access`] | rights of callers |
//! | [`api_key`] | keys that calls make, and their stored form |
//! | [`gift`] | what a key gives away, whose part of a table it fills, and when it ends |
//! | [`audit`] | the audit log of administrative calls |
//! | [`encoding`] | the bytes of messages and stored bodies, whose structs can grow |
//! | [`messages`] | messages between Workers and objects |
//! | [`known_cells`] | what an isolate knows of cells, beyond its view |
//! | [`view_fallback`] | the parts of a read that come from the root's memory |
//! | [`metrics`] | metrics of the service |
//! | [`health`] | the partitions' health for `/healthz` |
//! | [`keys`], [`keyed`] | idempotency keys, and the routing of keyed writes |
//! | [`export`] | the file of an export, which an import reads |
//! | [`fields`] | types of fields, as OpenAPI names them |
//! | [`features`] | the features of this build |
//! | [`alerts`] | alerts: requests, answers, and the signature of deliveries |
//! | [`boards`] | boards: requests and answers |
//! | [`redis`] | Redis's commands over HTTP |
//! | [`limits`] | rate limits: requests and answers |
//! | [`live`] | live views: what watchers are sent, and when |
//! | [`shell_limits`] | the limits of the shells |
//! | [`mod@fleet`] | the counts of a whole deployment |
//! | [`settings`] | the allowed values of each variable of the deployment |
//! | [`names`] | names of objects, bindings and variables |
//! | [`stored`] | stored bodies: their version and checksum |
//! | [`repair`] | repairs: requests and answers |
//! | [`snapshot`] | files with the state of counters, one run a day |
//! | [`share`] | keys for reading one prefix |
//! | [`version`] | versions of writes and reads |
//! | [`refresh`] | when an isolate asks again for a value that may change |
//! | [`queued`] | messages of a queue of the platform |
//! | [`open_slots`] | the objects in use, where one process runs all of them |
//! | [`joined_pages`] | a page from many partitions |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]
#![cfg_attr(
    not(all(
        feature = "exports",
        feature = "ingest",
        feature = "live",
        feature = "pages",
        feature = "queue",
        feature = "redis",
        feature = "samples"
    )),
    allow(unused, reason = "code of what was left out is not linked")
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
pub mod encoding;
pub mod export;
pub mod features;
pub mod fields;
pub mod fleet;
pub mod gift;
pub mod health;
pub mod joined_pages;
pub mod keyed;
pub mod keys;
pub mod known_cells;
pub mod limits;
pub mod live;
pub mod messages;
pub mod metrics;
pub mod names;
pub mod open_slots;
pub mod problem;
pub mod public;
pub mod query;
pub mod queued;
pub mod redis;
pub mod refresh;
pub mod repair;
pub mod routes;
pub mod settings;
pub mod share;
pub mod shell_limits;
pub mod snapshot;
pub mod stored;
pub mod version;
pub mod view_fallback;
pub mod visitor;
