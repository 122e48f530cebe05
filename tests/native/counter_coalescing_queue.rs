//! Laws of the coalescing queue: nothing is lost or leaves twice, each receiver's items leave in order, what is in
//! flight is bounded, and whoever sends only when told to sends everything.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tally_core::counter::coalescing_queue::CoalescingQueue;

/// The most items of a batch here.
const FITS: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    /// An item for a receiver.
    Join(u8),
    /// Who was told first to begin a batch takes what there is.
    Begin,
    /// The batch that was taken first ends, or a later one.
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_u8..4).prop_map(Step::Join),
        3 => Just(Step::Begin),
        3 => (0_usize..4).prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..200)
}

/// A queue, and what was done with it.
struct Played {
    queue: CoalescingQueue<u8, u32>,
    batches_max: usize,
    joined: BTreeMap<u8, Vec<u32>>,
    left: BTreeMap<u8, Vec<u32>>,
    in_flight: Vec<u8>,
    due: Vec<u8>,
}

impl Played {
    fn new(batches_max: usize) -> Self {
        Self {
            queue: CoalescingQueue::new(batches_max),
            batches_max,
            joined: BTreeMap::new(),
            left: BTreeMap::new(),
            in_flight: Vec::new(),
            due: Vec::new(),
        }
    }

    fn join(&mut self, to: u8, item: u32) {
        self.joined.entry(to).or_default().push(item);
        if self.queue.join(&to, item) {
            self.due.push(to);
        }
    }

    /// Takes all batches of a receiver that may leave.
    fn begin(&mut self, to: u8) -> Result<(), TestCaseError> {
        loop {
            let mut room = FITS;
            let fits = |_: &u32| {
                room = room.saturating_sub(1);
                room > 0
            };
            let Some(batch) = self.queue.take(&to, fits) else {
                return Ok(());
            };
            prop_assert!((1..=FITS as usize).contains(&batch.len()));
            self.left.entry(to).or_default().extend(batch);
            self.in_flight.push(to);
            let own = self.in_flight.iter().filter(|one| **one == to);
            prop_assert!(own.count() <= self.batches_max);
        }
    }

    fn end(&mut self, place: usize) {
        if !self.in_flight.is_empty() {
            let to = self.in_flight.remove(place % self.in_flight.len());
            if self.queue.end(&to) {
                self.due.push(to);
            }
        }
    }
}

proptest! {
    #[test]
    fn all_leaves_once_in_order_and_bounded_where_each_is_sent_that_was_told(
        steps in steps(),
        batches_max in 1_usize..4,
    ) {
        let mut played = Played::new(batches_max);
        for (step, item) in steps.into_iter().zip(0..) {
            match step {
                Step::Join(to) => played.join(to, item),
                Step::Begin => if !played.due.is_empty() {
                    let to = played.due.remove(0);
                    played.begin(to)?;
                },
                Step::End(place) => played.end(place),
            }
        }
        while !(played.due.is_empty() && played.in_flight.is_empty()) {
            if let Some(to) = played.due.pop() {
                played.begin(to)?;
            }
            played.end(0);
        }
        prop_assert_eq!(&played.left, &played.joined);
        prop_assert_eq!(played.queue.ready(usize::MAX), Vec::<u8>::new());
    }

    #[test]
    fn those_that_are_ready_may_leave_and_are_no_more_than_there_is_room_for(
        joins in prop::collection::vec(0_u8..20, 0..60),
        taken in 0_usize..6,
        most in 0_usize..12,
    ) {
        let mut queue = CoalescingQueue::new(1);
        for (to, item) in joins.iter().zip(0_u32..) {
            queue.join(to, item);
        }
        let first = queue.ready(taken);
        for to in &first {
            prop_assert!(queue.take(to, |_| true).is_some());
            prop_assert_eq!(queue.take(to, |_| true), None);
        }
        let ready = queue.ready(most);
        prop_assert!(ready.len() <= most.saturating_sub(first.len()));
        prop_assert!(ready.iter().all(|to| !first.contains(to)));
        let all = queue.ready(usize::MAX).len();
        let receivers: std::collections::BTreeSet<u8> = joins.into_iter().collect();
        prop_assert_eq!(all, receivers.len() - first.len());
    }
}

#[test]
fn what_is_ended_twice_or_was_never_there_changes_nothing() {
    let mut queue = CoalescingQueue::new(1);
    assert!(!queue.end(&1));
    assert!(queue.join(&1, "a"));
    assert!(!queue.join(&1, "b"), "one was told already");
    assert_eq!(queue.take(&1, |_| false), Some(vec!["a"]), "one at least");
    assert!(queue.end(&1), "b waits");
    assert_eq!(queue.take(&1, |_| true), Some(vec!["b"]));
    assert!(!queue.end(&1));
    assert!(!queue.end(&1));
    assert_eq!(queue.take(&1, |_| true), None);
}
