//! Reads of a partition's snapshots: of one counter on some days, of many on one day.
//!
//! Invariant: a value is read from the newest run that has it, of a complete chain. If a needed file is missing or
//! damaged, there is no answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::snapshots::{FILES_AT_ONCE, Snapshots};
use tally_api::number::Estimate;
use tally_core::cluster::top_order::KnownUniques;
use tally_core::counter::id::CounterId;
use tally_core::order::map_of;
use tally_shared::concurrency::all_settled;
use tally_shared::partitions::ask_some;
use tally_wire::messages::{
    Fault, ListAllPastStates, ListPastStates, PastState, PastStatePage, PastStateRow,
    ReadOwnPastStates, ReadPastStates,
};
use tally_wire::snapshot::{
    Manifest, PartEntry, PartOf, RunOf, SnapshotCounter, chain_of, date_of, read_part,
};

/// The estimate of a stored counter.
fn estimate_of(kept: &SnapshotCounter) -> Option<KnownUniques> {
    Estimate::of(&kept.uniques).map(|estimate| KnownUniques {
        estimate: estimate.estimate,
        standard_error: estimate.standard_error,
        epochs: u64::try_from(estimate.epochs).unwrap_or(u64::MAX),
    })
}

/// The state of a counter in an answer.
fn past_state((run, mut kept): (RunOf, Option<SnapshotCounter>)) -> PastState {
    let uniques = kept.as_ref().and_then(estimate_of);
    if let Some(kept) = &mut kept {
        kept.uniques = Default::default();
    }
    PastState { run, kept, uniques }
}

/// The newest run on or before a day.
fn run_on(runs: &BTreeMap<u64, RunOf>, day: i64) -> Option<RunOf> {
    runs.values().rev().find(|run| run.day <= day).copied()
}

/// The states of a counter from several partitions, day by day: each from the partition that had the counter then, if
/// any.
fn kept_by_any(states: impl Iterator<Item = PastState>) -> Vec<PastState> {
    let mut days: BTreeMap<i64, PastState> = BTreeMap::new();
    for then in states {
        let is_better = days
            .get(&then.run.day)
            .is_none_or(|known| known.kept.is_none() && then.kept.is_some());
        if is_better {
            days.insert(then.run.day, then);
        }
    }
    days.into_values().collect()
}

/// The entry of a counter in a run: `None` if it has not changed.
type RunEntry = Option<Option<SnapshotCounter>>;

impl Snapshots {
    /// The chain of a run, the oldest first.
    ///
    /// # Errors
    /// `Unreadable` where one of them is missing.
    fn chain(&self, runs: &BTreeMap<u64, RunOf>, run: RunOf) -> Result<Vec<u64>, Fault> {
        chain_of(runs, run.run).ok_or_else(|| {
            Fault::Unreadable(format!(
                "the snapshot of {} needs an earlier one that is missing: put its files back from a copy, or read another day",
                date_of(run.day)
            ))
        })
    }

    fn needed(&self, run: u64) -> Result<Manifest, Fault> {
        let manifest = self.manifest(run)?;
        manifest.ok_or_else(|| Fault::Broken("a run has no manifest".to_owned()))
    }

    /// The counters of a file.
    async fn part(&self, run: RunOf, part: &PartOf) -> Result<Vec<PartEntry>, Fault> {
        let refuse = |what: &str| {
            Fault::Unreadable(format!(
                "the file {} of the snapshot of {} is {what}: put it back from a copy, or read another day",
                part.file,
                date_of(run.day)
            ))
        };
        let file = self.files()?.get(&part.file).await;
        let file = file.map_err(|why| {
            Fault::Unavailable(format!("the file {} does not come: {why}", part.file))
        })?;
        let file = file.ok_or_else(|| refuse("missing"))?;
        let entries = read_part(&file).map_err(|_| refuse("damaged"))?;
        let is_its = entries.len().try_into() == Ok(part.entries)
            && entries.first().map(|(id, _)| id.as_str()) == Some(part.first.as_str());
        is_its.then_some(entries).ok_or_else(|| refuse("another"))
    }

    /// The entry of a counter in a run.
    async fn run_entry(&self, run: u64, counter: &CounterId) -> Result<RunEntry, Fault> {
        let manifest = self.needed(run)?;
        let Some(part) = manifest.part_of(counter.as_str()) else {
            return Ok(None);
        };
        let mut entries = self.part(manifest.run, part).await?;
        let index = entries.binary_search_by(|(id, _)| id.cmp(counter));
        Ok(index.ok().map(|index| entries.swap_remove(index).1))
    }

    /// The state of a counter in the last run on or before a day, with that run: `None` where it did not exist, and
    /// where there is no run.
    ///
    /// # Errors
    /// `Unreadable` where a needed file cannot be read, `Unavailable`; as for all methods below.
    pub(super) async fn kept_by(
        &self,
        counter: &CounterId,
        day: i64,
    ) -> Result<Option<(RunOf, Option<SnapshotCounter>)>, Fault> {
        let runs = self.runs().await?;
        let Some(run) = run_on(&runs, day) else {
            return Ok(None);
        };
        // A file of an earlier run is not needed if a later one has the counter.
        for number in self.chain(&runs, run)?.into_iter().rev() {
            if let Some(kept) = self.run_entry(number, counter).await? {
                return Ok(Some((run, kept)));
            }
        }
        Ok(Some((run, None)))
    }

    /// The states of a counter on some days, from the partitions that had its root then. If the number of partitions
    /// was changed, or the files are of a deployment with more partitions, its root may have been in another one. The
    /// files of that time are there.
    pub(crate) async fn on_any(&self, message: ReadPastStates) -> Result<Vec<PastState>, Fault> {
        let own = self.on(message.clone()).await?;
        let has_all = !own.is_empty() && own.iter().all(|then| then.kept.is_some());
        if self.places.is_ever_plain()? || (has_all && !message.is_range) {
            return Ok(own);
        }
        let others = 0..self.places.ever()?;
        let others = others.filter(|partition| !self.places.is_me(*partition));
        let ask = |partition: u32| ReadOwnPastStates {
            partition,
            query: message.clone(),
        };
        let answered = ask_some(&self.host, others, ask).await;
        match answered.fault {
            // The missing state may be the requested one.
            Some(fault) => Err(fault),
            None => {
                let states = answered.answers.into_iter().flat_map(|(_, states)| states);
                let mut days = kept_by_any(own.into_iter().chain(states));
                // The latest one is the state on a day, or before.
                let first = if message.is_range {
                    0
                } else {
                    days.len().saturating_sub(1)
                };
                days.drain(..first);
                Ok(days)
            }
        }
    }

    /// The state of a counter on some days.
    pub(crate) async fn on(&self, request: ReadPastStates) -> Result<Vec<PastState>, Fault> {
        let ReadPastStates {
            counter,
            first,
            last,
            is_range,
        } = request;
        if !is_range {
            let known = self.kept_by(&counter, last).await?;
            return Ok(known.into_iter().map(past_state).collect());
        }
        let runs = self.runs().await?;
        let of_days = runs
            .values()
            .filter(|run| (first..=last).contains(&run.day));
        let wanted = map_of(of_days.map(|run| (run.day, *run)));
        let mut chains = Vec::new();
        for run in wanted.into_values() {
            chains.push((run, self.chain(&runs, run)?));
        }
        let needed: BTreeSet<u64> = chains
            .iter()
            .flat_map(|(_, chain)| chain)
            .copied()
            .collect();
        let read = |run: u64| {
            let counter = &counter;
            async move { (run, self.run_entry(run, counter).await) }
        };
        let entries = all_settled(needed.into_iter().map(read), FILES_AT_ONCE).await;
        let entries = map_of(entries);
        let mut days = Vec::new();
        for (run, chain) in chains {
            let mut kept = None;
            for number in chain.iter().rev() {
                match entries.get(number) {
                    Some(Err(fault)) => return Err(fault.clone()),
                    Some(Ok(Some(then))) => {
                        kept = then.clone();
                        break;
                    }
                    _ => {}
                }
            }
            days.push(past_state((run, kept)));
        }
        Ok(days)
    }

    /// The state of counters on a day, in order of their names.
    pub(crate) async fn rows(&self, request: ListPastStates) -> Result<PastStatePage, Fault> {
        let ListAllPastStates {
            day,
            prefix,
            after,
            limit,
            uniques,
        } = request.query;
        let runs = self.runs().await?;
        let Some(run) = run_on(&runs, day) else {
            return Ok(PastStatePage {
                ever: self.places.ever()?,
                ..PastStatePage::default()
            });
        };
        let after = after.unwrap_or_default();
        let mut readers = Vec::new();
        // The newest first, because it takes precedence.
        for run in self.chain(&runs, run)?.into_iter().rev() {
            readers.push(Reader::new(self.needed(run)?, &prefix, &after));
        }
        let page_size = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut page = PastStatePage {
            run: Some(run),
            ever: self.places.ever()?,
            ..PastStatePage::default()
        };
        loop {
            for reader in &mut readers {
                reader.fill(self).await?;
            }
            let next = readers.iter().filter_map(Reader::next).min().cloned();
            let Some(next) = next.filter(|next| next.as_str().starts_with(&prefix)) else {
                return Ok(page);
            };
            let mut states = readers.iter_mut().filter_map(|reader| reader.take(&next));
            let newest = states.next().flatten();
            // The states in earlier runs are dropped.
            states.for_each(drop);
            let Some(mut kept) = newest else { continue };
            if page.rows.len() >= page_size {
                page.has_more = true;
                return Ok(page);
            }
            let estimate = estimate_of(&kept);
            if !uniques {
                kept.uniques = Default::default();
            }
            page.rows.push(PastStateRow {
                counter: next,
                kept,
                uniques: estimate,
            });
        }
    }
}

/// Reads the counters of a run in order, one file at a time.
struct Reader {
    manifest: Manifest,
    /// The next file.
    part: usize,
    from: (String, String),
    entries: VecDeque<PartEntry>,
}

impl Reader {
    fn new(manifest: Manifest, prefix: &str, after: &str) -> Self {
        let start = prefix.max(after);
        let part = manifest
            .parts
            .partition_point(|part| part.last.as_str() < start);
        Self {
            part,
            from: (prefix.to_owned(), after.to_owned()),
            entries: VecDeque::new(),
            manifest,
        }
    }

    /// Reads the next file once the one before is used up.
    async fn fill(&mut self, snapshots: &Snapshots) -> Result<(), Fault> {
        while self.entries.is_empty() {
            let Some(part) = self.manifest.parts.get(self.part) else {
                return Ok(());
            };
            let (prefix, after) = &self.from;
            let is_past =
                part.first.as_str() > prefix.as_str() && !part.first.starts_with(prefix.as_str());
            if is_past {
                return Ok(());
            }
            let entries = snapshots.part(self.manifest.run, part).await?;
            let is_wanted = |(id, _): &PartEntry| {
                let id = id.as_str();
                id >= prefix.as_str() && id > after.as_str() && id.starts_with(prefix.as_str())
            };
            self.entries = entries.into_iter().filter(is_wanted).collect();
            self.part += 1;
        }
        Ok(())
    }

    fn next(&self) -> Option<&CounterId> {
        self.entries.front().map(|(id, _)| id)
    }

    /// The entry of a counter in the run, if it is the next one.
    fn take(&mut self, id: &CounterId) -> RunEntry {
        let is_it = self.next() == Some(id);
        let entry = is_it.then(|| self.entries.pop_front()).flatten();
        entry.map(|(_, kept)| kept)
    }
}
