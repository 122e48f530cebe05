//! Leads that move on while something that their place has begun is under way.
//!
//! Law: once a place has answered that it has no lead, late answers to what it asked before have no effect. So an
//! acknowledged write is counted once, at the place of the lead.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join;
use tally_simulation::{ClientRequest, OneShot, Role};
use tally_wire::names::{DIRECTORY, Placement, TABLET_COUNT};

use super::service::Deployment;

/// An answer that is held until the test lets it go.
struct Held {
    /// How many come until it.
    left: Cell<u32>,
    goes_on: Rc<OneShot<()>>,
}

impl Deployment {
    /// Holds an answer to a path: the next one, or a later one.
    fn hold_answer(&self, path: &'static str, number: u32) -> Rc<Held> {
        let held = Rc::new(Held {
            left: Cell::new(number),
            goes_on: OneShot::new(),
        });
        let known = held.clone();
        self.world.set_answer_judge(move |judged| {
            let left = known.left.get();
            let is_one = judged.path == path && left > 0;
            known.left.set(left - u32::from(is_one));
            let waits = is_one && left == 1;
            let known = known.clone();
            Box::pin(async move {
                if waits {
                    known.goes_on.clone().wait().await;
                }
            })
        });
        held
    }

    async fn wait_for(&self, held: &Held) {
        for _ in 0..10_000 {
            if held.left.get() == 0 {
                return;
            }
            self.world.sleep_ms(1).await;
        }
        panic!("no answer was held");
    }

    /// The partitions, and the edges of some sites, learn a number of tablets. Tablets continue.
    fn learn(&self, number: Option<&str>, edges: &[usize]) {
        self.world.set(TABLET_COUNT, number);
        for (binding, name, ..) in self.world.objects() {
            if binding == DIRECTORY {
                self.world.crash(&Placement {
                    binding,
                    name,
                    location_hint: None,
                });
            }
        }
        for site in edges {
            self.world.crash_isolates(Role::Edge, self.sites[*site]);
        }
    }

    /// Reads a counter at the second site until the answer is exact, so that its leads are at their places.
    async fn read_elsewhere(&self, counter: &str) {
        let path = format!("/counters/{counter}?consistency=strong");
        for _ in 0..100 {
            let read = self.client(1).get(&path).await.expect("an answer");
            if read.status == 404 || (read.status == 200 && read.json()["exact"] == true) {
                return;
            }
            self.world.sleep_ms(20).await;
        }
        panic!("{counter} is never exact");
    }

    /// What counts, also after a crash, and in lists.
    fn counts(&self, counter: &str, value: u64) {
        assert_eq!(self.value(counter), Some(value));
        self.world.crash_all_objects();
        assert_eq!(self.value(counter), Some(value));
        self.world.run_for_ms(70_000);
        assert_eq!(self.listed_values(counter), (Some(value), Some(value)));
    }

    /// The last page of the lead is held on its way to its place, while another place takes the lead.
    fn last_page_comes_late(&self) {
        let held = self.hold_answer("/give-lead", 2);
        let others = async {
            self.wait_for(&held).await;
            let given = self.calls("/give-lead");
            self.learn(Some("64"), &[1]);
            self.read_elsewhere("hits").await;
            assert!(self.calls("/give-lead") > given, "the place is the same");
            held.goes_on.fill(());
        };
        self.world.run(join(self.write(0, "hits", "late"), others));
    }
}

#[test]
fn rows_that_come_after_their_place_has_answered_that_it_has_nothing_are_not_used() {
    let all = Deployment::new(31, TABLET_COUNT, None);
    all.world.run(all.write(0, "hits", "first"));
    all.learn(Some("4"), &[0, 1]);
    all.last_page_comes_late();
    // The first of the two places is asked again.
    all.learn(Some("4"), &[0, 1]);
    all.counts("hits", 2);
}

#[test]
fn a_grant_that_comes_after_its_place_has_answered_that_it_has_nothing_is_not_taken() {
    let all = Deployment::new(32, TABLET_COUNT, Some("4"));
    let held = all.hold_answer("/register", 1);
    let others = async {
        all.wait_for(&held).await;
        let given = all.calls("/give-lead");
        all.learn(Some("64"), &[0, 1]);
        all.write(0, "hits", "second").await;
        assert!(all.calls("/give-lead") > given, "the place is the same");
        held.goes_on.fill(());
    };
    all.world.run(join(all.write(0, "hits", "late"), others));
    // The first place is asked again.
    all.learn(Some("4"), &[0, 1]);
    all.counts("hits", 2);
}

/// The first page of a lead has come, and no more. Then the lead moves elsewhere, and its counter ends.
#[test]
fn rows_of_a_move_that_did_not_end_are_not_in_the_way_of_the_next_counter() {
    let all = Deployment::new(34, TABLET_COUNT, None);
    all.world.run(all.write(0, "hits", "first"));
    all.learn(Some("4"), &[0, 1]);
    all.last_page_comes_late();
    assert_eq!(all.value("hits"), Some(2));
    let delete = ClientRequest::new("DELETE", "/counters/hits");
    let deleted = all.world.run(all.client(0).ask(delete)).expect("an answer");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    all.world.run_for_ms(10_000);
    all.learn(Some("4"), &[0, 1]);
    let client = all.client(0);
    let add = client.post("/counters/hits/increment", "{}");
    let answer = all.world.run(add).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    all.counts("hits", 1);
}
