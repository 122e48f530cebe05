//! Clients that read more than one value: windows, histories, sums and lists, while things go wrong.

use std::collections::BTreeSet;

use tally_simulation::{Answer, ClientRequest};

use super::digits::SLOTS;
use super::laws::View;
use super::oracle::{Counter, Moment};
use super::service::{AskResult, Service, id, whole};

/// Longer than any world has been: what is in such a window is all.
const ALL_SECONDS: i64 = 80_000;

/// How far back a history goes that has all of a world, seconds; a whole number of hours.
const HISTORY_SECONDS: i64 = 6 * 3_600;

/// The base of the digits of values.
const BASE: i128 = 4;

impl Service {
    /// Asks. Returns None where the answer is unknown, or says that there is no such counter.
    async fn look(&self, site: usize, path: &str) -> Option<Answer> {
        let result = self.ask(site, ClientRequest::new("GET", path), path).await;
        match result {
            AskResult::Done(answer) => Some(answer),
            AskResult::Refused(code) => {
                let known = ["counter-not-found", "overloaded"];
                assert!(known.contains(&code.as_str()), "{path}: {code}");
                None
            }
            AskResult::Unknown(_) => None,
        }
    }

    /// Holds a window or a history that has all against the laws.
    fn check_counted(
        &self,
        counter: usize,
        count: i128,
        is_exact: bool,
        begun: Moment,
        what: &str,
    ) {
        let view = View {
            value: count,
            // By another clock the newest is in the future.
            is_exact: is_exact && self.plan.options.skew_ms_max == 0,
            as_of_ms: None,
            begun,
            ended: self.now(),
            held: None,
            what,
        };
        self.counters[counter].borrow().check_counted(&view);
    }

    /// Reads a window that has all.
    pub async fn read_window(&self, site: usize, counter: usize) {
        let begun = self.now();
        let strong = ["", "&consistency=strong"][self.world.chance().pick(2)];
        let path = format!(
            "/counters/{}?numbers=string&window={ALL_SECONDS}{strong}",
            id(counter)
        );
        let Some(answer) = self.look(site, &path).await else {
            return;
        };
        let json = answer.json();
        self.check(counter, &answer, begun, None, &path);
        let count = whole(&json["window"]["count"]).unwrap_or_else(|| panic!("{path}: {json}"));
        self.check_counted(counter, count, json["exact"] == true, begun, &path);
    }

    /// Reads a history that has all.
    pub async fn read_history(&self, site: usize, counter: usize) {
        let begun = self.now();
        let step = ["1m", "1h"][self.world.chance().pick(2)];
        let to = self.world.now_ms() / 1_000;
        let from = (to - HISTORY_SECONDS) / 3_600 * 3_600;
        let range = format!("numbers=string&from={from}&to={to}");
        let path = format!("/counters/{}/history?step={step}&{range}", id(counter));
        let Some(answer) = self.look(site, &path).await else {
            return;
        };
        let json = answer.json();
        let points = json["points"]
            .as_array()
            .unwrap_or_else(|| panic!("{path}: {json}"));
        let sum = points.iter().filter_map(|point| whole(&point[1])).sum();
        self.check_counted(counter, sum, json["exact"] == true, begun, &path);
    }

    /// Reads the sum of all counters.
    pub async fn read_sum(&self, site: usize) {
        let begun = self.now();
        let strong = ["", "&consistency=strong"][self.world.chance().pick(2)];
        let path = format!("/counters/hits-*/aggregate?numbers=string{strong}");
        let Some(answer) = self.look(site, &path).await else {
            return;
        };
        let json = answer.json();
        let view = View {
            value: whole(&json["value"]).unwrap_or_else(|| panic!("{path}: {json}")),
            is_exact: json["exact"] == true,
            as_of_ms: json["as_of"].as_i64(),
            begun,
            ended: self.now(),
            held: None,
            what: &path,
        };
        self.say(|| format!("{path} is told {json}"));
        let known: Vec<_> = self.counters.iter().map(|one| one.borrow()).collect();
        let known: Vec<&Counter> = known.iter().map(|one| &**one).collect();
        assert!(
            is_sum(&view, &known),
            "{view:?} is no sum of what is counted"
        );
    }

    /// Lists all counters; where it is not exact it lacks partitions.
    pub async fn list(&self, site: usize) {
        let begun = self.now();
        let path = "/counters?prefix=hits-";
        let Some(answer) = self.look(site, path).await else {
            return;
        };
        let json = answer.json();
        let ended = self.now();
        let listed = json["entries"].as_array().expect("counters");
        let listed: Vec<&str> = listed.iter().filter_map(|one| one["id"].as_str()).collect();
        assert!(listed.is_sorted(), "{json}");
        for counter in 0..self.counters.len() {
            let (must, may) = self.counters[counter].borrow().is_listed(begun, ended);
            let is_listed = listed.contains(&id(counter).as_str());
            let must = must && json["exact"] == true;
            assert!(is_listed || !must, "{} is not in {json}", id(counter));
            // Those of Redis's hash are made before.
            let may = may || self.plan.is_redis;
            assert!(!is_listed || may, "{} is in {json}", id(counter));
        }
    }
}

/// Whether a value is the sum of what the counters may hold, digit by digit.
fn is_sum(view: &View, counters: &[&Counter]) -> bool {
    let mut rests = BTreeSet::from([view.value]);
    for slot in 0..SLOTS {
        // What the writes of this slot may come to, together.
        let mut sums = BTreeSet::from([0]);
        for counter in counters {
            let Some(write) = counter.writes.get(slot) else {
                continue;
            };
            let own = if write.adds { 1 } else { -1 };
            let with = sums.iter().map(|sum| sum + own).collect();
            sums = match (counter.why_in(view, write), Counter::may_be_in(view, write)) {
                (Some(_), _) => with,
                (None, true) => sums.union(&with).copied().collect(),
                (None, false) => sums,
            };
        }
        let carried = rests.iter().flat_map(|rest| {
            let left = sums.iter().map(move |sum| rest - sum);
            left.filter(|left| left % BASE == 0).map(|left| left / BASE)
        });
        rests = carried.collect();
    }
    rests.iter().any(|rest| *rest >= 0 && rest % BASE == 0)
}
