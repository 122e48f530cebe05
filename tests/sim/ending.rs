//! How roots end, and how leads are told what the root decided, as `objects::telling` and `objects::operate`.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Poll;

use tally::core::cluster::root::{Entry, Root};
use tally::core::counter::id::Datacenter;
use tally::core::counter::merge::Question;
use tally::core::counter::queue::InboxId;
use tally::core::counter::settings::{Settings, Ttl, TtlMode};
use tally::protocol::messages::Fault;

use super::Boxed;
use super::network::{Answer, Message, all, unavailable};
use super::root::Core;

/// How long a counter waits whose leads did not say when they were last written.
const UNSURE_MS: i64 = 10_000;

/// What a lead must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Telling {
    Close,
    Configure,
}

/// A lead that must be told something of a generation.
pub type Duty = (Datacenter, Telling, u64);

/// What every lead of a counter must be told.
pub fn duties(root: &Root, telling: Telling) -> BTreeSet<Duty> {
    let datacenters = root.datacenters.iter();
    let duty = |datacenter: &Datacenter| (datacenter.clone(), telling, root.generation);
    datacenters.map(duty).collect()
}

impl Core {
    /// The living root; or what is known of the one that ended.
    pub async fn living(&self, for_write: bool) -> Result<Result<Root, Option<Entry>>, Fault> {
        let entry = self.rows.borrow().entry.clone();
        let Some(Entry::Live(mut root)) = entry else {
            return Ok(Err(entry));
        };
        if !root.is_due(self.now_ms()) {
            return Ok(Ok(root));
        }
        match self.last_write_ms(&root).await {
            Ok(last_write_ms) => root.last_write_ms = root.last_write_ms.max(last_write_ms),
            Err(_) if for_write && root.is_sliding() => root.last_write_ms = self.now_ms(),
            Err(fault) => return Err(fault),
        }
        if !root.is_due(self.now_ms()) {
            self.save(root.clone());
            return Ok(Ok(root));
        }
        self.end(&root, true).await?;
        Ok(Err(self.rows.borrow().entry.clone()))
    }

    /// The newest write that any lead knows of.
    async fn last_write_ms(&self, root: &Root) -> Result<i64, Fault> {
        if self.is_configuring() {
            self.fulfil(duties(root, Telling::Configure)).await;
            if self.is_configuring() {
                return Err(unavailable());
            }
        }
        if !root.is_sliding() {
            return Ok(i64::MIN);
        }
        self.none_holds(root).await?;
        let question = Question {
            totals_only: true,
            ..Question::plain(root.generation)
        };
        let ask = |datacenter: &Datacenter| {
            let to = self.air.lead_of(datacenter);
            self.air.call(to, Message::Sum(question)).boxed()
        };
        let mut newest = i64::MIN;
        for sum in all(root.datacenters.iter().map(ask).collect()).await {
            let Answer::Sum(sum) = sum? else {
                unreachable!("an answer to something else");
            };
            if !sum.missing.is_empty() {
                return Err(unavailable());
            }
            newest = newest.max(sum.summary.last_write_ms);
        }
        Ok(newest)
    }

    pub async fn on_end(&self) -> Result<(), Fault> {
        let _alone = self.lock.lock().await;
        match self.living(true).await? {
            Ok(root) => self.end(&root, false).await,
            Err(_) => Ok(()),
        }
    }

    /// Whether some lead does not know the settings yet.
    fn is_configuring(&self) -> bool {
        let rows = self.rows.borrow();
        let mut tellings = rows.duties.iter().map(|(_, telling, _)| telling);
        tellings.any(|telling| *telling == Telling::Configure)
    }

    async fn end(&self, root: &Root, is_expiry: bool) -> Result<(), Fault> {
        let holds = self.air.is_holding.replace(false);
        let unstopped = self.suspend(root).await;
        let stop_by_themselves = is_expiry && !self.is_configuring();
        if !unstopped.is_empty() && !stop_by_themselves {
            return Err(unavailable());
        }
        if holds && unstopped.is_empty() {
            self.hold().await;
            return Err(unavailable());
        }
        self.release_inboxes(root).await?;
        let duties = duties(root, Telling::Close);
        self.note_end(root, is_expiry, &unstopped);
        self.rows.borrow_mut().entry = Some(Entry::Ended {
            generation: root.generation,
            at_ms: self.now_ms(),
        });
        self.rows.borrow_mut().duties.extend(duties.clone());
        self.fulfil(duties).await;
        Ok(())
    }

    /// Tells the oracle.
    fn note_end(&self, root: &Root, is_expiry: bool, unstopped: &[Datacenter]) {
        let mut oracle = self.air.oracle.borrow_mut();
        oracle.ends(root.generation, unstopped);
        if let Some(ttl) = root.settings.ttl.filter(|_| is_expiry) {
            let now_ms = self.now_ms() + self.air.clocks_differ_ms();
            oracle.check_expiry(root.generation, ttl, now_ms);
        }
    }

    /// Nobody counts any more, until the world goes on.
    async fn hold(&self) {
        self.air.oracle.borrow_mut().is_stopped = true;
        poll_fn(|_| match self.air.oracle.borrow().is_stopped {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Stops all leads. Returns those that did not answer.
    async fn suspend(&self, root: &Root) -> Vec<Datacenter> {
        let generation = root.generation;
        let tell = |datacenter: &Datacenter| {
            let to = self.air.lead_of(datacenter);
            self.air.call(to, Message::Suspend(generation)).boxed()
        };
        let told = all(root.datacenters.iter().map(tell).collect()).await;
        let told = root.datacenters.iter().zip(told);
        told.filter(|(_, told)| told.is_err())
            .map(|(datacenter, _)| datacenter.clone())
            .collect()
    }

    /// Sees to it that no inbox holds events that are not counted.
    async fn none_holds(&self, root: &Root) -> Result<(), Fault> {
        self.release_inboxes(root).await?;
        let ask = |inbox: &InboxId| {
            let may_hold = Message::MayHold(self.air.name());
            self.air.call_inbox(inbox, may_hold).boxed()
        };
        for holds in all(root.inboxes.iter().map(ask).collect()).await {
            if !matches!(holds?, Answer::MayHold(false)) {
                return Err(unavailable());
            }
        }
        Ok(())
    }

    pub async fn release_inboxes(&self, root: &Root) -> Result<(), Fault> {
        let tell = |inbox: &InboxId| {
            let release = Message::Release(self.air.name(), root.generation);
            self.air.call_inbox(inbox, release).boxed()
        };
        let told = all(root.inboxes.iter().map(tell).collect()).await;
        told.into_iter().try_for_each(|told| told.map(|_| ()))
    }

    /// Tells leads what they must know, and strikes off what is done.
    pub async fn fulfil(&self, duties: BTreeSet<Duty>) {
        let living = || match &self.rows.borrow().entry {
            Some(Entry::Live(root)) => Some(root.clone()),
            _ => None,
        };
        let number_of = |root: Option<Root>| root.map(|root| root.settings.number);
        let tell = |(datacenter, telling, generation): &Duty| {
            let root = living();
            let number = number_of(root.clone());
            let root = root.filter(|root| root.generation == *generation);
            let message = match (telling, root) {
                (Telling::Close, _) => Some(Message::Close(*generation)),
                (Telling::Configure, Some(root)) => {
                    Some(Message::Configure(root.grant(datacenter)))
                }
                (Telling::Configure, None) => None,
            };
            let to = self.air.lead_of(datacenter);
            let call = message.map(|message| self.air.call(to, message));
            async move {
                let told = match call {
                    Some(call) => call.await.is_ok(),
                    None => true,
                };
                (number.unwrap_or(0), told)
            }
            .boxed()
        };
        let told = all(duties.iter().map(tell).collect()).await;
        for (duty, (number, told)) in duties.into_iter().zip(told) {
            // Settings that were put while these were told are a duty of their own, under this name.
            let is_newest = number_of(living()).is_none_or(|newest| newest == number);
            if told && (is_newest || duty.1 == Telling::Close) {
                self.rows.borrow_mut().duties.remove(&duty);
            }
        }
    }

    pub async fn on_put(
        &self,
        shards: Option<u8>,
        ttl: Option<(u64, TtlMode)>,
    ) -> Result<(), Fault> {
        let _alone = self.lock.lock().await;
        let mut root = self.living_or_new().await?;
        let set_at_ms = self.now_ms();
        root.settings = Settings {
            number: root.settings.number + 1,
            shards,
            ttl: ttl.map(|(seconds, mode)| Ttl {
                seconds,
                mode,
                set_at_ms,
            }),
            ..root.settings
        };
        root.revision += 1;
        let duties = duties(&root, Telling::Configure);
        self.rows.borrow_mut().duties.extend(duties.clone());
        self.save(root);
        self.fulfil(duties).await;
        Ok(())
    }

    pub async fn look_at_what_is_due(&self) {
        let duties = self.rows.borrow().duties.clone();
        self.fulfil(duties).await;
        if self.has_to_settle() {
            let _ = self.on_settle().await;
        }
        let _alone = self.lock.lock().await;
        let entry = self.rows.borrow().entry.clone();
        let is_due = entry.as_ref().and_then(Entry::due_at_ms);
        let is_due = is_due.is_some_and(|due_ms| due_ms <= self.now_ms());
        if let Some(Entry::Live(mut root)) = entry.filter(|_| is_due)
            && self.living(false).await.is_err()
        {
            root.postpone_end(self.now_ms() + UNSURE_MS);
            self.save(root);
        }
    }
}
