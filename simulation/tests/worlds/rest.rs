//! How a world comes to rest, and what must hold then.

use std::collections::BTreeSet;

use super::digits;
use super::oracle::Write;
use super::service::{Service, id, whole};
use tally_simulation::{ClientRequest, Faults};

/// Longer than anything is under way once nothing goes wrong any more, milliseconds: what was held back for 90 s, and
/// alarms after it.
const REST_MS: u64 = 400_000;

/// Longer than an edge takes to close what it has opened, milliseconds.
const SENDERS_MS: u64 = 20_000;

/// How far back a history goes that has all of a world, seconds.
const HISTORY_SECONDS: i64 = 20_000;

/// How often a read at rest may be repeated until it is exact: whoever has been away is heard of by its next push.
const READS_MAX: usize = 20;

/// Each value has the increments that said it, and those of its sums together are what was counted.
fn check_breakdown(
    answer: &serde_json::Value,
    says: &[Option<usize>],
    least: &BTreeSet<usize>,
    most: &BTreeSet<usize>,
) {
    let rows = answer["rows"].as_array().expect("rows").iter();
    let mut parts: Vec<(Option<usize>, i128)> = rows
        .map(|row| {
            assert_eq!(row.get("error"), None, "{answer}");
            let value = row["value"].as_str().and_then(|value| value.parse().ok());
            (value, whole(&row["count"]).expect("a number"))
        })
        .collect();
    assert_eq!(whole(&answer["other"]["count"]), Some(0), "{answer}");
    parts.push((None, whole(&answer["none"]).expect("a number")));
    let sum: i128 = parts.iter().map(|(_, count)| count).sum();
    assert_eq!(whole(&answer["total"]), Some(sum), "{answer}");
    let mut all = BTreeSet::new();
    let signs = vec![true; says.len()];
    for (value, count) in parts {
        let held =
            digits::decode(count, &signs).unwrap_or_else(|error| panic!("{error}: {answer}"));
        let is_of_it = |slot: &usize| says[*slot] == value;
        assert!(held.slots.iter().all(is_of_it), "{value:?}: {answer}");
        all.extend(held.slots);
    }
    assert!(all.is_superset(least) && all.is_subset(most), "{answer}");
}

/// A history has these increments.
fn check_slots(counted: &BTreeSet<usize>, least: &BTreeSet<usize>, most: &BTreeSet<usize>) {
    assert!(
        counted.is_superset(least),
        "history lacks {:?}",
        least.difference(counted)
    );
    assert!(
        counted.is_subset(most),
        "history has {:?}",
        counted.difference(most)
    );
}

impl Service {
    /// Lets nothing go wrong any more.
    pub fn heal(&self) {
        self.world.set_faults(Faults::NONE);
        self.world.heal();
        self.world.upgrade_all();
    }

    /// All that is under way arrives; then every edge says the same of every counter, and that is what clients know.
    pub async fn check_rest(&self) {
        // Each is read once a second until then.
        self.watchers.borrow_mut().truncate(1);
        self.world.sleep_ms(REST_MS).await;
        self.wake_senders().await;
        self.world.note_history("rest", &serde_json::Value::Null);
        let mut values = Vec::new();
        for counter in 0..self.counters.len() {
            let seen = self.exact_value(counter).await;
            values.push(seen);
            for site in 0..self.sites.len() {
                for edge in 0..self.plan.edges {
                    self.read_at_rest(counter, site, edge, seen).await;
                }
            }
        }
        self.check_all().await;
        if self.plan.limits.is_some() {
            self.check_admitted();
            self.check_limits_at_rest().await;
        }
        if self.plan.additions.is_some() {
            self.check_additions_at_rest().await;
        }
        if self.plan.holds.is_some() {
            self.check_holds();
            self.check_holds_at_rest().await;
        }
        self.check_watchers(&values).await;
    }

    /// A request of each edge, which closes what it had opened at roots that did not answer then.
    async fn wake_senders(&self) {
        if !self.plan.options.has_queue {
            return;
        }
        for site in 0..self.sites.len() {
            for edge in 0..self.plan.edges {
                let ask = ClientRequest::new("GET", "/health").at(edge);
                drop(self.client(site).ask(ask).await);
            }
        }
        self.world.sleep_ms(SENDERS_MS).await;
    }

    /// Whether an edge may have ended that had put events into the deployment's queue: nobody can say then what the
    /// queue holds.
    fn may_lack_senders(&self) -> bool {
        let faults = &self.plan.faults;
        let may_end = faults.crashes_isolate_once_in > 0
            || faults.evicts_once_in > 0
            || self.are_edges_restarted.get();
        self.plan.options.has_queue && may_end
    }

    /// The history of a counter, as far back as a world goes.
    async fn history(&self, path: &str) -> serde_json::Value {
        let now = self.world.now_ms() / 1_000;
        let range = format!("from={}&to={now}", now - HISTORY_SECONDS);
        self.read_json(&format!("{path}/history?step=1m&{range}"))
            .await
    }

    /// What is told of a counter besides its value agrees with it.
    async fn check_parts(&self, counter: usize, value: i128) {
        let known = self.counters[counter].borrow();
        let held = digits::decode(value, &known.signs()).expect("it was read before");
        let (least, most) = known.counted(&held);
        let samples = |writes: &[&Write]| writes.iter().filter(|write| write.has_sample).count();
        let samples = samples(&least)..=samples(&most);
        let elements = |writes: &[&Write]| -> BTreeSet<String> {
            let elements = writes.iter().filter_map(|write| write.element.clone());
            elements.collect()
        };
        let mut fewest = elements(&least);
        if !known.may_have_ended() {
            fewest.extend(known.surely_seen());
        }
        // Each key of elements makes others of them.
        let keys = 1 + self.rotations.get();
        let elements = fewest.len()..=known.maybe_seen().len() * keys;
        let added = |writes: &[&Write]| -> BTreeSet<usize> {
            let added = writes.iter().filter(|write| write.adds);
            added.map(|write| write.slot).collect()
        };
        let (least, most) = (added(&least), added(&most));
        let signs: Vec<bool> = known.writes.iter().map(|_| true).collect();
        let says: Vec<Option<usize>> = known.writes.iter().map(|write| write.dimension).collect();
        drop(known);

        let path = format!("/counters/{}", id(counter));
        let answer = self.read_json(&format!("{path}?consistency=strong")).await;
        let estimate = answer["uniques"]["estimate"].as_u64().unwrap_or(0);
        let estimate = usize::try_from(estimate).expect("few elements");
        assert!(
            elements.contains(&estimate),
            "{estimate} elements, not {elements:?}: {answer}"
        );
        let answer = self
            .read_json(&format!(
                "{path}/distribution?window=80000&consistency=strong"
            ))
            .await;
        let count = answer["count"].as_u64().expect("a count");
        let count = usize::try_from(count).expect("few samples");
        assert!(
            samples.contains(&count),
            "{count} samples, not {samples:?}: {answer}"
        );
        let answer = self.history(&path).await;
        let points = answer["points"].as_array().expect("points");
        let sum = points.iter().filter_map(|point| whole(&point[1])).sum();
        let counted =
            digits::decode(sum, &signs).unwrap_or_else(|error| panic!("{error}: {answer}"));
        check_slots(&counted.slots, &least, &most);
        if self.plan.has_dimensions {
            for window in ["", "&window=86400", "&window=7d"] {
                let path = format!("{path}/breakdown?by=third&numbers=string{window}");
                let answer = self.read_json(&format!("{path}&consistency=strong")).await;
                check_breakdown(&answer, &says, &least, &most);
            }
        }
        let answer = self
            .read_json(&format!(
                "/api/counter?key={}&consistency=strong&numbers=string",
                id(counter)
            ))
            .await;
        assert_eq!(whole(&answer["count"]), Some(value), "{answer}");
    }

    async fn read_json(&self, path: &str) -> serde_json::Value {
        let answer = self.client(0).get(path).await.expect("nothing goes wrong");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Reads a counter until the read is exact. Returns its value; None where there is none.
    async fn exact_value(&self, counter: usize) -> Option<i128> {
        for _ in 0..READS_MAX {
            let what = format!("the last read of {}", id(counter));
            let begun = self.now();
            let path = format!(
                "/counters/{}?numbers=string&consistency=strong",
                id(counter)
            );
            let answer = self.client(0).get(&path).await.expect("nothing goes wrong");
            if answer.status == 404 {
                self.read(0, counter, "&consistency=strong", &None).await;
                return None;
            }
            assert_eq!(answer.status, 200, "{what}: {}", answer.text());
            let json = answer.json();
            let is_exact = json["exact"] == true || self.may_lack_senders();
            self.check(counter, &answer, begun, None, &what);
            if is_exact {
                return whole(&json["value"]);
            }
            self.world.sleep_ms(5_000).await;
        }
        panic!("{} is never read exactly", id(counter));
    }

    async fn read_at_rest(&self, counter: usize, site: usize, edge: usize, seen: Option<i128>) {
        for query in ["", "&consistency=strong"] {
            let path = format!("/counters/{}?numbers=string{query}", id(counter));
            let what = format!("at rest {path} at {site}/{edge}");
            let ask = ClientRequest::new("GET", &path).at(edge);
            let begun = self.now();
            let answer = self
                .client(site)
                .ask(ask)
                .await
                .expect("nothing goes wrong");
            let value = match answer.status {
                404 => None,
                _ => {
                    self.check(counter, &answer, begun, None, &what);
                    whole(&answer.json()["value"])
                }
            };
            assert_eq!(value, seen, "{what}: {}", answer.text());
        }
    }

    /// The sum of all is that of each.
    async fn check_all(&self) {
        let (mut sum, mut ids) = (0, Vec::new());
        for counter in 0..self.counters.len() {
            let Some(value) = self.exact_value(counter).await else {
                continue;
            };
            sum += value;
            ids.push(id(counter));
            self.check_parts(counter, value).await;
        }
        let path = "/counters/hits-*/aggregate?numbers=string&consistency=strong";
        let answer = self.client(0).get(path).await.expect("nothing goes wrong");
        assert_eq!(
            whole(&answer.json()["value"]),
            Some(sum),
            "{}",
            answer.text()
        );
        let list = self.read_json("/counters?prefix=hits-").await;
        let listed = list["entries"].as_array().expect("counters");
        let listed: Vec<&str> = listed.iter().filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(listed, ids, "{list}");
    }
}
