//! Many worlds, and one again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use tally_simulation::Figures;

use super::plan::Plan;
use super::{Lived, live};

/// Seeds of every test run.
const SEEDS: u64 = 100;

/// Worlds between two lines of progress.
const PROGRESS_EVERY: u64 = 500;

/// Names the seed of a world that goes wrong.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "the seed is {0}; live it again with: make soak SEED={0}",
                self.0
            );
        }
    }
}

/// Bytes of all histories of one run. Worlds that begin once there are more write none.
const HISTORIES_BYTES_MAX: u64 = 500_000_000;

/// Which worlds to live, and what to keep of them.
struct Run<'a> {
    draw: fn(u64) -> Plan,
    from: u64,
    seeds: u64,
    faults_max: usize,
    /// The folder of histories.
    histories: Option<&'a Path>,
}

/// What a run was.
#[derive(Default)]
struct Tally {
    wrong: Vec<u64>,
    lived: u64,
    virtual_ms: u64,
    figures: Figures,
    histories: u64,
    histories_bytes: u64,
}

impl Tally {
    /// How many worlds were lived, those that went wrong too.
    fn all(&self) -> u64 {
        self.lived + u64::try_from(self.wrong.len()).expect("few")
    }

    fn add(&mut self, lived: &Lived) {
        let (sum, more) = (&mut self.figures, &lived.figures);
        self.lived += 1;
        self.virtual_ms += lived.virtual_ms;
        sum.lost += more.lost;
        sum.repeated += more.repeated;
        sum.failed_statements += more.failed_statements;
        sum.crashes += more.crashes;
        sum.evictions += more.evictions;
        sum.requests += more.requests;
        *sum.messages.entry("all".to_owned()).or_default() += more.all_messages();
    }
}

impl Run<'_> {
    /// Where the history of a world goes, while there is room.
    fn history_of(&self, seed: u64, tally: &Mutex<Tally>) -> Option<PathBuf> {
        let is_full = known(tally).histories_bytes > HISTORIES_BYTES_MAX;
        let folder = self.histories.filter(|_| !is_full)?;
        Some(folder.join(format!("{seed}.jsonl")))
    }

    fn live(&self, seed: u64, tally: &Mutex<Tally>) {
        let history = self.history_of(seed, tally);
        let lived = std::panic::catch_unwind(|| {
            let _named = Named(seed);
            live(seed, (self.draw)(seed), false, history.as_deref())
        });
        let written = history.and_then(|path| std::fs::metadata(path).ok());
        let mut tally = known(tally);
        if let Some(file) = written {
            tally.histories += 1;
            tally.histories_bytes += file.len();
        }
        match lived {
            Ok(lived) => tally.add(&lived),
            Err(_) => tally.wrong.push(seed),
        }
    }

    /// Lives worlds on all cores, until enough went wrong.
    fn live_all(&self) -> Tally {
        let (seeds, from) = (self.seeds, self.from);
        let next = AtomicU64::new(0);
        let tally: Mutex<Tally> = Mutex::default();
        let begun = Instant::now();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let work = || {
            while known(&tally).wrong.len() < self.faults_max {
                let done = next.fetch_add(1, Ordering::Relaxed);
                if done >= seeds {
                    return;
                }
                if done > 0 && done.is_multiple_of(PROGRESS_EVERY) {
                    let seconds = begun.elapsed().as_secs().max(1);
                    eprintln!(
                        "soak: {done} of {seeds} worlds from seed {from}, {} a second",
                        done / seconds
                    );
                }
                self.live(from + done, &tally);
            }
        };
        thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(work);
            }
        });
        let millis = begun.elapsed().as_millis().max(1);
        let tally = tally.into_inner().expect("no panic while it is held");
        let lived = u128::from(tally.all());
        eprintln!(
            "soak: {lived} worlds in {millis} ms, {} a second",
            lived * 1_000 / millis
        );
        tally
    }
}

fn known(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().expect("no panic while it is held")
}

/// Lives the worlds of every test run. Returns the seeds of those that went wrong.
fn live_all(draw: fn(u64) -> Plan, from: u64, seeds: u64) -> Vec<u64> {
    let run = Run {
        draw,
        from,
        seeds,
        faults_max: 1,
        histories: None,
    };
    run.live_all().wrong
}

#[test]
fn every_seed_keeps_the_laws() {
    let wrong = live_all(Plan::draw, 0, SEEDS);
    assert!(wrong.is_empty(), "wrong worlds are {wrong:?}");
}

/// Worlds of two builds of every test run.
const UPGRADED: u64 = 60;

#[test]
fn every_seed_keeps_the_laws_while_a_deployment_changes_over_from_the_build_before() {
    let wrong = live_all(Plan::draw_upgrade, 0, UPGRADED);
    assert!(wrong.is_empty(), "wrong worlds of two builds are {wrong:?}");
}

/// Worlds of holds of every test run.
const HELD: u64 = 80;

#[test]
fn every_seed_keeps_the_laws_of_holds() {
    let wrong = live_all(Plan::draw_holds, 0, HELD);
    assert!(wrong.is_empty(), "wrong worlds of holds are {wrong:?}");
}

/// Worlds that saw faults, as they are drawn now, in this order:
///
/// - A write was acknowledged though storage had refused it.
/// - A write was done by the version of a read that lacked the former home's counts.
/// - The move of a root never ended. It was sealed for another partition, and belonged to its own again.
/// - The rows of a lead were left behind. Storage went out between the two rows that tell its former place.
/// - A copy of a flush was counted by a shard that had refused the flush.
/// - A copy of a decrement was counted once there was room above the floor. Its client had been refused.
/// - Two places sent a lead to each other, since it was to be again where it had just left.
/// - A copy of an addition of Redis's dialect came after 70 seconds to an object whose clock was two minutes ahead, and
///   had forgotten the key.
/// - A copy of a decrement was counted once there was room. Its client had been refused, and its tablet was evicted
///   since.
/// - A watched lead pushed without end. Its clock had stepped back since an edge sent its push.
/// - A read had a write that no tablet had stored.
/// - A set took away lines of a log. Their datacenter had not answered it, and their times were before it.
const FOUND_SINCE: [u64; 12] = [
    772,
    2_034,
    1_795_454_607_000_383,
    1_795_473_954_000_236,
    1_795_500_000_000_210,
    1_795_600_000_009_314,
    1_795_600_000_009_634,
    1_795_801_752_007_441,
    1_795_900_000_001_312,
    1_795_960_000_000_074,
    1_796_000_000_130_696,
    1_796_000_000_230_342,
];

/// Worlds of two builds that saw faults:
///
/// - The second attempt of a decrement counted it again. Its counter had been deleted and begun again since the first.
/// - A read lacked a write. A tablet had reported others that it had not stored.
const FOUND_OF_UPGRADES: [u64; 2] = [1_796_000_000_110_251, 1_796_000_000_161_393];

/// Worlds of holds that saw faults: an edge used a policy of half a minute ago, because one answer was lost.
const FOUND_OF_HOLDS: [u64; 1] = [1_795_960_000_070_084];

/// Worlds that saw faults: reads that named an `as_of` later than what they had (282, 419), and the value of a
/// repeated flush that was called exact after a set (553), and a set that was done and was answered 404, since its
/// counter had ended by another clock (1465).
const FOUND: [u64; 4] = [282, 419, 553, 1_465];

#[test]
fn seeds_that_saw_faults_keep_the_laws() {
    for seed in FOUND {
        let _named = Named(seed);
        live(seed, Plan::draw_first(seed), false, None);
    }
    for seed in FOUND_SINCE {
        let _named = Named(seed);
        live(seed, Plan::draw(seed), false, None);
    }
    for seed in FOUND_OF_UPGRADES {
        let _named = Named(seed);
        live(seed, Plan::draw_upgrade(seed), false, None);
    }
    for seed in FOUND_OF_HOLDS {
        let _named = Named(seed);
        live(seed, Plan::draw_holds(seed), false, None);
    }
}

/// Worlds that were not the same again: an inbox registered at roots in the order of a set without one.
const AGAIN: [u64; 3] = [3_000_032, 3, 7];

#[test]
fn a_seed_is_the_same_world_again() {
    for draw in [Plan::draw, Plan::draw_upgrade, Plan::draw_holds] {
        for seed in AGAIN {
            let lives = [(); 3].map(|()| live(seed, draw(seed), false, None));
            let [first, others @ ..] = lives.map(|lived| (lived.fingerprint, lived.figures));
            for other in others {
                assert_eq!(first, other, "seed {seed}");
            }
        }
    }
}

/// A number in the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("a number"))
}

/// A path in the environment.
fn path(name: &str) -> Option<PathBuf> {
    let text = std::env::var_os(name).filter(|text| !text.is_empty())?;
    Some(PathBuf::from(text))
}

/// What `simulation/ledger/ledger.mjs` adds to the ledger.
fn report_of(kind: &str, run: &Run, tally: &Tally, real_ms: u64) -> Value {
    let figures = &tally.figures;
    json!({
        "kind": kind,
        "from": run.from,
        "worlds": tally.all(),
        "wrong": tally.wrong,
        "real_ms": real_ms,
        "virtual_ms": tally.virtual_ms,
        "requests": figures.requests,
        "messages": figures.all_messages(),
        "lost": figures.lost,
        "repeated": figures.repeated,
        "crashes": figures.crashes,
        "evictions": figures.evictions,
        "failed_statements": figures.failed_statements,
        "histories": tally.histories,
    })
}

/// `make soak`: SEED is one seed, told step by step; SEEDS so many from FROM, until FAULTS of them went wrong, which
/// is one unless it is set. UPGRADE=1 lives worlds of two builds, HOLDS=1 worlds of holds. HISTORY is a folder for the
/// histories of all, REPORT a file for the figures.
#[test]
#[ignore = "runs as long as it is asked to"]
fn soak() {
    let (kind, draw): (&str, fn(u64) -> Plan) = match (number("UPGRADE"), number("HOLDS")) {
        (Some(_), _) => ("two builds", Plan::draw_upgrade),
        (_, Some(_)) => ("holds", Plan::draw_holds),
        _ => ("usual", Plan::draw),
    };
    let histories = path("HISTORY");
    if let Some(folder) = &histories {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    if let Some(seed) = number("SEED") {
        let history = histories.map(|folder| folder.join(format!("{seed}.jsonl")));
        let lived = live(seed, draw(seed), true, history.as_deref());
        eprintln!("{:#?}", lived.figures);
        return;
    }
    let run = Run {
        draw,
        from: number("FROM").unwrap_or(0),
        seeds: number("SEEDS").unwrap_or(SEEDS),
        faults_max: usize::try_from(number("FAULTS").unwrap_or(1)).expect("few"),
        histories: histories.as_deref(),
    };
    let begun = Instant::now();
    let tally = run.live_all();
    if let Some(report) = path("REPORT") {
        let real_ms = u64::try_from(begun.elapsed().as_millis()).expect("a run");
        let text = report_of(kind, &run, &tally, real_ms).to_string();
        std::fs::write(report, text).expect("the report can be written");
    }
    let wrong = &tally.wrong;
    assert!(wrong.is_empty(), "soak: wrong worlds are {wrong:?}");
    eprintln!(
        "soak: all are well, seeds {} up to {}",
        run.from,
        run.from + run.seeds
    );
}
