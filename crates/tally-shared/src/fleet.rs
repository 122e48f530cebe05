//! Reports the metrics of this isolate to the sums of the deployment.
//!
//! Invariants: no answer waits for a report. One report is in flight at a time. An isolate that counts nothing sends
//! none.
//!
//! Life: the first counted request of an edge starts a timer of [`REPORT_EVERY_MS`], which continues after its
//! answer; then a report is sent. Timers would keep objects open, so objects have none: their report is sent by the
//! first call or alarm that ends after it is due. Counts that were not reported are lost when the isolate ends: up to
//! ten seconds of an edge, and of objects the counts since the last call.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, join};

use super::call_within;
use super::concurrency::all_settled;
use super::metrics;
use tally_api::metrics::Reporter;
use tally_api::routes::RouteName;
use tally_core::cluster::hot::HotWrites;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_host::{Host, Point, State};
use tally_wire::fleet::{
    CELLS_SAMPLED, Clock, Counts, GAUGES_MAX, Gauge, GaugeKind, REPORT_EVERY_MS, ReportExtras,
    ReportOutcome, Role, SIZES_MAX, Size,
};
use tally_wire::messages::{ReportCounts, ReportSizes, WakePush};
use tally_wire::names::{DIRECTORY_PARTITIONS, OTLP_URL};

/// The most partitions that get sizes at once.
const PARTITIONS_AT_ONCE: usize = 4;

/// The time limit of a report, milliseconds. A report that takes longer is sent again.
const REPORT_MS_MAX: u64 = 3_000;

/// The most points of one report: the platform takes 250 per invocation.
const POINTS_MAX: usize = 250;

/// How late a timer may be before another request sends the report, milliseconds.
const LATE_MS: i64 = 5_000;

/// How long objects gather counts before their first report, milliseconds: a counter that is written once reports with
/// its checkpoint, after 3 s.
const GATHER_MS: i64 = 2_000;

/// How often an isolate wakes the partition that pushes metrics, milliseconds. That partition then wakes itself,
/// until it finds no address to push to.
const WAKE_EVERY_MS: i64 = 3_600_000;

/// Incarnations are below 2^52, which a JavaScript number holds.
const INCARNATION_BITS: u32 = 52;

/// What this isolate reports.
struct ReportState {
    reporter: Reporter,
    role: Role,
    /// When the timer of an edge ends, unix milliseconds.
    due_ms: Option<i64>,
    /// When the first unreported count was made.
    since_ms: Option<i64>,
    reported_ms: Option<i64>,
    /// The number of changes at the last report.
    reported_changes: u64,
    is_under_way: bool,
    clock: Option<Clock>,
    hot: HotWrites,
    gauges: Vec<Gauge>,
    sizes: Vec<Size>,
    /// When the partition that pushes metrics was woken last, unix milliseconds.
    woken_ms: Option<i64>,
}

/// The report state of this isolate.
struct Fleet(RefCell<ReportState>);

impl State for Fleet {
    fn begin(host: &Host) -> Self {
        Self(RefCell::new(ReportState {
            reporter: Reporter::new(incarnation(host), host.now_ms()),
            role: Role::Objects,
            due_ms: None,
            since_ms: None,
            reported_ms: None,
            reported_changes: 0,
            is_under_way: false,
            clock: None,
            hot: HotWrites::default(),
            gauges: Vec::new(),
            sizes: Vec::new(),
            woken_ms: None,
        }))
    }
}

fn incarnation(host: &Host) -> u64 {
    host.random() >> (u64::BITS - INCARNATION_BITS)
}

fn with<T>(host: &Host, work: impl FnOnce(&mut ReportState) -> T) -> T {
    work(&mut host.state::<Fleet>().0.borrow_mut())
}

/// Lets the next report begin, for whatever reason this one ends.
struct ReportGuard(Rc<Fleet>);

impl ReportGuard {
    fn begin(host: &Host) -> Option<Self> {
        let fleet = host.state::<Fleet>();
        let was_under_way = std::mem::replace(&mut fleet.0.borrow_mut().is_under_way, true);
        (!was_under_way).then(|| Self(fleet))
    }
}

impl Drop for ReportGuard {
    fn drop(&mut self) {
        self.0.0.borrow_mut().is_under_way = false;
    }
}

/// Edge: a request was counted. Returns after how many milliseconds this request must send a report; `None` if another
/// request sends it.
pub fn answered(host: &Host, route: RouteName, now_ms: i64) -> Option<u64> {
    // Reading metrics must not wake an idle deployment.
    if matches!(route, RouteName::Metrics | RouteName::Health) {
        return None;
    }
    with(host, |own| {
        let is_due = |due_ms: i64| (now_ms - LATE_MS..=now_ms + REPORT_EVERY_MS).contains(&due_ms);
        if own.due_ms.is_some_and(is_due) {
            return None;
        }
        own.role = Role::Edge;
        own.due_ms = Some(now_ms + REPORT_EVERY_MS);
        u64::try_from(REPORT_EVERY_MS).ok()
    })
}

/// Edge: waits, and reports.
pub fn report_later<'a>(
    host: &'a Host,
    here: &'a Datacenter,
    in_ms: u64,
) -> LocalBoxFuture<'a, ()> {
    Box::pin(async move {
        host.sleep_ms(in_ms).await;
        report(host, Some(here.clone())).await;
    })
}

/// Edge: reports the unreported counts, if there are any.
pub fn report_now(host: &Host, here: Datacenter) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        if with(host, |own| own.due_ms.is_some()) {
            report(host, Some(here)).await;
        }
    })
}

/// Objects and the aggregator: a call or an alarm has ended. Returns whether a report must be sent now.
pub fn is_due(host: &Host) -> bool {
    let changes = metrics::changes(host);
    with(host, |own| {
        if own.role == Role::Edge || own.is_under_way {
            return false;
        }
        let is_reported = own.reported_changes == changes && !own.reporter.is_pending();
        if is_reported && own.sizes.is_empty() {
            return false;
        }
        let now_ms = host.now_ms();
        let since_ms = *own.since_ms.get_or_insert(now_ms);
        let is_over = |since_ms: i64, ms: i64| !(0..ms).contains(&now_ms.saturating_sub(since_ms));
        is_over(since_ms, GATHER_MS)
            && own
                .reported_ms
                .is_none_or(|reported_ms| is_over(reported_ms, REPORT_EVERY_MS))
    })
}

/// Sends a report. An edge gives its datacenter, so that its clock can be compared.
pub fn report(host: &Host, here: Option<Datacenter>) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let Some(_guard) = ReportGuard::begin(host) else {
            return;
        };
        let sent_ms = host.now_ms();
        let (counts, is_new) = counts_of(host, sent_ms);
        if is_new {
            write_points(host, &counts, here.as_ref());
        }
        let (incarnation, sequence) = (counts.incarnation, counts.sequence);
        let sizes = with(host, |own| std::mem::take(&mut own.sizes));
        let message = ReportCounts { counts };
        let sending = call_within(host, &message, REPORT_MS_MAX);
        let (answer, ((), ())) =
            join(sending, join(report_sizes(host, sizes), wake_push(host))).await;
        let now_ms = host.now_ms();
        with(host, |own| {
            let Ok(answer) = answer else {
                // The lost report is repeated with the next counts.
                own.since_ms = Some(now_ms);
                return;
            };
            match answer.taken {
                ReportOutcome::Counted => own.reporter.confirmed(incarnation, sequence, now_ms),
                ReportOutcome::Forgotten => {
                    let next = || self::incarnation(host);
                    own.reporter.forgotten(incarnation, now_ms, next);
                }
                ReportOutcome::Full => own.reporter.refused(incarnation, sequence),
            }
            let measured = here.and_then(|here| Clock::by(here, sent_ms, now_ms, answer.now_ms));
            if measured.is_some() {
                own.clock = measured;
            }
        });
    })
}

/// Writes the new counts to the deployment's data set, if it has one: a point for each series.
fn write_points(host: &Host, counts: &Counts, here: Option<&Datacenter>) {
    if !host.platform().has_points() {
        return;
    }
    let role = match counts.role {
        Role::Edge => "edge",
        Role::Objects => "objects",
    };
    let datacenter = here.map_or("", Datacenter::as_str);
    let named = metrics::named(&counts.rose).into_iter().take(POINTS_MAX);
    let points = named.map(|(name, number)| Point {
        index: name.split('{').next().unwrap_or_default().to_owned(),
        texts: vec![name, role.to_owned(), datacenter.to_owned()],
        number,
    });
    host.platform().write_points(&points.collect::<Vec<_>>());
}

/// The counts to report now, and whether they are new.
fn counts_of(host: &Host, now_ms: i64) -> (Counts, bool) {
    let (counts, changes) = metrics::counts(host);
    with(host, |own| {
        (own.due_ms, own.since_ms) = (None, None);
        own.reported_ms = Some(now_ms);
        own.reported_changes = changes;
        let next = || incarnation(host);
        let unsent = own.reporter.report(&counts, own.role, now_ms, next);
        let counts = Counts {
            incarnation: unsent.incarnation,
            sequence: unsent.sequence,
            role: own.role,
            rose: unsent.rose,
            news: ReportExtras {
                clock: own.clock.clone(),
                hot: own.hot.take(now_ms),
                gauges: own.gauges.clone(),
            },
        };
        (counts, unsent.is_new)
    })
}

/// Reports the sizes of objects, each to the partition of its hash. A lost report is made up by the next change.
async fn report_sizes(host: &Host, sizes: Vec<Size>) {
    let mut by_partition: BTreeMap<u32, Vec<Size>> = BTreeMap::new();
    for size in sizes {
        let partition = size.object / CELLS_SAMPLED % u64::from(DIRECTORY_PARTITIONS);
        let partition = u32::try_from(partition).unwrap_or(0);
        by_partition.entry(partition).or_default().push(size);
    }
    let send = |(partition, sizes)| async move {
        let message = ReportSizes { partition, sizes };
        call_within(host, &message, REPORT_MS_MAX).await
    };
    let _lost = all_settled(by_partition.into_iter().map(send), PARTITIONS_AT_ONCE).await;
}

/// Wakes the partition that pushes metrics, where they are pushed and this isolate has not lately. A lost call is made
/// again with the next report; what is pushed then has everything that was counted before.
async fn wake_push(host: &Host) {
    let now_ms = host.now_ms();
    let is_recent = |woken_ms: i64| (0..WAKE_EVERY_MS).contains(&(now_ms - woken_ms));
    if with(host, |own| own.woken_ms.is_some_and(is_recent)) || host.setting(OTLP_URL).is_none() {
        return;
    }
    let woken = call_within(host, &WakePush {}, REPORT_MS_MAX).await;
    if woken.is_ok() {
        with(host, |own| own.woken_ms = Some(now_ms));
    }
}

/// Records the size of an object, for the next report.
pub fn size(host: &Host, size: Size) {
    with(host, |own| {
        let mut sizes = own.sizes.iter_mut();
        if let Some(known) = sizes.find(|known| known.object == size.object) {
            *known = size;
        } else if own.sizes.len() < SIZES_MAX {
            own.sizes.push(size);
        }
    });
}

/// Records writes that a cell has counted.
pub fn wrote(
    host: &Host,
    counter: &CounterId,
    datacenter: &Datacenter,
    shards: u8,
    writes: u32,
    now_ms: i64,
) {
    with(host, |own| {
        let writes = u64::from(writes.max(1));
        own.hot.record(counter, datacenter, shards, writes, now_ms);
    });
}

/// Records a gauge, for the next report.
pub fn gauge(host: &Host, kind: GaugeKind, name: String, value: u64) {
    let at_ms = host.now_ms();
    let gauge = Gauge {
        kind,
        name,
        value,
        at_ms,
    };
    with(host, |own| {
        let is_of = |known: &&mut Gauge| known.kind == kind && known.name == gauge.name;
        if let Some(known) = own.gauges.iter_mut().find(is_of) {
            // The clock may not have advanced since.
            if gauge.at_ms == known.at_ms && kind != GaugeKind::Unreported || gauge.replaces(known)
            {
                *known = gauge;
            }
            return;
        }
        if own.gauges.len() >= GAUGES_MAX {
            let oldest = own
                .gauges
                .iter()
                .enumerate()
                .min_by_key(|(_, known)| known.at_ms);
            if let Some((index, _)) = oldest {
                own.gauges.swap_remove(index);
            }
        }
        own.gauges.push(gauge);
    });
}

/// The last measured offset of this isolate's clock.
pub fn clock(host: &Host) -> Option<Clock> {
    with(host, |own| own.clock.clone())
}
