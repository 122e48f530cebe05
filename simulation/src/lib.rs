//! The platform of Tally in memory: the other implementation of [`tally_host`]. The code that ships runs here,
//! natively, thousands of times faster than on a server, and every run comes back with its seed.
//!
//! A test builds a [`World`], says what runs in it ([`deploy`] for the whole service), and asks as a [`Client`] does:
//!
//! ```
//! use tally_simulation::{Faults, Options, World, deploy};
//!
//! let world = World::new(7, Options::default());
//! deploy(&world);
//! let (near, far) = (world.site("FRA", 2), world.site("SYD", 2));
//! world.set_faults(Faults::SOME);
//! let client = world.client(near).with_key(tally_simulation::ADMIN_KEY);
//! let answer = world.run(client.post("/counters/hits/increment", ""));
//! world.cut(near, far, 60_000);
//! world.run_for_ms(1_000);
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `world`: [`World`] | what tests build, run and look into |
//! | `client`: [`Client`], [`Answer`], [`Live`]; [`ClientRequest`] | what clients ask and see |
//! | `faults`: [`Faults`], [`Options`] | what a world is like |
//! | `deployment`: [`deploy`], [`install`] | the whole service, as it is deployed |
//! | `executor`, `timers`, `chance`, `one_shot` | tasks, virtual time, and the chance that decides everything |
//! | `clocks` | how far clocks are off |
//! | `core`, `isolate`, `place` | who there is: isolates, and where objects live; how they crash and are evicted |
//! | `calls`, `network` | how messages travel, and get lost |
//! | `builds` | two builds in one world, and how one is upgraded to the other |
//! | `intervention`: [`PendingCall`], [`Verdict`] | what a test lets become of single calls |
//! | `storage`, `alarm` | what objects store, and their alarms |
//! | `streams`, `sockets`, `events` | streams to clients |
//! | `queue` | the deployment's queue |
//! | `bucket` | the deployment's files |
//! | `outside` | receivers outside of the deployment |
//! | `guest`, `request`, `files` | `tally_host`'s traits |
//! | `journal` | the log and the figures |
//! | `history` | the calls of clients, for a checker that knows the contract alone |
//!
//! # What is modelled
//!
//! - Tasks run one at a time; chance picks among those that can. Computing takes no time; time moves to the next
//!   timer. Whoever crashes loses its tasks at any await.
//! - Isolates have a memory and a clock of their own, which is off by up to [`Options::skew_ms_max`], and is stepped.
//!   Objects live alone or share isolates.
//! - Objects handle calls concurrently, are evicted when idle, and crash; what they send leaves only once what they
//!   wrote is durable, which takes a time. A crash takes what was not durable.
//! - Storage is SQLite, with the platform's limits of statements and values; it goes out for a time.
//! - Alarms are durable like rows, ring late, again after failures and crashes, one at a time, and start their object.
//! - Messages take a time of their own, get lost, come twice and overtake each other; their answers get lost. Sites
//!   are cut off. The platform never repeats a message by itself; that the network does stands for callers and
//!   proxies that try again, so [`Options::once`] names messages whose senders never do that with an outcome open.
//! - Sockets outlive evictions, break by crashes and cuts, and close by a handshake. Streams of events take one chunk
//!   at a time.
//! - The queue delivers at least once, in any order and batches, and gives up after some deliveries.
//! - Receivers outside get what is posted once it may leave, answer or not, and their answers get lost.
//! - Clients that hang up end their handler; what it lets go on does not end.
//!
//! # What is not
//!
//! - Limits of time and memory, of subrequests and of open connections; evictions because an isolate is too large.
//! - Input gates beyond this: between two awaits nobody else runs. On the platform an object waits for its storage
//!   undisturbed by new messages; here a message may arrive while an alarm is set, where both fall on one instant.
//! - How long computing takes, so no load: what a limit of calls a second would do must be shown elsewhere.
//! - Two incarnations of one object at once, and objects that move.
//! - Gzip, TLS, HTTP versions; headers that the platform adds. Edges see every header that a client sends.
//! - The order among the streams of one client, and messages larger than the platform takes.
//! - Rows of indexes among the rows written, and rows read.
#![cfg(not(target_arch = "wasm32"))]

mod alarm;
mod bucket;
mod builds;
mod calls;
mod chance;
mod client;
mod clocks;
mod core;
mod deployment;
mod events;
mod executor;
mod faults;
mod files;
mod guest;
mod history;
mod intervention;
mod isolate;
mod journal;
mod network;
mod one_shot;
mod outside;
mod place;
mod queue;
mod request;
mod sockets;
mod storage;
mod streams;
mod timers;
mod world;

pub use chance::Chance;
pub use client::{Answer, Client, Live, NoAnswer};
pub use clocks::ClockOf;
pub use deployment::{ADMIN_KEY, admin, deploy, deployed, install};
pub use faults::{Faults, Housing, Options};
pub use intervention::{PendingCall, Verdict};
pub use isolate::Role;
pub use journal::{Figures, NotedCall, NotedStep};
pub use network::Site;
pub use one_shot::OneShot;
pub use request::{ClientRequest, ORIGIN};
pub use storage::Storage;
pub use streams::{BROKEN, Received};
pub use world::World;
