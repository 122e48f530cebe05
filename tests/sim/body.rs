//! Bulk bodies, as `edge::bulk`: lines of several counters are summed, and each counter's sum is one write; what is
//! keyed counts once, however often the body is sent.
//!
//! Invariant: a body's lines are all in its writes, each in one of them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::rc::Rc;

use tally::core::counter::flush::Element;
use tally::core::counter::id::CounterId;
use tally::core::counter::ledger::{KeyedOutcome, WriteKey};
use tally::core::sketch::HashKey;
use tally::protocol::batch::Record;
use tally::protocol::batch::gather::{CLOCK_SKEW_MS, Gather, Limits, Manner, Times};
use tally::protocol::batch::keyed::{BodyKey, KeyedElements, KeyedWrites};
use tally::protocol::batch::plan::{Addressed, Plan};

use super::chance::Chance;
use super::client::count_keyed;
use super::edge::{self, Edge};
use super::network::all;
use super::world::Written;
use super::{Boxed, datacenter};

/// A body as its client names it: what is in it follows from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Body {
    pub number: u8,
    pub has_key: bool,
}

impl Body {
    /// Its lines.
    fn lines(self, counters: usize) -> Vec<Line> {
        let number = usize::from(self.number);
        let line = |line: usize| {
            let counter = (number + line * line) % counters;
            // A body without a key is never sent again, so neither are its lines.
            let has_id = self.has_key && (number + line).is_multiple_of(3);
            let id = has_id.then(|| format!("{number}-{line}"));
            let amount = u128::try_from(number * 10 + line + 1).expect("small");
            // Some elements are in several bodies.
            let element = (number + 2 * line).is_multiple_of(3);
            let element = element.then(|| format!("visitor {}", (number * 5 + line) % 24));
            Line {
                counter,
                amount,
                id,
                element,
            }
        };
        (0..2 + number % 5).map(line).collect()
    }
}

/// A line of a body.
struct Line {
    counter: usize,
    amount: u128,
    id: Option<String>,
    element: Option<String>,
}

/// A keyed hash of an element or of an id, to all that see it.
fn hash(bytes: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let folded = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    Chance::new(folded).below(u64::MAX)
}

/// Sends a body once through the isolate that has these edges. True if each of its keyed writes has its last
/// answer.
pub async fn send(edges: Vec<Rc<Edge>>, body: Body, written: Vec<Written>) -> bool {
    let now_ms = edges[0].now_ms();
    let limits = Limits {
        times: Times::Live,
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let mut gather = Gather::new(limits, 0);
    let lines = body.lines(edges.len());
    for (number, line) in (1..).zip(&lines) {
        let record = Record {
            key: edges[line.counter].air.name().as_str().to_owned().into(),
            delta: line.amount,
            unique: line.element.as_ref().map(|name| name.as_bytes().into()),
            at_ms: None,
            id: line.id.as_deref().map(Cow::Borrowed),
            sample: None,
        };
        gather.add(number, &record, now_ms, &hash);
    }
    let (sums, report) = gather.finish();
    let key = body.has_key.then_some(BodyKey {
        key: WriteKey([0xb0 ^ body.number; 16]),
        fingerprint: body.number.into(),
    });
    let air_of = |counter: &CounterId| {
        let mut places = edges.iter();
        let place = places.position(|edge| edge.air.name() == *counter);
        place.expect("a counter")
    };
    let here = datacenter(edges[0].datacenter);
    let mut plan = Plan::new(
        sums,
        Manner::new(Times::Live, HashKey::from([7; 16]).id()),
        &here,
        |counter| edges[air_of(counter)].shards.get(),
        |shards| edges[0].own_shard(shards),
        key,
    );
    let accepted = u64::try_from(lines.len()).expect("few lines");
    assert_eq!((report.accepted, report.rejected), (accepted, 0));
    // Each element is known by its hash, which chooses its shard.
    let named = lines.iter().filter_map(|line| line.element.as_ref());
    let named: Vec<u64> = named.map(|name| hash(name.as_bytes())).collect();
    let store = |elements: Vec<Addressed>| {
        let mut stored = Vec::new();
        for Addressed { to, load, .. } in elements {
            let counter = air_of(&to.counter);
            for (_, element) in load.tokens {
                let mut hashes = named.iter().copied();
                let hashed = hashes.find(|hashed| Element::of(*hashed) == element);
                let edge = edges[counter].clone();
                let (hashed, written) = (hashed.expect("of a line"), written[counter].clone());
                stored.push(edge::write(edge, (0, 0), Some(hashed), written).boxed());
            }
        }
        all(stored)
    };
    let (keyed, mut elements) = (plan.keyed(), plan.elements());
    let plain = plan.amounts();
    // Those of the shard that gets the amounts are in one load with them, but stored as the others here.
    elements.extend(plain.clone());
    check_elements(&lines, &elements, |line| !body.has_key && line.id.is_none());
    store(elements).await;
    check(&lines, &keyed, plain.iter().map(|plain| plain.load.added));
    let count_plain = |plain: Addressed| {
        let counter = air_of(&plain.to.counter);
        let edge = edges[counter].clone();
        edge::write(edge, (plain.load.added, 0), None, written[counter].clone()).boxed()
    };
    all(plain.into_iter().map(count_plain).collect()).await;
    let count = |some: KeyedWrites| {
        let air = edges[air_of(&some.counter)].air.clone();
        let here = here.clone();
        async move {
            for write in &some.writes {
                let mut oracle = air.oracle.borrow_mut();
                let delta = (write.added, write.removed);
                oracle.keys.wants(write.key, write.fingerprint, delta);
            }
            let landed = count_keyed(&air, &here, &some.writes).await;
            let mut answered = true;
            let mut counted = Vec::new();
            for (write, (lead, outcome)) in some.writes.iter().zip(landed) {
                let mut oracle = air.oracle.borrow_mut();
                answered &= oracle.answers(write.key, write.fingerprint, &lead, &outcome);
                counted.push(match outcome {
                    Ok(KeyedOutcome::Counted(recorded) | KeyedOutcome::Replayed(recorded)) => {
                        Some(recorded.at_ms.div_euclid(1_000))
                    }
                    _ => None,
                });
            }
            (some, counted, answered)
        }
        .boxed()
    };
    let (mut is_answered, mut is_counted) = (true, true);
    let mut elements = KeyedElements::default();
    for (some, counted, answered) in all(keyed.into_iter().map(count).collect()).await {
        is_answered &= answered;
        is_counted &= counted.iter().all(Option::is_some);
        elements.add(some, &here, &counted);
    }
    let elements = elements.loads();
    if is_counted {
        check_elements(&lines, &elements, |line| body.has_key || line.id.is_some());
    }
    store(elements).await;
    is_answered
}

/// The elements of these lines are there, and no other.
fn check_elements(lines: &[Line], elements: &[Addressed], is_of: impl Fn(&Line) -> bool) {
    let lines = lines.iter().filter(|line| is_of(line));
    let named = lines.filter_map(|line| Some((line.counter, line.element.as_ref()?)));
    let named: BTreeSet<(usize, &String)> = named.collect();
    let stored = elements.iter().map(|some| &some.load);
    let stored = stored.map(|load| load.tokens.len() + load.past_tokens.len());
    assert_eq!(stored.sum::<usize>(), named.len(), "elements of a body");
}

/// All lines are in the writes, and nothing else is.
fn check(lines: &[Line], keyed: &[KeyedWrites], plain: impl Iterator<Item = u128>) {
    let keyed = keyed.iter().flat_map(|some| &some.writes);
    let counted: u128 = keyed.map(|write| write.added).sum();
    let sum: u128 = lines.iter().map(|line| line.amount).sum();
    assert_eq!(counted + plain.sum::<u128>(), sum, "a body does not add up");
}
