//! Bulk bodies, as `edge::bulk`: lines of several counters are summed, and each counter's sum is one write; what is
//! keyed counts once, however often the body is sent.
//!
//! Invariant: a body's lines are all in its writes, each in one of them.

use std::borrow::Cow;
use std::rc::Rc;

use tally::counter::id::CounterId;
use tally::counter::ledger::WriteKey;
use tally::protocol::batch::Record;
use tally::protocol::batch::gather::{CLOCK_SKEW_MS, Gather, Limits, Times};
use tally::protocol::batch::keyed::{BodyKey, KeyedWrites};
use tally::protocol::batch::plan::{Addressed, Plan};

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
    /// Its lines: (counter, amount, id).
    fn lines(self, counters: usize) -> Vec<(usize, u128, Option<String>)> {
        let number = usize::from(self.number);
        let line = |line: usize| {
            let counter = (number + line * line) % counters;
            // A body without a key is never sent again, so neither are its lines.
            let has_id = self.has_key && (number + line).is_multiple_of(3);
            let id = has_id.then(|| format!("{number}-{line}"));
            let amount = u128::try_from(number * 10 + line + 1).expect("small");
            (counter, amount, id)
        };
        (0..2 + number % 5).map(line).collect()
    }
}

/// Sends a body once through the isolate that has these edges. True if each of its keyed writes has its last
/// answer.
pub async fn send(edges: Vec<Rc<Edge>>, body: Body, written: Vec<Written>) -> bool {
    let now_ms = edges[0].now_ms();
    let limits = Limits {
        counters_max: 10,
        times: Times::Live,
        clock_skew_ms: CLOCK_SKEW_MS,
    };
    let mut gather = Gather::new(limits, 0);
    let lines = body.lines(edges.len());
    let hash = |bytes: &[u8]| {
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold)
    };
    for (line, (counter, delta, id)) in (1..).zip(&lines) {
        let record = Record {
            key: edges[*counter].air.name().as_str().to_owned().into(),
            delta: *delta,
            unique: None,
            at_ms: None,
            id: id.as_deref().map(Cow::Borrowed),
        };
        gather.add(line, &record, now_ms, &hash);
    }
    let (sums, mut report) = gather.finish();
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
        Times::Live,
        &here,
        |counter| edges[air_of(counter)].shards.get(),
        |shards| edges[0].own_shard(shards),
        key,
        &mut report,
    );
    let accepted = u64::try_from(lines.len()).expect("few lines");
    assert_eq!((report.accepted, report.rejected), (accepted, 0));
    let (keyed, plain) = (plan.keyed(), plan.amounts());
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
            let answers = some.writes.iter().zip(landed);
            let answered = answers.map(|(write, (lead, outcome))| {
                let mut oracle = air.oracle.borrow_mut();
                oracle.answers(write.key, write.fingerprint, &lead, &outcome)
            });
            answered.fold(true, |all, one| all & one)
        }
        .boxed()
    };
    let answered = all(keyed.into_iter().map(count).collect()).await;
    answered.into_iter().all(|is_answered| is_answered)
}

/// All lines are in the writes, and nothing else is.
fn check(
    lines: &[(usize, u128, Option<String>)],
    keyed: &[KeyedWrites],
    plain: impl Iterator<Item = u128>,
) {
    let keyed = keyed.iter().flat_map(|some| &some.writes);
    let counted: u128 = keyed.map(|write| write.added).sum();
    let sum: u128 = lines.iter().map(|(_, amount, _)| amount).sum();
    assert_eq!(counted + plain.sum::<u128>(), sum, "a body does not add up");
}
