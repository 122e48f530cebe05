//! What a lead does besides counting, as `objects::lead` and `objects::balance`.

use std::rc::Rc;

use tally::core::counter::grant::Grant;
use tally::core::counter::merge::{Part, Question};
use tally::core::counter::split::Step;
use tally::core::sketch::Uniques;
use tally::protocol::messages::{DatacenterSum, Fault};

use super::cell::Core;
use super::network::{Answer, Message, Reply, all, unavailable};
use super::{Boxed, GRANT_TRIES, SHARDS_MAX};

impl Core {
    /// Tells shards something at once. Returns their replies, in their order.
    async fn tell(&self, shards: impl Iterator<Item = u8>, message: Message) -> Vec<Reply> {
        let call = |shard| self.air.call(self.sibling(shard), message.clone()).boxed();
        all(shards.map(call).collect()).await
    }

    pub async fn on_hello(&self, shard: u8) -> Result<Grant, Fault> {
        for _ in 0..GRANT_TRIES {
            if !self.state.borrow().needs_grant(self.now_ms()) {
                return self.grant_shard(shard);
            }
            self.obtain_grant().await?;
        }
        Err(unavailable())
    }

    fn grant_shard(&self, shard: u8) -> Result<Grant, Fault> {
        let admission = self.state.borrow_mut().admit(shard);
        let admission = admission.map_err(Fault::Refused)?;
        if admission.was_sealed {
            self.write(|rows, state| rows.write_sealed(state, shard))?;
        } else if admission.is_new {
            self.save()?;
        }
        Ok(admission.grant)
    }

    pub async fn on_sum(&self, question: Question) -> Result<DatacenterSum, Fault> {
        match self.state.borrow().generation() {
            Some(own) if own > question.generation => return Err(Fault::Superseded(own)),
            Some(own) if own == question.generation => {}
            _ if self.state.borrow().has_ended(question.generation) => {
                return Err(Fault::Superseded(question.generation));
            }
            _ => return Ok(DatacenterSum::default()),
        }
        let mut sum = DatacenterSum::default();
        let mut asked = Vec::new();
        {
            // `kept_and_asked`.
            let state = self.state.borrow();
            let own = state.answer(&question).map(|part| (0, part));
            let mut parts: Vec<(u8, Part)> = own.into_iter().collect();
            for shard in 1..state.shards_ever() {
                match state.sealed_part(shard) {
                    Some(part) if !question.is_about_times() => {
                        parts.extend(part.map(|part| (shard, part.clone())));
                    }
                    _ => asked.push(shard),
                }
            }
            for (shard, part) in parts {
                add(&mut sum, shard, part);
            }
        }
        let answers = self
            .tell(asked.iter().copied(), Message::Ask(question))
            .await;
        for (shard, answer) in asked.into_iter().zip(answers) {
            match answer {
                Ok(Answer::Part(Some(part))) => add(&mut sum, shard, part),
                Ok(_) => {}
                Err(_) => sum.missing.push(shard),
            }
        }
        Ok(sum)
    }

    pub async fn on_suspend(&self, generation: u64) -> Result<(), Fault> {
        if self.seal(generation)?.is_none() {
            return Ok(());
        }
        let shards_ever = self.state.borrow().shards_ever();
        let sealed = self.tell(1..shards_ever, Message::Seal(generation)).await;
        sealed.into_iter().try_for_each(|sealed| sealed.map(|_| ()))
    }

    pub async fn on_configure(&self, grant: Grant) -> Result<(), Fault> {
        if self.state.borrow().generation() != Some(grant.generation) {
            self.state.borrow_mut().void_grants();
            return Ok(());
        }
        self.state.borrow_mut().configure(grant);
        self.save()?;
        if !self.is_lead() {
            return Ok(());
        }
        let (shards_ever, spread) = (self.state.borrow().shards_ever(), self.spread());
        let grant = Grant {
            alone: false,
            is_home: false,
            spread,
            ..grant
        };
        let told = self.tell(1..shards_ever, Message::Configure(grant)).await;
        told.into_iter().try_for_each(|told| told.map(|_| ()))
    }

    pub async fn on_close(&self, generation: u64) -> Result<(), Fault> {
        let shards_ever = self.state.borrow().shards_ever();
        if self.state.borrow_mut().close(generation) {
            let shards: Vec<u8> = (1..shards_ever).filter(|_| self.is_lead()).collect();
            self.write(|rows, _| rows.close(generation, &shards))?;
        }
        let outcome = self.close_shards().await;
        if outcome.is_ok() && self.state.borrow().is_blank() {
            self.rows.borrow_mut().delete_all();
        }
        outcome
    }

    async fn close_shards(&self) -> Result<(), Fault> {
        let closing = self.rows.borrow().closing();
        let close = |(shard, generation): &(u8, u64)| {
            let message = Message::Close(*generation);
            self.air.call(self.sibling(*shard), message).boxed()
        };
        let told = all(closing.iter().map(close).collect()).await;
        let mut outcome = Ok(());
        for ((shard, _), told) in closing.into_iter().zip(told) {
            match told {
                Ok(_) => self.rows.borrow_mut().closed(shard),
                Err(fault) => outcome = Err(fault),
            }
        }
        outcome
    }

    /// What `choose_spread` does once the load has spoken.
    pub fn decide(self: &Rc<Self>, step: Step) {
        let spread = self.spread();
        let by_load = self.state.borrow().spreads_by_load();
        let wanted = match step {
            _ if !by_load => spread,
            Step::Double => spread.saturating_mul(2).min(SHARDS_MAX),
            Step::Halve => (spread / 2).max(1),
            Step::Stay => spread,
        };
        if wanted != spread && self.state.borrow().spreads_by_load() {
            self.state.borrow_mut().spread_over(wanted);
            let _ = self.save();
        }
        self.seal_what_is_left();
    }

    /// The alarm, which seals within itself besides.
    pub fn on_alarm(self: &Rc<Self>) {
        self.decide(Step::Stay);
        let left = self.state.borrow().to_seal();
        let core = self.clone();
        self.wait_until(async move { core.seal_shards(left).await });
    }

    pub fn seal_what_is_left(self: &Rc<Self>) {
        let left = self.state.borrow().to_seal();
        if left.is_empty() || self.is_sealing.replace(true) {
            return;
        }
        let core = self.clone();
        self.wait_until(async move {
            core.seal_shards(left).await;
            core.is_sealing.set(false);
        });
    }

    async fn seal_shards(&self, shards: Vec<(u8, u64)>) {
        let Some(generation) = self.state.borrow().generation() else {
            return;
        };
        let left = shards.iter().map(|(shard, _)| *shard);
        let answers = self.tell(left, Message::Seal(generation)).await;
        for ((shard, admissions), sealed) in shards.into_iter().zip(answers) {
            let Ok(Answer::Part(part)) = sealed else {
                continue;
            };
            let is_current = self.state.borrow().generation() == Some(generation);
            let holds = part.is_some();
            if is_current && self.state.borrow_mut().keep_sealed(shard, part, admissions) {
                let written = self.write(|rows, state| rows.write_sealed(state, shard));
                if holds && written.is_ok() {
                    let mut oracle = self.air.oracle.borrow_mut();
                    oracle.keeps_part(self.place, generation);
                }
            }
        }
    }
}

fn add(sum: &mut DatacenterSum, shard: u8, part: Part) {
    sum.cells.push((shard, part.totals));
    sum.summary.add_part(part, Uniques::new());
}
