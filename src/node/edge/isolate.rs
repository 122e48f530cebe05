//! What all requests of one isolate share. Every map here is bounded by a named number.
//!
//! Invariant: no borrow of it lives across an await.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::visitors;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::settings::UniqueHash;
use crate::core::counter::split::shard_of_lot;
use crate::host::{Host, State};
use crate::protocol::access::Access;
use crate::protocol::batch::shares::{Full, Shares};
use crate::protocol::batch::wave::{Stage, Waves};
use crate::protocol::bounds::{BULK_MEMORY_BYTES_MAX, HOME_MS_MAX, HOMES_MAX};
use crate::protocol::names::{
    ACCESS, ACCESS_OPEN, CLIENT_ADDRESS_HEADER, DATACENTERS, DATACENTERS_ONE, DATACENTERS_REGION,
    KEYS, UNIQUES_ROUNDING,
};
use crate::protocol::problem::{Code, Problem};
use crate::protocol::public::Rounding;
use crate::protocol::visitor::Address;

/// Counters whose number of shards is remembered; about 100 bytes each. Forgetting costs one hop.
const SHARD_COUNTS_MAX: usize = 10_000;

/// The settings that requests ask for, read once: a variable is a call into JavaScript.
struct Settings {
    access: Result<Rc<Access>, Problem>,
    datacenters: Datacenters,
    address_header: Option<Rc<str>>,
    rounding: Result<Rounding, Problem>,
}

impl State for Settings {
    fn begin(host: &Host) -> Self {
        let open = host.setting(ACCESS).as_deref() == Some(ACCESS_OPEN);
        Self {
            access: Access::from_config(host.setting(KEYS).as_deref(), open).map(Rc::new),
            datacenters: match host.setting(DATACENTERS).as_deref() {
                Some(DATACENTERS_REGION) => Datacenters::Regions,
                Some(DATACENTERS_ONE) => Datacenters::One,
                _ => Datacenters::Colos,
            },
            address_header: host.setting(CLIENT_ADDRESS_HEADER).map(Rc::from),
            rounding: Rounding::parse(host.setting(UNIQUES_ROUNDING).as_deref()),
        }
    }
}

/// What is known of where a counter's writes go, and how.
#[derive(Clone, Default)]
struct Home {
    home: Option<Datacenter>,
    /// Whether its decrements are decided one by one.
    is_bounded: bool,
    unique_hash: UniqueHash,
    learned_ms: i64,
}

/// Where writes go, as far as known.
struct Places {
    shards: RefCell<HashMap<(CounterId, Datacenter), u8>>,
    homes: RefCell<HashMap<CounterId, Home>>,
    /// Decides which shard this isolate stays with.
    lot: u64,
}

impl State for Places {
    fn begin(host: &Host) -> Self {
        Self {
            shards: RefCell::default(),
            homes: RefCell::default(),
            lot: host.random(),
        }
    }
}

/// The bulk bodies that are under way.
struct Bulk {
    shares: RefCell<Shares>,
    waves: RefCell<Waves>,
}

impl State for Bulk {
    fn begin(_host: &Host) -> Self {
        Self {
            shares: RefCell::new(Shares::new(BULK_MEMORY_BYTES_MAX)),
            waves: RefCell::default(),
        }
    }
}

/// Who may do what.
///
/// # Errors
/// `not-configured` for keys that cannot be read.
pub fn access(host: &Host) -> Result<Rc<Access>, Problem> {
    host.state::<Settings>().access.clone()
}

/// What a deployment's datacenters are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Datacenters {
    /// One for each colo.
    Colos,
    /// One for each region of colos.
    Regions,
    /// One.
    One,
}

/// What the deployment's datacenters are.
pub fn datacenters(host: &Host) -> Datacenters {
    host.state::<Settings>().datacenters
}

/// The header that a proxy of the deployment's own writes the client's address into, if one is named.
pub fn address_header(host: &Host) -> Option<Rc<str>> {
    host.state::<Settings>().address_header.clone()
}

/// How uniques are rounded for readers without a key.
///
/// # Errors
/// `not-configured` for a setting that cannot be read: then nobody without a key may see more than was meant.
pub fn rounding(host: &Host) -> Result<Rounding, Problem> {
    host.state::<Settings>().rounding.clone()
}

/// Shards that a counter's writes spread over in a datacenter, as far as known here.
pub fn shards_of(host: &Host, counter: &CounterId, datacenter: &Datacenter) -> u8 {
    let places = host.state::<Places>();
    let shards = places.shards.borrow();
    let known = shards.get(&(counter.clone(), datacenter.clone()));
    known.copied().unwrap_or(1)
}

/// Learns a number of shards from a cell's reply.
pub fn learn_shards(host: &Host, counter: &CounterId, datacenter: &Datacenter, shards: u8) {
    let places = host.state::<Places>();
    let mut known = places.shards.borrow_mut();
    let key = (counter.clone(), datacenter.clone());
    if shards <= 1 {
        known.remove(&key);
        return;
    }
    if known.len() >= SHARD_COUNTS_MAX && !known.contains_key(&key) {
        known.clear();
    }
    known.insert(key, shards);
}

fn home_known(host: &Host, counter: &CounterId) -> Option<Home> {
    let places = host.state::<Places>();
    let homes = places.homes.borrow();
    // Most isolates know of no home, and look nothing up.
    if homes.is_empty() {
        return None;
    }
    let known = homes.get(counter)?;
    (host.now_ms() - known.learned_ms <= HOME_MS_MAX).then(|| known.clone())
}

/// Where all of a counter's writes go, as far as known here.
pub fn home_of(host: &Host, counter: &CounterId) -> Option<Datacenter> {
    home_known(host, counter)?.home
}

/// Whether a counter's decrements are known to be decided one by one.
pub fn is_bounded(host: &Host, counter: &CounterId) -> bool {
    home_known(host, counter).is_some_and(|known| known.is_bounded)
}

/// The hash that a counter's unique elements go through, as far as known here.
pub fn unique_hash_of(host: &Host, counter: &CounterId) -> UniqueHash {
    home_known(host, counter).map_or(UniqueHash::default(), |known| known.unique_hash)
}

/// Learns where all writes go, from whoever refused one.
pub fn learn_home(host: &Host, counter: &CounterId, home: &Datacenter) {
    let home = Some(home.clone());
    learn(host, counter, |known| known.home = home);
}

/// Learns that a counter's decrements are decided one by one.
pub fn learn_bounded(host: &Host, counter: &CounterId) {
    learn(host, counter, |known| known.is_bounded = true);
}

/// Learns which hash a counter's unique elements go through.
pub fn learn_unique_hash(host: &Host, counter: &CounterId, unique_hash: UniqueHash) {
    learn(host, counter, |known| known.unique_hash = unique_hash);
}

/// Forgets what was known of a counter.
pub fn forget_home(host: &Host, counter: &CounterId) {
    host.state::<Places>().homes.borrow_mut().remove(counter);
}

fn learn(host: &Host, counter: &CounterId, learn: impl FnOnce(&mut Home)) {
    let learned_ms = host.now_ms();
    let mut home = home_known(host, counter).unwrap_or_default();
    home.learned_ms = learned_ms;
    learn(&mut home);
    let places = host.state::<Places>();
    let mut homes = places.homes.borrow_mut();
    if homes.len() >= HOMES_MAX && !homes.contains_key(counter) {
        homes.clear();
    }
    homes.insert(counter.clone(), home);
}

/// The shard that this isolate stays with, of so many: large flushes to one cell rather than
/// small ones to all.
pub fn own_shard(host: &Host, shards: u8) -> u8 {
    shard_of_lot(host.state::<Places>().lot, shards)
}

/// What a bulk body holds of the isolate's memory; it is given back when dropped.
pub struct BulkMemory {
    bulk: Rc<Bulk>,
    sender: u64,
    bytes: u64,
}

impl BulkMemory {
    /// Nothing yet, of a sender at this address. All whose address is not known are one.
    pub fn of(host: &Host, address: Option<Address>) -> Self {
        let bytes = address.as_ref().map(Address::as_bytes);
        Self {
            bulk: host.state(),
            sender: visitors::hashed(host, bytes.unwrap_or_default()),
            bytes: 0,
        }
    }

    /// Sets what this body holds now.
    ///
    /// # Errors
    /// `body-too-large` where no body may hold so much; `overloaded` where there is not enough left.
    pub fn hold(&mut self, bytes: u64) -> Result<(), Problem> {
        let mut shares = self.bulk.shares.borrow_mut();
        let held = shares.hold(self.sender, self.bytes, bytes);
        held.map_err(|full| match full {
            Full::Alone => Problem::new(
                Code::BodyTooLarge,
                "what the body sums to takes too much memory: it names too many different counters, times or visitors; \
                 nothing was counted, send it in parts",
            ),
            Full::Now => Problem::new(
                Code::Overloaded,
                "too many bulk bodies are being read here at once; nothing was counted, send it again",
            ),
        })?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for BulkMemory {
    fn drop(&mut self) {
        // To hold less is never refused.
        let mut shares = self.bulk.shares.borrow_mut();
        let _ = shares.hold(self.sender, self.bytes, 0);
    }
}

/// Marks a bulk body as being in a stage, until it is dropped.
pub struct BulkStage(Rc<Bulk>, Stage);

impl BulkStage {
    /// From now on.
    pub fn enter(host: &Host, stage: Stage) -> Self {
        let bulk = host.state::<Bulk>();
        bulk.waves.borrow_mut().enter(stage);
        Self(bulk, stage)
    }
}

impl Drop for BulkStage {
    fn drop(&mut self) {
        self.0.waves.borrow_mut().leave(self.1);
    }
}

/// Works with the waves of bulk bodies.
pub fn with_waves<T>(host: &Host, work: impl FnOnce(&mut Waves) -> T) -> T {
    work(&mut host.state::<Bulk>().waves.borrow_mut())
}
