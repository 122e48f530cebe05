//! A cell's contents: read for an export, written by an import.

use std::cell::RefCell;
use std::rc::Rc;

use super::core::CellCore;
use super::object::GRANT_TRIES;
use super::row_kinds::Kind;
use super::store::CellStore;
use tally_core::counter::breakdown;
use tally_core::counter::contents::{Contents, ContentsWanted};
use tally_core::counter::flush::{Changes, Refusal};
use tally_core::counter::history::Resolution;
use tally_core::counter::ledger::{KeySource, KeyedOutcome, KeyedWrite, SeenValue};
use tally_core::counter::samples::{join_samples, samples_from_rest};
use tally_core::sketch::TopValues;
use tally_wire::messages::{Fault, Install, InstallOutcome, LookUp, ReadContents, ReadOut};
use tally_wire::names::CellAddress;

/// The most bytes of samples by the hour in an answer of one cell: above it, those of a day are joined.
const SAMPLES_BYTES_MAX: usize = 512 << 10;

impl CellCore {
    /// Returns the cell's contents.
    pub(super) fn on_read_contents(
        &self,
        read: Result<ReadContents, Fault>,
    ) -> Result<ReadOut, Fault> {
        let ReadContents {
            generation, wanted, ..
        } = read?;
        self.readable()?;
        let state = self.state.borrow();
        match state.generation() {
            Some(own) if own > generation => return Err(Fault::Superseded(own)),
            Some(_) => {}
            None if state.has_ended(generation) => return Err(Fault::Superseded(generation)),
            None => {}
        }
        let contents = match state.contents(generation, wanted) {
            Some(contents) => Some(self.rows.with_stored(contents, wanted)?),
            None => None,
        };
        Ok(ReadOut {
            contents,
            shards: state.shards_ever(),
        })
    }

    /// Adds contents to this lead's, once under their key.
    pub(super) async fn on_install(
        self: &Rc<Self>,
        install: Result<Install, Fault>,
    ) -> Result<InstallOutcome, Fault> {
        let install = install?;
        self.readable()?;
        for _ in 0..GRANT_TRIES {
            match self.try_install(&install) {
                Err(Fault::Refused(Refusal::NeedsGrant)) => {
                    if !self.may_live(&install.to, install.generation).await? {
                        return Ok(InstallOutcome::Ended);
                    }
                    self.obtain_grant(&install.to, None).await?;
                }
                outcome => return outcome,
            }
        }
        Err(Fault::Unavailable(
            "the counter is being ended and created again".to_owned(),
        ))
    }

    /// Whether a generation lives: a grant would create a counter that has ended anew.
    pub(super) async fn may_live(&self, me: &CellAddress, generation: u64) -> Result<bool, Fault> {
        let counter = me.counter.clone();
        let root = self.call_root(&LookUp { counter }).await?;
        Ok(root.is_some_and(|root| root.generation == generation))
    }

    fn try_install(self: &Rc<Self>, install: &Install) -> Result<InstallOutcome, Fault> {
        let now_ms = self.host.now_ms();
        let write = KeyedWrite {
            generation: install.generation,
            seen: Some(SeenValue::default()),
            ..KeyedWrite::new(install.key.key, install.key.fingerprint)
        };
        let limits = self.limits_of(KeySource::Clients);
        let (outcome, changes) =
            self.decide(now_ms, KeySource::Clients, |state, known, changes| {
                let installed = (&write, &install.contents);
                let applied = state.install(installed, limits, now_ms, known.record, changes);
                applied.map_err(Fault::Refused)
            })?;
        if changes.hot {
            self.record_change(now_ms);
        }
        Ok(match outcome {
            KeyedOutcome::Counted(_) => InstallOutcome::Done,
            KeyedOutcome::Replayed(_) => InstallOutcome::Replayed,
            KeyedOutcome::Reused => InstallOutcome::Reused,
            KeyedOutcome::Full => InstallOutcome::Full,
            KeyedOutcome::BelowFloor => return Err(Fault::Refused(Refusal::HasFloor)),
            _ => InstallOutcome::Ended,
        })
    }
}

impl CellStore {
    /// Adds to contents what is in storage only: samples and breakdowns.
    fn with_stored(
        &self,
        mut contents: Contents,
        wanted: ContentsWanted,
    ) -> Result<Contents, Fault> {
        if !self.rows.has_schema() {
            return Ok(contents);
        }
        if wanted.samples {
            contents.samples = self.samples_by_hour()?;
        }
        if wanted.history {
            for name in breakdown::names_of(&self)? {
                let values = breakdown::read(&self, &name, None)?.values;
                contents.breakdowns.push((name, values));
            }
        }
        Ok(contents)
    }

    /// The samples of each hour; of each day, where those of hours would be too large for one answer.
    fn samples_by_hour(&self) -> Result<Vec<(i64, Vec<u8>)>, Fault> {
        let hours = RefCell::new(Vec::<(i64, Vec<u8>)>::new());
        let add = |step: Resolution, start: i64, samples: Vec<u8>| {
            let start = step.start_of(start);
            let mut hours = hours.borrow_mut();
            match hours.last_mut() {
                Some((last, held)) if *last == start => join_samples(held, samples),
                _ => hours.push((start, samples)),
            }
        };
        // Hours are older than all minutes, except for one hour that may be in both.
        for kind in [Kind::HourSamples, Kind::Samples] {
            for (start, body) in self.all(kind)? {
                add(Resolution::Hour, start, body);
            }
        }
        let bytes: usize = hours.borrow().iter().map(|(_, body)| body.len()).sum();
        if bytes > SAMPLES_BYTES_MAX {
            let all = hours.take();
            for (start, body) in all {
                add(Resolution::Day, start, body);
            }
        }
        Ok(hours.into_inner())
    }

    /// Writes the imported samples and breakdowns, within the import's commit.
    pub(super) fn put_installed(&self, changes: &Changes) -> Result<(), Fault> {
        for (hour, samples) in &changes.hour_samples {
            let mut held = self
                .get_bytes(Kind::HourSamples, *hour)?
                .unwrap_or_default();
            join_samples(&mut held, samples_from_rest(samples).to_bytes());
            self.put_bytes(Kind::HourSamples, *hour, held)?;
        }
        for (name, values) in &changes.breakdowns {
            let values: TopValues = values.clone();
            breakdown::install(&mut &*self, name, values)?;
        }
        Ok(())
    }
}
