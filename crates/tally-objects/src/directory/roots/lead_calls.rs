//! Calls to leads: of a root to those of its counter, many at once, and to one that is to take over at its place.

use std::rc::Rc;

use crate::kit::outbox::Outbox;
use tally_core::cluster::root::Root;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::merge::Part;
use tally_host::Host;
use tally_shared::call::call_within;
use tally_shared::concurrency::all_settled;
use tally_shared::open_objects;
use tally_wire::messages::{CallLead, Fault, ReadParts, SumDatacenter, Suspend};
use tally_wire::names::{CellAddress, LeadAt};

/// How many leads are called at once for one counter.
pub(crate) const LEADS_AT_ONCE: usize = 64;

/// How long a lead waits until one more object may be open, milliseconds.
const ROOM_MS_MAX: i64 = 2_000;

/// How long a lead may take to move, milliseconds; a slower one continues, and is checked again.
const TAKE_MS_MAX: u64 = 2_000;

/// Stops leads. Returns those that did not answer.
pub(crate) async fn suspend(
    outbox: &Rc<Outbox>,
    counter: &CounterId,
    root: &Root,
    datacenters: &[Datacenter],
) -> Vec<Datacenter> {
    let generation = root.generation;
    let suspend_lead = |datacenter: &Datacenter| {
        let to = CellAddress::lead(counter, datacenter);
        let suspend = Suspend { to, generation };
        async move {
            let answer = outbox.notify(&suspend).await;
            answer.err().map(|_| suspend.to.datacenter)
        }
    };
    let answers = all_settled(datacenters.iter().map(suspend_lead), LEADS_AT_ONCE).await;
    answers.into_iter().flatten().collect()
}

/// Sums datacenters; `None` for one that does not answer with all of its shards.
pub(crate) async fn sums(
    outbox: &Rc<Outbox>,
    counter: &CounterId,
    root: &Root,
    datacenters: &[Datacenter],
    wanted: ReadParts,
) -> Vec<(Datacenter, Option<Part>)> {
    let question = wanted.of(root.generation);
    let ask = |datacenter: &Datacenter| {
        let to = CellAddress::lead(counter, datacenter);
        async move {
            let ask = SumDatacenter::new(to, question);
            let sum = outbox.notify(&ask).await.ok();
            (ask.to.datacenter, sum.filter(|sum| sum.missing.is_empty()))
        }
    };
    all_settled(datacenters.iter().map(ask), LEADS_AT_ONCE).await
}

/// The fault where a needed lead does not answer.
pub(crate) fn silent(datacenter: &Datacenter) -> Fault {
    Fault::Unavailable(format!(
        "datacenter {datacenter} does not answer, and this needs it; nothing was changed"
    ))
}

/// Has a lead taken over at its place.
pub(crate) async fn take_over(host: &Host, at: LeadAt) -> Result<(), Fault> {
    if at.place == LeadPlace::Own {
        let lead = CellAddress::lead(&at.counter, &at.datacenter);
        open_objects::room_of_own(host, &lead, host.now_ms() + ROOM_MS_MAX).await?;
    }
    let take = CallLead::take(at);
    call_within(host, &take, TAKE_MS_MAX).await.map(drop)
}
