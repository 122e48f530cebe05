//! What the parts of Tally send each other and store: messages, stored forms, names, refusals. Pure.
//!
//! | module | holds |
//! |---|---|
//! | [`names`] | names of objects, bindings and variables |
//! | [`problem`] | refusals |
//! | [`segment`] | one segment of a path |
//! | [`settings`] | the allowed values of each variable of the deployment |
//! | [`shell_limits`] | the limits of the shells |
//! | [`encoding`] | the bytes of messages and stored bodies, whose structs can grow |
//! | [`stored`] | stored bodies: their version and checksum |
//! | [`messages`] | messages between Workers and objects |
//! | [`queued`] | messages of a queue of the platform |
//! | [`version`] | versions of writes and reads |
//! | [`rights`] | what keys and shares allow |
//! | [`mod@audit`] | the audit log of administrative calls |
//! | [`alerts`] | alerts and their deliveries, and the addresses that a webhook may have |
//! | [`mod@fleet`] | the counts of a whole deployment |
//! | [`health`] | the partitions' health for `/healthz` |
//! | [`otlp`] | where the metrics of a deployment are pushed |
//! | [`live`] | what watchers name and see |
//! | [`mod@redis`] | replies of Redis's commands |
//! | [`snapshot`] | files with the state of counters, one run a day |
//! | [`visitor`] | visitors without their addresses |
//! | [`isolate`] | what an isolate remembers and decides by itself |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod alerts;
pub mod audit;
pub mod encoding;
pub mod fleet;
pub mod health;
pub mod isolate;
pub mod live;
pub mod messages;
pub mod names;
pub mod otlp;
pub mod problem;
pub mod queued;
pub mod redis;
pub mod rights;
pub mod segment;
pub mod settings;
pub mod shell_limits;
pub mod snapshot;
pub mod stored;
pub mod version;
pub mod visitor;
