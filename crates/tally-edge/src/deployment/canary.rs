//! The canary: a counter of the service's own, written once a minute in each datacenter with traffic, to measure how
//! long a write takes until the view of every datacenter includes it.
//!
//! Invariant: a datacenter's count of it is the time of its last write, unix milliseconds by the clock of the counter's
//! root. So a reader of the view sees the age of the write without a further message; the clocks of both cancel out,
//! except for half of each one's round trip to the root.
//!
//! Each write also brings the same [`ELEMENTS`] unique elements, so their estimate in each view has a known truth. They
//! are counted once, however often they come.
//!
//! Life: an edge that reports within the last ten seconds of a minute waits for its end, and then fetches views as
//! readers do, one each [`LOOK_EVERY_MS`], for [`WATCH_MS`]. Within the first second it writes, unless another isolate
//! of its datacenter was faster, in which case it stops. The slowest write that it saw arrive is in its next report. A
//! deployment without traffic writes nothing.

use std::cell::Cell;
use std::collections::HashSet;

use futures_util::future::LocalBoxFuture;

use crate::bulk::sender::count_many;
use tally_api::batch::addressed::{Addressed, RehashedElements};
use tally_api::number::Estimate;
use tally_core::counter::flush::Load;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::sketch::{HashId, HashKey, Source, Token, Uniques, hash};
use tally_host::{Host, State};
use tally_shared::flag_guard::FlagGuard;
use tally_shared::{call_within, fleet};
use tally_wire::fleet::GaugeKind;
use tally_wire::messages::{GlobalSum, Read, ReadParts, ViewOf};
use tally_wire::names::{CANARY, CANARY_ON, CellAddress, canary};

/// How often it is written.
const EVERY_MS: i64 = 60_000;

/// How long an isolate waits for the end of a minute: the time until its next report.
const WAIT_MS_MAX: i64 = 10_000;

/// The random difference between isolates of a datacenter.
const SPREAD_MS: i64 = 1_000;

/// How often a view is fetched: as often as readers have it while a counter changes.
const LOOK_EVERY_MS: u64 = 200;

/// How long it watches: all datacenters have written within a second, and a write that is missing for 5 s is reported
/// as such.
const WATCH_MS: i64 = 6_000;

/// How long a measured clock offset is used, milliseconds.
const AHEAD_MS_MAX: i64 = 300_000;

/// How many unique elements each write has: more than a sparse sketch holds.
const ELEMENTS: u64 = 4_096;

/// How long a call may take.
const CALL_MS_MAX: u64 = 2_000;

/// Whether the canary is on, and whether this isolate is at work on it.
struct Canary {
    is_on: bool,
    is_under_way: Cell<bool>,
    /// The offset of the clock from that of the counter's root, and when it was measured, milliseconds.
    ahead: Cell<Option<(i64, i64)>>,
}

impl State for Canary {
    fn begin(host: &Host) -> Self {
        Self {
            is_on: host.setting(CANARY).as_deref() == Some(CANARY_ON),
            is_under_way: Cell::default(),
            ahead: Cell::default(),
        }
    }
}

/// Writes the canary and measures, if it is time.
pub fn look(host: Host, here: Datacenter) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move { look_here(&host, &here).await })
}

async fn look_here(host: &Host, here: &Datacenter) {
    let state = host.state::<Canary>();
    if !state.is_on || state.is_under_way.replace(true) {
        return;
    }
    let _turn = FlagGuard(&state.is_under_way);
    let Some(counter) = canary() else { return };
    let Some(ahead_ms) = state.ahead_ms(host, &counter).await else {
        // The counter does not exist yet.
        write(host, &counter, here, 1).await;
        return;
    };
    let wait_ms = EVERY_MS - (host.now_ms() - ahead_ms).rem_euclid(EVERY_MS);
    if wait_ms > WAIT_MS_MAX {
        return;
    }
    host.sleep_ms(u64::try_from(wait_ms).unwrap_or(0)).await;
    let measured = measure(host, here, &counter, ahead_ms).await;
    if let Some((slowest_ms, error)) = measured {
        let name = here.as_str().to_owned();
        fleet::gauge(host, GaugeKind::Convergence, name.clone(), slowest_ms);
        fleet::gauge(host, GaugeKind::EstimateError, name, error);
        fleet::report(host, Some(here.clone())).await;
    }
}

/// The counts of each datacenter, as in a default read.
async fn view(host: &Host, counter: &CounterId) -> Option<GlobalSum> {
    let read = Read {
        counter: counter.clone(),
        datacenter: None,
        wanted: ReadParts::default(),
    };
    call_within(host, &read, CALL_MS_MAX).await.ok().flatten()
}

/// When each datacenter wrote last, by the root's clock.
fn writes(sum: &GlobalSum) -> impl Iterator<Item = (&Datacenter, i64)> {
    let parts = sum.datacenters.iter();
    parts.filter_map(|(datacenter, part)| {
        let cells = part.as_ref()?.cells.iter();
        let added = cells.map(|(_, cell)| tally_core::counter::total::Sum::from(cell.added));
        let added = added.sum::<tally_core::counter::total::Sum>().low_bits();
        Some((datacenter, i64::try_from(added).ok()?))
    })
}

impl Canary {
    /// The offset of this isolate's clock from that of the counter's root, milliseconds: measured from time to time.
    async fn ahead_ms(&self, host: &Host, counter: &CounterId) -> Option<i64> {
        let sent_ms = host.now_ms();
        if let Some((at_ms, ahead_ms)) = self.ahead.get()
            && (0..AHEAD_MS_MAX).contains(&(sent_ms - at_ms))
        {
            return Some(ahead_ms);
        }
        let ask = ViewOf {
            counter: counter.clone(),
            watches: true,
            of_one: true,
        };
        let viewed = call_within(host, &ask, CALL_MS_MAX).await.ok()??;
        let middle_ms = i64::midpoint(sent_ms, host.now_ms());
        let ahead_ms = middle_ms - viewed.now_ms;
        self.ahead.set(Some((middle_ms, ahead_ms)));
        Some(ahead_ms)
    }
}

/// The unique elements of each write.
fn elements() -> (HashId, Uniques) {
    let key = HashKey::from([0; 16]);
    let mut uniques = Uniques::new();
    for element in 0..ELEMENTS {
        let token = Token::from_hash(hash(&key, &element.to_le_bytes()));
        uniques.insert(Source::of_all(key.id()), token);
    }
    (key.id(), uniques)
}

/// How far the estimate of a view is off, parts of a million.
fn error_of(sum: &GlobalSum) -> u64 {
    let estimate = Estimate::of(&sum.uniques).map_or(0, |estimate| estimate.estimate);
    estimate.abs_diff(ELEMENTS).saturating_mul(1_000_000) / ELEMENTS
}

/// Watches until all writes have arrived, and writes meanwhile. Returns how long the slowest arrived write took,
/// milliseconds, and how far the last view's estimate was off, parts of a million.
async fn measure(
    host: &Host,
    here: &Datacenter,
    counter: &CounterId,
    ahead_ms: i64,
) -> Option<(u64, u64)> {
    let now_ms = || host.now_ms() - ahead_ms;
    let began_ms = (now_ms() + SPREAD_MS / 2).div_euclid(EVERY_MS) * EVERY_MS;
    let spread_ms = i64::try_from(host.random() % SPREAD_MS.unsigned_abs()).unwrap_or(0);
    let (mut seen, mut slowest_ms) = (HashSet::new(), None);
    let (mut wrote_ms, mut is_first, mut error) = (None, true, 0);
    while now_ms() < began_ms + WATCH_MS {
        let Some(sum) = view(host, counter).await else {
            host.sleep_ms(LOOK_EVERY_MS).await;
            continue;
        };
        let seen_ms = now_ms();
        error = error_of(&sum);
        let mut own_ms = 0;
        for (datacenter, at_ms) in writes(&sum) {
            if datacenter == here {
                own_ms = at_ms;
            }
            // It is not known how long writes in the first view have been there.
            if at_ms >= began_ms && seen.insert(datacenter.clone()) && !is_first {
                slowest_ms = slowest_ms.max(Some(seen_ms - at_ms));
            }
        }
        is_first = false;
        if wrote_ms.is_none() {
            if own_ms >= began_ms {
                return None;
            }
            if seen_ms >= began_ms + spread_ms {
                let at_ms = now_ms();
                write(host, counter, here, at_ms - own_ms).await;
                wrote_ms = Some(at_ms);
            }
        }
        host.sleep_ms(LOOK_EVERY_MS).await;
    }
    // A write of this isolate that was not seen has taken at least the time since then.
    let unseen_ms = wrote_ms.filter(|_| !seen.contains(here));
    let slowest_ms = slowest_ms.max(unseen_ms.map(|at_ms| now_ms() - at_ms));
    Some((u64::try_from(slowest_ms?).ok()?, error))
}

async fn write(host: &Host, counter: &CounterId, here: &Datacenter, amount: i64) {
    let Ok(added) = u128::try_from(amount) else {
        return;
    };
    let (hash, imported) = elements();
    let load = Load {
        added,
        writes: 1,
        hash,
        imported,
        ..Load::default()
    };
    let one = Addressed {
        to: CellAddress::lead(counter, here),
        load,
        rehashed: RehashedElements::default(),
    };
    let _missing = count_many(host, vec![one], None, false).await;
}
