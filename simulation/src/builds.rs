//! Two builds in one world: some isolates and objects run this build, others the next one.
//!
//! The next build is this one with the next protocol. Its messages and answers have more at their end, which this build
//! does not know. This build answers `Later` to what is newer. An upgrade ends the isolate, or the object, which starts
//! again as of the next build.

use std::cell::Cell;
use std::rc::Rc;

use tally_host::object::{IncomingCall, Reply};
use tally_wire::messages::{Fault, PROTOCOL, encode, later};

use crate::chance::Chance;
use crate::core::Core;
use crate::isolate::Role;
use crate::world::World;

/// What the next build adds at the end of a message or an answer.
const ADDED: [u8; 3] = [2, 1, 200];

/// Which build an isolate or an object is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Build {
    /// This one.
    #[default]
    This,
    /// The next one.
    Next,
}

impl Build {
    /// Draws the build of a new isolate or object. Worlds of one build draw nothing.
    pub(crate) fn draw(chance: &Chance, mixture: &Mixture) -> Self {
        match mixture.0.get() {
            None => Self::This,
            Some(once_in) if once_in != 0 && chance.once_in(once_in) => Self::This,
            Some(_) => Self::Next,
        }
    }

    /// How much higher its protocols are than those of this build.
    fn rise(self) -> u8 {
        match self {
            Self::This => 0,
            Self::Next => 1,
        }
    }

    /// The protocol in which it says what this build would say in another.
    pub(crate) fn says_in(self, protocol: u8) -> u8 {
        match self {
            // Places of both builds share an isolate here, and what it knows of its receivers.
            Self::This => protocol.max(PROTOCOL),
            Self::Next => protocol + self.rise(),
        }
    }

    /// A message as it writes it.
    pub(crate) fn message(self, mut message: Vec<u8>) -> Vec<u8> {
        if self == Self::Next {
            message.extend(ADDED);
        }
        message
    }

    /// An answer as it writes it.
    pub(crate) fn answer(self, answer: Vec<u8>) -> Vec<u8> {
        match answer.first() {
            Some(0) => self.message(answer),
            _ => answer,
        }
    }

    /// An answer as this build would get it: a refusal names the receiver's protocol.
    pub(crate) fn hear(self, answer: Vec<u8>) -> Vec<u8> {
        let lower = later(&answer).map(|protocol| Fault::Later(protocol - self.rise()));
        lower.map_or(answer, |fault| {
            encode(&Err::<(), Fault>(fault)).expect("a fault is encoded")
        })
    }

    /// A call, where it understands it.
    pub(crate) fn receive(self, arrived: IncomingCall) -> Result<IncomingCall, Reply> {
        arrived.understood_by(PROTOCOL + self.rise())
    }
}

/// How many new isolates and objects run this build in a world of two builds: one in this many, none if it is 0. `None`
/// in a world of one build.
#[derive(Default)]
pub(crate) struct Mixture(Cell<Option<u64>>);

impl World {
    /// From now on one in this many new isolates and objects runs this build, none if it is 0, and the others the next
    /// one. What has begun before the first such setting runs the next one.
    pub fn set_before_once_in(&self, once_in: u64) {
        if self.core.builds.0.replace(Some(once_in)).is_none() {
            let isolates = self.core.all_isolates();
            isolates
                .iter()
                .for_each(|isolate| isolate.build.set(Build::Next));
            let places = self.core.all_places();
            places.iter().for_each(|place| place.build.set(Build::Next));
        }
    }

    /// Upgrades one isolate or object of the former build: its memory is lost. Returns whether there was any.
    pub fn upgrade_one(&self) -> bool {
        let old = self.core.olds();
        let Some(one) = (!old.is_empty()).then(|| self.core.chance.pick(old.len())) else {
            return false;
        };
        old[one].upgrade(&self.core);
        true
    }

    /// Upgrades all that run the former build; new ones run the next one. Changes nothing in a world of one build.
    pub fn upgrade_all(&self) {
        if self.core.builds.0.get().is_none() {
            return;
        }
        self.set_before_once_in(0);
        for old in self.core.olds() {
            old.upgrade(&self.core);
        }
    }

    /// The number of isolates and objects that run the former build.
    pub fn before_count(&self) -> usize {
        self.core.olds().len()
    }
}

/// An isolate or object of the former build.
enum Old {
    Isolate(Rc<crate::isolate::Isolate>),
    Place(Rc<crate::place::Place>),
}

impl Old {
    fn upgrade(&self, core: &Rc<Core>) {
        match self {
            Self::Isolate(isolate) => {
                core.record(|| format!("upgrade  {}", isolate.label));
                isolate.build.set(Build::Next);
                core.crash_isolate(isolate);
            }
            Self::Place(place) => {
                core.record(|| format!("upgrade  {}", place.label()));
                place.build.set(Build::Next);
                place.crash();
            }
        }
    }
}

impl Core {
    fn olds(&self) -> Vec<Old> {
        if self.builds.0.get().is_none() {
            return Vec::new();
        }
        let isolates = self.all_isolates().into_iter();
        let isolates = isolates.filter(|isolate| isolate.role != Role::Objects);
        let isolates = isolates.filter(|isolate| isolate.build.get() == Build::This);
        let places = self.all_places().into_iter();
        let places = places.filter(|place| place.build.get() == Build::This);
        isolates
            .map(Old::Isolate)
            .chain(places.map(Old::Place))
            .collect()
    }
}
