//! Names that outlive the code: objects, bindings, variables. Each is written down once, here, and
//! pinned by a golden test, because data is found by them.

use serde::{Deserialize, Serialize};

use crate::core::board::placing::ShardAt;
use crate::core::cluster::region::location_hint;
use crate::core::cluster::tablets::Place;
use crate::core::counter::id::{CounterId, Datacenter};
use crate::core::counter::queue::InboxId;
use crate::protocol::alerts::AlertName;
use crate::protocol::limits::PolicyName;

/// Binding of the cells' namespace, class `Cell`.
pub const CELLS: &str = "CELLS";
/// Binding of the directory's namespace, class `Directory`.
pub const DIRECTORY: &str = "DIRECTORY";
/// Binding of the inboxes' namespace, class `Inbox`.
pub const INBOXES: &str = "INBOXES";
/// Binding of the limiters' namespace, class `Limiter`.
pub const LIMITERS: &str = "LIMITERS";
/// Binding of the watchers' namespace, class `Watcher`.
pub const WATCHERS: &str = "WATCHERS";
/// Binding of the tablets' namespace, class `Tablet`.
pub const TABLETS: &str = "TABLETS";
/// Binding of the namespace of what Redis's dialect owns, class `Keyspace`.
pub const KEYSPACES: &str = "KEYSPACES";
/// Binding of the boards' namespace, class `Board`.
pub const BOARDS: &str = "BOARDS";
/// Binding of the global aggregator Worker on the edge.
pub const AGGREGATOR: &str = "AGGREGATOR";
/// Binding of a queue of the platform on the edge, where the deployment has one: queued events go there.
pub const QUEUE: &str = "TALLY_QUEUE";
/// Variable that tells the two Workers of the one module apart.
pub const ROLE: &str = "TALLY_ROLE";
/// Value of [`ROLE`] for the global aggregator; anything else is the edge.
pub const ROLE_AGGREGATOR: &str = "aggregator";
/// Variable that lets everybody in, when it is [`ACCESS_OPEN`]; set only by the local commands.
pub const ACCESS: &str = "TALLY_ACCESS";
/// Value of [`ACCESS`] on a loopback address without keys.
pub const ACCESS_OPEN: &str = "open";
/// Secret with keys and public entries, JSON.
pub const KEYS: &str = "TALLY_KEYS";
/// Secret key of the hash of unique elements: 32 hexadecimal digits. Optional.
pub const HASH_KEY: &str = "TALLY_HASH_KEY";
/// Variable of the edge: the header that holds a client's address, where a proxy of the deployment's own writes it. Optional.
pub const CLIENT_ADDRESS_HEADER: &str = "TALLY_CLIENT_ADDRESS_HEADER";
/// Variable of the edge: to how many significant digits readers without a key see uniques; of the aggregator: to how many
/// all who watch streams do. Optional.
pub const UNIQUES_ROUNDING: &str = "TALLY_UNIQUES_ROUNDING";

/// Variable of the edge: whether a datacenter is a colo, or by [`DATACENTERS_REGION`] a region of colos; or there is but
/// one, by [`DATACENTERS_ONE`].
pub const DATACENTERS: &str = "TALLY_DATACENTERS";
/// Its value that joins the colos of a region into one datacenter.
pub const DATACENTERS_REGION: &str = "region";
/// Its value for a deployment in one place: all requests enter at `LOCAL`, whatever the platform says of them.
pub const DATACENTERS_ONE: &str = "one";
/// How long each 64 KiB of a bulk body may take to arrive, milliseconds.
pub const BODY_PIECE_MS: &str = "TALLY_BODY_PIECE_MS";
/// How many calls an invocation may make, where the platform gives another number than 10,000: a bulk body names as many
/// counters as they allow.
pub const SUBREQUESTS: &str = "TALLY_SUBREQUESTS";
/// How many objects each edge, and the aggregator, may have open at once, where one process has them all; nothing bounds them
/// without.
pub const OPEN_OBJECTS_MAX: &str = "TALLY_OPEN_OBJECTS_MAX";
/// Flushes a second of one cell from which on a datacenter splits. Optional, on the aggregator.
pub const SPLIT_FLUSHES_PER_SECOND: &str = "TALLY_SPLIT_FLUSHES_PER_SECOND";
/// How long a datacenter must be quiet before its shards are halved. Optional, on the aggregator.
pub const QUIET_MS: &str = "TALLY_QUIET_MS";
/// Messages a second of one lead that cannot be split, from which on it leaves its tablet. Optional, on the aggregator.
pub const LEAVE_PER_SECOND: &str = "TALLY_LEAVE_PER_SECOND";
/// Variable: how long idempotency keys are kept, in seconds.
pub const IDEMPOTENCY_SECONDS: &str = "TALLY_IDEMPOTENCY_SECONDS";
/// Variable: where a key is looked for, [`IDEMPOTENCY_DATACENTER`] or everywhere.
pub const IDEMPOTENCY: &str = "TALLY_IDEMPOTENCY";
/// Its value where clients always come back to the same datacenter: no key is claimed at the root.
pub const IDEMPOTENCY_DATACENTER: &str = "datacenter";

/// Partitions of the directory where [`DIRECTORY_COUNT`] says nothing: each an object of about 1,000 requests/s, so 16 take 16,000 first
/// writes, settings and uncached reads a second.
pub const DIRECTORY_PARTITIONS: u32 = 16;

/// Variable of both Workers: how many partitions the directory has; [`DIRECTORY_PARTITIONS`] without it.
pub const DIRECTORY_COUNT: &str = "TALLY_DIRECTORY";

/// Limiters of each datacenter, and of the world, where [`LIMITER_COUNT`] says nothing: each judges about 1,000 messages/s, and
/// a message holds what a whole isolate asks at once.
pub const LIMITER_PARTITIONS: u32 = 8;

/// Variable of both Workers: how many limiters the keys of a datacenter are spread over.
pub const LIMITER_COUNT: &str = "TALLY_LIMITERS";

/// Variable of the aggregator: how many there were before, for as long as what was used there counts. A key that a limiter
/// does not know is then looked for in its old place.
pub const LIMITER_COUNT_BEFORE: &str = "TALLY_LIMITERS_BEFORE";

/// Variable of both Workers: how many tablets of a datacenter host the leads of its counters. Without it each lead has an object of
/// its own.
pub const TABLET_COUNT: &str = "TALLY_TABLETS";

/// Variable of the edge: where Redis's dialect is answered besides `/redis`: [`REDIS_ROOT`], or the name of a host that is its own.
pub const REDIS: &str = "TALLY_REDIS";
/// Its value where the dialect is answered at the root too, as clients ask that know but an address.
pub const REDIS_ROOT: &str = "root";

/// Variable of the aggregator: when snapshots are made, and how long they are kept.
pub const SNAPSHOTS: &str = "TALLY_SNAPSHOTS";
/// Binding of a bucket of the platform on the aggregator, where the deployment has one: snapshots go there.
pub const SNAPSHOTS_BUCKET: &str = "TALLY_SNAPSHOTS_BUCKET";
/// Binding of a folder on plain workerd, to which they go where there is no bucket.
pub const SNAPSHOTS_FOLDER: &str = "TALLY_SNAPSHOTS_FOLDER";

/// Variable of the aggregator: streams of one hub; more than that go to another.
pub const LIVE_WATCHERS: &str = "TALLY_LIVE_WATCHERS";

/// Binding of a data set of Analytics Engine on both Workers, where the deployment has one: what isolates count goes there too.
pub const ANALYTICS: &str = "TALLY_ANALYTICS";

/// Variable of the edge: [`CANARY_ON`] has each datacenter with traffic write a counter of the service's own once a minute, and measure
/// when all see it.
pub const CANARY: &str = "TALLY_CANARY";
/// Its value that does so.
pub const CANARY_ON: &str = "on";

/// The service's own counter that is written to see how fast datacenters agree.
pub fn canary() -> Option<CounterId> {
    CounterId::own("canary").ok()
}

/// Variable of both Workers: inner addresses that webhooks of alerts may have, a JSON array of networks and names.
pub const ALERTS_ALLOW: &str = "TALLY_ALERTS_ALLOW";

/// Which cell: a counter, a datacenter, a shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellAddress {
    /// The counter.
    pub counter: CounterId,
    /// The datacenter.
    pub datacenter: Datacenter,
    /// The shard, 0 for the lead.
    pub shard: u8,
}

impl CellAddress {
    /// The lead of a counter in a datacenter.
    pub fn lead(counter: &CounterId, datacenter: &Datacenter) -> Self {
        Self {
            counter: counter.clone(),
            datacenter: datacenter.clone(),
            shard: 0,
        }
    }

    /// Another shard of the same datacenter.
    pub fn sibling(&self, shard: u8) -> Self {
        Self {
            shard,
            ..self.clone()
        }
    }

    /// Whether it is the lead.
    pub fn is_lead(&self) -> bool {
        self.shard == 0
    }
}

/// Who receives a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address<'a> {
    /// The partition of the directory that holds a counter's root.
    Root(&'a CounterId),
    /// The partition of the directory that holds an alert.
    Alert(&'a AlertName),
    /// A partition of the directory.
    Directory(u32),
    /// A cell.
    Cell(&'a CellAddress),
    /// The lead of a counter in a datacenter.
    Lead(&'a CounterId, &'a Datacenter),
    /// The lead of a counter in a datacenter, at one of the places where it may live.
    LeadAt(&'a LeadAt),
    /// A tablet.
    Tablet(&'a TabletAddress),
    /// An inbox.
    Inbox(&'a InboxId),
    /// A limiter.
    Limiter(&'a LimiterAddress),
    /// A board: its owner or one of its shards; and the datacenter near which that is created, as far as known.
    Board(&'a CounterId, ShardAt, Option<&'a Datacenter>),
    /// The lookout of a partition of the directory's ring.
    Lookout(u32),
    /// A hub of the region of a datacenter, by its number.
    Hub(&'a Datacenter, u32),
    /// The owner of all keys of Redis's dialect.
    Keyspace,
    /// The global aggregator.
    Aggregator,
}

/// Where an object is found, and where it is created if it is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Binding of its namespace.
    pub binding: &'static str,
    /// Its name in the namespace.
    pub name: String,
    /// Location hint for its creation; `None` leaves it near the first caller.
    pub location_hint: Option<&'static str>,
}

/// The placement of a cell: near its datacenter. The counter stands last in the name, since it
/// alone may hold any character.
pub fn cell(address: &CellAddress) -> Placement {
    let CellAddress {
        counter,
        datacenter,
        shard,
    } = address;
    Placement {
        binding: CELLS,
        name: format!("c1/{datacenter}/{shard}/{counter}"),
        location_hint: location_hint(datacenter),
    }
}

/// Which tablet: an object that hosts the leads of many counters of a datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TabletAddress {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// Its number, below [`TABLET_COUNT`].
    pub number: u32,
}

/// The lead of a counter in a datacenter, at one of the places where it may live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadAt {
    /// The counter.
    pub counter: CounterId,
    /// The datacenter.
    pub datacenter: Datacenter,
    /// The place.
    pub place: Place,
}

/// The placement of a lead's place.
pub fn lead_at(lead: &LeadAt) -> Placement {
    let LeadAt {
        counter,
        datacenter,
        place,
    } = lead;
    match place {
        Place::Own => cell(&CellAddress::lead(counter, datacenter)),
        Place::Tablet(number) => tablet(&TabletAddress {
            datacenter: datacenter.clone(),
            number: *number,
        }),
    }
}

/// The placement of a tablet: near its datacenter.
pub fn tablet(tablet: &TabletAddress) -> Placement {
    let TabletAddress { datacenter, number } = tablet;
    Placement {
        binding: TABLETS,
        name: format!("t1/{datacenter}/{number}"),
        location_hint: location_hint(datacenter),
    }
}

/// The placement of a partition of the directory.
pub fn directory(partition: u32) -> Placement {
    Placement {
        binding: DIRECTORY,
        name: format!("d1/{partition}"),
        location_hint: None,
    }
}

/// The placement of an inbox: near its datacenter.
pub fn inbox(inbox: &InboxId) -> Placement {
    let InboxId { datacenter, number } = inbox;
    Placement {
        binding: INBOXES,
        name: format!("i1/{datacenter}/{number}"),
        location_hint: location_hint(datacenter),
    }
}

/// Which limiter: one partition of the keys of a datacenter, or of those that the world shares.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LimiterAddress {
    /// The datacenter; `None` for the world.
    pub datacenter: Option<Datacenter>,
    /// The partition, below [`LIMITER_PARTITIONS`].
    pub partition: u32,
}

/// What a key's prefix must begin with to be about limits: ids of counters, and limits, share one space of names for
/// access.
pub const LIMIT_RIGHTS: &str = "limits/";

/// The name that access to a limit is asked for: `limits/{policy}/{key}`.
pub fn limit_right(policy: &PolicyName, key: Option<&CounterId>) -> String {
    let key = key.map_or("", CounterId::as_str);
    [LIMIT_RIGHTS, policy.as_str(), "/", key].concat()
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// It was allowed.
    Allowed,
    /// It was refused.
    Refused,
    /// No limiter could be reached.
    Error,
}

impl VerdictKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Allowed, Self::Refused, Self::Error];
}

/// The service's own counter of the checks of a stored policy that came to this.
pub fn verdicts(policy: &PolicyName, kind: VerdictKind) -> Option<CounterId> {
    let kind = match kind {
        VerdictKind::Allowed => "allowed",
        VerdictKind::Refused => "refused",
        VerdictKind::Error => "error",
    };
    CounterId::own(&[LIMIT_RIGHTS, policy.as_str(), "/", kind].concat()).ok()
}

/// The placement of a limiter: near its datacenter; that of the world near whoever asks first.
pub fn limiter(address: &LimiterAddress) -> Placement {
    let LimiterAddress {
        datacenter,
        partition,
    } = address;
    let (name, location_hint) = match datacenter {
        Some(datacenter) => (
            format!("l1/{datacenter}/{partition}"),
            location_hint(datacenter),
        ),
        None => (format!("g1/{partition}"), None),
    };
    Placement {
        binding: LIMITERS,
        name,
        location_hint,
    }
}

/// The placement of an object of a board: near its home, or else near whoever asks for it first.
pub fn board(board: &CounterId, at: ShardAt, home: Option<&Datacenter>) -> Placement {
    let ShardAt { layout, shard } = at;
    Placement {
        binding: BOARDS,
        name: match layout {
            0 => format!("b1/{board}"),
            _ => format!("b2/{layout}/{shard}/{board}"),
        },
        location_hint: home.and_then(location_hint),
    }
}

/// The placement of the owner of all keys of Redis's dialect: one, as a Redis is, so that no command and no transaction is about keys of
/// several. Near whoever asks first.
pub fn keyspace() -> Placement {
    Placement {
        binding: KEYSPACES,
        name: "r1/0".to_owned(),
        location_hint: None,
    }
}

/// The placement of a lookout: it reads the watched counters of one partition of the directory's ring, near whoever asks first.
pub fn lookout(partition: u32) -> Placement {
    Placement {
        binding: WATCHERS,
        name: format!("w1/{partition}"),
        location_hint: None,
    }
}

/// The placement of a hub: it holds the streams of watchers of a region, in order of its number. Where the platform names no
/// region there is one for all.
pub fn hub(region: Option<&'static str>, number: u32) -> Placement {
    Placement {
        binding: WATCHERS,
        name: format!("h1/{}/{number}", region.unwrap_or("any")),
        location_hint: region,
    }
}
