//! Clients that watch counters by streams of events and by sockets.
//!
//! Each update is a view. A stream that is still open at rest has told the last value.

use std::collections::BTreeMap;

use tally_simulation::{ClientRequest, Live};

use super::laws::View;
use super::service::{AskResult, Service, id, whole};

/// How long a client reads what it watches before it does something else, at most, milliseconds.
const WATCHES_MS_MAX: u64 = 20_000;

/// A stream of all counters, and the last value that it sent of each counter that exists.
pub struct Watcher {
    live: Live,
    values: BTreeMap<usize, i128>,
    what: String,
}

impl Service {
    /// Begins to watch all counters.
    async fn open(&self, site: usize) -> Option<Watcher> {
        let ids: Vec<String> = (0..self.counters.len())
            .map(|one| format!("id={}", id(one)))
            .collect();
        let path = format!("/live?numbers=string&{}", ids.join("&"));
        let mut ask = ClientRequest::new("GET", &path);
        let is_socket = self.world.chance().once_in(2);
        if is_socket {
            ask = ask.header("upgrade", "websocket");
        }
        let what = format!("{path}, by a socket: {is_socket}");
        match self.ask(site, ask, &what).await {
            AskResult::Done(answer) => Some(Watcher {
                live: answer.live.unwrap_or_else(|| panic!("{what}: no stream")),
                values: BTreeMap::new(),
                what,
            }),
            AskResult::Refused(code) => panic!("{what}: {code}"),
            AskResult::Unknown(_) => None,
        }
    }

    /// Watches all counters for a while, and goes on watching while the client does something else.
    pub async fn watch(&self, site: usize) {
        let Some(mut watcher) = self.open(site).await else {
            return;
        };
        let until_ms = self.world.now_ms()
            + i64::try_from(self.world.chance().below(WATCHES_MS_MAX)).expect("seconds");
        loop {
            let left_ms = u64::try_from(until_ms - self.world.now_ms()).unwrap_or(0);
            let Some(received) = watcher.live.next_within_ms(left_ms).await else {
                break;
            };
            self.receive(&mut watcher, &received.text);
        }
        if watcher.live.closed().is_none() {
            self.watchers.borrow_mut().push(watcher);
        }
    }

    /// Holds an update against the laws.
    fn receive(&self, watcher: &mut Watcher, text: &str) {
        // A stream of events begins its lines with the field's name.
        let mut lines = text
            .lines()
            .map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let Some(json) = lines.find(|line| line.starts_with('{')) else {
            return;
        };
        let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
        self.say(|| format!("{} hears {json}", watcher.what));
        for counter in 0..self.counters.len() {
            let Some(counter_json) = json["counters"].get(id(counter)) else {
                continue;
            };
            let Some(value) = whole(&counter_json["value"]) else {
                watcher.values.remove(&counter);
                continue;
            };
            let now = self.now();
            let view = View {
                value,
                is_exact: false,
                as_of_ms: counter_json["as_of"].as_i64(),
                begun: now,
                ended: now,
                held: None,
                what: &watcher.what,
            };
            self.counters[counter].borrow_mut().check(&view);
            watcher.values.insert(counter, value);
        }
    }

    /// What is watched, once nothing changes any more, is what each counter holds; so it is for whoever begins now.
    pub async fn check_watchers(&self, values: &[Option<i128>]) {
        let mut watchers = self.watchers.take();
        for site in 0..self.sites.len() {
            // It may hang up.
            watchers.extend(self.open(site).await);
        }
        // Where the clock of a hub is ahead, its alarm is so late.
        let skew_ms = self.plan.options.skew_ms_max.unsigned_abs();
        self.world.sleep_ms(5_000 + 3 * skew_ms).await;
        for mut watcher in watchers {
            for received in watcher.live.take() {
                self.receive(&mut watcher, &received.text);
            }
            if watcher.live.closed().is_some() {
                continue;
            }
            let last_values: Vec<Option<i128>> = (0..values.len())
                .map(|one| watcher.values.get(&one).copied())
                .collect();
            assert_eq!(
                last_values, values,
                "{} has told the last value",
                watcher.what
            );
        }
    }
}
