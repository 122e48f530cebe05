//! Messages of convergence: the pushes of leads to their root, and subscriptions to them.

use serde::{Deserialize, Serialize};

use super::call::Call;
use crate::names::{Address, CellAddress};
use tally_core::cluster::push;
use tally_core::cluster::root::Root;
use tally_core::cluster::view::ViewAtRest;
use tally_core::counter::grant::Grant;
use tally_core::counter::id::{CounterId, Datacenter};

calls! {
    PushView => push::PushAnswer, "/push", |it| Address::Root(&it.counter);
    WatchLead => (), "/watch", |it| Address::Cell(&it.to);
    ReportLead => (), "/report-lead", |it| Address::Cell(&it.to);
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

/// Edge → lead: push to the root what the root has not confirmed. The answer comes once the root has answered, so that
/// what a bulk body counted is in every list and top that is requested after the body's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLead {
    /// The lead.
    pub to: CellAddress,
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
