//! Two builds in one world: some isolates and objects run the former build, which knows the former protocol and no
//! newer one.
//!
//! Who is of the build before says all messages in that protocol, in their forms of then: what was added to a message
//! or an answer since is not there, whichever way it goes. It answers `Later` to what is newer, and knows none of the
//! messages that are new. An upgrade ends the isolate, or the object, which starts again as of this build.

use std::cell::Cell;
use std::rc::Rc;

use tally_core::cluster::apart::LeadsApart;
use tally_core::cluster::tablets::Spreads;
use tally_host::object::{IncomingCall, Reply};
use tally_protocol::messages::{
    AskBoard, AskHidden, Batch, BatchedCall, BoardQuestion, Call, CellRepaired, CountKeyed, Fault,
    Flush, GiveRoot, LocateLead, PROTOCOL, PROTOCOL_BEFORE, PlaceLead, PutAlert, PutPolicy,
    ReadOwnPastStates, Recall, RepairCell, RepairObject, RepairRoot, RootHandover, RootRepaired,
    Subscribe, WriteBoard, decode, encode,
};

use crate::chance::Chance;
use crate::core::Core;
use crate::isolate::Role;
use crate::world::World;

/// Which build an isolate or an object is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Build {
    /// This one.
    #[default]
    Now,
    /// The one before.
    Before,
}

impl Build {
    /// Draws the build of a new isolate or object; one in `once_in` runs the former one. Worlds of one build draw
    /// nothing.
    pub(crate) fn draw(chance: &Chance, once_in: u64) -> Self {
        match once_in != 0 && chance.once_in(once_in) {
            true => Self::Before,
            false => Self::Now,
        }
    }

    /// The newest protocol that it understands.
    pub(crate) fn newest(self) -> u8 {
        match self {
            Self::Now => PROTOCOL,
            Self::Before => PROTOCOL_BEFORE,
        }
    }

    /// The protocol in which it says what this build would say in another.
    pub(crate) fn says_in(self, protocol: u8) -> u8 {
        match self {
            Self::Now => protocol,
            Self::Before => protocol.min(PROTOCOL_BEFORE),
        }
    }

    /// A message as it writes and reads it.
    pub(crate) fn message(self, path: &str, message: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Now => message,
            Self::Before => cut(path, &message).unwrap_or(message),
        }
    }

    /// An answer as it writes and reads it, to a message that had this form.
    pub(crate) fn answer(self, path: &str, message: &[u8], answer: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Now => answer,
            Self::Before => cut_answer(path, message, &answer).unwrap_or(answer),
        }
    }

    /// Whether it has a message of this name.
    pub(crate) fn knows(self, path: &str) -> bool {
        let since = [
            AskHidden::PATH,
            PlaceLead::PATH,
            ReadOwnPastStates::PATH,
            RepairObject::PATH,
            Subscribe::PATH,
        ];
        self == Self::Now || !since.contains(&path)
    }

    /// A call, where it understands it, as it reads it.
    pub(crate) fn receive(self, arrived: IncomingCall) -> Result<IncomingCall, Reply> {
        let mut arrived = arrived.understood_by(self.newest())?;
        if !self.knows(&arrived.path) {
            return Err(Reply::Unknown);
        }
        if self == Self::Before && is_of_several(&arrived) {
            let broken = Err::<(), _>(Fault::Broken("it cannot be decoded".to_owned()));
            return Err(encode(&broken).map_or(Reply::Unknown, Reply::Answer));
        }
        let message = std::mem::take(&mut arrived.message);
        arrived.message = self.message(&arrived.path, message);
        Ok(arrived)
    }
}

/// Whether a board is asked what it had no question for: about more than one member that is watched.
fn is_of_several(arrived: &IncomingCall) -> bool {
    let message = (arrived.path == AskBoard::PATH).then(|| decode::<AskBoard>(&arrived.message));
    let question = message.and_then(Result::ok).map(|message| message.question);
    matches!(question, Some(BoardQuestion::Live(_, names)) if names.len() > 1)
}

/// The form of the protocol before of a message that had another.
fn cut(path: &str, message: &[u8]) -> Option<Vec<u8>> {
    if path == LocateLead::PATH {
        let it: LocateLead = decode(message).ok()?;
        return encode(&it.counter).ok();
    }
    if path == CountKeyed::PATH {
        // Without the last two fields, an empty list and a 0: two bytes.
        let it = decode::<CountKeyed>(message).ok()?.received();
        let mut writes = it.writes;
        (writes.iter_mut()).for_each(|write| write.within_64_bits = false);
        let it = CountKeyed::new(it.to, writes, it.moves, it.keys);
        let bytes = encode(&it).ok()?;
        return Some(bytes.get(..bytes.len() - 2)?.to_vec());
    }
    if path == RepairRoot::PATH {
        let it: RepairRoot = decode(message).ok()?;
        return encode(&(it.counter, it.datacenters, it.is_dry)).ok();
    }
    if path == WriteBoard::PATH {
        let it: WriteBoard = decode(message).ok()?;
        return encode(&(it.board, it.at, it.home, it.writes, it.once)).ok();
    }
    if path == PutPolicy::PATH {
        let it: PutPolicy = decode(message).ok()?;
        return encode(&(it.name, it.policy)).ok();
    }
    if path == PutAlert::PATH {
        let it: PutAlert = decode(message).ok()?;
        return encode(&(it.name, it.put, it.over)).ok();
    }
    if path == Batch::PATH {
        let mut batch: Batch = decode(message).ok()?;
        for BatchedCall { path, message } in &mut batch.calls {
            *message = Build::Before.message(path, std::mem::take(message));
        }
        return encode(&batch).ok();
    }
    None
}

/// The form of the protocol before of an answer that had another.
fn cut_answer(path: &str, message: &[u8], answer: &[u8]) -> Option<Vec<u8>> {
    if path == RepairCell::PATH {
        let it: Result<CellRepaired, Fault> = decode(answer).ok()?;
        return encode(&it.map(|it| (it.damaged, it.totals_from))).ok();
    }
    if path == RepairRoot::PATH {
        let it: Result<RootRepaired, Fault> = decode(answer).ok()?;
        return encode(&it.map(|it| (it.damaged, it.sources, it.found))).ok();
    }
    if path == GiveRoot::PATH {
        return cut_root(answer);
    }
    if path == Flush::PATH {
        return cut_last::<Flush>(answer);
    }
    if [CountKeyed::PATH, Recall::PATH].contains(&path) {
        return cut_last::<CountKeyed>(answer);
    }
    if path == Batch::PATH {
        let batch: Batch = decode(message).ok()?;
        let answers: Result<Vec<Option<Vec<u8>>>, Fault> = decode(answer).ok()?;
        let cut = answers.map(|answers| {
            let answers = answers.into_iter().zip(&batch.calls);
            let answers = answers.map(|(answer, call)| {
                answer.map(|answer| Build::Before.answer(&call.path, &call.message, answer))
            });
            answers.collect::<Vec<_>>()
        });
        return encode(&cut).ok();
    }
    None
}

/// A root that is given, without what is noted of leads that live apart.
fn cut_root(answer: &[u8]) -> Option<Vec<u8>> {
    let mut given: Result<RootHandover, Fault> = decode(answer).ok()?;
    if let Ok(RootHandover::Rows { spreads, .. }) = &mut given {
        let (all, _): (Spreads, LeadsApart) = decode(spreads).ok()?;
        *spreads = encode(&all).ok()?;
    }
    encode(&given).ok()
}

/// An answer without its last byte, which says where the lead is. A refusal has no such byte, and an answer that was
/// cut before is incomplete.
fn cut_last<C: Call>(answer: &[u8]) -> Option<Vec<u8>> {
    decode::<Result<C::Answer, Fault>>(answer).ok()?.ok()?;
    Some(answer.split_last()?.1.to_vec())
}

/// How many new isolates and objects run the former build: one in this many, none if it is 0.
#[derive(Default)]
pub(crate) struct Mixture(pub(crate) Cell<u64>);

impl World {
    /// From now on one in this many new isolates and objects runs the former build; none if it is 0.
    pub fn set_before_once_in(&self, once_in: u64) {
        self.core.builds.0.set(once_in);
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

    /// Upgrades all that run the former build; new ones run the current one.
    pub fn upgrade_all(&self) {
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
                isolate.build.set(Build::Now);
                core.crash_isolate(isolate);
            }
            Self::Place(place) => {
                core.record(|| format!("upgrade  {}", place.label()));
                place.build.set(Build::Now);
                place.crash();
            }
        }
    }
}

impl Core {
    fn olds(&self) -> Vec<Old> {
        let isolates = self.all_isolates().into_iter();
        let isolates = isolates.filter(|isolate| isolate.role != Role::Objects);
        let isolates = isolates.filter(|isolate| isolate.build.get() == Build::Before);
        let places = self.all_places().into_iter();
        let places = places.filter(|place| place.build.get() == Build::Before);
        isolates
            .map(Old::Isolate)
            .chain(places.map(Old::Place))
            .collect()
    }
}
