//! What a lead does besides counting: it sums its datacenter, grants its shards permission to
//! count, and hands settings and endings on to them.
//!
//! Invariant: the lead has durably noted a shard before that shard counts anything, so a sum over
//! the shards that the lead knows of lacks none.

use super::cell::Cell;
use crate::counter::grant::Grant;
use crate::counter::settings::SHARDS_MAX;
use crate::platform::call;
use crate::platform::clock::now_ms;
use crate::platform::settled::all_settled;
use crate::protocol::messages::{
    Ask, CellAnswer, Close, Configure, DatacenterSum, Fault, Hello, Sum,
};
use crate::protocol::names::CellAddress;

/// Shards that are called at once: all of them.
const SHARDS_AT_ONCE: usize = 64;

/// How often a lead asks for its own grant before it turns a shard away.
const GRANT_TRIES: usize = 4;

impl Cell {
    /// A shard asks whether it may count.
    pub(super) async fn on_hello(&self, hello: Result<Hello, Fault>) -> Result<Grant, Fault> {
        let Hello { to, shard } = hello?;
        self.readable()?;
        if shard == 0 || shard >= SHARDS_MAX {
            return Err(Fault::Broken(format!(
                "there is no shard {shard} besides the lead"
            )));
        }
        for _ in 0..GRANT_TRIES {
            if !self.state.borrow().needs_grant(now_ms()) {
                return self.grant_shard(shard);
            }
            self.obtain_grant(&to).await?;
        }
        Err(Fault::Unavailable(
            "the counter is being ended and created again".to_owned(),
        ))
    }

    fn grant_shard(&self, shard: u8) -> Result<Grant, Fault> {
        let is_news = self.state.borrow_mut().note_shard(shard);
        if is_news {
            let stored = self.rows.write_hot(&self.state.borrow());
            self.written(stored)?;
        }
        let state = self.state.borrow();
        let grant = state
            .grant()
            .ok_or_else(|| Fault::Unavailable("the lead has no grant".to_owned()))?;
        Ok(Grant {
            alone: false,
            last_write_ms: state.last_write_ms(),
            ..grant
        })
    }

    /// Sums the datacenter: this cell and every shard there ever was in this generation.
    pub(super) async fn on_sum(&self, sum: Result<Sum, Fault>) -> Result<DatacenterSum, Fault> {
        let Sum { to, question } = sum?;
        self.readable()?;
        match self.state.borrow().generation() {
            Some(own) if own > question.generation => {
                return Err(Fault::Superseded(own));
            }
            Some(own) if own == question.generation => {}
            // Unborn, or of a generation whose end has not been told here yet: nothing to add.
            _ => return Ok(DatacenterSum::default()),
        }
        let ask = |shard: u8| {
            let to = to.sibling(shard);
            async move {
                (
                    shard,
                    call::cell(
                        &self.env,
                        &to,
                        &Ask {
                            to: to.clone(),
                            question,
                        },
                    )
                    .await,
                )
            }
        };
        // The others first: they are asked before this cell looks at its own totals, in one turn.
        let shards_ever = self.state.borrow().shards_ever();
        let others = (1..shards_ever).map(ask);
        let own = self.answer(&question)?;
        let mut datacenter = DatacenterSum {
            shards: self
                .state
                .borrow()
                .grant()
                .map_or(1, |grant| grant.settings.shards()),
            ..DatacenterSum::default()
        };
        let mut add = |shard: u8, answer: CellAnswer| {
            datacenter.cells.push((shard, answer.part.totals));
            datacenter
                .summary
                .add_part(answer.part, answer.window_uniques);
        };
        if let Some(own) = own {
            add(0, own);
        }
        let mut missing = Vec::new();
        for (shard, answer) in all_settled(others, SHARDS_AT_ONCE).await {
            match answer {
                Ok(Some(answer)) => add(shard, answer),
                // A shard that never counted in this generation adds nothing.
                Ok(None) => {}
                Err(_) => missing.push(shard),
            }
        }
        datacenter.cells.sort_unstable_by_key(|(shard, _)| *shard);
        datacenter.missing = missing;
        Ok(datacenter)
    }

    /// Settings changed, or another datacenter counts now.
    pub(super) async fn on_configure(
        &self,
        configure: Result<Configure, Fault>,
    ) -> Result<(), Fault> {
        let Configure { to, grant } = configure?;
        self.readable()?;
        if self.state.borrow().generation() != Some(grant.generation) {
            // Unborn cells learn it all with their grant; ended ones need not know.
            return Ok(());
        }
        self.take_grant(&to, grant)?;
        if !to.is_lead() {
            return Ok(());
        }
        let shards_ever = self.state.borrow().shards_ever();
        let grant = Grant {
            alone: false,
            ..grant
        };
        let tell = |shard: u8| {
            let to = to.sibling(shard);
            async move {
                call::cell(
                    &self.env,
                    &to,
                    &Configure {
                        to: to.clone(),
                        grant,
                    },
                )
                .await
            }
        };
        all_settled((1..shards_ever).map(tell), SHARDS_AT_ONCE)
            .await
            .into_iter()
            .collect()
    }

    /// A generation has ended: it is dropped here and by every shard, storage included.
    pub(super) async fn on_close(&self, close: Result<Close, Fault>) -> Result<(), Fault> {
        let Close { to, generation } = close?;
        self.readable()?;
        let shards_ever = self.state.borrow().shards_ever();
        if self.state.borrow_mut().close(generation) {
            let shards: Vec<u8> = (1..shards_ever).filter(|_| to.is_lead()).collect();
            let stored = self.rows.close(generation, &shards);
            self.written(stored)?;
        }
        let outcome = self.close_shards(&to).await;
        // Another generation may have begun while the shards were told.
        if outcome.is_ok() && self.state.borrow().generation().is_none() {
            self.rows.delete_all().await?;
        }
        outcome
    }

    /// Tells the shards that still hold an ended generation; those that cannot be told stay noted.
    async fn close_shards(&self, me: &CellAddress) -> Result<(), Fault> {
        let tell = |(shard, generation): (u8, u64)| {
            let to = me.sibling(shard);
            async move {
                (
                    shard,
                    call::cell(
                        &self.env,
                        &to,
                        &Close {
                            to: to.clone(),
                            generation,
                        },
                    )
                    .await,
                )
            }
        };
        let mut outcome = Ok(());
        for (shard, told) in
            all_settled(self.rows.closing()?.into_iter().map(tell), SHARDS_AT_ONCE).await
        {
            match told {
                Ok(()) => self.rows.closed(shard)?,
                Err(fault) => outcome = Err(fault),
            }
        }
        outcome
    }
}
