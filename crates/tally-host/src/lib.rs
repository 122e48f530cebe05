//! The interface of the service to its platform: a small set of traits, so that the same code runs on Workers and in a
//! simulation.
//!
//! | module | holds |
//! |---|---|
//! | [`Platform`], [`Host`] | time, randomness, settings, messages to objects and Workers, and what an isolate holds in memory |
//! | [`metrics`] | the metrics of several isolates in one process |
//! | [`object`] | what an object asks besides: its database, its alarm, its sockets |
//! | [`http`] | requests and responses of clients |
//!
//! Invariant: only the package `tally` names a type of the platform, so that all decisions are in code that also runs
//! natively.

#![allow(
    rustdoc::private_intra_doc_links,
    reason = "who reads these pages works on the program, and has its private items too"
)]

pub mod http;
pub mod metrics;
pub mod object;

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasherDefault, Hasher};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, LocalBoxFuture, select};

use metrics::ProcessMetrics;
use tally_core::counter::ledger::WriteKey;
use tally_wire::alerts::Outgoing;
use tally_wire::messages::Fault;
use tally_wire::names::{JURISDICTION, Placement};
use tally_wire::problem::{Code, Problem};
use tally_wire::settings;

/// The answer to an unknown call, in place of the bytes of a result. Nothing was done.
pub const UNKNOWN_CALL: &str = "no such call";

/// The status of a stream that was requested in a newer protocol than its object knows. The object has done nothing.
pub const LATER_STATUS: u16 = 505;

/// The text of a setting without white space around it; `None` if it is empty, which counts as not set.
pub fn trimmed(text: &str) -> Option<String> {
    // Some editors write a byte order mark into a file of keys.
    let text = text.trim_start_matches('\u{feff}').trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A future that stays in the isolate in which it began.
pub type Later<T> = LocalBoxFuture<'static, T>;

/// The target of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An object.
    Object(Placement),
    /// To the global aggregator.
    Aggregator,
}

/// A stream from an object to a client, in the platform's form.
pub struct Stream {
    /// Status of the answer that carries it.
    pub status: u16,
    /// The platform's own value; no other code looks into it.
    pub carrier: Rc<dyn Any>,
}

/// A file that is served unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its content.
    pub text: String,
    /// Its entity tag.
    pub etag: String,
}

/// A point of the deployment's data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The value by which it is sampled.
    pub index: String,
    /// Its texts.
    pub texts: Vec<String>,
    /// Its number.
    pub number: f64,
}

/// A message of the deployment's queue, as it is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its body; `None` if that is not bytes.
    pub body: Option<Vec<u8>>,
    /// The number of its deliveries, including this one.
    pub attempts: u32,
}

/// The outcome of a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// It is not delivered again.
    Acknowledged,
    /// It is delivered again after a delay.
    Again {
        /// The delay, seconds.
        seconds: u32,
    },
}

/// The platform has no randomness, so no secret was made. The text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRandomness(String);

impl fmt::Display for NoRandomness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(why) = self;
        write!(
            formatter,
            "no secret was made, since the platform has no randomness: {why}"
        )
    }
}

impl Error for NoRandomness {}

impl From<NoRandomness> for Problem {
    fn from(missing: NoRandomness) -> Self {
        Self::new(Code::Unavailable, missing.to_string())
    }
}

impl From<NoRandomness> for Fault {
    fn from(missing: NoRandomness) -> Self {
        Self::Unavailable(missing.to_string())
    }
}

/// Files that outlive the objects: a bucket, or a folder. Names have letters, digits, `-` and `/`.
pub trait Files {
    /// Writes a file, completely or not at all. After a failure it may still appear later.
    fn put(&self, name: &str, bytes: Vec<u8>) -> Later<Result<(), String>>;

    /// The content of a file; `None` if there is none of that name.
    fn get(&self, name: &str) -> Later<Result<Option<Vec<u8>>, String>>;

    /// The names of the files and folders that lie directly in a folder, whose name ends with `/`.
    fn list(&self, folder: &str) -> Later<Result<Vec<String>, String>>;

    /// Deletes a file. A missing file is no failure.
    fn delete(&self, name: &str) -> Later<Result<(), String>>;
}

/// The level of an entry in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An operator should know of it.
    Warning,
    /// Something has failed.
    Error,
}

/// The functions that an isolate needs of its platform. Failures are sentences; the caller decides their meaning.
pub trait Platform {
    /// Now, in unix milliseconds. The platform may move its clock only when something arrives.
    fn now_ms(&self) -> i64;

    /// 64 random bits, of which names are made that must not repeat. A platform without randomness ends the isolate: a
    /// name that repeats takes a new write for one that was counted.
    fn random(&self) -> u64;

    /// Fills a secret with random bytes.
    ///
    /// # Errors
    /// The platform has no randomness now. The bytes are of no use then.
    fn fill_secret(&self, secret: &mut [u8]) -> Result<(), String>;

    /// Waits, milliseconds. The timer wakes the task that polled it last.
    fn sleep(&self, milliseconds: u64) -> Later<()>;

    /// Whether one request may wake another. Workers forbid it: they would resume a request in the context of another.
    fn wakes_requests(&self) -> bool {
        false
    }

    /// Whether an idle object is closed once another one needs its room. Elsewhere it stays open for a time.
    fn closes_at_need(&self) -> bool {
        false
    }

    /// The metrics of all isolates that this Worker has in this process; `None` where it has one.
    fn metrics(&self) -> Option<&ProcessMetrics> {
        None
    }

    /// A setting of the deployment; `None` where it is not set.
    fn setting(&self, name: &str) -> Option<String>;

    /// Why objects cannot be in the jurisdiction of this name; `None` where they can.
    fn jurisdiction_fault(&self, _name: &str) -> Option<String> {
        Some("this host has no jurisdictions, and keeps its data where it runs".to_owned())
    }

    /// Sends a message of a protocol to the receiver of its path, and returns the answer.
    fn send(
        &self,
        to: Target,
        protocol: u8,
        path: &'static str,
        message: Vec<u8>,
    ) -> Later<Result<Vec<u8>, String>>;

    /// Sends a message to an object that answers with a stream; `upgrade` is the protocol that the client wants.
    fn open(
        &self,
        to: Placement,
        protocol: u8,
        path: &'static str,
        message: Vec<u8>,
        upgrade: Option<String>,
    ) -> Later<Result<Stream, String>>;

    /// Whether the deployment has a queue.
    fn has_queue(&self) -> bool;

    /// Puts messages into the deployment's queue, all or none. After a failure it is unknown whether they are there.
    fn enqueue(&self, messages: Rc<[Vec<u8>]>) -> Later<Result<(), String>>;

    /// Whether the deployment has a data set for [`Platform::write_points`].
    fn has_points(&self) -> bool {
        false
    }

    /// Writes points to the deployment's data set. There is no confirmation.
    fn write_points(&self, _points: &[Point]) {}

    /// POSTs to an address outside of the deployment, and returns the status of the answer. Redirects are not followed:
    /// their status is returned.
    fn post(&self, request: Outgoing) -> Later<Result<u16, String>>;

    /// A file by its name; `None` where there is no such file.
    ///
    /// # Errors
    /// If this build has no files at all.
    fn file(&self, name: &str) -> Result<Option<File>, String>;

    /// The deployment's storage for files, if it has one.
    fn files(&self) -> Option<Rc<dyn Files>>;

    /// Writes an entry to the log.
    fn log(&self, level: Level, text: &str);
}

/// State of which an isolate has one in memory. Each part of the service owns its own type.
pub trait State: 'static {
    /// The initial state. It is made at its first use, inside a request, because outside of requests there is no clock
    /// and no randomness.
    fn begin(host: &Host) -> Self;
}

/// A hasher for the ids of types. The ids are hashes already, and need no further mixing.
#[derive(Default)]
struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, part: u64) {
        self.0 = self.0.rotate_left(8) ^ part;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The memory of an isolate: one state of each type.
#[derive(Default)]
pub struct Memory(RefCell<HashMap<TypeId, Rc<dyn Any>, BuildHasherDefault<NameHasher>>>);

/// The platform, and the memory of this isolate. It is passed as an argument; a copy costs two reference counts.
#[derive(Clone)]
pub struct Host {
    platform: Rc<dyn Platform>,
    memory: Rc<Memory>,
}

impl Host {
    /// A platform, with the memory of an isolate.
    pub fn new(platform: Rc<dyn Platform>, memory: Rc<Memory>) -> Self {
        Self { platform, memory }
    }

    /// The platform.
    pub fn platform(&self) -> &dyn Platform {
        &*self.platform
    }

    /// Now, in unix milliseconds, see [`Platform::now_ms`].
    pub fn now_ms(&self) -> i64 {
        self.platform.now_ms()
    }

    /// 64 random bits, see [`Platform::random`]. Secrets are made by [`Host::secret`].
    pub fn random(&self) -> u64 {
        self.platform.random()
    }

    /// Random bytes of a secret, or of a name that nobody may guess.
    ///
    /// # Errors
    /// [`NoRandomness`]: there is no other source, and nothing is made.
    pub fn secret<const BYTES: usize>(&self) -> Result<[u8; BYTES], NoRandomness> {
        let mut secret = [0; BYTES];
        let filled = self.platform.fill_secret(&mut secret);
        filled.map(|()| secret).map_err(NoRandomness)
    }

    /// A name for a write that nobody else has.
    pub fn random_key(&self) -> WriteKey {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.random().to_le_bytes());
        key[8..].copy_from_slice(&self.random().to_le_bytes());
        WriteKey(key)
    }

    /// Waits, by a timer of this request alone.
    pub fn sleep_ms(&self, milliseconds: u64) -> Later<()> {
        self.platform.sleep(milliseconds)
    }

    /// The result of the future, or `None` after this time. The future is then dropped.
    pub async fn within_ms<T>(
        &self,
        milliseconds: u64,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        match select(pin!(future), self.sleep_ms(milliseconds)).await {
            Either::Left((value, _)) => Some(value),
            Either::Right(_) => None,
        }
    }

    /// A setting, without white space around it; `None` if it is not set, or empty. This may be a call into JavaScript,
    /// so settings that every request needs are read once.
    pub fn setting(&self, name: &str) -> Option<String> {
        trimmed(&self.platform.setting(name)?)
    }

    /// A setting that is a number; `None` if it is not set, or its value is not allowed.
    pub fn number<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        let number = settings::number(name, &self.setting(name)?)?;
        number.try_into().ok()
    }

    /// Succeeds if the values of all settings of this Worker are allowed.
    ///
    /// # Errors
    /// `not-configured`, see [`settings::check_all`].
    pub fn check_settings(&self) -> Result<(), Problem> {
        settings::check_all(|name| self.setting(name))?;
        self.check_jurisdiction()
    }

    /// Succeeds where no jurisdiction is set, or all objects are in the one that is.
    ///
    /// # Errors
    /// `not-configured`: data must not be stored elsewhere.
    pub fn check_jurisdiction(&self) -> Result<(), Problem> {
        let Some(name) = self.setting(JURISDICTION) else {
            return Ok(());
        };
        settings::check(JURISDICTION, &name)?;
        let why = self.platform.jurisdiction_fault(&name);
        why.map_or(Ok(()), |why| {
            let detail = format!("{JURISDICTION} cannot be `{name}`: {why}; leave it out");
            Err(Problem::new(Code::NotConfigured, detail))
        })
    }

    /// Writes a warning to the log.
    pub fn warn(&self, text: &str) {
        self.platform.log(Level::Warning, text);
    }

    /// Writes an error to the log.
    pub fn fail(&self, text: &str) {
        self.platform.log(Level::Error, text);
    }

    /// This isolate's state of a type. It is made at its first use.
    pub fn state<T: State>(&self) -> Rc<T> {
        let begun = || -> Rc<dyn Any> { Rc::new(T::begin(self)) };
        let state = self.state_of(TypeId::of::<T>(), &begun);
        state.downcast().unwrap_or_else(|_| Rc::new(T::begin(self)))
    }

    /// Not generic, so that its code exists once.
    fn state_of(&self, id: TypeId, begin: &dyn Fn() -> Rc<dyn Any>) -> Rc<dyn Any> {
        if let Some(known) = self.memory.0.borrow().get(&id) {
            return known.clone();
        }
        let made = begin();
        self.memory.0.borrow_mut().insert(id, made.clone());
        made
    }
}
