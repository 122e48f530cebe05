//! Operations on a counter as a whole, at its root: settings, set, reset, deletion. They run one after the other,
//! because each holds the counter's lock. Each is one commit with its key.
//!
//! Invariants: the counts that operations observe of a datacenter never decrease, so a baseline is never above the
//! counts of its cells. A lead that reports its own total as the counter's value is stopped before an operation changes
//! the value. It receives the change before it counts again.

use std::rc::Rc;

use super::duty_store::{Duty, LeadNotice, duties};
use super::operation_store::{Operation as Record, OperationStore};
use super::roots::Roots;
use super::roots::lead_calls::{silent, sums, suspend};
use crate::kit::store::Store;
use tally_core::cluster::operation::Cells;
use tally_core::cluster::root::{NeedsHome, Root, RootEntry};
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::Part;
use tally_core::counter::settings::{Settings, Ttl};
use tally_core::counter::total::Value;
use tally_host::Host;
use tally_wire::messages::{
    Done, Fault, IfExists, Operate, Operation, OperationCondition, OperationOutcome, Put,
    ReadParts, RestoreSource, StoreAnswer, StoredAnswer,
};

/// A refused operation: nothing has changed.
enum Refused {
    Fault(Fault),
    Outcome(OperationOutcome),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<NeedsHome> for Refused {
    fn from(_: NeedsHome) -> Self {
        Self::Outcome(OperationOutcome::NeedsHome)
    }
}

/// Runs operations on the roots of a partition.
pub(super) struct Operations {
    host: Host,
    roots: Rc<Roots>,
    records: OperationStore,
}

impl Operations {
    /// Operations on these roots.
    pub(super) fn new(host: &Host, store: &Store, roots: Rc<Roots>) -> Self {
        Self {
            host: host.clone(),
            roots,
            records: OperationStore::new(host, store),
        }
    }

    /// Runs an operation, unless it was done under its key before.
    ///
    /// # Errors
    /// `Unavailable` where a lead that is needed does not answer.
    pub(super) async fn operate(&self, operate: Operate) -> Result<OperationOutcome, Fault> {
        let lock = self.roots.lock_of(&operate.counter);
        let _alone = lock.lock().await;
        self.roots.is_here(&operate.counter)?;
        if let Some(key) = &operate.key
            && let Some(known) = self.records.operated(&operate.counter, *key)?
        {
            return Ok(known);
        }
        let done = match &operate.operation {
            Operation::Put(put) => self.put(&operate, put, None).await,
            Operation::Set(value) => self.set(&operate, *value, false).await,
            Operation::Delete => self.delete(&operate).await,
            Operation::AssignHome => self.assign_home(&operate).await,
            Operation::BringBack(back) => self.bring_back(&operate, back).await,
        };
        match done {
            Ok(done) => Ok(OperationOutcome::Done(done)),
            Err(Refused::Outcome(outcome)) => Ok(outcome),
            Err(Refused::Fault(fault)) => Err(fault),
        }
    }

    /// Stores the first answer to an operation. Returns the stored one.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn keep(&self, keep: &StoreAnswer) -> Result<StoredAnswer, Fault> {
        self.records.keep_answer(keep)
    }

    /// Deletes old operations, and all other old keys.
    ///
    /// # Errors
    /// `Unavailable` where SQLite refuses.
    pub(super) fn delete_old(&self, now_ms: i64) -> Result<(), Fault> {
        self.records.delete_old(now_ms)
    }

    /// Restores the part of a counter that its root holds.
    async fn bring_back(&self, operate: &Operate, back: &RestoreSource) -> Result<Done, Refused> {
        let counter = &operate.counter;
        let living = self
            .roots
            .living_or_lost(counter, &operate.datacenter)
            .await?;
        let base = back.base.unwrap_or_default();
        let ended = match (living, back.if_there) {
            (Err(ended), _) => ended,
            (Ok(_), IfExists::Refuse) => return Err(Refused::Outcome(OperationOutcome::Exists)),
            (Ok(root), IfExists::Replace) => {
                self.roots.end(counter, &root, false, None).await?;
                self.roots.entry(counter)?
            }
            (Ok(root), IfExists::Keep) => {
                let done = Done {
                    generation: root.generation,
                    home: root.home.clone(),
                    ..Done::default()
                };
                let record = self.record_of(operate, &done);
                let entry = RootEntry::Live(root);
                self.roots.save_with(counter, entry, &[], record).await?;
                return Ok(done);
            }
            (Ok(_), IfExists::Set) => return self.set(operate, base, false).await,
            (Ok(_), IfExists::Raise) => return self.set(operate, base, true).await,
            (Ok(_), IfExists::PutSettings) => {
                return self.put(operate, &back.settings, back.ttl_set_at_ms).await;
            }
        };
        let now_ms = self.host.now_ms();
        let mut root = Root::create(ended.as_ref(), now_ms);
        let put = &back.settings;
        let set_at_ms = back.ttl_set_at_ms.unwrap_or(now_ms);
        root.created_at_ms = back.created_at_ms.unwrap_or(now_ms).min(now_ms);
        root.settings = Settings {
            number: 1,
            shards: put.shards,
            ttl: put.ttl.map(|(seconds, mode)| Ttl {
                seconds,
                mode,
                set_at_ms,
            }),
            floor: None,
            unique_hash: put.unique_hash.unwrap_or_default(),
            seconds_kept: put.seconds_kept,
        };
        if let Some(base) = back.base {
            root.set(base, Vec::new(), now_ms);
        }
        root.revision += 1;
        let done = Done {
            created: true,
            generation: root.generation,
            ..Done::default()
        };
        let record = self.record_of(operate, &done);
        self.roots
            .save_with(counter, RootEntry::Live(root), &[], record)
            .await?;
        Ok(done)
    }

    async fn put(
        &self,
        operate: &Operate,
        put: &Put,
        ttl_set_at_ms: Option<i64>,
    ) -> Result<Done, Refused> {
        let counter = &operate.counter;
        let (mut root, created) = self.living_or_new(operate).await?;
        self.require(operate, &mut root, created).await?;
        let home = match (&put.home, put.floor) {
            (None, Some(_)) => root.home_for_bounds(None)?,
            (home, _) => home.clone(),
        };
        if home != root.home {
            self.roots.require_reconciled(counter, &mut root).await?;
            let mut held = root.held.clone();
            let known =
                |datacenter: &Datacenter| root.held.iter().any(|(other, _)| other == datacenter);
            let mut to_stop = root.to_stop_for(home.as_ref());
            to_stop.retain(|datacenter| !known(datacenter));
            self.stop(counter, &root, &to_stop).await?;
            for (datacenter, cells) in self.observe(counter, &root, &to_stop).await {
                held.push((
                    datacenter.clone(),
                    cells.ok_or_else(|| silent(&datacenter))?,
                ));
            }
            held.retain(|(datacenter, _)| Some(datacenter) != home.as_ref());
            root.move_home(home, held);
        }
        if let Some(floor) = put.floor.filter(|_| put.floor != root.settings.floor) {
            self.require_value_above(counter, &root, floor).await?;
        }
        let unique_hash = put.unique_hash.unwrap_or(root.settings.unique_hash);
        if unique_hash != root.settings.unique_hash {
            self.require_no_uniques(counter, &root).await?;
        }
        let set_at_ms = ttl_set_at_ms.unwrap_or_else(|| self.host.now_ms());
        root.settings = Settings {
            number: root.settings.number + 1,
            shards: put.shards,
            ttl: put.ttl.map(|(seconds, mode)| Ttl {
                seconds,
                mode,
                set_at_ms,
            }),
            floor: put.floor,
            unique_hash,
            seconds_kept: put.seconds_kept,
        };
        root.revision += 1;
        let duties = duties(counter, &root, LeadNotice::Configure);
        let done = Done {
            created,
            generation: root.generation,
            pending: Vec::new(),
            home: root.home.clone(),
            is_repeat: false,
        };
        let record = self.record_of(operate, &done);
        self.roots
            .save_with(counter, RootEntry::Live(root), &duties, record)
            .await?;
        let pending = self.roots.fulfil(&duties).await?;
        Ok(Done { pending, ..done })
    }

    /// Sets the value, or raises it by the given one.
    async fn set(&self, operate: &Operate, value: Value, raises: bool) -> Result<Done, Refused> {
        let counter = &operate.counter;
        let (mut root, created) = self.living_or_new(operate).await?;
        if raises {
            // Otherwise the counts of an unreconciled datacenter would be treated as zero.
            self.roots.require_reconciled(counter, &mut root).await?;
        }
        let floor = root.settings.floor;
        if floor.is_some_and(|floor| value.is_below(floor)) && !raises {
            return Err(Refused::Outcome(OperationOutcome::BelowFloor));
        }
        self.require(operate, &mut root, created).await?;
        // Otherwise the only lead would continue to report its own total as the value.
        let sole: Vec<Datacenter> = root.sole().cloned().into_iter().collect();
        self.stop(counter, &root, &sole).await?;
        let seen = self.observe(counter, &root, &root.counting()).await;
        let is_silent = |(datacenter, cells): &&(Datacenter, Option<Cells>)| {
            cells.is_none() && sole.contains(datacenter)
        };
        if let Some((datacenter, _)) = seen.iter().find(is_silent) {
            return Err(silent(datacenter).into());
        }
        let value = match raises {
            true => value.plus(whole_value(&root, &seen)?),
            false => value,
        };
        root.set(value, seen, self.host.now_ms());
        root.revision += 1;
        let pending = root.operations.unreconciled().to_vec();
        let duties: Vec<Duty> = duties(counter, &root, LeadNotice::Reconcile)
            .into_iter()
            .filter(|duty| pending.contains(&duty.datacenter))
            .collect();
        let done = Done {
            created,
            generation: root.generation,
            pending,
            home: root.home.clone(),
            is_repeat: false,
        };
        let record = self.record_of(operate, &done);
        self.roots
            .save_with(counter, RootEntry::Live(root), &duties, record)
            .await?;
        Ok(done)
    }

    async fn delete(&self, operate: &Operate) -> Result<Done, Refused> {
        let counter = &operate.counter;
        let Ok(mut root) = self.roots.living(counter, true).await? else {
            return Err(Refused::Outcome(OperationOutcome::NotFound));
        };
        self.require(operate, &mut root, false).await?;
        let done = Done {
            generation: root.generation,
            ..Done::default()
        };
        let record = self.record_of(operate, &done);
        let pending = self.roots.end(counter, &root, false, record).await?;
        Ok(Done { pending, ..done })
    }

    async fn assign_home(&self, operate: &Operate) -> Result<Done, Refused> {
        let counter = &operate.counter;
        let Ok(mut root) = self.roots.living(counter, true).await? else {
            return Err(Refused::Outcome(OperationOutcome::NotFound));
        };
        self.ensure_home(operate, &mut root)?;
        let home = root.home.clone();
        let generation = root.generation;
        // The home must be durable before its lead is notified, even if this fails afterwards. The lead refuses to
        // decide until it is notified.
        self.roots
            .save(counter, RootEntry::Live(root.clone()), &[])
            .await?;
        if let Some(home) = &home {
            let notice = LeadNotice::Configure;
            self.roots
                .notify_lead(counter, home, notice, generation, Some(&root))
                .await?;
        }
        Ok(Done {
            generation,
            home,
            ..Done::default()
        })
    }

    fn ensure_home(&self, operate: &Operate, root: &mut Root) -> Result<(), NeedsHome> {
        let home = root.home_for_bounds(None)?;
        if root.home.is_none() {
            let home = home.unwrap_or_else(|| operate.datacenter.clone());
            root.move_home(Some(home), Vec::new());
            // The home has one shard, which is a setting for its cells.
            root.settings.number += 1;
            root.revision += 1;
        }
        Ok(())
    }

    async fn living_or_new(&self, operate: &Operate) -> Result<(Root, bool), Fault> {
        let living = self
            .roots
            .living_or_lost(&operate.counter, &operate.datacenter);
        Ok(match living.await? {
            Ok(root) => (root, false),
            Err(ended) => (Root::create(ended.as_ref(), self.host.now_ms()), true),
        })
    }

    /// Fails unless the operation's condition holds. After a check of the value all leads are stopped, so that it holds
    /// until the operation is done.
    async fn require(
        &self,
        operate: &Operate,
        root: &mut Root,
        created: bool,
    ) -> Result<(), Refused> {
        let changed = || Refused::Outcome(OperationOutcome::Changed);
        let expected = match &operate.condition {
            None => return Ok(()),
            Some(_) if created => return Err(changed()),
            Some(OperationCondition::Exists) => return Ok(()),
            Some(OperationCondition::Unchanged(expected)) => expected,
        };
        self.ensure_home(operate, root)?;
        let Some(home) = root.home.clone() else {
            return Err(changed());
        };
        let only = std::slice::from_ref(&home);
        self.stop(&operate.counter, root, only).await?;
        let seen = self.observe(&operate.counter, root, only).await;
        let cells = seen.into_iter().next().and_then(|(_, cells)| cells);
        let cells = cells.ok_or_else(|| silent(&home))?;
        if expected.is_now(&home, &root.now_at(&home, &cells), &cells) {
            Ok(())
        } else {
            Err(changed())
        }
    }

    async fn require_value_above(
        &self,
        counter: &CounterId,
        root: &Root,
        floor: Value,
    ) -> Result<(), Refused> {
        let home: Vec<Datacenter> = root.home.clone().into_iter().collect();
        self.stop(counter, root, &home).await?;
        let seen = self.observe(counter, root, &home).await;
        if whole_value(root, &seen)?.is_below(floor) {
            return Err(Refused::Outcome(OperationOutcome::BelowFloor));
        }
        Ok(())
    }

    /// Fails unless no unique element was counted. Stops all leads, which will count by the new setting.
    async fn require_no_uniques(&self, counter: &CounterId, root: &Root) -> Result<(), Refused> {
        self.stop(counter, root, &root.counting()).await?;
        let all: Vec<Datacenter> = root.datacenters.iter().cloned().collect();
        let sums = sums(
            self.roots.outbox(),
            counter,
            root,
            &all,
            ReadParts::default(),
        )
        .await;
        for (datacenter, sum) in sums {
            let sum = sum.ok_or_else(|| silent(&datacenter))?;
            if !sum.uniques.is_empty() {
                return Err(Refused::Outcome(OperationOutcome::HashMismatch));
            }
        }
        Ok(())
    }

    /// Stops leads: they and their shards count nothing until they have a new grant, which waits for this operation.
    async fn stop(
        &self,
        counter: &CounterId,
        root: &Root,
        datacenters: &[Datacenter],
    ) -> Result<(), Fault> {
        let unstopped = suspend(self.roots.outbox(), counter, root, datacenters).await;
        unstopped
            .first()
            .map_or(Ok(()), |datacenter| Err(silent(datacenter)))
    }

    /// The counts of the cells of datacenters; `None` for one that does not answer with all of them.
    async fn observe(
        &self,
        counter: &CounterId,
        root: &Root,
        datacenters: &[Datacenter],
    ) -> Vec<(Datacenter, Option<Cells>)> {
        let wanted = ReadParts {
            totals_only: true,
            ..ReadParts::default()
        };
        let sums = sums(self.roots.outbox(), counter, root, datacenters, wanted).await;
        let cells =
            |(datacenter, sum): (Datacenter, Option<Part>)| (datacenter, sum.map(|sum| sum.cells));
        sums.into_iter().map(cells).collect()
    }

    fn record_of(&self, operate: &Operate, done: &Done) -> Option<Record> {
        operate.key.map(|key| Record {
            key,
            done: done.clone(),
        })
    }
}

/// The value, if all datacenters that count have been observed.
fn whole_value(root: &Root, seen: &[(Datacenter, Option<Cells>)]) -> Result<Value, Fault> {
    let mut value = root.operations.base();
    for (datacenter, cells) in seen {
        let cells = cells.as_ref().ok_or_else(|| silent(datacenter))?;
        value = value.plus(root.operations.beyond(datacenter, cells));
    }
    let held = root.held.iter();
    Ok(held.fold(value, |value, (datacenter, cells)| {
        value.plus(root.operations.beyond(datacenter, cells))
    }))
}
