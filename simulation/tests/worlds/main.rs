//! Whole services under faults: every object, edge and aggregator is the one that ships, and clients speak HTTP.
//!
//! A seed makes a world and all that happens in it; `make soak SEED=n` tells it step by step.
//!
//! # Laws
//! The oracle is plain integers: what clients sent and were told. `A` is before `B` where a client had `A`'s answer
//! before another began `B`.
//!
//! 1. A write is counted at most once, whatever is lost, late, repeated, crashes or is evicted: a value has one digit
//!    for each write.
//! 2. A write that was refused is in no value. No view, exact or not, is a value that no set and no writes make: one
//!    that is not exact is old.
//! 3. A view that says `exact: true` has every write acknowledged before it began, and every write that any view
//!    before it had.
//! 4. A view has every write that was acknowledged before its `as_of`, by whichever clock.
//! 5. A view of a reader has all that its version had.
//! 6. A write's own exact value has that write.
//! 7. A key counts one write, once; every answer to it is the first one; who sends something else under it is refused.
//! 8. A set, a reset and a deletion take away what was acknowledged before they began, and nothing that began after
//!    their answer; an exact value was put to the last of them.
//! 9. With a floor, no exact value is below it. A write with a condition is done only where nothing has changed since.
//! 10. An event that was answered 202 is counted once, or a dead letter of a counter that was deleted.
//! 11. At rest every view of every edge is the same exact value. Lists, sums, histories, unique elements, samples and
//!     breakdowns agree with it.
//! 12. What a window or a history counts, each write counts once in it; where it is exact all acknowledged ones do.
//!     Sets leave it.
//! 13. A sum of all counters is one of what each may hold. A list has what was acknowledged before it, and nothing
//!     that was never sent.
//! 14. Each update that a watcher hears is a view; a stream that is open at rest has told the last value.
//! 15. Limits: see `limits.rs`, and of holds `holds.rs`. Boards and numbers of Redis's dialect: see `additions.rs`.

#![allow(
    clippy::await_holding_refcell_ref,
    reason = "each is dropped before, which the lint does not see"
)]

mod additions;
mod bodies;
mod clocks;
mod digits;
mod holds;
mod laws;
mod limits;
mod looks;
mod operations;
mod oracle;
mod plan;
mod puts;
mod quota;
mod reads;
mod rest;
mod service;
mod soak;
mod watchers;
mod writes;

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::{join, join_all, join5};
use serde_json::{Value, json};

use plan::{Action, Plan};
use service::{Reader, Service};
use tally_simulation::{ClientRequest, Figures, Role};
use tally_wire::names;

/// A sixth of a world's time was spent in the allocator of the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a datacenter is cut off, milliseconds.
const CUT_MS_MAX: u64 = 30_000;

impl Service {
    /// Sets a setting that the deployment has, or takes it away.
    fn change_setting(&self) {
        let chance = self.world.chance();
        let changing = [names::SPLIT_FLUSHES_PER_SECOND, names::QUIET_MS];
        let values = [None, Some("1"), Some("20"), Some("1000")];
        let (name, value) = (changing[chance.pick(2)], values[chance.pick(4)]);
        self.say(|| format!("{name} becomes {value:?}"));
        self.world.set(name, value);
    }

    /// Leads are spread over another number of tablets, or have objects of their own, or the directory has another
    /// number of partitions; some of those who are told so start anew.
    fn spread(&self, site: usize) {
        let chance = self.world.chance();
        let numbers = [None, Some("1"), Some("2"), Some("7"), Some("20")];
        let number = numbers[chance.pick(numbers.len())];
        let variable = [names::TABLET_COUNT, names::DIRECTORY_COUNT][chance.pick(2)];
        self.say(|| format!("{variable} becomes {number:?}"));
        self.world.set(variable, number);
        let who = chance.below(4);
        if [0, 2].contains(&who) {
            self.are_edges_restarted.set(true);
        }
        match who {
            0 => self.world.crash_isolates(Role::Edge, self.sites[site]),
            1 => self.world.crash_all_objects(),
            2 => {
                self.world.crash_all_objects();
                for site in &self.sites {
                    self.world.crash_isolates(Role::Edge, *site);
                }
            }
            _ => {}
        }
    }

    /// Somebody is upgraded; who begins later may still be of the build before.
    fn upgrade(&self) {
        self.are_edges_restarted.set(true);
        let is_one = self.world.upgrade_one();
        self.say(|| format!("one is upgraded: {is_one}"));
    }

    /// Elements are hashed by another key from now on.
    async fn rotate(&self, site: usize) {
        self.rotations.set(self.rotations.get() + 1);
        let ask = ClientRequest::new("POST", "/uniques/rotate");
        let result = self.ask(site, ask, "rotation").await;
        self.say(|| format!("the rotation is told {result:?}"));
    }

    /// Counters are made where their elements are hashed otherwise than usual.
    async fn prepare(&self) {
        for counter in 0..self.counters.len() {
            if self.plan.is_redis {
                let path = format!("/counters/{}", service::id(counter));
                let ask = ClientRequest::new("PUT", path).json(r#"{"unique_hash":"redis"}"#);
                let answer = self
                    .client(0)
                    .ask(ask)
                    .await
                    .expect("nothing goes wrong yet");
                assert_eq!(answer.status, 201, "{}", answer.text());
            }
        }
        if self.plan.limits.is_some() {
            self.prepare_limits().await;
        }
        if self.plan.additions.is_some() {
            self.prepare_additions().await;
        }
        if self.plan.holds.is_some() {
            self.prepare_holds().await;
        }
    }

    /// Does what a client does, one thing after the other.
    async fn live(&self, client: usize) {
        let chance = self.world.chance();
        let site = client % self.sites.len();
        let mut readers: Vec<Reader> = vec![None; self.counters.len()];
        for _ in 0..self.plan.actions {
            self.world
                .sleep_ms(chance.below(self.plan.pause_ms + 1))
                .await;
            let counter = chance.pick(self.counters.len());
            let site = if chance.once_in(5) {
                self.any_site()
            } else {
                site
            };
            match self.plan.action(chance) {
                Action::Add => self.write(site, counter, true).await,
                Action::Take => self.write(site, counter, false).await,
                Action::Keyed => self.write_keyed(site, counter, !chance.once_in(4)).await,
                Action::Read => drop(self.read(site, counter, "", &None).await),
                Action::ReadStrong => {
                    drop(self.read(site, counter, "&consistency=strong", &None).await);
                }
                Action::ReadAgain => {
                    let query = if chance.once_in(3) {
                        "&consistency=strong"
                    } else {
                        ""
                    };
                    let seen = self.read(site, counter, query, &readers[counter]).await;
                    readers[counter] = seen.or(readers[counter].take());
                }
                Action::Body => self.send_body(site, false).await,
                Action::Log => self.send_body(site, true).await,
                Action::Event => self.send_event(site, counter).await,
                Action::Set => self.set(site, counter, false).await,
                Action::Reset => self.set(site, counter, true).await,
                Action::Delete => self.delete(site, counter).await,
                Action::Put => self.put(site, counter).await,
                Action::WriteIf => {
                    let reader = match chance.once_in(2) {
                        true => self.read(site, counter, "&consistency=strong", &None).await,
                        false => readers[counter].clone(),
                    };
                    self.write_if(site, counter, &reader).await;
                }
                Action::Import => self.import(site, counter).await,
                Action::Setting => self.change_setting(),
                Action::Cut => self
                    .world
                    .cut_off(self.sites[site], chance.below(CUT_MS_MAX)),
                Action::Outage => self.world.crash_all_objects(),
                Action::Window => self.read_window(site, counter).await,
                Action::History => self.read_history(site, counter).await,
                Action::Sum => self.read_sum(site).await,
                Action::List => self.list(site).await,
                Action::Watch => self.watch(site).await,
                Action::Clocks => self.world.step_clocks(),
                Action::Rotate => self.rotate(site).await,
                Action::Spread => self.spread(site),
                Action::Upgrade => self.upgrade(),
                Action::Wait => self.world.sleep_ms(chance.below(30_000)).await,
            }
        }
    }
}

/// What a world was.
struct Lived {
    figures: Figures,
    /// How long it took by its clock, milliseconds.
    virtual_ms: u64,
    fingerprint: (u64, u64, u64),
}

/// What a checker of the history must know of a world before it reads any call.
fn head_of(seed: u64, service: &Service) -> Value {
    let plan = &service.plan;
    let datacenters: BTreeMap<&str, &str> = (0..plan.sites.len())
        .map(|site| (plan.sites[site], plan.datacenter(site)))
        .collect();
    json!({
        "form": 1,
        "source": "simulation",
        "seed": seed,
        "began_ms": service.world.now_ms(),
        // Two clocks may be so far apart, and moments are whole milliseconds.
        "clocks_ms": 2 * plan.options.skew_ms_max + 2,
        "datacenters": datacenters,
        "faults": format!("{:?}", plan.faults),
    })
}

/// Lives the world of a seed. Its history goes to a file, if one is named.
fn live(seed: u64, plan: Plan, is_logged: bool, history: Option<&Path>) -> Lived {
    if is_logged {
        eprintln!("{plan:#?}");
    }
    let service = Service::new(seed, plan, is_logged);
    if let Some(path) = history {
        service.world.keep_history(path).expect("a file");
        let head = head_of(seed, &service);
        service.world.note_history("begin", &head);
    }
    let began_ms = service.world.now_ms();
    if service.plan.holds.is_some() {
        service.place_limiters();
    }
    service.world.run(service.prepare());
    service.world.set_faults(service.plan.faults);
    let heals = async {
        service.world.sleep_ms(120_000).await;
        service.heal();
    };
    let clients = join_all((0..service.plan.clients).map(|client| service.live(client)));
    let limited = service
        .plan
        .limits
        .as_ref()
        .map_or(0, |limits| limits.clients);
    let limited = join_all((0..limited).map(|client| service.use_limits(client)));
    let adding = service.plan.additions.as_ref();
    let adding = adding.map_or(0, |additions| additions.clients);
    let adding = join_all((0..adding).map(|client| service.use_additions(client)));
    let holding = service.plan.holds.as_ref().map(|holds| holds.clients);
    let holding = async {
        if let Some(count) = holding {
            let clients = join_all((0..count).map(|client| service.use_holds(client)));
            join(clients, service.move_limiters()).await;
        }
    };
    service
        .world
        .run(join5(clients, limited, adding, holding, heals));
    service.heal();
    service.world.run(service.check_rest());
    assert_eq!(service.world.crossed(), 0, "requests woke each other");
    Lived {
        figures: service.world.figures(),
        virtual_ms: service.world.now_ms().abs_diff(began_ms),
        fingerprint: service.world.fingerprint(),
    }
}
