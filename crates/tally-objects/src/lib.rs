//! Durable Object shells: load → decide (pure) → write → answer.
//!
//! Each folder is a room, and each room's first lines list its modules.
//!
//! | room | holds |
//! |---|---|
//! | [`mod@kit`] | what every object is made of, whatever it holds |
//! | [`mod@cell`] | one (counter, datacenter, shard); shard 0 is the lead of its datacenter |
//! | [`mod@tablet`] | an object that hosts the leads of many counters |
//! | [`mod@directory`] | partitions of the directory: the counters' roots, totals and orders |
//! | [`mod@deployment`] | what a deployment has once, at one partition of the directory or at each |
//! | [`mod@archive`] | snapshots, imports and repairs |
//! | [`mod@board`] | boards: members with scores |
//! | [`mod@keyspace`] | the owner of the keys of Redis's dialect |
//! | [`mod@limiter`] | rate limits of one partition of the keys |
//! | [`mod@inbox`] | events that are acknowledged and not counted yet |
//! | [`mod@live`] | objects of live views: a hub or a live reader |

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

mod archive;
#[cfg(feature = "boards")]
mod board;
mod cell;
mod deployment;
mod directory;
mod dispatch;
mod inbox;
#[cfg(feature = "redis")]
mod keyspace;
mod kit;
#[cfg(feature = "limits")]
mod limiter;
#[cfg(feature = "live")]
mod live;
mod tablet;

use std::rc::Rc;

pub use cell::row_kinds::Kind;
pub use cell::store::CellStore;

use kit::measured_object::MeasuredObject;
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
    /// See [`mod@live`].
    Watcher,
}

impl ObjectClass {
    /// Starts an object from what is stored.
    pub fn start(self, object: Object, host: Host) -> Rc<dyn Shell> {
        let shell = self.shell(object.clone(), host.clone());
        let repair = archive::object_repair::answer;
        Rc::new(MeasuredObject::new(
            self.kind(),
            shell,
            object,
            host,
            repair,
        ))
    }

    /// Its name in metrics.
    fn kind(self) -> &'static str {
        match self {
            Self::Board => "board",
            Self::Cell => cell::object::KIND,
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
            Self::Board => Box::new(board::object::Board::start(object, host)),
            Self::Cell => Box::new(cell::object::CellObject::start(object, host)),
            Self::Directory => {
                let features = &dispatch::FEATURES;
                Box::new(directory::object::Directory::start(object, host, features))
            }
            #[cfg(feature = "queue")]
            Self::Inbox => Box::new(inbox::object::Inbox::start(object, host)),
            #[cfg(feature = "redis")]
            Self::Keyspace => Box::new(keyspace::object::Keyspace::start(object, host)),
            #[cfg(feature = "limits")]
            Self::Limiter => Box::new(limiter::object::Limiter::start(object, host)),
            Self::Tablet => Box::new(tablet::object::Tablet::start(object, host)),
            #[cfg(feature = "live")]
            Self::Watcher => Box::new(live::watcher::Watcher::start(object, host)),
            #[allow(unreachable_patterns, reason = "nothing is left out by default")]
            _ => Box::new(kit::left_out::LeftOut),
        }
    }
}
