//! Which object: its class and its name.

use std::rc::Rc;

use sha2::{Digest, Sha256};
use tally_objects::ObjectClass;
use tally_wire::names;
use tally_wire::names::Placement;

/// The classes: the binding, what starts its objects, and the folder of their databases.
const CLASSES: [(&str, ObjectClass, &str); 8] = [
    (names::BOARDS, ObjectClass::Board, "tally-board-v1"),
    (names::CELLS, ObjectClass::Cell, "tally-cell-v1"),
    (
        names::DIRECTORY,
        ObjectClass::Directory,
        "tally-directory-v1",
    ),
    (names::INBOXES, ObjectClass::Inbox, "tally-inbox-v1"),
    (names::KEYSPACES, ObjectClass::Keyspace, "tally-keyspace-v1"),
    (names::LIMITERS, ObjectClass::Limiter, "tally-limiter-v1"),
    (names::TABLETS, ObjectClass::Tablet, "tally-tablet-v1"),
    (names::WATCHERS, ObjectClass::Watcher, "tally-watcher-v1"),
];

/// A class of objects, by its position in the table of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClassNumber(usize);

impl ClassNumber {
    /// The class of a binding.
    pub(crate) fn of(binding: &str) -> Option<Self> {
        CLASSES
            .iter()
            .position(|known| known.0 == binding)
            .map(Self)
    }

    /// All classes.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES.len()).map(Self)
    }

    fn entry(self) -> Option<&'static (&'static str, ObjectClass, &'static str)> {
        CLASSES.get(self.0)
    }

    /// What starts its objects.
    pub(crate) fn class(self) -> Option<ObjectClass> {
        self.entry().map(|entry| entry.1)
    }

    /// The binding.
    pub(crate) fn binding(self) -> &'static str {
        self.entry().map_or("", |entry| entry.0)
    }

    /// The folder of its databases, below that of all objects.
    pub(crate) fn folder(self) -> &'static str {
        self.entry().map_or("", |entry| entry.2)
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PlaceKey {
    pub(crate) class: ClassNumber,
    pub(crate) name: Rc<str>,
}

impl PlaceKey {
    /// The object of a placement.
    ///
    /// # Errors
    /// If there is no such class.
    pub(crate) fn of(placement: &Placement) -> Result<Self, String> {
        let class = ClassNumber::of(placement.binding);
        let class = class.ok_or_else(|| format!("no objects of {}", placement.binding))?;
        let name = placement.name.as_str().into();
        Ok(Self { class, name })
    }

    /// 64 digits that identify the object, and name its database. Names have any characters, so they name no files.
    pub(crate) fn id(&self) -> String {
        let digest = Sha256::digest([self.class.binding(), "/", &self.name].concat());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
