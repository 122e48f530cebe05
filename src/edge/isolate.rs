//! What all requests of one isolate share. Every map here is bounded by a named number.
//!
//! Invariant: no borrow of it lives across an await.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use worker::Env;

use super::flight::Cells;
use super::lanes::Lanes;
use super::limiters::Limits;
use super::views::ReadCache;
use crate::counter::id::{CounterId, Datacenter};
use crate::counter::settings::UniqueHash;
use crate::counter::split::shard_of_lot;
use crate::limit::visitors::Visitors;
use crate::platform::clock::{now_ms, random, random_key};
use crate::platform::setting::setting;
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
use crate::sketch::{HashKey, hash};

/// Counters whose number of shards is remembered; about 100 bytes each. Forgetting costs one hop.
const SHARD_COUNTS_MAX: usize = 10_000;

/// What is known of where a counter's writes go, and how.
#[derive(Clone, Default)]
struct Home {
    home: Option<Datacenter>,
    /// Whether its decrements are decided one by one.
    is_bounded: bool,
    unique_hash: UniqueHash,
    learned_ms: i64,
}

struct Isolate {
    access: Option<Rc<Access>>,
    datacenters: Option<Datacenters>,
    address_header: Option<Option<Rc<str>>>,
    rounding: Option<Rounding>,
    shards: HashMap<(CounterId, Datacenter), u8>,
    homes: HashMap<CounterId, Home>,
    lanes: Lanes<Cells>,
    reads: ReadCache,
    limits: Limits,
    visitors: Visitors,
    /// Visitors are hashed with it.
    visitors_key: HashKey,
    bulk: Shares,
    waves: Waves,
    /// Decides which shard this isolate stays with.
    lot: u64,
}

thread_local! {
    static ISOLATE: RefCell<Option<Isolate>> = const { RefCell::new(None) };
}

fn with<T>(work: impl FnOnce(&mut Isolate) -> T) -> T {
    ISOLATE.with(|isolate| {
        let mut isolate = isolate.borrow_mut();
        // Randomness is there only inside a request, so the first one makes it.
        work(isolate.get_or_insert_with(|| Isolate {
            access: None,
            datacenters: None,
            address_header: None,
            rounding: None,
            shards: HashMap::new(),
            homes: HashMap::new(),
            lanes: Lanes::default(),
            reads: ReadCache::default(),
            limits: Limits::default(),
            visitors: Visitors::default(),
            visitors_key: HashKey::from(random_key().0),
            bulk: Shares::new(BULK_MEMORY_BYTES_MAX),
            waves: Waves::default(),
            lot: random(),
        }))
    })
}

/// Works with the lanes.
pub fn with_lanes<T>(work: impl FnOnce(&mut Lanes<Cells>) -> T) -> T {
    with(|isolate| work(&mut isolate.lanes))
}

/// Works with what is remembered of limits.
pub fn with_limits<T>(work: impl FnOnce(&mut Limits) -> T) -> T {
    with(|isolate| work(&mut isolate.limits))
}

/// Works with the visitors without a key, and with what hashes them.
pub fn with_visitors<T>(work: impl FnOnce(&mut Visitors, &dyn Fn(&[u8]) -> u64) -> T) -> T {
    with(|isolate| {
        let key = &isolate.visitors_key;
        work(&mut isolate.visitors, &|bytes| hash(key, bytes))
    })
}

/// Works with the cached reads.
pub fn with_reads<T>(work: impl FnOnce(&mut ReadCache) -> T) -> T {
    with(|isolate| work(&mut isolate.reads))
}

/// Who may do what, parsed once.
///
/// # Errors
/// `not-configured` for keys that cannot be read.
pub fn access(env: &Env) -> Result<Rc<Access>, Problem> {
    if let Some(known) = with(|isolate| isolate.access.clone()) {
        return Ok(known);
    }
    let keys = setting(env, KEYS);
    let open = setting(env, ACCESS).as_deref() == Some(ACCESS_OPEN);
    let access = Rc::new(Access::from_config(keys.as_deref(), open)?);
    with(|isolate| isolate.access = Some(access.clone()));
    Ok(access)
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

/// What the deployment's datacenters are. Read once: a variable is a call into JavaScript.
pub fn datacenters(env: &Env) -> Datacenters {
    if let Some(known) = with(|isolate| isolate.datacenters) {
        return known;
    }
    let datacenters = match setting(env, DATACENTERS).as_deref() {
        Some(DATACENTERS_REGION) => Datacenters::Regions,
        Some(DATACENTERS_ONE) => Datacenters::One,
        _ => Datacenters::Colos,
    };
    with(|isolate| isolate.datacenters = Some(datacenters));
    datacenters
}

/// The header that a proxy of the deployment's own writes the client's address into, if one is named. Read once.
pub fn address_header(env: &Env) -> Option<Rc<str>> {
    if let Some(known) = with(|isolate| isolate.address_header.clone()) {
        return known;
    }
    let header: Option<Rc<str>> = setting(env, CLIENT_ADDRESS_HEADER).map(Rc::from);
    with(|isolate| isolate.address_header = Some(header.clone()));
    header
}

/// How uniques are rounded for readers without a key. Read once.
///
/// # Errors
/// `not-configured` for a setting that cannot be read: then nobody without a key may see more than was meant.
pub fn rounding(env: &Env) -> Result<Rounding, Problem> {
    if let Some(known) = with(|isolate| isolate.rounding) {
        return Ok(known);
    }
    let rounding = Rounding::parse(setting(env, UNIQUES_ROUNDING).as_deref())?;
    with(|isolate| isolate.rounding = Some(rounding));
    Ok(rounding)
}

/// Shards that a counter's writes spread over in a datacenter, as far as known here.
pub fn shards_of(counter: &CounterId, datacenter: &Datacenter) -> u8 {
    with(|isolate| {
        isolate
            .shards
            .get(&(counter.clone(), datacenter.clone()))
            .copied()
            .unwrap_or(1)
    })
}

/// Learns a number of shards from a cell's reply.
pub fn learn_shards(counter: &CounterId, datacenter: &Datacenter, shards: u8) {
    with(|isolate| {
        let key = (counter.clone(), datacenter.clone());
        if shards <= 1 {
            isolate.shards.remove(&key);
            return;
        }
        if isolate.shards.len() >= SHARD_COUNTS_MAX && !isolate.shards.contains_key(&key) {
            isolate.shards.clear();
        }
        isolate.shards.insert(key, shards);
    });
}

fn home_known(counter: &CounterId) -> Option<Home> {
    with(|isolate| {
        // Most isolates know of no home, and look nothing up.
        if isolate.homes.is_empty() {
            return None;
        }
        let known = isolate.homes.get(counter)?;
        (now_ms() - known.learned_ms <= HOME_MS_MAX).then(|| known.clone())
    })
}

/// Where all of a counter's writes go, as far as known here.
pub fn home_of(counter: &CounterId) -> Option<Datacenter> {
    home_known(counter)?.home
}

/// Whether a counter's decrements are known to be decided one by one.
pub fn is_bounded(counter: &CounterId) -> bool {
    home_known(counter).is_some_and(|known| known.is_bounded)
}

/// The hash that a counter's unique elements go through, as far as known here.
pub fn unique_hash_of(counter: &CounterId) -> UniqueHash {
    home_known(counter).map_or(UniqueHash::default(), |known| known.unique_hash)
}

/// Learns where all writes go, from whoever refused one.
pub fn learn_home(counter: &CounterId, home: &Datacenter) {
    let home = Some(home.clone());
    learn(counter, |known| known.home = home);
}

/// Learns that a counter's decrements are decided one by one.
pub fn learn_bounded(counter: &CounterId) {
    learn(counter, |known| known.is_bounded = true);
}

/// Learns which hash a counter's unique elements go through.
pub fn learn_unique_hash(counter: &CounterId, unique_hash: UniqueHash) {
    learn(counter, |known| known.unique_hash = unique_hash);
}

/// Forgets what was known of a counter.
pub fn forget_home(counter: &CounterId) {
    with(|isolate| isolate.homes.remove(counter));
}

fn learn(counter: &CounterId, learn: impl FnOnce(&mut Home)) {
    let learned_ms = now_ms();
    let mut home = home_known(counter).unwrap_or_default();
    home.learned_ms = learned_ms;
    learn(&mut home);
    with(|isolate| {
        if isolate.homes.len() >= HOMES_MAX && !isolate.homes.contains_key(counter) {
            isolate.homes.clear();
        }
        isolate.homes.insert(counter.clone(), home);
    });
}

/// The shard that this isolate stays with, of so many: large flushes to one cell rather than
/// small ones to all.
pub fn own_shard(shards: u8) -> u8 {
    with(|isolate| shard_of_lot(isolate.lot, shards))
}

/// What a bulk body holds of the isolate's memory; it is given back when dropped.
pub struct BulkMemory {
    sender: u64,
    bytes: u64,
}

impl BulkMemory {
    /// Nothing yet, of a sender at this address. All whose address is not known are one.
    pub fn of(address: Option<Address>) -> Self {
        let bytes = address.as_ref().map(Address::as_bytes);
        let sender = with_visitors(|_, hashed| hashed(bytes.unwrap_or_default()));
        Self { sender, bytes: 0 }
    }

    /// Sets what this body holds now.
    ///
    /// # Errors
    /// `body-too-large` where no body may hold so much; `overloaded` where there is not enough left.
    pub fn hold(&mut self, bytes: u64) -> Result<(), Problem> {
        let held = with(|isolate| isolate.bulk.hold(self.sender, self.bytes, bytes));
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
        let _ = with(|isolate| isolate.bulk.hold(self.sender, self.bytes, 0));
    }
}

/// Marks a bulk body as being in a stage, until it is dropped.
pub struct BulkStage(Stage);

impl BulkStage {
    /// From now on.
    pub fn enter(stage: Stage) -> Self {
        with(|isolate| isolate.waves.enter(stage));
        Self(stage)
    }
}

impl Drop for BulkStage {
    fn drop(&mut self) {
        with(|isolate| isolate.waves.leave(self.0));
    }
}

/// Works with the waves of bulk bodies.
pub fn with_waves<T>(work: impl FnOnce(&mut Waves) -> T) -> T {
    with(|isolate| work(&mut isolate.waves))
}
