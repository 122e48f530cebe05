//! Durable Object shells: load → decide (pure) → write → answer.
//!
//! | module | holds |
//! |---|---|
//! | [`cell`] | one (counter, datacenter, shard); shard 0 is the lead of its datacenter |
//! | [`group_commit`] | how flushes that arrive together become one commit |
//! | [`keyed_writes`] | keyed writes, each counted once |
//! | [`lead`] | the duties of a lead besides counting: sums, grants, endings for its shards |
//! | [`lead_place`], [`lead_moves`], [`bundle`] | the place of a lead, its moves within its datacenter, and its rows meanwhile |
//! | [`autoscaler`] | the load of a cell, and how the number of shards follows it |
//! | [`cell_store`], [`cell_row_kinds`], [`cell_ledger`], [`cell_samples`] | a cell's rows, their kinds, those of its keyed writes, and of its samples |
//! | [`cell_rows`], [`cell_uniques`], [`cell_breakdowns`] | the tables of these rows, the rows of unique elements, and those of breakdowns |
//! | [`row_prefetch`] | rows that were read together, for the calls of one batch |
//! | [`cell_contents`] | a cell's contents, read for an export, written by an import |
//! | [`board`], [`board_state`], [`board_rows`], [`board_reads`] | a board: members with scores, in memory and in rows, and reads of them |
//! | [`board_moves`] | moves of a board's members from one layout of shards to another |
//! | [`board_losses`] | what an object of a board does after its head was discarded |
//! | [`board_registry`] | the boards of each partition of the directory |
//! | [`claims`], [`claim_store`] | claims of idempotency keys, and their rows |
//! | [`batch`] | answers to many calls in one message |
//! | [`inbox`], [`inbox_store`] | events that are acknowledged and not counted yet, and their rows |
//! | [`inbox_consumer`], [`inbox_backlog`] | the counting of an inbox's events, and those that wait for long |
//! | [`inbox_registry`] | the inboxes in roots |
//! | [`sender_sessions`] | senders to a queue of the platform, as a root stores them |
//! | [`directory`] | one partition of the directory: dispatches to its parts, each with tables of its own |
//! | [`listings`], [`directory_totals`], [`directory_tops`], [`kept_tops`] | lists of its counters with totals, their table, its orders, and those that are kept in memory |
//! | [`roots`], [`root_store`], [`duty_store`] | the roots of its counters, their end, notifications of leads, and their rows |
//! | [`root_places`], [`root_moves`], [`root_bundle`], [`root_sweep`] | the places of roots, their moves to another partition, their rows meanwhile, and those that get no calls |
//! | [`lead_calls`], [`inboxes`] | calls of a root to leads and inboxes |
//! | [`living_counters`] | the number of a partition's living counters |
//! | [`fleet_store`], [`sizes`] | the reports of isolates to a partition of the directory, and the database sizes of objects |
//! | [`measured_object`] | an object that reports its size and its isolate's counts |
//! | [`alarm`], [`alarm_turns`] | when something is due; the order in which alarms of tablets run |
//! | [`alerts`], [`alert_store`] | alerts: evaluation, delivery, and their rows |
//! | [`operations`], [`operation_store`] | settings, set, reset and deletion at a root, each once; the rows of those with a key |
//! | [`push_sender`] | pushes of a lead to its root |
//! | [`push_receiver`] | what a root knows from pushes, and its rows |
//! | [`deployment_values`] | values by name: secrets, and numbers of claims |
//! | [`snapshots`], [`snapshot_reads`] | writing snapshots of a partition, and reading them |
//! | [`secrets`] | keys of hashes and salts of visitors, at one partition of the directory |
//! | [`limiter`], [`limiter_store`] | rate limits of one partition of the keys, and their rows |
//! | [`cell_memory`] | the memory of an isolate's cells, and how idle ones give theirs back |
//! | [`limiter_growth`] | how keys move when the number of limiters changes |
//! | [`leases`], [`lease_recalls`] | how a limiter decides global limits, and how the global one recalls unused quota |
//! | [`reservations`] | several checks of one call at their limiter: all or none |
//! | [`api_keys`], [`shares`], [`audit_log`] | keys made by calls, shares, and the audit log, at one partition of the directory |
//! | [`gifts`] | who gave keys, shares, alerts and policies |
//! | [`policies`] | the deployment's policies, at one partition of the directory |
//! | [`import_steps`] | which policies and alerts an import has put under a key |
//! | [`watcher`] | the objects of live views: a hub or a live reader |
//! | [`hub`], [`live_streams`], [`second_alarm`] | the streams of watchers, their connections, and the alarm of their updates |
//! | [`live_reader`] | reads of watched counters, once for all watchers |
//! | [`object_repair`], [`cell_repair`] | damage of an object, and its removal; damage of a cell, and its repair |
//! | [`storage_guard`] | refusal of calls while storage cannot be read |
//! | [`tablet`], [`tablet_rows`], [`tablet_fold`], [`tablet_alarms`], [`tablet_wakes`], [`hosted_rows`] | an object that hosts the leads of many counters, and their rows |
//! | [`keyspace`], [`keyspace_adds`], [`keyspace_boards`], [`keyspace_counters`], [`keyspace_ends`], [`keyspace_lanes`], [`keyspace_listeners`], [`keyspace_loads`], [`keyspace_names`], [`keyspace_scripts`], [`keyspace_sketches`], [`keyspace_store`], [`keyspace_locks`] | the owner of the keys of Redis's dialect, its rows, and its listeners |
//! | [`outbox`] | joins messages of tenants to the directory, and of roots to tablets |
//! | [`lead_apart`] | how a hot lead leaves its tablet, and returns |
//! | [`directory_tablets`], [`lead_sweep`] | the spreads of leads over tablets, present and former, and moves of leads that get no calls |
//! | `left_out` | the object of a feature that this build does not have |
//! | [`store`] | SQL, and the schema's version |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]
#![cfg_attr(
    not(feature = "default"),
    allow(unused, reason = "code of what was left out is not linked")
)]

mod alarm;
mod alarm_turns;
mod alert_store;
mod alerts;
mod api_keys;
mod audit_log;
mod autoscaler;
mod batch;
mod board;
mod board_losses;
mod board_moves;
mod board_reads;
mod board_registry;
mod board_rows;
mod board_state;
mod bundle;
mod cell;
mod cell_breakdowns;
mod cell_contents;
mod cell_ledger;
mod cell_memory;
mod cell_repair;
mod cell_row_kinds;
mod cell_rows;
mod cell_samples;
mod cell_store;
mod cell_uniques;
mod claim_store;
mod claims;
mod deployment_values;
mod directory;
mod directory_tablets;
mod directory_tops;
mod directory_totals;
mod duty_store;
mod fleet_store;
mod gifts;
mod group_commit;
mod hosted_rows;
mod hub;
mod import_steps;
mod inbox;
mod inbox_backlog;
mod inbox_consumer;
mod inbox_registry;
mod inbox_store;
mod inboxes;
mod kept_tops;
mod keyed_writes;
mod keyspace;
mod keyspace_adds;
mod keyspace_boards;
mod keyspace_counters;
mod keyspace_ends;
mod keyspace_lanes;
mod keyspace_listeners;
mod keyspace_loads;
mod keyspace_locks;
mod keyspace_names;
mod keyspace_scripts;
mod keyspace_sketches;
mod keyspace_store;
mod lead;
mod lead_apart;
mod lead_calls;
mod lead_moves;
mod lead_place;
mod lead_sweep;
mod lease_recalls;
mod leases;
#[cfg(not(all(
    feature = "boards",
    feature = "limits",
    feature = "live",
    feature = "queue",
    feature = "redis"
)))]
mod left_out;
mod limiter;
mod limiter_growth;
mod limiter_store;
mod listings;
mod live_reader;
mod live_streams;
mod living_counters;
mod measured_object;
mod object_repair;
mod operation_store;
mod operations;
mod outbox;
mod policies;
mod push_receiver;
mod push_sender;
mod reservations;
mod root_bundle;
mod root_moves;
mod root_places;
mod root_store;
mod root_sweep;
mod roots;
mod row_prefetch;
mod second_alarm;
mod secrets;
mod sender_sessions;
mod shares;
mod sizes;
mod snapshot_reads;
mod snapshots;
mod storage_guard;
mod store;
mod tablet;
mod tablet_alarms;
mod tablet_fold;
mod tablet_rows;
mod tablet_wakes;
mod watcher;

use std::rc::Rc;

pub use cell_store::{CellStore, Kind};

use measured_object::MeasuredObject;
use tally_host::Host;
use tally_host::object::{Object, Shell};

/// The classes of objects. All exist in each build, as the platform's configuration names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectClass {
    /// See [`mod@board`].
    Board,
    /// See [`mod@cell`].
    Cell,
    /// See [`mod@directory`].
    Directory,
    /// See [`mod@inbox`].
    Inbox,
    /// See [`mod@keyspace`].
    Keyspace,
    /// See [`mod@limiter`].
    Limiter,
    /// See [`mod@tablet`].
    Tablet,
    /// See [`mod@watcher`].
    Watcher,
}

impl ObjectClass {
    /// Starts an object from what is stored.
    pub fn start(self, object: Object, host: Host) -> Rc<dyn Shell> {
        Rc::new(MeasuredObject::start(self, object, host))
    }

    /// Its name in metrics.
    fn kind(self) -> &'static str {
        match self {
            Self::Board => "board",
            Self::Cell => cell::KIND,
            Self::Directory => "directory",
            Self::Inbox => "inbox",
            Self::Keyspace => "keyspace",
            Self::Limiter => "limiter",
            Self::Tablet => "tablet",
            Self::Watcher => "watcher",
        }
    }

    fn shell(self, object: Object, host: Host) -> Box<dyn Shell> {
        match self {
            #[cfg(feature = "boards")]
            Self::Board => Box::new(board::Board::start(object, host)),
            Self::Cell => Box::new(cell::Cell::start(object, host)),
            Self::Directory => Box::new(directory::Directory::start(object, host)),
            #[cfg(feature = "queue")]
            Self::Inbox => Box::new(inbox::Inbox::start(object, host)),
            #[cfg(feature = "redis")]
            Self::Keyspace => Box::new(keyspace::Keyspace::start(object, host)),
            #[cfg(feature = "limits")]
            Self::Limiter => Box::new(limiter::Limiter::start(object, host)),
            Self::Tablet => Box::new(tablet::Tablet::start(object, host)),
            #[cfg(feature = "live")]
            Self::Watcher => Box::new(watcher::Watcher::start(object, host)),
            #[cfg(not(all(
                feature = "boards",
                feature = "limits",
                feature = "live",
                feature = "queue",
                feature = "redis"
            )))]
            _ => Box::new(left_out::LeftOut),
        }
    }
}
