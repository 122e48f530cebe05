//! HyperLogLogs of a keyspace. They are the unique elements of counters with Redis's hash, the same ones as in the
//! other calls.
//!
//! Invariant: registers only grow and an attempt of unknown outcome may be repeated, so only a reply tells whether they
//! grew now. A key is locked exclusively from the read until its elements are durable.

use super::core::{COUNTERS_AT_ONCE, KeyspaceCore};
use super::counters::{Counters, needs_home};
use tally_core::counter::flush::{Element, Load, Refusal};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::nonces::Nonce;
use tally_core::counter::settings::UniqueHash;
use tally_core::order::set_of;
use tally_core::sketch::{HashId, Hll, Uniques, redis_hash, redis_token_of};
use tally_redis::error;
use tally_redis::keyspace::steps::CommandRequest;
use tally_redis::reply_error::ReplyError;
use tally_shared::call_within;
use tally_wire::messages::{Fault, Flush, Operation, OperationOutcome, Put};
use tally_wire::names::CellAddress;
use tally_wire::redis::Reply;
use tally_wire::shell_limits::OPERATE_MS_MAX;

/// The most elements of one message to a cell: 200 KB.
const ELEMENTS_SENT_MAX: usize = 10_000;

/// The most attempts of a message: a home or a datacenter may have to be looked up first, and an attempt may be lost.
const ROUNDS_MAX: usize = 4;

/// The value of a key.
enum Sketch {
    Absent,
    /// The registers, and the only datacenter that counts, if there is one.
    Registers(Box<Hll>, Option<Datacenter>),
}

impl KeyspaceCore {
    /// `PFADD`, several times.
    pub(super) async fn add_elements_all(
        &self,
        requests: &[CommandRequest<'_>],
        here: &Datacenter,
        holds: bool,
    ) -> Vec<Reply> {
        let add = async |key: String, group: Vec<&CommandRequest<'_>>| {
            self.add_elements(&key, &group, here, holds).await
        };
        self.by_key(requests, COUNTERS_AT_ONCE, add).await
    }

    /// `PFADD` on one key, several times.
    pub(super) async fn add_elements(
        &self,
        key: &str,
        group: &[&CommandRequest<'_>],
        here: &Datacenter,
        holds: bool,
    ) -> Result<Vec<Reply>, ReplyError> {
        let only = holds.then(|| key.to_owned()).into_iter().collect();
        let _alone = self.locks.hold(&self.host, only, true).await?;
        let mut known = self.sketch(key, here).await?;
        let id = id_of(key)?;
        let mut is_new = matches!(known, Sketch::Absent);
        if is_new {
            known = self.begin_sketch(&id, here).await?;
        }
        let Sketch::Registers(mut hll, home) = known else {
            return Err(error::not_hll().into());
        };
        let second = self.host.now_ms().div_euclid(1_000);
        let (mut replies, mut sent) = (Vec::with_capacity(group.len()), Vec::new());
        for request in group {
            let mut grew = std::mem::take(&mut is_new);
            for element in &request.args[2..] {
                let hash = redis_hash(element.as_bytes());
                grew |= hll.insert(redis_token_of(hash));
                sent.push((second, Element::by(HashId::REDIS, hash)));
            }
            replies.push(Reply::flag(grew));
        }
        for tokens in sent.chunks(ELEMENTS_SENT_MAX) {
            let load = Load {
                tokens: tokens.to_vec(),
                ..Load::default()
            };
            self.flush_elements(&id, home.as_ref().unwrap_or(here), load)
                .await?;
        }
        for (request, reply) in group.iter().zip(&replies) {
            let answered = self.try_of(request, reply);
            self.rows.write(&[], answered.as_ref())?;
            if *reply == Reply::flag(true) {
                self.notify_of(request);
            }
        }
        Ok(replies)
    }

    /// `PFCOUNT`.
    pub(super) async fn count_elements(
        &self,
        keys: &[&String],
        here: &Datacenter,
    ) -> Result<Reply, ReplyError> {
        let estimate = self.merged(keys, here).await?.estimate();
        Ok(Reply::Integer(i64::try_from(estimate).unwrap_or(i64::MAX)))
    }

    /// `PFMERGE`.
    pub(super) async fn merge_elements(
        &self,
        keys: &[&String],
        here: &Datacenter,
    ) -> Result<Reply, ReplyError> {
        let all = self.merged(keys, here).await?;
        let Some(to) = keys.first() else {
            return Err(error::syntax().into());
        };
        let mut known = self.sketch(to, here).await?;
        let id = id_of(to)?;
        if matches!(known, Sketch::Absent) {
            known = self.begin_sketch(&id, here).await?;
        }
        if let Sketch::Registers(before, home) = known
            && !all.is_empty()
            && *before != all
        {
            let load = Load {
                imported: Uniques::from_hll(&all),
                ..Load::default()
            };
            self.flush_elements(&id, home.as_ref().unwrap_or(here), load)
                .await?;
        }
        Ok(Reply::ok())
    }

    async fn merged(&self, keys: &[&String], here: &Datacenter) -> Result<Hll, ReplyError> {
        let mut all = Hll::new();
        for key in set_of(keys.iter().copied()) {
            if let Sketch::Registers(hll, _) = self.sketch(key, here).await? {
                all.merge(&hll);
            }
        }
        Ok(all)
    }

    /// The registers of a key. A key that cannot be a counter's name has none.
    async fn sketch(&self, key: &str, here: &Datacenter) -> Result<Sketch, ReplyError> {
        if let Some(value) = self.living_row(key, here).await?.and_then(|row| row.value) {
            return Err(match value.type_name() {
                "string" => error::not_hll(),
                _ => error::wrong_type(),
            }
            .into());
        }
        let Ok(id) = CounterId::parse(key) else {
            return Ok(Sketch::Absent);
        };
        let Some(mut sum) = tally_aggregator::read_sketches(&self.host, &id).await? else {
            if self.boards.has(&id).await? {
                return Err(error::wrong_type().into());
            }
            return Ok(Sketch::Absent);
        };
        Counters::whole(&sum)?;
        if sum.root.settings.unique_hash != UniqueHash::Redis {
            return Err(error::not_hll().into());
        }
        sum.join_uniques();
        let hll = sum.uniques.hll().unwrap_or_default();
        let home = sum.root.home.clone();
        Ok(Sketch::Registers(Box::new(hll), home))
    }

    /// Creates a counter with Redis's hash and a home.
    async fn begin_sketch(&self, id: &CounterId, here: &Datacenter) -> Result<Sketch, ReplyError> {
        // The expiry of the former key of this name is removed.
        self.rows.write(&[(id.as_str().to_owned(), None)], None)?;
        let put = Operation::Put(Put {
            unique_hash: Some(UniqueHash::Redis),
            home: Some(here.clone()),
            ..Put::default()
        });
        let operate = self.counters.operation(id, here, put, None);
        match call_within(&self.host, &operate, OPERATE_MS_MAX).await? {
            OperationOutcome::Done(done) => Ok(Sketch::Registers(Box::default(), done.home)),
            OperationOutcome::HashMismatch => Err(error::not_hll().into()),
            _ => Err(needs_home()),
        }
    }

    /// Sends elements to a cell; they may arrive more than once.
    async fn flush_elements(
        &self,
        id: &CounterId,
        datacenter: &Datacenter,
        load: Load,
    ) -> Result<(), ReplyError> {
        let number = self.elements.next.get();
        self.elements.next.set(number + 1);
        let mut flush = Flush {
            to: CellAddress {
                counter: id.clone(),
                datacenter: datacenter.clone(),
                shard: 0,
            },
            nonce: Nonce {
                lane: self.elements.lane,
                number,
            },
            load: Load {
                hash: HashId::REDIS,
                writes: 1,
                ..load
            },
            wants_report: false,
        };
        let mut last = Fault::Unavailable("the counter is busy".to_owned());
        for _ in 0..ROUNDS_MAX {
            match call_within(&self.host, &flush, OPERATE_MS_MAX).await {
                Ok(_) => return Ok(()),
                Err(Fault::Elsewhere(home)) => flush.to.datacenter = home,
                Err(Fault::Refused(Refusal::Newer(generation))) => flush.load.newest = generation,
                Err(Fault::Refused(Refusal::OtherHash(_))) => {
                    return Err(error::not_hll().into());
                }
                Err(fault) => last = fault,
            }
        }
        Err(last.into())
    }
}

/// The counter of a key that is to hold elements.
fn id_of(key: &str) -> Result<CounterId, Reply> {
    CounterId::parse(key)
        .map_err(|why| Reply::err(format!("a HyperLogLog is of a counter, and {why}")))
}
