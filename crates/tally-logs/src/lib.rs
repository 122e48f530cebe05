//! Access logs as requests: one reader for the Worker's `/ingest` and for the command, which has it as Wasm. Pure.
//!
//! ```text
//! line ─► carrier's prefix ─► format ─► hit ─► filter ─► counter, and what is counted of it
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`formats`] | lines of many servers into hits |
//! | [`prefix`] | what syslog, Kubernetes and Docker write before a line |
//! | [`hit`] | what a line says of one request |
//! | [`calendar`] | days and months; the core has it too |
//! | [`time`] | times into unix time |
//! | [`address`] | addresses of clients |
//! | [`target`] | targets of requests |
//! | [`text`] | byte order marks, UTF-16 |
//! | [`json`] | JSON objects of lines |
//! | [`fields`], [`user_agent`] | what may be counted of a request besides its path |
//! | [`bots`] | programs among user agents |
//! | [`filter`] | which hits are page views, and which counter each counts |
//! | [`reader`] | the lines of a log into lines of a body of `/ingest` |

pub mod address;
pub mod bots;
pub mod calendar;
pub mod fields;
pub mod filter;
pub mod formats;
pub mod hit;
pub mod json;
pub mod prefix;
pub mod reader;
pub mod target;
pub mod text;
pub mod time;
pub mod user_agent;
