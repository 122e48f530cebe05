//! Messages of convergence: what leads tell the root of their datacenters, and who watches.

use serde::{Deserialize, Serialize};

use super::Call;
use crate::core::cluster::push;
use crate::core::cluster::root::Root;
use crate::core::cluster::view::ViewAtRest;
use crate::core::counter::grant::Grant;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::protocol::names::{Address, CellAddress};

calls! {
    Push => push::Pushed, "/push", |it| Address::Root(&it.counter), lacks (0, 1);
    WatchLead => (), "/watch", |it| Address::Cell(&it.to);
    ViewOf => Option<Viewed>, "/view", |it| Address::Root(&it.counter), lacks (0, 2);
    Held => Option<Grant>, "/held", |it| Address::Cell(&it.to);
}

/// Lead → root: what you may lack of my datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Push {
    /// The counter.
    pub counter: CounterId,
    /// The lead's datacenter.
    pub datacenter: Datacenter,
    /// What changed.
    pub push: push::Push,
}

/// Root → lead: somebody elsewhere watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchLead {
    /// The lead.
    pub to: CellAddress,
    /// The generation.
    pub generation: u64,
    /// For how long, milliseconds.
    pub for_ms: u32,
}

/// Aggregator → root: what do you know of a counter's datacenters? `None` where there is no such counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewOf {
    /// The counter.
    pub counter: CounterId,
    /// Whether the asker goes on asking, so that the leads should push what changes.
    pub watches: bool,
    /// Whether it is wanted of a counter that one datacenter counts, too: that one did not answer.
    pub of_one: bool,
}

/// What a root knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewed {
    /// The root.
    pub root: Root,
    /// What it has heard of the datacenters. `None` for a watcher of a counter that one datacenter counts: that
    /// one is asked as fast.
    pub view: Option<ViewAtRest>,
    /// Whether leads that can be reached have known for a while that somebody watches: one that has not pushed lately is away. The
    /// protocol before may lack this and what follows: then no lead is known to be away, none has pushed lately, and each is asked.
    pub is_watched: bool,
    /// When that is, unix milliseconds by the root's clock: how long ago leads have pushed is told by it, whatever the reader's says.
    pub now_ms: i64,
}

/// Root → lead: for what do you count? `None` where it counts nothing. A root that knows nothing of a counter asks
/// before it creates one, since its row may have been lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The lead.
    pub to: CellAddress,
}
