//! Messages of convergence: the pushes of leads to their root, and subscriptions to them.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::{Address, CellAddress};
use tally_core::cluster::delta::{Basis, ReceiverState};
use tally_core::cluster::push;
use tally_core::cluster::root::Root;
use tally_core::cluster::view::ViewAtRest;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::{CounterId, Datacenter};

calls! {
    PushView => push::PushAnswer, "/push", |it| Address::Root(&it.counter);
    WatchLead => (), "/watch", |it| Address::Cell(&it.to);
    ReportLead => Option<PushView>, "/report-lead", |it| Address::Cell(&it.to);
    ViewOf => Option<ViewAnswer>, "/view", |it| Address::Root(&it.counter);
    AskGrant => Option<Grant>, "/held", |it| Address::Cell(&it.to);
}

/// Lead → root: changes of a datacenter that the root may lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushView {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// The changes.
    pub push: push::Push,
    /// No increment of the datacenter has a later time. Unix milliseconds; `None` where the lead does not know.
    pub newest_count_ms: Option<i64>,
    /// Whether lists and tops must contain it as soon as it is answered, see [`ReportLead`].
    pub is_report: bool,
}

/// Root → lead: a reader elsewhere watches the counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchLead {
    /// The lead.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
    /// For how long, milliseconds.
    pub for_ms: u32,
}

/// Edge → lead: report what the root has not confirmed, so that what a bulk body counted is in every list and top that
/// is requested after the body's answer. The answer is a push for the edge to send together with others. Or it is none:
/// there is nothing to report, or the lead has pushed and the root has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLead {
    /// The lead.
    pub to: CellAddress,
    /// Whether the edge can send the push.
    pub wants_push: bool,
}

/// Largest encoded elements of a push that a lead gives to an edge, bytes. An edge keeps the pushes of 4,900 counters.
pub const LENT_BYTES_MAX: usize = 2_048;

impl PushView {
    /// Whether an edge may send it: it is small, and its root has no question to its lead.
    pub fn is_lendable(&self) -> bool {
        let delta = &self.push.delta;
        let bytes: usize = delta.uniques.iter().map(|(_, packed)| packed.len()).sum();
        delta.basis != Basis::Unclear && bytes <= LENT_BYTES_MAX
    }

    /// Whether the root has all of it, by its answer.
    pub fn is_taken(&self, answer: &push::PushAnswer) -> bool {
        let own = self.push.delta.mark;
        matches!(answer.have, ReceiverState::All(mark)
            if mark.incarnation == own.incarnation && mark.revision >= own.revision)
    }
}

/// Aggregator → root: asks what it knows of a counter's datacenters. `None` where there is no such counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewOf {
    /// The counter.
    pub counter: CounterId,
    /// Whether the sender will ask again, so that the leads should push changes.
    pub watches: bool,
    /// Whether the view is wanted even if only one datacenter counts. It is set when that datacenter did not answer.
    pub of_one: bool,
}

/// What a root knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewAnswer {
    /// The root.
    pub root: Root,
    /// What the datacenters have pushed. `None` for a watcher of a counter that only one datacenter counts: that
    /// datacenter can be asked as fast.
    pub view: Option<ViewAtRest>,
    /// Whether reachable leads have known for a while that somebody watches. If so, a lead that has not pushed lately
    /// is unreachable.
    pub is_watched: bool,
    /// The time of the answer, unix milliseconds by the root's clock: the age of pushes is relative to it, not to the
    /// reader's clock.
    pub now_ms: i64,
}

/// Root → lead: asks for the grant under which it counts. `None` where it counts nothing. A root without a row asks
/// this before it creates a counter, because its row may have been lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskGrant {
    /// The lead.
    pub to: CellAddress,
}
