//! Counters of an import: each is created, then filled, each step once.

use super::import::{Import, STEP_AGAIN_MS, STEP_TRIES};
use crate::kit::isolate;
use crate::read::cache;
use crate::read::last_seen;
use crate::write::administration;
use tally_api::export::{CounterLine, ImportMode};
use tally_core::counter::contents::Contents;
use tally_core::counter::flush::Refusal;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::total::{Sum, Value};
use tally_core::isolate::open_slots::ObjectUser;
use tally_core::sketch::Uniques;
use tally_host::Host;
use tally_shared::{call, call_within, open_objects};
use tally_wire::messages::{
    Done, Fault, IfExists, Install, InstallOutcome, Operate, Operation, OperationKey, RestoreSource,
};
use tally_wire::names::CellAddress;
use tally_wire::problem::{Code, Problem};
use tally_wire::shell_limits::OPERATE_MS_MAX;

/// Whether a line has sketches of a hash function that its settings do not allow.
fn has_other_hash(line: &CounterLine) -> bool {
    let own = line.settings.unique_hash.unwrap_or_default();
    let parts = line.datacenters.iter().map(|(_, part)| &part.uniques);
    let mut all = parts.chain([&line.uniques]);
    all.any(|sketches: &Uniques| sketches.hashes().iter().any(|hash| !own.takes(*hash)))
}

fn other_hash() -> Problem {
    let detail = "its sketches are of another `unique_hash` than the counter; bring them to a counter of theirs";
    Problem::new(Code::HashMismatch, detail)
}

/// Adds to the contents of the first datacenter; to the client's where there is none.
fn add_to_first(
    parts: &mut Vec<(Datacenter, Contents)>,
    here: &Datacenter,
    add: impl FnOnce(&mut Contents),
) {
    if parts.is_empty() {
        parts.push((here.clone(), Contents::default()));
    }
    if let Some((_, first)) = parts.first_mut() {
        add(first);
    }
}

/// Adds what a counter was set to, as increments and decrements of a datacenter.
fn add_base(parts: &mut Vec<(Datacenter, Contents)>, here: &Datacenter, base: Value) {
    let more = base.not_negative().unwrap_or(Sum::ZERO);
    let less = base.negated().not_negative().unwrap_or(Sum::ZERO);
    add_to_first(parts, here, |first| {
        first.added = first.added.plus(more);
        first.removed = first.removed.plus(less);
    });
    for (_, part) in parts {
        // The rest of its breakdowns was counted before the set, and does not count any more.
        let sums = part
            .breakdowns
            .iter()
            .map(|(_, values)| values.sum().into());
        let held = sums.fold(part.added, Sum::max);
        part.removed = part.removed.plus(held.minus(part.added));
        part.added = held;
    }
}

/// Drops this isolate's cached state of a counter.
pub(super) fn forget(host: &Host, id: &CounterId) {
    cache::forget(host, id);
    last_seen::forget(host, id);
    isolate::forget_home(host, id);
}

impl Import<'_> {
    /// Imports one counter, by the line with this number: two equal lines of a body are two imports. Returns whether
    /// all of it was done before under the key.
    pub(super) async fn counter(
        &self,
        number: u64,
        line: &[u8],
        counter: CounterLine,
    ) -> Result<bool, Problem> {
        let host = &self.context.host;
        if self.mode != ImportMode::Add && has_other_hash(&counter) {
            return Err(other_hash());
        }
        let CounterLine {
            id,
            settings,
            ttl_set_at_ms,
            created_at_ms,
            base,
            datacenters,
            uniques,
        } = counter;
        let here = self.context.datacenter();
        let back = RestoreSource {
            if_there: match self.mode {
                ImportMode::Create => IfExists::Refuse,
                ImportMode::Replace => IfExists::Replace,
                ImportMode::Add => IfExists::Keep,
            },
            settings: settings.clone(),
            ttl_set_at_ms,
            created_at_ms,
            base,
        };
        let key = |step: &str| self.step_key(id.as_str(), &format!("{number}/{step}"), line);
        let done = self.operate(&id, back, key("begin")).await?;
        forget(host, &id);
        let mut was_done = done.is_repeat;
        let mut parts = datacenters;
        if !uniques.is_empty() {
            add_to_first(&mut parts, &here, |first| {
                first.uniques.merge(&uniques);
            });
        }
        // The value of an existing counter is not set: the set value in the line is added.
        if let Some(base) = base.filter(|_| !done.created && self.mode == ImportMode::Add) {
            add_base(&mut parts, &here, base);
        }
        for (datacenter, contents) in parts {
            let step = ["install/", datacenter.as_str()].concat();
            let to = (&id, done.generation);
            was_done &= self.install(to, datacenter, contents, key(&step)).await?;
        }
        let has_home_or_floor = settings.home.is_some() || settings.floor.is_some();
        if has_home_or_floor && (done.created || self.mode == ImportMode::Replace) {
            let back = RestoreSource {
                if_there: IfExists::PutSettings,
                settings,
                ttl_set_at_ms,
                created_at_ms: None,
                base: None,
            };
            was_done &= self.operate(&id, back, key("settings")).await?.is_repeat;
        }
        forget(host, &id);
        Ok(was_done)
    }

    pub(super) async fn operate(
        &self,
        id: &CounterId,
        back: RestoreSource,
        key: OperationKey,
    ) -> Result<Done, Problem> {
        let operate = Operate {
            counter: id.clone(),
            datacenter: self.context.datacenter(),
            operation: Operation::BringBack(Box::new(back)),
            key: Some(key),
            condition: None,
        };
        let mut tries = 1;
        loop {
            match call_within(&self.context.host, &operate, OPERATE_MS_MAX).await {
                Err(fault) if fault.is_passing() && tries < STEP_TRIES => {
                    tries += 1;
                    self.context.host.sleep_ms(STEP_AGAIN_MS).await;
                }
                operated => {
                    let done = administration::done_of(id, operated?)?;
                    let broken = |_| Problem::new(Code::Internal, "an import has no kept answer");
                    return done.map_err(broken);
                }
            }
        }
    }

    /// Writes contents into the lead of a counter's generation. Returns whether that was done before under the key.
    pub(super) async fn install(
        &self,
        (id, generation): (&CounterId, u64),
        datacenter: Datacenter,
        contents: Contents,
        key: OperationKey,
    ) -> Result<bool, Problem> {
        let host = &self.context.host;
        let mut install = Install {
            to: CellAddress::lead(id, &datacenter),
            generation,
            key,
            contents,
        };
        let mut tries = 1;
        loop {
            let room_ms = host.now_ms().saturating_add_unsigned(OPERATE_MS_MAX);
            let outcome =
                match open_objects::room(host, &install.to, ObjectUser::Change, room_ms).await {
                    Ok(()) => call(host, &install).await,
                    Err(fault) => Err(fault),
                };
            return match outcome {
                Ok(InstallOutcome::Done) => {
                    self.reports.add(id, &install.to.datacenter);
                    Ok(false)
                }
                Ok(InstallOutcome::Replayed) => Ok(true),
                Ok(InstallOutcome::Reused) => Err(Problem::new(
                    Code::IdempotencyKeyReused,
                    "this key was used for another line about this counter; send another key with another file",
                )),
                Ok(InstallOutcome::Full) => Err(Problem::new(
                    Code::Overloaded,
                    "too many keys are remembered here; try again later",
                )),
                Ok(InstallOutcome::Ended) => Err(Problem::new(
                    Code::CounterEnded,
                    "the counter was deleted while it was brought back",
                )),
                Err(Fault::Refused(Refusal::HasFloor)) => Err(Problem::new(
                    Code::BelowFloor,
                    "the value would fall below the counter's floor; parts of other datacenters may have been added",
                )),
                Err(Fault::Refused(Refusal::OtherHash(_))) => Err(other_hash()),
                // If all writes of a counter go to a home elsewhere, added contents go there too.
                Err(Fault::Elsewhere(home)) if home != install.to.datacenter => {
                    install.to = CellAddress::lead(id, &home);
                    continue;
                }
                Err(fault) if fault.is_passing() && tries < STEP_TRIES => {
                    tries += 1;
                    host.sleep_ms(STEP_AGAIN_MS).await;
                    continue;
                }
                Err(fault) => Err(Problem::from(fault)),
            };
        }
    }
}
