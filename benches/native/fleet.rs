//! What watching a deployment and its keys cost each increment in the processor: a write noted for `GET /top?by=rate`,
//! numbers counted and reported, a key that was made by a call known again. How much of a whole increment that is:
//! `make bench` with `BENCH_BEFORE`, and its group `keys`.

use divan::{Bencher, black_box};
use tally_api::api_key::parse_change;
use tally_api::metrics::{Metric, Metrics, Reporter};
use tally_api::routes::RouteName;
use tally_core::cluster::hot::HotWrites;
use tally_core::counter::id::{CounterId, Datacenter};
use tally_core::sketch::HashKey;
use tally_wire::fleet::{REPORT_EVERY_MS, Role};
use tally_wire::rights::{KeyId, KeyToken, SECRET_BYTES, make_token};

use crate::{BEGIN_MS, Chance, THOUSAND};

/// Counters that are written evenly: one, as many as an isolate keeps apart, and many more.
const COUNTERS: [usize; 3] = [1, 256, 10_000];

/// A thousand writes of a cell noted.
#[divan::bench(args = COUNTERS)]
fn thousand_writes_noted(bencher: Bencher, counters: usize) {
    let all: Vec<CounterId> = (0..counters)
        .map(|counter| CounterId::parse(format!("counter {counter}")).unwrap())
        .collect();
    let here = Datacenter::parse("FRA").unwrap();
    let mut random = Chance(1);
    let mut notes = HotWrites::default();
    bencher.bench_local(|| {
        for _ in 0..THOUSAND {
            let counter = &all[random.index(counters)];
            notes.record(black_box(counter), &here, 1, 1, BEGIN_MS);
        }
    });
    assert!(!notes.take(BEGIN_MS + 1_000).counters.is_empty());
}

/// A thousand increments counted by an edge, alone in their flushes.
#[divan::bench]
fn thousand_increments_counted(bencher: Bencher) {
    let mut metrics = Metrics::new(0);
    bencher.bench_local(|| {
        for _ in 0..THOUSAND {
            for metric in [
                Metric::AcknowledgedIncrement,
                Metric::FlushCounted,
                Metric::FlushWritesSum,
                Metric::FlushWritesCount,
            ] {
                metrics.add(black_box(metric), 1);
            }
            metrics.observe(RouteName::Increment, 2);
        }
    });
    assert!(metrics.changes() >= 6 * THOUSAND);
}

/// What an isolate that works does every ten seconds: one report, confirmed.
#[divan::bench]
fn a_report(bencher: Bencher) {
    let mut metrics = Metrics::new(0);
    let mut reporter = Reporter::new(1, BEGIN_MS);
    let mut now_ms = BEGIN_MS;
    bencher.bench_local(|| {
        now_ms += REPORT_EVERY_MS;
        metrics.add(Metric::AcknowledgedIncrement, 1);
        metrics.observe(RouteName::Increment, 2);
        let unsent = reporter.report(metrics.counts(), Role::Edge, now_ms, || 2);
        assert_eq!(unsent.rose.len(), 3);
        reporter.confirmed(unsent.incarnation, unsent.sequence, now_ms);
    });
}

/// A thousand requests whose `Authorization` is a key that this isolate knows.
#[divan::bench]
fn thousand_keys_known_again(bencher: Bencher) {
    let names = HashKey::from([7; 16]);
    let (token, secret) = make_token(&names, KeyId(0x6d1f), &[42; SECRET_BYTES]);
    let wanted = parse_change(br#"{"name":"bench","scopes":["write"]}"#, BEGIN_MS).unwrap();
    let key = wanted.make("", secret, BEGIN_MS).unwrap();
    let authorization = format!("Bearer {token}");
    bencher.bench_local(|| {
        let mut known = 0_u64;
        for _ in 0..THOUSAND {
            let token = KeyToken::of(black_box(&authorization)).unwrap();
            let (_, secret) = token.signed(&names).unwrap();
            known += u64::from(key.knows(&secret, BEGIN_MS));
        }
        assert_eq!(known, THOUSAND);
        known
    });
}
