//! State that all requests of one isolate share. Every map here is bounded by a named number.
//!
//! Invariant: no borrow of it lives across an await.

use std::cell::RefCell;
use std::rc::Rc;

use super::visitors;
use tally_api::access::Access;
use tally_api::public::Rounding;
use tally_core::counter::autoscale::shard_of_lot;
use tally_core::counter::bounded_map::BoundedMap;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::settings::UniqueHash;
use tally_core::isolate::body_memory::{BodyRefusal, Shares};
use tally_core::isolate::wave::{Stage, Waves};
use tally_host::{Host, State};
use tally_wire::names::{
    ACCESS, ACCESS_OPEN, CLIENT_ADDRESS_HEADER, DATACENTERS, DATACENTERS_ONE, DATACENTERS_REGION,
    JURISDICTION, KEYS, UNIQUES_ROUNDING,
};
use tally_wire::problem::{Code, Problem};
use tally_wire::shell_limits::{BULK_MEMORY_BYTES_MAX, HOME_MS_MAX, HOMES_MAX};
use tally_wire::visitor::ClientAddress;

/// The most datacenters of one counter whose number of shards is cached: an isolate serves few. Forgetting one costs
/// one hop.
const SHARDED_DATACENTERS_MAX: usize = 16;

/// The settings that requests use, read once, because reading a variable is a call into JavaScript. A request looks
/// them up once.
pub struct EdgeSettings {
    access: Result<Rc<Access>, Problem>,
    jurisdiction: Option<String>,
    datacenters: Datacenters,
    address_header: Option<Rc<str>>,
    rounding: Result<Rounding, Problem>,
}

impl State for EdgeSettings {
    fn begin(host: &Host) -> Self {
        let open = host.setting(ACCESS).as_deref() == Some(ACCESS_OPEN);
        // Nothing may be stored outside of the jurisdiction.
        let within = host.check_jurisdiction();
        Self {
            access: within
                .clone()
                .and_then(|()| Access::from_config(host.setting(KEYS).as_deref(), open))
                .map(Rc::new),
            jurisdiction: host.setting(JURISDICTION).filter(|_| within.is_ok()),
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

impl EdgeSettings {
    /// The settings of this isolate.
    pub fn of(host: &Host) -> Rc<Self> {
        host.state()
    }

    /// The access rules.
    ///
    /// # Errors
    /// `not-configured` for keys that cannot be read, and for a jurisdiction that this host has not.
    pub fn access(&self) -> Result<Rc<Access>, Problem> {
        self.access.clone()
    }

    /// The jurisdiction in which all data is stored, if one is set.
    pub fn jurisdiction(&self) -> Option<&str> {
        self.jurisdiction.as_deref()
    }

    /// How the deployment's datacenters are defined.
    pub fn datacenters(&self) -> Datacenters {
        self.datacenters
    }

    /// The header into which a proxy of the deployment writes the client's address, if one is set.
    pub fn address_header(&self) -> Option<&str> {
        self.address_header.as_deref()
    }

    /// How uniques are rounded for readers without a key.
    ///
    /// # Errors
    /// `not-configured` for an unreadable setting: otherwise readers without a key might see more than intended.
    pub fn rounding(&self) -> Result<Rounding, Problem> {
        self.rounding.clone()
    }
}

/// The cached state of a counter.
#[derive(Clone, Default)]
pub struct CachedCounter {
    /// Its home, if any.
    pub home: Option<Datacenter>,
    /// Whether it has a floor, so that its decrements are decided one by one.
    pub has_floor: bool,
    /// The hash function of its unique elements.
    pub unique_hash: UniqueHash,
    /// When one of these was last cached; all are dropped a minute later.
    cached_ms: Option<i64>,
    /// The number of shards of its writes, if there are several, by datacenter.
    shards: Vec<(Datacenter, u8)>,
    /// The lot by which this isolate chooses its shard.
    lot: u64,
}

impl CachedCounter {
    /// The number of shards of its writes in a datacenter, as far as known.
    pub fn shards_in(&self, datacenter: &Datacenter) -> u8 {
        let mut known = self.shards.iter();
        let found = known.find(|(other, _)| other == datacenter);
        found.map_or(1, |(_, shards)| *shards)
    }

    /// The shard, of `shards`, that this isolate uses first: it sends large flushes to one cell rather than small ones
    /// to all.
    pub fn own_shard(&self, shards: u8) -> u8 {
        shard_of_lot(self.lot, shards)
    }

    fn is_old(&self, now_ms: i64) -> bool {
        let cached_ms = self.cached_ms;
        cached_ms.is_some_and(|cached_ms| now_ms - cached_ms > HOME_MS_MAX)
    }

    fn forget_home(&mut self) {
        *self = Self {
            shards: std::mem::take(&mut self.shards),
            lot: self.lot,
            ..Self::default()
        };
    }
}

/// The cached states of counters.
struct CounterCache {
    known: RefCell<BoundedMap<CounterId, Rc<CachedCounter>, HOMES_MAX>>,
    /// The state of all other counters.
    nothing: Rc<CachedCounter>,
}

impl State for CounterCache {
    fn begin(host: &Host) -> Self {
        Self {
            known: RefCell::default(),
            nothing: Rc::new(CachedCounter {
                lot: host.random(),
                ..CachedCounter::default()
            }),
        }
    }
}

/// The bulk bodies that are being read or counted.
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

/// How a deployment's datacenters are defined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Datacenters {
    /// One for each colo.
    Colos,
    /// One for each region of colos.
    Regions,
    /// One.
    One,
}

/// The cached state of a counter. A request looks it up once, and again after a change.
pub fn known_of(host: &Host, counter: &CounterId) -> Rc<CachedCounter> {
    let cache = host.state::<CounterCache>();
    let mut known = cache.known.borrow_mut();
    let Some(known) = known.get_mut(counter) else {
        return cache.nothing.clone();
    };
    if known.is_old(host.now_ms()) {
        Rc::make_mut(known).forget_home();
    }
    known.clone()
}

/// Caches the number of shards, which is in a cell's reply.
pub fn cache_shards(host: &Host, counter: &CounterId, datacenter: &Datacenter, shards: u8) {
    if known_of(host, counter).shards_in(datacenter) == shards.max(1) {
        return;
    }
    change(host, counter, |known| {
        known.shards.retain(|(other, _)| other != datacenter);
        if known.shards.len() >= SHARDED_DATACENTERS_MAX {
            known.shards.clear();
        }
        known.shards.push((datacenter.clone(), shards.max(1)));
    });
}

/// Caches the home of a counter, which is in a refusal.
pub fn cache_home(host: &Host, counter: &CounterId, home: &Datacenter) {
    refresh(host, counter, |known| known.home = Some(home.clone()));
}

/// Caches that a counter has a floor, so that its decrements are decided one by one.
pub fn cache_has_floor(host: &Host, counter: &CounterId) {
    refresh(host, counter, |known| known.has_floor = true);
}

/// Caches the hash function of a counter's unique elements.
pub fn cache_unique_hash(host: &Host, counter: &CounterId, unique_hash: UniqueHash) {
    refresh(host, counter, |known| known.unique_hash = unique_hash);
}

/// Drops the home of a counter, and its other cached state.
pub fn forget_home(host: &Host, counter: &CounterId) {
    let cache = host.state::<CounterCache>();
    if let Some(known) = cache.known.borrow_mut().get_mut(counter) {
        Rc::make_mut(known).forget_home();
    }
}

fn refresh(host: &Host, counter: &CounterId, update: impl FnOnce(&mut CachedCounter)) {
    change(host, counter, |known| {
        let now_ms = host.now_ms();
        if known.is_old(now_ms) {
            known.forget_home();
        }
        known.cached_ms = Some(now_ms);
        update(known);
    });
}

fn change(host: &Host, counter: &CounterId, change: impl FnOnce(&mut CachedCounter)) {
    let cache = host.state::<CounterCache>();
    let mut known = cache.known.borrow_mut();
    let nothing = || cache.nothing.clone();
    change(Rc::make_mut(known.entry(counter, nothing)));
}

/// The shard or the inbox, of `shards`, that this isolate uses.
pub fn own_shard(host: &Host, shards: u8) -> u8 {
    host.state::<CounterCache>().nothing.own_shard(shards)
}

/// A bulk body's part of the isolate's memory; it is returned when dropped.
pub struct BulkMemory {
    bulk: Rc<Bulk>,
    sender: u64,
    bytes: u64,
}

impl BulkMemory {
    /// No memory yet, for a sender at this address. All senders without a known address are one.
    pub fn of(host: &Host, address: Option<ClientAddress>) -> Self {
        let bytes = address.as_ref().map(ClientAddress::as_bytes);
        Self {
            bulk: host.state(),
            sender: visitors::hashed(host, bytes.unwrap_or_default()),
            bytes: 0,
        }
    }

    /// Sets how much this body uses now.
    ///
    /// # Errors
    /// `body-too-large` if no body may use that much; `overloaded` if too little is free.
    pub fn hold(&mut self, bytes: u64) -> Result<(), Problem> {
        let mut shares = self.bulk.shares.borrow_mut();
        let held = shares.hold(self.sender, self.bytes, bytes);
        held.map_err(|full| match full {
            BodyRefusal::Alone => Problem::new(
                Code::BodyTooLarge,
                "what the body sums to takes too much memory: it names too many different counters, times or visitors; \
                 nothing was counted, send it in parts",
            ),
            BodyRefusal::Now => Problem::new(
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
        // Shrinking is never refused.
        let mut shares = self.bulk.shares.borrow_mut();
        let _ = shares.hold(self.sender, self.bytes, 0);
    }
}

/// Marks a bulk body as being in a stage, until it is dropped.
pub struct BulkStage(Rc<Bulk>, Stage);

impl BulkStage {
    /// Enters a stage.
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
