//! Names that outlive the code: objects, bindings, variables. Each is defined once, here, and pinned by a golden test,
//! because stored data is found by them.

pub mod alert;
pub mod object_at;
pub mod override_pattern;
pub mod policy;

use serde::{Deserialize, Serialize};

use self::alert::AlertName;
use self::policy::PolicyName;
use tally_core::board::placing::ShardAt;
use tally_core::cluster::region::location_hint;
use tally_core::cluster::tablets::LeadPlace;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::counter::queue::InboxId;

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
/// Binding of the keyspaces' namespace, class `Keyspace`.
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
/// Variable that allows everybody everything if it is [`ACCESS_OPEN`]. Only the local commands set it.
pub const ACCESS: &str = "TALLY_ACCESS";
/// Value of [`ACCESS`] on a loopback address without keys.
pub const ACCESS_OPEN: &str = "open";
/// Secret with keys and public entries, JSON.
pub const KEYS: &str = "TALLY_KEYS";
/// Secret key of the hash of unique elements: 32 hexadecimal digits. Optional.
pub const HASH_KEY: &str = "TALLY_HASH_KEY";
/// Variable of the edge: the header that holds a client's address, where a proxy of the deployment writes it. Optional.
pub const CLIENT_ADDRESS_HEADER: &str = "TALLY_CLIENT_ADDRESS_HEADER";
/// Variable: the number of significant digits of uniques. On the edge it is for readers without a key, on the
/// aggregator for all streams. Optional.
pub const UNIQUES_ROUNDING: &str = "TALLY_UNIQUES_ROUNDING";

/// Variable of the edge: what a datacenter is. By default it is a colo; with [`DATACENTERS_REGION`], a region of colos.
/// With [`DATACENTERS_ONE`] there is only one.
pub const DATACENTERS: &str = "TALLY_DATACENTERS";
/// Its value that joins the colos of a region into one datacenter.
pub const DATACENTERS_REGION: &str = "region";
/// Its value for a deployment in one location: all requests enter at `LOCAL`, whatever the platform reports.
pub const DATACENTERS_ONE: &str = "one";
/// How long each 64 KiB of a bulk body may take to arrive, milliseconds.
pub const BODY_PIECE_MS: &str = "TALLY_BODY_PIECE_TIMEOUT_MS";
/// How many calls an invocation may make, if the platform's limit is not 10,000. It bounds the counters of a bulk body.
pub const SUBREQUESTS: &str = "TALLY_SUBREQUESTS";
/// How many objects each edge, and the aggregator, may have open at once, where one process runs all of them. Without
/// it there is no bound.
pub const OPEN_OBJECTS_MAX: &str = "TALLY_OPEN_OBJECTS_MAX";

/// The network by which webhooks are reached whose hosts [`ALERTS_ALLOW`] names. `serve` binds it.
pub const NAMED_HOSTS: &str = "TALLY_NAMED_HOSTS";

/// When the process began, unix milliseconds: `serve` says so at each start.
pub const STARTED_AT: &str = "TALLY_STARTED_AT";
/// Flushes a second of one cell at which a datacenter gets more shards. Optional, on the aggregator.
pub const SPLIT_FLUSHES_PER_SECOND: &str = "TALLY_SPLIT_FLUSHES_PER_SECOND";
/// How long a datacenter must be idle before its shards are halved. Optional, on the aggregator.
pub const QUIET_MS: &str = "TALLY_MERGE_AFTER_MS";
/// The messages a second of one lead that cannot be split, from which on the lead leaves its tablet. Optional, on the
/// aggregator.
pub const LEAVE_PER_SECOND: &str = "TALLY_TABLET_MESSAGES_PER_SECOND_MAX";
/// Variable: for how many seconds buckets of one second are kept where a counter has no setting.
pub const SECONDS_KEPT: &str = "TALLY_SECONDS_KEPT";
/// Variable: how long idempotency keys are kept, in seconds.
pub const IDEMPOTENCY_SECONDS: &str = "TALLY_IDEMPOTENCY_SECONDS";
/// Variable: where a key is searched for, [`IDEMPOTENCY_DATACENTER`] or everywhere.
pub const IDEMPOTENCY: &str = "TALLY_IDEMPOTENCY";
/// Its value where clients always return to the same datacenter: no key is claimed at the root.
pub const IDEMPOTENCY_DATACENTER: &str = "datacenter";

/// The number of partitions of the directory without [`DIRECTORY_COUNT`]. Each is an object, which handles about 1,000
/// requests/s on the platform, so 16 handle 16,000 first writes, settings and uncached reads a second.
pub const DIRECTORY_PARTITIONS: u32 = 16;

/// Variable of both Workers: how many partitions the directory has; [`DIRECTORY_PARTITIONS`] without it.
pub const DIRECTORY_COUNT: &str = "TALLY_DIRECTORY_PARTITIONS";

/// The number of limiters of each datacenter, and of global ones, without [`LIMITER_COUNT`]. Each handles about 1,000
/// messages/s on the platform, and a message holds all concurrent checks of an isolate.
pub const LIMITER_PARTITIONS: u32 = 8;

/// Variable of both Workers: the number of limiters over which the keys of a datacenter are spread.
pub const LIMITER_COUNT: &str = "TALLY_LIMITERS";

/// Variable of the aggregator: the former number of limiters. It is set as long as consumption recorded at those
/// limiters counts. A limiter then asks the former limiter for each key that it does not know.
pub const LIMITER_COUNT_BEFORE: &str = "TALLY_LIMITERS_BEFORE";

/// Variable of both Workers: the number of tablets of a datacenter, which host the leads of its counters. Without it
/// each lead has an object of its own.
pub const TABLET_COUNT: &str = "TALLY_TABLETS";

/// Variable of the edge: where Redis's dialect is answered besides `/redis`. It is [`REDIS_ROOT`], or the name of a
/// host that serves only the dialect.
pub const REDIS: &str = "TALLY_REDIS";
/// Its value where the dialect is also answered at the root path, for clients that take only an address.
pub const REDIS_ROOT: &str = "root";

/// Variable of the aggregator: when snapshots are made, and how long they are kept.
pub const SNAPSHOTS: &str = "TALLY_SNAPSHOTS";
/// Binding of a bucket of the platform on the aggregator, where the deployment has one: snapshots go there.
pub const SNAPSHOTS_BUCKET: &str = "TALLY_SNAPSHOTS_BUCKET";
/// Binding of a folder on plain workerd, where snapshots go without a bucket.
pub const SNAPSHOTS_FOLDER: &str = "TALLY_SNAPSHOTS_FOLDER";

/// Variable of the aggregator: the most streams of one hub; further ones go to another hub.
pub const LIVE_WATCHERS: &str = "TALLY_LIVE_WATCHERS";

/// Binding of a data set of Analytics Engine on both Workers, where the deployment has one: isolates send their counts
/// there too.
pub const ANALYTICS: &str = "TALLY_ANALYTICS";

/// Variable of the edge: with [`CANARY_ON`] each datacenter with traffic writes a counter of the service's own once a
/// minute, and measures when all datacenters see the write.
pub const CANARY: &str = "TALLY_CANARY";
/// Its value that enables the canary.
pub const CANARY_ON: &str = "on";

/// The service's own counter by which convergence is measured.
pub fn canary() -> Option<CounterId> {
    CounterId::own("canary").ok()
}

/// Variable of both Workers: inner addresses that webhooks of alerts may have, a JSON array of networks and names.
pub const ALERTS_ALLOW: &str = "TALLY_ALERTS_ALLOW";

/// Variable of the aggregator: the address to which the metrics of the deployment are pushed by OTLP/HTTP.
pub const OTLP_URL: &str = "TALLY_OTLP_URL";
/// Secret of the aggregator: headers of the pushes, as OpenTelemetry's `OTEL_EXPORTER_OTLP_HEADERS` has them.
pub const OTLP_HEADERS: &str = "TALLY_OTLP_HEADERS";
/// Variable of the aggregator: attributes of the pushes' resource, as `OTEL_RESOURCE_ATTRIBUTES` has them.
pub const OTLP_ATTRIBUTES: &str = "TALLY_OTLP_ATTRIBUTES";

/// Variable of both Workers: the jurisdiction of the platform in which all objects are, and what they store.
pub const JURISDICTION: &str = "TALLY_JURISDICTION";

/// The address of a cell: a counter, a datacenter, a shard.
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

    /// Returns whether it is the lead.
    pub fn is_lead(&self) -> bool {
        self.shard == 0
    }
}

/// The receiver of a message.
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
    /// The lead of a counter in a datacenter, at one of its possible places.
    LeadAt(&'a LeadAt),
    /// A tablet.
    Tablet(&'a TabletAddress),
    /// An inbox.
    Inbox(&'a InboxId),
    /// A limiter.
    Limiter(&'a LimiterAddress),
    /// A board: its owner or one of its shards; and the datacenter near which the object is created, as far as known.
    Board(&'a CounterId, ShardAt, Option<&'a Datacenter>),
    /// The live reader of a partition of the directory's ring.
    LiveReader(u32),
    /// A hub of the region of a datacenter, by its number.
    Hub(&'a Datacenter, u32),
    /// The owner of all keys of Redis's dialect.
    Keyspace,
    /// The global aggregator.
    Aggregator,
}

/// The name of an object, and where it is created if it is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Binding of its namespace.
    pub binding: &'static str,
    /// Its name in the namespace.
    pub name: String,
    /// Location hint for its creation; `None` leaves it near the first caller.
    pub location_hint: Option<&'static str>,
}

/// The placement of a cell: near its datacenter. The counter is the last part of the name, because it alone may hold
/// any character.
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

/// The address of a tablet: an object that hosts the leads of many counters of a datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TabletAddress {
    /// The datacenter.
    pub datacenter: Datacenter,
    /// Its number, below [`TABLET_COUNT`].
    pub number: u32,
}

/// The lead of a counter in a datacenter, at one of its possible places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadAt {
    /// The counter.
    pub counter: CounterId,
    /// The datacenter.
    pub datacenter: Datacenter,
    /// The place.
    pub place: LeadPlace,
}

/// The placement of a lead's place.
pub fn lead_at(lead: &LeadAt) -> Placement {
    let LeadAt {
        counter,
        datacenter,
        place,
    } = lead;
    match place {
        LeadPlace::Own => cell(&CellAddress::lead(counter, datacenter)),
        LeadPlace::Tablet(number) => tablet(&TabletAddress {
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

/// The address of a limiter: one partition of the keys of a datacenter, or of global keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LimiterAddress {
    /// The datacenter; `None` for a global limiter.
    pub datacenter: Option<Datacenter>,
    /// The partition, below [`LIMITER_PARTITIONS`].
    pub partition: u32,
}

/// The beginning of a key's prefix that covers limits, and of no prefix that covers counters.
pub const LIMIT_RIGHTS: &str = "limits/";

/// The name of a limit for access: `limits/{policy}/{key}`.
pub fn limit_right(policy: &PolicyName, key: Option<&CounterId>) -> String {
    let key = key.map_or("", CounterId::as_str);
    [LIMIT_RIGHTS, policy.as_str(), "/", key].concat()
}

/// The result of a check.
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

/// The service's own counter of the checks of a stored policy with this result.
pub fn verdicts(policy: &PolicyName, kind: VerdictKind) -> Option<CounterId> {
    let kind = match kind {
        VerdictKind::Allowed => "allowed",
        VerdictKind::Refused => "refused",
        VerdictKind::Error => "error",
    };
    CounterId::own(&[LIMIT_RIGHTS, policy.as_str(), "/", kind].concat()).ok()
}

/// The placement of a limiter: near its datacenter. A global limiter is near its first caller.
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

/// The placement of an object of a board: near its home, or else near its first caller.
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

/// The placement of the owner of all keys of Redis's dialect: near its first caller. There is a single owner, as in a
/// Redis, so that no command and no transaction spans several.
pub fn keyspace() -> Placement {
    Placement {
        binding: KEYSPACES,
        name: "r1/0".to_owned(),
        location_hint: None,
    }
}

/// The placement of a live reader: near its first caller. It reads the watched counters of one partition of the
/// directory's ring.
pub fn live_reader(partition: u32) -> Placement {
    Placement {
        binding: WATCHERS,
        name: format!("w1/{partition}"),
        location_hint: None,
    }
}

/// The placement of a hub, which holds the streams of watchers of a region. A region has hubs with numbers from 0 on.
/// If the platform names no region, there is one region for all.
pub fn hub(region: Option<&'static str>, number: u32) -> Placement {
    Placement {
        binding: WATCHERS,
        name: format!("h1/{}/{number}", region.unwrap_or("any")),
        location_hint: region,
    }
}
