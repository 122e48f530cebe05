//! Operations at the root, as `objects::operate`.

use tally::core::cluster::operation::{Cells, Heard};
use tally::core::cluster::root::{Entry, NeedsHome, Root};
use tally::core::counter::id::Datacenter;
use tally::core::counter::merge::Question;
use tally::core::counter::settings::Settings;
use tally::core::counter::total::Value;
use tally::protocol::messages::{
    Condition, DatacenterSum, Done, Fault, Operate, Operated, Operation, OperationKey, Put,
};

use super::Boxed;
use super::ending::{Telling, duties};
use super::network::{Answer, Message, all, unavailable};
use super::root::Core;

/// How far into the future a write's stamp may lie.
const AHEAD_SECONDS: i64 = 60;

/// An operation, refused: nothing has changed.
enum Refused {
    Fault(Fault),
    Told(Operated),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<NeedsHome> for Refused {
    fn from(_: NeedsHome) -> Self {
        Self::Told(Operated::NeedsHome)
    }
}

impl Core {
    pub async fn on_operate(&self, operate: &Operate) -> Result<Operated, Fault> {
        let _alone = self.lock.lock().await;
        // What has happened by now is what the operation must see.
        let begun = self.air.oracle.borrow().moment();
        if let Some(key) = &operate.key
            && let Some(known) = self.operated(*key)
        {
            return Ok(known);
        }
        let done = match &operate.operation {
            Operation::Put(put) => self.put(operate, put, begun).await,
            Operation::Set(value) => self.set(operate, *value, true, begun).await,
            Operation::Reset => self.set(operate, Value::default(), false, begun).await,
            Operation::SettleHome => self.settle_home(operate).await,
            Operation::Delete => {
                unreachable!("the world ends its counters by a message of its own")
            }
        };
        match done {
            Ok(done) => Ok(Operated::Done(done)),
            Err(Refused::Told(told)) => Ok(told),
            Err(Refused::Fault(fault)) => Err(fault),
        }
    }

    fn operated(&self, key: OperationKey) -> Option<Operated> {
        let rows = self.rows.borrow();
        if rows.is_claimed(key.key) {
            return Some(Operated::Reused);
        }
        let (fingerprint, done) = rows.operations.get(&key.key)?;
        Some(match *fingerprint == key.fingerprint {
            true => Operated::Done(Done {
                is_repeat: true,
                ..done.clone()
            }),
            false => Operated::Reused,
        })
    }

    /// What `save_with` writes, in one turn.
    fn save_with(&self, root: &Root, operate: &Operate, done: &Done, begun: usize) {
        if let Some(key) = operate.key {
            let row = (key.fingerprint, done.clone());
            let before = self.rows.borrow_mut().operations.insert(key.key, row);
            assert_eq!(before, None, "an operation is done once under its key");
            self.air.oracle.borrow_mut().keys.operates(key.key);
        }
        self.save(root.clone());
        let mut oracle = self.air.oracle.borrow_mut();
        oracle.operated(root, begun);
    }

    async fn put(&self, operate: &Operate, put: &Put, begun: usize) -> Result<Done, Refused> {
        let (mut root, created) = self.living_or_created().await?;
        let number = root.operations.number();
        self.require(operate, &mut root, created).await?;
        let home = match (&put.home, put.floor) {
            (None, Some(_)) => root.home_for_bounds(None)?,
            (home, _) => home.clone(),
        };
        if home != root.home {
            self.require_settled(&mut root).await?;
            let mut held = root.held.clone();
            let known =
                |datacenter: &Datacenter| root.held.iter().any(|(other, _)| other == datacenter);
            let mut to_stop = root.to_stop_for(home.as_ref());
            to_stop.retain(|datacenter| !known(datacenter));
            self.stop(&root, &to_stop).await?;
            for (datacenter, cells) in self.observe(&root, &to_stop).await {
                held.push((datacenter, cells.ok_or_else(unavailable)?));
            }
            held.retain(|(datacenter, _)| Some(datacenter) != home.as_ref());
            root.move_home(home, held);
        }
        if let Some(floor) = put.floor.filter(|_| put.floor != root.settings.floor) {
            self.require_value_above(&root, floor).await?;
        }
        root.settings = Settings {
            number: root.settings.number + 1,
            shards: put.shards,
            ttl: None,
            floor: put.floor,
            unique_hash: root.settings.unique_hash,
        };
        root.revision += 1;
        let done = Done {
            created,
            generation: root.generation,
            pending: Vec::new(),
            home: root.home.clone(),
            is_repeat: false,
        };
        let duties = duties(&root, Telling::Configure);
        self.rows.borrow_mut().duties.extend(duties.clone());
        if root.operations.number() != number {
            self.air.oracle.borrow_mut().moves_home(&root);
        }
        self.save_with(&root, operate, &done, begun);
        self.fulfil(duties).await;
        Ok(done)
    }

    async fn set(
        &self,
        operate: &Operate,
        value: Value,
        creates: bool,
        begun: usize,
    ) -> Result<Done, Refused> {
        let (mut root, created) = self.living_or_created().await?;
        if created && !creates {
            return Err(Refused::Told(Operated::NotFound));
        }
        let floor = root.settings.floor;
        if floor.is_some_and(|floor| value.is_below(floor)) {
            return Err(Refused::Told(Operated::BelowFloor));
        }
        self.require(operate, &mut root, created).await?;
        let sole: Vec<Datacenter> = root.sole().cloned().into_iter().collect();
        self.stop(&root, &sole).await?;
        let seen = self.observe(&root, &root.counting()).await;
        let is_silent = |(datacenter, cells): &(Datacenter, Option<Cells>)| {
            cells.is_none() && sole.contains(datacenter)
        };
        if seen.iter().any(is_silent) {
            return Err(unavailable().into());
        }
        root.set(value, seen, self.now_ms());
        root.revision += 1;
        let done = Done {
            created,
            generation: root.generation,
            pending: root.operations.unsettled().to_vec(),
            home: root.home.clone(),
            is_repeat: false,
        };
        self.save_with(&root, operate, &done, begun);
        Ok(done)
    }

    async fn settle_home(&self, operate: &Operate) -> Result<Done, Refused> {
        let Ok(mut root) = self.living(true).await? else {
            return Err(Refused::Told(Operated::NotFound));
        };
        give_home(operate, &mut root)?;
        let (home, generation) = (root.home.clone(), root.generation);
        self.save(root.clone());
        if let Some(home) = &home {
            self.tell_configure(home, &root).await?;
        }
        Ok(Done {
            generation,
            home,
            ..Done::default()
        })
    }

    async fn living_or_created(&self) -> Result<(Root, bool), Fault> {
        Ok(match self.living(true).await? {
            Ok(root) => (root, false),
            Err(ended) => (Root::create(ended.as_ref(), self.now_ms()), true),
        })
    }

    async fn require_settled(&self, root: &mut Root) -> Result<(), Fault> {
        if !root.operations.unsettled().is_empty() {
            self.settle_those_that_answer(root).await;
        }
        match root.operations.unsettled() {
            [] => Ok(()),
            _ => Err(unavailable()),
        }
    }

    async fn require(
        &self,
        operate: &Operate,
        root: &mut Root,
        created: bool,
    ) -> Result<(), Refused> {
        let changed = || Refused::Told(Operated::Changed);
        let asked = match &operate.condition {
            None => return Ok(()),
            Some(_) if created => return Err(changed()),
            Some(Condition::Exists) => return Ok(()),
            Some(Condition::Unchanged(asked)) => asked,
        };
        give_home(operate, root)?;
        let Some(home) = root.home.clone() else {
            return Err(changed());
        };
        let only = std::slice::from_ref(&home);
        self.stop(root, only).await?;
        let seen = self.observe(root, only).await;
        let cells = seen.into_iter().next().and_then(|(_, cells)| cells);
        let cells = cells.ok_or_else(unavailable)?;
        if asked.is_now(&home, &root.now_at(&home, &cells), &cells) {
            let oracle = self.air.oracle.borrow();
            oracle.check_unchanged(asked, root.generation, oracle.moment() + 1);
            Ok(())
        } else {
            Err(changed())
        }
    }

    pub fn has_to_settle(&self) -> bool {
        match &self.rows.borrow().entry {
            Some(Entry::Live(root)) => !root.operations.unsettled().is_empty(),
            _ => false,
        }
    }

    async fn require_value_above(&self, root: &Root, floor: Value) -> Result<(), Refused> {
        let home: Vec<Datacenter> = root.home.clone().into_iter().collect();
        self.stop(root, &home).await?;
        let mut seen = self.observe(root, &home).await;
        let held = root.held.iter().cloned();
        seen.extend(held.map(|(datacenter, cells)| (datacenter, Some(cells))));
        let mut value = root.operations.base();
        for (datacenter, cells) in seen {
            let cells = cells.ok_or_else(unavailable)?;
            value = value.plus(root.operations.beyond(&datacenter, &cells));
        }
        if value.is_below(floor) {
            return Err(Refused::Told(Operated::BelowFloor));
        }
        Ok(())
    }

    async fn stop(&self, root: &Root, datacenters: &[Datacenter]) -> Result<(), Fault> {
        let stop = |datacenter: &Datacenter| {
            let to = self.air.lead_of(datacenter);
            self.air.call(to, Message::Suspend(root.generation)).boxed()
        };
        let told = all(datacenters.iter().map(stop).collect()).await;
        told.into_iter().try_for_each(|told| told.map(|_| ()))
    }

    async fn observe(
        &self,
        root: &Root,
        datacenters: &[Datacenter],
    ) -> Vec<(Datacenter, Option<Cells>)> {
        let sums = self.sums(root, datacenters, None).await;
        let cells = |(datacenter, sum): (Datacenter, Option<DatacenterSum>)| {
            (datacenter, sum.map(|sum| sum.cells))
        };
        sums.into_iter().map(cells).collect()
    }

    async fn sums(
        &self,
        root: &Root,
        datacenters: &[Datacenter],
        window: Option<(i64, i64)>,
    ) -> Vec<(Datacenter, Option<DatacenterSum>)> {
        let question = Question {
            window,
            totals_only: true,
            ..Question::plain(root.generation)
        };
        let ask = |datacenter: &Datacenter| {
            let sum = self
                .air
                .call(self.air.lead_of(datacenter), Message::Sum(question));
            let datacenter = datacenter.clone();
            async move {
                let sum = match sum.await {
                    Ok(Answer::Sum(sum)) => Some(sum),
                    _ => None,
                };
                (datacenter, sum.filter(|sum| sum.missing.is_empty()))
            }
            .boxed()
        };
        all(datacenters.iter().map(ask).collect()).await
    }

    pub async fn on_settle(&self) -> Result<Option<Root>, Fault> {
        let _alone = self.lock.lock().await;
        let Ok(mut root) = self.living(false).await? else {
            return Ok(None);
        };
        if self.settle_those_that_answer(&mut root).await {
            root.revision += 1;
            self.save(root.clone());
            self.air.oracle.borrow_mut().settled(&root);
        }
        Ok(Some(root))
    }

    async fn settle_those_that_answer(&self, root: &mut Root) -> bool {
        let unsettled = root.operations.unsettled().to_vec();
        let from = root.operations.at_ms().div_euclid(1_000);
        let window = (from, self.now_ms().div_euclid(1_000) + AHEAD_SECONDS);
        let mut is_news = false;
        for (datacenter, sum) in self.sums(root, &unsettled, Some(window)).await {
            let Some(sum) = sum else { continue };
            let heard = Heard {
                since: sum.summary.window.count,
                last_write_ms: sum.summary.last_write_ms,
                cells: sum.cells,
            };
            is_news |= root.operations.settle(&datacenter, &heard);
        }
        is_news
    }

    /// Tells a lead what holds.
    pub async fn tell_configure(&self, datacenter: &Datacenter, root: &Root) -> Result<(), Fault> {
        let configure = Message::Configure(root.grant(datacenter));
        let told = self.air.call(self.air.lead_of(datacenter), configure).await;
        told.map(|_| ())
    }
}

fn give_home(operate: &Operate, root: &mut Root) -> Result<(), NeedsHome> {
    let home = root.home_for_bounds(None)?;
    if root.home.is_none() {
        let home = home.unwrap_or_else(|| operate.datacenter.clone());
        root.move_home(Some(home), Vec::new());
        root.settings.number += 1;
        root.revision += 1;
    }
    Ok(())
}
