//! Overrides of policies that change while keys are checked, in whole services by seeds.
//!
//! # Law
//! A check is judged by an override that was active within the last 5 s, or by the policy if none was. In a datacenter
//! that is cut off the 5 s begin before the cut. An ended override judges nothing from its end on.
//!
//! Each override has a limit of its own, so a verdict says which one judged it.

use std::cell::{Cell, RefCell};

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use tally_simulation::{Chance, ClientRequest, Options, Role, Site, World, admin, deployed};

/// How long ago an override was active that judges a check, milliseconds.
const EVERYWHERE_MS: i64 = 5_000;

/// How long after a cut an isolate may still use what it knew, milliseconds: a question is given up after 1.5 s, and
/// repeated after 2 s, which takes as long again at the most.
const HEALED_MS: i64 = 5_000;

/// The policy's own limit, below all overrides'.
const LIMIT: u64 = 1_000;

/// The keys that are checked, each with its patterns: its own, and its prefixes from the longest.
const KEYS: [(&str, &[&str]); 3] = [
    ("acme-1", &["acme-1", "acme-*", "ac*", "*"]),
    ("acme-2", &["acme-*", "ac*", "*"]),
    ("bob", &["bob", "*"]),
];

/// The patterns of one operator each, so that changes of a pattern are in order.
const PATTERNS: [&[&str]; 2] = [&["acme-1", "ac*", "bob"], &["acme-*", "*"]];

/// More than isolates get together with their policy.
const MANY: u64 = 110;

/// What an override says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Limit(u64),
    Unlimited,
    Blocked,
}

/// A change of a pattern: an override, or none. Times are true unix milliseconds.
#[derive(Clone, Copy, Debug)]
struct Change {
    pattern: &'static str,
    says: Option<(Says, Option<i64>)>,
    begun_ms: i64,
    done_ms: i64,
}

/// What judged a check, by its answer.
type Judged = Option<(String, Says)>;

/// A world whose overrides change.
struct Scene {
    seed: u64,
    world: World,
    sites: [Site; 3],
    changes: RefCell<Vec<Change>>,
    /// The datacenters that were cut off, and when.
    cuts: RefCell<Vec<(usize, i64, i64)>>,
    limits: Cell<u64>,
    /// Checks that an override judged, that an old one did, and that were made while their datacenter was cut off.
    seen: Cell<[usize; 3]>,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let world = deployed(seed, Options::default());
        let sites = ["FRA", "SYD", "IAD"].map(|name| world.site(name, 2));
        let scene = Self {
            seed,
            world,
            sites,
            changes: RefCell::default(),
            cuts: RefCell::default(),
            limits: Cell::new(LIMIT),
            seen: Cell::default(),
        };
        scene.world.run(scene.prepare());
        scene
    }

    async fn prepare(&self) {
        let fields = json!({ "limit": LIMIT, "window_seconds": 60, "on_error": "closed" });
        self.put("/limits/p", &fields).await;
        if self.seed.is_multiple_of(2) {
            for number in 0..MANY {
                let path = format!("/limits/p/overrides/other-{number}");
                self.put(&path, &json!({ "limit": 1 })).await;
            }
        }
    }

    /// Sends a change from where the directory is, again where an isolate ended in between.
    async fn change(&self, ask: ClientRequest) {
        loop {
            let client = admin(&self.world, self.sites[0]);
            if let Ok(answer) = client.ask(ask.clone()).await {
                let is_done = [200, 201, 404].contains(&answer.status);
                assert!(is_done, "{}", answer.text());
                return;
            }
        }
    }

    async fn put(&self, path: &str, fields: &Value) {
        let ask = ClientRequest::new("PUT", path).json(fields.to_string());
        self.change(ask).await;
    }

    /// Draws what a pattern says from now on.
    fn draw(&self, chance: &Chance) -> Option<(Says, Option<i64>)> {
        self.limits.set(self.limits.get() + 1);
        let says = match chance.below(8) {
            0 | 1 => return None,
            2 => Says::Blocked,
            3 => Says::Unlimited,
            _ => Says::Limit(self.limits.get()),
        };
        let seconds = i64::try_from(chance.between(2, 20)).expect("seconds");
        let ends_s = self.world.now_ms() / 1_000 + seconds;
        Some((says, chance.once_in(3).then_some(ends_s * 1_000)))
    }

    /// Changes patterns, one after the other.
    async fn operate(&self, patterns: &'static [&'static str]) {
        let chance = self.world.chance();
        for _ in 0..40 {
            self.world.sleep_ms(chance.below(4_000)).await;
            let pattern = patterns[chance.pick(patterns.len())];
            let says = self.draw(chance);
            let path = format!("/limits/p/overrides/{pattern}");
            let begun_ms = self.world.now_ms();
            match says {
                Some((says, ends_ms)) => {
                    let mut fields = match says {
                        Says::Limit(limit) => json!({ "limit": limit }),
                        Says::Unlimited => json!({ "unlimited": true }),
                        Says::Blocked => json!({ "blocked": true }),
                    };
                    if let Some(ends_ms) = ends_ms {
                        fields["ends_at"] = json!(ends_ms / 1_000);
                    }
                    self.put(&path, &fields).await;
                }
                None => self.change(ClientRequest::new("DELETE", path)).await,
            }
            self.changes.borrow_mut().push(Change {
                pattern,
                says,
                begun_ms,
                done_ms: self.world.now_ms(),
            });
        }
    }

    /// Checks keys at a datacenter. Changes that are under way when a check ends are judged by the next law only, so
    /// the law is looked at later.
    async fn check(&self, site: usize, checks: &RefCell<Vec<Check>>) {
        let chance = self.world.chance();
        for _ in 0..150 {
            self.world.sleep_ms(chance.below(1_200)).await;
            let (key, patterns) = KEYS[chance.pick(KEYS.len())];
            let ask = ClientRequest::new("POST", format!("/limits/p/{key}"));
            let begun_ms = self.world.now_ms();
            let client = admin(&self.world, self.sites[site]);
            // An isolate may end in between.
            let Ok(answer) = client.ask(ask).await else {
                continue;
            };
            let check = Check {
                site,
                patterns,
                begun_ms,
                ended_ms: self.world.now_ms(),
                judged: judged(&answer.json()),
            };
            let what = answer.text();
            match answer.status {
                200 | 429 => checks.borrow_mut().push(check),
                status => {
                    let is_cut_off = self.cut_ms(&check, begun_ms).is_some();
                    assert!(status == 503 && is_cut_off, "{key}: {what}");
                }
            }
        }
    }

    /// Cuts off datacenters without the directory, and starts isolates anew.
    async fn disturb(&self) {
        let chance = self.world.chance();
        for _ in 0..6 {
            self.world.sleep_ms(chance.below(20_000)).await;
            let site = 1 + chance.pick(2);
            if chance.once_in(3) {
                self.world.crash_isolates(Role::Edge, self.sites[0]);
                continue;
            }
            let milliseconds = chance.between(1_000, 15_000);
            let now_ms = self.world.now_ms();
            let ends_ms = now_ms + i64::try_from(milliseconds).expect("a time");
            self.cuts.borrow_mut().push((site, now_ms, ends_ms));
            self.world.cut_off(self.sites[site], milliseconds);
        }
    }

    /// When the first cut began that a check may have felt, if it used what was known at `known_ms`.
    fn cut_ms(&self, check: &Check, known_ms: i64) -> Option<i64> {
        let cuts = self.cuts.borrow();
        let felt = cuts.iter().filter(|(site, cut_ms, healed_ms)| {
            let is_over = healed_ms + HEALED_MS <= known_ms;
            *site == check.site && *cut_ms <= check.ended_ms && !is_over
        });
        felt.map(|(_, cut_ms, _)| *cut_ms).min()
    }

    /// The earliest time whose overrides may judge a check.
    fn earliest_ms(&self, check: &Check) -> i64 {
        let mut begin_ms = check.begun_ms;
        while let Some(cut_ms) = self
            .cut_ms(check, begin_ms)
            .filter(|at_ms| *at_ms < begin_ms)
        {
            begin_ms = cut_ms;
        }
        begin_ms - EVERYWHERE_MS
    }

    fn look_at(&self, check: &Check) {
        let from_ms = self.earliest_ms(check);
        let changes = self.changes.borrow();
        let times = changes
            .iter()
            .flat_map(|change| [change.begun_ms, change.done_ms]);
        let within = times.filter(|at_ms| (from_ms..=check.ended_ms).contains(at_ms));
        let mut times: Vec<i64> = within.chain([from_ms, check.ended_ms]).collect();
        times.sort_unstable();
        let fits = |at_ms: &i64| check.may_be_judged_at(&changes, *at_ms);
        let last = times.iter().rposition(fits);
        assert!(
            last.is_some(),
            "seed {}: {check:?} fits no time since {from_ms}: {changes:#?}",
            self.seed
        );
        let mut seen = self.seen.get();
        seen[0] += usize::from(check.judged.is_some());
        seen[1] += usize::from(times.last().is_some_and(|now_ms| !fits(now_ms)));
        seen[2] += usize::from(from_ms < check.begun_ms - EVERYWHERE_MS);
        self.seen.set(seen);
    }

    fn live(self) -> [usize; 3] {
        let checks = RefCell::default();
        let operators = join_all(PATTERNS.map(|patterns| self.operate(patterns)));
        let clients = join_all([0, 0, 1, 2].map(|site| self.check(site, &checks)));
        let all = join(join(operators, clients), self.disturb());
        self.world.run(all);
        for check in checks.borrow().iter() {
            self.look_at(check);
        }
        self.seen.get()
    }
}

/// A check and its answer. Times are true unix milliseconds.
#[derive(Debug)]
struct Check {
    site: usize,
    patterns: &'static [&'static str],
    begun_ms: i64,
    ended_ms: i64,
    judged: Judged,
}

fn judged(answer: &Value) -> Judged {
    let pattern = answer["override"].as_str()?.to_owned();
    let says = match (answer["limit"].as_u64(), answer["allowed"].as_bool()) {
        (None, _) => Says::Unlimited,
        (Some(0), Some(false)) => Says::Blocked,
        (Some(limit), _) => Says::Limit(limit),
    };
    Some((pattern, says))
}

impl Check {
    /// Whether the overrides of a time explain its verdict. A change under way may be in effect or not.
    fn may_be_judged_at(&self, changes: &[Change], at_ms: i64) -> bool {
        for pattern in self.patterns {
            let of = changes.iter().filter(|change| change.pattern == *pattern);
            let begun: Vec<&Change> = of.filter(|change| change.begun_ms <= at_ms).collect();
            let newest = begun.len().saturating_sub(1);
            let is_over = |change: &&Change| change.done_ms <= at_ms;
            let first = begun.iter().rposition(is_over);
            let mut possible = begun[first.unwrap_or(0).min(newest)..].iter();
            let (mut may_be, mut may_lack) = (false, first.is_none());
            for change in possible.by_ref() {
                let Some((says, ends_ms)) = change.says else {
                    may_lack = true;
                    continue;
                };
                let is_valid = ends_ms.is_none_or(|ends_ms| ends_ms > self.begun_ms);
                may_lack |= ends_ms.is_some_and(|ends_ms| ends_ms <= self.ended_ms);
                let own = self.judged.as_ref();
                may_be |= is_valid && own.is_some_and(|own| own.0 == *pattern && own.1 == says);
            }
            if may_be {
                return true;
            }
            if !may_lack {
                return false;
            }
        }
        self.judged.is_none()
    }
}

#[test]
fn a_check_is_judged_by_an_override_that_was_active_within_five_seconds() {
    let mut seen = [0; 3];
    for seed in 0..8 {
        for (all, more) in seen.iter_mut().zip(Scene::new(seed).live()) {
            *all += more;
        }
    }
    let [overridden, old, cut_off] = seen;
    eprintln!("{overridden} overridden, {old} by old ones, {cut_off} cut off");
    assert!(overridden > 2_000 && old > 50 && cut_off > 100, "{seen:?}");
}
